//! `sampling/createMessage` of MCP: a server asks for an answer of a model.

mod convert;
#[cfg(test)]
mod tests;

use std::{fmt, sync::Arc};

use marquetry_protocol::types::{CreateMessageParams, CreateMessageResult};
use serde_json::Value;

use self::convert::{ToolChoice, add_message, message_bytes, result, tool_choice, tool_of};
use crate::{ChatAnswer, ChatError, ChatModel, ChatRequest, Message};

/// Answers `sampling/createMessage` with a chat model, tools included (MCP 2025-11-25, "Sampling").
///
/// The server that asks chooses the prompt, and the model costs money: give each server its own
/// limits, and none to servers that are not trusted.
#[derive(Clone)]
pub struct Sampler {
    model: Arc<dyn ChatModel>,
    limits: SamplingLimits,
}

/// Limits of one request for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SamplingLimits {
    /// Longest answer, in tokens; 2,048 by default. A request for more gets this many.
    pub max_tokens: u32,
    /// Longest text of the system prompt, all messages and all tools together, in bytes; 96 KiB by
    /// default.
    pub max_request_bytes: usize,
    /// Maximum number of tools; 128 by default.
    pub max_tools: usize,
}

impl Default for SamplingLimits {
    fn default() -> Self {
        Self { max_tokens: 2_048, max_request_bytes: 96 << 10, max_tools: 128 }
    }
}

/// Why a request for a message has no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SamplingError {
    /// The request is invalid, or needs a feature that models do not have here: images, audio.
    #[error("{0}")]
    Invalid(String),
    /// The request is longer than [`SamplingLimits::max_request_bytes`].
    #[error("system prompt, messages and tools have {bytes} bytes, more than {limit}")]
    TooLong {
        /// Their size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The model failed.
    #[error(transparent)]
    Model(#[from] ChatError),
    /// `toolChoice` requires a call of a tool, and the model made none.
    #[error("the model called no tool, which toolChoice requires")]
    NoToolCalled,
}

impl Sampler {
    /// Creates a sampler with the default limits.
    pub fn new(model: Arc<dyn ChatModel>) -> Self {
        Self { model, limits: SamplingLimits::default() }
    }

    /// Replaces the limits.
    #[must_use]
    pub fn with_limits(self, limits: SamplingLimits) -> Self {
        Self { limits, ..self }
    }

    /// Continues the messages of a request with the model. `modelPreferences`, `includeContext` and
    /// `metadata` have no effect.
    ///
    /// # Errors
    ///
    /// Returns an error if the request is invalid or the model gives no answer; see
    /// [`SamplingError`].
    pub async fn create_message(
        &self,
        params: &CreateMessageParams,
    ) -> Result<CreateMessageResult, SamplingError> {
        let (request, requires_tool) = self.request(params)?;
        self.result(self.model.chat(&request).await?, requires_tool)
    }

    /// Continues messages as [`Self::create_message`] does, and passes the text to `on_text` as it
    /// arrives. The pieces together are the text of the result.
    ///
    /// # Errors
    ///
    /// Returns an error if the request is invalid or the model gives no answer; see
    /// [`SamplingError`]. Some pieces may have been passed on before.
    pub async fn stream_message(
        &self,
        params: &CreateMessageParams,
        on_text: &mut (dyn for<'t> FnMut(&'t str) + Send),
    ) -> Result<CreateMessageResult, SamplingError> {
        let (request, requires_tool) = self.request(params)?;
        self.result(self.model.stream(&request, on_text).await?, requires_tool)
    }

    /// Checks a request, as [`Self::create_message`] does before it asks the model.
    ///
    /// # Errors
    ///
    /// Returns an error if the request is invalid ([`SamplingError::Invalid`]) or too long
    /// ([`SamplingError::TooLong`]).
    pub fn check(&self, params: &CreateMessageParams) -> Result<(), SamplingError> {
        self.request(params).map(|_| ())
    }

    fn result(
        &self,
        answer: ChatAnswer,
        requires_tool: bool,
    ) -> Result<CreateMessageResult, SamplingError> {
        if requires_tool && answer.tool_calls.is_empty() {
            return Err(SamplingError::NoToolCalled);
        }
        Ok(result(answer, self.model.name()))
    }

    /// Returns the request for the model, and whether its answer must call a tool.
    fn request(&self, params: &CreateMessageParams) -> Result<(ChatRequest, bool), SamplingError> {
        if params.messages.is_empty() {
            return Err(invalid("messages is empty"));
        }
        if !params.temperature.is_none_or(|value| (0.0..=2.0).contains(&value)) {
            return Err(invalid("temperature is not between 0 and 2"));
        }
        let mut messages = Vec::with_capacity(params.messages.len() + 1);
        messages.extend(params.system_prompt.as_ref().map(Message::system));
        for (index, message) in params.messages.iter().enumerate() {
            if let Err(problem) = add_message(&mut messages, message) {
                return Err(invalid(format!("messages[{index}].content {problem}")));
            }
        }
        if messages.iter().all(|message| message.text().trim().is_empty()) {
            return Err(invalid("messages have no text"));
        }
        let choice = tool_choice(params)?;
        let tools = params.tools.as_deref().unwrap_or_default();
        if tools.len() > self.limits.max_tools {
            let problem = format!("{} tools, more than {}", tools.len(), self.limits.max_tools);
            return Err(invalid(problem));
        }
        let tools = match choice {
            ToolChoice::None => Vec::new(),
            ToolChoice::Auto | ToolChoice::Required => tools
                .iter()
                .enumerate()
                .map(|(index, tool)| tool_of(index, tool))
                .collect::<Result<_, _>>()?,
        };
        let requires_tool = choice == ToolChoice::Required;
        if requires_tool && tools.is_empty() {
            return Err(invalid("toolChoice requires a call of a tool, and tools is empty"));
        }
        let bytes = messages.iter().map(message_bytes).sum::<usize>()
            + tools
                .iter()
                .map(|tool| {
                    tool.name.len() + tool.description.len() + tool.input_schema.to_string().len()
                })
                .sum::<usize>();
        let limit = self.limits.max_request_bytes;
        if bytes > limit {
            return Err(SamplingError::TooLong { bytes, limit });
        }
        let mut request = ChatRequest::new(messages);
        request.tools = tools;
        request.temperature = params.temperature;
        let max_tokens = self.limits.max_tokens;
        request.max_tokens = Some(match u32::try_from(params.max_tokens) {
            Ok(0) => max_tokens,
            Ok(wanted) => wanted.min(max_tokens),
            Err(_) => max_tokens,
        });
        if let Some(stop) = params.extra.get("stopSequences").and_then(Value::as_array) {
            request.stop = stop.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        }
        Ok((request, requires_tool))
    }
}

fn invalid(problem: impl Into<String>) -> SamplingError {
    SamplingError::Invalid(problem.into())
}

impl fmt::Debug for Sampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { model, limits } = self;
        f.debug_struct("Sampler").field("model", &model.name()).field("limits", limits).finish()
    }
}
