//! Tests of all formats of reports.

use serde_json::Value;

use super::*;
use crate::{TestCase, Timestamp, ToolCallRecord, Trial, Verdict, result::TokenUsage};

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
fn a_suite_has_each_result_with_its_reason() {
    let suite = suite(&three());
    assert_eq!(suite.elapsed, Duration::from_millis(3702));
    let [good, bad, broken] = &suite.tests[..] else { panic!() };
    assert_eq!(good.name, "good");
    assert_eq!(good.about, "Do <it> & more");
    assert_eq!(good.timestamp.as_deref(), Some("1970-01-01T00:00:00.000Z"));
    assert_eq!(good.reason, None);
    assert_eq!(bad.reason.as_deref(), Some("Test execution failed: a \u{1b}[31m\"reason\""));
    assert_eq!(broken.reason.as_deref(), Some("server \"a\" did <not> start\nsecond line"));
    assert_eq!(broken.status, marquetry_test_report::Status::Error);
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
    let suite = suite(&[repeated(2, 1, 0)]);
    let trials = suite.tests[0].trials.as_ref().unwrap();
    assert!(trials.starts_with("2 of 3 trials passed (95 %"), "{trials}");
}

#[test]
fn trials_of_a_case_are_side_by_side() {
    let mut result = repeated(1, 1, 0);
    result.trials[1].index = 1;
    result.trials[1].tool_calls =
        vec![ToolCallRecord::of_text("files", "<write>", Value::Null, "done")];
    let page = &suite(&[result]).tests[0].details;
    for part in [
        "<th>Trial 1: <span class=\"passed\">passed</span></th><th>Trial 2: <span class=\"failed\">failed</span></th></tr>",
        "<tr><th>Calls</th><td></td><td>files/&lt;write&gt;</td></tr>",
        "<tr><th>Tokens</th><td>0</td><td>0</td></tr>",
    ] {
        assert!(page.contains(part), "{part:?} is not in:\n{page}");
    }
    let one = &suite(&[repeated(1, 0, 0)]).tests[0].details;
    assert!(!one.contains("<th>Calls</th>"), "{one}");
}

#[test]
fn json_has_a_summary() {
    let report: Value = serde_json::from_str(&json(&three())).unwrap();
    assert_eq!(report["summary"]["failed"], 1);
    assert_eq!(report["results"][2]["status"], "error");
}
