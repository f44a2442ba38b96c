//! The report as text and as JSON.

use std::fmt::Write as _;

use marquetry_printable::printable_line;
use serde_json::{Value, json};

use crate::{
    cause::{Cause, Finding},
    examine::{Outcome, ReadyServer, ServerReport},
};

/// Lines of standard error below a failure.
const STDERR_LINES: usize = 5;

/// Returns the report for people.
pub(crate) fn text(reports: &[ServerReport], warnings: &[String]) -> String {
    let mut text = String::new();
    for warning in warnings {
        _ = writeln!(text, "warning: {}", printable_line(warning));
    }
    if reports.is_empty() {
        text.push_str("no server is configured; name a file of servers with --mcp-config\n");
    }
    let names: Vec<String> = reports.iter().map(|report| printable_line(&report.name)).collect();
    // A longer name moves only its own line.
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).min(40);
    for (report, name) in reports.iter().zip(names) {
        match &report.outcome {
            Outcome::Disabled => _ = writeln!(text, "off   {name:width$}  disabled"),
            Outcome::Ready(ready) => _ = writeln!(text, "ok    {name:width$}  {}", line(ready)),
            Outcome::Failed(finding) => {
                _ = writeln!(text, "FAIL  {name:width$}  {}", printable_line(&finding.problem));
                _ = writeln!(text, "      -> {}", printable_line(&finding.advice));
                let lines = if shows_stderr(finding.cause) { &*report.stderr } else { &[] };
                for line in &lines[lines.len().saturating_sub(STDERR_LINES)..] {
                    _ = writeln!(text, "      | {}", printable_line(line));
                }
            }
        }
        for Finding { problem, advice, .. } in &report.warnings {
            _ = writeln!(text, "      warning: {}", printable_line(problem));
            _ = writeln!(text, "      -> {}", printable_line(advice));
        }
    }
    text
}

/// Returns whether the lines of standard error add to what the problem says.
fn shows_stderr(cause: Cause) -> bool {
    matches!(
        cause,
        Cause::Crashed
            | Cause::ExitedAtOnce
            | Cause::Silent
            | Cause::SlowStart
            | Cause::Lost
            | Cause::SyntaxError
            | Cause::StrayOutput
            | Cause::Refused
            | Cause::List
            | Cause::InvalidAnswer
    )
}

fn line(ready: &ReadyServer) -> String {
    let ReadyServer { introduction, start, tools, prompts, resources, tokens } = ready;
    let revision = introduction["revision"].as_str().unwrap_or_default();
    let mut line = format!("{revision}, started in {:.1} s", start.as_secs_f64());
    _ = write!(line, ", {}", counted(*tools, "tool"));
    if *tools > 0 {
        _ = write!(line, " (about {tokens} tokens)");
    }
    for (number, noun) in [(*prompts, "prompt"), (*resources, "resource")] {
        if number > 0 {
            _ = write!(line, ", {}", counted(number, noun));
        }
    }
    printable_line(&line)
}

fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Returns the report for programs.
pub(crate) fn json(reports: &[ServerReport], warnings: &[String], is_ok: bool) -> Value {
    let servers: Vec<Value> = reports.iter().map(of_server).collect();
    json!({"ok": is_ok, "warnings": warnings, "servers": servers})
}

fn of_server(report: &ServerReport) -> Value {
    let mut server = json!({"name": report.name, "transport": report.transport});
    match &report.outcome {
        Outcome::Disabled => server["state"] = json!("disabled"),
        Outcome::Ready(ready) => {
            server["state"] = json!("ok");
            server["revision"] = ready.introduction["revision"].clone();
            server["server"] = ready.introduction["info"].clone();
            server["startMs"] = json!(ready.start.as_millis() as u64);
            server["tools"] = json!(ready.tools);
            server["prompts"] = json!(ready.prompts);
            server["resources"] = json!(ready.resources);
            server["toolTokens"] = json!(ready.tokens);
        }
        Outcome::Failed(finding) => {
            server["state"] = json!("failed");
            server["problem"] = json!(finding);
        }
    }
    server["warnings"] = json!(report.warnings);
    if matches!(report.outcome, Outcome::Failed(_)) && !report.stderr.is_empty() {
        server["stderr"] = json!(report.stderr);
    }
    server
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn report(name: &str, outcome: Outcome) -> ServerReport {
        let stderr = vec!["\u{1b}[31mred".to_owned()];
        ServerReport {
            name: name.to_owned(),
            transport: "stdio",
            outcome,
            warnings: Vec::new(),
            stderr,
        }
    }

    #[test]
    fn a_report_is_readable_and_cannot_control_a_terminal() {
        let ready = ReadyServer {
            introduction: json!({"revision": "2025-06-18", "info": {"name": "x"}}),
            start: Duration::from_millis(420),
            tools: 1,
            prompts: 2,
            resources: 0,
            tokens: 31,
        };
        let failed = Finding::new(Cause::Crashed, "it failed\u{1b}[0m", "mend it");
        let mut reports = [
            report("a", Outcome::Ready(ready)),
            report("longer", Outcome::Failed(failed)),
            report("c", Outcome::Disabled),
        ];
        let warning = Finding::new(Cause::SlowStart, "slow", "wait");
        reports[0].warnings.push(warning);
        let text = text(&reports, &["odd".to_owned()]);
        let want = "warning: odd\n\
            ok    a       2025-06-18, started in 0.4 s, 1 tool (about 31 tokens), 2 prompts\n\
            \u{20}     warning: slow\n\
            \u{20}     -> wait\n\
            FAIL  longer  it failed\\u{1b}[0m\n\
            \u{20}     -> mend it\n\
            \u{20}     | \\u{1b}[31mred\n\
            off   c       disabled\n";
        assert_eq!(text, want);
        let json = json(&reports, &[], false);
        assert_eq!(json["servers"][0]["startMs"], 420);
        assert_eq!(json["servers"][1]["problem"]["cause"], "crashed");
        assert_eq!(json["servers"][2]["state"], "disabled");
    }
}
