//! Models behind an endpoint, over HTTP.

mod answer;
mod config;
mod retry;

use std::{error::Error as _, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::{StreamExt as _, TryStreamExt as _};
use reqwest::{
    Response, Url,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION},
};
use tokio::sync::Semaphore;

pub use self::config::{ApiKey, EmbeddingApi, RemoteOptions};
use self::{
    answer::{Question, message, shortened},
    retry::{retried, wanted_wait},
};
pub use crate::error::EndpointFailure;
use crate::{EmbedError, Embedder, EmbeddingModel, vector::normalized};

/// A model behind OpenAI's `/v1/embeddings`, or what speaks like it, or Ollama's `/api/embed`.
///
/// Texts go in batches, some of them at a time, and are sent again when the endpoint is busy; redirects are not
/// followed. What comes back is held to the model's dimension and made length 1. Text without anything but white space,
/// which endpoints refuse, gets a vector of zeros.
///
/// ```no_run
/// use marquetry_embed::{Embedder, remote::{EmbeddingApi, RemoteEmbedder, RemoteOptions}};
///
/// # async fn run() -> Result<(), marquetry_embed::EmbedError> {
/// let model = RemoteEmbedder::open(RemoteOptions::new(EmbeddingApi::Ollama, "all-minilm")).await?;
/// assert_eq!(model.model().identity, "ollama:all-minilm@http://127.0.0.1:11434");
/// let vectors = model.embed(&["Bread is made of flour and water.".to_owned()]).await?;
/// assert_eq!(vectors[0].len(), model.model().dimension);
/// # Ok(())
/// # }
/// ```
pub struct RemoteEmbedder {
    client: reqwest::Client,
    endpoint: Url,
    options: RemoteOptions,
    model: EmbeddingModel,
    /// How many more requests may be under way.
    turns: Semaphore,
}

impl RemoteEmbedder {
    /// Makes a model ready. Only if its dimension is not known, the endpoint is asked, for the vector of a short text.
    ///
    /// # Errors
    ///
    /// [`EmbedError::Config`] if something in the options cannot be right; else what [`Embedder::embed`] gives.
    pub async fn open(options: RemoteOptions) -> Result<Self, EmbedError> {
        let endpoint = options.endpoint()?;
        let client = http_client(&endpoint)?;
        let turns = Semaphore::new(options.parallel.min(Semaphore::MAX_PERMITS));
        let dimension = options.dimension.unwrap_or_default();
        let model = EmbeddingModel::new(options.identity(&endpoint), dimension);
        let mut remote = Self { client, endpoint, options, model, turns };
        if remote.model.dimension == 0 {
            let vectors = remote.request(&["dimension"]).await?;
            remote.model.dimension = vectors.first().map_or(0, Vec::len);
            if remote.model.dimension == 0 {
                let reason = "it has no vector, or one without numbers".to_owned();
                return Err(remote.failed(EndpointFailure::Malformed(reason)));
            }
        }
        Ok(remote)
    }

    /// One request with its repetitions: as many vectors as texts, as they came.
    async fn request(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let options = &self.options;
        let is_openai = options.api == EmbeddingApi::OpenAi;
        let question = Question {
            model: options.model.trim(),
            input: texts,
            dimensions: options.dimension.filter(|_| options.ask_for_dimension),
            encoding_format: is_openai.then_some("float"),
        };
        let body =
            serde_json::to_vec(&question).map_err(|error| EmbedError::Config(error.to_string()))?;
        let _turn = self.turns.acquire().await.expect("nobody closes it");
        let limit = options.timeout;
        let attempt = || async {
            match tokio::time::timeout(limit, self.attempt(body.clone())).await {
                Ok(outcome) => outcome,
                Err(_) => Err(EndpointFailure::Timeout(limit)),
            }
        };
        let vectors = retried(options, attempt).await.map_err(|failure| self.failed(failure))?;
        if vectors.len() != texts.len() {
            let model = self.model.identity.clone();
            return Err(EmbedError::Count { model, wanted: texts.len(), got: vectors.len() });
        }
        Ok(vectors)
    }

    async fn attempt(&self, body: Vec<u8>) -> Result<Vec<Vec<f32>>, EndpointFailure> {
        const JSON: HeaderValue = HeaderValue::from_static("application/json");
        let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, JSON), (ACCEPT, JSON)]);
        if let Some(key) = &self.options.api_key
            && let Ok(mut value) = HeaderValue::try_from(format!("Bearer {}", key.expose()))
        {
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let request = self.client.post(self.endpoint.clone()).headers(headers).body(body);
        let response = request.send().await.map_err(unreachable)?;
        let status = response.status().as_u16();
        if (200..300).contains(&status) {
            let kind = media_type(&response);
            let body = read(response, self.options.max_answer_bytes).await?;
            let vectors = answer::vectors(self.options.api, &body);
            return vectors.map_err(|reason| {
                // It may quote what it did not expect, however long that is.
                let mut reason = self.without_key(&reason);
                if !kind.contains("json") {
                    let kind = self.without_key(&kind);
                    reason = format!("{reason}; it is {kind}: is the base URL right?");
                }
                EndpointFailure::Malformed(reason)
            });
        }
        if (300..400).contains(&status) {
            let location = response.headers().get(LOCATION).map_or(&b""[..], |it| it.as_bytes());
            let location = self.without_key(&String::from_utf8_lossy(location));
            return Err(EndpointFailure::Redirected { status, location });
        }
        let retry_after = wanted_wait(response.headers());
        // An endpoint that fails at saying why has failed as well.
        const LONGEST_MESSAGE: usize = 64 << 10;
        let said = read(response, LONGEST_MESSAGE).await.unwrap_or_default();
        let message = self.without_key(&message(&said));
        Err(match status {
            401 | 403 => EndpointFailure::Unauthorized { status, message },
            429 => EndpointFailure::RateLimited { retry_after, message },
            // 408 and 409 are what OpenAI's own clients send again.
            408 | 409 | 500.. => EndpointFailure::Failed { status, retry_after, message },
            _ => EndpointFailure::Refused { status, message },
        })
    }

    fn failed(&self, failure: EndpointFailure) -> EmbedError {
        EmbedError::Endpoint { endpoint: self.endpoint.to_string(), failure }
    }

    /// An endpoint that repeats the key must not make us do the same.
    fn without_key(&self, text: &str) -> String {
        let text = match &self.options.api_key {
            Some(key) => text.replace(key.expose(), "…"),
            None => text.to_owned(),
        };
        shortened(&text)
    }

    /// The places of the texts of each request.
    fn batches(&self, texts: &[String]) -> Vec<Vec<usize>> {
        let mut batches: Vec<Vec<usize>> = Vec::new();
        let mut bytes = 0;
        for (place, text) in texts.iter().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
            let fits = |batch: &&mut Vec<_>| {
                batch.len() < self.options.batch_texts
                    && bytes + text.len() <= self.options.batch_bytes
            };
            match batches.last_mut().filter(fits) {
                Some(batch) => batch.push(place),
                None => {
                    bytes = 0;
                    batches.push(vec![place]);
                }
            }
            bytes += text.len();
        }
        batches
    }
}

