//! Checks by code: the calls with their arguments and results, their number and duration, and the
//! tokens.

use std::{borrow::Cow, cell::LazyCell};

use serde_json::{Value, json};

pub use crate::result::CheckResult;
use crate::{
    ExpectedTool, Matching, TestCase, ToolCallRecord,
    case::{Expectations, ResultExpectation},
    stats::f1,
};

/// Maximum number of expected calls of a case.
///
/// The time to pair them with the calls grows with `expected · calls` in order, and in the worst
/// case with `expected² · calls` in any order.
pub const MAX_EXPECTED: usize = 1000;

/// The work of a trial.
#[derive(Clone, Copy, Debug)]
pub struct Work<'a> {
    /// The tool calls, in order.
    pub calls: &'a [ToolCallRecord],
    /// `results[call][expected]`: whether the uncut result of the call meets the expectation. If
    /// `None`, `check` computes it from `calls`.
    pub results: Option<&'a [Vec<bool>]>,
    /// The model's last text.
    pub answer: &'a str,
    /// Time of the work, in milliseconds.
    pub work_ms: u64,
    /// Tokens of the work.
    pub tokens: u64,
}

/// The results of all checks of a case.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// F1 of the expected calls against the actual calls; 1 if the case has no `expectedTools`, or
    /// if both lists are empty.
    pub tool_accuracy: f64,
    /// The checks.
    pub results: Vec<CheckResult>,
}

/// Returns whether a case has anything that code checks.
pub fn has_checks(case: &TestCase) -> bool {
    let all_calls_succeed = case.expect.all_calls_succeed;
    // `allCallsSucceed: false` expects nothing.
    let others_empty = Expectations { all_calls_succeed, ..Expectations::default() };
    case.expected_tools.is_some() || all_calls_succeed == Some(true) || case.expect != others_empty
}

/// Checks the work of a trial.
pub fn check(case: &TestCase, work: &Work<'_>) -> Checked {
    let mut results = Vec::new();
    let mut tool_accuracy = 1.0;
    if let Some(expected) = &case.expected_tools {
        let pairs = pairs(expected, work.calls, case.matching, has_call);
        tool_accuracy = f1(pairs.len(), expected.len(), work.calls.len());
        results.push(check_calls(expected, work.calls, case.matching, &pairs));
        if expected.iter().any(|tool| tool.result.is_some()) {
            results.push(check_results(expected, work, case.matching, &pairs));
        }
    }
    results.extend(check_run(case, work, tool_accuracy));
    Checked { tool_accuracy, results }
}

/// Pairs expected calls with actual calls: as many as possible, each at most once, and in order if
/// the mode demands it.
///
/// A pair is (index in `expected`, index in `calls`).
pub fn pairs(
    expected: &[ExpectedTool],
    calls: &[ToolCallRecord],
    matching: Matching,
    fits: impl Fn(&ExpectedTool, &ToolCallRecord) -> bool,
) -> Vec<(usize, usize)> {
    let rows: Vec<Vec<bool>> = expected
        .iter()
        .map(|expected| calls.iter().map(|call| fits(expected, call)).collect())
        .collect();
    pairs_of(&rows, calls.len(), matching)
}

/// Pairs as [`pairs`] does; `fits` has a row for each expected call, with a column for each call.
fn pairs_of(fits: &[Vec<bool>], calls: usize, matching: Matching) -> Vec<(usize, usize)> {
    match matching {
        Matching::InOrder | Matching::Exact => in_order(fits, calls),
        Matching::AnyOrder | Matching::Superset => in_any_order(fits, calls),
    }
}

/// Returns whether a call is the expected one, by tool, server and arguments. A call that was not
/// sent to a server does not count.
pub fn has_call(expected: &ExpectedTool, call: &ToolCallRecord) -> bool {
    call.was_sent()
        && expected.name == call.tool_name
        && expected.server.as_ref().is_none_or(|server| *server == call.server_id)
        && expected.arguments.as_ref().is_none_or(|matcher| matcher.matches(Some(&call.parameters)))
}

