//! The outcome of a run: as text in cargo's manner, as JSON, or as a suite for other formats.

use std::{
    fmt::Write as _,
    io::{self, Write as _},
    path::Path,
    time::Duration,
};

use marquetry_atomic_file::{Readers, replace};
use marquetry_test_report::{Suite, Test, html, junit, tap};
use serde::Serialize;

use super::{case::Case, failure::Failure};
use crate::language::MatrixCell;

/// Format of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// Text for people; ends with cargo's `test result:` line.
    #[default]
    Text,
    /// A JSON array with one object per case.
    Json,
    /// JUnit's XML.
    Junit,
    /// The Test Anything Protocol, version 14.
    Tap,
    /// One HTML page without scripts.
    Html,
}

/// Outcome of a case.
#[derive(Clone, Debug)]
pub(crate) enum Status {
    Passed,
    Failed(Failure),
    /// The case could not be run: its server did not start, or the agent could not connect.
    Error(Failure),
    /// The case was left out, with the reason.
    Skipped(String),
}

impl Status {
    fn reported(&self) -> marquetry_test_report::Status {
        match self {
            Self::Passed => marquetry_test_report::Status::Passed,
            Self::Failed(_) => marquetry_test_report::Status::Failed,
            Self::Error(_) => marquetry_test_report::Status::Error,
            Self::Skipped(_) => marquetry_test_report::Status::Skipped,
        }
    }
}

/// A finished case.
#[derive(Clone, Debug)]
pub(crate) struct FinishedCase {
    pub(crate) case: Case,
    pub(crate) status: Status,
    pub(crate) elapsed: Duration,
}

/// Outcome of a whole run.
#[derive(Debug)]
pub struct Outcome {
    pub(super) finished: Vec<FinishedCase>,
    pub(super) filtered_out: usize,
    /// Number of panics in this process.
    pub(super) panics: usize,
    pub(super) elapsed: Duration,
    /// Command that runs one case, when its name is added.
    pub(super) rerun: String,
}

#[derive(Serialize)]
struct Row<'a> {
    id: &'a str,
    seed: Option<&'a str>,
    file: &'a str,
    matrix: MatrixCell,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ms: Option<u64>,
    /// Why the case failed or was skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl<'a> Row<'a> {
    fn new(case: &'a Case) -> Self {
        let scenario = case.scenario();
        Row {
            id: &scenario.id,
            seed: scenario.seed.as_deref(),
            file: &case.loaded.file,
            matrix: case.cell,
            status: None,
            ms: None,
            reason: None,
        }
    }
}

