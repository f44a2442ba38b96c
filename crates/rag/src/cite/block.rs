//! What is cited, and the blocks in which a model gets it.

use marquetry_context_blocks::{Builder, Context};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use marquetry_index::{Hit, StoredChunk};

/// The schema of a block with passages that were searched for.
pub(super) const SEARCH_RESULT: &str = "urn:am7:vector:search-result";
/// The schema of a block with the messages of a chat.
pub(super) const CHAT_HISTORY: &str = "urn:am7:chat:history";

/// A passage of a document, as a block shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Passage {
    /// The URI of its document.
    pub uri: String,
    /// What it says. It comes from outside, and is not to be obeyed.
    pub content: String,
    /// How well it answers, from 0 to 1 ([`Hit::relevance`]); None if nothing was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// Its place among the chunks of its document, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk: Option<u32>,
    /// How many chunks its document has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk_count: Option<u32>,
    /// Where it stands in the text of its document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offsets: Option<Offsets>,
    /// On which page it begins, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<u32>,
    /// The type of the record behind its document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_type: Option<String>,
    /// What its document is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// It was longer than [`CitationLimits::max_passage_bytes`](super::CitationLimits::max_passage_bytes).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// A place in a text, in bytes: from `start` to before `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Offsets {
    /// The first byte.
    pub start: usize,
    /// The byte after the last.
    pub end: usize,
}

/// What of a document a passage says beside its text.
#[derive(Clone, Debug, Default)]
pub(super) struct Source {
    pub(super) kind: Option<String>,
    pub(super) title: Option<String>,
}

impl Passage {
    pub(super) fn of_hit(hit: Hit, max_bytes: usize) -> Self {
        let source = Source { kind: hit.kind, title: hit.title };
        Self { score: Some(hit.relevance), ..Self::of_chunk(hit.chunk, source, max_bytes) }
    }

    pub(super) fn of_chunk(chunk: StoredChunk, source: Source, max_bytes: usize) -> Self {
        Self {
            chunk: Some(chunk.index),
            chunk_count: Some(chunk.count),
            offsets: Some(Offsets { start: chunk.span.start, end: chunk.span.end }),
            page: chunk.page,
            ..Self::of_text(chunk.document, &chunk.content, source, max_bytes)
        }
    }

    /// The beginning of a text that was never cut into chunks.
    pub(super) fn of_text(uri: String, text: &str, source: Source, max_bytes: usize) -> Self {
        let content = text[..text.floor_char_boundary(max_bytes)].to_owned();
        Self {
            uri,
            truncated: content.len() < text.len(),
            content,
            score: None,
            chunk: None,
            chunk_count: None,
            offsets: None,
            page: None,
            source_type: source.kind,
            title: source.title,
        }
    }
}

/// A message of a chat, as a block shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CitedMessage {
    /// Who said it: `user` or `assistant`.
    pub role: String,
    /// What was said.
    pub content: String,
}

/// What a block holds.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Cited {
    /// Passages that were found.
    Passages(Vec<Passage>),
    /// The newest messages of a chat, the oldest of them first.
    Chat {
        /// What the chat is called.
        name: String,
        /// The messages.
        messages: Vec<CitedMessage>,
        /// How many older ones were left out.
        omitted: usize,
    },
}

/// One block: what was found for one reference, or for the tags.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CitationBlock {
    /// The URI of the block, `am7://ORGANISATION/vector/citations/ABOUT`.
    pub uri: String,
    /// For which references it was found.
    pub references: Vec<String>,
    /// What was asked.
    pub query: String,
    /// How the model is to use it, if the request says.
    pub instruction: Option<String>,
    /// What it holds.
    pub cited: Cited,
    pub(super) datamark: bool,
}

impl CitationBlock {
    /// What describes its data: `urn:am7:vector:search-result` or `urn:am7:chat:history`.
    pub fn schema(&self) -> &'static str {
        match self.cited {
            Cited::Passages(_) => SEARCH_RESULT,
            Cited::Chat { .. } => CHAT_HISTORY,
        }
    }

    /// The passages; none in a block with a chat.
    pub fn passages(&self) -> &[Passage] {
        match &self.cited {
            Cited::Passages(passages) => passages,
            Cited::Chat { .. } => &[],
        }
    }

    /// The data of the block.
    pub fn data(&self) -> Value {
        let mut data = json!({ "query": self.query });
        if let Some(instruction) = &self.instruction {
            data["instruction"] = json!(instruction);
        }
        data["references"] = json!(self.references);
        match &self.cited {
            Cited::Passages(passages) => data["results"] = json!(passages),
            Cited::Chat { name, messages, omitted } => {
                data["name"] = json!(name);
                data["messages"] = json!(messages);
                data["omitted"] = json!(omitted);
            }
        }
        data
    }

    pub(super) fn write(&self, builder: &mut Builder) {
        let context = Context::resource(&self.uri, self.schema()).ephemeral().untrusted();
        let context = if self.datamark { context.datamarked() } else { context };
        builder.add(context, &self.data()).expect("a JSON value is JSON");
    }
}
