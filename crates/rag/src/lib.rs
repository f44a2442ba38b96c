#![doc = include_str!("../README.md")]

pub mod chunk;
pub mod cite;
#[cfg(feature = "files")]
pub mod files;
#[cfg(all(
    feature = "builtin-model",
    feature = "files",
    any(feature = "libsql", feature = "postgres")
))]
mod library;
mod pipeline;
mod record_document;

/// Computes vectors of texts: the crate `marquetry-embed`.
pub use marquetry_embed as embedding;
/// Extracts text from documents: the crate `marquetry-extract`.
pub use marquetry_extract as extraction;
/// Stores and searches chunks: the crate `marquetry-index`.
pub use marquetry_index as index;
/// Stores records with owners and permissions: the crate `marquetry-records`.
pub use marquetry_records as records;

pub use marquetry_extract::{Extracted, extract};
pub use marquetry_index::{Document, Filter, Hit, SearchRequest, highlights};
pub use marquetry_records::{Caller, Record, Records};

#[cfg(feature = "files")]
pub use crate::files::{FileOptions, IndexReport};
#[cfg(all(
    feature = "builtin-model",
    feature = "files",
    any(feature = "libsql", feature = "postgres")
))]
pub use crate::library::{Library, LibraryBuilder, LibraryError};
pub use crate::{
    chunk::{Chunk, ChunkOptions, chunk, straighten_quotes},
    cite::{CitationResolver, Citations, CiteRequest},
    pipeline::{Pipeline, PipelineError},
    record_document::{is_current, record_document},
};

// The names below are also in the public modules. The root keeps them for code that does not use
// the modules yet.

#[cfg(feature = "builtin-model")]
#[doc(hidden)]
pub use marquetry_embed::builtin::StaticModel;
#[cfg(feature = "remote")]
#[doc(hidden)]
pub use marquetry_embed::remote::{
    ApiKey, EmbeddingApi, EndpointFailure, RemoteEmbedder, RemoteOptions,
};
#[cfg(feature = "transformer")]
#[doc(hidden)]
pub use marquetry_embed::transformer::{Transformer, TransformerOptions};
#[doc(hidden)]
pub use marquetry_embed::{EmbedError, Embedder, EmbeddingModel, Prefixed};
#[doc(hidden)]
pub use marquetry_extract::{
    ExtractError, Extractor, Heading, Hint, Limits as ExtractLimits, Note, Page, Problem, Registry,
    Source, Stop, StopOnDrop, Stopped,
};
#[cfg(feature = "conformance")]
#[doc(hidden)]
pub use marquetry_index::conformance;
#[doc(hidden)]
pub use marquetry_index::{
    Chapter, ChunkId, ChunkStore, Context, DatabaseError, Fusion, Matching, MemoryStore, NewChunk,
    PageStart, StoreError, StoredChunk,
};
#[cfg(feature = "libsql")]
#[doc(hidden)]
pub use marquetry_index::{LibsqlOptions, LibsqlStore};
#[cfg(feature = "postgres")]
#[doc(hidden)]
pub use marquetry_index::{PostgresOptions, PostgresStore};
#[cfg(feature = "conformance")]
#[doc(hidden)]
pub use marquetry_records::conformance as record_conformance;
#[doc(hidden)]
pub use marquetry_records::{
    AttributeKind, AttributeType, ContentChange, CountLimit, Expected, MemoryRecords, ModelType,
    NewRecord, Put, RecordChange, RecordError, RecordEvent, RecordFilter, RecordLimits, RecordPage,
    RecordPatch, RecordStore, RecordStoreError, ResourceView, administrators, everyone,
};
#[cfg(feature = "libsql")]
#[doc(hidden)]
pub use marquetry_records::{LibsqlRecords, LibsqlRecordsOptions};
#[cfg(feature = "postgres")]
#[doc(hidden)]
pub use marquetry_records::{PostgresRecords, PostgresRecordsOptions};

#[cfg(feature = "files")]
#[doc(hidden)]
pub use crate::files::{
    FILE_MEDIA_TYPE, FileEvent, FileOutcome, FileProblem, IncompleteFile, IndexError, Indexer,
    Refused, file_record_uri, file_uri,
};
#[doc(hidden)]
pub use crate::{
    chunk::{ChunkError, Strategy, chunk_extracted, chunk_extracted_until, count_words},
    cite::{
        CitationBlock, CitationLimits, CiteError, Cited, CitedMessage, Offsets, Passage,
        ReferenceProblem,
    },
};
