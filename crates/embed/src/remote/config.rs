//! Which model, where, and how hard it may be asked.

use std::{fmt, time::Duration};

use reqwest::Url;
use serde::{Deserialize, Serialize};

use crate::EmbedError;

/// Which of two languages an endpoint speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum EmbeddingApi {
    /// OpenAI's `POST /v1/embeddings`, which many other servers speak as well.
    OpenAi,
    /// Ollama's `POST /api/embed`.
    Ollama,
}

impl EmbeddingApi {
    /// Where it is, if nothing else is said.
    pub fn default_base_url(self) -> &'static str {
        match self {
            Self::OpenAi => "https://api.openai.com/v1/",
            Self::Ollama => "http://127.0.0.1:11434/",
        }
    }

    /// Its name in identities and errors.
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

/// How many numbers a vector may have: more than any model gives.
const MAX_DIMENSION: usize = 1 << 16;

/// A model behind an endpoint. Everything that is sent or waited for is bounded here.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RemoteOptions {
    /// What the endpoint speaks.
    pub api: EmbeddingApi,
    /// The model's name there.
    pub model: String,
    /// Where the endpoint is, up to what the language itself adds: `https://host/v1`, `http://127.0.0.1:11434`;
    /// [`EmbeddingApi::default_base_url`] if not set. Plain `http:` is for this machine alone, unless
    /// [`Self::allow_plain_http`].
    pub base_url: Option<String>,
    /// The key, if it wants one.
    pub api_key: Option<ApiKey>,
    /// How many numbers a vector has. If not set, the endpoint is asked once, with a short text.
    pub dimension: Option<usize>,
    /// Asks the endpoint for vectors of [`Self::dimension`], for models that can shorten theirs.
    pub ask_for_dimension: bool,
    /// What is stored beside the vectors in the place of `openai:model@https://host`: for one that has moved. Vectors
    /// of different models must not have the same.
    pub identity: Option<String>,
    /// How long one request may take, answer included; 60 s by default.
    pub timeout: Duration,
    /// How often a request is sent again when the endpoint is busy or cannot be reached; 3 by default.
    pub retries: u32,
    /// The longest wait before sending it again, whatever the endpoint asks for; 30 s by default.
    pub longest_wait: Duration,
    /// Texts in one request, at most; 64 by default.
    pub batch_texts: usize,
    /// Bytes of text in one request, at most, though a text that is longer goes by itself; 256 KiB by default.
    pub batch_bytes: usize,
    /// Requests under way at the same time, at most; 2 by default.
    pub parallel: usize,
    /// Bytes of an answer, at most; 64 MiB by default.
    pub max_answer_bytes: usize,
    /// Lets plain `http:` leave this machine: whoever is on the way reads the texts and the key.
    pub allow_plain_http: bool,
}

impl RemoteOptions {
    /// The model of that name.
    pub fn new(api: EmbeddingApi, model: impl Into<String>) -> Self {
        Self {
            api,
            model: model.into(),
            base_url: None,
            api_key: None,
            dimension: None,
            ask_for_dimension: false,
            identity: None,
            timeout: Duration::from_secs(60),
            retries: 3,
            longest_wait: Duration::from_secs(30),
            batch_texts: 64,
            batch_bytes: 256 << 10,
            parallel: 2,
            max_answer_bytes: 64 << 20,
            allow_plain_http: false,
        }
    }

    /// Whether it can work, as far as that is seen without asking anybody.
    ///
    /// # Errors
    ///
    /// [`EmbedError::Config`]: something cannot be right.
    pub fn check(&self) -> Result<(), EmbedError> {
        self.endpoint().map(|_| ())
    }

    /// Where requests go to.
    pub(super) fn endpoint(&self) -> Result<Url, EmbedError> {
        let refused = |why: &str| Err(EmbedError::Config(why.to_owned()));
        if self.model.trim().is_empty() {
            return refused("the model has no name");
        }
        if self.dimension == Some(0) {
            return refused("a vector has at least one number (dimension)");
        }
        if self.dimension.is_some_and(|dimension| dimension > MAX_DIMENSION) {
            return refused("a vector has 65536 numbers at most (dimension)");
        }
        if self.ask_for_dimension && self.dimension.is_none() {
            return refused("it does not say which dimension to ask for");
        }
        if self.batch_texts == 0 || self.batch_bytes == 0 || self.parallel == 0 {
            return refused("batch_texts, batch_bytes and parallel are at least 1");
        }
        let base = self.base_url.as_deref().unwrap_or(self.api.default_base_url());
        let url = Url::parse(&format!("{}/{}", base.trim_end_matches('/'), self.api.path()));
        let Some(url) = url.ok().filter(|url| matches!(url.scheme(), "http" | "https")) else {
            return refused("the base URL is no http: or https: URL");
        };
        // What stands there would be shown in errors, and be part of the identity.
        if !url.username().is_empty() || url.password().is_some() {
            return refused("the base URL holds a user or a password; a key has its own place");
        }
        if base.contains(['?', '#']) {
            return refused("the base URL has a query or a fragment");
        }
        if url.scheme() == "http" && !is_loopback(&url) && !self.allow_plain_http {
            return refused(
                "the base URL is plain http: to another machine, where everybody on the way reads along; \
                 use https:, or allow it (allow_plain_http)",
            );
        }
        if self.api_key.as_ref().is_some_and(|key| !key.is_sendable()) {
            return refused("the key holds characters that no key has");
        }
        Ok(url)
    }

