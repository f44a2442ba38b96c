//! Results for programs and people: JSON, and a suite for reports in other formats.

mod details;

use std::{fmt::Write as _, time::Duration};

use marquetry_test_report::{Suite, Test};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Status, TestResult,
    result::{CheckResult, TrialCounts},
    stats::{Interval, pass_at_k, pass_hat_k, wilson},
};

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
    /// Total time, in milliseconds.
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

/// Returns results as a suite of a report, one test for each result.
pub fn suite(results: &[TestResult]) -> Suite {
    let mut suite = Suite::new("cases");
    suite.elapsed = Duration::from_millis(Summary::of(results).duration_ms);
    suite.tests.extend(results.iter().map(|result| {
        let elapsed = Duration::from_millis(result.duration);
        let mut test = Test::new(&result.test_case.name, reported(result.status), elapsed);
        test.group = Some("marquetry.judge".to_owned());
        test.about.clone_from(&result.test_case.prompt);
        test.timestamp = Some(result.timestamp.to_string());
        test.reason = (result.status != Status::Passed).then(|| problem(result));
        test.trials = trials_in_words(result);
        test.details = details::html(result);
        test
    }));
    suite
}

fn reported(status: Status) -> marquetry_test_report::Status {
    match status {
        Status::Passed => marquetry_test_report::Status::Passed,
        Status::Failed => marquetry_test_report::Status::Failed,
        Status::Error => marquetry_test_report::Status::Error,
    }
}

/// Describes how the trials of a repeated case ended: the 95 % interval of its pass rate, the
/// probability that at least one of 3 trials passes, and the probability that all 3 pass. `None`
/// for a case with one trial.
///
/// ```text
/// 4 of 5 trials passed (95 % interval 38 to 96 %; at least one of 3 passes: 100 %; all of 3: 40 %)
/// ```
pub fn trials_in_words(result: &TestResult) -> Option<String> {
    /// Number of trials for these probabilities, as in the history.
    const USE: u32 = 3;
    if result.trials.len() < 2 {
        return None;
    }
    let TrialCounts { passed, failed, errors } = result.counts();
    let judged = passed + failed;
    let mut words = format!("{passed} of {judged} trials passed");
    if judged > 0 {
        let Interval { low, high } = wilson(passed, judged);
        _ = write!(words, " (95 % interval {} to {} %", percent(low), percent(high));
        if judged >= USE {
            let any = pass_at_k(judged, passed, USE);
            let all = pass_hat_k(judged, passed, USE);
            _ = write!(
                words,
                "; at least one of {USE} passes: {} %; all of {USE}: {} %",
                percent(any),
                percent(all)
            );
        }
        words.push(')');
    }
    if errors > 0 {
        _ = write!(words, ", {errors} without a verdict");
    }
    Some(words)
}

fn percent(share: f64) -> String {
    format!("{:.0}", share * 100.0)
}

/// Returns why a result did not pass, in a few lines: the error, or the failed checks and the
/// judge's reasons.
fn problem(result: &TestResult) -> String {
    if let Some(error) = &result.error {
        return error.clone();
    }
    let Some(trial) = result.deciding_trial() else { return result.verdict.reasoning.clone() };
    let mut lines = Vec::new();
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

#[cfg(test)]
mod tests;
