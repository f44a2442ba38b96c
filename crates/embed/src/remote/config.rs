//! Options of remote models.

use std::time::Duration;

use marquetry_endpoint::{ApiKey, Endpoint, PlainHttp, RetryPolicy, base_url};
use serde::{Deserialize, Serialize};

use crate::EmbedError;

/// API of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum EmbeddingApi {
    /// OpenAI's `POST /v1/embeddings`, which many other servers offer too.
    OpenAi,
    /// Ollama's `POST /api/embed`.
    Ollama,
}

impl EmbeddingApi {
    /// Returns the base URL that is used unless [`RemoteOptions::base_url`] is set.
    pub fn default_base_url(self) -> &'static str {
        match self {
            Self::OpenAi => "https://api.openai.com/v1/",
            Self::Ollama => "http://127.0.0.1:11434/",
        }
    }

    /// Returns the name in identities and errors.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Ollama => "ollama",
        }
    }

    fn path(self) -> &'static str {
        match self {
            Self::OpenAi => "embeddings",
            Self::Ollama => "api/embed",
        }
    }
}

/// Largest dimension: more than any model has.
const MAX_DIMENSION: usize = 1 << 16;

/// A model behind an endpoint, with the limits of its requests.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RemoteOptions {
    /// API of the endpoint.
    pub api: EmbeddingApi,
    /// Name of the model at the endpoint.
    pub model: String,
    /// Base URL, to which the API's path is appended: `https://host/v1`, `http://127.0.0.1:11434`.
    /// [`EmbeddingApi::default_base_url`] if not set. Plain `http:` reaches loopback addresses
    /// only, unless [`Self::allow_plain_http`] is set.
    pub base_url: Option<String>,
    /// API key, if the endpoint requires one.
    pub api_key: Option<ApiKey>,
    /// Dimension of the vectors. If not set, [`RemoteEmbedder::open`](super::RemoteEmbedder::open)
    /// embeds a short text to find it.
    pub dimension: Option<usize>,
    /// Requests vectors of [`Self::dimension`] numbers, from models that can shorten their vectors.
    pub ask_for_dimension: bool,
    /// Identity that is stored beside the vectors, instead of `openai:model@https://host`, for an
    /// endpoint that has moved. Different models need different identities.
    pub identity: Option<String>,
    /// Time limit of one attempt, answer included; 60 s by default.
    pub timeout: Duration,
    /// Number of retries when the endpoint is busy or cannot be reached; 3 by default.
    pub retries: u32,
    /// Longest wait before a retry; an endpoint that asks for a longer one gets no retry. 30 s by
    /// default.
    pub longest_wait: Duration,
    /// Maximum number of texts in one request; 64 by default.
    pub batch_texts: usize,
    /// Maximum number of bytes of text in one request; 256 KiB by default. A longer text is sent
    /// alone.
    pub batch_bytes: usize,
    /// Maximum number of requests in flight at a time; 2 by default.
    pub parallel: usize,
    /// Longest answer, in bytes; 64 MiB by default.
    pub max_answer_bytes: usize,
    /// Allows plain `http:` to other machines. The network can then read texts and key.
    pub allow_plain_http: bool,
}

impl RemoteOptions {
    /// Returns the options of a model, with the default limits.
    pub fn new(api: EmbeddingApi, model: impl Into<String>) -> Self {
        Self {
            api,
            model: model.into(),
            base_url: None,
            api_key: None,
            dimension: None,
            ask_for_dimension: false,
            identity: None,
            timeout: Duration::from_mins(1),
            retries: 3,
            longest_wait: Duration::from_secs(30),
            batch_texts: 64,
            batch_bytes: 256 << 10,
            parallel: 2,
            max_answer_bytes: 64 << 20,
            allow_plain_http: false,
        }
    }

    /// Checks the options without calling the endpoint.
    ///
    /// # Errors
    ///
    /// Returns [`EmbedError::Config`], which names the option, if an option is not valid.
    pub fn check(&self) -> Result<(), EmbedError> {
        self.endpoint().map(|_| ())
    }

