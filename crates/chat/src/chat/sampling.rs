//! `sampling/createMessage`: the same model, without a stored chat.

use std::{
    borrow::Cow,
    fmt,
    sync::{Arc, Mutex},
};

use futures_util::future::BoxFuture;
use marquetry_context_blocks::{neutralize, user_text};
use marquetry_knowledge::{ErrorCode, Failure};
use marquetry_llm::sampling::{Sampler, SamplingError, SamplingLimits};
use marquetry_protocol::{
    RpcError,
    server::Reply,
    types::{
        Content, CreateMessageParams, CreateMessageResult, Role, SamplingContent, SamplingMessage,
        SamplingTool,
    },
};
use marquetry_rag::Caller;
use serde_json::{Map, Value, value::RawValue};

use super::{Chat, TELL_EVERY, answer, lock, model};
use crate::context::{self, ContextItem, Owner};

/// Method that continues messages with the configured model; seed 003, part 3.
pub const CREATE_MESSAGE: &str = "sampling/createMessage";

impl Chat {
    /// Answers a request for [`CREATE_MESSAGE`] of a caller.
    ///
    /// # Errors
    ///
    /// Returns an error if the parameters are invalid, or if the model fails.
    pub async fn sample(
        &self,
        params: Option<&RawValue>,
        caller: &Caller,
    ) -> Result<Reply, RpcError> {
        let mut params: CreateMessageParams =
            serde_json::from_str(params.map_or("{}", RawValue::get))
                .map_err(|error| RpcError::invalid_params(error.to_string()))?;
        self.add_context(&mut params, caller)?;
        Reply::json(&self.create_message(&params).await?)
    }

    /// Writes the member `context` of a request (a list of [`ContextItem`]) as blocks: reminders
    /// and the newest keyframe before the first message of the user, metrics before the last one.
    /// The text of all messages is converted as in chats, and so are calls and results of tools. A
    /// request without the member stays as it is.
    ///
    /// # Errors
    ///
    /// Returns an error if an item is invalid, or if the blocks do not fit into
    /// `max_context_bytes`.
    pub fn add_context(
        &self,
        params: &mut CreateMessageParams,
        caller: &Caller,
    ) -> Result<(), Failure> {
        let given = params.extra.remove("context").unwrap_or_default();
        let items: Option<Vec<ContextItem>> = serde_json::from_value(given)
            .map_err(|error| Failure::invalid(format!("context: {error}")))?;
        let items = items.unwrap_or_default();
        if items.is_empty() {
            return Ok(());
        }
        let entries = context::check_items(&items, &Owner::new(caller, None), context::now())?;
        let plan = context::plan_whole(entries, self.config.max_context_bytes.get())?;
        let legacy = self.config.legacy_tokens.into();
        for message in &mut params.messages {
            for item in &mut message.content {
                if let SamplingContent::Tool(call) = item {
                    neutralize_call(call);
                } else if let Some(text) = item.as_text() {
                    *item = SamplingContent::text(user_text(text, legacy));
                }
            }
        }
        params.tools.iter_mut().flatten().for_each(neutralize_strings);
        let Some(first) = params.messages.iter().position(is_user) else {
            return Err(Failure::invalid(
                "messages has no message of the user, which context needs",
            ));
        };
        let last = params.messages.iter().rposition(is_user).unwrap_or(first);
        for (index, blocks) in [(last, plan.metrics), (first, plan.before_history)] {
            if !blocks.is_empty() {
                params.messages[index].content.insert(0, SamplingContent::text(blocks));
            }
        }
        let prompt = params.system_prompt.take().unwrap_or_default();
        params.system_prompt = Some(self.system(&prompt, true));
        Ok(())
    }

    /// Continues messages with the configured model. Nothing is stored or cited. Reasoning and
    /// context blocks are removed from the answer.
    ///
    /// # Errors
    ///
    /// Returns an error if the messages are invalid or too long, or if the model fails.
    pub async fn create_message(
        &self,
        params: &CreateMessageParams,
    ) -> Result<CreateMessageResult, Failure> {
        let result = self.sampler()?.create_message(params).await.map_err(failure)?;
        self.visible_result(result)
    }

    /// Continues messages as [`Self::create_message`] does, in parts.
    ///
    /// # Errors
    ///
    /// Returns an error if the messages are invalid or too long, or no model is configured.
    /// Failures of the model come from [`SamplingStream::next`].
    pub fn stream_message(
        self: &Arc<Self>,
        params: CreateMessageParams,
    ) -> Result<SamplingStream, Failure> {
        let sampler = self.sampler()?;
        sampler.check(&params).map_err(failure)?;
        let received = Arc::new(Mutex::new(String::new()));
        // Blocks are not shown, so up to twice as many bytes are read.
        let max = 2 * self.config.max_answer_bytes.get();
        let asking = {
            let received = received.clone();
            async move {
                sampler
                    .stream_message(&params, &mut |text: &str| {
                        let mut received = lock(&received);
                        let room = max.saturating_sub(received.len());
                        received.push_str(&text[..text.floor_char_boundary(room)]);
                    })
                    .await
            }
        };
        Ok(SamplingStream {
            chat: self.clone(),
            asking: Some(Box::pin(asking)),
            received,
            said: String::new(),
            result: None,
        })
    }

    /// Returns the sampler of the configured model.
    fn sampler(&self) -> Result<Sampler, Failure> {
        let model = self.models.get(None)?;
        let mut limits = SamplingLimits::default();
        limits.max_tokens = self.config.max_tokens.get();
        limits.max_request_bytes =
            self.config.max_message_bytes.get().saturating_add(self.config.max_sent_bytes);
        Ok(Sampler::new(model).with_limits(limits))
    }