/// Returns whether a call is the expected one, by tool, server, arguments and result.
pub fn has_call_and_result(expected: &ExpectedTool, call: &ToolCallRecord) -> bool {
    has_call(expected, call) && results_of(std::slice::from_ref(expected), call)[0]
}

/// Returns, for each expected call, whether `call` has its result.
pub(crate) fn results_of(expected: &[ExpectedTool], call: &ToolCallRecord) -> Vec<bool> {
    let text = LazyCell::new(|| Value::String(call.text()));
    let structured = call.response.get("structuredContent");
    expected
        .iter()
        .map(|tool| {
            let Some(ResultExpectation { success, text: wanted_text, structured: wanted }) =
                &tool.result
            else {
                return true;
            };
            success.is_none_or(|success| success == call.success)
                && wanted_text.as_ref().is_none_or(|matcher| matcher.matches(Some(&*text)))
                && wanted.as_ref().is_none_or(|matcher| matcher.matches(structured))
        })
        .collect()
}

/// Pairs in order, by the longest common subsequence.
fn in_order(fits: &[Vec<bool>], calls: usize) -> Vec<(usize, usize)> {
    let expected = fits.len();
    let mut longest = vec![vec![0usize; calls + 1]; expected + 1];
    for row in (0..expected).rev() {
        for column in (0..calls).rev() {
            longest[row][column] = if fits[row][column] {
                longest[row + 1][column + 1] + 1
            } else {
                longest[row + 1][column].max(longest[row][column + 1])
            };
        }
    }
    let mut row = 0;
    let mut column = 0;
    let mut pairs = Vec::new();
    while row < expected && column < calls {
        if fits[row][column] {
            pairs.push((row, column));
            row += 1;
            column += 1;
        } else if longest[row + 1][column] >= longest[row][column + 1] {
            row += 1;
        } else {
            column += 1;
        }
    }
    pairs
}

/// Pairs in any order, by a maximum matching (Kuhn's algorithm).
fn in_any_order(fits: &[Vec<bool>], calls: usize) -> Vec<(usize, usize)> {
    fn find_column(
        row: usize,
        fits: &[Vec<bool>],
        tried: &mut [bool],
        taken: &mut [Option<usize>],
    ) -> bool {
        for column in 0..taken.len() {
            if !fits[row][column] || std::mem::replace(&mut tried[column], true) {
                continue;
            }
            if taken[column].is_none_or(|other| find_column(other, fits, tried, taken)) {
                taken[column] = Some(row);
                return true;
            }
        }
        false
    }
    let mut taken = vec![None; calls];
    for row in 0..fits.len() {
        find_column(row, fits, &mut vec![false; calls], &mut taken);
    }
    let mut pairs: Vec<_> =
        taken.into_iter().enumerate().filter_map(|(column, row)| Some((row?, column))).collect();
    pairs.sort_unstable();
    pairs
}

fn check_calls(
    expected: &[ExpectedTool],
    calls: &[ToolCallRecord],
    matching: Matching,
    pairs: &[(usize, usize)],
) -> CheckResult {
    let has_all = pairs.len() == expected.len();
    let has_others = pairs.len() < calls.len();
    let passed = match matching {
        // An empty list expects no call at all.
        _ if expected.is_empty() => calls.is_empty(),
        Matching::AnyOrder | Matching::Exact => has_all && !has_others,
        Matching::InOrder | Matching::Superset => has_all,
    };
    let missing: Vec<Value> = (0..expected.len())
        .filter(|index| !pairs.iter().any(|(row, _)| row == index))
        .map(|index| json!(expected[index]))
        .collect();
    let others: Vec<Value> = (0..calls.len())
        .filter(|index| !pairs.iter().any(|(_, column)| column == index))
        .map(|index| {
            let ToolCallRecord { tool_name, server_id, parameters, .. } = &calls[index];
            json!({"name": tool_name, "server": server_id, "arguments": parameters})
        })
        .collect();
    let how = match matching {
        Matching::AnyOrder => "exactly these, in any order",
        Matching::InOrder => "these in this order",
        Matching::Exact => "exactly these in this order",
        Matching::Superset => "at least these",
    };
    CheckResult {
        name: "expectedTools".to_owned(),
        passed,
        detail: format!(
            "{} of {} expected calls were made, and {} others ({how})",
            pairs.len(),
            expected.len(),
            others.len()
        ),
        expected: if passed { Value::Null } else { Value::Array(missing) },
        actual: if passed { Value::Null } else { Value::Array(others) },
    }
}

