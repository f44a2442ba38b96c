//! Work on vectors where it holds nobody up.

#[cfg(feature = "builtin-model")]
use std::{num::NonZeroUsize, sync::LazyLock, thread};

#[cfg(feature = "builtin-model")]
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::EmbedError;

/// Does what takes long where that holds nobody up; a panic of what computes is an error.
pub(crate) async fn blocking<T: Send + 'static>(
    model: &str,
    work: impl FnOnce() -> Result<T, EmbedError> + Send + 'static,
) -> Result<T, EmbedError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
        Err(EmbedError::Compute { model: model.to_owned(), reason: error.to_string() })
    })
}

/// Waits until one of the processors is free for work on vectors, of which one thread has one: as many at once as there
/// are processors, in the order in which they came. What is taken is given back when it is dropped.
#[cfg(feature = "builtin-model")]
pub(crate) async fn turn() -> SemaphorePermit<'static> {
    static TURNS: LazyLock<Semaphore> = LazyLock::new(|| {
        Semaphore::new(thread::available_parallelism().map_or(1, NonZeroUsize::get))
    });
    TURNS.acquire().await.expect("nobody closes it")
}
