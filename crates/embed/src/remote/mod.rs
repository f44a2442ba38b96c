//! Models behind an HTTP endpoint.

mod answer;
mod config;

use async_trait::async_trait;
use futures_util::{StreamExt as _, TryStreamExt as _};
use marquetry_endpoint::Endpoint;
pub use marquetry_endpoint::{ApiKey, EndpointFailure};
use tokio::sync::Semaphore;

use self::answer::EmbeddingRequest;
pub use self::config::{EmbeddingApi, RemoteOptions};
use crate::{EmbedError, Embedder, EmbeddingModel, vector::normalized};

/// A model behind OpenAI's `/v1/embeddings`, a compatible service, or Ollama's `/api/embed`.
///
/// Texts are sent in batches, a few in flight at a time, with retries while the endpoint is busy;
/// redirects are not followed. Vectors are checked against the model's dimension and normalised to
/// length 1. Blank texts, which endpoints refuse, are not sent and get a vector of zeros.
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
    endpoint: Endpoint,
    options: RemoteOptions,
    model: EmbeddingModel,
    /// Limits the requests in flight to [`RemoteOptions::parallel`].
    turns: Semaphore,
}

impl RemoteEmbedder {
    /// Opens a model. Calls the endpoint only if [`RemoteOptions::dimension`] is not set: it embeds
    /// a short text then.
    ///
    /// # Errors
    ///
    /// Returns an error if an option is not valid ([`EmbedError::Config`]), or the call fails.
    pub async fn open(options: RemoteOptions) -> Result<Self, EmbedError> {
        let endpoint = options.endpoint()?;
        let turns = Semaphore::new(options.parallel.min(Semaphore::MAX_PERMITS));
        let dimension = options.dimension.unwrap_or_default();
        let model = EmbeddingModel::new(options.identity(&endpoint), dimension);
        let mut remote = Self { endpoint, options, model, turns };
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

    /// Sends one request, with retries. Returns one vector for each text, not yet normalised.
    async fn request(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let options = &self.options;
        let is_openai = options.api == EmbeddingApi::OpenAi;
        let request = EmbeddingRequest {
            model: options.model.trim(),
            input: texts,
            dimensions: options.dimension.filter(|_| options.ask_for_dimension),
            encoding_format: is_openai.then_some("float"),
        };
        let _turn = self.turns.acquire().await.expect("the semaphore is never closed");
        let answer = self.endpoint.post_json(&request).await;
        let vectors = answer
            .and_then(|answer| {
                answer::vectors(options.api, &answer.body)
                    .map_err(|reason| self.endpoint.malformed(&answer, &reason))
            })
            .map_err(|failure| self.failed(failure))?;
        if vectors.len() != texts.len() {
            let model = self.model.identity.clone();
            return Err(EmbedError::Count { model, wanted: texts.len(), got: vectors.len() });
        }
        Ok(vectors)
    }

    fn failed(&self, failure: EndpointFailure) -> EmbedError {
        EmbedError::Endpoint { endpoint: self.endpoint.url.to_string(), failure }
    }

    /// Returns the indices of the texts of each request. Blank texts are left out.
    fn batches(&self, texts: &[String]) -> Vec<Vec<usize>> {
        let mut batches: Vec<Vec<usize>> = Vec::new();
        let mut bytes = 0;
        for (index, text) in texts.iter().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
            let has_room = bytes + text.len() <= self.options.batch_bytes;
            if let Some(batch) = batches.last_mut()
                && has_room
                && batch.len() < self.options.batch_texts
            {
                batch.push(index);
            } else {
                bytes = 0;
                batches.push(vec![index]);
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
            let texts: Vec<&str> = batch.iter().map(|&index| texts[index].as_str()).collect();
            let vectors = self.request(&texts).await?;
            Ok::<_, EmbedError>(batch.into_iter().zip(vectors))
        });
        let mut answers =
            futures_util::stream::iter(requests).buffer_unordered(self.options.parallel);
        while let Some(answer) = answers.try_next().await? {
            for (index, vector) in answer {
                vectors[index] = normalized(&self.model, vector)?;
            }
        }
        for vector in vectors.iter_mut().filter(|vector| vector.is_empty()) {
            *vector = vec![0.0; self.model.dimension];
        }
        Ok(vectors)
    }

    /// Estimates the number, because the vocabulary is unknown; rarely too low.
    fn count_tokens(&self, text: &str) -> usize {
        estimated_tokens(text)
    }
}

/// Counts a token for each sign and each character beyond ASCII, and one for every four letters or
/// digits of a word.
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
        let paragraphs: Vec<&str> =
            text.split("\n\n").filter(|text| text.split_whitespace().count() > 5).collect();
        assert!(paragraphs.len() > 3);
        for text in paragraphs {
            let estimate = estimated_tokens(text);
            let count = model.count_tokens(text);
            assert!(estimate >= count && estimate <= 2 * count, "{estimate}, not {count}: {text}");
        }
    }
}
