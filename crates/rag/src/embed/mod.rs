//! Turning text into vectors.

mod error;
#[cfg(feature = "remote")]
mod remote;
#[cfg(feature = "builtin-model")]
mod static_model;
#[cfg(feature = "transformer")]
mod transformer;
#[cfg(any(feature = "remote", feature = "transformer"))]
mod vector;
#[cfg(feature = "builtin-model")]
mod wordpiece;

use async_trait::async_trait;

pub use error::EmbedError;
#[cfg(feature = "remote")]
pub use error::EndpointFailure;
#[cfg(feature = "remote")]
pub use remote::{ApiKey, EmbeddingApi, RemoteEmbedder, RemoteOptions};
#[cfg(feature = "builtin-model")]
pub use static_model::StaticModel;
#[cfg(feature = "transformer")]
pub use transformer::{Transformer, TransformerOptions};

use crate::store::EmbeddingModel;

/// A model that makes vectors of texts, in this process or elsewhere.
///
/// Vectors of one model can be compared with each other and with no others, so that a [`ChunkStore`](crate::ChunkStore)
/// knows the model that it was filled by.
#[async_trait]
pub trait Embedder: Send + Sync + 'static {
    /// Name and dimension, by which its vectors are told from those of other models.
    fn model(&self) -> &EmbeddingModel;

    /// One vector for each text, in their order, each of the model's dimension.
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError>;

    /// How many tokens a text has for this model, or nearly, for
    /// [`ChunkOptions::max_tokens`](crate::ChunkOptions::max_tokens).
    fn count_tokens(&self, text: &str) -> usize;
}
