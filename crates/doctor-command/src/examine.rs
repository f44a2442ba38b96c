//! Runs servers once, side by side, each with a gateway of its own.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::{StreamExt as _, stream};
use indexmap::IndexMap;
use marquetry_gateway::{
    Gateway, GatewayOptions, Namer, StartReport, Transport, Upstream, UpstreamOptions,
    UpstreamState,
};
use marquetry_redact::{
    Redactor, is_secret_name, is_secret_variable, looks_secret, secrets_of_url, secrets_of_value,
    without_known_secrets, without_secret_args,
};
use serde_json::Value;

use crate::{
    DoctorOptions,
    cause::{Cause, Finding},
    clues::Program,
    offer,
    program::{self, FailedProgram},
    progress::Progress,
    remote::{self, FailedUrl},
    transcript::Transcript,
};

/// Servers that run at the same time.
const PARALLEL: usize = 8;

/// The findings about one server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerReport {
    /// Name of the server in the configuration.
    pub name: String,
    /// `stdio`, `http`, or `none` if its entry cannot be used.
    pub transport: &'static str,
    /// The outcome of its start.
    pub outcome: Outcome,
    /// Problems in spite of which it can be used.
    pub warnings: Vec<Finding>,
    /// The last lines of its standard error, without known secrets.
    pub stderr: Vec<String>,
}

/// The outcome of the start of a server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// The configuration disables it.
    Disabled,
    /// It runs.
    Ready(ReadyServer),
    /// It cannot be used.
    Failed(Finding),
}

/// A server that runs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReadyServer {
    /// Its name and version, as it states them, and its revision.
    pub introduction: Value,
    /// Time from its start until its tools were known.
    pub start: Duration,
    /// Number of its tools.
    pub tools: usize,
    /// Number of its prompts.
    pub prompts: usize,
    /// Number of its resources and templates.
    pub resources: usize,
    /// The tokens that the list of its tools takes, estimated.
    pub tokens: u64,
}

/// Runs each server of `gateway` once and ends it. Reports have the order of the options.
pub async fn examine(gateway: GatewayOptions, options: &DoctorOptions) -> Vec<ServerReport> {
    let mut shared = gateway;
    let upstreams = std::mem::take(&mut shared.upstreams);
    shared.restart_max_failures = 1;
    shared.shows_stderr = true;
    shared.limits.max_log_lines_per_second = 10_000;
    // A cached list would hide a server that fails.
    shared.tool_cache = None;
    let names = upstreams.iter().map(|upstream| upstream.name.clone());
    let progress = Progress::new(names, options.shows_progress);
    let heads: Vec<String> = upstreams.iter().map(head).collect();
    let examined = stream::iter(upstreams)
        .map(async |upstream| {
            let name = upstream.name.clone();
            let report = examine_one(upstream, &shared, options).await;
            progress.done(&name);
            report
        })
        .buffered(PARALLEL);
    let (mut reports, tools): (Vec<ServerReport>, Vec<Vec<String>>) = examined.unzip().await;
    progress.finish();
    warn_of_shared_names(&mut reports, &heads, &tools);
    reports
}

/// Returns the prefix of the names of an upstream's tools.
fn head(upstream: &UpstreamOptions) -> String {
    let UpstreamOptions { name, prefix, separator, .. } = upstream;
    Namer::new(name, prefix.as_deref(), separator).head().to_owned()
}

/// Returns the report of one server, and the names of its tools for clients.
async fn examine_one(
    mut upstream: UpstreamOptions,
    shared: &GatewayOptions,
    options: &DoctorOptions,
) -> (ServerReport, Vec<String>) {
    if let Some(timeout) = options.timeout {
        upstream.start_timeout = upstream.start_timeout.min(timeout);
    }
    let limit = upstream.start_timeout;
    let transport = match &upstream.transport {
        Transport::Stdio { .. } => "stdio",
        Transport::Http { .. } => "http",
        _ => "none",
    };
    let mut report = ServerReport {
        name: upstream.name.clone(),
        transport,
        outcome: Outcome::Disabled,
        warnings: Vec::new(),
        stderr: Vec::new(),
    };
    if upstream.is_disabled {
        return (report, Vec::new());
    }
    let redactor = Redactor::new(&secrets(&upstream.transport));
    let mut own = shared.clone();
    own.upstreams = vec![upstream.clone()];
    let transcript = Arc::new(Transcript::default());
    own.observer = Some(transcript.clone());
    let gateway = Gateway::start(own, Arc::new(()));
    // The start and the lists after it have the same limit each.
    let patience = limit.saturating_mul(2).saturating_add(Duration::from_secs(1));
    let settled = tokio::time::timeout(patience, gateway.settled()).await.is_ok();
    let running = gateway.upstreams()[0].clone();
    report.stderr = running.log().into_iter().map(|line| redactor.redact(line)).collect();
    let started = running.start_report();
    let failure = finding(&upstream, &running, &started, &transcript);
    report.outcome = match failure {
        Some(finding) => Outcome::Failed(finding),
        None => Outcome::Ready(ready(&running, &started)),
    };
    let listing = running.listing();
    if matches!(report.outcome, Outcome::Ready(_)) {
        report.warnings = warnings(&started, options);
        report.warnings.extend(offer::warnings(&listing));
        if !settled {
            report.warnings.push(Finding::new(
                Cause::List,
                format!(
                    "its prompts or resources were not listed within {} s",
                    limit.as_secs_f64()
                ),
                "update the server, or report the fault to its authors",
            ));
        }
    }
    let findings = report.warnings.iter_mut().chain(match &mut report.outcome {
        Outcome::Failed(finding) => Some(finding),
        _ => None,
    });
    for finding in findings {
        for text in [&mut finding.problem, &mut finding.advice] {
            *text = without_known_secrets(redactor.redact(std::mem::take(text))).into_owned();
        }
    }
    let tools = gateway.catalog().tools.iter().map(|tool| tool.name.clone()).collect();
    gateway.stop().await;
    (report, tools)
}

