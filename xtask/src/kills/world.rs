//! The environment of a trial: the configuration, two upstreams, and the server if it is not the
//! client's child.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use marquetry_scenarios::{
    Revision,
    given::Upstream,
    upstream::{Journal, Offer, Spec},
};
use rustix::process::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    time::timeout,
};

use super::{
    caller::Tool,
    plan::{Plan, Program, Victim},
};
use crate::scenarios::listening_address;

/// Time that the upstreams of a trial have to exit by themselves, and after SIGTERM.
const GRACE_MS: u64 = 300;
/// Time limit of a call that ends in no other way.
const CALL_LIMIT: Duration = Duration::from_secs(2);

/// Name of the upstream that is killed.
pub(super) const SHAKEN: &str = "shaken";
/// Name of the upstream that is not killed.
pub(super) const STEADY: &str = "steady";

pub(super) struct World {
    folder: TempDir,
    is_real: bool,
}

impl World {
    pub(super) fn new(plan: &Plan) -> io::Result<Self> {
        let folder = TempDir::with_prefix("marquetry-kills-")?;
        let is_real = matches!(plan.program, Program::Real(_));
        let world = Self { folder, is_real };
        let this = std::env::current_exe()?;
        let mut servers = serde_json::Map::new();
        for name in [SHAKEN, STEADY] {
            let spec = world.path(name, "json");
            let offer = offer(&spec.with_extension(""))?;
            let journal = world.path(name, "calls");
            let contents = Spec { name: name.to_owned(), journal, control: None, offer };
            fs::write(&spec, serde_json::to_vec(&contents)?)?;
            let program = if name == STEADY { &Program::Polite } else { &plan.program };
            let args = match program {
                Program::Real(script) => {
                    json!(["-c", script_of(program), world.path(name, "pid"), "node", script])
                }
                _ => json!([
                    "-c",
                    script_of(program),
                    world.path(name, "pid"),
                    this,
                    "upstream",
                    spec
                ]),
            };
            servers.insert(name.to_owned(), json!({ "command": "sh", "args": args }));
        }
        let mut gateway =
            json!({ "stop_grace_ms": GRACE_MS, "restart_delay_ms": 50, "list_wait_ms": 30_000 });
        if plan.victim == Victim::Client && plan.revision == Revision::V2025_11_25 {
            gateway["call_timeout_ms"] = (CALL_LIMIT.as_millis() as u64).into();
        }
        let config = json!({
            "server": { "shutdown_grace_ms": 300 },
            "gateway": gateway,
            "mcp_servers": servers,
        });
        let config = toml::to_string(&config).map_err(io::Error::other)?;
        fs::write(world.config(), config)?;
        Ok(world)
    }

    pub(super) fn config(&self) -> PathBuf {
        self.folder.path().join("marquetry.toml")
    }

    fn path(&self, upstream: &str, extension: &str) -> PathBuf {
        self.folder.path().join(format!("{upstream}.{extension}"))
    }

    pub(super) fn is_real(&self) -> bool {
        self.is_real
    }

    /// Returns the process that runs the upstream's program, if one has started.
    pub(super) fn process(&self, upstream: &str) -> Option<Pid> {
        let id = fs::read_to_string(self.path(upstream, "pid")).ok()?;
        Pid::from_raw(id.trim().parse().ok()?)
    }

    /// Returns the tool that answers at once.
    pub(super) fn busy(&self, upstream: &str) -> Tool {
        let name = format!("{upstream}__echo");
        Tool { name, arguments: json!({ "message": "schön" }) }
    }

    /// Returns the tool that does not answer within a minute.
    pub(super) fn silent(&self) -> Tool {
        let (name, arguments) = if self.is_real {
            ("trigger-long-running-operation", json!({ "duration": 60, "steps": 2 }))
        } else {
            ("silent", json!({}))
        };
        Tool { name: format!("{SHAKEN}__{name}"), arguments }
    }

    /// Returns the number of calls to the silent tool that reached the upstream, and the number of
    /// those that were cancelled.
    pub(super) fn silent_calls(&self) -> io::Result<(usize, usize)> {
        let calls = Journal::open(self.path(SHAKEN, "calls"))?.calls()?;
        Ok((count_silent(&calls, "tool"), count_silent(&calls, "cancelled")))
    }
}

/// Counts the entries that name the silent tool in the member `key`.
fn count_silent(calls: &[Value], key: &str) -> usize {
    calls.iter().filter(|call| call[key] == "silent").count()
}

/// Returns a script that writes its process id to the file `$0`, and then becomes the program in
/// its arguments.
fn script_of(program: &Program) -> &'static str {
    match program {
        Program::Polite | Program::Real(_) => r#"echo $$ > "$0"; exec "$@""#,
        Program::Stubborn => r#"trap "" TERM; echo $$ > "$0"; "$@"; sleep 1000; sleep 1000"#,
        Program::Parent => r#"sleep 1000 & echo $$ > "$0"; exec "$@""#,
        Program::ParentOfRunaway => r#"setsid sleep 1000 & echo $$ > "$0"; exec "$@""#,
    }
}

fn offer(folder: &Path) -> io::Result<Offer> {
    const TOOLS: &str = "tools: {echo: {answers: [schön]}, silent: {answers: [{silence: true}]}}";
    let upstream: Upstream = serde_yaml::from_str(TOOLS).map_err(io::Error::other)?;
    Offer::new(&upstream, folder).map_err(io::Error::other)
}

/// `marquetry serve`, as a child of this process.
pub(super) struct ServerProcess {
    pub(super) child: Child,
    lines: tokio::io::Lines<BufReader<tokio::process::ChildStderr>>,
}

impl ServerProcess {
    pub(super) fn start(program: &Path, config: &Path) -> io::Result<Self> {
        let mut command = Command::new(program);
        command.args(["serve", "--listen", "127.0.0.1:0", "--log", "error", "--config"]);
        command.arg(config).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let stderr = child.stderr.take().ok_or_else(|| io::Error::other("no pipe"))?;
        Ok(Self { child, lines: BufReader::new(stderr).lines() })
    }

    /// Returns the URL when the server prints it; [`None`] if the server exits before.
    pub(super) async fn url(&mut self) -> Option<String> {
        while let Ok(Some(line)) = self.lines.next_line().await {
            if let Some(address) = listening_address(&line) {
                return Some(format!("http://{address}/mcp"));
            }
        }
        None
    }

    /// Asks the server to exit with SIGTERM.
    pub(super) async fn end(mut self) -> Result<(), String> {
        let Some(id) = self.child.id().and_then(|id| Pid::from_raw(id as i32)) else {
            return Err("the server has exited too early".to_owned());
        };
        rustix::process::kill_process(id, rustix::process::Signal::TERM)
            .map_err(|error| error.to_string())?;
        let limit = Duration::from_secs(10);
        // Output that is not read would block the server.
        let read_output = async { while let Ok(Some(_)) = self.lines.next_line().await {} };
        let (status, ()) = timeout(limit, async { tokio::join!(self.child.wait(), read_output) })
            .await
            .map_err(|_| format!("the server did not exit within {} s", limit.as_secs()))?;
        let status = status.map_err(|error| error.to_string())?;
        if status.success() { Ok(()) } else { Err(format!("the server exited with {status}")) }
    }
}
