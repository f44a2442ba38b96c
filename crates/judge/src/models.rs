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

/// A function that reads a variable of the environment.
type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Changes the limits of a model.
type Adjust = dyn Fn(&mut ModelConfig) + Send + Sync;

/// Models of providers, over HTTP.
///
/// A key of the environment goes only to a URL that the environment or the provider chose. A case
/// that names another `baseUrl` must bring its own key; otherwise its author could redirect the key
/// to themselves.
#[derive(Clone)]
pub struct RemoteModels {
    openai: Endpoint,
    anthropic: Endpoint,
    ollama: Endpoint,
    custom: Endpoint,
    adjust: Arc<Adjust>,
}

/// The key and the base URL with which a provider is called.
#[derive(Clone, Debug, Default)]
struct Endpoint {
    key: Option<ApiKey>,
    /// The provider's usual URL if absent.
    url: Option<String>,
}

impl RemoteModels {
    /// Variables that [`Self::from_environment`] reads: key and base URL of each provider.
    pub const VARIABLES: [(&'static str, &'static str, &'static str); 4] = [
        ("openai", "OPENAI_API_KEY", "OPENAI_BASE_URL"),
        ("anthropic", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
        ("ollama", "OLLAMA_API_KEY", "OLLAMA_BASE_URL"),
        ("custom", "CUSTOM_API_KEY", "CUSTOM_BASE_URL"),
    ];

    /// Returns models that are called with the key and the URL of their settings.
    pub fn new() -> Self {
        Self::from_environment(&|_| None)
    }

    /// Returns models that are called with the keys and URLs of the environment, or with those of
    /// their settings. Reads [`Self::VARIABLES`], of which blank ones count as absent.
    pub fn from_environment(lookup: Lookup<'_>) -> Self {
        let [openai, anthropic, ollama, custom] = Self::VARIABLES.map(|(_, key, url)| Endpoint {
            key: read_value(lookup, key).map(ApiKey::new),
            url: read_value(lookup, url),
        });
        Self { openai, anthropic, ollama, custom, adjust: Arc::new(|_| {}) }
    }

    /// Changes limits of each model: timeouts, retries, bytes.
    #[must_use]
    pub fn with_limits(self, change: impl Fn(&mut ModelConfig) + Send + Sync + 'static) -> Self {
        Self { adjust: Arc::new(change), ..self }
    }

    /// Returns the key and the URL for a model with these settings.
    fn endpoint(&self, provider: Provider, settings: &ModelSettings) -> Endpoint {
        let own = match provider {
            Provider::OpenAi => &self.openai,
            Provider::Anthropic => &self.anthropic,
            Provider::Ollama => &self.ollama,
            _ => &self.custom,
        };
        let requested_key = settings.api_key.clone().filter(|key| !key.is_empty()).map(ApiKey::new);
        let is_foreign = settings.base_url.as_deref().is_some_and(|url| {
            own.url
                .as_deref()
                .is_none_or(|own| own.trim_end_matches('/') != url.trim_end_matches('/'))
        });
        if is_foreign {
            return Endpoint { key: requested_key, url: settings.base_url.clone() };
        }
        Endpoint { key: own.key.clone().or(requested_key), url: own.url.clone() }
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
        let endpoint = self.endpoint(provider, settings);
        let name = &settings.provider;
        let variable = name.to_ascii_uppercase();
        if provider == Provider::Custom && endpoint.url.is_none() {
            return Err(ChatError::Config(format!(
                "the provider {name} needs a base URL: set baseUrl in agentConfig or judgeConfig, or {variable}_BASE_URL in the environment"
            )));
        }
        if provider.needs_key() && endpoint.key.is_none() && settings.base_url.is_some() {
            return Err(ChatError::Config(format!(
                "the provider {name} requires a key: set apiKey beside baseUrl; {variable}_API_KEY goes only to the \
                 provider's own URL and to {variable}_BASE_URL"
            )));
        }
        let mut config = ModelConfig::new(provider, &settings.model);
        config.base_url = endpoint.url;
        config.api_key = endpoint.key;
        (self.adjust)(&mut config);
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

/// Returns the value of a variable, unless it is blank.
fn read_value(lookup: Lookup<'_>, name: &str) -> Option<String> {
    lookup(name).filter(|value| !value.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(lines: &[(&str, &str)]) -> RemoteModels {
        RemoteModels::from_environment(&|name| {
            lines.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[track_caller]
    fn check(models: &RemoteModels, asked: [Option<&str>; 2], want: [Option<&str>; 2]) {
        let mut settings = ModelSettings::new("openai", "m");
        let [key, url] = asked;
        settings.api_key = key.map(str::to_owned);
        settings.base_url = url.map(str::to_owned);
        let endpoint = models.endpoint(Provider::OpenAi, &settings);
        let got = [endpoint.key.as_ref().map(ApiKey::expose), endpoint.url.as_deref()];
        assert_eq!(got, want);
    }

    #[test]
    fn the_servers_key_goes_before_the_requests() {
        let server = environment(&[("OPENAI_API_KEY", "server")]);
        check(&server, [Some("request"), None], [Some("server"), None]);
        check(&server, [None, None], [Some("server"), None]);
        check(&environment(&[]), [Some("request"), None], [Some("request"), None]);
        check(&environment(&[("OPENAI_API_KEY", " ")]), [None, None], [None, None]);
    }

    #[test]
    fn the_servers_key_never_goes_to_a_url_of_the_request() {
        let server = environment(&[
            ("OPENAI_API_KEY", "server"),
            ("OPENAI_BASE_URL", "http://127.0.0.1:9/v1"),
        ]);
        check(
            &server,
            [None, Some("https://evil.example/v1")],
            [None, Some("https://evil.example/v1")],
        );
        check(
            &server,
            [Some("request"), Some("http://127.0.0.1:8")],
            [Some("request"), Some("http://127.0.0.1:8")],
        );
        check(
            &server,
            [None, Some("http://127.0.0.1:9/v1/")],
            [Some("server"), Some("http://127.0.0.1:9/v1")],
        );
        let without_url = environment(&[("OPENAI_API_KEY", "server")]);
        check(
            &without_url,
            [None, Some("https://api.openai.com/v1")],
            [None, Some("https://api.openai.com/v1")],
        );
    }
}
