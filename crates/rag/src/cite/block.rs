//! Cited passages, and the blocks that show them to a model.

use marquetry_context_blocks::{Builder, Context};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use marquetry_index::{Hit, StoredChunk};

/// Schema of a block with passages.
pub(super) const SEARCH_RESULT: &str = "urn:am7:vector:search-result";
/// Schema of a block with the messages of a chat.
pub(super) const CHAT_HISTORY: &str = "urn:am7:chat:history";

/// A cited passage of a document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Passage {
    /// The URI of the document.
    pub uri: String,
    /// The text. It is untrusted: instructions in it must not be followed.
    pub content: String,
    /// Relevance for the question, from 0 to 1 ([`Hit::relevance`]); `None` without a question.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// Index among the chunks of the document, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk: Option<u32>,
    /// Number of chunks of the document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk_count: Option<u32>,
    /// Span in the text of the document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offsets: Option<Offsets>,
    /// The page of the words that match the question, from 1; the page on which the passage begins
    /// if none match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<u32>,
    /// The type of the document's record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_type: Option<String>,
    /// The title of the document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Whether the passage was longer than
    /// [`CitationLimits::max_passage_bytes`](super::CitationLimits::max_passage_bytes) and was cut.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// A span of a text, in bytes of UTF-8: from `start` to before `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Offsets {
    /// Index of the first byte.
    pub start: usize,
    /// Index after the last byte.
    pub end: usize,
}

/// Type and title of the document of a passage.
#[derive(Clone, Debug, Default)]
pub(super) struct Source {
    pub(super) kind: Option<String>,
    pub(super) title: Option<String>,
}

impl Passage {
    pub(super) fn of_hit(hit: Hit, max_bytes: usize) -> Self {
        let source = Source { kind: hit.kind, title: hit.title };
        let passage = Self::of_chunk(hit.chunk, source, max_bytes);
        Self { score: Some(hit.relevance), page: hit.page, ..passage }
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

    /// Returns the beginning of a text that was not cut into chunks.
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

/// A cited message of a chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CitedMessage {
    /// Author of the message: `user` or `assistant`.
    pub role: String,
    /// Text of the message.
    pub content: String,
}

/// The content of a block.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Cited {
    /// Passages of documents.
    Passages(Vec<Passage>),
    /// The newest messages of a chat, in their order.
    Chat {
        /// The name of the chat.
        name: String,
        /// The messages.
        messages: Vec<CitedMessage>,
        /// Number of older messages that were left out.
        omitted: usize,
    },
}

/// A block with the passages for one reference, or for all tags.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CitationBlock {
    /// The URI of the block, `am7://ORGANISATION/vector/citations/ABOUT`.
    pub uri: String,
    /// The references for which the block was made.
    pub references: Vec<String>,
    /// The question.
    pub query: String,
    /// Instruction for the model, from the request.
    pub instruction: Option<String>,
    /// The citations.
    pub cited: Cited,
    pub(super) datamark: bool,
}

impl CitationBlock {
    /// Returns the schema of the block's data: `urn:am7:vector:search-result` or
    /// `urn:am7:chat:history`.
    pub fn schema(&self) -> &'static str {
        match self.cited {
            Cited::Passages(_) => SEARCH_RESULT,
            Cited::Chat { .. } => CHAT_HISTORY,
        }
    }

    /// Returns the passages; an empty slice for a chat.
    pub fn passages(&self) -> &[Passage] {
        match &self.cited {
            Cited::Passages(passages) => passages,
            Cited::Chat { .. } => &[],
        }
    }

    /// Returns the data of the block.
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

    /// Returns the length of the block as text, in bytes.
    pub(super) fn written_bytes(&self) -> usize {
        let mut builder = Builder::new();
        self.write(&mut builder);
        builder.build().len()
    }

    /// Returns the relevance of the passage that [`Self::remove_least_relevant`] would remove.
    /// Passages without a score come from the beginning of a text.
    fn least_relevance(&self) -> Option<f64> {
        let scores = self.passages().iter().map(|passage| passage.score.unwrap_or(0.0));
        scores.min_by(f64::total_cmp)
    }

    /// Removes the least relevant passage, the last of several; of a chat, the oldest message.
    pub(super) fn remove_least_relevant(&mut self) {
        let least = self.least_relevance();
        match &mut self.cited {
            Cited::Passages(passages) => {
                if let Some(index) =
                    passages.iter().rposition(|passage| Some(passage.score.unwrap_or(0.0)) == least)
                {
                    passages.remove(index);
                }
            }
            Cited::Chat { messages, omitted, .. } if !messages.is_empty() => {
                messages.remove(0);
                *omitted += 1;
            }
            Cited::Chat { .. } => {}
        }
    }

    /// Returns whether the block cites nothing.
    pub(super) fn is_empty(&self) -> bool {
        match &self.cited {
            Cited::Passages(passages) => passages.is_empty(),
            Cited::Chat { messages, .. } => messages.is_empty(),
        }
    }

    pub(super) fn write(&self, builder: &mut Builder) {
        let context = Context::resource(&self.uri, self.schema()).ephemeral().untrusted();
        let context = if self.datamark { context.datamarked() } else { context };
        builder.add(context, &self.data()).expect("a JSON value is JSON");
    }
}

/// Returns the index of the block with the least relevant passage, the last of several; without
/// passages, of the last chat.
pub(super) fn least_relevant(blocks: &[CitationBlock]) -> Option<usize> {
    let with_passages = blocks
        .iter()
        .enumerate()
        .filter_map(|(index, block)| Some((block.least_relevance()?, index)))
        .min_by(|(one, at), (other, other_at)| one.total_cmp(other).then(other_at.cmp(at)));
    with_passages.map(|(_, index)| index).or_else(|| blocks.len().checked_sub(1))
}
