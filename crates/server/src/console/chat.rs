//! Chats in the console: their list, a conversation, an answer as it is written, and cited passages.

use std::{convert::Infallible, sync::Arc, time::Duration};

use async_trait::async_trait;
use axum::{
    Extension, Json, Router,
    body::{Body, Bytes},
    extract::{Query, State},
    http::{HeaderValue, Response, StatusCode, header},
    response::IntoResponse as _,
    routing::get,
};
use futures_util::stream::unfold;
use marquetry_knowledge::{
    Failure,
    chat::{AnswerListener, ChatArguments, ChatReply},
};
use marquetry_protocol::server::Principal;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    sync::{
        OwnedSemaphorePermit, Semaphore,
        mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    },
    task::AbortHandle,
};

use crate::knowledge::{Knowledge, code_of_failure};

/// Answers that are written to pages at the same time.
const MAX_ANSWERS: usize = 16;
/// Interval of comments to a page while the model writes nothing. Writing fails if the page has gone, and the model is
/// stopped: connections stay open after the client's writing side has ended.
const PROBE: Duration = Duration::from_millis(500);

/// - `GET /api/console/chats`: the caller's chats, and the reason why no message can be sent, if there is one.
/// - `POST /api/console/chats`: sends a message; the answer comes as events while the model writes it. A page that closes
///   the stream stops the model.
/// - `GET /api/console/chats/messages?uri=…`: the messages of a chat.
/// - `GET /api/console/chats/passage?uri=…&chunk=N`: a cited passage, if the caller may read its document now.
pub(crate) fn chat_routes(knowledge: Knowledge) -> Router {
    let chats = Chats { knowledge, answers: Arc::new(Semaphore::new(MAX_ANSWERS)) };
    Router::new()
        .route("/api/console/chats", get(list).post(send))
        .route("/api/console/chats/messages", get(messages))
        .route("/api/console/chats/passage", get(passage))
        .with_state(chats)
}

#[derive(Clone)]
struct Chats {
    knowledge: Knowledge,
    answers: Arc<Semaphore>,
}

/// The caller, if authentication is on.
type Caller = Option<Extension<Arc<Principal>>>;

fn principal(caller: &Caller) -> Option<&Principal> {
    caller.as_ref().map(|Extension(principal)| &**principal)
}

fn refused(failure: &Failure) -> Response<Body> {
    let (status, _) = code_of_failure(failure.code.as_str()).unwrap_or((500, ""));
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, Json(json!({"error": failure.message}))).into_response()
}

async fn list(State(chats): State<Chats>, caller: Caller) -> Response<Body> {
    let Chats { knowledge, .. } = &chats;
    let off = if knowledge.is_enabled() {
        knowledge.chat().check_is_on().err().map(|failure| failure.message)
    } else {
        Some("chat is off: set enabled = true in [knowledge]".to_owned())
    };
    if off.is_some() {
        return Json(json!({"off": off, "chats": [], "has_more": false})).into_response();
    }
    let found = async {
        match knowledge.service().if_there_for(principal(&caller)).await? {
            Some(access) => access.chats().await,
            None => Ok(Default::default()),
        }
    };
    match found.await {
        Ok(list) => Json(json!({"off": null, "chats": list.chats, "has_more": list.has_more}))
            .into_response(),
        Err(failure) => refused(&failure),
    }
}

#[derive(Deserialize)]
struct Named {
    uri: String,
}

async fn messages(
    State(chats): State<Chats>,
    Query(Named { uri }): Query<Named>,
    caller: Caller,
) -> Response<Body> {
    let found = async {
        let access = chats.knowledge.service().open_for(principal(&caller)).await?;
        access.conversation(&uri).await
    };
    match found.await {
        Ok(conversation) => Json(conversation).into_response(),
        Err(failure) => refused(&failure),
    }
}

#[derive(Deserialize)]
struct Cited {
    uri: String,
    chunk: u32,
}

