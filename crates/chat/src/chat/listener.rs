//! Receives an answer while the model writes it.

use async_trait::async_trait;
use marquetry_protocol::server::RequestContext;

/// Receives an answer while the model writes it.
#[async_trait]
pub trait AnswerListener: Send + Sync {
    /// Receives the URI of the chat once the user's message is stored there, before the model is
    /// called. An error after this leaves the message in the chat, without an answer. Does nothing
    /// by default.
    async fn stored(&self, chat_request_uri: &str) {
        let _ = chat_request_uri;
    }

    /// Receives the text that was added. `bytes` is the length of the answer so far.
    async fn answer_extended(&self, more: &str, bytes: usize);

    /// Called once the answer is stored, before the model writes a keyframe. The chat has the
    /// answer even if the call ends early after this. Does nothing by default.
    async fn answer_stored(&self) {}
}

/// Sends the answer as notifications of progress.
pub(super) struct Progress<'a>(pub(super) &'a RequestContext);

#[async_trait]
impl AnswerListener for Progress<'_> {
    async fn answer_extended(&self, more: &str, bytes: usize) {
        self.0.progress(bytes as f64, None, Some(more)).await;
    }
}
