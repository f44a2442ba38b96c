//! Options of remote models.

use std::time::Duration;

use marquetry_endpoint::ApiKey;
use serde::{Deserialize, Serialize};

/// A provider of chat models, which decides on the API and the usual URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Provider {
    /// OpenAI's chat completions.
    OpenAi,
    /// Anthropic's messages.
    Anthropic,
    /// Ollama on this machine, by its OpenAI-compatible API: its own API ignores JSON schemas.
    Ollama,
    /// Another service with OpenAI's chat completions; it needs a base URL.
    Custom,
}

impl Provider {
    /// Returns the base URL that is used unless [`ModelConfig::base_url`] is set.
    pub fn default_base_url(self) -> Option<&'static str> {
        match self {
            Self::OpenAi => Some("https://api.openai.com/v1/"),
            Self::Anthropic => Some("https://api.anthropic.com/v1/"),
            Self::Ollama => Some("http://127.0.0.1:11434/v1/"),
            Self::Custom => None,
        }
    }

    /// Returns whether the provider requires a key.
    pub fn needs_key(self) -> bool {
        matches!(self, Self::OpenAi | Self::Anthropic)
    }
}

/// A model of a provider, with the limits of its requests.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ModelConfig {
    /// The provider.
    pub provider: Provider,
    /// Name of the model at the provider.
    pub model: String,
    /// Base URL, `http:` or `https:`, up to and including `/v1`; [`Provider::default_base_url`] if
    /// not set.
    pub base_url: Option<String>,
    /// API key, if the provider requires one.
    pub api_key: Option<ApiKey>,
    /// Time limit of one attempt; 120 s by default.
    pub timeout: Duration,
    /// Number of retries when the provider is busy or cannot be reached; 3 by default.
    pub retries: u32,
    /// Longest wait before a retry; a provider that asks for a longer one gets no retry. 30 s by
    /// default.
    pub longest_wait: Duration,
    /// Time limit of a whole call, retries and stream included; 10 minutes by default.
    pub answer_timeout: Duration,
    /// Longest answer, reasoning and tool calls included, in bytes; 4 MiB by default. The JSON
    /// around it counts, too, beyond 64 KiB.
    pub max_answer_bytes: usize,
}

impl ModelConfig {
    /// Returns the configuration of a model, with the default limits.
    pub fn new(provider: Provider, model: impl Into<String>) -> Self {
        Self {
            provider,
            model: model.into(),
            base_url: None,
            api_key: None,
            timeout: Duration::from_mins(2),
            retries: 3,
            longest_wait: Duration::from_secs(30),
            answer_timeout: Duration::from_mins(10),
            max_answer_bytes: 4 << 20,
        }
    }
}
