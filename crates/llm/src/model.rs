//! What every model can do.

use async_trait::async_trait;

use crate::{ChatAnswer, ChatError, ChatRequest};

/// Something that answers conversations.
#[async_trait]
pub trait ChatModel: Send + Sync {
    /// Its name, for people and for what is recorded.
    fn name(&self) -> &str;

    /// Answers.
    ///
    /// # Errors
    ///
    /// See [`ChatError`].
    async fn chat(&self, request: &ChatRequest) -> Result<ChatAnswer, ChatError>;

    /// Answers, and hands over the text as it comes. What was handed over is the answer's text; where the answer breaks
    /// off, part of it was handed over before the error.
    ///
    /// # Errors
    ///
    /// See [`ChatError`].
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
