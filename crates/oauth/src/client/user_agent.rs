//! The browser in which a person logs in.

use std::{
    convert::Infallible,
    io,
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response, StatusCode, Uri, header};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{net::TcpListener, sync::mpsc, task::JoinSet};

use marquetry_protocol::client::{AuthorizationError, parse_server_url};

/// Sends a person to an authorization server, and returns the redirect that follows.
#[async_trait]
pub trait UserAgent: Send + Sync + 'static {
    /// Returns the redirect URI.
    fn redirect_uri(&self) -> String;

    /// Sends the person to `request.url` and waits for the redirect. Returns its URL, or the query
    /// of it. Ignore redirects with another `state`: they are not from this login.
    ///
    /// The future is dropped after [`OAuthOptions::login_timeout`](super::OAuthOptions).
    ///
    /// # Errors
    /// Returns an error if the login page cannot be shown.
    async fn login(&self, request: &LoginRequest) -> Result<String, AuthorizationError>;
}

/// A login.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LoginRequest {
    /// URL at which to log in.
    pub url: String,
    /// The `state` parameter, which the redirect repeats.
    pub state: String,
}

/// Shows a person the login URL, in a browser or as text, and receives the redirect on a loopback
/// port.
pub struct LoopbackBrowser {
    listener: TcpListener,
    redirect_uri: String,
    path: String,
    show: Box<dyn Fn(&str) + Send + Sync>,
}

const PATH: &str = "/callback";

/// A redirect URI on this machine: `http://HOST:PORT/PATH`.
struct LoopbackUri {
    host: String,
    ip: IpAddr,
    port: Option<u16>,
    path: String,
}

impl LoopbackUri {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let uri: Uri = text.parse().map_err(|_| "it is not a valid URL")?;
        if uri.scheme_str() != Some("http") || text.contains(['#', '?', '@']) {
            return Err("it must be of the form http://127.0.0.1:8080/callback");
        }
        let host = uri.host().unwrap_or_default();
        let ip = match host.trim_matches(['[', ']']).parse::<IpAddr>() {
            Ok(ip) if ip.is_loopback() => ip,
            Err(_) if host.eq_ignore_ascii_case("localhost") => Ipv4Addr::LOCALHOST.into(),
            _ => return Err("its host must be localhost or a loopback address"),
        };
        if parse_server_url(text).is_err() {
            return Err("its port must be a number from 1 to 65535");
        }
        let port = uri.port_u16();
        Ok(Self { host: host.to_owned(), ip, port, path: uri.path().to_owned() })
    }
}

impl LoopbackBrowser {
    /// Returns why a text cannot be a redirect URI of [`Self::bind`], if it cannot.
    ///
    /// # Errors
    /// Returns an error if the text is not an `http:` URL of this machine.
    pub fn check_redirect_uri(text: &str) -> Result<(), &'static str> {
        LoopbackUri::parse(text).map(|_| ())
    }

    /// Creates a user agent that waits at a redirect URI which was registered by hand, as
    /// `http://localhost:8080/callback`. A free port is taken if it names none (RFC 8252, section
    /// 7.3). `show` opens or prints the login URL.
    ///
    /// # Errors
    /// Returns an error if the URI is not on this machine, or its port is in use.
    pub async fn bind(
        redirect_uri: &str,
        show: impl Fn(&str) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let LoopbackUri { host, ip, port, path } = LoopbackUri::parse(redirect_uri)
            .map_err(|why| io::Error::other(format!("redirect URI '{redirect_uri}': {why}")))?;
        let listener = TcpListener::bind((ip, port.unwrap_or(0))).await.map_err(|error| {
            io::Error::new(error.kind(), format!("failed to listen at {redirect_uri}: {error}"))
        })?;
        let port = listener.local_addr()?.port();
        let redirect_uri = format!("http://{host}:{port}{path}");
        Ok(Self { listener, redirect_uri, path, show: Box::new(show) })
    }

    /// Creates a user agent. `listener` is on a loopback address, usually on port 0; `show` opens
    /// or prints the URL.
    ///
    /// # Errors
    /// Returns an error if the listener is not on a loopback address.
    pub fn new(
        listener: TcpListener,
        show: impl Fn(&str) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        if !address.ip().is_loopback() {
            return Err(io::Error::other("a login must come back to a loopback address"));
        }
        let redirect_uri = format!("http://{address}{PATH}");
        Ok(Self { listener, redirect_uri, path: PATH.to_owned(), show: Box::new(show) })
    }
}

#[async_trait]
impl UserAgent for LoopbackBrowser {
    fn redirect_uri(&self) -> String {
        self.redirect_uri.clone()
    }

    async fn login(&self, request: &LoginRequest) -> Result<String, AuthorizationError> {
        const MAX_CONNECTIONS: usize = 16;
        const PATIENCE: Duration = Duration::from_secs(10);
        (self.show)(&request.url);
        let (found, mut back) = mpsc::channel(1);
        let expected =
            Arc::new(Expected { path: self.path.clone(), state: request.state.clone(), found });
        let mut connections = JoinSet::new();
        let query = loop {
            tokio::select! {
                biased;
                Some(query) = back.recv() => break query,
                Some(_) = connections.join_next() => {}
                accepted = self.listener.accept(), if connections.len() < MAX_CONNECTIONS => {
                    let (stream, _) = accepted.map_err(|source| AuthorizationError::Io {
                        what: "waiting for the login to come back".to_owned(),
                        source,
                    })?;
                    let expected = expected.clone();
                    connections.spawn(async move {
                        let answer = service_fn(move |request| expected.clone().answer(request));
                        let serving = http1::Builder::new()
                            .timer(TokioTimer::new())
                            .keep_alive(false)
                            .serve_connection(TokioIo::new(stream), answer);
                        _ = tokio::time::timeout(PATIENCE, serving).await;
                    });
                }
            }
        };
        // The browser shows the page that says so.
        _ = tokio::time::timeout(PATIENCE, async {
            while connections.join_next().await.is_some() {}
        })
        .await;
        Ok(query)
    }
}

/// The redirect that is expected.
struct Expected {
    path: String,
    state: String,
    found: mpsc::Sender<String>,
}

impl Expected {
    async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, Infallible> {
        let query = request.uri().query().unwrap_or_default();
        let is_ours = form_urlencoded::parse(query.as_bytes())
            .any(|(name, value)| name == "state" && value == *self.state);
        let (status, text) = if request.uri().path() != self.path {
            (StatusCode::NOT_FOUND, "There is nothing here.")
        } else if !is_ours {
            (StatusCode::BAD_REQUEST, "This login was not asked for, or has ended.")
        } else {
            _ = self.found.try_send(query.to_owned());
            (StatusCode::OK, "You can close this page and go back to where you came from.")
        };
        let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        let plain = header::HeaderValue::from_static("text/plain; charset=utf-8");
        headers.insert(header::CONTENT_TYPE, plain);
        headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
        Ok(response)
    }
}
