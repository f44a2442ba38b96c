//! Retrieval in stages that stand alone: a text is cut into chunks, chunks become vectors.
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
//! What is here so far: cutting ([`chunk`]) and the built-in model ([`StaticModel`], feature `builtin-model`).
//! Extraction, stores, search and citations are still to come.

mod chunk;
mod embed;
mod quotes;

#[cfg(feature = "builtin-model")]
pub use crate::embed::StaticModel;
pub use crate::{
    chunk::{Chapter, Chunk, ChunkError, ChunkOptions, Strategy, chunk, count_words},
    quotes::straighten_quotes,
};
