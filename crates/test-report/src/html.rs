//! One HTML page without scripts, and without anything to load.

use std::fmt::Write as _;

use crate::{Status, Suite, Test, escape};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#1c1c1c;background:#fff}\
h1{font-size:1.4rem}h2{font-size:1.15rem;margin-top:2rem}details{border:1px solid #ccc;border-radius:6px;margin:.5rem 0;padding:.4rem .8rem}\
summary{cursor:pointer}pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#f5f5f5;padding:.6rem;border-radius:4px;margin:.3rem 0}\
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%}th,td{text-align:left;vertical-align:top;padding:.3rem .6rem;border-bottom:1px solid #ddd;overflow-wrap:anywhere}\
.passed{color:#176b2c}.failed{color:#a11212}.error{color:#8a4b00}.skipped{color:#555}\
@media(prefers-color-scheme:dark){body{color:#e6e6e6;background:#181818}pre{background:#242424}details,th,td{border-color:#444}\
.passed{color:#6fce85}.failed{color:#ff8a8a}.error{color:#ffc06b}.skipped{color:#aaa}}";

/// Returns suites as one HTML page. It loads nothing and runs no script; everything in it is
/// escaped. Tests that did not pass are open.
pub fn html(suites: &[Suite]) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <title>Test results</title><style>{STYLE}</style></head><body>\n<h1>Test results</h1>\n"
    );
    for suite in suites {
        write_suite(&mut page, suite);
    }
    page.push_str("</body></html>\n");
    page
}

fn write_suite(page: &mut String, suite: &Suite) {
    // Writing to a String does not fail.
    _ = write!(
        page,
        "<h2>{}</h2>\n<p>{} tests: <span class=\"passed\">{} passed</span>, <span class=\"failed\">{} failed</span>",
        escape(&suite.name),
        suite.tests.len(),
        suite.count(Status::Passed),
        suite.count(Status::Failed),
    );
    let errors = suite.count(Status::Error);
    if errors > 0 {
        _ = write!(page, ", <span class=\"error\">{errors} could not be run or judged</span>");
    }
    let skipped = suite.count(Status::Skipped);
    if skipped > 0 {
        _ = write!(page, ", <span class=\"skipped\">{skipped} skipped</span>");
    }
    _ = writeln!(page, ", in {} ms</p>", suite.elapsed.as_millis());
    if suite.panics > 0 {
        _ = writeln!(page, "<p class=\"error\">{} panics</p>", suite.panics);
    }
    for test in &suite.tests {
        write_test(page, test);
    }
}

fn write_test(page: &mut String, test: &Test) {
    let status = test.status;
    let open = if matches!(status, Status::Failed | Status::Error) { " open" } else { "" };
    _ = writeln!(
        page,
        "<details{open}><summary><strong class=\"{status}\">{status}</strong> {} ({} ms)</summary>",
        escape(&test.full_name()),
        test.elapsed.as_millis(),
    );
    if let Some(file) = &test.file {
        _ = writeln!(page, "<p>{}: {}</p>", escape(file), escape(&test.about));
    } else if !test.about.is_empty() {
        _ = writeln!(page, "<p>{}</p>", escape(&test.about));
    }
    if let Some(trials) = &test.trials {
        _ = writeln!(page, "<p>{}</p>", escape(trials));
    }
    if let Some(reason) = &test.reason {
        _ = writeln!(page, "<pre>{}</pre>", escape(reason));
    }
    page.push_str(&test.details);
    page.push_str("</details>\n");
}
