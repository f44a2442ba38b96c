//! A URL of a server: requests and their answers.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request as HttpRequest, Response, StatusCode, Uri,
    header,
};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::client::legacy::Client as HyperClient;
use marquetry_protocol_callers::in_place;
use marquetry_protocol_wire::{Era, Message, Revision, RpcError, envelope};
use marquetry_redact::url_without_secrets;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    address::resolved,
    body::{self, Body, WholeError},
    headers::{Marks, standard_headers},
    session::{Session, SessionStatus, is_temporary},
};
use crate::{
    answer_memory::AnswerCount,
    authorizer::{Authorizer, Refusal},
    error::{ClientError, ProtocolError},
    network::Connector,
    shared::{Outgoing, Shared, each},
    unreached::Unreached,
};

/// A URL of a server, with its session.
pub(super) struct Endpoint {
    pub(super) shared: Arc<Shared>,
    pub(super) client: HyperClient<Connector, Full<Bytes>>,
    pub(super) uri: Uri,
    /// The URI for messages, without secrets.
    pub(super) shown: String,
    pub(super) headers: HeaderMap,
    pub(super) session: Session,
    pub(super) authorizer: Option<Arc<dyn Authorizer>>,
    pub(super) marks: Marks,
    pub(super) max_message_bytes: usize,
    /// Maximum number of consecutive attempts to resume a broken stream without a new event.
    pub(super) max_reconnects: usize,
}

/// Marks a request that is sent again if the connection breaks before the answer.
#[derive(Clone)]
struct Repeatable;

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const EVENTS: &str = "text/event-stream";

impl Endpoint {
    /// Returns another URL of the same server, with the same headers and a session of its own.
    pub(super) fn at(&self, uri: Uri) -> Self {
        Self {
            shared: self.shared.clone(),
            client: self.client.clone(),
            shown: url_without_secrets(&uri.to_string()),
            uri,
            headers: self.headers.clone(),
            session: Session::default(),
            authorizer: self.authorizer.clone(),
            marks: Marks::default(),
            max_message_bytes: self.max_message_bytes,
            max_reconnects: self.max_reconnects,
        }
    }

