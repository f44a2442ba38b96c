//! What goes wrong while vectors are made.

/// Why a model gave no vectors.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbedError {
    /// The model gave more or fewer vectors than it was given texts.
    #[error("the model {model:?} gave {got} vectors for {wanted} texts")]
    Count {
        /// Which model.
        model: String,
        /// How many texts there were.
        wanted: usize,
        /// How many vectors came.
        got: usize,
    },
    /// The model gave vectors of a length that is not its own.
    #[error("the model {model:?} gave a vector of {got} numbers, and should give {wanted}")]
    Dimension {
        /// Which model.
        model: String,
        /// How many numbers a vector should have.
        wanted: usize,
        /// How many it has.
        got: usize,
    },
}
