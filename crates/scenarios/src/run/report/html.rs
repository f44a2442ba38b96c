//! One HTML page without scripts, and without anything to load.

use std::fmt::Write as _;

use super::{Outcome, xml_text};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#1c1c1c;background:#fff}\
h1{font-size:1.4rem}details{border:1px solid #ccc;border-radius:6px;margin:.5rem 0;padding:.4rem .8rem}summary{cursor:pointer}\
pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#f5f5f5;padding:.6rem;border-radius:4px}\
.passed{color:#176b2c}.failed,.error{color:#a11212}.skipped{color:#8a4b00}\
@media(prefers-color-scheme:dark){body{color:#e6e6e6;background:#181818}pre{background:#242424}details{border-color:#444}\
.passed{color:#6fce85}.failed,.error{color:#ff8a8a}.skipped{color:#ffc06b}}";

/// Returns an outcome as one HTML page. It loads nothing and runs no script; everything in it is
/// escaped.
pub(super) fn render(outcome: &Outcome) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <title>Scenarios</title><style>{STYLE}</style></head><body>\n<h1>Scenarios</h1>\n\
         <p>{} scenarios: <span class=\"passed\">{} passed</span>, <span class=\"failed\">{} failed</span>, \
         <span class=\"error\">{} not run</span>, <span class=\"skipped\">{} skipped</span>, in {} ms</p>\n",
        outcome.finished.len(),
        count(outcome, "passed"),
        count(outcome, "failed"),
        count(outcome, "error"),
        count(outcome, "skipped"),
        outcome.elapsed.as_millis()
    );
    if outcome.panics > 0 {
        // Writing to a String does not fail.
        _ = writeln!(page, "<p class=\"failed\">{} panics</p>", outcome.panics);
    }
    for (finished, status, reason) in outcome.rows() {
        let open = if matches!(status, "failed" | "error") { " open" } else { "" };
        _ = writeln!(
            page,
            "<details{open}><summary><strong class=\"{status}\">{status}</strong> {} ({} ms)</summary>\n<p>{}: {}</p>",
            xml_text(&finished.case.to_string()),
            finished.elapsed.as_millis(),
            xml_text(&finished.case.loaded.file),
            xml_text(&finished.case.scenario().title)
        );
        if let Some(reason) = reason {
            _ = writeln!(page, "<pre>{}</pre>", xml_text(&reason));
        }
        page.push_str("</details>\n");
    }
    page.push_str("</body></html>\n");
    page
}

fn count(outcome: &Outcome, wanted: &str) -> usize {
    outcome.rows().filter(|(_, status, _)| *status == wanted).count()
}
