#![doc = include_str!("../README.md")]

#[cfg(any(feature = "builtin-model", feature = "transformer"))]
mod blocking;
#[cfg(feature = "builtin-model")]
pub mod builtin;
mod error;
mod model;
mod prefixed;
#[cfg(feature = "remote")]
pub mod remote;
#[cfg(feature = "transformer")]
pub mod transformer;
#[cfg(any(feature = "remote", feature = "transformer"))]
mod vector;

use async_trait::async_trait;

pub use crate::{error::EmbedError, model::EmbeddingModel, prefixed::Prefixed};

/// A model that computes vectors of texts, in this process or remotely.
///
/// Vectors of one model can be compared with each other and with no others, which is why
/// the [`EmbeddingModel`] is stored beside them.
///
/// Models of this process compute on Tokio's blocking threads, at most as many at once as there are
/// processors; texts that take less than a millisecond are embedded at once. Both need a Tokio
/// runtime.
#[async_trait]
pub trait Embedder: Send + Sync + 'static {
    /// Returns the name and the dimension of the model, which identify its vectors.
    fn model(&self) -> &EmbeddingModel;

    /// Returns one vector for each text, in their order, each of the model's dimension.
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError>;

    /// Returns the vector of a question, which is close to the vectors of texts that answer it.
    /// Some models need a prefix for questions and texts: see [`Prefixed`].
    async fn embed_query(&self, query: &str) -> Result<Vec<f32>, EmbedError> {
        let vectors = self.embed(&[query.to_owned()]).await?;
        let got = vectors.len();
        vectors.into_iter().next().ok_or_else(|| EmbedError::Count {
            model: self.model().identity.clone(),
            wanted: 1,
            got,
        })
    }

    /// Returns the share of a question that the model knows, from 0 to 1; 1 by default. A search
    /// weighs the question's vector by it. A model for another language knows few of the question's
    /// words.
    fn coverage(&self, _question: &str) -> f32 {
        1.0
    }

    /// Returns how many tokens a text has for this model, or an estimate.
    fn count_tokens(&self, text: &str) -> usize;
}
