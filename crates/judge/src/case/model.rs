//! The models of a case.

use std::fmt;

use marquetry_protocol::client::without_secrets;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of a model: provider, name and sampling.
// `JudgeConfig` of the seed.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct ModelSettings {
    /// `openai`, `anthropic`, `ollama` or `custom`. Checked when the case runs.
    pub provider: String,
    /// The name of the model at its provider.
    pub model: String,
    /// Sampling temperature, from 0 to 2; the provider's default if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Longest answer, in tokens; 2048 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// API key. Prefer a key in the runner's environment, because case files are shared. Results
    /// never contain it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key: Option<String>,
    /// Base URL up to and including `/v1`; the provider's usual one if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// As a judge: number of votes, 3 if absent, 1 to 11.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub votes: Option<u32>,
    /// As a judge: maximum votes after a split, 11 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_votes: Option<u32>,
    /// Seed of the order in which a judge sees items and evidence, and of the provider's sampling
    /// if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Whether the model is asked for a stream, for services that end long requests without one;
    /// false if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
    /// Price of tokens, for `limits.maxCostUsd` and for the cost in results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
}

/// Hides the API key.
impl fmt::Debug for ModelSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelSettings")
            .field("provider", &self.provider)
            .field("model", &self.model)
            .field("temperature", &self.temperature)
            .field("max_tokens", &self.max_tokens)
            .field("api_key", &self.api_key.as_ref().map(|_| "…"))
            .field("base_url", &self.base_url.as_deref().map(without_secrets))
            .finish_non_exhaustive()
    }
}

impl ModelSettings {
    /// Returns the settings of a model, with the defaults of all else.
    pub fn new(provider: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            provider: provider.into(),
            model: model.into(),
            temperature: None,
            max_tokens: None,
            api_key: None,
            base_url: None,
            votes: None,
            max_votes: None,
            seed: None,
            stream: None,
            price: None,
        }
    }
}

/// Price of a model, in US dollars.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Price {
    /// US dollars per million input tokens.
    pub input_per_million: f64,
    /// US dollars per million output tokens.
    pub output_per_million: f64,
}
