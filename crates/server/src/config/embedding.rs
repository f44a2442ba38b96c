//! Which model makes vectors of texts.

use std::{
    num::{NonZeroU64, NonZeroUsize},
    time::Duration,
};

use marquetry_rag::{ApiKey, EmbeddingApi, RemoteOptions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::expand::Variables;

/// The model that makes vectors of texts. A database belongs to the model that filled it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct EmbeddingConfig {
    /// "built-in" is in this program and needs nothing; "openai" is OpenAI or whatever speaks its `/v1/embeddings`; "ollama" is Ollama.
    #[schemars(with = "String")]
    pub provider: EmbeddingProvider,
    /// The name of the model; the built-in one has none.
    #[schemars(example = &"all-minilm")]
    pub model: Option<String>,
    /// Where the provider is; without it, where providers of this kind are.
    #[schemars(example = &"http://127.0.0.1:11434")]
    pub base_url: Option<String>,
    /// The environment variable that holds the provider's key.
    #[schemars(example = &"OPENAI_API_KEY")]
    pub api_key_env: Option<String>,
    /// How many numbers a vector has; without it, the provider is asked.
    #[schemars(example = 384)]
    pub dimension: Option<NonZeroUsize>,
    /// How long one attempt may take, in milliseconds.
    pub timeout_ms: NonZeroU64,
    /// How often texts are sent again when the provider is busy or cannot be reached.
    pub retries: u32,
    /// Texts in one request, at most.
    pub batch_texts: NonZeroUsize,
    /// Requests under way at the same time, at most.
    pub parallel: NonZeroUsize,
    /// Lets texts and key go to another machine over plain http:, where everybody on the way reads along.
    pub allow_plain_http: bool,
}

/// Who makes vectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum EmbeddingProvider {
    /// This program.
    #[default]
    BuiltIn,
    /// OpenAI, or what speaks like it.
    #[serde(rename = "openai")]
    OpenAi,
    /// Ollama.
    Ollama,
}

impl Default for EmbeddingConfig {
    fn default() -> Self {
        let n = |n| NonZeroUsize::new(n).expect("every default below is more than zero");
        Self {
            provider: EmbeddingProvider::BuiltIn,
            model: None,
            base_url: None,
            api_key_env: None,
            dimension: None,
            timeout_ms: NonZeroU64::new(60_000).expect("it is not zero"),
            retries: 3,
            batch_texts: n(64),
            parallel: n(2),
            allow_plain_http: false,
        }
    }
}

impl EmbeddingConfig {
    /// How a model elsewhere is reached; None for the built-in one.
    ///
    /// # Errors
    ///
    /// The key, and what is wrong with it.
    pub(crate) fn remote(
        &self,
        variable: Variables<'_>,
    ) -> Result<Option<RemoteOptions>, (&'static str, String)> {
        let api = match self.provider {
            EmbeddingProvider::BuiltIn => {
                let given = [
                    ("model", self.model.is_some()),
                    ("base_url", self.base_url.is_some()),
                    ("api_key_env", self.api_key_env.is_some()),
                    ("dimension", self.dimension.is_some()),
                ];
                return match given.into_iter().find(|(_, given)| *given) {
                    Some((key, _)) => {
                        Err((key, "has no meaning for the built-in model; set \"provider\"".into()))
                    }
                    None => Ok(None),
                };
            }
            EmbeddingProvider::OpenAi => EmbeddingApi::OpenAi,
            EmbeddingProvider::Ollama => EmbeddingApi::Ollama,
        };
        let Some(model) = &self.model else {
            return Err(("model", "is missing: which of the provider's models?".to_owned()));
        };
        let mut options = RemoteOptions::new(api, model);
        options.base_url.clone_from(&self.base_url);
        options.dimension = self.dimension.map(NonZeroUsize::get);
        options.timeout = Duration::from_millis(self.timeout_ms.get());
        options.retries = self.retries;
        options.batch_texts = self.batch_texts.get();
        options.parallel = self.parallel.get();
        options.allow_plain_http = self.allow_plain_http;
        if let Some(name) = &self.api_key_env {
            match variable(name).filter(|key| !key.trim().is_empty()) {
                Some(key) => options.api_key = Some(ApiKey::new(key.trim())),
                None => {
                    let problem = format!("the environment variable {name} is not set");
                    return Err(("api_key_env", problem));
                }
            }
        }
        Ok(Some(options))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(toml: &str, want: Result<bool, &str>) {
        let config: EmbeddingConfig = toml::from_str(toml).unwrap();
        let variable = |name: &str| (name == "KEY").then(|| " sk-1 ".to_owned());
        let remote = config.remote(&variable).map(|remote| remote.is_some());
        let remote = remote.map_err(|(key, problem)| format!("{key}: {problem}"));
        assert_eq!(remote, want.map_err(str::to_owned));
    }

    #[test]
    fn a_model_is_named_whole_or_not_at_all() {
        check("", Ok(false));
        check("provider = 'ollama'\nmodel = 'm'", Ok(true));
        check("provider = 'openai'\nmodel = 'm'\napi_key_env = 'KEY'", Ok(true));
        check("model = 'm'", Err("model: has no meaning for the built-in model; set \"provider\""));
        check("provider = 'ollama'", Err("model: is missing: which of the provider's models?"));
        check(
            "provider = 'openai'\nmodel = 'm'\napi_key_env = 'NONE'",
            Err("api_key_env: the environment variable NONE is not set"),
        );
    }
}
