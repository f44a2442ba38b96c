//! The course of a case, for its page.

use std::fmt::Write as _;

use marquetry_test_report::escape;

use crate::{TestResult, Trial};

/// Returns the verdict and the trials of a result as HTML.
pub(super) fn html(result: &TestResult) -> String {
    let mut page = String::new();
    // Writing to a String does not fail.
    _ = writeln!(
        page,
        "<p>{} (confidence {:.2}, tool accuracy {:.2})</p>",
        escape(&result.verdict.reasoning),
        result.verdict.confidence,
        result.verdict.tool_accuracy
    );
    if result.trials.len() > 1 {
        write_comparison(&mut page, &result.trials);
    }
    for trial in &result.trials {
        write_trial(&mut page, trial);
    }
    page
}

/// A row of a comparison of trials: its name, and the lines of a trial's cell.
type Row = (&'static str, fn(&Trial) -> Vec<String>);

/// Writes trials side by side, one column each.
fn write_comparison(page: &mut String, trials: &[Trial]) {
    page.push_str("<div class=\"scroll\"><table><tr><th></th>");
    for trial in trials {
        _ = write!(
            page,
            "<th>Trial {}: <span class=\"{1}\">{1}</span></th>",
            trial.index + 1,
            trial.status
        );
    }
    page.push_str("</tr>\n");
    let rows: [Row; 5] = [
        ("Calls", calls),
        ("Failed checks", failed_checks),
        ("Rejected by the judge", rejected_items),
        ("Tokens", |trial| vec![trial.usage.total().to_string()]),
        ("Time", |trial| vec![format!("{} ms", trial.duration_ms)]),
    ];
    for (name, lines) in rows {
        _ = write!(page, "<tr><th>{name}</th>");
        for trial in trials {
            let lines: Vec<String> = lines(trial).iter().map(|line| escape(line)).collect();
            _ = write!(page, "<td>{}</td>", lines.join("<br>"));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table></div>\n");
}

fn calls(trial: &Trial) -> Vec<String> {
    let calls = trial.tool_calls.iter();
    calls.map(|call| format!("{}/{}", call.server_id, call.tool_name)).collect()
}

fn failed_checks(trial: &Trial) -> Vec<String> {
    let failed = trial.checks.iter().filter(|check| !check.passed);
    failed.map(|check| format!("{}: {}", check.name, check.detail)).collect()
}

fn rejected_items(trial: &Trial) -> Vec<String> {
    let rejected = trial.verdict.items.iter().filter(|item| item.no >= item.yes);
    rejected.map(|item| item.item.clone()).collect()
}

fn write_trial(page: &mut String, trial: &Trial) {
    _ = writeln!(
        page,
        "<details><summary>Trial {}: <span class=\"{2}\">{2}</span>, {1} tool calls, {3} tokens, {4} ms</summary>",
        trial.index + 1,
        trial.tool_calls.len(),
        trial.status,
        trial.usage.total(),
        trial.duration_ms
    );
    if !trial.tool_calls.is_empty() {
        page.push_str("<table><tr><th>Tool</th><th>Server</th><th>Arguments</th><th>Result</th><th>ms</th></tr>\n");
        for call in &trial.tool_calls {
            let result = call.error.clone().unwrap_or_else(|| call.text());
            _ = writeln!(
                page,
                "<tr><td class=\"{}\">{}</td><td>{}</td><td><pre>{}</pre></td><td><pre>{}</pre></td><td>{}</td></tr>",
                if call.success { "passed" } else { "failed" },
                escape(&call.tool_name),
                escape(&call.server_id),
                escape(&call.parameters.to_string()),
                escape(&result),
                call.execution_time_ms
            );
        }
        page.push_str("</table>\n");
    }
    if !trial.answer.is_empty() {
        _ = writeln!(page, "<p>Answer:</p><pre>{}</pre>", escape(&trial.answer));
    }
    if !trial.verdict.items.is_empty() {
        page.push_str("<table><tr><th>Item</th><th>Yes</th><th>No</th><th>Evidence</th></tr>\n");
        for item in &trial.verdict.items {
            _ = writeln!(
                page,
                "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                escape(&item.item),
                item.yes,
                item.no,
                escape(&item.evidence)
            );
        }
        page.push_str("</table>\n");
    }
    page.push_str("</details>\n");
}