fn check_results(
    expected: &[ExpectedTool],
    work: &Work<'_>,
    matching: Matching,
    by_call: &[(usize, usize)],
) -> CheckResult {
    let calls = work.calls;
    let found: Cow<'_, [Vec<bool>]> = match work.results {
        Some(found) => found.into(),
        None => calls.iter().map(|call| results_of(expected, call)).collect(),
    };
    let fits: Vec<Vec<bool>> = expected
        .iter()
        .enumerate()
        .map(|(row, tool)| {
            let columns = calls.iter().zip(found.iter());
            columns.map(|(call, found)| has_call(tool, call) && found[row]).collect()
        })
        .collect();
    let pairs = pairs_of(&fits, calls.len(), matching);
    // Results pass if pairing by call and result finds as many pairs as pairing by call alone.
    // Comparing the numbers ensures that an expectation without a result does not lose its call to
    // an expectation with one.
    let passed = pairs.len() == by_call.len();
    if passed {
        return CheckResult {
            name: "results".to_owned(),
            passed,
            detail: "the expected results were found".to_owned(),
            expected: Value::Null,
            actual: Value::Null,
        };
    }
    let unmet: Vec<Value> = by_call
        .iter()
        .filter(|(row, _)| !pairs.iter().any(|(paired, _)| paired == row))
        .map(|(row, _)| json!(expected[*row]))
        .collect();
    let others: Vec<Value> = by_call
        .iter()
        .filter(|(_, column)| !pairs.iter().any(|(_, paired)| paired == column))
        .map(|(_, column)| {
            let call = &calls[*column];
            json!({"name": call.tool_name, "success": call.success, "response": call.response})
        })
        .collect();
    CheckResult {
        name: "results".to_owned(),
        passed,
        detail: format!("{} of {} expected results were not found", unmet.len(), by_call.len()),
        expected: Value::Array(unmet),
        actual: Value::Array(others),
    }
}

fn at_least(name: &str, limit: Option<f64>, found: f64) -> Option<CheckResult> {
    let limit = limit?;
    Some(CheckResult {
        name: name.to_owned(),
        passed: found >= limit,
        detail: format!("found {found}, expected at least {limit}"),
        expected: json!(limit),
        actual: json!(found),
    })
}

fn at_most(name: &str, limit: Option<f64>, found: f64) -> Option<CheckResult> {
    let limit = limit?;
    Some(CheckResult {
        name: name.to_owned(),
        passed: found <= limit,
        detail: format!("found {found}, expected at most {limit}"),
        expected: json!(limit),
        actual: json!(found),
    })
}