    /// Name and place of the model, without path or key.
    pub(super) fn identity(&self, endpoint: &Url) -> String {
        self.identity.clone().unwrap_or_else(|| {
            let (api, model) = (self.api.name(), self.model.trim());
            format!("{api}:{model}@{}", endpoint.origin().ascii_serialization())
        })
    }
}

/// Whether a URL stays on this machine.
pub(super) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// A key. It shows itself to nobody but the endpoint.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// Takes over a key.
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into())
    }

    pub(super) fn expose(&self) -> &str {
        &self.0
    }

    fn is_sendable(&self) -> bool {
        !self.0.is_empty() && self.0.bytes().all(|byte| byte.is_ascii_graphic())
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("ApiKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(base_url: &str) -> RemoteOptions {
        let base_url = Some(base_url.to_owned());
        RemoteOptions { base_url, ..RemoteOptions::new(EmbeddingApi::OpenAi, "m") }
    }

    #[test]
    fn a_place_is_checked_before_anything_is_sent() {
        let endpoint = |base: &str| options(base).endpoint().map(String::from).ok();
        assert_eq!(endpoint("https://a.b/v1").unwrap(), "https://a.b/v1/embeddings");
        assert_eq!(endpoint("https://a.b/v1//").unwrap(), "https://a.b/v1/embeddings");
        for local in
            ["http://127.0.0.1:1", "http://[::1]:1", "http://localhost:1", "http://127.8.9.1"]
        {
            assert!(endpoint(local).is_some(), "{local}");
        }
        for refused in [
            "",
            "a.b",
            "ftp://a.b",
            "http://a.b/v1",
            "http://localhost.a.b",
            "http://128.0.0.1",
            "https://user@a.b",
            "https://:key@a.b",
            "https://a.b?key=1",
            "https://a.b#x",
        ] {
            assert_eq!(endpoint(refused), None, "{refused}");
        }
        let plain = RemoteOptions { allow_plain_http: true, ..options("http://a.b") };
        assert!(plain.endpoint().is_ok());
    }

    #[test]
    fn numbers_that_cannot_work_are_refused() {
        let good = || options("https://a.b");
        for bad in [
            RemoteOptions { model: " ".to_owned(), ..good() },
            RemoteOptions { dimension: Some(0), ..good() },
            RemoteOptions { dimension: Some(99_999_999_999), ..good() },
            RemoteOptions { ask_for_dimension: true, ..good() },
            RemoteOptions { batch_texts: 0, ..good() },
            RemoteOptions { batch_bytes: 0, ..good() },
            RemoteOptions { parallel: 0, ..good() },
            RemoteOptions { api_key: Some(ApiKey::new("a\nb")), ..good() },
            RemoteOptions { api_key: Some(ApiKey::new("")), ..good() },
        ] {
            assert!(matches!(bad.endpoint(), Err(EmbedError::Config(_))), "{bad:?}");
        }
    }

    #[test]
    fn an_identity_has_the_language_the_model_and_the_host() {
        let identity = |options: RemoteOptions| options.identity(&options.endpoint().unwrap());
        let openai = RemoteOptions::new(EmbeddingApi::OpenAi, "text-embedding-3-small");
        assert_eq!(identity(openai), "openai:text-embedding-3-small@https://api.openai.com");
        let ollama = RemoteOptions::new(EmbeddingApi::Ollama, "all-minilm");
        assert_eq!(identity(ollama), "ollama:all-minilm@http://127.0.0.1:11434");
        let moved = RemoteOptions { identity: Some("mine".to_owned()), ..options("https://a.b/x") };
        assert_eq!(identity(moved), "mine");
    }

    #[test]
    fn a_key_is_not_shown() {
        let options =
            RemoteOptions { api_key: Some(ApiKey::new("sk-1")), ..options("https://a.b") };
        assert!(!format!("{options:?}").contains("sk-1"));
    }
}
