//! Sources of the models of cases.

use std::sync::Arc;

use marquetry_llm::{ChatAnswer, ChatError, ChatModel, ChatRequest, EndpointFailure, Provider};

use crate::ModelSettings;

/// The role of a model in a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// It works on the prompt.
    Agent,
    /// It judges the work.
    Judge,
}

/// Asks a model, whole or as a stream.
pub(crate) async fn ask(
    model: &dyn ChatModel,
    request: &ChatRequest,
    is_streamed: bool,
) -> Result<ChatAnswer, ChatError> {
    if is_streamed { model.stream(request, &mut |_| {}).await } else { model.chat(request).await }
}

/// Returns what to change in a case after this error, to append to the error: `member` is that of
/// the model.
pub(crate) fn advice(error: &ChatError, member: &str) -> String {
    let ChatError::Provider(failure) = error else { return String::new() };
    match failure {
        // The time limit of a stream holds between two of its pieces.
        EndpointFailure::Timeout(_) => {
            format!("; set {member}.stream to true, or a smaller {member}.maxTokens")
        }
        EndpointFailure::TooLarge(_) => format!("; set a smaller {member}.maxTokens"),
        EndpointFailure::Unauthorized { .. } => format!("; see {member}.apiKey"),
        EndpointFailure::Redirected { .. }
        | EndpointFailure::Unreachable(_)
        | EndpointFailure::Malformed(_) => format!("; see {member}.baseUrl"),
        EndpointFailure::Refused { .. } => format!("; see {member}.model and {member}.baseUrl"),
        _ => String::new(),
    }
}

/// Returns the provider that these settings name. The error is a sentence about it.
pub(crate) fn provider_of(settings: &ModelSettings) -> Result<Provider, String> {
    Ok(match settings.provider.as_str() {
        "openai" => Provider::OpenAi,
        "anthropic" => Provider::Anthropic,
        "ollama" => Provider::Ollama,
        "custom" => Provider::Custom,
        other => {
            return Err(format!(
                "unknown provider {other:?}: use openai, anthropic, ollama, or custom with a baseUrl"
            ));
        }
    })
}

/// Makes the models of cases.
pub trait Models: Send + Sync {
    /// Returns the model of these settings. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// Returns an error ([`ChatError::Config`]) if the settings do not name a model that can be
    /// called.
    fn model(&self, role: Role, settings: &ModelSettings) -> Result<Arc<dyn ChatModel>, ChatError>;
}

/// Two fixed models, used whatever model a case names: for tests, and for programs with their own
/// models.
#[derive(Clone)]
pub struct FixedModels {
    /// The model that works.
    pub agent: Arc<dyn ChatModel>,
    /// The model that judges.
    pub judge: Arc<dyn ChatModel>,
}

impl FixedModels {
    /// Returns these models.
    pub fn new(agent: impl ChatModel + 'static, judge: impl ChatModel + 'static) -> Self {
        Self { agent: Arc::new(agent), judge: Arc::new(judge) }
    }
}

impl Models for FixedModels {
    fn model(&self, role: Role, _: &ModelSettings) -> Result<Arc<dyn ChatModel>, ChatError> {
        Ok(match role {
            Role::Agent => Arc::clone(&self.agent),
            Role::Judge => Arc::clone(&self.judge),
        })
    }
}
