//! A client over Streamable HTTP.

mod endpoint;
mod headers;
mod legacy;

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use http_body_util::Full;
use hyper_util::{
    client::legacy::{Client as HyperClient, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use serde_json::value::RawValue;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::endpoint::{Endpoint, Heard};
pub(super) use self::legacy::connect as connect_legacy;
use super::{
    ClientError, ClientOptions, ServerPeer,
    handshake::listen_params,
    link::{CloseReason, Outgoing, Shared},
    params::{self, Asks},
};
use crate::{Era, RequestId, Revision, envelope, types::Tool};

/// Where a server is.
#[derive(Clone, Default)]
pub struct HttpTarget {
    /// Its endpoint, `http:` or (with the feature `tls`) `https:`.
    pub url: String,
    /// Headers to send with each request, for example `Authorization`.
    pub headers: BTreeMap<String, String>,
}

/// Without what may be a secret: user, password and query of the URL, and the values of headers.
impl fmt::Debug for HttpTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpTarget")
            .field("url", &without_secrets(&self.url))
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .finish()
    }
}

#[cfg(feature = "tls")]
pub(crate) type Connector = hyper_rustls::HttpsConnector<HttpConnector>;
#[cfg(not(feature = "tls"))]
pub(crate) type Connector = HttpConnector;

/// One server's endpoint, and the session that we have there.
pub(super) struct HttpLink {
    shared: Arc<Shared>,
    post: Arc<Endpoint>,
    stop: CancellationToken,
    _stop_on_drop: DropGuard,
}

impl HttpLink {
    pub(super) fn new(target: &HttpTarget, options: &ClientOptions) -> Result<Self, ClientError> {
        let shared = Arc::new(Shared::new(options));
        let post = Arc::new(endpoint(target, shared.clone(), options)?);
        let stop = CancellationToken::new();
        Ok(Self { shared, post, _stop_on_drop: stop.clone().drop_guard(), stop })
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

    /// Learns from a list of tools what their calls need, and takes out of it what cannot be called.
    pub(super) fn learn(&self, tools: &mut Vec<Tool>) {
        self.post.marks.learn(tools);
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
        let asks = Asks {
            revision: server.revision,
            options,
            capabilities: None,
            log_level: None,
            progress_token: None,
            tasks: options.tasks,
        };
        let Ok(params) = params::prepare(Some(&wanted), &asks) else { return };
        let stop = self.stop.clone();
        self.stream(server.revision, self.shared.next_id(), params, stop);
    }

    /// Keeps a stream of announcements open until `stop` is cancelled; `first` is its id until it breaks.
    pub(super) fn stream(
        &self,
        revision: Revision,
        first: RequestId,
        params: Option<Box<RawValue>>,
        stop: CancellationToken,
    ) {
        let (post, shared) = (self.post.clone(), self.shared.clone());
        let work = async move {
            const FIRST: Duration = Duration::from_secs(1);
            const LONGEST: Duration = Duration::from_secs(30);
            let mut pause = FIRST;
            let mut failures = 0_u32;
            let has_authorizer = post.authorizer.is_some();
            let mut id = first;
            while !shared.is_closed() {
                match post.listen(revision, id, params.as_deref()).await {
                    Ok(Heard::NoStream) => return,
                    Ok(Heard::Something) => (pause, failures) = (FIRST, 0),
                    Ok(Heard::Nothing) => failures = 0,
                    // A request will be refused, too, and gets what is missing: until then there is nothing to hear.
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
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST);
                id = shared.next_id();
            }
        };
        let ended = self.stop.clone();
        tokio::spawn(ended.run_until_cancelled_owned(async move {
            stop.run_until_cancelled(work).await;
        }));
    }

    pub(super) async fn close(&self, revision: Revision) {
        const PATIENCE: Duration = Duration::from_secs(2);
        let was_open = !self.shared.is_closed();
        self.shared.end(CloseReason::Asked);
        self.stop.cancel();
        if was_open && revision.era() == Era::Session && self.post.session_id().is_some() {
            let request = self.post.head(Method::DELETE, revision).body(Full::<Bytes>::default());
            let Ok(request) = request else { return };
            // The server may refuse, or be gone; the session's time runs out there.
            _ = tokio::time::timeout(PATIENCE, self.post.send(request)).await;
        }
    }
}

/// Checks the target and makes the endpoint.
fn endpoint(
    target: &HttpTarget,
    shared: Arc<Shared>,
    options: &ClientOptions,
) -> Result<Endpoint, ClientError> {
    let not_valid = |what: String| ClientError::io(what, "not valid");
    let shown = without_secrets(&target.url);
    let uri: Uri = target.url.parse().map_err(|_| not_valid(format!("URL '{shown}'")))?;
    match uri.scheme_str() {
        Some("http") => {}
        Some("https") if cfg!(feature = "tls") => {}
        _ => {
            return Err(ClientError::io(
                format!("URL '{shown}'"),
                "must start with http: or https:",
            ));
        }
    }
    let mut headers = HeaderMap::new();
    for (name, value) in &target.headers {
        let name: HeaderName =
            name.parse().map_err(|_| not_valid(format!("header name '{name}'")))?;
        // Its value may be a secret.
        let mut value: HeaderValue =
            value.parse().map_err(|_| not_valid(format!("value of header '{name}'")))?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    let client =
        HyperClient::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector());
    Ok(Endpoint {
        shared,
        client,
        uri,
        shown,
        headers,
        session: Default::default(),
        authorizer: options.authorizer.clone(),
        marks: Default::default(),
        most: options.max_message_bytes,
    })
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

pub(crate) fn connector() -> Connector {
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

/// A URL for messages and logs: user, password and query may be secrets.
pub(super) fn without_secrets(url: &str) -> String {
    let url = &url[..url.find(['?', '#']).unwrap_or(url.len())];
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::without_secrets;

    #[test]
    fn urls_are_shown_without_secrets() {
        for (url, shown) in [
            ("http://user:pw@h:1/p/q?key=hush#x", "http://h:1/p/q"),
            ("https://h", "https://h"),
            ("https://a@b@h/p@q", "https://h/p@q"),
            ("nonsense?x", "nonsense"),
        ] {
            assert_eq!(without_secrets(url), shown);
        }
    }
}
