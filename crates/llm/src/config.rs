//! Which model, where, and with which key.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

/// Which of the two languages of providers is spoken, and to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Provider {
    /// OpenAI's chat completions.
    OpenAi,
    /// Anthropic's messages.
    Anthropic,
    /// Ollama on this machine, by its OpenAI-compatible interface: its own one loses JSON schemas.
    Ollama,
    /// Anything else that speaks OpenAI's chat completions; it needs a base URL.
    Custom,
}

impl Provider {
    /// Where it is, if nothing else is said.
    pub fn default_base_url(self) -> Option<&'static str> {
        match self {
            Self::OpenAi => Some("https://api.openai.com/v1/"),
            Self::Anthropic => Some("https://api.anthropic.com/v1/"),
            Self::Ollama => Some("http://127.0.0.1:11434/v1/"),
            Self::Custom => None,
        }
    }

    /// Whether it is of no use without a key.
    pub fn needs_key(self) -> bool {
        matches!(self, Self::OpenAi | Self::Anthropic)
    }
}

/// A model of a provider.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ModelConfig {
    /// Whose model it is.
    pub provider: Provider,
    /// Its name there.
    pub model: String,
    /// Where the provider is: `http:` or `https:`, up to and with `/v1`; [`Provider::default_base_url`] if not set.
    pub base_url: Option<String>,
    /// The key, if it wants one.
    pub api_key: Option<ApiKey>,
    /// How long one attempt may take; 120 s by default.
    pub timeout: Duration,
    /// How often a request is sent again when the provider is busy or cannot be reached; 3 by default.
    pub retries: u32,
    /// The longest wait before sending it again, whatever the provider asks for; 30 s by default.
    pub longest_wait: Duration,
    /// How long an answer may take from its first try to its end, however steadily it comes; 10 minutes by default.
    pub answer_timeout: Duration,
    /// How many bytes a streamed answer may have, its reasoning included; 4 MiB by default.
    pub max_answer_bytes: usize,
}

impl ModelConfig {
    /// The model of that name.
    pub fn new(provider: Provider, model: impl Into<String>) -> Self {
        Self {
            provider,
            model: model.into(),
            base_url: None,
            api_key: None,
            timeout: Duration::from_secs(120),
            retries: 3,
            longest_wait: Duration::from_secs(30),
            answer_timeout: Duration::from_secs(600),
            max_answer_bytes: 4 << 20,
        }
    }
}

/// A key. It shows itself to nobody but the provider.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// Takes over a key.
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into())
    }

    #[cfg(feature = "remote")]
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("ApiKey(…)")
    }
}
