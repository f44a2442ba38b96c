//! The Test Anything Protocol, version 14.

use std::fmt::Write as _;

use serde_json::Value;

use super::Outcome;

/// Returns an outcome as TAP 14.
pub(super) fn render(outcome: &Outcome) -> String {
    let mut tap = format!("TAP version 14\n1..{}\n", outcome.finished.len());
    for (number, (finished, status, reason)) in (1..).zip(outcome.rows()) {
        let ok = if matches!(status, "failed" | "error") { "not ok" } else { "ok" };
        let name = line(&finished.case.to_string());
        // Writing to a String does not fail.
        _ = write!(tap, "{ok} {number} - {name}");
        match (status, reason) {
            ("skipped", reason) => {
                _ = writeln!(tap, " # SKIP {}", line(&reason.unwrap_or_default()));
            }
            (_, None) => tap.push('\n'),
            (_, Some(reason)) => {
                let ms = finished.elapsed.as_millis();
                let reason = Value::from(reason);
                // JSON texts are YAML texts, too.
                let block = format!("status: {status}\n  durationMs: {ms}\n  message: {reason}");
                _ = writeln!(tap, "\n  ---\n  {block}\n  ...");
            }
        }
    }
    if outcome.panics > 0 {
        _ = writeln!(tap, "Bail out! {} panics", outcome.panics);
    }
    tap
}

/// Returns a text on one line, with `#` and `\` escaped.
fn line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.replace('\\', "\\\\").replace('#', "\\#")
}
