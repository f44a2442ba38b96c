//! The name and dimension of a model.

/// Which model made a vector; vectors of two models are never compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddingModel {
    /// The model's name and version.
    pub identity: String,
    /// How many numbers a vector has.
    pub dimension: usize,
}

impl EmbeddingModel {
    /// A model by name and dimension.
    pub fn new(identity: impl Into<String>, dimension: usize) -> Self {
        Self { identity: identity.into(), dimension }
    }
}
