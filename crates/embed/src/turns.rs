//! Computes vectors on blocking threads.

#[cfg(feature = "builtin-model")]
use std::{num::NonZeroUsize, sync::LazyLock, thread};

#[cfg(feature = "builtin-model")]
use tokio::sync::{Semaphore, SemaphorePermit};

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

/// Waits for a permit to compute vectors. There are as many permits as processors, given in order
/// of arrival.
#[cfg(feature = "builtin-model")]
pub(crate) async fn turn() -> SemaphorePermit<'static> {
    static TURNS: LazyLock<Semaphore> = LazyLock::new(|| {
        Semaphore::new(thread::available_parallelism().map_or(1, NonZeroUsize::get))
    });
    TURNS.acquire().await.expect("the semaphore is never closed")
}
