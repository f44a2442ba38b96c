//! Results of cases, with the seed's names in JSON (seed 004) and ours beside them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{TestCase, Timestamp, stats::saturated};

/// The result of a case: the results of all its trials, or the reason why it could not run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TestResult {
    /// Its id. Ids sort by the time of the result.
    pub id: String,
    /// The batch that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The case, without keys.
    pub test_case: TestCase,
    /// The tool calls of the trial that is shown: the first whose status is that of the result, or
    /// else the first.
    pub tool_calls: Vec<ToolCallRecord>,
    /// The verdict on that trial.
    pub verdict: Verdict,
    /// Time of all trials, in milliseconds.
    pub duration: u64,
    /// Whether the case passed.
    pub success: bool,
    /// `passed`, `failed`, or `error`: the case could not be judged.
    pub status: Status,
    /// With the status `error`: the reason, and what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// When the case began.
    pub timestamp: Timestamp,
    /// Every trial.
    pub trials: Vec<Trial>,
}

impl TestResult {
    /// Returns the numbers of trials by status.
    pub fn counts(&self) -> TrialCounts {
        TrialCounts {
            passed: self.trials_with(Status::Passed),
            failed: self.trials_with(Status::Failed),
            errors: self.trials_with(Status::Error),
        }
    }

    fn trials_with(&self, status: Status) -> u32 {
        saturated(self.trials.iter().filter(|trial| trial.status == status).count())
    }

    /// Returns the trial whose calls and verdict the result shows.
    pub fn deciding_trial(&self) -> Option<&Trial> {
        let same = self.trials.iter().find(|trial| trial.status == self.status);
        same.or(self.trials.first())
    }
}

/// Numbers of trials by status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrialCounts {
    /// Trials that passed.
    pub passed: u32,
    /// Trials that failed.
    pub failed: u32,
    /// Trials that could not be judged.
    pub errors: u32,
}

/// The outcome of a case or a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Every check and the judge agreed.
    Passed,
    /// A check or the judge disagreed.
    Failed,
    /// There is no verdict: something else than the tested behaviour went wrong.
    Error,
}

impl Status {
    /// Returns its name in JSON and in databases.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Error => "error",
        }
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One attempt of a model at a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Trial {
    /// Its number in the result, from 0.
    pub index: u32,
    /// Its outcome.
    pub status: Status,
    /// With the status `error`: the reason, and what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Answers and tool calls of the model, turn by turn.
    pub turns: Vec<Turn>,
    /// The tool calls, in order.
    pub tool_calls: Vec<ToolCallRecord>,
    /// The model's last text.
    pub answer: String,
    /// The checks by code.
    pub checks: Vec<CheckResult>,
    /// The votes of the judge.
    pub votes: Vec<Vote>,
    /// The verdict.
    pub verdict: Verdict,
    /// Tokens and cost.
    pub usage: TokenUsage,
    /// Time of the work on the prompt, without starting servers and judging, in milliseconds.
    pub work_ms: u64,
    /// Time of the trial, in milliseconds.
    pub duration_ms: u64,
}

/// One answer of the agent's model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Turn {
    /// Its text; empty if it only called tools.
    pub text: String,
    /// The indices in `toolCalls` of the calls that it asked for.
    pub calls: Vec<u32>,
    /// The tokens of this turn.
    pub usage: TokenUsage,
    /// The time until the model had answered, in milliseconds.
    pub duration_ms: u64,
}

/// Tokens and cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TokenUsage {
    /// Tokens of requests.
    pub input_tokens: u64,
    /// Tokens of answers.
    pub output_tokens: u64,
    /// Whether a provider did not report them, so that they are estimates.
    pub estimated: bool,
    /// Their cost in US dollars, if a price is configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

impl TokenUsage {
    /// Returns the tokens of requests and answers.
    pub fn total(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// Adds another usage.
    pub(crate) fn add(&mut self, other: &Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.estimated |= other.estimated;
        if let Some(cost) = other.cost_usd {
            *self.cost_usd.get_or_insert(0.0) += cost;
        }
    }
}

/// A tool call as it happened; the seed's `ToolCallRecord`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolCallRecord {
    /// The name of the tool at its server, or the name that the model invented.
    pub tool_name: String,
    /// The server that has the tool; `unknown` for an invented name.
    pub server_id: String,
    /// The arguments as the model wrote them.
    pub parameters: Value,
    /// The result as the server wrote it. Null if the call failed without a result.
    pub response: Value,
    /// The time of the call, in milliseconds.
    pub execution_time_ms: u64,
    /// Whether the call succeeded.
    pub success: bool,
    /// The reason why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// When the call began.
    pub timestamp: Timestamp,
}

