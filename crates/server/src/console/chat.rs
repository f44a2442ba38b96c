//! Chats in the console: their list, a conversation, an answer as it is written, and cited
//! passages.

use std::{convert::Infallible, sync::Arc};

use async_trait::async_trait;
use axum::{
    Extension, Json, Router,
    body::{Body, Bytes},
    extract::{Query, State},
    http::{Extensions, Response, StatusCode},
    response::IntoResponse as _,
    routing::get,
};
use futures_util::stream::unfold;
use marquetry_chat::{AnswerListener, ChatArguments, ChatReply, chats, conversation};
use marquetry_knowledge::Failure;
use marquetry_protocol::{
    RpcError,
    server::{DirectCall, Peer, Principal, Server, http::ConnectionInfo},
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::AbortHandle,
};

use crate::{
    events::{self, Heartbeat},
    knowledge::{Knowledge, code_of_failure},
};

/// - `GET /api/console/chats`: the caller's chats, and the reason why no message can be sent, if
///   there is one.
/// - `POST /api/console/chats`: sends a message; the answer comes as events while the model writes
///   it. A page that closes the stream stops the model.
/// - `GET /api/console/chats/messages?uri=…`: the messages of a chat.
/// - `GET /api/console/chats/passage?uri=…&chunk=N`: a cited passage, if the caller may read its
///   document now.
///
/// Answers count among the requests in flight of `server`.
pub(crate) fn chat_routes(server: Server, knowledge: Knowledge) -> Router {
    Router::new()
        .route("/api/console/chats", get(list).post(send))
        .route("/api/console/chats/messages", get(messages))
        .route("/api/console/chats/passage", get(passage))
        .with_state(Chats { server, knowledge })
}

#[derive(Clone)]
struct Chats {
    server: Server,
    knowledge: Knowledge,
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

async fn list(State(state): State<Chats>, caller: Caller) -> Response<Body> {
    let Chats { knowledge, .. } = &state;
    let off = if knowledge.is_enabled() {
        knowledge.chat().check_is_on().err().map(|failure| failure.message)
    } else {
        Some("chat is off: set enabled = true in [knowledge]".to_owned())
    };
    if off.is_some() {
        return Json(json!({"off": off, "chats": [], "has_more": false})).into_response();
    }
    let found = async {
        match knowledge.service().open_existing_for(principal(&caller)).await? {
            Some(access) => chats(&access).await,
            None => Ok(Default::default()),
        }
    };
    match found.await {
        Ok(list) => Json(json!({"off": null, "chats": list.chats, "has_more": list.has_more}))
            .into_response(),
        Err(failure) => refused(&failure),
    }
}

/// The chat to read.
#[derive(Deserialize)]
struct ChatQuery {
    uri: String,
}

async fn messages(
    State(state): State<Chats>,
    Query(ChatQuery { uri }): Query<ChatQuery>,
    caller: Caller,
) -> Response<Body> {
    let found = async {
        let access = state.knowledge.service().open_for(principal(&caller)).await?;
        conversation(&access, &uri).await
    };
    match found.await {
        Ok(conversation) => Json(conversation).into_response(),
        Err(failure) => refused(&failure),
    }
}

/// The passage to read.
#[derive(Deserialize)]
struct PassageQuery {
    /// URI of the document.
    uri: String,
    /// Index of the passage, from 0.
    chunk: u32,
}

async fn passage(
    State(state): State<Chats>,
    Query(PassageQuery { uri, chunk }): Query<PassageQuery>,
    caller: Caller,
) -> Response<Body> {
    let found = async {
        let access = state.knowledge.service().open_for(principal(&caller)).await?;
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

/// Answers with these events:
///
/// - `started` (`{chatRequestUri}`) once the message is stored in the chat,
/// - `text` (`{text}`, the text that was added) while the model writes,
/// - `answered` (`{}`) once the answer is stored,
/// - `done` (the answer) or `failed` (`{error}`) at the end.
async fn send(
    State(state): State<Chats>,
    caller: Caller,
    extensions: Extensions,
    Json(message): Json<NewMessage>,
) -> Response<Body> {
    let principal = caller.map(|Extension(principal)| principal);
    let peer = Peer::over_http(principal.clone(), &extensions);
    let call = match state.server.direct_call(peer).await {
        Ok(call) => Arc::new(call),
        Err(full) => {
            let error = Json(json!({"error": full.message}));
            return (StatusCode::TOO_MANY_REQUESTS, error).into_response();
        }
    };
    let (sender, received) = unbounded_channel();
    let events = EventSender(sender);
    let answering = answer(call.clone(), state.knowledge, principal, message, events);
    let stream = AnswerStream {
        received,
        heartbeat: Heartbeat::new(extensions.get::<ConnectionInfo>().cloned()),
        answering: tokio::spawn(answering).abort_handle(),
        _call: call,
    };
    let parts = unfold(stream, async |mut stream| {
        let event = tokio::select! {
            event = stream.received.recv() => event?,
            () = stream.heartbeat.due() => events::KEEP_ALIVE_COMMENT,
        };
        Some((Ok::<_, Infallible>(event), stream))
    });
    events::response(Body::from_stream(parts))
}

/// Lets the model answer, and sends the events of the answer.
async fn answer(
    call: Arc<DirectCall>,
    knowledge: Knowledge,
    principal: Option<Arc<Principal>>,
    message: NewMessage,
    events: EventSender,
) {
    let id = principal.as_ref().map(|principal| principal.id());
    let reply = async {
        let access = knowledge.service().open_for(principal.as_deref()).await?;
        let chat = knowledge.chat();
        let reply = chat.say_for(&access, message.into(), id.as_deref(), Some(&events)).await?;
        Ok::<_, RpcError>(reply)
    };
    // A panic and the end of the server are errors.
    match Box::pin(call.run("console/chats", |_| reply)).await {
        Ok(reply) => events.send("done", &done(reply)),
        Err(error) => events.send("failed", &json!({"error": error.message})),
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
    heartbeat: Heartbeat,
    answering: AbortHandle,
    /// Keeps the request in flight until the page has read the answer.
    _call: Arc<DirectCall>,
}

impl Drop for AnswerStream {
    fn drop(&mut self) {
        self.answering.abort();
    }
}

/// Writes events of a stream. The channel has no limit of its own: `max_answer_bytes` limits the
/// answer.
struct EventSender(UnboundedSender<Bytes>);

impl EventSender {
    fn send(&self, name: &str, data: &Value) {
        // A page that has gone hears nothing; its stream has stopped the model.
        let _ = self.0.send(events::event(name, data));
    }
}

#[async_trait]
impl AnswerListener for EventSender {
    async fn stored(&self, chat_request_uri: &str) {
        self.send("started", &json!({"chatRequestUri": chat_request_uri}));
    }

    async fn answer_extended(&self, more: &str, _: usize) {
        self.send("text", &json!({"text": more}));
    }

    async fn answer_stored(&self) {
        self.send("answered", &json!({}));
    }
}
