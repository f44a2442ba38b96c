//! `sampling/createMessage`: the same model, without a stored chat.

use marquetry_llm::{ChatRequest, Message};
use marquetry_protocol::{
    RpcError,
    server::Reply,
    types::{CreateMessageParams, CreateMessageResult, Role, SamplingContent},
};
use serde_json::{Value, value::RawValue};

use super::Chat;
use crate::failure::{ErrorCode, Failure};

/// Method that continues messages with the configured model; seed 003, part 3.
pub const CREATE_MESSAGE: &str = "sampling/createMessage";

impl Chat {
    /// Answers a request for [`CREATE_MESSAGE`].
    ///
    /// # Errors
    ///
    /// The parameters are invalid, or the model fails.
    pub async fn sample(&self, params: Option<&RawValue>) -> Result<Reply, RpcError> {
        let params: CreateMessageParams = serde_json::from_str(params.map_or("{}", RawValue::get))
            .map_err(|error| RpcError::invalid_params(error.to_string()))?;
        Reply::json(&self.create_message(&params).await?)
    }

    /// Continues messages with the configured model. Nothing is stored or cited.
    ///
    /// # Errors
    ///
    /// The messages have no text or are too long, tools are given, or the model fails.
    pub async fn create_message(
        &self,
        params: &CreateMessageParams,
    ) -> Result<CreateMessageResult, Failure> {
        let model = self.models.get(None)?;
        if params.tools.as_ref().is_some_and(|tools| !tools.is_empty()) {
            return Err(Failure::invalid("tools: not supported; the model gets no tools"));
        }
        if params.messages.is_empty() {
            return Err(Failure::invalid("messages is empty"));
        }
        if !params.temperature.is_none_or(|value| (0.0..=2.0).contains(&value)) {
            return Err(Failure::invalid("temperature is not between 0 and 2"));
        }
        let mut messages = Vec::with_capacity(params.messages.len() + 1);
        messages.extend(params.system_prompt.as_ref().map(Message::system));
        for (place, message) in params.messages.iter().enumerate() {
            let text = text_of(&message.content).ok_or_else(|| {
                Failure::invalid(format!("messages[{place}].content is not text alone"))
            })?;
            messages.push(match message.role {
                Role::User => Message::user(text),
                Role::Assistant => Message::assistant(text),
            });
        }
        let bytes: usize = messages.iter().map(|message| message.text().len()).sum();
        let most = self.config.max_message_bytes.get() + self.config.max_sent_bytes;
        if bytes > most {
            let limits = "knowledge.chat.max_message_bytes and max_sent_bytes together";
            let message = format!("messages have {bytes} bytes, more than {limits} ({most})");
            return Err(Failure::new(ErrorCode::LimitExceeded, message));
        }
        let mut request = ChatRequest::new(messages);
        request.temperature = params.temperature;
        let wanted = u32::try_from(params.max_tokens).unwrap_or(u32::MAX);
        let most = self.config.max_tokens.get();
        request.max_tokens = Some(if wanted == 0 { most } else { wanted.min(most) });
        if let Some(stop) = params.extra.get("stopSequences").and_then(Value::as_array) {
            request.stop = stop.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        }
        let (answer, finish, text) = self.ask(model.as_ref(), &request, None).await?;
        let stop_reason = match finish.as_str() {
            "stop" => "endTurn",
            "length" => "maxTokens",
            other => other,
        };
        Ok(CreateMessageResult {
            role: Role::Assistant,
            content: vec![SamplingContent::text(text)],
            model: if answer.model.is_empty() { model.name().to_owned() } else { answer.model },
            stop_reason: Some(stop_reason.to_owned()),
        })
    }
}

/// Returns the text of one or several items; [`None`] if there is another kind of content.
fn text_of(content: &[SamplingContent]) -> Option<String> {
    let texts: Vec<&str> = content.iter().map(SamplingContent::as_text).collect::<Option<_>>()?;
    Some(texts.join("\n")).filter(|text| !text.trim().is_empty())
}
