//! Seeded faults, to measure how many faults a judge notices.
//!
//! Each good trace is changed in one place, so that it should fail, and judged again. The share of
//! faults that the judge notices is its detection. The share of good traces that it rejects are its
//! false alarms, if a person has confirmed that the traces are good. Without a person, a trace
//! counts as good because it passed, mostly by the verdict of the same judge: if the judge rejects
//! it now, that only shows that its verdicts change.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    ExpectedTool, Status, TestResult, ToolCallRecord, Trial,
    judge::{Judge, JudgeError, JudgeInput, Shuffle},
    stats::Rate,
    store::Override,
};

/// A good trial: what a judge should let pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Trace {
    /// The task.
    pub prompt: String,
    /// The calls that the author of the case expects, which the judge sees, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_tools: Option<Vec<ExpectedTool>>,
    /// The calls.
    pub tool_calls: Vec<ToolCallRecord>,
    /// The agent's final answer.
    pub answer: String,
    /// The checklist; empty for the usual one.
    #[serde(default)]
    pub checklist: Vec<String>,
    /// Whether a person has confirmed that it is good.
    #[serde(default)]
    pub confirmed: bool,
}

impl Trace {
    /// Returns the first trial of a result that passed; None if none did.
    pub fn of(result: &TestResult) -> Option<Self> {
        Self::with_overrides(result, &[])
    }

    /// Returns the first trial of a result of which a person says that it passed, else the first
    /// that passed and of which no person says that it failed. `overrides` are those of the result.
    pub fn with_overrides(result: &TestResult, overrides: &[Override]) -> Option<Self> {
        let confirmed = result.trials.iter().find(|trial| {
            last_override(overrides, trial) == Some(true) && trial.status != Status::Error
        });
        if let Some(trial) = confirmed {
            return Some(Self::of_trial(result, trial, true));
        }
        let unconfirmed = result.trials.iter().find(|trial| {
            last_override(overrides, trial).is_none() && trial.status == Status::Passed
        });
        Some(Self::of_trial(result, unconfirmed?, false))
    }

    fn of_trial(result: &TestResult, trial: &Trial, confirmed: bool) -> Self {
        Self {
            prompt: result.test_case.prompt.clone(),
            expected_tools: result.test_case.expected_tools.clone(),
            tool_calls: trial.tool_calls.clone(),
            answer: trial.answer.clone(),
            checklist: result.test_case.checklist.clone().unwrap_or_default(),
            confirmed,
        }
    }

    fn input(&self) -> JudgeInput<'_> {
        JudgeInput {
            prompt: &self.prompt,
            expected_tools: self.expected_tools.as_deref(),
            tool_calls: &self.tool_calls,
            answer: &self.answer,
            checklist: &self.checklist,
        }
    }
}

/// Returns the newest verdict of a person on a trial.
fn last_override(overrides: &[Override], trial: &Trial) -> Option<bool> {
    let of_trial = overrides.iter().filter(|it| it.trial == trial.index);
    of_trial.max_by_key(|it| it.timestamp).map(|it| it.passed)
}

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum FaultKind {
    /// A call is missing.
    DroppedCall,
    /// An argument has another value.
    ChangedArgument,
    /// A call failed.
    FailedResult,
}

impl FaultKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::DroppedCall, Self::ChangedArgument, Self::FailedResult];
}

