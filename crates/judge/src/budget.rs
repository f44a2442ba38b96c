//! The remaining budget of a trial.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use marquetry_llm::{ChatAnswer, ChatRequest, Message, ToolCall};
use marquetry_tokens::estimate;

use crate::{Limits, case::Price, result::TokenUsage};

/// A limit of a trial was reached.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("the trial reached limits.{limit} ({value}): {advice}")]
pub struct LimitReached {
    /// The member of `limits`.
    pub limit: &'static str,
    /// Its value.
    pub value: String,
    /// What to do.
    pub advice: &'static str,
}

impl LimitReached {
    pub(crate) fn new(limit: &'static str, value: impl ToString, advice: &'static str) -> Self {
        Self { limit, value: value.to_string(), advice }
    }
}

/// Counts what a trial spends.
pub(crate) struct Budget {
    limits: Limits,
    started: Instant,
    spent: Mutex<TokenUsage>,
}

impl Budget {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, started: Instant::now(), spent: Mutex::default() }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn spent(&self) -> TokenUsage {
        *self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time that is left.
    pub(crate) fn time_left(&self) -> Duration {
        Duration::from_millis(self.limits.timeout_ms).saturating_sub(self.started.elapsed())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns the error of a trial whose time is over.
    pub(crate) fn out_of_time(&self) -> LimitReached {
        LimitReached::new(
            "timeoutMs",
            format!("{} ms", self.limits.timeout_ms),
            "raise it, or use a faster model or server",
        )
    }

    /// Adds tokens and cost.
    pub(crate) fn spend(&self, usage: &TokenUsage) -> Result<(), LimitReached> {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        spent.add(usage);
        let max_tokens = self.limits.max_tokens;
        let max_cost_usd = self.limits.cost_usd();
        if spent.total() > max_tokens {
            let advice = "raise it, or check whether the model repeats itself";
            return Err(LimitReached::new("maxTokens", max_tokens, advice));
        }
        if spent.cost_usd.is_some_and(|cost| cost > max_cost_usd) {
            let advice = "raise it, or use a cheaper model or fewer votes";
            return Err(LimitReached::new("maxCostUsd", format!("{max_cost_usd} USD"), advice));
        }
        Ok(())
    }
}

/// Messages of the model also contain its tool calls.
fn tokens_of_message(message: &Message) -> u64 {
    let calls = match message {
        Message::Assistant { tool_calls, .. } => tokens_of_calls(tool_calls),
        _ => 0,
    };
    estimate(message.text()) + calls
}

fn tokens_of_calls(calls: &[ToolCall]) -> u64 {
    calls.iter().map(|call| estimate(&call.name) + estimate(&call.arguments.to_string())).sum()
}

/// Returns the tokens of a request and its answer, estimated where the provider reports none.
pub(crate) fn usage_of(
    request: &ChatRequest,
    answer: &ChatAnswer,
    price: Option<&Price>,
) -> TokenUsage {
    let input = answer.usage.input_tokens.unwrap_or_else(|| {
        let messages: u64 = request.messages.iter().map(tokens_of_message).sum();
        let tools: u64 = request
            .tools
            .iter()
            .map(|tool| estimate(&tool.description) + estimate(&tool.input_schema.to_string()))
            .sum();
        messages + tools
    });
    let output = answer
        .usage
        .output_tokens
        .unwrap_or_else(|| estimate(&answer.text) + tokens_of_calls(&answer.tool_calls));
    let million = 1_000_000.0;
    TokenUsage {
        input_tokens: input,
        output_tokens: output,
        estimated: answer.usage.input_tokens.is_none() || answer.usage.output_tokens.is_none(),
        cost_usd: price.map(|price| {
            input as f64 / million * price.input_per_million
                + output as f64 / million * price.output_per_million
        }),
    }
}
