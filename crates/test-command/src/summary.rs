//! The summary of cases for people. For each case that did not pass, it shows expected and actual
//! calls side by side.

use std::fmt::Write as _;

use marquetry_judge::{
    ExpectedTool, Matching, Status, TestResult, ToolCallRecord, Trial, check,
    report::trials_in_words,
};
use marquetry_printable::changes_layout;
use serde_json::json;

/// Width of the column of expected calls, in characters.
const COLUMN_WIDTH: usize = 48;

/// Returns the summary of results. It ends with cargo's `test result:` line.
pub(crate) fn render(results: &[TestResult]) -> String {
    let mut text = String::new();
    let (passing, failing): (Vec<_>, Vec<_>) =
        results.iter().partition(|result| result.status == Status::Passed);
    for result in passing {
        // Only cases with several trials have this text.
        if let Some(trials) = trials_in_words(result) {
            _ = writeln!(text, "{}: {trials}", one_line(&result.test_case.name));
        }
    }
    if !failing.is_empty() {
        text.push_str("\nfailures:\n");
    }
    for result in failing {
        write_failure(&mut text, result);
    }
    let passed = count(results, Status::Passed);
    let failed = count(results, Status::Failed);
    let errors = count(results, Status::Error);
    let verdict = match (failed, errors) {
        (0, 0) => "ok",
        (0, _) => "ERROR",
        _ => "FAILED",
    };
    _ = writeln!(
        text,
        "\ntest result: {verdict}. {passed} passed; {failed} failed; {errors} without a verdict"
    );
    text
}

fn count(results: &[TestResult], status: Status) -> usize {
    results.iter().filter(|it| it.status == status).count()
}

/// Writes why a case did not pass.
fn write_failure(text: &mut String, result: &TestResult) {
    _ = writeln!(text, "\n---- {} ----", one_line(&result.test_case.name));
    if let Some(trials) = trials_in_words(result) {
        _ = writeln!(text, "{trials}");
    }
    if let Some(error) = &result.error {
        _ = writeln!(text, "error: {}", one_line(error));
    }
    let Some(trial) = result.deciding_trial() else { return };
    let expected = result.test_case.expected_tools.as_deref().unwrap_or_default();
    write_calls(text, expected, &trial.tool_calls, result.test_case.matching);
    write_failed_checks(text, trial);
    for item in &result.verdict.items {
        if item.no >= item.yes {
            _ = writeln!(
                text,
                "judge: {} of {} votes say no to: {}\n       {}",
                item.no,
                item.yes + item.no,
                one_line(&item.item),
                one_line(&item.evidence)
            );
        }
    }
    if result.status == Status::Failed && !result.verdict.reasoning.is_empty() {
        _ = writeln!(text, "reason: {}", one_line(&result.verdict.reasoning));
    }
    if let Some(suggestions) = &result.verdict.suggestions {
        _ = writeln!(text, "suggestion: {}", one_line(suggestions));
    }
}

/// Writes expected and actual calls side by side. A call is placed beside the expected call that it
/// matches.
fn write_calls(
    text: &mut String,
    expected: &[ExpectedTool],
    called: &[ToolCallRecord],
    matching: Matching,
) {
    if expected.is_empty() && called.is_empty() {
        return;
    }
    _ = writeln!(text, "  {:COLUMN_WIDTH$}  called", "expected");
    let matches = check::pairs(expected, called, matching, check::has_call_and_result);
    for (tool, call) in rows(expected, called, &matches) {
        let is_match = tool.zip(call).is_some_and(|pair| matches.contains(&pair));
        let left = tool.map_or_else(|| "-".to_owned(), |index| expected_call(&expected[index]));
        let right = call.map_or_else(|| "-".to_owned(), |index| actual_call(&called[index]));
        let mark = if is_match || expected.is_empty() { ' ' } else { '!' };
        _ = writeln!(text, "{mark} {}  {}", padded(&left), cut(&right, 2 * COLUMN_WIDTH));
    }
}

