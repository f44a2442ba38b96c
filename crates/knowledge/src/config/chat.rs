//! Settings of the chat model.

use std::{
    num::{NonZeroU32, NonZeroU64, NonZeroUsize},
    time::Duration,
};

use marquetry_llm::{ApiKey, ModelConfig, Provider, RemoteModel};
use marquetry_rag::CitationLimits;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{InvalidSetting, Variables, non_zero};

/// Chat model behind `am7_chat` and `/mcp/v1/sampling/createMessage`. Without `provider` and
/// `model` there is no chat.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ChatConfig {
    /// "openai", "anthropic", "ollama" (on this machine), or "custom" for a service that speaks
    /// OpenAI's chat completions at `base_url`.
    #[schemars(with = "Option<String>", example = &"ollama")]
    pub provider: Option<Provider>,
    /// Name of the model. An `olio.llm.chatConfig` record may name another model of the same
    /// provider.
    #[schemars(example = &"qwen3:4b")]
    pub model: Option<String>,
    /// URL of the provider, up to and including `/v1`. Without it, the usual URL of this kind of
    /// provider.
    #[schemars(example = &"http://127.0.0.1:11434/v1")]
    pub base_url: Option<String>,
    /// Environment variable that holds the provider's key.
    #[schemars(example = &"OPENAI_API_KEY")]
    pub api_key_env: Option<String>,
    /// Time limit of one attempt, in milliseconds.
    pub timeout_ms: NonZeroU64,
    /// Time limit of a whole answer, in milliseconds, even if it arrives steadily.
    pub answer_timeout_ms: NonZeroU64,
    /// Number of retries when the provider is busy or cannot be reached.
    pub retries: u32,
    /// Longest answer, in tokens.
    pub max_tokens: NonZeroU32,
    /// System prompt, unless a record has another.
    pub system_prompt: String,
    /// Whether white space in citations is replaced by a mark that occurs nowhere else, so that a
    /// model can tell citations from instructions.
    pub datamark: bool,
    /// Maximum references of one message. Further ones are reported among the answer's problems.
    pub max_references: NonZeroUsize,
    /// Maximum passages that are cited with one message.
    pub max_passages: NonZeroUsize,
    /// Maximum passages of one reference, or of one search by tags.
    pub max_passages_per_reference: NonZeroUsize,
    /// Longest passage, in bytes; a longer one is cut.
    pub max_passage_bytes: NonZeroUsize,
    /// Longest text of all blocks of one message together, in bytes: metrics, reminders, keyframe
    /// and citations, in this order. The answer lists as `left_out` what did not fit.
    pub max_context_bytes: NonZeroUsize,
    /// Treatment of older forms of context in a message, such as `(Reminder: {…})` and
    /// `${image.TAGS}`: "neutralise" leaves them as text that no parser takes for a block,
    /// "upgrade" converts them to blocks with `trust="caller"`, and looks up images.
    pub legacy_tokens: LegacyTokens,
    /// Number of messages after which the model writes a keyframe of the chat, the state of the
    /// conversation as a record; 0: never. A keyframe costs a call of the model.
    pub keyframe_every: u32,
    /// Longest text of all contexts and messages of Views of tools (MCP Apps) that are sent with
    /// one message, in bytes. The newest are sent.
    pub max_view_context_bytes: NonZeroUsize,
    /// Longest message, in bytes.
    pub max_message_bytes: NonZeroUsize,
    /// Longest answer that is stored and shown, in bytes; the rest is cut off.
    pub max_answer_bytes: NonZeroUsize,
    /// Maximum earlier messages that are sent to the model; the newest are sent.
    pub max_sent_messages: usize,
    /// Longest text of these messages together, in bytes.
    pub max_sent_bytes: usize,
    /// Maximum messages that a chat stores; the oldest are dropped.
    pub max_kept_messages: NonZeroUsize,
    /// Longest text of these messages together, in bytes.
    pub max_kept_bytes: NonZeroUsize,
}

/// The treatment of older forms of context in a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum LegacyTokens {
    /// They stay text.
    #[default]
    #[serde(alias = "neutralize")]
    Neutralise,
    /// They become blocks that come from the caller.
    Upgrade,
}

impl From<LegacyTokens> for marquetry_context_blocks::LegacyTokens {
    fn from(tokens: LegacyTokens) -> Self {
        match tokens {
            LegacyTokens::Neutralise => Self::Neutralize,
            LegacyTokens::Upgrade => Self::Upgrade,
        }
    }
}

impl Default for ChatConfig {
    fn default() -> Self {
        let cited = CitationLimits::default();
        Self {
            provider: None,
            model: None,
            base_url: None,
            api_key_env: None,
            timeout_ms: NonZeroU64::new(120_000).expect("it is not zero"),
            answer_timeout_ms: NonZeroU64::new(600_000).expect("it is not zero"),
            retries: 3,
            max_tokens: NonZeroU32::new(2_048).expect("it is not zero"),
            system_prompt: "You are a helpful assistant.".to_owned(),
            datamark: false,
            max_references: non_zero(cited.max_references),
            max_passages: non_zero(cited.max_passages),
            max_passages_per_reference: non_zero(cited.max_passages_per_reference),
            max_passage_bytes: non_zero(cited.max_passage_bytes),
            max_context_bytes: non_zero(32_768),
            legacy_tokens: LegacyTokens::default(),
            keyframe_every: 0,
            max_view_context_bytes: non_zero(65_536),
            max_message_bytes: non_zero(65_536),
            max_answer_bytes: non_zero(262_144),
            max_sent_messages: 40,
            max_sent_bytes: 32_768,
            max_kept_messages: non_zero(1_000),
            max_kept_bytes: non_zero(524_288),
        }
    }
}

