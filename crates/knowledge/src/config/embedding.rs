//! Settings of the embedding model.

use std::{
    num::{NonZeroU64, NonZeroUsize},
    path::PathBuf,
    time::Duration,
};

use marquetry_rag::{ApiKey, EmbeddingApi, RemoteOptions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{InvalidSetting, Variables, non_zero};

/// Model that computes the vectors of texts. A database belongs to the model that filled it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct EmbeddingConfig {
    /// "built-in" is part of the program; "transformer" computes the sentence transformer in
    /// `folder`, in a program built with the feature `transformer`; "openai" is OpenAI or a service
    /// with the same `/v1/embeddings`; "ollama" is Ollama.
    #[schemars(with = "String")]
    pub provider: EmbeddingProvider,
    /// Folder of the sentence transformer (BERT), such as all-MiniLM-L6-v2, with `config.json`,
    /// `model.safetensors` and `tokenizer.json`.
    #[schemars(example = &"models/all-MiniLM-L6-v2")]
    pub folder: Option<PathBuf>,
    /// Name of the provider's model. The built-in model and a model in a folder have none.
    #[schemars(example = &"all-minilm")]
    pub model: Option<String>,
    /// URL of the provider. Without it, the usual URL of this kind of provider.
    #[schemars(example = &"http://127.0.0.1:11434")]
    pub base_url: Option<String>,
    /// Environment variable that holds the provider's key.
    #[schemars(example = &"OPENAI_API_KEY")]
    pub api_key_env: Option<String>,
    /// Number of dimensions of a vector. Without it, the provider is asked.
    #[schemars(example = 384)]
    pub dimension: Option<NonZeroUsize>,
    /// Prefix of each question; "query: " for E5, "search_query: " for nomic-embed-text. A database
    /// belongs to its prefixes, too.
    #[schemars(example = &"query: ")]
    pub query_prefix: Option<String>,
    /// Prefix of each passage; "passage: " for E5, "search_document: " for nomic-embed-text.
    #[schemars(example = &"passage: ")]
    pub passage_prefix: Option<String>,
    /// Time limit of one attempt, in milliseconds.
    pub timeout_ms: NonZeroU64,
    /// Number of retries when the provider is busy or cannot be reached.
    pub retries: u32,
    /// Maximum texts in one request.
    pub batch_texts: NonZeroUsize,
    /// Maximum requests in flight at a time.
    pub parallel: NonZeroUsize,
    /// Allows `http:` to another machine. Texts and key can then be read on the way.
    pub allow_plain_http: bool,
}

/// Provider of the embedding model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum EmbeddingProvider {
    /// The model in this program.
    #[default]
    BuiltIn,
    /// A sentence transformer in a folder.
    Transformer,
    /// OpenAI, or a service with the same API.
    #[serde(rename = "openai")]
    OpenAi,
    /// Ollama.
    Ollama,
}

impl Default for EmbeddingConfig {
    fn default() -> Self {
        Self {
            provider: EmbeddingProvider::BuiltIn,
            folder: None,
            model: None,
            base_url: None,
            api_key_env: None,
            dimension: None,
            query_prefix: None,
            passage_prefix: None,
            timeout_ms: NonZeroU64::new(60_000).expect("it is not zero"),
            retries: 3,
            batch_texts: non_zero(64),
            parallel: non_zero(2),
            allow_plain_http: false,
        }
    }
}

/// A checked embedding model, ready to be opened.
#[derive(Clone, Debug)]
pub(crate) enum EmbeddingChoice {
    /// The model in this program.
    BuiltIn,
    /// The sentence transformer in this folder.
    #[cfg(feature = "transformer")]
    Transformer(PathBuf),
    /// A model behind an endpoint.
    Remote(Box<RemoteOptions>),
}

impl EmbeddingConfig {
    /// Checks the settings without opening the model. `variables` looks up the variable that
    /// `api_key_env` names.
    ///
    /// # Errors
    ///
    /// Returns an error if a setting is missing or wrong, or if the variable is not set.
    pub fn check(&self, variables: Variables<'_>) -> Result<(), InvalidSetting> {
        self.choice(variables).map(|_| ())
    }

    /// Returns the configured model.
    pub(crate) fn choice(
        &self,
        variables: Variables<'_>,
    ) -> Result<EmbeddingChoice, InvalidSetting> {
        let elsewhere = [
            ("model", self.model.is_some()),
            ("base_url", self.base_url.is_some()),
            ("api_key_env", self.api_key_env.is_some()),
            ("dimension", self.dimension.is_some()),
        ];
        let folder = [("folder", self.folder.is_some())];
        let prefixes = [
            ("query_prefix", self.query_prefix.is_some()),
            ("passage_prefix", self.passage_prefix.is_some()),
        ];
        let api = match self.provider {
            EmbeddingProvider::BuiltIn => {
                none_of(&folder, "the built-in model")?;
                none_of(&elsewhere, "the built-in model")?;
                none_of(&prefixes, "the built-in model")?;
                return Ok(EmbeddingChoice::BuiltIn);
            }
            EmbeddingProvider::Transformer => {
                none_of(&elsewhere, "a model in a folder")?;
                return self.transformer();
            }
            EmbeddingProvider::OpenAi => EmbeddingApi::OpenAi,
            EmbeddingProvider::Ollama => EmbeddingApi::Ollama,
        };
        none_of(&folder, "a model elsewhere")?;
        let Some(model) = &self.model else {
            let problem = "is missing: name one of the provider's models";
            return Err(InvalidSetting::new("model", problem));
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
            if let Some(key) = variables(name).filter(|key| !key.trim().is_empty()) {
                options.api_key = Some(ApiKey::new(key.trim()));
            } else {
                let problem = format!("the environment variable {name} is not set");
                return Err(InvalidSetting::new("api_key_env", problem));
            }
        }
        options.check().map_err(|error| {
            let reason = error.to_string();
            let key = if reason.contains("dimension must") { "dimension" } else { "base_url" };
            InvalidSetting::new(key, reason)
        })?;
        Ok(EmbeddingChoice::Remote(Box::new(options)))
    }

