//! A scripted model for tests.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use async_trait::async_trait;

use crate::{ChatAnswer, ChatError, ChatModel, ChatRequest};

/// A model that returns the answers of a script in order, and records its requests.
///
/// ```
/// use marquetry_llm::{ChatAnswer, ChatModel, ChatRequest, Message, ScriptedModel};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let model = ScriptedModel::new([ChatAnswer::text("Four.")]);
/// let answer = model.chat(&ChatRequest::new([Message::user("Two and two?")])).await?;
/// assert_eq!(answer.text, "Four.");
/// assert_eq!(model.requests()[0].messages[0].text(), "Two and two?");
/// # Ok::<(), marquetry_llm::ChatError>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct ScriptedModel(Mutex<Script>);

#[derive(Debug)]
struct Script {
    answers: VecDeque<Result<ChatAnswer, ChatError>>,
    given: usize,
    requests: Vec<ChatRequest>,
}

impl ScriptedModel {
    /// Returns a model with these answers.
    pub fn new(answers: impl IntoIterator<Item = ChatAnswer>) -> Self {
        Self::with_results(answers.into_iter().map(Ok))
    }

    /// Returns a model with these answers and errors.
    pub fn with_results(results: impl IntoIterator<Item = Result<ChatAnswer, ChatError>>) -> Self {
        let answers = results.into_iter().collect();
        Self(Mutex::new(Script { answers, given: 0, requests: Vec::new() }))
    }

    /// Returns the requests so far.
    pub fn requests(&self) -> Vec<ChatRequest> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).requests.clone()
    }
}

#[async_trait]
impl ChatModel for ScriptedModel {
    fn name(&self) -> &'static str {
        "scripted"
    }

    async fn chat(&self, request: &ChatRequest) -> Result<ChatAnswer, ChatError> {
        let mut script = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        script.requests.push(request.clone());
        let answer = script.answers.pop_front().ok_or(ChatError::ScriptEnded(script.given))?;
        script.given += 1;
        answer
    }
}
