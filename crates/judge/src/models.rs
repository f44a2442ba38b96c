//! Sources of the models of cases.

use std::sync::Arc;

use marquetry_llm::{
    ApiKey, ChatAnswer, ChatError, ChatModel, ChatRequest, EndpointFailure, ModelConfig, Provider,
    RemoteModel,
};

use crate::{ModelSettings, TrialError, case::Price};

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
    match is_streamed {
        true => model.stream(request, &mut |_| {}).await,
        false => model.chat(request).await,
    }
}

/// Returns what to change in a case after this error, to append to the error: `member` is that of the model.
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

/// Checks the settings of a model by themselves. `member` is the member that has them.
pub(crate) fn check_settings(
    member: &'static str,
    settings: &ModelSettings,
) -> Result<(), TrialError> {
    if !settings.temperature.is_none_or(|value| (0.0..=2.0).contains(&value)) {
        return Err(TrialError::case(member, "has a temperature that is not between 0 and 2"));
    }
    if settings.max_tokens == Some(0) {
        return Err(TrialError::case(member, "has maxTokens 0: use at least 1"));
    }
    if settings.model.trim().is_empty() {
        return Err(TrialError::case(member, "has no model: name it"));
    }
    if let Some(Price { input_per_million, output_per_million }) = settings.price {
        for price in [input_per_million, output_per_million] {
            if price < 0.0 {
                return Err(TrialError::case(member, "has a price below 0"));
            }
            // JSON has no such numbers, so settings with them could not be read back.
            if !price.is_finite() {
                return Err(TrialError::case(member, "has a price that is not finite"));
            }
        }
    }
    if let (Some(votes), Some(most)) = (settings.votes, settings.max_votes)
        && votes > most
    {
        let problem = format!("has votes {votes}, more than its maxVotes {most}");
        return Err(TrialError::case(member, problem));
    }
    let votes = settings.votes.into_iter().chain(settings.max_votes);
    if votes.into_iter().any(|votes| !(1..=crate::judge::MAX_VOTES).contains(&votes)) {
        let problem = format!("has votes or maxVotes outside of 1 to {}", crate::judge::MAX_VOTES);
        return Err(TrialError::case(member, problem));
    }
    Ok(())
}

/// Makes the models of cases.
pub trait Models: Send + Sync {
    /// Returns the model of these settings. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`ChatError::Config`] if the settings name no model that can be asked.
    fn model(&self, role: Role, settings: &ModelSettings) -> Result<Arc<dyn ChatModel>, ChatError>;
}

/// Two fixed models, used whatever model a case names: for tests, and for programs with their own models.
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
    /// Models that are called with the key and the URL of their settings.
    pub fn new() -> Self {
        Self::with_access(|_, settings| {
            Ok(ModelAccess {
                base_url: settings.base_url.clone(),
                api_key: settings.api_key.clone().map(ApiKey::new),
            })
        })
    }

    /// Models whose key and URL `access` decides. It must not send a key of this machine to a URL from a case, because
    /// the author of the case would receive the key.
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