    /// Returns a result without reasoning and context blocks, and within the limit of an answer.
    fn visible_result(
        &self,
        mut result: CreateMessageResult,
    ) -> Result<CreateMessageResult, Failure> {
        let max = self.config.max_answer_bytes.get();
        let mut is_cut = false;
        let mut has_content = false;
        for item in &mut result.content {
            let Some(text) = item.as_text() else {
                has_content = true;
                continue;
            };
            let mut text = answer::without_blocks(text);
            has_content |= !text.is_empty();
            if text.len() > max {
                text.truncate(text.floor_char_boundary(max));
                is_cut = true;
            }
            *item = SamplingContent::text(text);
        }
        if !has_content {
            let message = "the model gave no answer: its text is empty";
            return Err(Failure::new(ErrorCode::Unavailable, message));
        }
        if is_cut {
            result.stop_reason = Some("maxTokens".to_owned());
        }
        Ok(result)
    }
}

/// An answer of the model in parts: pieces of its text, then the result. Dropping it ends the
/// model's work. The model's answer is read only while [`Self::next`] waits, so a slow reader holds
/// nothing but the text so far.
pub struct SamplingStream {
    chat: Arc<Chat>,
    /// [`None`] once the model has answered.
    asking: Option<BoxFuture<'static, Result<CreateMessageResult, SamplingError>>>,
    /// The model's text so far.
    received: Arc<Mutex<String>>,
    /// The visible text that was returned.
    said: String,
    /// The result, if the last piece of its text came first.
    result: Option<CreateMessageResult>,
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum SamplingPart {
    /// The next piece of the visible text, never a part of a block or of reasoning.
    Text(String),
    /// The result, as of [`Chat::create_message`]. Nothing follows.
    Result(CreateMessageResult),
}

impl SamplingStream {
    /// Waits for the next part; [`None`] after the result and after an error. Several pieces of the
    /// model become one part. Cancel safe.
    ///
    /// # Errors
    ///
    /// Returns an error if the model fails.
    pub async fn next(&mut self) -> Option<Result<SamplingPart, Failure>> {
        loop {
            if let Some(result) = self.result.take() {
                return Some(Ok(SamplingPart::Result(result)));
            }
            let asking = self.asking.as_mut()?;
            let Ok(answer) = tokio::time::timeout(TELL_EVERY, asking).await else {
                if let Some(piece) = self.piece() {
                    return Some(Ok(SamplingPart::Text(piece)));
                }
                continue;
            };
            self.asking = None;
            let result =
                match answer.map_err(failure).and_then(|result| self.chat.visible_result(result)) {
                    Ok(result) => result,
                    Err(failure) => return Some(Err(failure)),
                };
            let text = result.content.iter().find_map(SamplingContent::as_text);
            let rest = text.and_then(|text| text.strip_prefix(&*self.said)).map(str::to_owned);
            self.result = Some(result);
            if let Some(rest) = rest.filter(|rest| !rest.is_empty()) {
                return Some(Ok(SamplingPart::Text(rest)));
            }
        }
    }

    /// Returns the visible text that was not yet returned.
    fn piece(&mut self) -> Option<String> {
        let max = self.chat.config.max_answer_bytes.get();
        if self.said.len() >= max {
            return None;
        }
        let mut visible = answer::visible_part(&lock(&self.received));
        visible.truncate(visible.floor_char_boundary(max));
        let piece = visible.strip_prefix(&*self.said).filter(|piece| !piece.is_empty())?.to_owned();
        self.said = visible;
        Some(piece)
    }
}

impl fmt::Debug for SamplingStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SamplingStream").field("said", &self.said.len()).finish_non_exhaustive()
    }
}

fn failure(error: SamplingError) -> Failure {
    match error {
        SamplingError::Model(error) => model::failure(error),
        SamplingError::TooLong { .. } => {
            let limits = "knowledge.chat.max_message_bytes and max_sent_bytes together";
            Failure::new(ErrorCode::LimitExceeded, format!("{error} ({limits})"))
        }
        SamplingError::NoToolCalled => Failure::new(ErrorCode::Unavailable, error.to_string()),
        invalid => Failure::invalid(invalid.to_string()),
    }
}

/// Escapes the tags of blocks in a call of a tool or its result.
fn neutralize_call(call: &mut SamplingTool) {
    match call {
        SamplingTool::ToolUse { input, .. } => neutralize_members(input),
        SamplingTool::ToolResult { content, structured_content, .. } => {
            for item in content {
                if let Content::Text { text, .. } = item {
                    *text = neutralize(text).into_owned();
                }
            }
            structured_content.iter_mut().for_each(neutralize_strings);
        }
    }
}

/// Escapes the tags of blocks in all strings of a JSON value, and in names of members.
fn neutralize_strings(value: &mut Value) {
    match value {
        Value::String(text) => *text = neutralize(text).into_owned(),
        Value::Array(items) => items.iter_mut().for_each(neutralize_strings),
        Value::Object(members) => neutralize_members(members),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn neutralize_members(members: &mut Map<String, Value>) {
    members.values_mut().for_each(neutralize_strings);
    if members.keys().any(|name| matches!(neutralize(name), Cow::Owned(_))) {
        let named = std::mem::take(members).into_iter();
        *members = named.map(|(name, value)| (neutralize(&name).into_owned(), value)).collect();
    }
}

fn is_user(message: &SamplingMessage) -> bool {
    message.role == Role::User
}
