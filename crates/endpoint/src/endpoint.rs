//! JSON requests to one URL.

use std::{error::Error as _, time::Duration};

use reqwest::{
    Client, Response, Url,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue},
};
use serde::Serialize;

use crate::{ApiKey, ClientError, EndpointFailure, RetryPolicy, displayable, http_client};

/// Maximum bytes of an error's body that are read.
const MAX_ERROR_BYTES: usize = 64 << 10;

/// A URL that takes JSON by `POST`, and how it is called.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Endpoint {
    /// The URL.
    pub url: Url,
    /// The key, sent as `Authorization: Bearer`.
    pub key: Option<ApiKey>,
    /// Time limit of one attempt, answer included; 60 s by default.
    pub timeout: Duration,
    /// The policy of retries.
    pub retry: RetryPolicy,
    /// Longest answer, in bytes; 64 MiB by default.
    pub max_answer_bytes: usize,
    client: Client,
}

/// A successful answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JsonAnswer {
    /// The header `Content-Type` in lower case; empty if it is missing. Usually `application/json`,
    /// but not checked.
    pub media_type: String,
    /// The body.
    pub body: Vec<u8>,
}

impl Endpoint {
    /// Returns an endpoint without a key, with the default limits. Nothing is sent.
    ///
    /// # Errors
    ///
    /// Returns an error if no HTTP client can be made.
    pub fn new(url: Url) -> Result<Self, ClientError> {
        Ok(Self {
            client: http_client(&url)?,
            url,
            key: None,
            timeout: Duration::from_mins(1),
            retry: RetryPolicy::default(),
            max_answer_bytes: 64 << 20,
        })
    }

    /// Returns the endpoint with a key.
    #[must_use]
    pub fn with_key(self, key: ApiKey) -> Self {
        Self { key: Some(key), ..self }
    }

    /// Sends a body as JSON, with retries, and returns the answer.
    ///
    /// # Errors
    ///
    /// Returns an error if the last attempt fails, or if the body cannot be serialised
    /// ([`EndpointFailure::Malformed`]).
    pub async fn post_json(
        &self,
        body: &(impl Serialize + ?Sized),
    ) -> Result<JsonAnswer, EndpointFailure> {
        let body = serde_json::to_vec(body)
            .map_err(|error| EndpointFailure::Malformed(format!("the request: {error}")))?;
        self.retry
            .run(|| async {
                let attempt = self.attempt(body.clone());
                let outcome = tokio::time::timeout(self.timeout, attempt).await;
                outcome.unwrap_or(Err(EndpointFailure::Timeout(self.timeout)))
            })
            .await
    }

    /// Returns the failure for an answer that the caller cannot use. The reason may quote the
    /// answer: it is shortened, and the key is redacted. If the answer is not JSON, the failure
    /// says so.
    pub fn malformed(&self, answer: &JsonAnswer, reason: &str) -> EndpointFailure {
        let reason = self.redact(reason);
        if answer.media_type.contains("json") {
            return EndpointFailure::Malformed(reason);
        }
        let media_type = match answer.media_type.as_str() {
            "" => "of no declared type".to_owned(),
            media_type => self.redact(media_type),
        };
        EndpointFailure::Malformed(format!("{reason}; it is {media_type}: is the base URL right?"))
    }

    fn redact(&self, text: &str) -> String {
        ApiKey::redact(self.key.as_ref(), text)
    }

    async fn attempt(&self, body: Vec<u8>) -> Result<JsonAnswer, EndpointFailure> {
        const JSON: HeaderValue = HeaderValue::from_static("application/json");
        let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, JSON), (ACCEPT, JSON)]);
        if let Some(key) = &self.key
            && let Ok(mut value) = HeaderValue::try_from(format!("Bearer {}", key.expose()))
        {
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let request = self.client.post(self.url.clone()).headers(headers).body(body);
        let response =
            request.send().await.map_err(|error| EndpointFailure::of_connection(error, ""))?;
        if response.status().is_success() {
            let media_type =
                response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
            let media_type = media_type.unwrap_or_default().to_ascii_lowercase();
            let body = read(response, self.max_answer_bytes).await?;
            return Ok(JsonAnswer { media_type, body });
        }
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        // The status decides, even if the body is too long or incomplete.
        let body = read(response, MAX_ERROR_BYTES).await.unwrap_or_default();
        Err(EndpointFailure::from_status(status, Some(&headers), &body, self.key.as_ref()))
    }
}

/// Reads a body of at most `limit` bytes.
async fn read(mut response: Response, limit: usize) -> Result<Vec<u8>, EndpointFailure> {
    let mut body = Vec::new();
    while let Some(chunk) =
        response.chunk().await.map_err(|error| EndpointFailure::of_connection(error, ""))?
    {
        if body.len() + chunk.len() > limit {
            return Err(EndpointFailure::TooLarge(limit));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

impl EndpointFailure {
    /// Returns the failure of a connection: [`Self::BrokenOff`] if it broke in the answer, or else
    /// [`Self::Unreachable`]. The message includes the causes of the error, since the outermost
    /// error is only "error sending request". `secret` is redacted.
    #[must_use]
    pub fn of_connection(error: reqwest::Error, secret: &str) -> Self {
        let error = error.without_url();
        let is_answering = error.is_body() || error.is_decode();
        let mut reasons = vec![error.to_string()];
        let mut source = error.source();
        while let Some(error) = source {
            reasons.push(error.to_string());
            source = error.source();
        }
        reasons.dedup();
        let reason = displayable(&reasons.join(": "), secret);
        if is_answering { Self::BrokenOff(reason) } else { Self::Unreachable(reason) }
    }
}
