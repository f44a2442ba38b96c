//! Lists the chats of a caller, and reads stored conversations.

use marquetry_knowledge::{Access, Failure};
use marquetry_rag::{Record, RecordFilter};
use serde::Serialize;
use serde_json::Value;

use super::{CHAT, history::History, typed};

/// A chat in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ChatSummary {
    /// URI of its record.
    pub uri: String,
    /// Name of its record: the start of the first message.
    pub name: String,
    /// Time of the last change, in milliseconds since 1970.
    pub modified: u64,
    /// Number of stored messages.
    pub messages: usize,
}

/// The chats of a caller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ChatList {
    /// The chats, the newest first.
    pub chats: Vec<ChatSummary>,
    /// Whether there are more chats, which the list leaves out.
    pub has_more: bool,
}

/// A stored conversation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Conversation {
    /// URI of its record.
    pub uri: String,
    /// Name of its record.
    pub name: String,
    /// The messages as they are stored, the oldest first.
    pub messages: Value,
    /// Number of older messages that are no longer stored.
    pub dropped: u64,
}

/// Lists the caller's own chats.
///
/// # Errors
///
/// Returns an error if the records cannot be read.
pub async fn chats(access: &Access) -> Result<ChatList, Failure> {
    /// Maximum number of chats in a list. The store orders records by id, so all chats are read to
    /// find the newest.
    const MAX_CHATS: usize = 10_000;
    let mut filter = RecordFilter::new(&access.caller.organization);
    filter.types = vec![CHAT.to_owned()];
    filter.owners = vec![access.caller.user.clone()];
    filter.limit = Some(MAX_CHATS);
    // Only the short summaries are held together; the chats are read one part after the other.
    let (mut chats, next) =
        access.listed(filter, MAX_CHATS, |chat| summary(chat).map(|summary| (summary, 1))).await?;
    chats.sort_by(|one, other| {
        other.modified.cmp(&one.modified).then_with(|| one.uri.cmp(&other.uri))
    });
    Ok(ChatList { chats, has_more: next.is_some() })
}

/// Returns a stored conversation.
///
/// # Errors
///
/// Returns an error if the caller may not read the chat, or if the URI names another record.
pub async fn conversation(access: &Access, uri: &str) -> Result<Conversation, Failure> {
    let record = typed(access, uri, CHAT, "uri").await?;
    let history = History::read(&record.attributes);
    Ok(Conversation {
        uri: record.uri().unwrap_or_default(),
        name: record.name,
        messages: history.messages_value(),
        dropped: history.dropped,
    })
}

/// Returns the entry of a chat in a list.
fn summary(record: Record) -> Option<ChatSummary> {
    let uri = record.uri()?;
    let messages = History::read(&record.attributes).messages.len();
    Some(ChatSummary { uri, name: record.name, modified: record.modified, messages })
}
