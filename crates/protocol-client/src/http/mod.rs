//! A client over Streamable HTTP.

mod address;
mod body;
mod endpoint;
mod headers;
mod legacy;
mod renewal;
mod session;
mod stream;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use http_body_util::Full;
use hyper_util::{
    client::legacy::Client as HyperClient,
    rt::{TokioExecutor, TokioTimer},
};
use marquetry_protocol_wire::{Era, RequestId, Revision, envelope, types::Tool};
use marquetry_redact::url_without_secrets;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

pub(super) use self::legacy::connect as connect_legacy;
use self::{
    address::without_user,
    endpoint::Endpoint,
    stream::{Announcements, ListenOutcome},
};
use super::{
    error::ClientError,
    events::CloseReason,
    network::basic,
    options::{ClientOptions, ServerPeer},
    server_url::parse_server_url,
    shared::{Outgoing, Shared},
};

/// The address of a server.
#[derive(Clone, Default)]
pub struct HttpTarget {
    /// URL of the endpoint, `http:` or (with the feature `tls`) `https:`. User and password are
    /// sent as `Authorization: Basic`, unless [`Self::headers`] has that header.
    pub url: String,
    /// Headers to send with each request, for example `Authorization`.
    pub headers: BTreeMap<String, String>,
}

/// Omits possible secrets: user, password and query of the URL, and the values of headers.
impl fmt::Debug for HttpTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpTarget")
            .field("url", &url_without_secrets(&self.url))
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .finish()
    }
}

/// The endpoint of one server, with its session.
pub(super) struct HttpLink {
    shared: Arc<Shared>,
    post: Arc<Endpoint>,
    stop: CancellationToken,
    /// The revision, when it has been negotiated.
    revision: OnceLock<Revision>,
}

impl HttpLink {
    pub(super) fn new(target: &HttpTarget, options: &ClientOptions) -> Result<Self, ClientError> {
        let shared = Arc::new(Shared::new(options));
        let post = Arc::new(endpoint(target, shared.clone(), options)?);
        Ok(Self { shared, post, stop: CancellationToken::new(), revision: OnceLock::new() })
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
        // A stateless request is cancelled by closing its connection; a session needs a
        // notification.
        let cancel_on_drop = CancelOnDrop {
            post: (revision.era() == Era::Session && outgoing.method != "initialize")
                .then(|| self.post.clone()),
            revision,
            id: outgoing.id.clone(),
        };
        let result = tokio::select! {
            result = self.post.exchange(revision, &outgoing) => result,
            () = self.shared.ended().cancelled() => Err(ClientError::Closed(self.shared.closed().await)),
        };
        cancel_on_drop.disarm();
        result
    }

    /// Stores which headers calls of these tools need, and removes tools that cannot be called.
    pub(super) fn accept_tools(&self, tools: &mut Vec<Tool>) {
        self.post.marks.replace(tools);
    }

    pub(super) async fn notify(
        &self,
        revision: Revision,
        method: &str,
        message: Vec<u8>,
    ) -> Result<(), ClientError> {
        // Stateless servers accept none over HTTP (2026-07-28).
        if revision.era() == Era::Stateless {
            return Ok(());
        }
        let _ = method;
        self.post.tell(revision, message).await
    }

    /// Opens the stream of notifications: with GET in a session, where questions may come on it,
    /// too; otherwise with `subscriptions/listen` and these parameters. The stream is reopened when
    /// it ends, with growing pauses. Servers without such a stream answer with an error status.
    pub(super) async fn listen(
        &self,
        server: &ServerPeer,
        options: &ClientOptions,
        params: Option<Box<RawValue>>,
    ) {
        _ = self.revision.set(server.revision);
        let stop = self.stop.clone();
        let id = self.shared.next_id();
        if server.revision.era() == Era::Session {
            const PATIENCE: Duration = Duration::from_millis(500);
            let (first, opened) = oneshot::channel();
            self.stream(server.revision, id, None, stop, Some(first));
            // Some servers lose questions from before the stream, so a client that answers
            // questions opens it first.
            if !options.capabilities.is_empty() {
                _ = tokio::time::timeout(PATIENCE, opened).await;
            }
        } else if params.is_some() {
            self.stream(server.revision, id, params, stop, None);
        }
    }

