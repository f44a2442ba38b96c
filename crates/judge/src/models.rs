//! Sources of the models of cases.

use std::sync::Arc;

use marquetry_llm::{
    ApiKey, ChatAnswer, ChatError, ChatModel, ChatRequest, EndpointFailure, ModelConfig, Provider,
    RemoteModel,
};

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

/// The address and the key with which a provider is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelAccess {
    /// Base URL; the provider's usual one if absent.
    pub base_url: Option<String>,
    /// The key.
    pub api_key: Option<ApiKey>,
}

/// Models of providers, over HTTP.
#[derive(Clone)]
pub struct RemoteModels {
    access: Arc<Access>,
    config: Arc<Adjust>,
}

type Access = dyn Fn(Provider, &ModelSettings) -> Result<ModelAccess, ChatError> + Send + Sync;
type Adjust = dyn Fn(&mut ModelConfig) + Send + Sync;

impl RemoteModels {
    /// Returns models that are called with the key and the URL of their settings.
    pub fn new() -> Self {
        Self::with_access(|_, settings| {
            Ok(ModelAccess {
                base_url: settings.base_url.clone(),
                api_key: settings.api_key.clone().map(ApiKey::new),
            })
        })
    }

    /// Returns models whose key and URL `access` decides. It must not send a key of this machine to
    /// a URL from a case, because the author of the case would receive the key.
    pub fn with_access(
        access: impl Fn(Provider, &ModelSettings) -> Result<ModelAccess, ChatError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self { access: Arc::new(access), config: Arc::new(|_| {}) }
    }

    /// Changes limits of each model: timeouts, retries, bytes.
    #[must_use]
    pub fn with_limits(self, change: impl Fn(&mut ModelConfig) + Send + Sync + 'static) -> Self {
        Self { config: Arc::new(change), ..self }
    }
}

impl Default for RemoteModels {
    fn default() -> Self {
        Self::new()
    }
}

impl Models for RemoteModels {
    fn model(&self, _: Role, settings: &ModelSettings) -> Result<Arc<dyn ChatModel>, ChatError> {
        let provider = provider_of(settings).map_err(ChatError::Config)?;
        let access = (self.access)(provider, settings)?;
        let name = &settings.provider;
        let variable = name.to_ascii_uppercase();
        if provider == Provider::Custom && access.base_url.is_none() {
            return Err(ChatError::Config(format!(
                "the provider {name} needs a base URL: set baseUrl in agentConfig or judgeConfig, or {variable}_BASE_URL in the environment"
            )));
        }
        if provider.needs_key() && access.api_key.is_none() && settings.base_url.is_some() {
            return Err(ChatError::Config(format!(
                "the provider {name} requires a key: set apiKey beside baseUrl; {variable}_API_KEY goes only to the \
                 provider's own URL and to {variable}_BASE_URL"
            )));
        }
        let mut config = ModelConfig::new(provider, &settings.model);
        config.base_url = access.base_url;
        config.api_key = access.api_key;
        (self.config)(&mut config);
        let model = RemoteModel::new(config).map_err(|error| match error {
            ChatError::Config(problem) => ChatError::Config(format!(
                "{problem}; see apiKey and baseUrl of agentConfig or judgeConfig, and {variable}_API_KEY and \
                 {variable}_BASE_URL in the environment"
            )),
            error => error,
        })?;
        Ok(Arc::new(model))
    }
}