/// Returns a trace with a fault in a place that the seed chooses; None if the trace has no place
/// for it.
pub fn with_fault(trace: &Trace, kind: FaultKind, seed: u64) -> Option<Trace> {
    let mut shuffle = Shuffle::new(seed, kind as u64);
    let mut faulty = trace.clone();
    let calls = &mut faulty.tool_calls;
    match kind {
        FaultKind::DroppedCall => {
            if calls.is_empty() {
                return None;
            }
            calls.remove(shuffle.below(calls.len()));
        }
        FaultKind::ChangedArgument => {
            let arguments_of_calls: Vec<(usize, String)> = calls
                .iter()
                .enumerate()
                .filter_map(|(index, call)| Some((index, call.parameters.as_object()?)))
                .flat_map(|(index, arguments)| {
                    arguments.keys().map(move |name| (index, name.clone()))
                })
                .collect();
            if arguments_of_calls.is_empty() {
                return None;
            }
            let (index, name) = &arguments_of_calls[shuffle.below(arguments_of_calls.len())];
            let argument = &mut calls[*index].parameters[name.as_str()];
            *argument = changed(argument);
        }
        FaultKind::FailedResult => {
            let successes: Vec<usize> =
                (0..calls.len()).filter(|index| calls[*index].success).collect();
            if successes.is_empty() {
                return None;
            }
            let call = &mut calls[successes[shuffle.below(successes.len())]];
            let error = format!("{} failed: permission denied", call.tool_name);
            call.success = false;
            call.response = json!({"content": [{"type": "text", "text": error}], "isError": true});
            call.error = Some(error);
        }
    }
    Some(faulty)
}

/// Returns another value of the same type.
fn changed(value: &Value) -> Value {
    match value {
        Value::String(text) if text.is_empty() => json!("something else"),
        // Letters shift by 13, digits turn around: as long, as plausible, and never the same.
        Value::String(text) => {
            let shifted: String = text
                .chars()
                .map(|one| match one {
                    'a'..='m' | 'A'..='M' => char::from(one as u8 + 13),
                    'n'..='z' | 'N'..='Z' => char::from(one as u8 - 13),
                    '0'..='9' => char::from(b'0' + (b'9' - one as u8)),
                    other => other,
                })
                .collect();
            if shifted == *text { json!(format!("{text}x")) } else { json!(shifted) }
        }
        Value::Number(number) => match number.as_i64() {
            Some(whole) => json!(whole.wrapping_add(1000)),
            None => json!(number.as_f64().unwrap_or(0.0) / 2.0 + 1000.5),
        },
        Value::Bool(value) => json!(!value),
        Value::Null => json!("something"),
        Value::Array(items) if items.is_empty() => json!(["something"]),
        Value::Array(_) => json!([]),
        Value::Object(members) if members.is_empty() => json!({"something": true}),
        Value::Object(_) => json!({}),
    }
}

/// Report on how a judge handles seeded faults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct FaultReport {
    /// The faults that it noticed. The aim is 0.95 and more.
    pub detection: Rate,
    /// The traces that it rejected, of those that a person has confirmed. The aim is 0.05 and less.
    pub false_alarms: Rate,
    /// The traces that it rejected, of those that no person has confirmed. They passed before,
    /// mostly by the verdict of the same judge, so this is how often its verdict changes, and not
    /// how often it is wrong.
    pub unconfirmed_rejections: Rate,
    /// The detection of each kind of fault.
    pub kinds: Vec<KindReport>,
    /// Traces and faults on which the judge gave no verdict; they count neither way.
    pub errors: u32,
    /// The first of these errors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_error: Option<String>,
}

/// The detection of one kind of fault.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KindReport {
    /// The kind.
    pub kind: FaultKind,
    /// The faults of this kind that the judge noticed.
    pub detection: Rate,
}

/// Checks a judge with good traces: each as it is, and once with each kind of fault.
pub async fn check_judge(judge: &Judge, traces: &[Trace], seed: u64) -> FaultReport {
    let mut errors = Errors::default();
    // Rejections and all, of traces with and without a person's confirmation.
    let mut confirmed = (0, 0);
    let mut unconfirmed = (0, 0);
    let mut kinds = FaultKind::ALL.map(|kind| (kind, 0, 0));
    for (number, trace) in (0u64..).zip(traces) {
        if let Some(passed) = errors.verdict(judge.judge(&trace.input(), &mut Vec::new()).await) {
            let (rejected, all) = if trace.confirmed { &mut confirmed } else { &mut unconfirmed };
            *all += 1;
            *rejected += u32::from(!passed);
        }
        for (kind, noticed, all) in &mut kinds {
            let Some(faulty) = with_fault(trace, *kind, seed.wrapping_add(number)) else {
                continue;
            };
            let outcome = judge.judge(&faulty.input(), &mut Vec::new()).await;
            if let Some(passed) = errors.verdict(outcome) {
                *all += 1;
                *noticed += u32::from(!passed);
            }
        }
    }
    let noticed = kinds.iter().map(|(_, noticed, _)| noticed).sum();
    FaultReport {
        detection: Rate::new(noticed, kinds.iter().map(|(_, _, all)| all).sum()),
        false_alarms: Rate::new(confirmed.0, confirmed.1),
        unconfirmed_rejections: Rate::new(unconfirmed.0, unconfirmed.1),
        kinds: kinds
            .into_iter()
            .map(|(kind, noticed, all)| KindReport { kind, detection: Rate::new(noticed, all) })
            .collect(),
        errors: errors.count,
        first_error: errors.first,
    }
}

