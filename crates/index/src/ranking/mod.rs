//! Ranks chunks by vectors, by words, and by both.

mod bytes;
mod fuse;
mod highlight;
mod index;
mod language;
mod page;
mod plain;
mod postings;
mod query;
mod terms;
mod top;
mod vectors;
mod words;

#[cfg(any(feature = "libsql", feature = "postgres"))]
pub(crate) use self::index::RowRef;
#[cfg(feature = "libsql")]
pub(crate) use self::postings::Postings;
#[cfg(any(feature = "libsql", feature = "postgres"))]
pub(crate) use self::vectors::unpacked;
pub(crate) use self::{
    fuse::FoundRow,
    index::{Entry, Index, Row},
    language::Language,
    query::Query,
    terms::{Term, Word},
    vectors::PackedVector,
    words::{Analyzer, ChunkTerms},
};
#[cfg(feature = "postgres")]
pub(crate) use self::{
    fuse::{Collector, RankedRows, Ranking, fuse},
    postings::{average, bm25, weight},
    terms::QuestionWord,
    vectors::{Matrix, Probe, unit},
};
pub use self::{
    highlight::{densest, highlights},
    language::detect_language,
};