fn check_run(case: &TestCase, work: &Work<'_>, tool_accuracy: f64) -> Vec<CheckResult> {
    let expect = &case.expect;
    let calls = work.calls.len() as f64;
    let longest = work.calls.iter().map(|call| call.execution_time_ms).max().unwrap_or(0);
    let limits = [
        at_least("minCalls", expect.min_calls.map(f64::from), calls),
        at_most("maxCalls", expect.max_calls.map(f64::from), calls),
        at_most("maxDurationMs", expect.max_duration_ms.map(|ms| ms as f64), work.work_ms as f64),
        at_most("maxCallMs", expect.max_call_ms.map(|ms| ms as f64), longest as f64),
        at_most("maxTokens", expect.max_tokens.map(|tokens| tokens as f64), work.tokens as f64),
        at_least("minToolAccuracy", expect.min_tool_accuracy, tool_accuracy),
    ];
    let mut results: Vec<CheckResult> = limits.into_iter().flatten().collect();
    if !expect.forbidden_tools.is_empty() {
        let called: Vec<&str> = work
            .calls
            .iter()
            .filter(|call| expect.forbidden_tools.iter().any(|tool| has_call(tool, call)))
            .map(|call| call.tool_name.as_str())
            .collect();
        results.push(CheckResult {
            name: "forbiddenTools".to_owned(),
            passed: called.is_empty(),
            detail: if called.is_empty() {
                "no forbidden tool was called".to_owned()
            } else {
                format!("called: {}", called.join(", "))
            },
            expected: Value::Null,
            actual: Value::Null,
        });
    }
    if let Some(matcher) = &expect.answer {
        let answer = Value::from(work.answer);
        let passed = matcher.matches(Some(&answer));
        results.push(CheckResult {
            name: "answer".to_owned(),
            passed,
            detail: if passed { "the answer matches" } else { "the answer does not match" }
                .to_owned(),
            expected: matcher.as_value().clone(),
            actual: answer,
        });
    }
    if expect.all_calls_succeed == Some(true) {
        let failed: Vec<&ToolCallRecord> = work.calls.iter().filter(|call| !call.success).collect();
        results.push(CheckResult {
            name: "allCallsSucceed".to_owned(),
            passed: failed.is_empty(),
            detail: format!("{} of {} calls failed", failed.len(), work.calls.len()),
            expected: Value::Null,
            actual: if failed.is_empty() {
                Value::Null
            } else {
                failed
                    .iter()
                    .map(|call| json!({"name": call.tool_name, "error": call.error}))
                    .collect()
            },
        });
    }
    results
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::matcher::Matcher;

    fn call(name: &str) -> ToolCallRecord {
        ToolCallRecord::of_text("s", name, json!({"path": name}), "done")
    }

    fn call_at(path: &str, success: bool) -> ToolCallRecord {
        ToolCallRecord { parameters: json!({"path": path}), success, ..call("a") }
    }

    fn path(path: &str) -> Matcher {
        Matcher::new(json!({"path": path})).unwrap()
    }

    fn case(expected: &str, matching: Matching) -> TestCase {
        let mut case = TestCase::new("a", "b");
        case.expected_tools = Some(expected.split_whitespace().map(ExpectedTool::new).collect());
        case.matching = matching;
        case
    }

    fn work(calls: &[ToolCallRecord]) -> Work<'_> {
        Work { calls, results: None, answer: "All done.", work_ms: 10, tokens: 100 }
    }

    #[test]
    fn each_mode_has_its_own_rule() {
        use Matching::{AnyOrder, Exact, InOrder, Superset};
        for (expected, calls, passing, accuracy) in [
            ("a b", "a b", &[AnyOrder, InOrder, Exact, Superset][..], [1.0; 4]),
            ("a b", "b a", &[AnyOrder, Superset], [1.0, 0.5, 0.5, 1.0]),
            ("a b", "a x b", &[InOrder, Superset], [0.8; 4]),
            ("a b", "a", &[], [2.0 / 3.0; 4]),
            ("a a", "a", &[], [2.0 / 3.0; 4]),
            ("", "", &[AnyOrder, InOrder, Exact, Superset], [1.0; 4]),
            ("", "a", &[], [0.0; 4]),
            ("a", "", &[], [0.0; 4]),
        ] {
            let calls: Vec<_> = calls.split_whitespace().map(call).collect();
            for (mode, accuracy) in [AnyOrder, InOrder, Exact, Superset].into_iter().zip(accuracy) {
                let checked = check(&case(expected, mode), &work(&calls));
                let passed = checked.results.iter().all(|check| check.passed);
                assert_eq!(passed, passing.contains(&mode), "{expected:?} {mode:?} {calls:?}");
                assert!(
                    (checked.tool_accuracy - accuracy).abs() < 1e-9,
                    "{expected:?} {mode:?} {checked:?}"
                );
            }
        }
    }

    #[test]
    fn pairs_are_found_where_a_greedy_choice_fails() {
        let mut case = case("", Matching::AnyOrder);
        case.expected_tools =
            Some(vec![ExpectedTool::new("a"), ExpectedTool::new("a").with_arguments(path("a"))]);
        let mut other = call("a");
        other.parameters = json!({"path": "z"});
        let calls = [call("a"), other];
        assert!(check(&case, &work(&calls)).results[0].passed);
    }

    #[test]
    fn results_are_checked_on_the_call_that_has_them() {
        let mut failed = call("a");
        failed.success = false;
        let calls = [failed.clone(), call("a")];
        let result = ResultExpectation {
            success: Some(true),
            text: Some(Matcher::new(json!({"$mentions": "DONE"})).unwrap()),
            structured: None,
        };
        let mut case = case("", Matching::Superset);
        case.expected_tools = Some(vec![ExpectedTool::new("a").with_result(result)]);
        assert!(check(&case, &work(&calls)).results.iter().all(|check| check.passed), "a retry");
        let checked = check(&case, &work(&[failed]));
        assert!(checked.results[0].passed && !checked.results[1].passed, "{checked:?}");
    }

    #[test]
    fn a_result_of_another_expected_call_is_no_excuse() {
        let success = ResultExpectation { success: Some(true), ..ResultExpectation::default() };
        let good = ExpectedTool::new("a").with_result(success);
        let one = ExpectedTool::new("a").with_arguments(path("one"));
        // After `b`, `a` has failed.
        let in_order = vec![ExpectedTool::new("b"), good.clone()];
        let calls = vec![call("a"), call("b"), ToolCallRecord { success: false, ..call("a") }];
        let any = [call_at("one", true), call_at("two", false)].to_vec();
        for (matching, expected, calls) in [
            (Matching::InOrder, in_order, calls),
            (Matching::Superset, vec![good.clone(), one.clone()], any.clone()),
            (Matching::Superset, vec![one.clone(), good.clone()], any.clone()),
            (Matching::AnyOrder, vec![good.clone(), one.clone()], any),
        ] {
            let mut case = case("", matching);
            case.expected_tools = Some(expected);
            let checked = check(&case, &work(&calls));
            assert!(checked.results[0].passed && !checked.results[1].passed, "{checked:?}");
        }
        let mut case = case("", Matching::Superset);
        case.expected_tools = Some(vec![good, one]);
        assert!(
            check(&case, &work(&[call_at("one", true), call_at("two", true)])).results[1].passed
        );
    }

    #[test]
    fn the_detail_counts_the_results_that_are_listed() {
        let absent = ResultExpectation {
            text: Some(Matcher::new(json!("absent")).unwrap()),
            ..ResultExpectation::default()
        };
        let with_result = ExpectedTool::new("a").with_result(absent);
        let mut case = case("", Matching::Superset);
        case.expected_tools = Some(vec![with_result.clone(), with_result, ExpectedTool::new("a")]);
        let checked = check(&case, &work(&[call("a"), call("a")]));
        let results = &checked.results[1];
        assert!(!results.passed);
        assert_eq!(results.detail, "2 of 2 expected results were not found");
        assert_eq!(results.expected.as_array().map(Vec::len), Some(2), "{results:?}");
        // The other call is that of the third expectation.
        assert_eq!(results.actual.as_array().map(Vec::len), Some(1), "{results:?}");
    }

    #[test]
    fn empty_expectations_are_not_checks() {
        let mut case = TestCase::new("a", "b");
        assert!(!has_checks(&case));
        case.expect.all_calls_succeed = Some(false);
        assert!(!has_checks(&case));
        case.expect.max_calls = Some(1);
        assert!(has_checks(&case));
        case.expect = Expectations { all_calls_succeed: Some(true), ..Expectations::default() };
        assert!(has_checks(&case));
    }

    #[test]
    fn a_call_that_no_server_got_is_not_the_expected_one() {
        let invented = ToolCallRecord {
            server_id: ToolCallRecord::UNKNOWN_SERVER.to_owned(),
            success: false,
            ..call("a")
        };
        let no_object = ToolCallRecord { parameters: json!("x"), success: false, ..call("a") };
        for calls in [[invented], [no_object]] {
            let checked = check(&case("a", Matching::Superset), &work(&calls));
            assert!(!checked.results[0].passed && checked.tool_accuracy == 0.0, "{checked:?}");
        }
    }

    #[test]
    fn expectations_of_the_run_are_checked() {
        let mut failed = call("b");
        failed.success = false;
        failed.execution_time_ms = 50;
        let calls = [call("a"), failed];
        for (expect, passes) in [
            (json!({"minCalls": 2, "maxCalls": 2}), true),
            (json!({"minCalls": 3}), false),
            (json!({"maxCalls": 1}), false),
            (json!({"forbiddenTools": ["c"]}), true),
            (json!({"forbiddenTools": ["a"]}), false),
            (json!({"forbiddenTools": [{"name": "a", "server": "s"}]}), false),
            (json!({"forbiddenTools": [{"name": "a", "server": "other"}]}), true),
            (json!({"forbiddenTools": [{"name": "a", "arguments": {"path": "a"}}]}), false),
            (json!({"forbiddenTools": [{"name": "a", "arguments": {"path": "b"}}]}), true),
            (json!({"answer": {"$mentions": "done"}}), true),
            (json!({"answer": "done"}), false),
            (json!({"allCallsSucceed": true}), false),
            (json!({"maxDurationMs": 10, "maxCallMs": 50, "maxTokens": 100}), true),
            (json!({"maxDurationMs": 9}), false),
            (json!({"maxCallMs": 49}), false),
            (json!({"maxTokens": 99}), false),
            (json!({"minToolAccuracy": 1}), true),
        ] {
            let mut case = TestCase::new("a", "b");
            case.expect = serde_json::from_value(expect.clone()).unwrap();
            let checked = check(&case, &work(&calls));
            assert!(!checked.results.is_empty());
            assert_eq!(
                checked.results.iter().all(|check| check.passed),
                passes,
                "{expect}: {checked:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn order_never_finds_more_pairs(expected in "[abc]{0,6}", calls in "[abc]{0,6}") {
            let expected: Vec<_> = expected.chars().map(ExpectedTool::new).collect();
            let calls: Vec<_> = calls.chars().map(|name| call(&name.to_string())).collect();
            let any = pairs(&expected, &calls, Matching::Superset, has_call);
            let ordered = pairs(&expected, &calls, Matching::InOrder, has_call);
            prop_assert!(ordered.len() <= any.len());
            // The maximum number of pairs is the sum, over all letters, of the smaller count.
            let max: usize = ["a", "b", "c"].iter().map(|name| {
                let expected = expected.iter().filter(|tool| tool.name == *name).count();
                expected.min(calls.iter().filter(|call| call.tool_name == *name).count())
            }).sum();
            prop_assert_eq!(any.len(), max);
            prop_assert!(ordered.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1));
            let accuracy = f1(any.len(), expected.len(), calls.len());
            prop_assert!((0.0..=1.0).contains(&accuracy));
        }
    }
}
