//! HTTP+SSE, the transport of 2024-11-05: a GET opens a stream, which names the address for messages.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use http::{HeaderMap, Method, Request as HttpRequest, StatusCode};
use http_body::Body;
use tokio_util::sync::CancellationToken;

use super::{
    authentication::principal,
    body::ResponseBody,
    endpoint::{
        HttpOptions, Response, empty, events, is_json, not_allowed, read_body, refused, session_id,
    },
};
use crate::server::{
    Principal, Server, channel::Channel, conversation::Conversation, principal::is_same,
};

/// A server's endpoints for HTTP+SSE, cheap to clone: one for streams, one for messages.
///
/// Clients of today use Streamable HTTP, which [`HttpEndpoint`](super::HttpEndpoint) serves.
#[derive(Clone)]
pub struct LegacySseEndpoint {
    inner: Arc<Inner>,
}

struct Inner {
    server: Server,
    options: HttpOptions,
    /// Where messages go: the path that the stream names.
    messages_path: String,
    open: Mutex<HashMap<Arc<str>, Arc<Channel>>>,
}

impl LegacySseEndpoint {
    /// The endpoints of `server`; messages are posted to `messages_path`, for example `/messages`.
    #[must_use]
    pub fn new(server: Server, options: HttpOptions, messages_path: impl Into<String>) -> Self {
        let messages_path = messages_path.into();
        Self { inner: Arc::new(Inner { server, options, messages_path, open: Mutex::default() }) }
    }

    /// Answers a request for a stream.
    pub fn stream<'a, B>(
        &'a self,
        request: &HttpRequest<B>,
    ) -> impl Future<Output = Response> + Send + use<'a, B> {
        let (method, headers) = (request.method().clone(), request.headers().clone());
        async move { self.open(&method, &headers).await }
    }

    async fn open(&self, method: &Method, headers: &HeaderMap) -> Response {
        if let Err(refusal) = self.inner.options.guard.check(headers) {
            return refused(StatusCode::FORBIDDEN, refusal);
        }
        let principal = match principal(self.inner.options.authenticator.as_ref(), headers).await {
            Ok(principal) => principal,
            Err(denied) => return *denied,
        };
        if method != Method::GET {
            return not_allowed("GET");
        }
        let Some(id) = session_id() else {
            return refused(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the system gives no random numbers",
            );
        };
        let limits = self.inner.server.limits();
        let time_left = principal.as_deref().and_then(Principal::time_left);
        let conversation = Conversation::new(Some(id.clone()), limits.max_in_flight).of(principal);
        let (stream, messages) = Channel::of(self.inner.server.clone(), conversation);
        let stream = Arc::new(stream);
        {
            let mut open = self.inner.open.lock().unwrap_or_else(PoisonError::into_inner);
            if open.len() >= limits.max_sessions {
                let most = limits.max_sessions;
                return refused(
                    StatusCode::SERVICE_UNAVAILABLE,
                    format!("more than {most} streams are open"),
                );
            }
            open.insert(id.clone(), stream.clone());
        }
        let gone = CancellationToken::new();
        let (endpoint, left, key) = (self.clone(), gone.clone(), id.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = left.cancelled() => {}
                () = endpoint.inner.server.shared.shutdown.cancelled() => {}
            }
            // The stream is the session: without it there is nobody to answer.
            endpoint.inner.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
            stream.conversation.end();
        });
        let first =
            format!("event: endpoint\ndata: {}?sessionId={id}\n\n", self.inner.messages_path);
        let body = ResponseBody::events(None, messages, Some(gone.drop_guard())).after(first);
        events(body.within(time_left))
    }

    /// Takes a message.
    pub async fn message<B>(&self, request: HttpRequest<B>) -> Response
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if let Err(refusal) = self.inner.options.guard.check(request.headers()) {
            return refused(StatusCode::FORBIDDEN, refusal);
        }
        let authenticator = self.inner.options.authenticator.as_ref();
        let principal = match principal(authenticator, request.headers()).await {
            Ok(principal) => principal,
            Err(denied) => return *denied,
        };
        if request.method() != Method::POST {
            return not_allowed("POST");
        }
        if !is_json(request.headers()) {
            return refused(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "content-type must be application/json",
            );
        }
        let stream = request.uri().query().and_then(|query| {
            let id = query.split('&').find_map(|pair| pair.strip_prefix("sessionId="))?;
            self.inner.open.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
        });
        let is_theirs = |stream: &Arc<Channel>| {
            is_same(stream.conversation.principal.as_deref(), principal.as_deref())
        };
        let Some(stream) = stream.filter(is_theirs) else {
            return refused(StatusCode::NOT_FOUND, "there is no such stream; it may have ended");
        };
        let limits = self.inner.server.limits();
        let body = request.into_body();
        let bytes = match read_body(body, limits.max_message_bytes, self.inner.options.body_timeout)
            .await
        {
            Ok(bytes) => bytes,
            Err(response) => return *response,
        };
        // Every answer, one to what is no message included, comes on the stream.
        stream.take_from(principal.as_ref(), &bytes).await;
        empty(StatusCode::ACCEPTED)
    }
}