#[derive(Default)]
struct Errors {
    count: u32,
    first: Option<String>,
}

impl Errors {
    fn verdict(&mut self, outcome: Result<crate::judge::Judgement, JudgeError>) -> Option<bool> {
        match outcome {
            Ok(judgement) => Some(judgement.passed),
            Err(error) => {
                self.count += 1;
                self.first.get_or_insert_with(|| error.to_string());
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use async_trait::async_trait;
    use marquetry_llm::{ChatAnswer, ChatError, ChatModel, ChatRequest};
    use proptest::prelude::*;

    use super::*;
    use crate::judge::JudgeOptions;

    fn trace(number: u32) -> Trace {
        let path = format!("file{number}.txt");
        Trace {
            prompt: format!("Write \"hello\" to {path}, then read it."),
            tool_calls: vec![
                ToolCallRecord::of_text(
                    "fs",
                    "write",
                    json!({"path": path, "text": "hello"}),
                    "ok",
                ),
                ToolCallRecord::of_text("fs", "read", json!({"path": path}), "hello"),
            ],
            answer: "It says hello.".to_owned(),
            expected_tools: Some(vec![ExpectedTool::new("write"), ExpectedTool::new("read")]),
            checklist: vec!["The file was written and read.".to_owned()],
            confirmed: number.is_multiple_of(4),
        }
    }

    /// A judge that answers yes always, or only if the evidence shows the two right calls, with
    /// success.
    struct Scripted {
        always_yes: bool,
    }

    #[async_trait]
    impl ChatModel for Scripted {
        fn name(&self) -> &'static str {
            "scripted"
        }

        async fn chat(&self, request: &ChatRequest) -> Result<ChatAnswer, ChatError> {
            let question: Value = serde_json::from_str(request.messages[1].text()).unwrap();
            // As in a run: the judge of a trial sees what is expected.
            assert_eq!(question["expectedTools"].as_array().map(Vec::len), Some(2));
            let task = question["task"].as_str().unwrap();
            let calls = question["evidence"].as_array().unwrap().iter();
            let right = calls.filter(|one| {
                one["kind"] == "tool call"
                    && one["succeeded"] == true
                    && one["arguments"]["path"].as_str().is_some_and(|path| task.contains(path))
                    && one["arguments"]["text"].as_str().is_none_or(|text| task.contains(text))
            });
            let yes = self.always_yes || right.count() == 2;
            let answer = if yes { "yes" } else { "no" };
            let item = json!({"id": "item1", "evidence": "the calls", "answer": answer});
            Ok(ChatAnswer::text(json!({"items": [item], "reasoning": "r"}).to_string()))
        }
    }

    async fn report(always_yes: bool) -> FaultReport {
        let judge = Judge::new(Arc::new(Scripted { always_yes }), JudgeOptions::default());
        let traces: Vec<_> = (0..20).map(trace).collect();
        check_judge(&judge, &traces, 7).await
    }

    #[tokio::test]
    async fn a_right_judge_detects_all_and_one_that_always_says_yes_detects_none() {
        let right = report(false).await;
        assert_eq!(
            (right.detection.rate, right.false_alarms.rate),
            (Some(1.0), Some(0.0)),
            "{right:?}"
        );
        assert_eq!((right.detection.of, right.errors), (60, 0));
        assert_eq!((right.false_alarms.of, right.unconfirmed_rejections.of), (5, 15));
        let yes = report(true).await;
        assert_eq!((yes.detection.rate, yes.false_alarms.rate), (Some(0.0), Some(0.0)), "{yes:?}");
    }

    #[tokio::test]
    async fn a_judge_that_fails_counts_neither_way() {
        let judge =
            Judge::new(Arc::new(marquetry_llm::ScriptedModel::new([])), JudgeOptions::default());
        let report = check_judge(&judge, &[trace(1)], 0).await;
        assert_eq!((report.errors, report.detection.of, report.false_alarms.of), (4, 0, 0));
        assert!(report.first_error.is_some() && report.detection.rate.is_none());
    }

    /// Returns a result of four trials: an error, a pass, a failure and a pass. The answer of each
    /// is its index.
    fn result_of_four_trials() -> TestResult {
        let verdict =
            json!({"passed": false, "confidence": 1.0, "reasoning": "", "toolAccuracy": 1.0});
        let statuses = [Status::Error, Status::Passed, Status::Failed, Status::Passed];
        let trials: Vec<_> = (0..)
            .zip(statuses)
            .map(|(index, status): (u32, Status)| {
                json!({"index": index, "status": status, "turns": [], "toolCalls": [], "answer": index.to_string(), "checks": [],
                    "votes": [], "verdict": verdict, "usage": {}, "workMs": 1, "durationMs": 1})
            })
            .collect();
        serde_json::from_value(json!({
            "id": "r", "testCase": {"name": "a", "prompt": "b", "expectedTools": ["read"]}, "toolCalls": [],
            "verdict": verdict, "duration": 1, "success": true, "status": "passed",
            "timestamp": "2026-01-01T00:00:00Z", "trials": trials,
        }))
        .unwrap()
    }

    fn override_on(trial: u32, passed: bool, day: u32) -> Override {
        Override {
            result_id: "r".to_owned(),
            trial,
            passed,
            reason: String::new(),
            author: String::new(),
            timestamp: format!("2026-01-0{day}T00:00:00Z").parse().unwrap(),
        }
    }

    #[track_caller]
    fn check_trace(overrides: &[Override], want: Option<(&str, bool)>) {
        let trace = Trace::with_overrides(&result_of_four_trials(), overrides);
        assert_eq!(trace.as_ref().map(|it| (it.answer.as_str(), it.confirmed)), want);
    }

    #[test]
    fn a_person_decides_which_trial_is_good() {
        check_trace(&[], Some(("1", false)));
        check_trace(&[override_on(1, false, 1)], Some(("3", false)));
        // The judge was wrong about the third trial.
        check_trace(&[override_on(2, true, 1)], Some(("2", true)));
        // The newest verdict on a trial counts, and a trial with an error has no end.
        let changed_mind = [override_on(2, true, 1), override_on(2, false, 2)];
        check_trace(&changed_mind, Some(("1", false)));
        let none_good =
            [override_on(0, true, 1), override_on(1, false, 1), override_on(3, false, 1)];
        check_trace(&none_good, None);
        assert_eq!(
            Trace::of(&result_of_four_trials()).unwrap().expected_tools,
            Some(vec![ExpectedTool::new("read")])
        );
    }

    #[test]
    fn a_trace_without_calls_has_no_place_for_faults() {
        let empty = Trace { tool_calls: Vec::new(), ..trace(1) };
        assert!(FaultKind::ALL.iter().all(|kind| with_fault(&empty, *kind, 1).is_none()));
    }

    proptest! {
        #[test]
        fn a_fault_changes_one_call(seed: u64, number in 0u32..1000) {
            let good = trace(number);
            for kind in FaultKind::ALL {
                let faulty = with_fault(&good, kind, seed).unwrap();
                prop_assert_ne!(&faulty, &good);
                let same = good.tool_calls.iter().filter(|call| faulty.tool_calls.contains(call));
                prop_assert_eq!(same.count(), 1);
            }
        }

        #[test]
        fn a_changed_text_is_another(text in ".{0,20}") {
            let value = json!(text);
            prop_assert_ne!(changed(&value), value);
        }
    }
}
