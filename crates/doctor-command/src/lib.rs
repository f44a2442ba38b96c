#![doc = include_str!("../README.md")]

mod cause;
mod clues;
mod examine;
mod general;
mod offer;
mod program;
mod progress;
mod remote;
mod report;
mod transcript;

use std::{
    io::{self, Write as _},
    time::Duration,
};

use clap::Args;
use marquetry_gateway::GatewayOptions;
use marquetry_nearest::nearest;
use marquetry_printable::printable_json;
use marquetry_redact::without_known_secrets;

pub use crate::{
    cause::{Cause, Finding},
    examine::{Outcome, ReadyServer, ServerReport, examine},
};

/// The end of the help of the command.
const DOCTOR_HELP: &str = "\
Examples:
  marquetry doctor --mcp-config mcp.json
  marquetry doctor github files               examines these servers
  marquetry doctor --timeout 10 --json        waits at most 10 seconds for a start

Exit codes: 0 all servers work, 1 a server failed (with --strict also at warnings), 2 invalid configuration.";

/// Arguments of `marquetry doctor`.
#[derive(Args, Clone, Debug)]
#[command(after_help = DOCTOR_HELP)]
pub struct DoctorArgs {
    /// Names of the servers to examine; by default all of them.
    #[arg(value_name = "SERVER")]
    servers: Vec<String>,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
    /// Fail at warnings, too.
    #[arg(long)]
    strict: bool,
    /// Longest time for the start of a server, if its start_timeout_ms is longer.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// Time after which a start is reported as slow.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    slow: Duration,
}

/// Options of an examination.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DoctorOptions {
    /// Longest time for the start of a server, if its own limit is longer.
    pub timeout: Option<Duration>,
    /// Time after which a start is reported as slow: 10 s, after which the first clients give up.
    pub slow: Duration,
    /// Whether a terminal on standard error shows which servers have not answered.
    pub shows_progress: bool,
}

impl Default for DoctorOptions {
    fn default() -> Self {
        Self { timeout: None, slow: Duration::from_secs(10), shows_progress: false }
    }
}

impl DoctorOptions {
    /// Sets [`Self::timeout`].
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets [`Self::slow`].
    #[must_use]
    pub fn with_slow(mut self, slow: Duration) -> Self {
        self.slow = slow;
        self
    }
}

/// Why the command failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DoctorError {
    /// The exit code.
    pub code: u8,
    /// The message, for people; empty if a report was printed.
    pub message: String,
}

/// Runs the servers of `gateway` once, and prints the report. `warnings` are those of the
/// configuration.
///
/// # Errors
///
/// Returns an error without a message if a server failed, and one with a message if the arguments
/// name a server that is not configured.
pub async fn run(
    arguments: &DoctorArgs,
    mut gateway: GatewayOptions,
    mut warnings: Vec<String>,
) -> Result<(), DoctorError> {
    let mut hidden = select(&arguments.servers, &mut gateway)?;
    let options = DoctorOptions {
        timeout: arguments.timeout,
        slow: arguments.slow,
        shows_progress: !arguments.json,
    };
    let reports = examine(gateway, &options).await;
    // The report of a server that failed has its own advice, once.
    let failed = reports.iter().filter(|report| matches!(report.outcome, Outcome::Failed(_)));
    hidden.extend(failed.map(|report| report.name.clone()));
    warnings
        .retain(|text| !hidden.iter().any(|name| text.starts_with(&format!("server {name:?}"))));
    let has_warnings =
        !warnings.is_empty() || reports.iter().any(|report| !report.warnings.is_empty());
    let has_failed = reports.iter().any(|report| matches!(report.outcome, Outcome::Failed(_)));
    let is_ok = !(has_failed || arguments.strict && has_warnings);
    let text = if arguments.json {
        let json = report::json(&reports, &warnings, is_ok);
        format!("{}\n", printable_json(&format!("{json:#}")))
    } else {
        report::text(&reports, &warnings)
    };
    let text = without_known_secrets(text);
    // A closed pipe is not a failure.
    if let Err(error) = io::stdout().lock().write_all(text.as_bytes())
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        let message = format!("failed to write to standard output: {error}");
        return Err(DoctorError { code: 1, message });
    }
    if is_ok { Ok(()) } else { Err(DoctorError { code: 1, message: String::new() }) }
}

/// Leaves only the servers with these names, and returns the names of the others. Without names,
/// all servers stay.
fn select(names: &[String], gateway: &mut GatewayOptions) -> Result<Vec<String>, DoctorError> {
    let known: Vec<&str> = gateway.upstreams.iter().map(|upstream| &*upstream.name).collect();
    for name in names {
        if !known.contains(&&**name) {
            let hint = match nearest(name, &known) {
                Some(near) => format!("did you mean {near:?}?"),
                None if known.is_empty() => "no server is configured".to_owned(),
                None => format!("configured servers: {}", known.join(", ")),
            };
            let message = format!("unknown server {name:?}; {hint}");
            return Err(DoctorError { code: 2, message });
        }
    }
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let left_out = gateway.upstreams.extract_if(.., |upstream| !names.contains(&upstream.name));
    Ok(left_out.map(|upstream| upstream.name).collect())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|time| !time.is_zero())
        .ok_or_else(|| "expected a number of seconds above 0".to_owned())
}
