//! Reads the messages of a chat from its record.

use serde_json::Value;

use super::{CitationLimits, block::CitedMessage, visible_text::VisibleText};
use marquetry_records::Record;

/// Returns the newest messages of a chat, in their order, and the number of older ones.
///
/// Messages that the model already sees are left out before the limits are applied.
pub(super) fn newest(
    record: &Record,
    limits: &CitationLimits,
    known: &mut VisibleText,
    mut room: usize,
) -> (Vec<CitedMessage>, usize) {
    let messages = record.attributes.get("messages").and_then(Value::as_array);
    let messages: Vec<CitedMessage> = messages.into_iter().flatten().filter_map(message).collect();
    room = room.min(limits.max_chat_bytes);
    let mut newest = Vec::new();
    let mut seen = 0;
    for message in messages.iter().rev() {
        if newest.len() == limits.max_chat_messages || seen == limits.max_chat_scanned || room == 0
        {
            break;
        }
        let mut message = message.clone();
        let fits = message.content.floor_char_boundary(room.min(limits.max_passage_bytes));
        if fits == 0 {
            break;
        }
        seen += 1;
        if !known.is_new_text(&message.content) {
            continue;
        }
        message.content.truncate(fits);
        room -= fits;
        newest.push(message);
    }
    newest.reverse();
    (newest, messages.len() - seen)
}

/// Parses a message of the user or the model. System messages of another chat are not cited.
fn message(value: &Value) -> Option<CitedMessage> {
    let role = value["role"].as_str().filter(|role| matches!(*role, "user" | "assistant"))?;
    let content = value["content"].as_str().filter(|content| !content.trim().is_empty())?;
    Some(CitedMessage { role: role.to_owned(), content: content.to_owned() })
}