impl ChatConfig {
    /// Returns the limits of citations, whose blocks may have `max_bytes` together.
    #[must_use]
    pub fn citation_limits(&self, max_bytes: usize) -> CitationLimits {
        let mut limits = CitationLimits::default();
        limits.max_references = self.max_references.get();
        limits.max_passages = self.max_passages.get();
        limits.max_passages_per_reference = self.max_passages_per_reference.get();
        limits.max_passage_bytes = self.max_passage_bytes.get();
        limits.max_bytes = max_bytes;
        limits
    }

    /// Checks the settings without calling the model. `variables` looks up the variable that
    /// `api_key_env` names.
    ///
    /// # Errors
    ///
    /// Returns an error if a setting is missing or wrong, or if the variable is not set.
    pub fn check(&self, variables: Variables<'_>) -> Result<(), InvalidSetting> {
        self.usable_model(variables).map(|_| ())
    }

    /// Returns the configured model, if `provider` and `model` are set and valid.
    ///
    /// # Errors
    ///
    /// Returns an error if [`Self::check`] does.
    pub fn usable_model(
        &self,
        variables: Variables<'_>,
    ) -> Result<Option<ModelConfig>, InvalidSetting> {
        let model = self.model(variables)?;
        if let Some(model) = &model {
            RemoteModel::new(model.clone())
                .map_err(|error| InvalidSetting::new("provider", error.to_string()))?;
        }
        Ok(model)
    }

    /// Returns the configured model, if `provider` and `model` are set.
    fn model(&self, variables: Variables<'_>) -> Result<Option<ModelConfig>, InvalidSetting> {
        let (provider, model) = match (self.provider, &self.model) {
            (None, None) => return Ok(None),
            (Some(provider), Some(model)) => (provider, model),
            (None, Some(_)) => {
                return Err(InvalidSetting::new("provider", "is missing: whose model is it?"));
            }
            (Some(_), None) => {
                let problem = "is missing: name one of the provider's models";
                return Err(InvalidSetting::new("model", problem));
            }
        };
        let mut config = ModelConfig::new(provider, model);
        config.base_url.clone_from(&self.base_url);
        config.timeout = Duration::from_millis(self.timeout_ms.get());
        config.retries = self.retries;
        config.answer_timeout = Duration::from_millis(self.answer_timeout_ms.get());
        // Reasoning is not stored, but may be longer than the answer.
        config.max_answer_bytes = config.max_answer_bytes.max(self.max_answer_bytes.get());
        if let Some(name) = &self.api_key_env {
            if let Some(key) = variables(name).filter(|key| !key.trim().is_empty()) {
                config.api_key = Some(ApiKey::new(key.trim()));
            } else {
                let problem = format!("the environment variable {name} is not set");
                return Err(InvalidSetting::new("api_key_env", problem));
            }
        } else if provider.needs_key() {
            let problem = "is missing: name the environment variable that has the key";
            return Err(InvalidSetting::new("api_key_env", problem));
        }
        Ok(Some(config))
    }

    /// Returns a warning if messages and key would be sent unencrypted to another machine.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let url = self.base_url.as_deref()?.parse::<http::Uri>().ok()?;
        let host = url.host()?.trim_start_matches('[').trim_end_matches(']');
        let is_here = host == "localhost"
            || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
        (url.scheme_str() == Some("http") && !is_here).then(|| {
            format!("knowledge.chat.base_url: plain http: to {host}: everybody on the way reads messages and key; use https:")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(more: &str) -> ChatConfig {
        toml::from_str(&format!("provider = 'custom'\nmodel = 'm'\n{more}")).unwrap()
    }

    fn warning(url: &str) -> Option<String> {
        config(&format!("base_url = '{url}'")).warning()
    }

    #[test]
    fn limits_reach_the_model_and_plain_http_is_warned_of() {
        let chat = config("max_answer_bytes = 9000000\nanswer_timeout_ms = 7");
        let model = chat.model(&|_| None).unwrap().unwrap();
        assert_eq!(model.max_answer_bytes, 9_000_000);
        assert_eq!(model.answer_timeout, Duration::from_millis(7));
        assert!(warning("http://example.com/v1").unwrap().contains("example.com"));
        for fine in ["https://example.com/v1", "http://127.0.0.1:1/v1", "http://[::1]/v1"] {
            assert_eq!(warning(fine), None);
        }
    }

    #[track_caller]
    fn check(toml: &str, want: Result<bool, &str>) {
        let config: ChatConfig = toml::from_str(toml).unwrap();
        let model = config
            .model(&|name: &str| (name == "KEY").then(|| " sk-1 ".to_owned()))
            .map(|model| model.is_some())
            .map_err(|invalid| invalid.to_string());
        assert_eq!(model, want.map_err(str::to_owned));
    }

    #[test]
    fn a_model_is_named_whole_or_not_at_all() {
        check("", Ok(false));
        check("provider = 'ollama'\nmodel = 'm'", Ok(true));
        check("provider = 'openai'\nmodel = 'm'\napi_key_env = 'KEY'", Ok(true));
        check(
            "provider = 'openai'\nmodel = 'm'",
            Err("api_key_env: is missing: name the environment variable that has the key"),
        );
        check("provider = 'ollama'", Err("model: is missing: name one of the provider's models"));
        check("model = 'm'", Err("provider: is missing: whose model is it?"));
        check(
            "provider = 'openai'\nmodel = 'm'\napi_key_env = 'OTHER'",
            Err("api_key_env: the environment variable OTHER is not set"),
        );
    }
}
