//! Results for programs and people: JSON, JUnit XML, TAP and one HTML page.
//!
//! JUnit XML is written here: the crate `quick-junit` depends on an older version of an XML library that this workspace
//! has, and on a library of dates, for the five elements that are needed.

mod html;
mod junit;
mod tap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::{html::html, junit::junit, tap::tap};
use crate::{Status, TestResult, result::CheckResult};

/// The numbers of results by status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// All results.
    pub total: u32,
    /// Results that passed.
    pub passed: u32,
    /// Results that failed.
    pub failed: u32,
    /// Results without a verdict.
    pub errors: u32,
    /// Time of all, in milliseconds.
    pub duration_ms: u64,
}

impl Summary {
    /// Returns the numbers of these results.
    pub fn of(results: &[TestResult]) -> Self {
        let mut summary = Self::default();
        for result in results {
            summary.total += 1;
            summary.duration_ms = summary.duration_ms.saturating_add(result.duration);
            match result.status {
                Status::Passed => summary.passed += 1,
                Status::Failed => summary.failed += 1,
                Status::Error => summary.errors += 1,
            }
        }
        summary
    }
}

/// Returns results as JSON: an object of `summary` and `results`.
pub fn json(results: &[TestResult]) -> String {
    #[derive(Serialize)]
    struct Report<'a> {
        summary: Summary,
        results: &'a [TestResult],
    }
    let report = Report { summary: Summary::of(results), results };
    // Only a map with keys other than strings could fail, and a result has no such map.
    let text = serde_json::to_string_pretty(&report);
    text.unwrap_or_else(|error| format!("{{\"error\": {:?}}}", error.to_string())) + "\n"
}

/// Returns why a result did not pass, in a few lines: the error, or the failed checks and the judge's reasons.
fn problem(result: &TestResult) -> String {
    if let Some(error) = &result.error {
        return error.clone();
    }
    let Some(trial) = result.deciding_trial() else { return result.verdict.reasoning.clone() };
    let mut lines = Vec::new();
    let counts = result.counts();
    if result.trials.len() > 1 {
        lines.push(format!("{} of {} trials passed", counts.passed, result.trials.len()));
    }
    for CheckResult { name, detail, expected, actual, .. } in
        trial.checks.iter().filter(|check| !check.passed)
    {
        lines.push(format!("{name}: {detail}"));
        if !expected.is_null() || !actual.is_null() {
            lines.push(format!("  expected: {expected}"));
            lines.push(format!("  found:    {actual}"));
        }
    }
    for item in trial.verdict.items.iter().filter(|item| item.no >= item.yes) {
        lines.push(format!(
            "judge: no ({} of {} votes): {}",
            item.no,
            item.no + item.yes,
            item.item
        ));
        if !item.evidence.is_empty() {
            lines.push(format!("  evidence: {}", item.evidence));
        }
    }
    if lines.is_empty() {
        lines.push(result.verdict.reasoning.clone());
    }
    lines.join("\n")
}

/// Returns a text with the characters that XML and HTML reserve as entities, and without those that XML forbids.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for one in text.chars() {
        match one {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\t' | '\n' | ' '..='\u{7e}' => safe.push(one),
            _ if one.is_control() || matches!(one, '\u{fffe}' | '\u{ffff}') => {
                safe.push('\u{fffd}')
            }
            _ => safe.push(one),
        }
    }
    safe
}

#[cfg(test)]
mod tests;