#[async_trait]
impl Embedder for RemoteEmbedder {
    fn model(&self) -> &EmbeddingModel {
        &self.model
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let mut vectors = vec![Vec::new(); texts.len()];
        let requests = self.batches(texts).into_iter().map(|batch| async move {
            let texts: Vec<&str> = batch.iter().map(|&place| texts[place].as_str()).collect();
            let vectors = self.request(&texts).await?;
            Ok::<_, EmbedError>(batch.into_iter().zip(vectors))
        });
        let mut answers =
            futures_util::stream::iter(requests).buffer_unordered(self.options.parallel);
        while let Some(answer) = answers.try_next().await? {
            for (place, vector) in answer {
                vectors[place] = normalized(&self.model, vector)?;
            }
        }
        for vector in vectors.iter_mut().filter(|vector| vector.is_empty()) {
            *vector = vec![0.0; self.model.dimension];
        }
        Ok(vectors)
    }

    /// An estimate, as the endpoint keeps its vocabulary to itself; rather too many than too few.
    fn count_tokens(&self, text: &str) -> usize {
        estimated_tokens(text)
    }
}

/// A token for each sign and for each character that is no ASCII, and one for every four letters or digits of a word.
fn estimated_tokens(text: &str) -> usize {
    let mut tokens = 0;
    let mut word = 0_usize;
    for character in text.chars() {
        if character.is_ascii_alphanumeric() {
            word += 1;
            continue;
        }
        tokens += std::mem::take(&mut word).div_ceil(4);
        tokens += usize::from(!character.is_whitespace());
    }
    tokens + word.div_ceil(4)
}

/// An HTTP client with the TLS that the rest of Marquetry uses: ring, and Mozilla's roots rather than the system's.
fn http_client(endpoint: &Url) -> Result<reqwest::Client, EmbedError> {
    let failed = |error: &dyn std::fmt::Display| EmbedError::Config(error.to_string());
    let roots = rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let tls = rustls::ClientConfig::builder_with_provider(Arc::new(
        rustls::crypto::ring::default_provider(),
    ))
    .with_safe_default_protocol_versions()
    .map_err(|error| failed(&error))?
    .with_root_certificates(roots)
    .with_no_client_auth();
    let mut client = reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .connect_timeout(Duration::from_secs(10))
        // A key must not follow a redirect.
        .redirect(reqwest::redirect::Policy::none());
    if config::is_loopback(endpoint) {
        // What is meant for this machine does not leave it.
        client = client.no_proxy();
    }
    client.build().map_err(|error| failed(&error))
}

/// A body, as long as it is not too long.
async fn read(mut response: Response, limit: usize) -> Result<Vec<u8>, EndpointFailure> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
        if body.len() + chunk.len() > limit {
            return Err(EndpointFailure::TooLarge(limit));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn media_type(response: &Response) -> String {
    let value = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    value.unwrap_or("of no declared type").to_ascii_lowercase()
}

/// What broke, down to its cause; the first error says no more than that something did.
fn unreachable(error: reqwest::Error) -> EndpointFailure {
    let error = error.without_url();
    let mut reasons = vec![error.to_string()];
    let mut source = error.source();
    while let Some(error) = source {
        reasons.push(error.to_string());
        source = error.source();
    }
    reasons.dedup();
    EndpointFailure::Unreachable(shortened(&reasons.join(": ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_estimated() {
        for (text, expected) in [
            ("", 0),
            ("  ", 0),
            ("Bread", 2),
            ("a b", 2),
            ("don't!", 4),
            ("面包", 2),
            ("1234 5", 2),
        ] {
            assert_eq!(estimated_tokens(text), expected, "{text}");
        }
    }

    #[cfg(feature = "builtin-model")]
    #[test]
    fn tokens_are_rarely_estimated_too_few() {
        let model = crate::builtin::StaticModel::built_in();
        let text = include_str!("../../model/README.md");
        let paragraphs = || text.split("\n\n").filter(|text| text.split_whitespace().count() > 5);
        assert!(paragraphs().count() > 3);
        for text in paragraphs() {
            let (estimate, count) = (estimated_tokens(text), model.count_tokens(text));
            assert!(estimate >= count && estimate <= 2 * count, "{estimate}, not {count}: {text}");
        }
    }
}
