//! Finding chunks: by vector, by words, and by both.

mod bytes;
mod fuse;
mod highlight;
mod index;
mod language;
mod postings;
mod request;
mod top;
mod vectors;
mod words;

pub use self::{
    highlight::highlights,
    request::{Fusion, Hit, Matching, SearchRequest},
};

#[cfg(any(feature = "libsql", feature = "postgres"))]
pub(crate) use self::index::RowRef;
#[cfg(feature = "libsql")]
pub(crate) use self::postings::Postings;
#[cfg(any(feature = "libsql", feature = "postgres"))]
pub(crate) use self::vectors::unpacked;
pub(crate) use self::{
    fuse::Found,
    index::{Entry, Index, Query, Row},
    postings::{Term, Word},
    vectors::Packed,
    words::{Analyzer, Asked},
};
#[cfg(feature = "postgres")]
pub(crate) use self::{
    fuse::{Collector, Ranked, Ranking, fuse},
    postings::{average, bm25, weight},
    vectors::{Matrix, Probe, unit},
};