    /// Returns the endpoint that requests go to.
    pub(super) fn endpoint(&self) -> Result<Endpoint, EmbedError> {
        if self.model.trim().is_empty() {
            return Err(config("the model has no name"));
        }
        if self.dimension == Some(0) {
            return Err(config("dimension must be at least 1"));
        }
        if self.dimension.is_some_and(|dimension| dimension > MAX_DIMENSION) {
            return Err(config("dimension must be at most 65536"));
        }
        if self.ask_for_dimension && self.dimension.is_none() {
            return Err(config("ask_for_dimension needs a dimension"));
        }
        if self.batch_texts == 0 || self.batch_bytes == 0 || self.parallel == 0 {
            return Err(config("batch_texts, batch_bytes and parallel must be at least 1"));
        }
        if self.api_key.as_ref().is_some_and(|key| !key.is_sendable()) {
            return Err(config(
                "the key is empty, or holds white space or characters outside of ASCII",
            ));
        }
        let base = self.base_url.as_deref().unwrap_or(self.api.default_base_url());
        let plain =
            if self.allow_plain_http { PlainHttp::Anywhere } else { PlainHttp::LoopbackOnly };
        let url = base_url(base, plain).map_err(config)?.join(self.api.path()).map_err(config)?;
        let mut endpoint = Endpoint::new(url).map_err(config)?;
        endpoint.key.clone_from(&self.api_key);
        endpoint.timeout = self.timeout;
        endpoint.retry = RetryPolicy::new(self.retries, self.longest_wait);
        endpoint.max_answer_bytes = self.max_answer_bytes;
        Ok(endpoint)
    }

    /// Returns the identity of the model: API, name and origin of the URL, without path and key.
    pub(super) fn identity(&self, endpoint: &Endpoint) -> String {
        self.identity.clone().unwrap_or_else(|| {
            let api = self.api.name();
            let model = self.model.trim();
            format!("{api}:{model}@{}", endpoint.url.origin().ascii_serialization())
        })
    }
}

fn config(reason: impl ToString) -> EmbedError {
    EmbedError::Config(reason.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(base_url: &str) -> RemoteOptions {
        let base_url = Some(base_url.to_owned());
        RemoteOptions { base_url, ..RemoteOptions::new(EmbeddingApi::OpenAi, "m") }
    }

    #[test]
    fn the_path_of_the_api_is_appended_to_the_base_url() {
        let endpoint = options("https://a.b/v1//").endpoint().unwrap();
        assert_eq!(endpoint.url.as_str(), "https://a.b/v1/embeddings");
        assert!(options("http://a.b/v1").endpoint().is_err(), "plain http: to another machine");
        let plain = RemoteOptions { allow_plain_http: true, ..options("http://a.b") };
        assert_eq!(plain.endpoint().unwrap().url.as_str(), "http://a.b/embeddings");
        assert!(options("http://127.0.0.1:1").check().is_ok());
    }

    #[test]
    fn invalid_options_are_refused() {
        let good = options("https://a.b");
        for bad in [
            RemoteOptions { model: " ".to_owned(), ..good.clone() },
            RemoteOptions { dimension: Some(0), ..good.clone() },
            RemoteOptions { dimension: Some(99_999_999_999), ..good.clone() },
            RemoteOptions { ask_for_dimension: true, ..good.clone() },
            RemoteOptions { batch_texts: 0, ..good.clone() },
            RemoteOptions { batch_bytes: 0, ..good.clone() },
            RemoteOptions { parallel: 0, ..good.clone() },
            RemoteOptions { api_key: Some(ApiKey::new("a\nb")), ..good.clone() },
            RemoteOptions { api_key: Some(ApiKey::new("")), ..good.clone() },
        ] {
            assert!(matches!(bad.endpoint(), Err(EmbedError::Config(_))), "{bad:?}");
        }
    }

    #[test]
    fn an_identity_holds_api_model_and_host() {
        let openai = RemoteOptions::new(EmbeddingApi::OpenAi, "text-embedding-3-small");
        let ollama = RemoteOptions::new(EmbeddingApi::Ollama, "all-minilm");
        let moved = RemoteOptions { identity: Some("mine".to_owned()), ..options("https://a.b/x") };
        for (options, want) in [
            (openai, "openai:text-embedding-3-small@https://api.openai.com"),
            (ollama, "ollama:all-minilm@http://127.0.0.1:11434"),
            (moved, "mine"),
        ] {
            assert_eq!(options.identity(&options.endpoint().unwrap()), want);
        }
    }
}