impl ToolCallRecord {
    /// The `serverId` of a call whose tool no server has.
    pub const UNKNOWN_SERVER: &'static str = "unknown";

    /// Returns a successful call with a text as its result, for tests and faults.
    pub fn of_text(
        server: impl Into<String>,
        tool: impl Into<String>,
        parameters: Value,
        text: &str,
    ) -> Self {
        Self {
            tool_name: tool.into(),
            server_id: server.into(),
            parameters,
            response: serde_json::json!({"content": [{"type": "text", "text": text}]}),
            execution_time_ms: 0,
            success: true,
            error: None,
            timestamp: Timestamp::now(),
        }
    }

    /// Returns whether the call was sent to a server. Calls of tools that no server has, and calls
    /// whose arguments are not an object, are refused before.
    pub(crate) fn was_sent(&self) -> bool {
        self.server_id != Self::UNKNOWN_SERVER && self.parameters.is_object()
    }

    /// The member of `_meta` of a result that says how long it was before it was cut, in bytes.
    pub(crate) const CUT_FROM: &'static str = "marquetry/cutFromBytes";

    /// Returns the text of the result: all text items, joined by line ends.
    pub fn text(&self) -> String {
        let items = self.response.get("content").and_then(Value::as_array);
        let texts = items.into_iter().flatten().filter_map(|item| item.get("text")?.as_str());
        texts.collect::<Vec<_>>().join("\n")
    }
}

/// The verdict on a trial; the seed's `JudgeVerdict`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Verdict {
    /// Whether every check passed and the judge agrees, if one is asked.
    pub passed: bool,
    /// The share of votes for the judge's verdict, from 0 to 1; 1 without a judge; 0 without a
    /// verdict.
    pub confidence: f64,
    /// The reasons, in words.
    pub reasoning: String,
    /// F1 of the expected calls against the actual calls, from 0 to 1; 1 if the case has no
    /// `expectedTools`, or if both lists are empty. Code computes it.
    pub tool_accuracy: f64,
    /// Advice to make the case pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggestions: Option<String>,
    /// The judge's answers, item by item.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<ItemVerdict>,
}

impl Verdict {
    /// The verdict on a trial without one.
    pub(crate) fn none(reason: &str) -> Self {
        Self {
            passed: false,
            confidence: 0.0,
            reasoning: format!("Test execution failed: {reason}"),
            tool_accuracy: 0.0,
            suggestions: None,
            items: Vec::new(),
        }
    }
}

/// The judge's answer to one item of its checklist.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ItemVerdict {
    /// The statement.
    pub item: String,
    /// Votes that it is true.
    pub yes: u32,
    /// Votes that it is not.
    pub no: u32,
    /// Evidence of a vote with the majority's answer.
    pub evidence: String,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CheckResult {
    /// Its name: that of the member of the case.
    pub name: String,
    /// Whether it passed.
    pub passed: bool,
    /// What was found, in words.
    pub detail: String,
    /// What was expected; for calls, those that are missing.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub expected: Value,
    /// What was found; for calls, those that are not expected.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub actual: Value,
}

/// One vote of a judge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Vote {
    /// Its number, from 0.
    pub index: u32,
    /// Whether every item was answered with yes.
    pub passed: bool,
    /// The answers, in the order of the checklist.
    pub answers: Vec<ItemAnswer>,
    /// The judge's summary.
    pub reasoning: String,
    /// What the judge would change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggestions: Option<String>,
    /// The model, as its provider names it.
    pub model: String,
    /// Hash of the instructions and the checklist.
    pub prompt_hash: String,
    /// The tokens.
    pub usage: TokenUsage,
    /// The time, in milliseconds.
    pub duration_ms: u64,
}

/// An answer to one item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ItemAnswer {
    /// The statement.
    pub item: String,
    /// The evidence for the answer.
    pub evidence: String,
    /// Whether the statement is true.
    pub yes: bool,
}
