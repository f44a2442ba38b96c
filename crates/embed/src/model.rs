//! The name and dimension of a model.

/// The identity of a model. Vectors of different models must not be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddingModel {
    /// The model's name and version.
    pub identity: String,
    /// The dimension of its vectors.
    pub dimension: usize,
}

impl EmbeddingModel {
    /// Returns a model by name and dimension.
    pub fn new(identity: impl Into<String>, dimension: usize) -> Self {
        Self { identity: identity.into(), dimension }
    }
}
