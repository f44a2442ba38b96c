//! Proxy and trusted certificate authorities of HTTP connections.

use std::{error::Error, fmt, future::Future, pin::Pin, sync::Arc, task, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderValue, Uri, uri::Authority};
use hyper_util::{
    client::legacy::connect::{HttpConnector, proxy::Tunnel},
    rt::TokioIo,
};
use marquetry_redact::url_without_secrets;
use tokio::net::TcpStream;
use tower_service::Service;

use crate::server_url::{check_port, parse_server_url};

/// Proxy and trusted certificate authorities of HTTP connections. By default: no proxy, and
/// Mozilla's authorities.
///
/// ```
/// use marquetry_protocol_client::{ClientOptions, Network};
///
/// let network = Network::default().with_proxy("http://user:secret@proxy.example:3128")?;
/// let network = network.without_proxy_for(["localhost", "127.0.0.1", ".intern.example"]);
/// let options = ClientOptions { network, ..ClientOptions::default() };
/// # Ok::<(), marquetry_protocol_client::NetworkError>(())
/// ```
#[derive(Clone, Default)]
pub struct Network {
    proxy: Option<Arc<Proxy>>,
    /// Hosts that are reached directly; a leading dot means a whole domain.
    direct: Vec<String>,
    #[cfg(feature = "tls")]
    authorities: Vec<rustls::pki_types::CertificateDer<'static>>,
}

struct Proxy {
    uri: Uri,
    authorization: Option<HeaderValue>,
}

impl Proxy {
    fn parse(url: &str) -> Option<Self> {
        let uri = parse_server_url(url).ok()?;
        let authority = uri.authority().filter(|_| uri.scheme_str() == Some("http"))?.as_str();
        let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        let authorization = basic(user).ok()?;
        let host: Authority = host.parse().ok()?;
        let uri = Uri::builder().scheme("http").authority(host).path_and_query("/").build().ok()?;
        Some(Self { uri, authorization })
    }
}

/// Why a [`Network`] cannot be configured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// The proxy's URL is not one like `http://proxy.example:3128`.
    #[error("proxy '{0}' is not a URL like \"http://proxy.example:3128\"")]
    Proxy(String),
    /// The text contains no certificate.
    #[error("no certificate in PEM (\"BEGIN CERTIFICATE\")")]
    NoCertificate,
    /// A certificate is invalid as an authority.
    #[error("certificate {number} is not a CA certificate: {why}")]
    Certificate {
        /// Number of the certificate, from 1.
        number: usize,
        /// The reason.
        why: String,
    },
}

impl NetworkError {
    #[cfg(feature = "tls")]
    fn certificate(number: usize, why: &impl fmt::Display) -> Self {
        Self::Certificate { number, why: why.to_string() }
    }
}

impl Network {
    /// Sets an HTTP proxy, which opens a tunnel (`CONNECT`) to each server. User and password in
    /// the URL are for the proxy.
    ///
    /// # Errors
    /// Returns an error if it is not an `http:` URL with a host.
    pub fn with_proxy(mut self, url: &str) -> Result<Self, NetworkError> {
        let proxy =
            Proxy::parse(url).ok_or_else(|| NetworkError::Proxy(url_without_secrets(url)))?;
        self.proxy = Some(Arc::new(proxy));
        Ok(self)
    }

    /// Adds hosts that are reached without the proxy: exact names or addresses, or a domain with a
    /// leading dot.
    #[must_use]
    pub fn without_proxy_for(mut self, hosts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.direct.extend(hosts.into_iter().map(|host| host.into().to_ascii_lowercase()));
        self
    }

    /// Trusts the certificate authorities in a PEM text besides Mozilla's, for servers with
    /// certificates of a private authority.
    ///
    /// # Errors
    /// Returns an error if it contains no certificate, or an invalid one.
    #[cfg(feature = "tls")]
    pub fn with_authorities(mut self, pem: &str) -> Result<Self, NetworkError> {
        use rustls::pki_types::{CertificateDer, pem::PemObject};
        let before = self.authorities.len();
        let mut roots = rustls::RootCertStore::empty();
        for (index, found) in CertificateDer::pem_slice_iter(pem.as_bytes()).enumerate() {
            let number = index + 1;
            let certificate = found.map_err(|error| NetworkError::certificate(number, &error))?;
            roots
                .add(certificate.clone())
                .map_err(|error| NetworkError::certificate(number, &error))?;
            self.authorities.push(certificate);
        }
        if self.authorities.len() == before {
            return Err(NetworkError::NoCertificate);
        }
        Ok(self)
    }

