//! One report of scenarios and cases.

use std::{io::Write as _, path::PathBuf};

use marquetry_atomic_file::{Readers, check, replace};
use marquetry_judge::{Status, TestResult, report};
use marquetry_scenarios::Outcome;
use marquetry_test_report::{Suite, html, junit, tap};
use serde_json::Value;

use crate::{
    Failed,
    arguments::{OutcomeFormat, TestArgs},
    summary,
};

/// What to report, and where.
pub(crate) struct Reports {
    /// Formats with their files; `None` means standard output.
    reports: Vec<(OutcomeFormat, Option<PathBuf>)>,
}

impl Reports {
    /// Returns the reports that the arguments ask for. Checks before the first test that they can
    /// be written, as far as it can be known.
    pub(crate) fn of(arguments: &TestArgs) -> Result<Self, Failed> {
        if arguments.report.is_empty() {
            return Ok(Self { reports: vec![(arguments.format, None)] });
        }
        let reports: Vec<_> = arguments
            .report
            .iter()
            .map(|report| (report.format.unwrap_or(arguments.format), report.file.clone()))
            .collect();
        if reports.iter().filter(|(_, file)| file.is_none()).count() > 1 {
            return Err(Failed::usage(
                "two reports on standard output: name files, as in --report junit=FILE",
            ));
        }
        for file in reports.iter().filter_map(|(_, file)| file.as_ref()) {
            check(file)
                .map_err(|error| Failed::usage(format!("--report {}: {error}", file.display())))?;
        }
        Ok(Self { reports })
    }

    /// Returns whether standard output shows progress and text for people. Otherwise it is a
    /// report.
    pub(crate) fn prints(&self) -> bool {
        self.reports.iter().all(|(format, file)| *format == OutcomeFormat::Text || file.is_some())
    }

    /// Writes all reports, except the text for people on standard output, which each kind of test
    /// prints at its end.
    pub(crate) fn write(&self, outcomes: &Outcomes) -> Result<(), Failed> {
        for (format, file) in &self.reports {
            match (format, file) {
                (OutcomeFormat::Text, None) => {}
                (format, Some(file)) => {
                    let text = outcomes.render(*format);
                    replace(file, text.as_bytes(), Readers::Owner).map_err(|error| {
                        Failed::error(format!("failed to write {}: {error}", file.display()))
                    })?;
                }
                (format, None) => print(&outcomes.render(*format)),
            }
        }
        Ok(())
    }
}

/// Outcomes of a run.
pub(crate) struct Outcomes {
    /// `None` if the files have no scenario.
    pub(crate) scenarios: Option<Outcome>,
    /// `None` if the files have no case.
    pub(crate) cases: Option<Vec<TestResult>>,
}

impl Outcomes {
    fn render(&self, format: OutcomeFormat) -> String {
        match format {
            OutcomeFormat::Text => self.text(),
            OutcomeFormat::Json => self.json(),
            OutcomeFormat::Junit => junit(&self.suites()),
            OutcomeFormat::Tap => tap(&self.suites()),
            OutcomeFormat::Html => html(&self.suites()),
        }
    }

    /// Returns the exit status: 0 if all passed. A failed test takes precedence over one that could
    /// not be run or judged.
    pub(crate) fn exit_code(&self) -> u8 {
        let has_case = |status| self.cases.iter().flatten().any(|result| result.status == status);
        let scenarios = self.scenarios.as_ref();
        if scenarios.is_some_and(Outcome::has_failures) || has_case(Status::Failed) {
            Failed::FAIL
        } else if scenarios.is_some_and(|it| !it.is_success()) || has_case(Status::Error) {
            Failed::ERROR
        } else {
            0
        }
    }

    fn text(&self) -> String {
        let scenarios = self.scenarios.as_ref().map(Outcome::text);
        let cases = self.cases.as_deref().map(summary::render);
        scenarios.into_iter().chain(cases).collect()
    }

    fn suites(&self) -> Vec<Suite> {
        let scenarios = self.scenarios.as_ref().map(Outcome::suite);
        let cases = self.cases.as_deref().map(report::suite);
        scenarios.into_iter().chain(cases).collect()
    }

    /// Returns the array of scenarios, the object of cases, or this object with the array as its
    /// member `scenarios`.
    fn json(&self) -> String {
        let scenarios = self.scenarios.as_ref().map(Outcome::json);
        let cases = self.cases.as_deref().map(report::json);
        match (scenarios, cases) {
            (Some(scenarios), Some(cases)) => joined(&scenarios, &cases),
            (scenarios, cases) => scenarios.or(cases).unwrap_or_default(),
        }
    }
}

/// Adds the array `scenarios` to the object `cases`.
fn joined(scenarios: &str, cases: &str) -> String {
    let mut all: Value = serde_json::from_str(cases).expect("the report of cases is JSON");
    all["scenarios"] = serde_json::from_str(scenarios).expect("the report of scenarios is JSON");
    format!("{all:#}\n")
}

/// Prints a text. A closed pipe is not a failure.
pub(crate) fn print(text: &str) {
    _ = std::io::stdout().lock().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::parsed;

    #[test]
    fn one_object_has_scenarios_and_cases() {
        let all = joined("[\n{\"id\":\"a\"}\n]\n", "{\"summary\":{},\"results\":[]}\n");
        let object: serde_json::Map<String, Value> = serde_json::from_str(&all).unwrap();
        assert_eq!(object.keys().collect::<Vec<_>>(), ["summary", "results", "scenarios"]);
        assert_eq!(object["scenarios"][0]["id"], "a");
    }
    #[cfg(unix)]
    #[test]
    fn reports_are_private_and_replace_no_file_behind_a_link() {
        use std::{
            fs,
            os::unix::fs::{PermissionsExt as _, symlink},
        };
        let folder = tempfile::tempdir().unwrap();
        let report = folder.path().join("report.xml");
        fs::write(&report, "an older report").unwrap();
        fs::set_permissions(&report, fs::Permissions::from_mode(0o644)).unwrap();
        let reports = || {
            let named = format!("junit={}", report.display());
            Reports::of(&parsed(&["a.yaml", "--report", &named]).unwrap())
        };
        let nothing = Outcomes { scenarios: None, cases: None };
        let checked = reports().unwrap_or_else(|failed| panic!("{}", failed.message));
        assert_eq!(fs::read_to_string(&report).unwrap(), "an older report");
        checked.write(&nothing).unwrap_or_else(|failed| panic!("{}", failed.message));
        assert_eq!(fs::metadata(&report).unwrap().permissions().mode() & 0o777, 0o600);

        let other = folder.path().join("other");
        fs::rename(&report, &other).unwrap();
        symlink(&other, &report).unwrap();
        let error = reports().err().unwrap().message;
        assert!(error.contains("report.xml: is a link"), "{error}");
        checked.write(&nothing).unwrap_err();
    }
}
