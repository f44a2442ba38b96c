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
//! What is here so far: documents into text (`extract` and `chunk_extracted`, feature `extract`), cutting ([`chunk`]) and
//! the built-in model (`StaticModel`, feature `builtin-model`). Stores, search and citations are still to come.
//!
//! Documents are untrusted: what a reader of a document does not see is left out of its text, no document overflows the
//! stack or expands without bound, and every limit is one of `ExtractLimits`.

mod chunk;
mod embed;
#[cfg(feature = "extract")]
mod extract;
mod quotes;

#[cfg(feature = "builtin-model")]
pub use crate::embed::StaticModel;
#[cfg(feature = "extract")]
pub use crate::{
    chunk::chunk_extracted,
    extract::{
        ExtractError, ExtractLimits, Extracted, Extractor, Heading, Hint, Note, Page, Problem,
        Registry, Source, extract,
    },
};
pub use crate::{
    chunk::{Chapter, Chunk, ChunkError, ChunkOptions, Strategy, chunk, count_words},
    quotes::straighten_quotes,
};
