//! The Test Anything Protocol, version 14.

use std::fmt::Write as _;

use serde_json::Value;

use crate::{Status, Suite, Test};

/// Returns suites as TAP 14. Tests are numbered through all suites.
pub fn tap(suites: &[Suite]) -> String {
    let count: usize = suites.iter().map(|suite| suite.tests.len()).sum();
    let mut tap = format!("TAP version 14\n1..{count}\n");
    for (number, test) in (1..).zip(suites.iter().flat_map(|suite| &suite.tests)) {
        write_test(&mut tap, number, test);
    }
    let panics: usize = suites.iter().map(|suite| suite.panics).sum();
    if panics > 0 {
        // Writing to a String does not fail.
        _ = writeln!(tap, "Bail out! {panics} panics");
    }
    tap
}

fn write_test(tap: &mut String, number: usize, test: &Test) {
    let status = test.status;
    let ok = match status {
        Status::Passed | Status::Skipped => "ok",
        Status::Failed | Status::Error => "not ok",
    };
    _ = write!(tap, "{ok} {number} - {}", one_line(&test.full_name()));
    if status == Status::Skipped {
        _ = write!(tap, " # SKIP {}", one_line(test.summary()));
    }
    tap.push('\n');
    if let (Status::Failed | Status::Error, Some(reason)) = (status, &test.reason) {
        let milliseconds = test.elapsed.as_millis();
        // JSON texts are YAML texts, too.
        let message = Value::from(reason.as_str());
        _ = writeln!(
            tap,
            "  ---\n  status: {status}\n  durationMs: {milliseconds}\n  message: {message}\n  ..."
        );
    }
}

/// Returns a text on one line, with `#` and `\` escaped, and with U+FFFD in place of control
/// characters.
fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.replace('\\', "\\\\").replace('#', "\\#").replace(char::is_control, "\u{fffd}")
}