/// Returns the rows of the table: indexes of an expected and an actual call, of which one may be
/// missing. Expected calls come first, in their order.
///
/// A call without a match is placed beside an unmatched expected call of the same tool, or else
/// beside any unmatched expected call.
fn rows(
    expected: &[ExpectedTool],
    called: &[ToolCallRecord],
    matches: &[(usize, usize)],
) -> Vec<(Option<usize>, Option<usize>)> {
    let mut partners: Vec<Option<usize>> = vec![None; expected.len()];
    let mut rest: Vec<usize> = (0..called.len()).collect();
    for (expected, call) in matches {
        partners[*expected] = Some(*call);
        rest.retain(|other| other != call);
    }
    for needs_same_name in [true, false] {
        for (tool, partner) in expected.iter().zip(&mut partners) {
            if partner.is_none() {
                *partner = rest
                    .iter()
                    .position(|call| !needs_same_name || called[*call].tool_name == tool.name)
                    .map(|at| rest.remove(at));
            }
        }
    }
    let with_expected = partners.into_iter().enumerate().map(|(tool, call)| (Some(tool), call));
    with_expected.chain(rest.into_iter().map(|call| (None, Some(call)))).collect()
}

fn write_failed_checks(text: &mut String, trial: &Trial) {
    for check in trial.checks.iter().filter(|check| !check.passed) {
        _ = writeln!(text, "check: {}: {}", one_line(&check.name), one_line(&check.detail));
    }
}

fn expected_call(tool: &ExpectedTool) -> String {
    let mut call = match &tool.server {
        Some(server) => format!("{server}/{}", tool.name),
        None => tool.name.clone(),
    };
    if let Some(arguments) = &tool.arguments {
        _ = write!(call, " {}", json!(arguments));
    }
    one_line(&call)
}

fn actual_call(call: &ToolCallRecord) -> String {
    let mut shown = format!("{}/{} {}", call.server_id, call.tool_name, call.parameters);
    if let Some(error) = &call.error {
        _ = write!(shown, " -> error: {error}");
    } else if !call.success {
        _ = write!(shown, " -> error: {}", call.text());
    }
    one_line(&shown)
}

fn padded(text: &str) -> String {
    format!("{:COLUMN_WIDTH$}", cut(text, COLUMN_WIDTH))
}

/// Returns at most `width` characters.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width - 1).chain(['…']).collect()
}

/// Returns text of models and servers without characters that move the cursor of a terminal or
/// reorder a line.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|it| if it.is_control() || changes_layout(it) { ' ' } else { it }).collect()
}

#[cfg(test)]
mod tests {
    use marquetry_judge::TestCase;
    use serde_json::Value;

    use super::*;

    fn call(tool: &str, arguments: Value) -> ToolCallRecord {
        ToolCallRecord::of_text("files", tool, arguments, "done")
    }

    #[test]
    fn the_failing_call_is_beside_the_expected_one() {
        let case: TestCase = serde_json::from_value(json!({
            "expectedTools": [
                "list_directory",
                {"name": "write_file", "arguments": {"path": "hello.txt"}},
                "read_text_file",
            ],
        }))
        .unwrap();
        let called = [
            call("write_file", json!({"path": "hallo.txt"})),
            call("list_directory", json!({"path": "."})),
            call("delete", json!({})),
        ];
        let mut text = String::new();
        write_calls(
            &mut text,
            case.expected_tools.as_deref().unwrap(),
            &called,
            Matching::Superset,
        );
        let lines: Vec<String> = text
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(
            lines,
            [
                "expected called",
                "list_directory files/list_directory {\"path\":\".\"}",
                "! write_file {\"path\":\"hello.txt\"} files/write_file {\"path\":\"hallo.txt\"}",
                "! read_text_file files/delete {}",
            ]
        );
    }

    #[test]
    fn untrusted_text_stays_on_one_line() {
        assert_eq!(one_line("a\n\u{1b}[31mb\u{202e}c"), "a  [31mb c");
        assert_eq!(cut("abcdef", 4), "abc…");
    }
}
