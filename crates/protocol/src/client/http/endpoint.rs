//! One URL of a server: what is sent there, and what comes back.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request as HttpRequest, Response, StatusCode, Uri,
    header,
};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client as HyperClient;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    Connector,
    headers::{Marks, standard_headers},
};
use crate::{
    DEFAULT_MAX_NESTING, Era, Message, RequestId, Revision, RpcError,
    client::{
        Authorizer, ClientError, Refusal,
        link::{CloseReason, Outgoing, Own, Progress, Shared},
        sse::{Event, SseParser, TooLong},
    },
    envelope,
};

/// One URL of a server, and the session that we have there.
pub(super) struct Endpoint {
    pub(super) shared: Arc<Shared>,
    pub(super) client: HyperClient<Connector, Full<Bytes>>,
    pub(super) uri: Uri,
    /// The URI for messages, without secrets.
    pub(super) shown: String,
    pub(super) headers: HeaderMap,
    pub(super) session: Mutex<Option<HeaderValue>>,
    pub(super) authorizer: Option<Arc<dyn Authorizer>>,
    pub(super) marks: Marks,
    pub(super) most: usize,
}

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const EVENTS: &str = "text/event-stream";

/// What came of listening.
pub(super) enum Heard {
    Something,
    Nothing,
    NoStream,
}

