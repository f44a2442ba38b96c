//! Finding chunks: by vector, by words, and by both.

mod index;
mod postings;
mod request;
mod top;
mod vectors;
mod words;

pub use self::request::{Fusion, Hit, Matching, SearchRequest};

#[cfg(feature = "libsql")]
pub(crate) use self::index::RowRef;
pub(crate) use self::{
    index::{Entry, Found, Index, Query, Row},
    postings::Term,
    vectors::Packed,
    words::Analyzer,
};