    #[cfg(feature = "transformer")]
    fn transformer(&self) -> Result<EmbeddingChoice, InvalidSetting> {
        let Some(folder) = &self.folder else {
            let problem = "is missing: where are the model's files?";
            return Err(InvalidSetting::new("folder", problem));
        };
        // The content of the files is checked when they are read.
        for name in ["config.json", "model.safetensors", "tokenizer.json"] {
            let file = folder.join(name);
            if !file.is_file() {
                return Err(InvalidSetting::new("folder", format!("{file:?} is not a file")));
            }
        }
        Ok(EmbeddingChoice::Transformer(folder.clone()))
    }

    #[cfg(not(feature = "transformer"))]
    fn transformer(&self) -> Result<EmbeddingChoice, InvalidSetting> {
        let problem = "this program was built without sentence transformers; build it with `--features transformer`, or take a model from \"ollama\" or \"openai\"";
        Err(InvalidSetting::new("provider", problem))
    }
}

/// Checks that none of these keys is given, which have no meaning for the chosen model.
fn none_of(keys: &[(&'static str, bool)], whose: &str) -> Result<(), InvalidSetting> {
    match keys.iter().find(|(_, given)| *given) {
        Some((key, _)) => {
            let problem = format!("has no meaning for {whose}; set \"provider\"");
            Err(InvalidSetting::new(key, problem))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(toml: &str, want: Result<&str, &str>) {
        let config: EmbeddingConfig = toml::from_str(toml).unwrap();
        let choice = match config.choice(&|name: &str| (name == "KEY").then(|| " sk-1 ".to_owned()))
        {
            Ok(EmbeddingChoice::BuiltIn) => Ok("built-in".to_owned()),
            #[cfg(feature = "transformer")]
            Ok(EmbeddingChoice::Transformer(folder)) => Ok(folder.display().to_string()),
            Ok(EmbeddingChoice::Remote(options)) => Ok(options.model.clone()),
            Err(invalid) => Err(invalid.to_string()),
        };
        assert_eq!(choice.as_deref().map_err(String::as_str), want);
    }

    #[test]
    fn unusable_settings_are_refused_before_a_request() {
        for (setting, key) in [
            ("base_url = '127.0.0.1:1/v1'", "base_url"),
            ("base_url = 'http://example.com/v1'", "base_url"),
            ("base_url = 'https://me:secret@example.com'", "base_url"),
            ("dimension = 99999999999", "dimension"),
        ] {
            let toml = format!("provider = 'ollama'\nmodel = 'm'\n{setting}");
            let config: EmbeddingConfig = toml::from_str(&toml).unwrap();
            let InvalidSetting { key: found, problem } = config.choice(&|_| None).unwrap_err();
            assert_eq!(found, key, "{setting}: {problem}");
            assert!(!problem.contains("secret"), "{problem}");
        }
        check(
            "provider = 'ollama'\nmodel = 'm'\nbase_url = 'http://example.com'\nallow_plain_http = true",
            Ok("m"),
        );
    }

    #[test]
    fn a_model_is_named_whole_or_not_at_all() {
        check("", Ok("built-in"));
        check("provider = 'ollama'\nmodel = 'm'", Ok("m"));
        check("provider = 'openai'\nmodel = 'm'\napi_key_env = 'KEY'", Ok("m"));
        check("model = 'm'", Err("model: has no meaning for the built-in model; set \"provider\""));
        check(
            "folder = 'm'",
            Err("folder: has no meaning for the built-in model; set \"provider\""),
        );
        check(
            "passage_prefix = 'p'",
            Err("passage_prefix: has no meaning for the built-in model; set \"provider\""),
        );
        check("provider = 'ollama'\nmodel = 'm'\nquery_prefix = 'q'", Ok("m"));
        check("provider = 'ollama'", Err("model: is missing: name one of the provider's models"));
        check(
            "provider = 'ollama'\nmodel = 'm'\nfolder = 'm'",
            Err("folder: has no meaning for a model elsewhere; set \"provider\""),
        );
        check(
            "provider = 'transformer'\nmodel = 'm'",
            Err("model: has no meaning for a model in a folder; set \"provider\""),
        );
        check(
            "provider = 'openai'\nmodel = 'm'\napi_key_env = 'NONE'",
            Err("api_key_env: the environment variable NONE is not set"),
        );
    }

    #[cfg(not(feature = "transformer"))]
    #[test]
    fn a_program_without_transformers_names_the_missing_feature() {
        check(
            "provider = 'transformer'\nfolder = 'm'",
            Err(
                "provider: this program was built without sentence transformers; build it with `--features transformer`, or take a model from \"ollama\" or \"openai\"",
            ),
        );
    }

    #[cfg(feature = "transformer")]
    #[test]
    fn a_folder_has_the_files_of_a_model() {
        let folder = tempfile::tempdir().unwrap();
        let toml = format!("provider = 'transformer'\nfolder = {:?}", folder.path());
        check("provider = 'transformer'", Err("folder: is missing: where are the model's files?"));
        for name in ["config.json", "model.safetensors", "tokenizer.json"] {
            let file = folder.path().join(name);
            check(&toml, Err(&format!("folder: {file:?} is not a file")));
            std::fs::write(file, "").unwrap();
        }
        check(&toml, Ok(folder.path().to_str().unwrap()));
    }
}
