//! Blocking work, such as the computation of vectors.

use crate::EmbedError;

/// Runs a computation on Tokio's blocking threads. A panic becomes an error.
pub(crate) async fn blocking<T: Send + 'static>(
    model: &str,
    work: impl FnOnce() -> Result<T, EmbedError> + Send + 'static,
) -> Result<T, EmbedError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
        Err(EmbedError::Compute { model: model.to_owned(), reason: error.to_string() })
    })
}
