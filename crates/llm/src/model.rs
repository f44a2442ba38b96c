//! The trait of chat models.

use async_trait::async_trait;

use crate::{ChatAnswer, ChatError, ChatRequest};

/// A chat model.
#[async_trait]
pub trait ChatModel: Send + Sync {
    /// Returns its name, for display and logs.
    fn name(&self) -> &str;

    /// Answers a request.
    ///
    /// # Errors
    ///
    /// Returns an error if the model gives no answer; see [`ChatError`].
    async fn chat(&self, request: &ChatRequest) -> Result<ChatAnswer, ChatError>;

    /// Answers, and passes the text to `on_text` as it arrives. The pieces together are the text of
    /// the answer; if the answer breaks off, some pieces were passed before the error.
    ///
    /// # Errors
    ///
    /// Returns an error if the model gives no answer; see [`ChatError`].
    async fn stream(
        &self,
        request: &ChatRequest,
        on_text: &mut (dyn for<'t> FnMut(&'t str) + Send),
    ) -> Result<ChatAnswer, ChatError> {
        let answer = self.chat(request).await?;
        if !answer.text.is_empty() {
            on_text(&answer.text);
        }
        Ok(answer)
    }
}
