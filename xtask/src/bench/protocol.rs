//! `cargo xtask bench protocol`: calls of an echo tool, over every transport and in both eras.

use std::{process::ExitCode, time::Duration};

use clap::Args;
use serde_json::{Value, json};

use super::{
    http,
    peer::{Peer, Program},
    progress_bar, report, stdio,
};
use crate::Failed;

pub(super) const SESSIONS: &str = "2025-11-25";
pub(super) const STATELESS: &str = "2026-07-28";
/// How much text is echoed, in bytes.
pub(super) const SIZES: [usize; 2] = [16, 64 << 10];

/// Options of `bench protocol`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// One round of a second each.
    #[arg(long)]
    quick: bool,
    /// Rounds; each peer has its turn in each round, and the middle one of its results counts.
    #[arg(long, default_value_t = 3, conflicts_with = "quick")]
    rounds: usize,
    /// Seconds of load in a turn.
    #[arg(long, default_value_t = 3, conflicts_with = "quick")]
    seconds: u64,
    /// Rows whose description has this text alone, for example `HTTP 2025`.
    #[arg(long, value_name = "TEXT", conflicts_with = "write")]
    only: Option<String>,
    /// Puts the table into docs/benchmarks.md.
    #[arg(long)]
    write: bool,
}

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Row {
    Http(http::Row),
    Stdio(stdio::Row),
}

/// What one turn of one peer gave.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) requests: u64,
    pub(super) time: Duration,
    /// The server's.
    pub(super) cpu: Duration,
    pub(super) p50: Duration,
    pub(super) p99: Duration,
    /// In bytes, at the end.
    pub(super) resident: u64,
}

/// The turns of one peer at one row.
#[derive(Debug)]
pub(super) struct Turns {
    pub(super) row: Row,
    pub(super) peer: Peer,
    pub(super) measured: Vec<Measured>,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failed> {
    let (rounds, seconds) = if options.quick { (1, 1) } else { (options.rounds, options.seconds) };
    let only = options.only.as_deref().unwrap_or_default();
    let mut turns: Vec<Turns> = Row::all()
        .into_iter()
        .filter(|row| row.description().contains(only))
        .flat_map(|row| Peer::ALL.map(|peer| Turns { row, peer, measured: Vec::new() }))
        .filter(|turns| turns.row.exists_for(turns.peer))
        .collect();

    let bar = progress_bar(turns.len() * rounds);
    let mut programs = Vec::new();
    for peer in Peer::ALL {
        bar.set_message(format!("building {}", peer.name()));
        programs.push(Program::build(peer)?);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for _ in 0..rounds {
        for turns in &mut turns {
            let what = format!("{}, {}", turns.row.description(), turns.peer.name());
            bar.set_message(what.clone());
            let time = Duration::from_secs(seconds);
            let program = programs
                .iter()
                .find(|program| program.peer == turns.peer)
                .ok_or_else(|| Failed::new("a peer without a program"))?;
            let measured = match turns.row {
                Row::Http(row) => runtime.block_on(http::measure(program, row, time)),
                Row::Stdio(row) => stdio::measure(program, row, time),
            };
            let measured = measured.map_err(|why| Failed::new(format!("{what}: {why}")))?;
            turns.measured.push(measured);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();

    let report = report::report(&turns, rounds, seconds)?;
    println!("{report}");
    if options.write {
        report::write("protocol", &report)?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Row {
    fn all() -> Vec<Self> {
        let http = http::Row::all().into_iter().map(Self::Http);
        http.chain(stdio::Row::all().into_iter().map(Self::Stdio)).collect()
    }

    fn exists_for(self, peer: Peer) -> bool {
        match self {
            Self::Http(row) => row.exists_for(peer),
            Self::Stdio(_) => true,
        }
    }

    pub(super) fn bytes(self) -> usize {
        match self {
            Self::Http(row) => row.bytes,
            Self::Stdio(row) => row.bytes,
        }
    }

    pub(super) fn description(self) -> String {
        let size = if self.bytes() < 1 << 10 { "16 B" } else { "64 KiB" };
        match self {
            Self::Http(row) => {
                let answer = match row.answer {
                    http::Answer::Json => "JSON",
                    http::Answer::Events => "SSE",
                };
                format!("HTTP {} {answer} {size}", row.revision)
            }
            Self::Stdio(row) => {
                let how = if row.in_flight == 1 { "serial" } else { "pipelined" };
                format!("stdio {} {how} {size}", row.revision)
            }
        }
    }
}

/// The message that opens a session.
pub(super) fn initialize() -> Value {
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": SESSIONS,
        "capabilities": {},
        "clientInfo": { "name": "bench", "version": "0" },
    } })
}

/// The message that says that the session is open.
pub(super) fn initialized() -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })
}

/// A call that echoes so many bytes of text.
pub(super) fn call(revision: &str, bytes: usize, id: &Value) -> String {
    let mut params = json!({ "name": "echo", "arguments": { "text": "x".repeat(bytes) } });
    if revision == STATELESS {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": STATELESS,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": { "name": "bench", "version": "0" },
        });
    }
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string()
}

/// That `answer` is the one to [`call`] with the id 7.
pub(super) fn check_answer(answer: &Value, bytes: usize) -> Result<(), Failed> {
    let text = answer["result"]["content"][0]["text"].as_str();
    if answer["id"] == 7 && text.is_some_and(|text| text == "x".repeat(bytes)) {
        return Ok(());
    }
    Err(Failed::new(format!("answered {answer}")))
}
