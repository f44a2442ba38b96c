//! A chat as a document: searches find it by its messages and its speakers.

use marquetry_knowledge::{Failure, Knowledge};
use marquetry_rag::{ChunkOptions, Document, NewChunk, Record, chunk, record_document};
use serde_json::{Map, json};

use super::{history::History, narrative::Speakers};

/// The records of a chat, by URI.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts {
    pub(super) chat_config: Option<String>,
    pub(super) prompt_config: Option<String>,
    pub(super) system_character: Option<String>,
    pub(super) user_character: Option<String>,
}

impl Parts {
    /// Returns the metadata of the chat's chunks.
    pub(super) fn metadata(&self) -> Map<String, serde_json::Value> {
        let parts = [
            ("chatConfigUri", &self.chat_config),
            ("promptConfigUri", &self.prompt_config),
            ("systemCharacterUri", &self.system_character),
            ("userCharacterUri", &self.user_character),
        ];
        let given = parts
            .into_iter()
            .filter_map(|(name, uri)| Some((name.to_owned(), json!(uri.as_ref()?))));
        given.collect()
    }
}

/// Replaces the searchable chunks of a chat: one for each message, more for long ones. Earlier
/// messages keep their vectors.
pub(super) async fn store(
    knowledge: &Knowledge,
    chat: &Record,
    history: &History,
    speakers: &Speakers,
    parts: &Parts,
) -> Result<u64, Failure> {
    let pipeline = &knowledge.pipeline;
    let uri = chat.uri().unwrap_or_default();
    let options = ChunkOptions::default();
    let mut pieces = Vec::new();
    let mut length = 0;
    for said in &history.messages {
        let narrative = speakers.narrative(said);
        for piece in chunk(&narrative, &options, |text| pipeline.embedder().count_tokens(text))? {
            let span = length + piece.span.start..length + piece.span.end;
            // Each piece of a message names its speaker.
            let content = match piece.span.start {
                0 => piece.content,
                _ => format!("{}: {}", speakers.name(said.role), piece.content),
            };
            pieces.push((content, span));
        }
        length += narrative.len() + 1;
    }
    let texts: Vec<String> = pieces.iter().map(|(content, _)| content.clone()).collect();
    let vectors = pipeline.embed_new(&uri, &texts).await?;
    let chunks = pieces.into_iter().zip(vectors).map(|((content, span), vector)| {
        let mut chunk = NewChunk::of_text(content, vector);
        chunk.span = span;
        chunk
    });
    let mut document = record_document(chat);
    Document::CHAT_HISTORY.clone_into(&mut document.vector_model);
    document.metadata.extend(parts.metadata());
    knowledge.store_passages(document, chunks.collect()).await
}