    fn proxy_for(&self, target: &Uri) -> Option<&Arc<Proxy>> {
        let host = target.host().unwrap_or_default().trim_matches(['[', ']']).to_ascii_lowercase();
        let is_direct = self.direct.iter().any(|name| match name.strip_prefix('.') {
            Some(domain) => host == domain || host.ends_with(name),
            None => host == *name,
        });
        self.proxy.as_ref().filter(|_| !is_direct)
    }
}

/// Omits possible secrets.
impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network")
            .field("proxy", &self.proxy.as_ref().map(|proxy| proxy.uri.to_string()))
            .field("direct", &self.direct)
            .finish_non_exhaustive()
    }
}

/// Returns the `Basic` credentials for the user and password of a URL; `None` if both are empty.
/// They have a colon without a password, too (RFC 7617, section 2).
pub(super) fn basic(user: &str) -> Result<Option<HeaderValue>, http::header::InvalidHeaderValue> {
    let (name, password) = user.split_once(':').unwrap_or((user, ""));
    if name.is_empty() && password.is_empty() {
        return Ok(None);
    }
    let credentials = [&*decoded(name), b":", &*decoded(password)].concat();
    let mut value = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(credentials)))?;
    value.set_sensitive(true);
    Ok(Some(value))
}

/// Decodes percent-encoded text.
fn decoded(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().iter();
    let mut out = Vec::with_capacity(text.len());
    while let Some(&byte) = bytes.next() {
        let digits = bytes.as_slice().get(..2).filter(|_| byte == b'%');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(decoded) => {
                out.push(decoded);
                _ = bytes.nth(1);
            }
            None => out.push(byte),
        }
    }
    out
}

/// Opens connections for a [`Network`].
#[derive(Clone)]
struct Route {
    http: HttpConnector,
    network: Network,
}

type Failure = Box<dyn Error + Send + Sync>;

impl Service<Uri> for Route {
    type Response = TokioIo<TcpStream>;
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Failure>> + Send>>;

    fn poll_ready(&mut self, cx: &mut task::Context<'_>) -> task::Poll<Result<(), Failure>> {
        self.http.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, target: Uri) -> Self::Future {
        let Some(proxy) = self.network.proxy_for(&target) else {
            let connecting = self.http.call(target);
            return Box::pin(async move { Ok(connecting.await?) });
        };
        let mut tunnel = Tunnel::new(proxy.uri.clone(), self.http.clone());
        if let Some(authorization) = &proxy.authorization {
            tunnel = tunnel.with_auth(authorization.clone());
        }
        Box::pin(async move { Ok(tunnel.call(with_port(target)?).await?) })
    }
}

/// Returns the address with its port, which a tunnel needs.
fn with_port(target: Uri) -> Result<Uri, http::Error> {
    if target.port().is_some() || target.scheme_str() != Some("http") {
        return Ok(target);
    }
    let host = target.host().unwrap_or_default();
    Uri::builder().scheme("http").authority(format!("{host}:80")).path_and_query("/").build()
}

#[cfg(feature = "tls")]
type Inner = hyper_rustls::HttpsConnector<Route>;
#[cfg(feature = "tls")]
type Stream = hyper_rustls::MaybeHttpsStream<TokioIo<TcpStream>>;
#[cfg(not(feature = "tls"))]
type Inner = Route;
#[cfg(not(feature = "tls"))]
type Stream = TokioIo<TcpStream>;

/// Opens connections for a [`Network`], as a connector of hyper-util.
#[derive(Clone)]
pub struct Connector(Inner);

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Failure>> + Send>>;

    fn poll_ready(&mut self, cx: &mut task::Context<'_>) -> task::Poll<Result<(), Failure>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, target: Uri) -> Self::Future {
        if let Err(error) = check_port(&target) {
            return Box::pin(std::future::ready(Err(error.into())));
        }
        Box::pin(self.0.call(target))
    }
}

