//! `cargo xtask bench start`: the server's time to ready, its idle memory, and the size of its own
//! tools.

use std::{
    fmt::Write as _,
    io::{BufRead as _, BufReader, Write as _},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    thread,
    time::{Duration, Instant},
};

use clap::Args;
use marquetry_scenarios::plain_http::{Exchange, exchange};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{echo, progress_bar, report};
use crate::{Failed, cargo_command, proc_stat, root};

/// The aim: the maximum size of the server's own tools in `tools/list`, in bytes.
const AIM: usize = 12_000;
/// Maximum time until the server is ready.
const READY_TIMEOUT: Duration = Duration::from_mins(1);

/// Options of `bench start`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Number of starts; the median counts.
    #[arg(long, default_value_t = 10)]
    runs: usize,
    /// Measures one start.
    #[arg(long, conflicts_with = "runs")]
    quick: bool,
    /// Measures this program instead of a fresh release build.
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Idle time before the memory is read, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 1_000)]
    idle_ms: u64,
    /// Writes the table into docs/benchmarks.md.
    #[arg(long)]
    write: bool,
}

/// Figures of one start.
#[derive(Clone, Debug)]
struct Start {
    /// From the start of the process to the line with its address.
    listening: Duration,
    /// From the start of the process to the first 200 of `/readyz`.
    ready: Duration,
    /// Memory of the server without its upstreams.
    resident: u64,
    tools: usize,
    bytes: usize,
    /// From the start of another process to its answer to `tools/list` over stdio.
    stdio: Duration,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failed> {
    let runs = if options.quick { 1 } else { options.runs.max(1) };
    let bar = progress_bar(2 * runs);
    bar.set_message("building");
    let program = match &options.binary {
        Some(path) => path.canonicalize()?,
        None => build()?,
    };
    let idle = Duration::from_millis(options.idle_ms);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut rows = Vec::new();
    for servers in [0, 5] {
        let folder = TempDir::with_prefix("marquetry-start-")?;
        let config = configure(&program, folder.path(), servers)?;
        let mut starts = Vec::new();
        for _ in 0..runs {
            bar.set_message(format!("{servers} upstreams"));
            starts.push(runtime.block_on(start(&program, &config, idle))?);
            bar.inc(1);
        }
        rows.push((servers, starts));
    }
    bar.finish_and_clear();
    let report = table(&rows)?;
    println!("{report}");
    if options.write {
        report::write("start", &report)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn build() -> Result<PathBuf, Failed> {
    let status = cargo_command()
        .args(["build", "--release", "--quiet", "--package", "marquetry", "--bin", "marquetry"])
        .current_dir(root())
        .status()?;
    if !status.success() {
        return Err(Failed::new("the server failed to build"));
    }
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into);
    Ok(target.join("release/marquetry"))
}

/// Writes a configuration with `servers` upstreams. Each is another Marquetry, since no other MCP
/// server is certain to be installed.
fn configure(program: &Path, folder: &Path, servers: usize) -> Result<PathBuf, Failed> {
    let behind = folder.join("behind.toml");
    std::fs::write(&behind, "knowledge.enabled = false\n")?;
    let upstreams: serde_json::Map<String, Value> = (0..servers)
        .map(|number| {
            let args = json!(["stdio", "--log", "off", "--config", behind]);
            (format!("server{number}"), json!({"command": program, "args": args}))
        })
        .collect();
    let config = json!({
        "knowledge": {"database": folder.join("knowledge.db")},
        "mcp_servers": upstreams,
    });
    let path = folder.join("marquetry.toml");
    let text = toml::to_string(&config).map_err(|error| Failed::new(error.to_string()))?;
    std::fs::write(&path, text)?;
    Ok(path)
}

/// A running program. Dropping it sends SIGTERM, so that the program also ends its upstreams.
struct RunningServer(Child);

impl Drop for RunningServer {
    fn drop(&mut self) {
        _ = Command::new("kill").arg(self.0.id().to_string()).status();
        for _ in 0..200 {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

async fn start(program: &Path, config: &Path, idle: Duration) -> Result<Start, Failed> {
    let started = Instant::now();
    let mut command = Command::new(program);
    command.args(["serve", "--listen", "127.0.0.1:0", "--log-format", "json", "--config"]);
    command.arg(config).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut running = RunningServer(command.spawn()?);
    let stderr = running.0.stderr.take().ok_or_else(|| Failed::new("a child without pipes"))?;
    let mut lines = BufReader::new(stderr).lines();
    let address = loop {
        let line = lines.next().ok_or_else(|| Failed::new("the server ended"))??;
        if let Some(address) = listening(&line) {
            break address;
        }
    };
    let listening = started.elapsed();
    // Later lines must not fill the pipe.
    thread::spawn(move || lines.for_each(drop));
    loop {
        let get = Exchange { method: "GET".into(), path: "/readyz".into(), ..Exchange::default() };
        if exchange(address, get).await?["status"] == 200 {
            break;
        }
        if started.elapsed() > READY_TIMEOUT {
            return Err(Failed::new(format!("not ready within {} s", READY_TIMEOUT.as_secs())));
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let ready = started.elapsed();
    tokio::time::sleep(idle).await;
    let resident = proc_stat::resident(running.0.id())?;
    let list = Exchange {
        method: "POST".into(),
        path: "/mcp/v1/tools/list".into(),
        body: b"{}".to_vec(),
        ..Exchange::default()
    };
    let listed = exchange(address, list).await?;
    let tools = &listed["body"]["tools"];
    let count = tools.as_array().ok_or_else(|| Failed::new(format!("no tools: {listed}")))?.len();
    drop(running);
    let stdio = over_stdio(program, config)?;
    Ok(Start { listening, ready, resident, tools: count, bytes: tools.to_string().len(), stdio })
}

/// Returns the address in the JSON line about the listener.
pub(super) fn listening(line: &str) -> Option<SocketAddr> {
    let line: Value = serde_json::from_str(line).ok()?;
    let url = line["url"].as_str().filter(|_| line["message"] == "listening")?;
    url.strip_prefix("http://")?.strip_suffix("/mcp")?.parse().ok()
}

/// Returns the time until a client that starts the server has the list of tools.
fn over_stdio(program: &Path, config: &Path) -> Result<Duration, Failed> {
    let started = Instant::now();
    let mut command = Command::new(program);
    command.args(["stdio", "--log", "off", "--config"]).arg(config);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut running = RunningServer(command.spawn()?);
    let (Some(mut input), Some(output)) = (running.0.stdin.take(), running.0.stdout.take()) else {
        return Err(Failed::new("a child without pipes"));
    };
    let list = json!({"jsonrpc": "2.0", "id": "list", "method": "tools/list"});
    writeln!(input, "{}\n{}\n{list}", echo::initialize(), echo::initialized())?;
    for line in BufReader::new(output).lines() {
        let message: Value = serde_json::from_str(&line?)
            .map_err(|error| Failed::new(format!("standard output is not JSON: {error}")))?;
        if message["id"] == "list" {
            return Ok(started.elapsed());
        }
    }
    Err(Failed::new("the server did not answer `tools/list` over stdio"))
}

fn table(rows: &[(usize, Vec<Start>)]) -> Result<String, Failed> {
    let runs = rows.first().map_or(0, |(_, starts)| starts.len());
    let mut out = format!("{} the median of {runs} starts.\n\n", report::where_and_when());
    out.push_str(
        "| servers behind | listens after ms | ready after ms | tools over stdio after ms | idle MiB | tools | bytes of `tools/list` |\n|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    let mut own = 0;
    for (servers, starts) in rows {
        let mebibytes =
            median(starts.iter().map(|start| start.resident)) as f64 / f64::from(1 << 20);
        let tools = median(starts.iter().map(|start| start.tools));
        let bytes = median(starts.iter().map(|start| start.bytes));
        if *servers == 0 {
            own = bytes;
        }
        writeln!(
            out,
            "| {servers} | {:.0} | {:.0} | {:.0} | {mebibytes:.1} | {tools} | {bytes} |",
            median_ms(starts, |start| start.listening),
            median_ms(starts, |start| start.ready),
            median_ms(starts, |start| start.stdio),
        )
        .map_err(|error| Failed::new(error.to_string()))?;
    }
    let judged = if own <= AIM { "met" } else { "**falls short**" };
    writeln!(out, "\nAim: own tools of at most {AIM} bytes: {judged} ({own}).")
        .map_err(|error| Failed::new(error.to_string()))?;
    Ok(out)
}

fn median_ms(starts: &[Start], of: fn(&Start) -> Duration) -> f64 {
    median(starts.iter().map(of)).as_secs_f64() * 1_000.0
}

fn median<T: Ord + Default>(values: impl Iterator<Item = T>) -> T {
    let mut values: Vec<T> = values.collect();
    values.sort();
    let middle = values.len() / 2;
    values.into_iter().nth(middle).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_the_listener_is_found() {
        let line = r#"{"level":"INFO","message":"listening","url":"http://127.0.0.1:3001/mcp"}"#;
        assert_eq!(listening(line), Some(SocketAddr::from(([127, 0, 0, 1], 3001))));
        assert_eq!(listening(r#"{"message":"upstream is ready"}"#), None);
    }

    #[test]
    fn the_table_has_every_figure_and_the_aim() {
        let starts = [30, 10, 20].map(|ms| Start {
            listening: Duration::from_millis(ms),
            ready: Duration::from_millis(2 * ms),
            resident: 3 << 20,
            tools: 4,
            bytes: 13_000,
            stdio: Duration::from_millis(5 * ms),
        });
        let rows = [(0, starts.to_vec())];
        let table = table(&rows).unwrap();
        assert!(table.contains("| 0 | 20 | 40 | 100 | 3.0 | 4 | 13000 |"), "{table}");
        assert!(table.contains("**falls short** (13000)"), "{table}");
    }
}