async fn passage(
    State(chats): State<Chats>,
    Query(Cited { uri, chunk }): Query<Cited>,
    caller: Caller,
) -> Response<Body> {
    let found = async {
        let access = chats.knowledge.service().open_for(principal(&caller)).await?;
        access.cited_passage(&uri, chunk).await
    };
    match found.await {
        Ok(passage) => Json(passage).into_response(),
        Err(failure) => refused(&failure),
    }
}

/// A message to send.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewMessage {
    message: String,
    /// URI of the chat that it continues.
    chat: Option<String>,
    /// URIs of records to cite.
    #[serde(default)]
    references: Vec<String>,
    /// Tags of records to cite.
    #[serde(default)]
    tags: Vec<String>,
}

impl From<NewMessage> for ChatArguments {
    fn from(new: NewMessage) -> Self {
        Self {
            message: new.message,
            chat_request_uri: new.chat,
            data_references: Some(new.references),
            tags: Some(new.tags),
            include_history: true,
            ..Self::default()
        }
    }
}

/// Answers with the events `text` (`{text}`, the text that was added), and one of `done` (the answer) and `failed`
/// (`{error}`).
async fn send(
    State(chats): State<Chats>,
    caller: Caller,
    Json(message): Json<NewMessage>,
) -> Response<Body> {
    let Ok(permit) = chats.answers.clone().try_acquire_owned() else {
        let message =
            format!("{MAX_ANSWERS} answers are being written; try again when one has ended");
        return (StatusCode::SERVICE_UNAVAILABLE, Json(json!({"error": message}))).into_response();
    };
    let (events, received) = unbounded_channel();
    let caller = caller.map(|Extension(principal)| principal);
    let answering = tokio::spawn(answer(chats.knowledge, caller, message, Events(events)));
    let stream = AnswerStream { received, answering: answering.abort_handle(), _permit: permit };
    let parts = unfold(stream, async |mut stream| {
        let event = tokio::select! {
            event = stream.received.recv() => event?,
            () = tokio::time::sleep(PROBE) => Bytes::from_static(b": \n\n"),
        };
        Some((Ok::<_, Infallible>(event), stream))
    });
    let mut response = Response::new(Body::from_stream(parts));
    let events = HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(header::CONTENT_TYPE, events);
    response
}

async fn answer(
    knowledge: Knowledge,
    caller: Option<Arc<Principal>>,
    message: NewMessage,
    events: Events,
) {
    let id = caller.as_ref().map(|principal| principal.id());
    let replied = async {
        let access = knowledge.service().open_for(caller.as_deref()).await?;
        let chat = knowledge.chat();
        chat.say_for(&access, message.into(), id.as_deref(), Some(&events)).await
    };
    match replied.await {
        Ok(reply) => events.send("done", &done(reply)),
        Err(failure) => events.send("failed", &json!({"error": failure.message})),
    }
}

/// Returns the answer with what the model got and thought, which are shown and not stored.
fn done(reply: ChatReply) -> Value {
    let live = json!({"blocks": reply.blocks, "reasoning": reply.reasoning});
    let mut shown = serde_json::to_value(reply).expect("the answer is an object with text keys");
    for (name, value) in live.as_object().into_iter().flatten() {
        shown[name] = value.clone();
    }
    shown
}

/// An answer that is being written. Dropping it stops the model.
struct AnswerStream {
    received: UnboundedReceiver<Bytes>,
    answering: AbortHandle,
    _permit: OwnedSemaphorePermit,
}

impl Drop for AnswerStream {
    fn drop(&mut self) {
        self.answering.abort();
    }
}

/// Writes events of a stream. The channel has no limit of its own: `max_answer_bytes` limits the answer.
struct Events(UnboundedSender<Bytes>);

impl Events {
    fn send(&self, name: &str, data: &Value) {
        // A page that has gone hears nothing; its stream has stopped the model.
        let _ = self.0.send(format!("event: {name}\ndata: {data}\n\n").into());
    }
}

#[async_trait]
impl AnswerListener for Events {
    async fn heard(&self, more: &str, _: usize) {
        self.send("text", &json!({"text": more}));
    }
}
