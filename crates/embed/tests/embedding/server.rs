//! A scripted embedding endpoint.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use marquetry_embed::remote::{ApiKey, EmbeddingApi, RemoteOptions};
use serde_json::{Value, json};

/// A key that no message may hold.
pub(crate) const KEY: &str = "sk-a-key-that-nobody-may-see";

/// Dimension of its vectors; different texts have different vectors.
pub(crate) const DIMENSION: usize = 3;

/// Sends prepared answers first, then valid ones, and records the requests.
#[derive(Clone)]
pub(crate) struct Endpoint {
    api: EmbeddingApi,
    kept: Arc<Mutex<Script>>,
}

#[derive(Default)]
struct Script {
    answers: VecDeque<Response>,
    seen: Vec<Seen>,
    delay: Duration,
    at_once: usize,
    max_at_once: usize,
}

/// A request.
#[derive(Clone)]
pub(crate) struct Seen {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Endpoint {
    pub(crate) fn new(api: EmbeddingApi, answers: impl IntoIterator<Item = Response>) -> Self {
        let kept = Script { answers: answers.into_iter().collect(), ..Script::default() };
        Self { api, kept: Arc::new(Mutex::new(kept)) }
    }

    /// An endpoint that waits before each answer.
    pub(crate) fn slow(delay: Duration) -> Self {
        let endpoint = Self::new(EmbeddingApi::OpenAi, []);
        endpoint.kept.lock().unwrap().delay = delay;
        endpoint
    }

    /// Begins to listen, and returns options that connect to it, with short waits.
    pub(crate) async fn options(&self) -> RemoteOptions {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut options = options(self.api, &listener);
        let app = Router::new().fallback(answer).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        if self.api == EmbeddingApi::OpenAi {
            options.base_url.as_mut().unwrap().push_str("/v1/");
        }
        options
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.kept.lock().unwrap().seen.clone()
    }

    pub(crate) fn max_at_once(&self) -> usize {
        self.kept.lock().unwrap().max_at_once
    }
}

/// How something that listens is reached.
pub(crate) fn options(api: EmbeddingApi, listener: &tokio::net::TcpListener) -> RemoteOptions {
    let mut options = RemoteOptions::new(api, "small-model");
    options.base_url = Some(format!("http://{}", listener.local_addr().unwrap()));
    options.api_key = Some(ApiKey::new(KEY));
    options.dimension = Some(DIMENSION);
    options.longest_wait = Duration::from_millis(10);
    options
}

async fn answer(State(endpoint): State<Endpoint>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    let (prepared, delay) = {
        let mut kept = endpoint.kept.lock().unwrap();
        let path = head.uri.path().to_owned();
        kept.seen.push(Seen { path, headers: head.headers, body: body.clone() });
        kept.at_once += 1;
        kept.max_at_once = kept.max_at_once.max(kept.at_once);
        (kept.answers.pop_front(), kept.delay)
    };
    tokio::time::sleep(delay).await;
    endpoint.kept.lock().unwrap().at_once -= 1;
    prepared.unwrap_or_else(|| {
        let texts = body["input"].as_array().unwrap();
        let vectors: Vec<_> = texts.iter().map(|text| vector(text.as_str().unwrap())).collect();
        vectors_of(endpoint.api, &vectors)
    })
}

/// A vector that is unique to the text and is not a unit vector.
pub(crate) fn vector(text: &str) -> [f32; DIMENSION] {
    let sum = text.bytes().fold(0_u32, |sum, byte| (sum * 31 + u32::from(byte)) % 1009);
    [sum as f32, text.len() as f32, 1.0]
}

/// The same, of length 1.
pub(crate) fn unit_vector(text: &str) -> Vec<f32> {
    let vector = vector(text);
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    vector.iter().map(|value| value / length).collect()
}

/// An answer with these vectors.
pub(crate) fn vectors_of(api: EmbeddingApi, vectors: &[impl serde::Serialize]) -> Response {
    let body = if api == EmbeddingApi::Ollama {
        json!({"model": "small-model", "embeddings": vectors})
    } else {
        let items = vectors.iter().enumerate();
        let item =
            |(index, vector)| json!({"object": "embedding", "index": index, "embedding": vector});
        json!({"object": "list", "data": items.map(item).collect::<Vec<_>>(), "model": "small-model"})
    };
    axum::Json(body).into_response()
}

/// An answer with this text.
pub(crate) fn says(media_type: &'static str, body: impl Into<Body>) -> Response {
    ([("content-type", media_type)], body.into()).into_response()
}

/// A failure.
pub(crate) fn fails(status: u16, headers: &[(&'static str, &str)], body: Value) -> Response {
    let mut response = (StatusCode::from_u16(status).unwrap(), axum::Json(body)).into_response();
    for (name, value) in headers {
        response.headers_mut().insert(*name, value.parse().unwrap());
    }
    response
}
