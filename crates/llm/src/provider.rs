//! A scripted provider for tests.

use std::{
    collections::VecDeque,
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderName, HeaderValue, Response, StatusCode},
};
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::AbortHandle};

/// A provider on a free loopback port that speaks OpenAI's chat completions, returns the answers of
/// a script in order, and records its requests. For tests; dropping it ends it.
///
/// ```
/// use marquetry_llm::{ChatModel, ChatRequest, Message, ModelConfig, Provider, ProviderAnswer, RemoteModel, ScriptedProvider};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let provider = ScriptedProvider::start([ProviderAnswer::text("Four.")]).await?;
/// let mut config = ModelConfig::new(Provider::Custom, "small-model");
/// config.base_url = Some(provider.base_url());
/// let answer = RemoteModel::new(config)?.chat(&ChatRequest::new([Message::user("Two and two?")])).await?;
/// assert_eq!(answer.text, "Four.");
/// assert_eq!(provider.requests()[0].body["messages"][0]["content"], "Two and two?");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct ScriptedProvider {
    address: SocketAddr,
    script: Arc<Mutex<Script>>,
    server: AbortHandle,
}

#[derive(Debug, Default)]
struct Script {
    answers: VecDeque<ProviderAnswer>,
    requests: Vec<ProviderRequest>,
}

/// A request that a provider received.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProviderRequest {
    /// The path, beginning with `/`.
    pub path: String,
    /// The headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body; null if it is not JSON.
    pub body: Value,
}

impl ProviderRequest {
    /// Returns the first header of this name, which is given in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// An answer of a script.
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderAnswer {
    kind: Kind,
    delay: Duration,
    pace: Duration,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    /// A text, in pieces if the request asks for a stream.
    Text(String),
    Http {
        status: u16,
        headers: Vec<(String, String)>,
        body: String,
    },
    /// A body that repeats a piece without end.
    Endless {
        status: u16,
        media_type: &'static str,
        piece: String,
    },
    Silence,
}

impl From<Kind> for ProviderAnswer {
    fn from(kind: Kind) -> Self {
        Self { kind, delay: Duration::ZERO, pace: Duration::ZERO }
    }
}

impl ProviderAnswer {
    /// Returns an answer of a text, with a usage of 11 input and 3 output tokens; as a stream, each
    /// word is a piece.
    pub fn text(text: impl Into<String>) -> Self {
        Kind::Text(text.into()).into()
    }

    /// Returns an answer of this status, headers and body.
    pub fn http<'a>(
        status: u16,
        headers: impl IntoIterator<Item = (&'a str, &'a str)>,
        body: impl Into<String>,
    ) -> Self {
        let headers =
            headers.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Kind::Http { status, headers, body: body.into() }.into()
    }

    /// Returns an answer with a JSON body.
    pub fn json(body: &Value) -> Self {
        Self::http(200, [("content-type", "application/json")], body.to_string())
    }

    /// Returns an error in the form of OpenAI.
    pub fn error<'a>(
        status: u16,
        headers: impl IntoIterator<Item = (&'a str, &'a str)>,
        message: &str,
    ) -> Self {
        let body = json!({"error": {"message": message, "type": "x"}});
        let json = [("content-type", "application/json")];
        Self::http(status, headers.into_iter().chain(json), body.to_string())
    }

    /// Returns a stream of these events, even if the request does not ask for a stream; `is_whole`
    /// says whether it ends properly or breaks off.
    pub fn events(events: &[Value], is_whole: bool) -> Self {
        let mut text: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        if is_whole {
            text.push_str("data: [DONE]\n\n");
        }
        Self::http(200, [("content-type", "text/event-stream")], text)
    }

    /// Returns an answer whose body repeats a piece without end.
    pub fn endless(status: u16, media_type: &'static str, piece: impl Into<String>) -> Self {
        Kind::Endless { status, media_type, piece: piece.into() }.into()
    }

    /// Returns no answer and keeps the connection open.
    pub fn silence() -> Self {
        Kind::Silence.into()
    }

    /// Delays each piece of a stream.
    #[must_use]
    pub fn paced(self, pace: Duration) -> Self {
        Self { pace, ..self }
    }

    /// Delays the answer.
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }
}

