//! Hears an answer while the model writes it.

use async_trait::async_trait;
use marquetry_protocol::server::RequestContext;

/// Hears an answer while the model writes it.
#[async_trait]
pub trait AnswerListener: Send + Sync {
    /// Takes the text that was added. `bytes` is the length of the answer so far.
    async fn heard(&self, more: &str, bytes: usize);
}

/// Sends the answer as notifications of progress.
pub(super) struct Progress<'a>(pub(super) &'a RequestContext);

#[async_trait]
impl AnswerListener for Progress<'_> {
    async fn heard(&self, more: &str, bytes: usize) {
        self.0.progress(bytes as f64, None, Some(more)).await;
    }
}
