use serde_json::Value;

use super::*;
use crate::{TestCase, Timestamp, Verdict};

fn result(name: &str, status: Status, error: Option<&str>) -> TestResult {
    TestResult {
        id: "1".to_owned(),
        run_id: None,
        test_case: TestCase::new(name, "Do <it> & more"),
        tool_calls: Vec::new(),
        verdict: Verdict::none("a \u{1b}[31m\"reason\""),
        duration: 1234,
        success: status == Status::Passed,
        status,
        error: error.map(str::to_owned),
        timestamp: Timestamp::from_millis(0),
        trials: Vec::new(),
    }
}

fn three() -> [TestResult; 3] {
    [
        result("good", Status::Passed, None),
        result("bad # <x>\n2", Status::Failed, None),
        result("broken", Status::Error, Some("server \"a\" did <not> start\nsecond line")),
    ]
}

#[test]
fn junit_counts_and_escapes() {
    expect(
        &junit(&three()),
        &[
            "<testsuites tests=\"3\" failures=\"1\" errors=\"1\" time=\"3.702\">",
            "<testcase name=\"good\" classname=\"marquetry.judge\" time=\"1.234\" timestamp=\"1970-01-01T00:00:00.000Z\"/>",
            "name=\"bad # &lt;x&gt;\n2\"",
            "<failure message=\"Test execution failed: a \u{fffd}[31m&quot;reason&quot;\">",
            "<error message=\"server &quot;a&quot; did &lt;not&gt; start\">",
        ],
    );
}

#[test]
fn tap_has_one_line_for_each_result() {
    expect(
        &tap(&three()),
        &[
            "TAP version 14\n1..3\nok 1 - good\nnot ok 2 - bad \\# <x> 2\n  ---\n  status: failed\n",
            "not ok 3 - broken\n  ---\n  status: error\n",
            "  message: \"server \\\"a\\\" did <not> start\\nsecond line\"\n  ...\n",
        ],
    );
}

#[test]
fn html_escapes_everything_and_loads_nothing() {
    let page = html(&three());
    expect(
        &page,
        &["1 passed", "1 failed", "1 errors", "Do &lt;it&gt; &amp; more", "default-src 'none'"],
    );
    assert!(!page.contains("<it>") && !page.contains("<x>") && !page.contains("<script"));
}

#[test]
fn json_has_a_summary() {
    let report: Value = serde_json::from_str(&json(&three())).unwrap();
    assert_eq!(report["summary"]["failed"], 1);
    assert_eq!(report["results"][2]["status"], "error");
}

#[track_caller]
fn expect(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
}
