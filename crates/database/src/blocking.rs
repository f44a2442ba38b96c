//! Blocking work.

use crate::DatabaseError;

/// Runs blocking work on Tokio's blocking threads. A panic continues in the caller.
///
/// # Errors
///
/// Returns an error if the work fails, or [`DatabaseError::Engine`] if the runtime is shutting
/// down.
pub async fn blocking<T: Send + 'static, E: From<DatabaseError> + Send + 'static>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, E> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(stopped) => Err(DatabaseError::engine(stopped).into()),
        },
    }
}
