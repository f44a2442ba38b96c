//! Retrieval in stages that stand alone: a document becomes text, a text is cut into chunks, chunks become vectors.
//!
//! ```
//! use marquetry_rag::{ChunkOptions, StaticModel, Strategy, chunk};
//!
//! let model = StaticModel::built_in();
//! let text = "Rust has no garbage collector. It frees memory when its owner goes. Bread is made of flour and water.";
//! let chunks = chunk(text, &ChunkOptions::new(Strategy::Sentence, 1)?, |text| model.count_tokens(text))?;
//!
//! let question = model.embed("How is bread made?");
//! let score = |content: &str| model.embed(content).iter().zip(&question).map(|(left, right)| left * right).sum::<f32>();
//! let best = chunks.iter().max_by(|left, right| score(&left.content).total_cmp(&score(&right.content))).unwrap();
//! assert_eq!(&text[best.span.clone()], "Bread is made of flour and water.");
//! # Ok::<(), marquetry_rag::ChunkError>(())
//! ```
//!
//! Chunks with their vectors are kept in a [`ChunkStore`], and found there by both their words and their meaning:
//!
//! ```
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! use marquetry_rag::{ChunkStore, Document, EmbeddingModel, MemoryStore, NewChunk, SearchRequest, StaticModel};
//!
//! let model = StaticModel::built_in();
//! let store = MemoryStore::new(EmbeddingModel::default());
//! for (uri, text) in [("rust.md", "Rust has no garbage collector."), ("bread.md", "Bread is flour and water.")] {
//!     let chunk = NewChunk::of_text(text, model.embed(text));
//!     store.replace(Document::new(uri), vec![chunk]).await?;
//! }
//! let question = "How is bread made?";
//! let hits = store.search(&SearchRequest::new(question, Some(model.embed(question)))).await?;
//! assert_eq!(hits[0].chunk.document, "bread.md");
//! # Ok::<(), marquetry_rag::StoreError>(())
//! # }).unwrap();
//! ```
//!
//! Each stage stands alone: documents into text (`extract` and `chunk_extracted`, features `extract`, `docx`, `pdf`,
//! `spreadsheet`), cutting ([`chunk`]), models of vectors ([`Embedder`]: the built-in `StaticModel`, remote ones, local
//! transformers), stores in memory ([`MemoryStore`]), in a file (`LibsqlStore`) and in PostgreSQL (`PostgresStore`),
//! [`Records`] with who may read them, and citations (`CitationResolver`).
//!
//! Documents are untrusted: what a reader of a document does not see is left out of its text, no document overflows the
//! stack or expands without bound, and every limit is one of `ExtractLimits`.

mod chunk;
mod cite;
#[cfg(feature = "files")]
mod files;
mod label;
mod pipeline;
#[cfg(feature = "postgres")]
mod postgres;
mod quotes;
mod record;
mod search;
mod store;

#[cfg(feature = "files")]
pub use crate::files::{
    FILE_MEDIA_TYPE, FileEvent, FileOptions, FileOutcome, FileProblem, IndexReport, Indexer,
    Refused, file_record_uri, file_uri,
};
pub use crate::{
    chunk::{Chapter, Chunk, ChunkError, ChunkOptions, Strategy, chunk, count_words},
    quotes::straighten_quotes,
    record::{
        AtMost, AttributeKind, AttributeType, Caller, ContentChange, Expected, MemoryRecords,
        ModelType, NewRecord, Put, Record, RecordChange, RecordError, RecordEvent, RecordFilter,
        RecordLimits, RecordPage, RecordPatch, RecordStore, RecordStoreError, Records,
        ResourceView, administrators, everyone,
    },
    search::{Fusion, Hit, Matching, SearchRequest, highlights},
    store::{
        ChunkId, ChunkStore, Document, Filter, MemoryStore, NewChunk, StoreError, StoredChunk,
    },
};
pub use crate::{
    chunk::{chunk_extracted, chunk_extracted_until},
    cite::{
        CitationBlock, CitationLimits, CitationResolver, Citations, CiteError, CiteRequest, Cited,
        CitedMessage, Offsets, Passage, ReferenceProblem,
    },
    pipeline::{Pipeline, PipelineError},
};
#[cfg(feature = "postgres")]
pub use crate::{postgres::PostgresOptions, record::PostgresRecords, store::PostgresStore};
#[cfg(feature = "conformance")]
pub use crate::{record::conformance as record_conformance, store::conformance};
#[cfg(feature = "libsql")]
pub use crate::{
    record::{LibsqlRecords, LibsqlRecordsOptions},
    store::{LibsqlOptions, LibsqlStore},
};
#[cfg(feature = "builtin-model")]
pub use marquetry_embed::builtin::StaticModel;
#[cfg(feature = "remote")]
pub use marquetry_embed::remote::{
    ApiKey, EmbeddingApi, EndpointFailure, RemoteEmbedder, RemoteOptions,
};
#[cfg(feature = "transformer")]
pub use marquetry_embed::transformer::{Transformer, TransformerOptions};
pub use marquetry_embed::{EmbedError, Embedder, EmbeddingModel, Prefixed};
pub use marquetry_extract::{
    ExtractError, Extracted, Extractor, Heading, Hint, Limits as ExtractLimits, Note, Page,
    Problem, Registry, Source, extract,
};
pub use marquetry_extract::{Stop, StopOnDrop, Stopped};