    /// Builds the head of a request. The configured headers replace ours, except for those of the
    /// protocol.
    pub(super) fn head(&self, method: Method, revision: Revision) -> http::request::Builder {
        let mut head = HttpRequest::builder().method(method).uri(&self.uri);
        if let Some(headers) = head.headers_mut() {
            let agent = HeaderValue::from_static(concat!("marquetry/", env!("CARGO_PKG_VERSION")));
            headers.insert(header::USER_AGENT, agent);
            headers.insert(header::ACCEPT_ENCODING, body::ACCEPTED);
            headers.extend(self.headers.clone());
            headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(revision.as_str()));
            if let (Era::Session, Some(session)) = (revision.era(), self.session.id()) {
                headers.insert(SESSION_ID, session);
            }
        }
        head
    }

    pub(super) fn post(&self, revision: Revision, message: Vec<u8>) -> HttpRequest<Full<Bytes>> {
        let mut request = self
            .head(Method::POST, revision)
            .body(Full::new(message.into()))
            .expect("method, URI and headers were checked when the link was made");
        // Some servers refuse a request that has one of these twice (415, official TypeScript SDK).
        for (name, value) in [
            (header::CONTENT_TYPE, "application/json"),
            (header::ACCEPT, "application/json, text/event-stream"),
        ] {
            request.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
        }
        request
    }

    /// Sends a request, signed if there is an authorizer. A demand for authorization is returned as
    /// an error. A redirect that keeps method and body (307, 308) is followed within the same
    /// origin; our headers must not reach other origins.
    pub(super) async fn send(
        &self,
        mut request: HttpRequest<Full<Bytes>>,
    ) -> Result<Response<Incoming>, ClientError> {
        const MAX_REDIRECTS: usize = 5;
        for _ in 0..MAX_REDIRECTS {
            let response = self.send_to(request.clone()).await?;
            if !matches!(
                response.status(),
                StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT
            ) {
                return Ok(response);
            }
            let location = response.headers().get(header::LOCATION);
            let location = location.and_then(|location| location.to_str().ok()).unwrap_or_default();
            *request.uri_mut() = resolved(request.uri(), location)
                .map_err(|why| ProtocolError::Redirect { url: self.shown.clone(), problem: why })?;
        }
        let url = self.shown.clone();
        Err(ProtocolError::TooManyRedirects { url, limit: MAX_REDIRECTS }.into())
    }

    async fn send_to(
        &self,
        request: HttpRequest<Full<Bytes>>,
    ) -> Result<Response<Incoming>, ClientError> {
        let Some(authorizer) = &self.authorizer else {
            let response = self.send_as_it_is(request).await?;
            return self.unless_refused(response, None).await;
        };
        let mut again = true;
        loop {
            let (mut parts, body) = request.clone().into_parts();
            authorizer.sign(&mut parts).await?;
            let presented = parts.headers.get(header::AUTHORIZATION).cloned();
            let response = self.send_as_it_is(HttpRequest::from_parts(parts, body)).await?;
            let should_retry =
                authorizer.on_response(request.uri(), response.status(), response.headers());
            if !(should_retry && std::mem::take(&mut again)) {
                return self.unless_refused(response, presented).await;
            }
        }
    }

    async fn unless_refused(
        &self,
        response: Response<Incoming>,
        presented: Option<HeaderValue>,
    ) -> Result<Response<Incoming>, ClientError> {
        match Refusal::of(response.status(), response.headers(), presented) {
            None => Ok(response),
            Some(mut refusal) => {
                let status = response.status();
                if let ClientError::Http { body, .. } =
                    http_error(status, &self.beginning(response).await?)
                {
                    refusal.body = body;
                }
                Err(ClientError::Unauthorized(Box::new(refusal)))
            }
        }
    }

    async fn send_as_it_is(
        &self,
        request: HttpRequest<Full<Bytes>>,
    ) -> Result<Response<Incoming>, ClientError> {
        let again = request.extensions().get::<Repeatable>().map(|_| request.clone());
        let sent = match (self.client.request(request).await, again) {
            // The server may have closed the connection, which was idle, at the same time.
            (Err(error), Some(again)) if !error.is_connect() => self.client.request(again).await,
            (sent, _) => sent,
        };
        sent.map_err(|error| {
            ClientError::io(format!("cannot reach {}", self.shown), Unreached::of(&error))
        })
    }

    pub(super) async fn exchange(
        self: &Arc<Self>,
        revision: Revision,
        outgoing: &Outgoing<'_>,
    ) -> Result<Box<RawValue>, ClientError> {
        let mut renewed = false;
        let answer = loop {
            let request = self.request(revision, outgoing)?;
            let used = request.headers().get(SESSION_ID).cloned();
            let sent = self.send(request).await;
            if let Some(used) = used.as_ref().filter(|_| self.may_mean_session(&sent)) {
                if renewed {
                    self.session.set_renewed_in_vain();
                } else if !self.session.was_renewed_in_vain() {
                    renewed = self.renew_if_lost(revision, used).await?;
                    if renewed {
                        continue;
                    }
                }
            }
            let response = sent?;
            let lost = used.filter(|_| response.status() == StatusCode::NOT_FOUND);
            let Some(lost) = lost else { break self.answer(revision, response, outgoing).await? };
            // Some servers mean the request by a 404, others forget a session at once.
            if renewed || self.session.has_ambiguous_404() {
                let session = self.session_status(revision).await?;
                if session == SessionStatus::Open {
                    self.session.set_ambiguous_404();
                }
                // An unknown session that is not new is replaced: the request might never succeed
                // in it.
                let fails_alone = match session {
                    SessionStatus::Open => true,
                    SessionStatus::Lost => false,
                    SessionStatus::Unknown(_) => renewed || session.is_temporary(),
                };
                if fails_alone {
                    let answer = self.answer(revision, response, outgoing).await;
                    break answer.map_err(|error| refused_alone(error, session))?;
                }
            }
            if std::mem::replace(&mut renewed, true) {
                return Err(self.session_is_lost("it forgets sessions at once"));
            }
            self.renew(revision, &lost).await?;
        };
        if revision.era() == Era::Session {
            self.session.remember(outgoing.method, outgoing.params);
        }
        Ok(answer)
    }

    /// Returns whether a refusal may mean the session, though its status is not 404, with which
    /// servers must say that (2025-11-25, "Session Management"). Others say it with 400, 401 (older
    /// versions of `rmcp`), 410 or 422. A challenge means the token instead, if another can be got.
    fn may_mean_session(&self, sent: &Result<Response<Incoming>, ClientError>) -> bool {
        match sent {
            Ok(response) => {
                let status = response.status();
                status.is_client_error() && status != StatusCode::NOT_FOUND && !is_temporary(status)
            }
            Err(ClientError::Unauthorized(refusal)) => {
                refusal.challenges.is_empty() || self.authorizer.is_none()
            }
            Err(_) => false,
        }
    }

    /// Builds a request for the revision.
    pub(super) fn request(
        &self,
        revision: Revision,
        outgoing: &Outgoing<'_>,
    ) -> Result<HttpRequest<Full<Bytes>>, ClientError> {
        let message = envelope::write_request(&outgoing.id, outgoing.method, outgoing.params);
        let mut request = self.post(revision, message);
        // A tool must not be called twice.
        if outgoing.method != "tools/call" && !outgoing.method.starts_with("tasks/") {
            request.extensions_mut().insert(Repeatable);
        }
        match revision.era() {
            Era::Stateless => standard_headers(request.headers_mut(), outgoing, &self.marks)?,
            // There is neither a session nor a revision yet.
            Era::Session if outgoing.method == "initialize" => {
                request.headers_mut().remove(PROTOCOL_VERSION);
                request.headers_mut().remove(SESSION_ID);
            }
            Era::Session => {}
        }
        Ok(request)
    }

    /// Returns the result in a response, from its body or from its stream.
    pub(super) async fn answer(
        self: &Arc<Self>,
        revision: Revision,
        response: Response<Incoming>,
        outgoing: &Outgoing<'_>,
    ) -> Result<Box<RawValue>, ClientError> {
        let status = response.status();
        if outgoing.method == "initialize" {
            self.session.begin(response.headers().get(SESSION_ID).cloned(), outgoing.params);
        }
        if status.is_success() && is_events(&response) {
            return self.answer_from_events(revision, response, outgoing).await;
        }
        let memory = AnswerCount::new(outgoing.own.memory.as_ref());
        let is_page = status.is_success() && has_type(&response, "text/html");
        let target = redirect_target(&response);
        let body = self.whole(response, memory).await?;
        let mut answer = None;
        let mut fault = None;
        in_place(body.len(), || {
            each(&body, |message| match message {
                Ok(Message::Response(found))
                    if found.id.as_ref().is_none_or(|id| *id == outgoing.id) =>
                {
                    answer = Some((found.id.is_some(), found.outcome.map(ToOwned::to_owned)));
                }
                Ok(message) => self.handle_message(revision, message, Some(outgoing)),
                Err(error) => fault = Some(error),
            });
        });
        match (answer, fault) {
            (Some((_, Ok(result))), _) if status.is_success() => Ok(result),
            // An error without an id comes from the endpoint, not from the method.
            (Some((has_id, Err(error))), _) if has_id || status.is_success() => {
                Err(ClientError::Rpc(error))
            }
            _ if let Some(target) = target => {
                let body = format!("it redirects to {target}");
                Err(ClientError::Http { status: status.as_u16(), body })
            }
            _ if !status.is_success() => Err(http_error(status, &body)),
            _ if is_page => Err(ProtocolError::WebPage.into()),
            (_, Some(error)) => Err(ProtocolError::Message(error.to_string()).into()),
            _ => Err(ProtocolError::NoAnswer.into()),
        }
    }

    pub(super) async fn whole(
        &self,
        response: Response<Incoming>,
        count: AnswerCount<'_>,
    ) -> Result<Bytes, ClientError> {
        let (head, body) = response.into_parts();
        let body = Body::new(&head.headers, body).map_err(|error| self.broken(error))?;
        body.whole(self.max_message_bytes, count).await.map_err(|error| match error {
            WholeError::Io(error) => self.broken(error),
            WholeError::Memory(error) => ClientError::Rpc(error),
        })
    }

    /// Returns the beginning of the answer of a failed request, which is enough for its message.
    async fn beginning(&self, response: Response<Incoming>) -> Result<Bytes, ClientError> {
        const MAX: usize = 64 << 10;
        let (head, body) = response.into_parts();
        let body = Body::new(&head.headers, body).map_err(|error| self.broken(error))?;
        body.beginning(MAX).await.map_err(|error| self.broken(error))
    }

    fn broken(&self, error: std::io::Error) -> ClientError {
        let max = self.max_message_bytes;
        ClientError::io(format!("answer of {} (at most {max} bytes)", self.shown), error)
    }

    /// Builds a request for a stream.
    pub(super) fn get(&self, revision: Revision) -> HttpRequest<Full<Bytes>> {
        let mut request = self
            .head(Method::GET, revision)
            .body(Full::default())
            .expect("method, URI and headers were checked when the link was made");
        request.headers_mut().remove(header::CONTENT_TYPE);
        request.headers_mut().entry(header::ACCEPT).or_insert(HeaderValue::from_static(EVENTS));
        request
    }

    /// Posts a message that needs no answer.
    pub(super) async fn tell(
        &self,
        revision: Revision,
        message: Vec<u8>,
    ) -> Result<(), ClientError> {
        const PATIENCE: Duration = Duration::from_secs(30);
        let posted = self.send(self.post(revision, message));
        let response = tokio::time::timeout(PATIENCE, posted)
            .await
            .map_err(|_| ClientError::Timeout(PATIENCE))??;
        let status = response.status();
        if status.is_success() {
            return Ok(());
        }
        Err(http_error(status, &self.beginning(response).await?))
    }
}

