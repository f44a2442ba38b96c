//! HTTP+SSE, the transport of 2024-11-05: a GET opens a stream, whose first event names the path
//! for messages.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use http::{Method, Request as HttpRequest, StatusCode, request::Parts};
use http_body::Body;
use tokio_util::sync::CancellationToken;

use super::{
    authentication::principal,
    body::{BodyEnd, ResponseBody},
    endpoint::{Client, HttpOptions, is_json, read_body, session_id},
    guard::Refusal,
    response::{Response, empty, events, not_allowed, refused, retry_later},
};
use crate::{Peer, Principal, Server, channel::Channel, conversation::Conversation};

/// Endpoints for HTTP+SSE, cheap to clone: one for streams, one for messages.
///
/// Current clients use Streamable HTTP, which [`HttpEndpoint`](super::HttpEndpoint) serves.
///
/// A stream is a session, and counts among the sessions of its caller
/// ([`Limits::max_sessions_per_caller`](crate::Limits::max_sessions_per_caller)). At the limit, a
/// new stream ends the caller's Streamable HTTP session that was idle for the longest. It never
/// ends another stream, because an open stream is in use. If no session of the caller is idle, the
/// new stream is refused with status 503, and the error names the limit.
#[derive(Clone)]
pub struct LegacySseEndpoint {
    shared: Arc<LegacyShared>,
    /// The path for messages, which the stream names.
    messages_path: Arc<str>,
}

struct LegacyShared {
    server: Server,
    options: HttpOptions,
    open: Mutex<HashMap<Arc<str>, Arc<Channel>>>,
}

impl LegacySseEndpoint {
    /// Creates the endpoints of `server`; clients post messages to `messages_path`, for example
    /// `/messages`.
    #[must_use]
    pub fn new(server: Server, options: HttpOptions, messages_path: impl Into<String>) -> Self {
        let messages_path = messages_path.into().into();
        let shared = Arc::new(LegacyShared { server, options, open: Mutex::default() });
        Self { shared, messages_path }
    }

    /// Returns the same endpoints with another path for messages, such as that of a router nested
    /// under a path.
    #[must_use]
    pub fn with_messages_path(&self, messages_path: impl Into<String>) -> Self {
        Self { shared: self.shared.clone(), messages_path: messages_path.into().into() }
    }

    /// Answers a request for a stream.
    pub fn stream<'a, B>(
        &'a self,
        request: &HttpRequest<B>,
    ) -> impl Future<Output = Response> + Send + use<'a, B> {
        let (mut head, ()) = HttpRequest::new(()).into_parts();
        head.method.clone_from(request.method());
        head.uri.clone_from(request.uri());
        head.version = request.version();
        head.headers.clone_from(request.headers());
        head.extensions.clone_from(request.extensions());
        let checked = self.shared.options.guard.check_request(request);
        async move { self.open(head, checked).await }
    }

    async fn open(&self, head: Parts, checked: Result<(), Refusal>) -> Response {
        if let Err(refusal) = checked {
            return refused(StatusCode::FORBIDDEN, refusal);
        }
        let principal = match principal(self.shared.options.authenticator.as_ref(), &head).await {
            Ok(principal) => principal,
            Err(denied) => return *denied,
        };
        if head.method != Method::GET {
            return not_allowed("GET");
        }
        let Some(id) = session_id() else {
            return refused(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the system gives no random numbers",
            );
        };
        let limits = self.shared.server.limits();
        let client = Client::new(principal, &Arc::new(head));
        let shares = &self.shared.server.shared.shares;
        let slot = match shares.sessions.enter(&client.peer.caller) {
            Ok(slot) => slot,
            Err(full) => return retry_later(refused(StatusCode::SERVICE_UNAVAILABLE, full)),
        };
        let time_left = client.principal().and_then(Principal::time_left);
        let conversation =
            Conversation::new(Some(id.clone()), limits.max_in_flight).of_peer(&client.peer);
        // Each message has its own head; the head of the stream must not stay in memory as long as
        // the stream.
        let peer = Peer { http: None, ..client.peer.clone() };
        let (stream, messages) = Channel::of(self.shared.server.clone(), conversation, peer);
        let stream = Arc::new(stream);
        self.open_streams().insert(id.clone(), stream.clone());
        let gone = CancellationToken::new();
        let endpoint = self.clone();
        let left = gone.clone();
        let key = id.clone();
        tokio::spawn(async move {
            let _slot = slot;
            tokio::select! {
                () = left.cancelled() => {}
                () = endpoint.shared.server.shared.shutdown.cancelled() => {}
            }
            // The stream is the session: without it, answers have no receiver.
            endpoint.open_streams().remove(&key);
            stream.conversation.end();
        });
        let first = format!("event: endpoint\ndata: {}?sessionId={id}\n\n", self.messages_path);
        let end = BodyEnd { _on_drop: Some(gone.drop_guard()), until_answered: false };
        let body = ResponseBody::events(None, messages, end).after(first).within(time_left);
        events(body.probing(client.connection.as_ref()))
    }

    /// Handles a posted message.
    pub async fn message<B>(&self, request: HttpRequest<B>) -> Response
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if let Err(refusal) = self.shared.options.guard.check_request(&request) {
            return refused(StatusCode::FORBIDDEN, refusal);
        }
        let (head, body) = request.into_parts();
        let authenticator = self.shared.options.authenticator.as_ref();
        let principal = match principal(authenticator, &head).await {
            Ok(principal) => principal,
            Err(denied) => return *denied,
        };
        if head.method != Method::POST {
            return not_allowed("POST");
        }
        if !is_json(&head.headers) {
            return refused(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "content-type must be application/json",
            );
        }
        let stream = head.uri.query().and_then(|query| {
            let id = query.split('&').find_map(|pair| pair.strip_prefix("sessionId="))?;
            self.open_streams().get(id).cloned()
        });
        let Some(stream) = stream.filter(|stream| {
            Principal::is_same(stream.conversation.principal.as_deref(), principal.as_deref())
        }) else {
            return refused(StatusCode::NOT_FOUND, "unknown stream; it may have ended");
        };
        let client = Client::new(principal, &Arc::new(head));
        let LegacyShared { server, options, .. } = &*self.shared;
        let received = match read_body(body, server, options, &client.peer).await {
            Ok(received) => received,
            Err(response) => return *response,
        };
        // Every answer is sent on the stream, including errors about invalid messages.
        stream.take_from(&client.peer, received.bytes()).await;
        empty(StatusCode::ACCEPTED)
    }

    fn open_streams(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<Channel>>> {
        self.shared.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
