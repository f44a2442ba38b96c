//! One HTML page without scripts, and without anything to load.

use std::fmt::Write as _;

use super::{Summary, escaped, problem, trials_in_words};
use crate::{Status, TestResult, Trial};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#1c1c1c;background:#fff}\
h1{font-size:1.4rem}details{border:1px solid #ccc;border-radius:6px;margin:.5rem 0;padding:.4rem .8rem}summary{cursor:pointer}\
pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#f5f5f5;padding:.6rem;border-radius:4px}\
table{border-collapse:collapse;width:100%}th,td{text-align:left;vertical-align:top;padding:.3rem .6rem;border-bottom:1px solid #ddd;overflow-wrap:anywhere}\
.passed{color:#176b2c}.failed{color:#a11212}.error{color:#8a4b00}\
@media(prefers-color-scheme:dark){body{color:#e6e6e6;background:#181818}pre{background:#242424}details,th,td{border-color:#444}\
.passed{color:#6fce85}.failed{color:#ff8a8a}.error{color:#ffc06b}}";

/// Returns results as one HTML page. It loads nothing and runs no script; everything in it is
/// escaped.
pub fn html(results: &[TestResult]) -> String {
    let Summary { total, passed, failed, errors, duration_ms } = Summary::of(results);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <title>Test results</title><style>{STYLE}</style></head><body>\n<h1>Test results</h1>\n\
         <p>{total} cases: <span class=\"passed\">{passed} passed</span>, <span class=\"failed\">{failed} failed</span>, \
         <span class=\"error\">{errors} errors</span>, in {duration_ms} ms</p>\n"
    );
    for result in results {
        write_result(&mut page, result);
    }
    page.push_str("</body></html>\n");
    page
}

fn write_result(page: &mut String, result: &TestResult) {
    let status = result.status;
    let open = if status == Status::Passed { "" } else { " open" };
    // Writing to a String does not fail.
    _ = writeln!(
        page,
        "<details{open}><summary><strong class=\"{status}\">{status}</strong> {} ({} ms)</summary>\n<p>{}</p>",
        escaped(&result.test_case.name),
        result.duration,
        escaped(&result.test_case.prompt)
    );
    if status == Status::Passed {
        if let Some(trials) = trials_in_words(result) {
            _ = writeln!(page, "<p>{}</p>", escaped(&trials));
        }
    } else {
        _ = writeln!(page, "<pre>{}</pre>", escaped(&problem(result)));
    }
    _ = writeln!(
        page,
        "<p>{} (confidence {:.2}, tool accuracy {:.2})</p>",
        escaped(&result.verdict.reasoning),
        result.verdict.confidence,
        result.verdict.tool_accuracy
    );
    for trial in &result.trials {
        write_trial(page, trial);
    }
    page.push_str("</details>\n");
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
                escaped(&call.tool_name),
                escaped(&call.server_id),
                escaped(&call.parameters.to_string()),
                escaped(&result),
                call.execution_time_ms
            );
        }
        page.push_str("</table>\n");
    }
    if !trial.answer.is_empty() {
        _ = writeln!(page, "<p>Answer:</p><pre>{}</pre>", escaped(&trial.answer));
    }
    if !trial.verdict.items.is_empty() {
        page.push_str("<table><tr><th>Item</th><th>Yes</th><th>No</th><th>Evidence</th></tr>\n");
        for item in &trial.verdict.items {
            _ = writeln!(
                page,
                "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                escaped(&item.item),
                item.yes,
                item.no,
                escaped(&item.evidence)
            );
        }
        page.push_str("</table>\n");
    }
    page.push_str("</details>\n");
}
