//! Outcomes of scenarios, and their report.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Outcome of one scenario.
pub(super) struct Outcome {
    pub(super) name: String,
    /// The suite's reason not to score it, if there is one.
    pub(super) unscored: Option<String>,
    pub(super) checks: Vec<Check>,
    /// Whether the suite exited with success. It also checks how a client ended.
    pub(super) suite_succeeded: bool,
    pub(super) log: String,
}

/// One check of the suite.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Check {
    id: String,
    status: Status,
    #[serde(default)]
    description: String,
    #[serde(default)]
    error_message: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Status {
    Success,
    Failure,
    Warning,
    Skipped,
    Info,
}

impl Outcome {
    fn with(&self, status: Status) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(move |check| check.status == status)
    }

    /// Returns the failed checks with the suite's messages. A warning counts as a failure.
    fn failures(&self) -> Vec<String> {
        let failed = self.with(Status::Failure).chain(self.with(Status::Warning));
        let mut failures: Vec<String> =
            failed.map(|check| format!("{}: {}", check.id, check.reason())).collect();
        if failures.is_empty() && !self.suite_succeeded {
            let mut last: Vec<&str> =
                self.log.lines().rev().filter(|line| !line.trim().is_empty()).take(6).collect();
            last.reverse();
            failures.push(format!("the suite failed:\n      {}", last.join("\n      ")));
        }
        if failures.is_empty() && self.checks.is_empty() {
            failures.push("the suite made no check".to_owned());
        }
        failures
    }
}

impl Check {
    fn reason(&self) -> &str {
        self.error_message.as_deref().unwrap_or(&self.description)
    }
}

/// Prints the outcomes of a run. Returns true if nothing failed, scored or not.
pub(super) fn report(side: &str, revision: &str, outcomes: &[Outcome]) -> bool {
    if outcomes.is_empty() {
        return true;
    }
    let mut failed = 0;
    let mut lines = Vec::new();
    for outcome in outcomes {
        let failures = outcome.failures();
        failed += failures.len();
        let note = match &outcome.unscored {
            Some(reason) => format!(" (not scored: {reason})"),
            None => String::new(),
        };
        for failure in failures {
            lines.push(format!("  FAILED: {}{note}: {failure}", outcome.name));
        }
        // Many checks are skipped for the same reason.
        let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for check in outcome.with(Status::Skipped) {
            reasons.entry(check.reason()).or_default().push(&check.id);
        }
        for (reason, checks) in reasons {
            let checks = match &checks[..] {
                [check] => (*check).to_owned(),
                checks => format!("{} checks", checks.len()),
            };
            lines.push(format!("  skipped: {}{note}: {checks}: {reason}", outcome.name));
        }
    }
    println!(
        "\n{side}, {revision}: {} scenarios; checks: {} passed, {failed} failed, {} skipped",
        outcomes.len(),
        count(outcomes, Status::Success),
        count(outcomes, Status::Skipped),
    );
    for line in lines {
        println!("{line}");
    }
    failed == 0
}

fn count(outcomes: &[Outcome], status: Status) -> usize {
    outcomes.iter().map(|outcome| outcome.with(status).count()).sum()
}
