//! Chats and cited passages as a page shows them.

use marquetry_rag::{Record, RecordFilter};
use serde::Serialize;
use serde_json::Value;

use super::{CHAT, history::History, typed};
use crate::{
    access::Access,
    failure::{ErrorCode, Failure},
};

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

/// A passage of a document, with the text that is stored now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StoredPassage {
    /// URI of the document.
    pub uri: String,
    /// The text.
    pub content: String,
}

impl Access {
    /// Lists the caller's own chats.
    ///
    /// # Errors
    ///
    /// Returns an error if the records cannot be read.
    pub async fn chats(&self) -> Result<ChatList, Failure> {
        /// Chats that are read. Records have the order of their ids, so all are read before the
        /// newest are known.
        const MAX_CHATS: usize = 10_000;
        let mut filter: RecordFilter = self.filter();
        filter.types = vec![CHAT.to_owned()];
        filter.owners = vec![self.caller.user.clone()];
        filter.limit = Some(MAX_CHATS);
        // Summaries are short; the chats themselves are read in parts.
        let (mut chats, next) = self
            .listed(filter, MAX_CHATS, |chat| summary(chat).map(|summary| (summary, 1)))
            .await?;
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
    pub async fn conversation(&self, uri: &str) -> Result<Conversation, Failure> {
        let record = typed(self, uri, CHAT, "uri").await?;
        let history = History::read(&record.attributes);
        Ok(Conversation {
            uri: record.uri().unwrap_or_default(),
            name: record.name,
            messages: history.messages_value(),
            dropped: history.dropped,
        })
    }

    /// Returns a passage of a document by its index, if the caller may read the document now.
    ///
    /// # Errors
    ///
    /// Returns an error if the document or the passage does not exist, or if the caller may not read the document.
    pub async fn cited_passage(&self, uri: &str, chunk: u32) -> Result<StoredPassage, Failure> {
        let store = self.knowledge.pipeline.store();
        let document = store.document(uri).await?.ok_or_else(|| no_passage(uri, chunk))?;
        if !self.may_see(&document).await? {
            return Err(no_passage(uri, chunk));
        }
        let chunks = store.chunks(uri).await?;
        let found = chunks
            .into_iter()
            .find(|stored| stored.index == chunk)
            .ok_or_else(|| no_passage(uri, chunk))?;
        Ok(StoredPassage { uri: found.document, content: found.content })
    }
}

fn no_passage(uri: &str, chunk: u32) -> Failure {
    let uri = &uri[..uri.floor_char_boundary(200)];
    let message = format!("passage {chunk} of {uri} does not exist, or you may not read it");
    Failure::new(ErrorCode::NotFound, message)
}

/// Returns a chat for a list.
fn summary(record: Record) -> Option<ChatSummary> {
    let uri = record.uri()?;
    let messages = History::read(&record.attributes).messages.len();
    Some(ChatSummary { uri, name: record.name, modified: record.modified, messages })
}