/// Writes to standard output. Ignores a closed pipe.
pub(crate) fn say(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Prints the cases without running them.
pub(crate) fn list(cases: &[Case], format: Format) {
    match format {
        // The others have no form for cases without an outcome.
        Format::Text | Format::Junit | Format::Tap | Format::Html => {
            for case in cases {
                say(&format!("{case}: test\n"));
            }
            say(&format!("\n{} tests, 0 benchmarks\n", cases.len()));
        }
        Format::Json => say(&json_rows(cases.iter().map(Row::new))),
    }
}

impl Outcome {
    /// Returns whether no case failed or panicked, and none could not be run.
    pub fn is_success(&self) -> bool {
        !self.has_failures() && self.errors() == 0
    }

    /// Returns whether a case failed or panicked. A case that could not be run has not failed.
    pub fn has_failures(&self) -> bool {
        self.panics > 0 || self.count(|status| matches!(status, Status::Failed(_))) > 0
    }

    /// Returns the number of cases that could not be run.
    fn errors(&self) -> usize {
        self.count(|status| matches!(status, Status::Error(_)))
    }

    /// Writes it in `format` to `file`, which only its owner can read, and as text to standard
    /// output, or in `format` to standard output when there is no file.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be written.
    pub fn write(&self, format: Format, file: Option<&Path>) -> io::Result<()> {
        let text = match format {
            Format::Text => self.text(),
            Format::Json => self.json(),
            Format::Junit => junit(&[self.suite()]),
            Format::Tap => tap(&[self.suite()]),
            Format::Html => html(&[self.suite()]),
        };
        let Some(file) = file else {
            say(&text);
            return Ok(());
        };
        replace(file, text.as_bytes(), Readers::Owner)
            .map_err(|error| io::Error::other(format!("{}: {error}", file.display())))?;
        say(&self.text());
        Ok(())
    }

    fn count(&self, which: impl Fn(&Status) -> bool) -> usize {
        self.finished.iter().filter(|finished| which(&finished.status)).count()
    }

    /// Returns text for people, which ends with cargo's `test result:` line.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut names = String::new();
        for finished in &self.finished {
            let (Status::Failed(failure) | Status::Error(failure)) = &finished.status else {
                continue;
            };
            if names.is_empty() {
                text.push_str("\nfailures:\n");
            }
            let case = &finished.case;
            let report = self.failure_report(case, failure);
            let _ = write!(text, "\n---- {case} ----\n{report}");
            let _ = writeln!(names, "    {case}");
        }
        if !names.is_empty() {
            let _ = write!(text, "\nfailures:\n{names}");
        }
        let skipped = self.count(|status| matches!(status, Status::Skipped(_)));
        if skipped > 0 {
            let _ = writeln!(
                text,
                "\nSKIPPED ({skipped}): cases that were not run; each line above says why"
            );
        }
        let errors = self.errors();
        if errors > 0 {
            let cases = if errors == 1 { "case" } else { "cases" };
            let _ = writeln!(text, "\nERROR: {errors} {cases} could not be run");
        }
        if self.panics > 0 {
            let _ = writeln!(
                text,
                "\n{} panics, printed above; a panic is a failure, even if every case passed",
                self.panics
            );
        }
        // Programs that read cargo's line know no errors, so it counts them as failures.
        let _ = writeln!(
            text,
            "\ntest result: {}. {} passed; {} failed; {skipped} ignored; 0 measured; {} filtered out; \
             finished in {:.2}s",
            if self.is_success() { "ok" } else { "FAILED" },
            self.count(|status| matches!(status, Status::Passed)),
            self.count(|status| matches!(status, Status::Failed(_) | Status::Error(_))),
            self.filtered_out,
            self.elapsed.as_secs_f64()
        );
        text
    }

    /// Returns the command that runs only this case.
    fn rerun_of(&self, case: &Case) -> String {
        format!("{} {case}", self.rerun)
    }

    fn failure_report(&self, case: &Case, failure: &Failure) -> String {
        failure.report(&case.loaded.file, &self.rerun_of(case), 110)
    }

    /// Returns why a case did not pass.
    fn reason(&self, finished: &FinishedCase) -> Option<String> {
        match &finished.status {
            Status::Passed => None,
            Status::Failed(failure) | Status::Error(failure) => {
                Some(self.failure_report(&finished.case, failure))
            }
            Status::Skipped(why) => Some(why.clone()),
        }
    }

    /// Returns a JSON array with one object a case.
    pub fn json(&self) -> String {
        let rows = self.finished.iter().map(|finished| Row {
            status: Some(finished.status.reported().to_string()),
            ms: Some(finished.elapsed.as_millis() as u64),
            reason: self.reason(finished),
            ..Row::new(&finished.case)
        });
        json_rows(rows)
    }

    /// Returns the cases as a suite of a report.
    pub fn suite(&self) -> Suite {
        let mut suite = Suite::new("scenarios");
        suite.elapsed = self.elapsed;
        suite.panics = self.panics;
        suite.tests.extend(self.finished.iter().map(|finished| {
            let scenario = finished.case.scenario();
            let mut test = Test::new(
                finished.case.cell.to_string(),
                finished.status.reported(),
                finished.elapsed,
            );
            test.group = Some(scenario.id.clone());
            test.file = Some(finished.case.loaded.file.clone());
            test.about.clone_from(&scenario.title);
            test.reason = self.reason(finished);
            test
        }));
        suite
    }
}