impl Network {
    /// Returns the connector for HTTP servers.
    #[must_use]
    pub fn connector(&self) -> Connector {
        let mut http = HttpConnector::new();
        http.set_nodelay(true);
        http.set_connect_timeout(Some(Duration::from_secs(10)));
        // A connection whose other side has vanished breaks after 25 s, also while a call waits.
        http.set_keepalive(Some(Duration::from_secs(10)));
        http.set_keepalive_interval(Some(Duration::from_secs(5)));
        http.set_keepalive_retries(Some(3));
        #[cfg(feature = "tls")]
        http.enforce_http(false);
        let route = Route { http, network: self.clone() };
        #[cfg(feature = "tls")]
        {
            let builder = hyper_rustls::HttpsConnectorBuilder::new();
            let builder = match &*self.authorities {
                [] => builder.with_webpki_roots(),
                authorities => {
                    let mut roots = rustls::RootCertStore::empty();
                    roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
                    // Each was checked when it was added.
                    roots.add_parsable_certificates(authorities.iter().cloned());
                    let provider = Arc::new(rustls::crypto::ring::default_provider());
                    let config = rustls::ClientConfig::builder_with_provider(provider)
                        .with_safe_default_protocol_versions()
                        .expect("ring has what the default versions need")
                        .with_root_certificates(roots)
                        .with_no_client_auth();
                    builder.with_tls_config(config)
                }
            };
            // Without HTTP/2: all requests to a server would share one connection with its limit of
            // streams (100 at many servers). If as many calls were waiting, neither a cancellation
            // nor an answer to a question could be sent.
            Connector(builder.https_or_http().enable_http1().wrap_connector(route))
        }
        #[cfg(not(feature = "tls"))]
        Connector(route)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_are_given_as_urls() {
        let network =
            Network::default().with_proxy("http://us%65r:p%40ss@proxy.example:3128/").unwrap();
        let proxy = network.proxy.as_ref().unwrap();
        assert_eq!(proxy.uri, "http://proxy.example:3128/");
        let want = format!("Basic {}", STANDARD.encode("user:p@ss"));
        assert_eq!(proxy.authorization.as_ref().unwrap(), &want);
        assert!(!format!("{network:?}").contains("p%40ss"));
        for bad in [
            "",
            "proxy.example",
            "https://proxy.example",
            "socks5://proxy.example:1",
            "http://",
            "http://p:70335",
        ] {
            assert!(Network::default().with_proxy(bad).is_err(), "{bad}");
        }
    }

    #[tokio::test]
    async fn no_connection_is_opened_to_an_impossible_port() {
        for url in ["http://127.0.0.1:65536/", "http://127.0.0.1:abc/", "https://[::1]:0/"] {
            let connecting = Network::default().connector().call(url.parse().unwrap());
            let error = connecting.await.err().unwrap();
            assert_eq!(error.to_string(), "the port of the URL is not a number from 1 to 65535");
        }
    }

    #[test]
    fn credentials_have_a_colon_unless_they_are_empty() {
        for (user, want) in [
            ("me:pw", Some("me:pw")),
            ("me", Some("me:")),
            ("me:", Some("me:")),
            (":pw", Some(":pw")),
            ("m%65:a:b%3A", Some("me:a:b:")),
            ("", None),
            (":", None),
        ] {
            let want = want.map(|want| format!("Basic {}", STANDARD.encode(want)));
            let found = basic(user).unwrap();
            assert_eq!(found.as_ref().map(|value| value.to_str().unwrap()), want.as_deref());
            assert!(found.is_none_or(|value| value.is_sensitive()), "{user}");
        }
        let proxy = Network::default().with_proxy("http://@proxy.example:3128").unwrap().proxy;
        assert_eq!(proxy.unwrap().authorization, None);
    }

    #[test]
    fn some_hosts_are_reached_directly() {
        let network = Network::default().with_proxy("http://proxy.example:3128").unwrap();
        let network = network.without_proxy_for(["localhost", "::1", ".Intern.example"]);
        for (url, is_proxied) in [
            ("http://localhost:1/mcp", false),
            ("http://[::1]:1/mcp", false),
            ("https://a.intern.example/mcp", false),
            ("https://intern.example/mcp", false),
            ("https://notintern.example/mcp", true),
            ("https://server.example/mcp", true),
        ] {
            assert_eq!(network.proxy_for(&url.parse().unwrap()).is_some(), is_proxied, "{url}");
        }
        assert_eq!(with_port("http://a/b".parse().unwrap()).unwrap(), "http://a:80/");
    }

    #[cfg(feature = "tls")]
    #[test]
    fn authorities_are_checked_when_they_are_given() {
        let error = Network::default().with_authorities("nothing").unwrap_err();
        assert_eq!(error, NetworkError::NoCertificate);
        let bad = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let error = Network::default().with_authorities(bad).unwrap_err();
        assert!(matches!(error, NetworkError::Certificate { number: 1, .. }));
    }
}
