//! `sampling/createMessage`: the same model, without a stored chat.

use marquetry_llm::sampling::{Sampler, SamplingError, SamplingLimits};
use marquetry_protocol::{
    RpcError,
    server::Reply,
    types::{CreateMessageParams, CreateMessageResult, SamplingContent},
};
use serde_json::value::RawValue;

use super::{Chat, answer, model};
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

    /// Continues messages with the configured model. Nothing is stored or cited. Reasoning and context blocks are removed from the
    /// answer.
    ///
    /// # Errors
    ///
    /// The messages are invalid or too long, or the model fails.
    pub async fn create_message(
        &self,
        params: &CreateMessageParams,
    ) -> Result<CreateMessageResult, Failure> {
        let model = self.models.get(None)?;
        let mut limits = SamplingLimits::default();
        limits.max_tokens = self.config.max_tokens.get();
        limits.max_request_bytes =
            self.config.max_message_bytes.get().saturating_add(self.config.max_sent_bytes);
        let sampler = Sampler::new(model).with_limits(limits);
        let mut result = sampler.create_message(params).await.map_err(failure)?;
        let most = self.config.max_answer_bytes.get();
        let (mut is_cut, mut has_content) = (false, false);
        for item in &mut result.content {
            let Some(text) = item.as_text() else {
                has_content = true;
                continue;
            };
            let mut text = answer::clean(text);
            has_content |= !text.is_empty();
            if text.len() > most {
                text.truncate(text.floor_char_boundary(most));
                is_cut = true;
            }
            *item = SamplingContent::text(text);
        }
        if !has_content {
            let message = "the model gave no answer: it said nothing";
            return Err(Failure::new(ErrorCode::Unavailable, message));
        }
        if is_cut {
            result.stop_reason = Some("maxTokens".to_owned());
        }
        Ok(result)
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
