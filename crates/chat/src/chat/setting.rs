//! The settings of one answer, from the arguments, the chat and the records that these name.

use std::sync::Arc;

use marquetry_context_blocks::Am7Uri;
use marquetry_knowledge::{
    Access, ErrorCode, Failure,
    kinds::{CHARACTER, CHAT_CONFIG, PROMPT_CONFIG},
};
use marquetry_llm::ChatModel;
use marquetry_rag::Record;
use serde_json::Value;

use super::{Chat, arguments::ChatArguments, narrative::Speakers, vectors::Parts};
use crate::prompts;

/// The settings for one answer.
pub(super) struct Setting {
    pub(super) parts: Parts,
    pub(super) speakers: Speakers,
    pub(super) system: String,
    /// Instruction for the model on how to use citations.
    pub(super) instruction: Option<String>,
    pub(super) model: Arc<dyn ChatModel>,
    pub(super) temperature: Option<f64>,
    pub(super) max_tokens: u32,
    pub(super) max_sent_messages: usize,
}

impl Chat {
    /// Loads what determines the answer: the arguments, the continued chat, and the records that
    /// these name.
    pub(super) async fn setting(
        &self,
        access: &Access,
        arguments: &ChatArguments,
        chat: Option<&Record>,
    ) -> Result<Setting, Failure> {
        let named = config_uri(access, arguments)?;
        let is_named = named.is_some();
        let config = match named.or_else(|| uri_in(chat, "chatConfig")) {
            // The record that an old chat names may not exist any more.
            Some(uri) => match typed(access, &uri, CHAT_CONFIG, "chatConfig").await {
                Err(failure) if failure.code == ErrorCode::NotFound && !is_named => None,
                found => Some(found?),
            },
            None => None,
        };
        let prompt = arguments.prompt_config_uri.clone();
        let is_named = prompt.is_some();
        let prompt = match prompt
            .or_else(|| uri_in(chat, "promptConfig"))
            .or_else(|| uri_in(config.as_ref(), "promptConfig"))
        {
            Some(uri) => match typed(access, &uri, PROMPT_CONFIG, "promptConfig").await {
                Err(failure) if failure.code == ErrorCode::NotFound && !is_named => None,
                found => Some(found?),
            },
            None => None,
        };
        let mut parts = Parts {
            chat_config: config.as_ref().and_then(Record::uri),
            prompt_config: prompt.as_ref().and_then(Record::uri),
            ..Parts::default()
        };
        let speakers = Speakers {
            system: self
                .character(
                    access,
                    uri_in(config.as_ref(), "systemCharacter"),
                    &mut parts.system_character,
                )
                .await?,
            user: self
                .character(
                    access,
                    uri_in(config.as_ref(), "userCharacter"),
                    &mut parts.user_character,
                )
                .await?,
        };
        let config = config.as_ref();
        let given = arguments.prompt_arguments.clone().unwrap_or_default();
        let mut values = speakers.values();
        values.extend(given);
        let system = match (&prompt, attribute(config, "systemPrompt").and_then(Value::as_str)) {
            (Some(prompt), _) => prompts::system_of(prompt, &values)?,
            (None, Some(text)) => prompts::filled(text, &values)?,
            (None, None) => self.config.system_prompt.clone(),
        };
        let instruction = match &prompt {
            Some(prompt) => prompts::citation_instruction(prompt, &values)?,
            None => None,
        };
        let max_tokens =
            within_limit(config, "maxTokens", self.config.max_tokens.get().into()).max(1);
        Ok(Setting {
            parts,
            speakers,
            system,
            instruction,
            model: self.models.get(attribute(config, "model").and_then(Value::as_str))?,
            temperature: attribute(config, "temperature")
                .and_then(Value::as_f64)
                .filter(|value| (0.0..=2.0).contains(value)),
            max_tokens: u32::try_from(max_tokens).unwrap_or(u32::MAX),
            max_sent_messages: usize::try_from(within_limit(
                config,
                "messageTrim",
                self.config.max_sent_messages as u64,
            ))
            .unwrap_or(usize::MAX),
        })
    }

    /// Returns a character, if the caller can read it. A chat continues without it.
    async fn character(
        &self,
        access: &Access,
        uri: Option<String>,
        kept: &mut Option<String>,
    ) -> Result<Option<Record>, Failure> {
        let Some(uri) = uri else { return Ok(None) };
        match typed(access, &uri, CHARACTER, "character").await {
            Ok(record) => {
                *kept = record.uri();
                Ok(Some(record))
            }
            Err(failure)
                if matches!(failure.code, ErrorCode::NotFound | ErrorCode::InvalidParams) =>
            {
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }
}

/// Returns the chatConfig that the arguments name.
fn config_uri(access: &Access, arguments: &ChatArguments) -> Result<Option<String>, Failure> {
    let by_id = match &arguments.chat_config_id {
        Some(id) if id.starts_with("am7://") => Some(id.clone()),
        Some(id) => {
            let builder = Am7Uri::builder()
                .organization(&access.caller.organization)
                .object_type(CHAT_CONFIG);
            let uri = builder
                .id(id)
                .build()
                .map_err(|error| Failure::invalid(format!("chatConfigId: {error}")))?;
            Some(uri.to_string())
        }
        None => None,
    };
    match (by_id, &arguments.chat_config_uri) {
        (Some(by_id), Some(uri)) if by_id != *uri => Err(Failure::invalid(
            "chatConfigId and chatConfigUri name different records; give one of them",
        )),
        (by_id, uri) => Ok(by_id.or_else(|| uri.clone())),
    }
}

/// Returns a record, whose type must be `kind`; errors name the argument.
pub(super) async fn typed(
    access: &Access,
    uri: &str,
    kind: &str,
    argument: &str,
) -> Result<Record, Failure> {
    let record = access.knowledge.records.get(&access.caller, uri).await.map_err(|error| {
        let failure = Failure::from(error);
        Failure { message: format!("{argument}: {}", failure.message), ..failure }
    })?;
    if record.kind == kind {
        return Ok(record);
    }
    Err(Failure::invalid(format!("{argument}: {uri} is a {}, and should be a {kind}", record.kind)))
}

/// Returns the URI in an attribute of a record that may be missing.
fn uri_in(record: Option<&Record>, name: &str) -> Option<String> {
    record.and_then(|record| uri_of(record, name))
}

fn attribute<'a>(config: Option<&'a Record>, name: &str) -> Option<&'a Value> {
    config.and_then(|config| config.attributes.get(name))
}

/// Returns the number in an attribute, if it is below the limit, else the limit.
fn within_limit(config: Option<&Record>, name: &str, limit: u64) -> u64 {
    attribute(config, name).and_then(Value::as_u64).map_or(limit, |own| own.min(limit))
}

/// Returns an attribute that names a record.
pub(super) fn uri_of(record: &Record, name: &str) -> Option<String> {
    record.attributes.get(name)?.as_str().filter(|uri| !uri.is_empty()).map(str::to_owned)
}