    /// Keeps a stream of notifications open until `stop` is cancelled; `first` is its id until it
    /// breaks.
    pub(super) fn stream(
        &self,
        revision: Revision,
        first: RequestId,
        params: Option<Box<RawValue>>,
        stop: CancellationToken,
        opened: Option<oneshot::Sender<()>>,
    ) {
        let post = self.post.clone();
        let shared = self.shared.clone();
        let work = async move {
            const FIRST: Duration = Duration::from_secs(1);
            const LONGEST: Duration = Duration::from_secs(30);
            // For servers that may have no such stream and say so with a server error.
            const LONGEST_UNOPENED: Duration = Duration::from_mins(5);
            let mut pause = FIRST;
            let mut failures = 0_u32;
            let has_authorizer = post.authorizer.is_some();
            let mut id = first;
            let mut announcements = Announcements::new(post.max_message_bytes, opened);
            while !shared.is_closed() {
                match post.listen(revision, id, params.as_deref(), &mut announcements).await {
                    Ok(ListenOutcome::Unsupported) => return,
                    Ok(ListenOutcome::LongStream) => {
                        pause = FIRST;
                        failures = 0;
                    }
                    Ok(ListenOutcome::RetryLater) => failures = 0,
                    // A request will be refused, too, and then gets authorization; until then there
                    // are no announcements.
                    Err(ClientError::Unauthorized(_)) if has_authorizer => {}
                    Err(ClientError::Unauthorized(_)) => return,
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
                tokio::time::sleep(pause.max(announcements.retry().unwrap_or_default())).await;
                let longest = if announcements.was_opened() { LONGEST } else { LONGEST_UNOPENED };
                pause = (pause * 2).min(longest);
                id = shared.next_id();
            }
        };
        let ended = self.stop.clone();
        let listening = async move {
            stop.run_until_cancelled(work).await;
        };
        // Log lines keep the span of the connection's caller: a gateway names the upstream there.
        tokio::spawn(ended.run_until_cancelled_owned(listening.in_current_span()));
    }

    pub(super) async fn close(&self) {
        if let Some(farewell) = self.farewell() {
            farewell.await;
        }
    }

    /// Ends the connection at once. The returned future ends the session at the server, if there is
    /// one.
    fn farewell(&self) -> Option<impl Future<Output = ()> + Send + use<>> {
        const PATIENCE: Duration = Duration::from_secs(2);
        let was_open = !self.shared.is_closed();
        self.shared.end(CloseReason::Asked);
        self.stop.cancel();
        let revision = *self.revision.get()?;
        if !was_open || revision.era() == Era::Stateless || self.post.session.id().is_none() {
            return None;
        }
        let request =
            self.post.head(Method::DELETE, revision).body(Full::<Bytes>::default()).ok()?;
        let post = self.post.clone();
        // The server may refuse or have gone; then the session expires there.
        Some(async move { _ = tokio::time::timeout(PATIENCE, post.send(request)).await })
    }
}

/// Ends the session in the background when the last client is dropped: an open session uses memory
/// of the server.
impl Drop for HttpLink {
    fn drop(&mut self) {
        if let (Some(farewell), Ok(runtime)) =
            (self.farewell(), tokio::runtime::Handle::try_current())
        {
            runtime.spawn(farewell);
        }
    }
}

/// The time after which an idle connection is not used again. Firewalls and load balancers drop
/// connections silently, some after 50 s; a request on such a connection would get no answer.
const POOL_IDLE: Duration = Duration::from_secs(20);

/// Checks the target and creates the endpoint.
fn endpoint(
    target: &HttpTarget,
    shared: Arc<Shared>,
    options: &ClientOptions,
) -> Result<Endpoint, ClientError> {
    let shown = url_without_secrets(&target.url);
    let uri = parse_server_url(&target.url)
        .map_err(|error| ClientError::io(format!("URL '{shown}'"), error))?;
    if !cfg!(feature = "tls") && uri.scheme_str() == Some("https") {
        return Err(ClientError::io(format!("URL '{shown}'"), "https: needs the feature \"tls\""));
    }
    let mut headers = HeaderMap::new();
    for (name, value) in &target.headers {
        let name: HeaderName =
            name.parse().map_err(|_| not_valid(format!("header name '{name}'")))?;
        // Its value may be a secret.
        let mut value: HeaderValue =
            value.parse().map_err(|_| not_valid(format!("value of header '{name}'")))?;
        value.set_sensitive(true);
        // They describe the body, which differs from request to request.
        if name == header::CONTENT_LENGTH || name == header::TRANSFER_ENCODING {
            return Err(ClientError::io(format!("header '{name}'"), "cannot be configured"));
        }
        headers.insert(name, value);
    }
    let (uri, user) = without_user(&uri).map_err(|_| not_valid(format!("URL '{shown}'")))?;
    if let Some(user) = user
        && !headers.contains_key(header::AUTHORIZATION)
    {
        let value = basic(&user).map_err(|_| not_valid(format!("user in URL '{shown}'")))?;
        headers.extend(value.map(|value| (header::AUTHORIZATION, value)));
    }
    let client = HyperClient::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(POOL_IDLE)
        .build(options.network.connector());
    Ok(Endpoint {
        shared,
        client,
        uri,
        shown,
        headers,
        session: Default::default(),
        max_reconnects: options.max_reconnects,
        authorizer: options.authorizer.clone(),
        marks: Default::default(),
        max_message_bytes: options.max_message_bytes,
    })
}

fn not_valid(what: String) -> ClientError {
    ClientError::io(what, "not valid")
}

/// A pending request. If it is dropped before the answer, the request is cancelled at the server.
struct CancelOnDrop {
    post: Option<Arc<Endpoint>>,
    revision: Revision,
    id: RequestId,
}

impl CancelOnDrop {
    fn disarm(mut self) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_password_leave_the_url_for_a_header() {
        let target = HttpTarget { url: "http://me:a%40b@h:1/sse?k".into(), ..Default::default() };
        let options = ClientOptions::default();
        let endpoint = endpoint(&target, Arc::new(Shared::new(&options)), &options).unwrap();
        let messages = endpoint.at("http://h:1/messages?s".parse().unwrap());
        for (endpoint, uri, shown) in [
            (&endpoint, "http://h:1/sse?k", "http://h:1/sse"),
            (&messages, "http://h:1/messages?s", "http://h:1/messages"),
        ] {
            assert_eq!((&*endpoint.uri.to_string(), &*endpoint.shown), (uri, shown));
            let header = &endpoint.headers[header::AUTHORIZATION];
            assert_eq!(header, "Basic bWU6YUBi");
            assert!(header.is_sensitive());
        }
    }
}
