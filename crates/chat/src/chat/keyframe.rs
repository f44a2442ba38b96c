//! Keyframes that the model writes: the state of a chat, as a record.

use marquetry_knowledge::{Access, ErrorCode, Failure, kinds::KEYFRAME};
use marquetry_llm::{ChatModel, ChatRequest, Message};
use marquetry_rag::{NewRecord, Record, RecordPatch};
use serde_json::{Map, Value};

use super::{answer, model};
use crate::context;

/// Tokens of a keyframe.
const MAX_TOKENS: u32 = 1_024;

const SYSTEM: &str =
    "You keep the record of a conversation. You answer with one JSON object and nothing else.";
const REQUEST: &str = "Write the present state of the conversation above as one JSON object. Use the members that fit, such as \"location\", \
\"participants\", \"mood\", \"objectives\", \"decisions\" and \"open_questions\". Write facts, not instructions, in few words.";

/// Asks the model for the state of a conversation and stores it as the chat's keyframe, in place of
/// the one before. Returns its URI. The conversation is without citations and contexts of Views, so
/// that a document does not become a part of the state.
///
/// # Errors
///
/// Returns an error if the model fails or does not answer with a JSON object of at most
/// `max_bytes`, or if the record cannot be stored.
pub(super) async fn write(
    access: &Access,
    chat: &Record,
    model: &dyn ChatModel,
    conversation: Vec<Message>,
    max_bytes: usize,
) -> Result<String, Failure> {
    let mut messages = vec![Message::system(SYSTEM)];
    messages.extend(conversation);
    messages.push(Message::user(REQUEST));
    let mut request = ChatRequest::new(messages);
    request.max_tokens = Some(MAX_TOKENS);
    request.temperature = Some(0.0);
    let answer = model.chat(&request).await.map_err(model::failure)?;
    let state = state(&answer::without_blocks(&answer.text), max_bytes).map_err(|problem| {
        Failure::new(ErrorCode::Unavailable, format!("the model's keyframe {problem}"))
    })?;
    store(access, chat, state).await
}

/// Reads the first JSON object of an answer.
fn state(answer: &str, max_bytes: usize) -> Result<Map<String, Value>, String> {
    let begin = answer.find('{').ok_or("has no JSON object")?;
    let mut values = serde_json::Deserializer::from_str(&answer[begin..]).into_iter();
    let state: Map<String, Value> = match values.next() {
        Some(Ok(state)) => state,
        Some(Err(error)) => return Err(format!("is not valid JSON: {error}")),
        None => return Err("has no JSON object".to_owned()),
    };
    let bytes = values.byte_offset();
    if bytes > max_bytes {
        return Err(format!("has {bytes} bytes, more than {max_bytes}"));
    }
    if state.is_empty() {
        return Err("is empty".to_owned());
    }
    Ok(state)
}

async fn store(
    access: &Access,
    chat: &Record,
    state: Map<String, Value>,
) -> Result<String, Failure> {
    let Access { knowledge, caller, .. } = access;
    let records = &knowledge.records;
    let chat_uri = chat.uri().unwrap_or_default();
    let (before, _) = context::own_records(access, KEYFRAME, |record| {
        let chat = record.attributes.get("chatRequest").and_then(Value::as_str);
        chat == Some(&*chat_uri) && context::keyframe_number(record).is_some()
    })
    .await?;
    let before = before.into_iter().max_by_key(context::keyframe_number);
    let number = before.as_ref().and_then(context::keyframe_number).unwrap_or(0) + 1;
    let timestamp = context::format_time(records.now());
    let keyframe = if let Some(uri) = before.and_then(|record| record.uri()) {
        let patch = RecordPatch::new()
            .name(format!("Keyframe {number}"))
            .attribute("number", number)
            .attribute("timestamp", timestamp)
            .attribute("state", state);
        records.update(caller, &uri, patch).await?
    } else {
        let new = NewRecord::new(KEYFRAME, format!("Keyframe {number}"))
            // One group for all chats: an owner may have 1,000 groups.
            .group("~/Chats/Keyframes")
            .attribute("chatRequest", chat_uri.as_str())
            .attribute("number", number)
            .attribute("timestamp", timestamp)
            .attribute("state", state);
        records.create(caller, new).await?
    };
    Ok(keyframe.uri().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_object_of_an_answer_is_the_state() {
        let fenced = "Here it is:\n```json\n{\"mood\": \"tense\"}\n```";
        assert_eq!(state(fenced, 100).unwrap()["mood"], "tense");
        for (answer, why) in [
            ("", "has no JSON object"),
            ("{}", "is empty"),
            ("{\"a\": ", "is not valid JSON"),
            ("{\"a\": \"0123456789\"}", "has 19 bytes, more than 10"),
        ] {
            let problem = state(answer, 10).unwrap_err();
            assert!(problem.starts_with(why), "{answer}: {problem}");
        }
    }
}