impl ScriptedProvider {
    /// Starts a provider with these answers. Further requests get an error.
    ///
    /// # Errors
    ///
    /// Returns an error if no port is free.
    pub async fn start(answers: impl IntoIterator<Item = ProviderAnswer>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let script = Script { answers: answers.into_iter().collect(), requests: Vec::new() };
        let script = Arc::new(Mutex::new(script));
        let app = Router::new().fallback(answer).with_state(script.clone());
        let serving = async move { axum::serve(listener, app).await };
        let server = tokio::spawn(serving).abort_handle();
        Ok(Self { address, script, server })
    }

    /// Returns its base URL, up to and including `/v1`.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Adds an answer to the script.
    pub fn push(&self, answer: ProviderAnswer) {
        lock(&self.script).answers.push_back(answer);
    }

    /// Returns the requests so far.
    pub fn requests(&self) -> Vec<ProviderRequest> {
        lock(&self.script).requests.clone()
    }
}

impl Drop for ScriptedProvider {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn lock(script: &Mutex<Script>) -> std::sync::MutexGuard<'_, Script> {
    script.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn answer(State(script): State<Arc<Mutex<Script>>>, request: Request) -> Response<Body> {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let is_streamed = body["stream"] == true;
    // Providers answer with the full name of a model that is requested by its short name.
    let model = format!("{}-2026", body["model"].as_str().unwrap_or_default());
    let scripted = {
        let mut script = lock(&script);
        let headers = head.headers.iter().map(|(name, value)| {
            (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        });
        let path = head.uri.path().to_owned();
        script.requests.push(ProviderRequest { path, headers: headers.collect(), body });
        script.answers.pop_front()
    };
    let answer = scripted.unwrap_or_else(|| ProviderAnswer::error(501, [], "the script has ended"));
    tokio::time::sleep(answer.delay).await;
    let (status, headers, body) = match answer.kind {
        Kind::Text(text) => {
            let answer = if is_streamed { streamed(&model, &text) } else { whole(&model, &text) };
            let Kind::Http { status, headers, body } = answer.kind else {
                unreachable!("`streamed` and `whole` return HTTP answers")
            };
            (status, headers, body)
        }
        Kind::Http { status, headers, body } => (status, headers, body),
        Kind::Endless { status, media_type, piece } => {
            let pieces = futures_util::stream::repeat(piece).map(Ok::<_, io::Error>);
            let mut response = Response::new(Body::from_stream(pieces));
            *response.status_mut() =
                StatusCode::from_u16(status).unwrap_or(StatusCode::IM_A_TEAPOT);
            let media_type = HeaderValue::from_static(media_type);
            response.headers_mut().insert("content-type", media_type);
            return response;
        }
        Kind::Silence => std::future::pending().await,
    };
    let body = if answer.pace.is_zero() {
        Body::from(body)
    } else {
        let pieces: Vec<String> = body.split_inclusive("\n\n").map(str::to_owned).collect();
        let paced = futures_util::stream::iter(pieces).then(move |piece| async move {
            tokio::time::sleep(answer.pace).await;
            Ok::<_, io::Error>(piece)
        });
        Body::from_stream(paced)
    };
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::IM_A_TEAPOT);
    for (name, value) in headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

const USAGE: (u64, u64) = (11, 3);

fn whole(model: &str, text: &str) -> ProviderAnswer {
    let (asked, answered) = USAGE;
    ProviderAnswer::json(&json!({
        "id": "c1", "object": "chat.completion", "model": model,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": asked, "completion_tokens": answered, "total_tokens": asked + answered},
    }))
}

fn streamed(model: &str, text: &str) -> ProviderAnswer {
    let (asked, answered) = USAGE;
    let pieces = text.split_inclusive(' ');
    let mut events: Vec<Value> =
        pieces.map(|piece| chunk(model, &json!({"content": piece}), &Value::Null)).collect();
    events.push(chunk(model, &json!({}), &json!("stop")));
    let usage = json!({"prompt_tokens": asked, "completion_tokens": answered});
    events.push(json!({"model": model, "choices": [], "usage": usage}));
    ProviderAnswer::events(&events, true)
}

fn chunk(model: &str, delta: &Value, finish: &Value) -> Value {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
    json!({"model": model, "choices": [choice]})
}