/// Writes one row on each line, so that listings can be compared with `diff`.
fn json_rows<'a>(rows: impl Iterator<Item = Row<'a>>) -> String {
    let rows: Vec<_> = rows
        .map(|row| format!("  {}", serde_json::to_string(&row).expect("a row is plain JSON")))
        .collect();
    format!("[\n{}\n]\n", rows.join(",\n"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::run::case::tests::cases;

    fn outcome(statuses: Vec<Status>) -> Outcome {
        let finished = cases("one", "000/1.1")
            .into_iter()
            .zip(statuses)
            .map(|(case, status)| FinishedCase { case, status, elapsed: Duration::from_millis(12) })
            .collect();
        Outcome {
            finished,
            filtered_out: 3,
            panics: 0,
            elapsed: Duration::from_millis(1500),
            rerun: "run --exact".to_owned(),
        }
    }

    fn mixed() -> Outcome {
        outcome(vec![
            Status::Passed,
            Status::Failed(Failure::text("a < b & \"c\"\u{1b}")),
            Status::Skipped("no reason".into()),
        ])
    }

    #[test]
    fn text_ends_with_cargos_line() {
        let text = mixed().text();
        let last = "test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 3 filtered out; finished in 1.50s\n";
        assert!(text.ends_with(last), "{text}");
        assert!(text.contains("SKIPPED (1): cases that"), "{text}");
        assert!(text.contains("rerun: run --exact one/stdio/2025-11-25/directory"));
        assert!(outcome(vec![Status::Passed]).text().ends_with(
            "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out; finished in 1.50s\n"
        ));
    }

    #[test]
    fn a_case_that_could_not_be_run_is_an_error_in_each_format() {
        let error = Status::Error(Failure::text("no such program"));
        let outcome = outcome(vec![Status::Passed, error]);
        assert!(!outcome.is_success() && !outcome.has_failures());
        let text = outcome.text();
        assert!(text.contains("\nERROR: 1 case could not be run\n"), "{text}");
        assert!(text.contains("test result: FAILED. 1 passed; 1 failed"), "{text}");
        let rows: Vec<Value> = serde_json::from_str(&outcome.json()).unwrap();
        assert_eq!(rows[1]["status"], "error");
        let suite = outcome.suite();
        assert_eq!(suite.count(marquetry_test_report::Status::Error), 1);
        assert_eq!(suite.count(marquetry_test_report::Status::Failed), 0);
    }

    #[test]
    fn a_panic_is_a_failure() {
        let outcome = Outcome { panics: 1, ..outcome(vec![Status::Passed]) };
        assert!(!outcome.is_success());
        assert!(outcome.text().contains("test result: FAILED. 1 passed; 0 failed"));
    }

    #[test]
    fn json_adds_status_and_ms() {
        let rows: Vec<Value> = serde_json::from_str(&mixed().json()).unwrap();
        assert_eq!(
            rows[0],
            json!({
                "id": "one",
                "seed": "000/1.1",
                "file": "tests/scenarios/one.yaml",
                "matrix": {"transport": "stdio", "revision": "2025-11-25", "store": "memory"},
                "status": "passed",
                "ms": 12,
            })
        );
        assert_eq!((&rows[1]["status"], &rows[2]["status"]), (&json!("failed"), &json!("skipped")));
        assert_eq!(rows[2]["reason"], "no reason");
    }

    #[test]
    fn a_suite_has_each_case_with_its_scenario_as_group() {
        let suite = Outcome { panics: 2, ..mixed() }.suite();
        assert_eq!((suite.tests.len(), suite.panics), (3, 2));
        let [passed, failed, skipped] = &suite.tests[..] else { panic!() };
        assert_eq!(passed.group.as_deref(), Some("one"));
        assert_eq!(passed.name, "stdio/2025-11-25/memory");
        assert_eq!(passed.file.as_deref(), Some("tests/scenarios/one.yaml"));
        assert_eq!(passed.reason, None);
        assert!(failed.reason.as_ref().unwrap().contains("a < b & \"c\""), "{failed:?}");
        assert_eq!(skipped.reason.as_deref(), Some("no reason"));
    }
}
