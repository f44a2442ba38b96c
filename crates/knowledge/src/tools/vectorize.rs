//! The tool that makes records searchable.

use std::num::NonZeroUsize;

use marquetry_protocol::server::{RequestContext, Toolbox};
use marquetry_rag::{NewRecord, RecordPatch, Strategy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Answer, KnowledgeTools, VECTORIZE};
use crate::{access::Access, failure::Failure, kinds::DATA, vectorize::Chunking};

/// Unit of passages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[schemars(inline)]
pub(super) enum ChunkType {
    Sentence,
    Word,
    Chapter,
    Unknown,
}

impl From<ChunkType> for Strategy {
    fn from(kind: ChunkType) -> Self {
        match kind {
            ChunkType::Sentence => Self::Sentence,
            ChunkType::Word => Self::Word,
            ChunkType::Chapter => Self::Chapter,
            ChunkType::Unknown => Self::Unknown,
        }
    }
}

impl ChunkType {
    pub(super) fn of(strategy: Strategy) -> Self {
        match strategy {
            Strategy::Word => Self::Word,
            Strategy::Chapter => Self::Chapter,
            Strategy::Unknown => Self::Unknown,
            _ => Self::Sentence,
        }
    }
}

/// Arguments of `am7_vectorize`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct VectorizeArguments {
    /// Or give type and objectId.
    uri: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    object_id: Option<String>,
    /// New text; without uri, a new document.
    content: Option<String>,
    /// "SENTENCE" by default. "UNKNOWN" keeps the text in one piece.
    chunk_type: Option<ChunkType>,
    /// Sentences or words in a passage, 5 by default.
    #[schemars(range(min = 1))]
    chunk_size: Option<i64>,
    overlap: Option<usize>,
    /// 512 by default.
    max_tokens: Option<NonZeroUsize>,
    /// If false, skips a record that is already searchable.
    replace_existing: Option<bool>,
    /// Only the database's own model.
    model: Option<String>,
}

/// Answer of `am7_vectorize`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Vectorized {
    /// The document.
    uri: String,
    /// Number of its passages.
    chunk_count: u64,
    /// Whether it was searchable before.
    existed: bool,
    /// Whether it was cut and embedded again.
    vectorized: bool,
}

impl KnowledgeTools {
    pub(super) fn add_vectorize(&self, toolbox: Toolbox) -> Toolbox {
        self.add(toolbox, (VECTORIZE, DESCRIPTION), |tools, arguments, cx| async move {
            Answer(tools.vectorize(arguments, &cx).await)
        })
    }

    async fn vectorize(
        &self,
        arguments: VectorizeArguments,
        cx: &RequestContext,
    ) -> Result<Vectorized, Failure> {
        let VectorizeArguments { uri, kind, object_id, content, .. } = arguments;
        let chunking = Chunking {
            strategy: arguments.chunk_type.map(Strategy::from),
            size: arguments.chunk_size,
            overlap: arguments.overlap,
            max_tokens: arguments.max_tokens,
        };
        let model = arguments.model.as_deref();
        let options = chunking.options(self.service.max_passage_bytes())?;
        if content.as_ref().is_some_and(|content| content.trim().is_empty()) {
            return Err(Failure::invalid("content is empty"));
        }
        let is_named = uri.is_some() || kind.is_some() || object_id.is_some();
        let (access, record, existed, is_changed) = match content {
            Some(content) if !is_named => {
                let access = self.open(cx).await?;
                self.service.check_model(model, &access.knowledge).await?;
                let new = NewRecord::new(DATA, name_of(&content));
                let record = access.create(new.content("text/plain", content)).await?;
                (access, record, false, true)
            }
            content => {
                let uri = self.uri(uri.as_ref(), kind.as_ref(), object_id.as_ref())?;
                let access = self.read(cx, &uri).await?;
                self.service.check_model(model, &access.knowledge).await?;
                let record = access.knowledge.records.get(&access.caller, &uri).await?;
                access.check_writable(&record).await?;
                let existed = access.knowledge.document_of(&record).await?.is_some();
                if existed && arguments.replace_existing == Some(false) {
                    let uri = record.uri().unwrap_or_default();
                    let chunk_count = access.chunk_count(&uri).await?;
                    return Ok(Vectorized { uri, chunk_count, existed, vectorized: false });
                }
                let is_changed = content.is_some();
                let record = match content {
                    None => record,
                    Some(content) => {
                        let mut patch = RecordPatch::new();
                        Access::with_text(&mut patch, &record, content);
                        access.change(&uri, patch).await?
                    }
                };
                (access, record, existed, is_changed)
            }
        };
        let uri = record.uri().unwrap_or_default();
        match access.vectorize(&record, options).await {
            Ok(chunk_count) => Ok(Vectorized { uri, chunk_count, existed, vectorized: true }),
            Err(failure) if is_changed => Err(failure.after(&format!(
                "the content of {uri} is stored (revision {}), but no search finds it; call again with this uri and without content",
                record.revision
            ))),
            Err(failure) => Err(failure),
        }
    }
}

/// Names a text by its beginning.
fn name_of(content: &str) -> String {
    const MAX_NAME_CHARS: usize = 60;
    let line = content.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("Text");
    line.chars().filter(|character| !character.is_control()).take(MAX_NAME_CHARS).collect()
}

const DESCRIPTION: &str = "Makes a document or note findable by am7_vector_search. Reads text, code, HTML, PDF, EPUB \
     and office formats.";