/// Adds to the error of a request that the server refuses with 404 what is known about its session.
fn refused_alone(error: ClientError, session: SessionStatus) -> ClientError {
    let ClientError::Http { status, body } = error else { return error };
    let what = match session {
        SessionStatus::Unknown(ping) => format!(
            "it refuses this request, and a ping of the session with HTTP status {}",
            ping.as_u16()
        ),
        _ => "it refuses this request, and its session goes on".to_owned(),
    };
    let body = if body.is_empty() { what } else { format!("{what}: {body}") };
    ClientError::Http { status, body }
}

pub(super) fn is_events(response: &Response<Incoming>) -> bool {
    has_type(response, EVENTS)
}

/// Returns the address to which a response redirects, without secrets.
fn redirect_target(response: &Response<Incoming>) -> Option<String> {
    let location = response.headers().get(header::LOCATION)?.to_str().ok()?;
    let is_redirect = response.status().is_redirection();
    let shown = url_without_secrets(location);
    is_redirect.then(|| marquetry_protocol_wire::shortened(&shown).to_owned())
}

/// Returns whether the body of a response has this media type.
fn has_type(response: &Response<Incoming>, media_type: &str) -> bool {
    let value = response
        .headers()
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(media_type)
}

pub(super) fn http_error(status: StatusCode, body: &[u8]) -> ClientError {
    #[derive(Deserialize)]
    struct ErrorAlone {
        error: RpcError,
    }
    let body = match serde_json::from_slice::<ErrorAlone>(body) {
        Ok(found) => found.error.message,
        Err(_) => String::from_utf8_lossy(body).trim().to_owned(),
    };
    ClientError::Http {
        status: status.as_u16(),
        body: marquetry_protocol_wire::shortened(&body).to_owned(),
    }
}
