//! The outcome of a run: as text in cargo's manner, as JSON, as JUnit's XML, as TAP, as an HTML
//! page.

mod html;
mod tap;

use std::{
    fmt::Write as _,
    fs,
    io::{self, Write as _},
    path::Path,
    time::Duration,
};

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
    /// A JSON array with one object a case.
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
    status: Option<&'static str>,
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
        // TAP and HTML have no form for cases without an outcome.
        Format::Text | Format::Tap | Format::Html => {
            for case in cases {
                say(&format!("{case}: test\n"));
            }
            say(&format!("\n{} tests, 0 benchmarks\n", cases.len()));
        }
        Format::Json => say(&json_rows(cases.iter().map(Row::new))),
        Format::Junit => {
            let cases: String = cases.iter().map(|case| xml_case(case, None, "")).collect();
            say(&xml_suite(&cases, "", Duration::ZERO));
        }
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

    /// Writes it in `format` to `file` and as text to standard output, or in `format` to standard
    /// output when there is no file.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be written.
    pub fn write(&self, format: Format, file: Option<&Path>) -> io::Result<()> {
        let text = match format {
            Format::Text => self.text(),
            Format::Json => self.json(),
            Format::Junit => self.junit(),
            Format::Tap => tap::render(self),
            Format::Html => html::render(self),
        };
        let Some(file) = file else {
            say(&text);
            return Ok(());
        };
        fs::write(file, text)
            .map_err(|error| io::Error::other(format!("{}: {error}", file.display())))?;
        say(&self.text());
        Ok(())
    }

    fn count(&self, which: impl Fn(&Status) -> bool) -> usize {
        self.finished.iter().filter(|finished| which(&finished.status)).count()
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let failures = self.finished.iter().filter_map(|finished| match &finished.status {
            Status::Failed(failure) | Status::Error(failure) => Some((&finished.case, failure)),
            _ => None,
        });
        let mut names = String::new();
        for (case, failure) in failures {
            if names.is_empty() {
                text.push_str("\nfailures:\n");
            }
            let report = failure.report(&case.loaded.file, &self.rerun_of(case), 110);
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
                "\n{} panics, printed above; whatever they spared, this is a failure",
                self.panics
            );
        }
        // Readers of cargo's line know no errors; there they are failures.
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

    fn plain_report(&self, finished: &FinishedCase, failure: &Failure) -> String {
        failure.report(&finished.case.loaded.file, &self.rerun_of(&finished.case), 110)
    }

    /// Returns the command that runs only this case.
    fn rerun_of(&self, case: &Case) -> String {
        format!("{} {case}", self.rerun)
    }

    /// Returns each case with its outcome, and why it failed or was skipped.
    fn rows(&self) -> impl Iterator<Item = (&FinishedCase, &'static str, Option<String>)> {
        self.finished.iter().map(|finished| {
            let (status, reason) = match &finished.status {
                Status::Passed => ("passed", None),
                Status::Failed(failure) => ("failed", Some(self.plain_report(finished, failure))),
                Status::Error(failure) => ("error", Some(self.plain_report(finished, failure))),
                Status::Skipped(why) => ("skipped", Some(why.clone())),
            };
            (finished, status, reason)
        })
    }

    fn json(&self) -> String {
        let rows = self.rows().map(|(finished, status, reason)| {
            let ms = Some(finished.elapsed.as_millis() as u64);
            Row { status: Some(status), ms, reason, ..Row::new(&finished.case) }
        });
        json_rows(rows)
    }

    fn junit(&self) -> String {
        let cases: String = self
            .finished
            .iter()
            .map(|finished| {
                let inside = match &finished.status {
                    Status::Passed => String::new(),
                    Status::Failed(failure) => {
                        xml_report("failure", &self.plain_report(finished, failure))
                    }
                    Status::Error(failure) => {
                        xml_report("error", &self.plain_report(finished, failure))
                    }
                    Status::Skipped(why) => {
                        format!("      <skipped message=\"{}\"/>\n", xml_text(why))
                    }
                };
                xml_case(&finished.case, Some(finished.elapsed), &inside)
            })
            .collect();
        let counts = format!(
            " tests=\"{}\" failures=\"{}\" skipped=\"{}\" errors=\"{}\"",
            self.finished.len(),
            self.count(|status| matches!(status, Status::Failed(_))),
            self.count(|status| matches!(status, Status::Skipped(_))),
            self.panics + self.errors()
        );
        xml_suite(&cases, &counts, self.elapsed)
    }
}

/// Writes one row on each line, so that listings can be compared with `diff`.
fn json_rows<'a>(rows: impl Iterator<Item = Row<'a>>) -> String {
    let rows: Vec<_> = rows
        .map(|row| format!("  {}", serde_json::to_string(&row).expect("a row is plain JSON")))
        .collect();
    format!("[\n{}\n]\n", rows.join(",\n"))
}

