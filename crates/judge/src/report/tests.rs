//! Tests of all formats of reports.

use serde_json::Value;

use super::*;
use crate::{TestCase, Timestamp, Trial, Verdict, result::TokenUsage};

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

/// Returns a result with these numbers of trials by status.
fn repeated(passed: u32, failed: u32, errors: u32) -> TestResult {
    let all = [(passed, Status::Passed), (failed, Status::Failed), (errors, Status::Error)];
    let statuses = all.into_iter().flat_map(|(count, status)| (0..count).map(move |_| status));
    let trials = statuses
        .map(|status| Trial {
            index: 0,
            status,
            error: None,
            turns: Vec::new(),
            tool_calls: Vec::new(),
            answer: String::new(),
            checks: Vec::new(),
            votes: Vec::new(),
            verdict: Verdict::none(""),
            usage: TokenUsage::default(),
            work_ms: 0,
            duration_ms: 0,
        })
        .collect();
    TestResult { trials, ..result("again", Status::Passed, None) }
}

fn words(passed: u32, failed: u32, errors: u32) -> Option<String> {
    trials_in_words(&repeated(passed, failed, errors))
}

#[test]
fn repetitions_are_reported_with_their_interval_and_chances() {
    assert_eq!(words(1, 0, 0), None);
    assert_eq!(
        words(4, 1, 0).unwrap(),
        "4 of 5 trials passed (95 % interval 38 to 96 %; at least one of 3 passes: 100 %; all of 3: 40 %)"
    );
    assert_eq!(
        words(1, 1, 2).unwrap(),
        "1 of 2 trials passed (95 % interval 9 to 91 %), 2 without a verdict"
    );
    assert_eq!(words(0, 0, 2).unwrap(), "0 of 0 trials passed, 2 without a verdict");
    let results = [repeated(2, 1, 0)];
    expect(&junit(&results), &["<property name=\"trials\" value=\"2 of 3 trials passed (95 %"]);
    expect(&html(&results), &["<p>2 of 3 trials passed (95 %"]);
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
