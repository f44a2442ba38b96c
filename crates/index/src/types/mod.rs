//! Plain data: documents, chunks, filters, requests, hits.

mod chapter;
mod check;
mod context;
mod document;
mod error;
mod filter;
mod page_start;
mod request;

#[cfg(feature = "postgres")]
pub(crate) use self::filter::reader_labels;
pub use self::{
    chapter::Chapter,
    context::Context,
    document::{ChunkId, ChunkIdError, Document, NewChunk, StoredChunk},
    error::StoreError,
    filter::Filter,
    page_start::PageStart,
    request::{Fusion, Hit, Matching, SearchRequest},
};
pub(crate) use self::{
    check::{check_documents, check_request},
    filter::{Kind, Label, LabelFilter, label, labels},
};