fn xml_suite(cases: &str, counts: &str, elapsed: Duration) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  \
         <testsuite name=\"scenarios\"{counts} time=\"{:.3}\">\n{cases}  </testsuite>\n</testsuites>\n",
        elapsed.as_secs_f64()
    )
}

fn xml_case(case: &Case, elapsed: Option<Duration>, inside: &str) -> String {
    let time = elapsed.map_or(String::new(), |it| format!(" time=\"{:.3}\"", it.as_secs_f64()));
    let attributes = format!(
        "classname=\"{}\" name=\"{}\" file=\"{}\"{time}",
        xml_text(&case.scenario().id),
        xml_text(&case.cell.to_string()),
        xml_text(&case.loaded.file)
    );
    if inside.is_empty() {
        return format!("    <testcase {attributes}/>\n");
    }
    format!("    <testcase {attributes}>\n{inside}    </testcase>\n")
}

/// Returns the element `name` with the report of a failure.
fn xml_report(name: &str, report: &str) -> String {
    let first = xml_text(report.lines().next().unwrap_or_default());
    format!("      <{name} message=\"{first}\">{}</{name}>\n", xml_text(report))
}

/// Escapes text for XML, and drops the characters that XML 1.0 does not allow.
fn xml_text(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).fold(
        String::with_capacity(text.len()),
        |mut out, c| {
            match c {
                '<' => out.push_str("&lt;"),
                '>' => out.push_str("&gt;"),
                '&' => out.push_str("&amp;"),
                '"' => out.push_str("&quot;"),
                c => out.push(c),
            }
            out
        },
    )
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
        let xml = outcome.junit();
        assert!(xml.contains("failures=\"0\" skipped=\"0\" errors=\"1\""), "{xml}");
        assert!(xml.contains("<error message=") && !xml.contains("<failure"), "{xml}");
        let tap = tap::render(&outcome);
        assert!(tap.contains("\nnot ok 2 - ") && tap.contains("status: error"), "{tap}");
        let page = html::render(&outcome);
        assert!(page.contains("1 not run") && page.contains("<details open>"), "{page}");
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
    fn tap_has_a_line_for_each_case_and_a_diagnosis() {
        let tap = tap::render(&mixed());
        let lines: Vec<&str> = tap.lines().collect();
        assert_eq!(lines[..3], ["TAP version 14", "1..3", "ok 1 - one/stdio/2025-11-25/memory"]);
        assert_eq!(lines[3], "not ok 2 - one/stdio/2025-11-25/directory");
        assert_eq!(lines[4..7], ["  ---", "  status: failed", "  durationMs: 12"]);
        // A JSON text on one line, so that nothing of the reason is read as TAP.
        let message = lines[7].strip_prefix("  message: ").unwrap();
        let message: String = serde_json::from_str(message).unwrap();
        assert!(message.contains("a < b & \"c\""), "{message}");
        assert_eq!(lines[8], "  ...");
        assert!(lines[9].starts_with("ok 3 - one/") && lines[9].ends_with(" # SKIP no reason"));
        assert_eq!(lines.len(), 10, "{tap}");
    }

    #[test]
    fn a_panic_ends_tap_as_a_failure() {
        let tap = tap::render(&Outcome { panics: 2, ..outcome(vec![Status::Passed]) });
        assert!(tap.ends_with("\nBail out! 2 panics\n"), "{tap}");
    }

    #[test]
    fn html_is_escaped_and_loads_nothing() {
        let page = html::render(&mixed());
        assert!(page.starts_with("<!doctype html>"), "{page}");
        assert!(
            page.contains("a &lt; b &amp; &quot;c&quot;") && !page.contains('\u{1b}'),
            "{page}"
        );
        assert!(
            page.contains("1 passed") && page.contains("1 failed") && page.contains("1 skipped")
        );
        assert!(page.contains("tests/scenarios/one.yaml") && page.contains("no reason"));
        for loads in ["src=", "href=", "<script", "url("] {
            assert!(!page.contains(loads), "{loads}");
        }
    }

    #[test]
    fn junit_is_escaped() {
        let xml = mixed().junit();
        assert!(xml.contains("a &lt; b &amp; &quot;c&quot;"), "{xml}");
        assert!(!xml.contains('\u{1b}'));
        assert!(xml.contains("tests=\"3\" failures=\"1\" skipped=\"1\" errors=\"0\""), "{xml}");
        assert!(
            xml.contains("<testcase classname=\"one\" name=\"stdio/2025-11-25/memory\""),
            "{xml}"
        );
    }
}
