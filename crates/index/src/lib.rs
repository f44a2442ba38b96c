#![doc = include_str!("../README.md")]

mod ranking;
mod store;
mod types;

pub use marquetry_database::DatabaseError;
pub use marquetry_embed::EmbeddingModel;

#[cfg(feature = "conformance")]
pub use crate::store::conformance;
#[cfg(feature = "libsql")]
pub use crate::store::{LibsqlOptions, LibsqlStore};
#[cfg(feature = "postgres")]
pub use crate::store::{PostgresOptions, PostgresStore};
pub use crate::{
    ranking::{densest, detect_language, highlights},
    store::{ChunkStore, MemoryStore},
    types::{
        Chapter, ChunkId, ChunkIdError, Context, Document, Filter, Fusion, Hit, Matching, NewChunk,
        PageStart, SearchRequest, StoreError, StoredChunk,
    },
};