impl Endpoint {
    pub(super) fn session_id(&self) -> Option<HeaderValue> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn head(&self, method: Method, revision: Revision) -> http::request::Builder {
        let mut head = HttpRequest::builder().method(method).uri(&self.uri);
        if let Some(headers) = head.headers_mut() {
            headers.extend(self.headers.clone());
            headers.insert(
                header::USER_AGENT,
                HeaderValue::from_static(concat!("marquetry/", env!("CARGO_PKG_VERSION"))),
            );
            headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(revision.as_str()));
            if let (Era::Session, Some(session)) = (revision.era(), self.session_id()) {
                headers.insert(SESSION_ID, session);
            }
        }
        head
    }

    pub(super) fn post(&self, revision: Revision, message: Vec<u8>) -> HttpRequest<Full<Bytes>> {
        self.head(Method::POST, revision)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json, text/event-stream")
            .body(Full::new(message.into()))
            .expect("method, URI and headers were checked when the link was made")
    }

    /// Sends a request, signed if there is somebody to sign it. That the server wants authorization is an error.
    pub(super) async fn send(
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
            let (status, headers) = (response.status(), response.headers());
            if !(authorizer.learn(request.uri(), status, headers) && std::mem::take(&mut again)) {
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
                    http_error(status, &self.whole(response).await?)
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
        self.client.request(request).await.map_err(|error| {
            let cause = std::iter::successors(Some(&error as &dyn std::error::Error), |error| {
                error.source()
            })
            .last()
            .map(ToString::to_string)
            .unwrap_or_default();
            ClientError::io(format!("cannot reach {}", self.shown), cause)
        })
    }

    pub(super) async fn exchange(
        self: &Arc<Self>,
        revision: Revision,
        outgoing: &Outgoing<'_>,
    ) -> Result<Box<RawValue>, ClientError> {
        let message = envelope::write_request(&outgoing.id, outgoing.method, outgoing.params);
        let mut request = self.post(revision, message);
        match revision.era() {
            Era::Stateless => standard_headers(request.headers_mut(), outgoing, &self.marks)?,
            Era::Session if outgoing.method == "initialize" => {
                _ = request.headers_mut().remove(PROTOCOL_VERSION)
            }
            Era::Session => {}
        }
        let response = self.send(request).await?;
        let status = response.status();
        if outgoing.method == "initialize" {
            let id = response.headers().get(SESSION_ID).cloned();
            *self.session.lock().unwrap_or_else(PoisonError::into_inner) = id;
        }
        if status == StatusCode::NOT_FOUND
            && revision.era() == Era::Session
            && self.session_id().is_some()
        {
            self.shared.end(CloseReason::SessionEnded);
            return Err(ClientError::Closed(CloseReason::SessionEnded));
        }
        if status.is_success() && is_events(&response) {
            return self.answer_from_events(revision, response, outgoing).await;
        }
        let body = self.whole(response).await?;
        match Message::parse(&body, DEFAULT_MAX_NESTING) {
            Ok(Message::Response(answer))
                if answer.id.as_ref().is_none_or(|id| *id == outgoing.id) =>
            {
                match answer.outcome {
                    Ok(result) if status.is_success() => Ok(result.to_owned()),
                    // An error about no request in particular is the endpoint's, not the method's.
                    Err(error) if answer.id.is_some() || status.is_success() => {
                        Err(ClientError::Rpc(error))
                    }
                    _ => Err(http_error(status, &body)),
                }
            }
            _ if !status.is_success() => Err(http_error(status, &body)),
            Ok(_) => Err(ClientError::Protocol("body is no answer to the request".to_owned())),
            Err(error) => Err(ClientError::Protocol(error.to_string())),
        }
    }

    pub(super) async fn whole(&self, response: Response<Incoming>) -> Result<Bytes, ClientError> {
        let body = Limited::new(response.into_body(), self.most).collect().await;
        body.map(http_body_util::Collected::to_bytes).map_err(|error| {
            ClientError::io(
                format!("answer of {} (at most {} bytes)", self.shown, self.most),
                error,
            )
        })
    }

    /// Reads a stream until the answer comes. A stream of the session era that breaks before is taken up again where
    /// it broke (2025-11-25, "Resumability and Redelivery"); the server may even break it on purpose.
    async fn answer_from_events(
        self: &Arc<Self>,
        revision: Revision,
        response: Response<Incoming>,
        outgoing: &Outgoing<'_>,
    ) -> Result<Box<RawValue>, ClientError> {
        // In a row, without an event between.
        const MOST_BREAKS: usize = 5;
        const PAUSE: Duration = Duration::from_secs(1);
        let mut found = None;
        let mut parser = SseParser::new(self.most);
        let mut response = response;
        let mut breaks = 0;
        while breaks < MOST_BREAKS {
            let before = parser.last_id.clone();
            let read = self
                .events(revision, response, &mut parser, Some(outgoing), |message| {
                    if let Message::Response(answer) = message
                        && answer.id.as_ref() == Some(&outgoing.id)
                    {
                        found = Some(answer.outcome.map(ToOwned::to_owned));
                    }
                    found.is_none()
                })
                .await;
            match found.take() {
                Some(Ok(result)) => return Ok(result),
                Some(Err(error)) => return Err(ClientError::Rpc(error)),
                None => {}
            }
            if let Err(error @ ClientError::Protocol(_)) = read {
                return Err(error);
            }
            breaks = if parser.last_id == before { breaks + 1 } else { 0 };
            let (Era::Session, Some(last_id)) = (revision.era(), parser.last_id.clone()) else {
                read?;
                break;
            };
            tokio::time::sleep(parser.retry.unwrap_or(PAUSE)).await;
            let mut request = self.get(revision);
            let id = HeaderValue::from_str(&last_id)
                .map_err(|_| ClientError::Protocol("an event's id fits no header".to_owned()))?;
            request.headers_mut().insert("last-event-id", id);
            response = self.send(request).await?;
            if !response.status().is_success() || !is_events(&response) {
                break;
            }
            parser.begin_anew();
        }
        Err(ClientError::Protocol("stream ended before the answer".to_owned()))
    }

    /// Reads events until the stream ends or `go_on` says no. Notifications and requests are seen to here; on the stream
    /// `of` a call they belong to it.
    async fn events(
        self: &Arc<Self>,
        revision: Revision,
        response: Response<Incoming>,
        parser: &mut SseParser,
        of: Option<&Outgoing<'_>>,
        mut go_on: impl FnMut(Message<'_>) -> bool,
    ) -> Result<(), ClientError> {
        let mut body = response.into_body();
        let mut more = true;
        let own = of.map(|outgoing| outgoing.own);
        let progress = |token: &RequestId, told: Progress| {
            if let Some(Outgoing { id, own: Own { progress: Some(sender), .. }, .. }) = of
                && token == id
            {
                _ = sender.try_send(told);
            }
        };
        while more {
            let Some(frame) = body.frame().await else { break };
            let frame = frame
                .map_err(|error| ClientError::io(format!("stream of {}", self.shown), error))?;
            let Ok(data) = frame.into_data() else { continue };
            let parsed = parser.push(&data, |Event { data, .. }| {
                match Message::parse(data, DEFAULT_MAX_NESTING) {
                    // A priming event has no data (2025-11-25).
                    _ if data.trim_ascii().is_empty() => {}
                    Ok(Message::Notification(notification)) => {
                        self.shared.notified(&notification, own, progress)
                    }
                    Ok(Message::Request(request)) => {
                        let endpoint = self.clone();
                        self.shared.answer(&request, own, async move |answer| {
                            if let Err(error) = endpoint.tell(revision, answer).await {
                                tracing::debug!(%error, "an answer was not delivered");
                            }
                        });
                    }
                    Ok(message) => more = more && go_on(message),
                    Err(error) => tracing::warn!(%error, "server sent an event that is no message"),
                }
            });
            if parsed == Err(TooLong) {
                let most = self.most;
                return Err(ClientError::Protocol(format!(
                    "server sent an event of more than {most} bytes"
                )));
            }
        }
        Ok(())
    }

    /// A request for a stream.
    pub(super) fn get(&self, revision: Revision) -> HttpRequest<Full<Bytes>> {
        self.head(Method::GET, revision)
            .header(header::ACCEPT, EVENTS)
            .body(Full::default())
            .expect("method, URI and headers were checked when the link was made")
    }

    /// Posts what wants no answer.
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
        let body = self.whole(response).await?;
        Err(http_error(status, &body))
    }

    pub(super) async fn listen(
        self: &Arc<Self>,
        revision: Revision,
        id: RequestId,
        params: Option<&RawValue>,
    ) -> Result<Heard, ClientError> {
        let request = match revision.era() {
            Era::Session => self.get(revision),
            Era::Stateless => {
                let own = &Own::default();
                let outgoing = Outgoing { id, method: "subscriptions/listen", params, own };
                let message =
                    envelope::write_request(&outgoing.id, outgoing.method, outgoing.params);
                let mut request = self.post(revision, message);
                standard_headers(request.headers_mut(), &outgoing, &self.marks)?;
                request
            }
        };
        let response = self.send(request).await?;
        if response.status() == StatusCode::NOT_FOUND
            && revision.era() == Era::Session
            && self.session_id().is_some()
        {
            self.shared.end(CloseReason::SessionEnded);
        }
        if !response.status().is_success() || !is_events(&response) {
            return Ok(Heard::NoStream);
        }
        let before = std::time::Instant::now();
        let mut parser = SseParser::new(self.most);
        // However it ends: it was open, so the server is there.
        let heard = self.events(revision, response, &mut parser, None, |_| true).await;
        if let Err(error) = heard {
            tracing::debug!(%error, "the stream of announcements broke");
        }
        // A stream that ends at once is no reason to ask for the next one at once.
        Ok(if before.elapsed() > Duration::from_secs(5) {
            Heard::Something
        } else {
            Heard::Nothing
        })
    }
}

pub(super) fn is_events(response: &Response<Incoming>) -> bool {
    let value = response
        .headers()
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(EVENTS)
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
    ClientError::Http { status: status.as_u16(), body: crate::error::shortened(&body).to_owned() }
}
