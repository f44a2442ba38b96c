//! Turning text into vectors.

mod error;
mod prefixed;
#[cfg(feature = "remote")]
mod remote;
#[cfg(feature = "builtin-model")]
mod static_model;
#[cfg(feature = "transformer")]
mod transformer;
#[cfg(any(feature = "builtin-model", feature = "transformer"))]
mod turns;
#[cfg(any(feature = "remote", feature = "transformer"))]
mod vector;
#[cfg(feature = "builtin-model")]
mod wordpiece;

use async_trait::async_trait;

pub use error::EmbedError;
#[cfg(feature = "remote")]
pub use error::EndpointFailure;
pub use prefixed::Prefixed;
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
///
/// What computes here does so on threads where that holds nobody up, as many as there are processors, unless it is done
/// in less than a millisecond; for that, a Tokio runtime is needed.
#[async_trait]
pub trait Embedder: Send + Sync + 'static {
    /// Name and dimension, by which its vectors are told from those of other models.
    fn model(&self) -> &EmbeddingModel;

    /// One vector for each text, in their order, each of the model's dimension.
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError>;

    /// The vector of a question, which is near to those of texts that answer it. Some models want to be told which is
    /// which: see [`Prefixed`].
    async fn embed_query(&self, query: &str) -> Result<Vec<f32>, EmbedError> {
        let vectors = self.embed(&[query.to_owned()]).await?;
        let got = vectors.len();
        vectors.into_iter().next().ok_or_else(|| EmbedError::Count {
            model: self.model().identity.clone(),
            wanted: 1,
            got,
        })
    }

    /// How much of a question the model knows, from 0 to 1: its vector counts as much in a search. A model of another
    /// language than the question's knows few of its words. 1 for models that do not say.
    fn coverage(&self, _question: &str) -> f32 {
        1.0
    }

    /// How many tokens a text has for this model, or nearly, for
    /// [`ChunkOptions::max_tokens`](crate::ChunkOptions::max_tokens).
    fn count_tokens(&self, text: &str) -> usize;
}
