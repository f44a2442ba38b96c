//! The Test Anything Protocol, version 14.

use std::fmt::Write as _;

use super::problem;
use crate::{Status, TestResult};

/// Returns results as TAP 14.
pub fn tap(results: &[TestResult]) -> String {
    let mut tap = format!("TAP version 14\n1..{}\n", results.len());
    for (number, result) in (1..).zip(results) {
        let ok = if result.status == Status::Passed { "ok" } else { "not ok" };
        // Writing to a String does not fail.
        _ = writeln!(tap, "{ok} {number} - {}", description(&result.test_case.name));
        if result.status != Status::Passed {
            let text = serde_json::Value::from(problem(result));
            // JSON texts are YAML texts, too.
            _ = writeln!(
                tap,
                "  ---\n  status: {}\n  durationMs: {}\n  message: {text}\n  ...",
                result.status, result.duration
            );
        }
    }
    tap
}

/// Returns a name on one line, with `#` and `\` escaped.
fn description(name: &str) -> String {
    let line = name.split_whitespace().collect::<Vec<_>>().join(" ");
    line.replace('\\', "\\\\").replace('#', "\\#")
}
