//! A client over Streamable HTTP.

use std::{
    collections::BTreeMap,
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
use hyper_util::{
    client::legacy::{Client as HyperClient, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    ClientError, ClientOptions, ServerPeer,
    handshake::listen_params,
    link::{CloseReason, Outgoing, Progress, Shared},
    params::{self, Asks},
    sse::{SseParser, TooLong},
};
use crate::{DEFAULT_MAX_NESTING, Era, Message, RequestId, Revision, RpcError, envelope};

/// Where a server is.
#[derive(Clone, Debug, Default)]
pub struct HttpTarget {
    /// Its endpoint, `http:` or (with the feature `tls`) `https:`.
    pub url: String,
    /// Headers to send with each request, for example `Authorization`.
    pub headers: BTreeMap<String, String>,
}

#[cfg(feature = "tls")]
type Connector = hyper_rustls::HttpsConnector<HttpConnector>;
#[cfg(not(feature = "tls"))]
type Connector = HttpConnector;

/// One server's endpoint, and the session that we have there.
pub(super) struct HttpLink {
    shared: Arc<Shared>,
    post: Arc<Endpoint>,
    stop: CancellationToken,
    _stop_on_drop: DropGuard,
}

struct Endpoint {
    shared: Arc<Shared>,
    client: HyperClient<Connector, Full<Bytes>>,
    uri: Uri,
    headers: HeaderMap,
    session: Mutex<Option<HeaderValue>>,
    most: usize,
}

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const EVENTS: &str = "text/event-stream";

impl HttpLink {
    pub(super) fn new(target: HttpTarget, options: &ClientOptions) -> Result<Self, ClientError> {
        let not_valid = |what: String| ClientError::io(what, "not valid");
        let uri: Uri =
            target.url.parse().map_err(|_| not_valid(format!("URL '{}'", target.url)))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") if cfg!(feature = "tls") => {}
            _ => {
                return Err(ClientError::io(
                    format!("URL '{}'", target.url),
                    "must start with http: or https:",
                ));
            }
        }
        let mut headers = HeaderMap::new();
        for (name, value) in target.headers {
            let name: HeaderName =
                name.parse().map_err(|_| not_valid(format!("header name '{name}'")))?;
            // Its value may be a secret.
            let mut value: HeaderValue =
                value.parse().map_err(|_| not_valid(format!("value of header '{name}'")))?;
            value.set_sensitive(true);
            headers.append(name, value);
        }
        let shared = Arc::new(Shared::new(options));
        let post = Endpoint {
            shared: shared.clone(),
            client: HyperClient::builder(TokioExecutor::new())
                .pool_timer(TokioTimer::new())
                .build(connector()),
            uri,
            headers,
            session: Mutex::default(),
            most: options.max_message_bytes,
        };
        let stop = CancellationToken::new();
        Ok(Self { shared, post: Arc::new(post), _stop_on_drop: stop.clone().drop_guard(), stop })
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(super) async fn request(
        &self,
        revision: Revision,
        outgoing: Outgoing<'_>,
    ) -> Result<Box<RawValue>, ClientError> {
        if self.shared.is_closed() {
            return Err(ClientError::Closed(self.shared.closed().await));
        }
        // A stateless request is cancelled by the end of its connection; a session has to be told.
        let told = CancelOnDrop {
            post: (revision.era() == Era::Session && outgoing.method != "initialize")
                .then(|| self.post.clone()),
            revision,
            id: outgoing.id.clone(),
        };
        let result = tokio::select! {
            result = self.post.exchange(revision, &outgoing) => result,
            () = self.shared.ended().cancelled() => Err(ClientError::Closed(self.shared.closed().await)),
        };
        told.forget();
        result
    }

    pub(super) async fn notify(
        &self,
        revision: Revision,
        method: &str,
        message: Vec<u8>,
    ) -> Result<(), ClientError> {
        // Stateless servers take none over HTTP (2026-07-28).
        if revision.era() == Era::Stateless {
            return Ok(());
        }
        let _ = method;
        self.post.tell(revision, message).await
    }

    /// Takes the server's announcements: by GET in a session, by `subscriptions/listen` without one. The stream is
    /// opened anew when it ends, with growing pauses; servers that have no such stream say so with a status.
    pub(super) fn listen(&self, server: &ServerPeer, options: &ClientOptions) {
        let Some(wanted) = listen_params(&server.capabilities) else { return };
        let asks = Asks { revision: server.revision, options, progress_token: None };
        let Ok(params) = params::prepare(Some(&wanted), &asks) else { return };
        let (post, revision, shared) = (self.post.clone(), server.revision, self.shared.clone());
        let work = async move {
            const FIRST: Duration = Duration::from_secs(1);
            const LONGEST: Duration = Duration::from_secs(30);
            let mut pause = FIRST;
            let mut failures = 0_u32;
            while !shared.is_closed() {
                match post.listen(revision, params.as_deref()).await {
                    Ok(Heard::NoStream) => return,
                    Ok(Heard::Something) => (pause, failures) = (FIRST, 0),
                    Ok(Heard::Nothing) => failures = 0,
                    Err(error) => {
                        failures += 1;
                        tracing::debug!(%error, "announcements cannot be heard");
                        if failures >= 5 {
                            shared.end(CloseReason::Ended(format!(
                                "server cannot be reached: {error}"
                            )));
                        }
                    }
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST);
            }
        };
        tokio::spawn(self.stop.clone().run_until_cancelled_owned(work));
    }

    pub(super) async fn close(&self, revision: Revision) {
        const PATIENCE: Duration = Duration::from_secs(2);
        let was_open = !self.shared.is_closed();
        self.shared.end(CloseReason::Asked);
        self.stop.cancel();
        if was_open && revision.era() == Era::Session && self.post.session_id().is_some() {
            let request = self.post.head(Method::DELETE, revision).body(Full::default());
            let Ok(request) = request else { return };
            // The server may refuse, or be gone; the session's time runs out there.
            _ = tokio::time::timeout(PATIENCE, self.post.client.request(request)).await;
        }
    }
}

/// What came of listening.
enum Heard {
    Something,
    Nothing,
    NoStream,
}

impl Endpoint {
    fn session_id(&self) -> Option<HeaderValue> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn head(&self, method: Method, revision: Revision) -> http::request::Builder {
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

    fn post(&self, revision: Revision, message: Vec<u8>) -> HttpRequest<Full<Bytes>> {
        self.head(Method::POST, revision)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json, text/event-stream")
            .body(Full::new(message.into()))
            .expect("method, URI and headers were checked when the link was made")
    }

    async fn send(
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
            ClientError::io(format!("cannot reach {}", self.uri), cause)
        })
    }

    async fn exchange(
        self: &Arc<Self>,
        revision: Revision,
        outgoing: &Outgoing<'_>,
    ) -> Result<Box<RawValue>, ClientError> {
        let message = envelope::write_request(&outgoing.id, outgoing.method, outgoing.params);
        let mut request = self.post(revision, message);
        match revision.era() {
            Era::Stateless => standard_headers(request.headers_mut(), outgoing)?,
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

    async fn whole(&self, response: Response<Incoming>) -> Result<Bytes, ClientError> {
        let body = Limited::new(response.into_body(), self.most).collect().await;
        body.map(http_body_util::Collected::to_bytes).map_err(|error| {
            ClientError::io(format!("answer of {} (at most {} bytes)", self.uri, self.most), error)
        })
    }

    async fn answer_from_events(
        self: &Arc<Self>,
        revision: Revision,
        response: Response<Incoming>,
        outgoing: &Outgoing<'_>,
    ) -> Result<Box<RawValue>, ClientError> {
        let mut found = None;
        let progress = |token: &RequestId, told: Progress| {
            if let (true, Some(sender)) = (*token == outgoing.id, &outgoing.progress) {
                _ = sender.try_send(told);
            }
        };
        self.events(revision, response, &progress, |message| {
            if let Message::Response(answer) = message
                && answer.id.as_ref() == Some(&outgoing.id)
            {
                found = Some(answer.outcome.map(ToOwned::to_owned));
            }
            found.is_none()
        })
        .await?;
        match found {
            Some(Ok(result)) => Ok(result),
            Some(Err(error)) => Err(ClientError::Rpc(error)),
            None => Err(ClientError::Protocol("stream ended before the answer".to_owned())),
        }
    }

    /// Reads events until the stream ends or `go_on` says no. Notifications and requests are seen to here.
    async fn events(
        self: &Arc<Self>,
        revision: Revision,
        response: Response<Incoming>,
        progress: &(dyn Fn(&RequestId, Progress) + Sync),
        mut go_on: impl FnMut(Message<'_>) -> bool,
    ) -> Result<(), ClientError> {
        let mut body = response.into_body();
        let mut parser = SseParser::new(self.most);
        let mut more = true;
        while more {
            let Some(frame) = body.frame().await else { break };
            let frame =
                frame.map_err(|error| ClientError::io(format!("stream of {}", self.uri), error))?;
            let Ok(data) = frame.into_data() else { continue };
            let parsed =
                parser.push(&data, |event| match Message::parse(event, DEFAULT_MAX_NESTING) {
                    // A priming event has no data (2025-11-25).
                    _ if event.trim_ascii().is_empty() => {}
                    Ok(Message::Notification(notification)) => {
                        self.shared.notified(&notification, progress)
                    }
                    Ok(Message::Request(request)) => {
                        let endpoint = self.clone();
                        self.shared.answer(&request, async move |answer| {
                            if let Err(error) = endpoint.tell(revision, answer).await {
                                tracing::debug!(%error, "an answer was not delivered");
                            }
                        });
                    }
                    Ok(message) => more = more && go_on(message),
                    Err(error) => tracing::warn!(%error, "server sent an event that is no message"),
                });
            if parsed == Err(TooLong) {
                return Err(ClientError::Protocol(format!(
                    "server sent an event of more than {} bytes",
                    self.most
                )));
            }
        }
        Ok(())
    }

    /// Posts what wants no answer.
    async fn tell(&self, revision: Revision, message: Vec<u8>) -> Result<(), ClientError> {
        let response = self.send(self.post(revision, message)).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(());
        }
        let body = self.whole(response).await?;
        Err(http_error(status, &body))
    }

    async fn listen(
        self: &Arc<Self>,
        revision: Revision,
        params: Option<&RawValue>,
    ) -> Result<Heard, ClientError> {
        let id = self.shared.next_id();
        let request = match revision.era() {
            Era::Session => self
                .head(Method::GET, revision)
                .header(header::ACCEPT, EVENTS)
                .body(Full::default())
                .expect("method, URI and headers were checked when the link was made"),
            Era::Stateless => {
                let outgoing =
                    Outgoing { id, method: "subscriptions/listen", params, progress: None };
                let message =
                    envelope::write_request(&outgoing.id, outgoing.method, outgoing.params);
                let mut request = self.post(revision, message);
                standard_headers(request.headers_mut(), &outgoing)?;
                request
            }
        };
        let response = self.send(request).await?;
        if response.status() == StatusCode::NOT_FOUND && revision.era() == Era::Session {
            self.shared.end(CloseReason::SessionEnded);
        }
        if !response.status().is_success() || !is_events(&response) {
            return Ok(Heard::NoStream);
        }
        let before = std::time::Instant::now();
        self.events(revision, response, &|_, _| {}, |_| true).await?;
        // A stream that ends at once is no reason to ask for the next one at once.
        Ok(if before.elapsed() > Duration::from_secs(5) {
            Heard::Something
        } else {
            Heard::Nothing
        })
    }
}

/// A request that waits; dropped before its answer came, it is cancelled at the server.
struct CancelOnDrop {
    post: Option<Arc<Endpoint>>,
    revision: Revision,
    id: RequestId,
}

impl CancelOnDrop {
    fn forget(mut self) {
        self.post = None;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let Some(post) = self.post.take() else { return };
        let params =
            serde_json::json!({ "requestId": self.id, "reason": "the caller no longer waits" });
        let (Ok(params), Ok(runtime)) =
            (serde_json::value::to_raw_value(&params), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        let message = envelope::write_notification("notifications/cancelled", Some(&params));
        let revision = self.revision;
        runtime.spawn(async move {
            if let Err(error) = post.tell(revision, message).await {
                tracing::debug!(%error, "a cancellation was not delivered");
            }
        });
    }
}

/// The headers that repeat what the body says (2026-07-28, "Standard Request Headers").
fn standard_headers(headers: &mut HeaderMap, outgoing: &Outgoing<'_>) -> Result<(), ClientError> {
    #[derive(Deserialize)]
    struct Target {
        name: Option<String>,
        uri: Option<String>,
    }
    let not_valid =
        |_| ClientError::Protocol(format!("method '{}' fits no header", outgoing.method));
    headers.insert("mcp-method", HeaderValue::from_str(outgoing.method).map_err(not_valid)?);
    let target: Option<Target> =
        outgoing.params.and_then(|params| serde_json::from_str(params.get()).ok());
    let target = target.and_then(|target| match outgoing.method {
        "tools/call" | "prompts/get" => target.name,
        "resources/read" => target.uri,
        _ => None,
    });
    if let Some(target) = target {
        headers.insert("mcp-name", header_text(&target).map_err(not_valid)?);
    }
    Ok(())
}

/// Text as a header's value: as it is where a header can hold it, else `=?base64?…?=`.
fn header_text(text: &str) -> Result<HeaderValue, http::header::InvalidHeaderValue> {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let plain = text.bytes().all(|byte| (0x20..0x7f).contains(&byte))
        && text.trim() == text
        && !text.starts_with("=?base64?");
    if plain {
        HeaderValue::from_str(text)
    } else {
        HeaderValue::from_str(&format!("=?base64?{}?=", STANDARD.encode(text)))
    }
}

fn is_events(response: &Response<Incoming>) -> bool {
    let value = response
        .headers()
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(EVENTS)
}

fn http_error(status: StatusCode, body: &[u8]) -> ClientError {
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

fn connector() -> Connector {
    let mut http = HttpConnector::new();
    http.set_nodelay(true);
    http.set_connect_timeout(Some(Duration::from_secs(10)));
    #[cfg(feature = "tls")]
    {
        http.enforce_http(false);
        hyper_rustls::HttpsConnectorBuilder::new()
            .with_webpki_roots()
            .https_or_http()
            .enable_http1()
            .wrap_connector(http)
    }
    #[cfg(not(feature = "tls"))]
    http
}