/// Returns why a server cannot be used, or [`None`] if it can.
fn finding(
    options: &UpstreamOptions,
    upstream: &Upstream,
    report: &StartReport,
    transcript: &Transcript,
) -> Option<Finding> {
    if let Transport::Unusable { problem } = &options.transport {
        let advice = "correct the entry of the server in the configuration";
        return Some(Finding::new(Cause::Configuration, problem, advice));
    }
    let Some(failure) = &report.failure else {
        if matches!(upstream.state(), UpstreamState::Ready(_)) {
            return offer::failure(&upstream.listing());
        }
        let limit = options.start_timeout.as_secs_f64();
        let problem = format!("it was not ready within {limit} s");
        return Some(Finding::new(Cause::Silent, problem, "raise start_timeout_ms"));
    };
    Some(match &options.transport {
        Transport::Stdio { command, args, cwd, .. } => {
            let program = Program { server: &options.name, command, args };
            let stderr = transcript.lines();
            let failed = FailedProgram { program, cwd: cwd.as_deref(), stderr: &stderr, report };
            program::finding(&failed, failure)
        }
        Transport::Http { url, headers, .. } => {
            let has_token = headers.keys().any(|name| is_token_header(name))
                || url.contains('@')
                || url
                    .split(['?', '&'])
                    .skip(1)
                    .any(|part| is_secret_name(part.split('=').next().unwrap_or_default()));
            remote::finding(&FailedUrl { server: &options.name, url, has_token }, failure)
        }
        _ => Finding::new(Cause::Configuration, "it has no transport", "give a command or a URL"),
    })
}

fn is_token_header(name: &str) -> bool {
    name.eq_ignore_ascii_case("authorization") || is_secret_name(name)
}

fn ready(upstream: &Upstream, report: &StartReport) -> ReadyServer {
    let listing = upstream.listing();
    let tools = serde_json::to_string(&listing.tools).unwrap_or_default();
    ReadyServer {
        introduction: upstream.introduction().unwrap_or_default(),
        start: report.time.unwrap_or_default(),
        tools: listing.tools.len(),
        prompts: listing.prompts.len(),
        resources: listing.resources.len() + listing.templates.len(),
        tokens: if listing.tools.is_empty() { 0 } else { marquetry_tokens::estimate(&tools) },
    }
}

/// Returns warnings about the start of a server that runs.
fn warnings(report: &StartReport, options: &DoctorOptions) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(time) = report.time.filter(|time| *time > options.slow) {
        found.push(Finding::new(
            Cause::SlowStart,
            format!("it took {:.1} s to start", time.as_secs_f64()),
            "clients give up after 10 to 60 s; install its package instead of downloading it at each start",
        ));
    }
    if let Some(line) = &report.first_stray_line {
        let lines = match report.stray_lines {
            1 => "a line".to_owned(),
            many => format!("{many} lines"),
        };
        found.push(Finding::new(
            Cause::StrayOutput,
            format!("it printed {lines} to standard output, where only messages may be: {line:?}"),
            "make it log to standard error; some clients end the connection at such a line",
        ));
    }
    found
}

/// Warns of servers whose tools have the names of another server's tools.
fn warn_of_shared_names(reports: &mut [ServerReport], heads: &[String], tools: &[Vec<String>]) {
    let mut owners: HashMap<&str, usize> = HashMap::new();
    for (at, tools) in tools.iter().enumerate() {
        let mut taken: IndexMap<usize, Vec<&str>> = IndexMap::new();
        for tool in tools {
            let owner = *owners.entry(tool).or_insert(at);
            // Equal prefixes are a warning of the configuration.
            if owner != at && (heads[owner] != heads[at] || heads[at].is_empty()) {
                taken.entry(owner).or_default().push(tool);
            }
        }
        for (owner, names) in taken {
            let names = offer::shown(names.into_iter());
            let owner = reports[owner].name.clone();
            reports[at].warnings.push(Finding::new(
                Cause::DuplicateTools,
                format!("the server {owner:?} has tools of the same names, which win: {names}"),
                "set another \"prefix\"",
            ));
        }
    }
}

/// Returns the values of a transport that no report may show.
fn secrets(transport: &Transport) -> Vec<String> {
    match transport {
        Transport::Stdio { args, env, .. } => {
            let secret = env
                .iter()
                .filter(|(name, value)| is_secret_variable(name) || looks_secret(value))
                .map(|(_, value)| value.clone());
            without_secret_args(args).secrets.into_iter().chain(secret).collect()
        }
        Transport::Http { url, headers, .. } => {
            let secret = headers
                .iter()
                .filter(|(name, value)| is_token_header(name) || looks_secret(value))
                .flat_map(|(_, value)| secrets_of_value(value));
            secrets_of_url(url).chain(secret).collect()
        }
        _ => Vec::new(),
    }
}
