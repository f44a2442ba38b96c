//! Errors of embedding.

#[cfg(feature = "remote")]
use marquetry_endpoint::EndpointFailure;

/// Why texts could not be embedded. No variant holds a key.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum EmbedError {
    /// The number of vectors differs from the number of texts.
    #[error("the model {model:?} returned {got} vectors for {wanted} texts")]
    Count {
        /// The model's identity.
        model: String,
        /// Number of texts.
        wanted: usize,
        /// Number of vectors.
        got: usize,
    },
    /// A vector has another dimension than the model.
    #[error(
        "the model {model:?} returned a vector of {got} numbers instead of {wanted}: \
         if the model was replaced, index the documents again"
    )]
    Dimension {
        /// The model's identity.
        model: String,
        /// The model's dimension.
        wanted: usize,
        /// The vector's dimension.
        got: usize,
    },
    /// A vector holds an infinity or NaN.
    #[error("the model {model:?} returned a vector with a value that is not finite")]
    NotFinite {
        /// The model's identity.
        model: String,
    },
    /// An option is missing or invalid.
    #[error("the embedding model is not configured: {0}")]
    Config(String),
    /// A model of this process failed, for example for lack of memory.
    #[cfg(any(feature = "builtin-model", feature = "transformer"))]
    #[error("the model {model:?} failed: {reason}")]
    Compute {
        /// The model's identity.
        model: String,
        /// The reason.
        reason: String,
    },
    /// The call of an endpoint failed.
    #[cfg(feature = "remote")]
    #[error("the embedding endpoint {endpoint} {failure}")]
    Endpoint {
        /// The URL.
        endpoint: String,
        /// The reason.
        failure: EndpointFailure,
    },
}
