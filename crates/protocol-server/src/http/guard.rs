//! Checks `Host` and `Origin`, so that no web page reaches a server on loopback (DNS rebinding).

use http::{HeaderMap, HeaderValue, Request, header};

/// Checks `Host` and `Origin`, so that a page in the user's browser cannot reach a server on the
/// user's machine (2025-11-25, "Transports", "Security Warning").
///
/// | header | missing | repeated |
/// |---|---|---|
/// | `Host` | refused; in HTTP/2, `:authority` can take its place | refused, even if the values are the same; in HTTP/2 with `:authority`, each value must be the same as that |
/// | `Origin` | passes, since programs other than browsers send none | refused, even if the values are the same |
///
/// Browsers leave `Origin` out of some requests, such as `GET` for a picture or a link. Therefore
/// an endpoint behind this guard must not change anything at a `GET`, or must check
/// `Sec-Fetch-Site` too.
#[derive(Clone, Debug, Default)]
pub struct HostGuard {
    hosts: Vec<String>,
    origins: Vec<String>,
}

/// The header for which a request was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The `Host` header is missing or repeated, differs from `:authority`, or names a host that is
    /// not allowed.
    #[error("{}", match .0.as_str() {
        "" => "the Host header is missing".to_owned(),
        host => format!("host '{host}' is not allowed"),
    })]
    Host(String),
    /// The `Origin` header is repeated or names an origin that is not allowed.
    #[error("origin '{0}' is not allowed")]
    Origin(String),
}

impl HostGuard {
    /// Allows loopback names (`localhost`, `127.0.0.0/8`, `[::1]`), with any port.
    #[must_use]
    pub fn loopback() -> Self {
        Self::default()
    }

    /// Allows the host names `hosts` besides loopback. A name without a port allows every port; a
    /// name with a port allows only that port.
    #[must_use]
    pub fn and_hosts(mut self, hosts: impl IntoIterator<Item = String>) -> Self {
        self.hosts.extend(hosts.into_iter().map(|host| host.to_ascii_lowercase()));
        self
    }

    /// Allows pages from `origins` (`https://example.com`) besides pages on loopback.
    #[must_use]
    pub fn and_origins(mut self, origins: impl IntoIterator<Item = String>) -> Self {
        self.origins.extend(
            origins.into_iter().map(|origin| origin.trim_end_matches('/').to_ascii_lowercase()),
        );
        self
    }

    /// Checks a request. In HTTP/2 the host is in `:authority`, or in `Host` if `:authority` is
    /// missing; the two must not differ (RFC 9113, section 8.3.1). In HTTP/1.1 a target that is a
    /// whole URL counts as `:authority` does (RFC 9112, section 3.2.2).
    ///
    /// # Errors
    /// Returns an error if a header is refused; answer with 403.
    pub fn check_request<B>(&self, request: &Request<B>) -> Result<(), Refusal> {
        let headers = request.headers();
        let Some(authority) = request.uri().authority() else { return self.check(headers) };
        if headers
            .get_all(header::HOST)
            .iter()
            .any(|host| !host.as_bytes().eq_ignore_ascii_case(authority.as_str().as_bytes()))
        {
            let host = text(headers.get(header::HOST));
            return Err(Refusal::Host(format!(
                "{}, and another",
                marquetry_protocol_wire::shortened(&host)
            )));
        }
        self.check_host(authority.as_str())?;
        self.check_origin(headers)
    }

    /// Checks the headers of an HTTP/1.1 request. [`Self::check_request`] also supports HTTP/2.
    ///
    /// # Errors
    /// Returns an error if a header is refused; answer with 403.
    pub fn check(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let host = text(headers.get(header::HOST));
        // If `Host` is repeated, a proxy in front of the server might check a different value than
        // the guard.
        if headers.get_all(header::HOST).iter().count() > 1 {
            return Err(Refusal::Host(format!(
                "{}, and another",
                marquetry_protocol_wire::shortened(&host)
            )));
        }
        self.check_host(&host)?;
        self.check_origin(headers)
    }

    fn check_host(&self, host: &str) -> Result<(), Refusal> {
        let lower = host.to_ascii_lowercase();
        if is_loopback(without_port(&lower)) || self.allows_host(&lower) {
            return Ok(());
        }
        Err(Refusal::Host(marquetry_protocol_wire::shortened(host).to_owned()))
    }

    fn check_origin(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        if headers.get_all(header::ORIGIN).iter().count() > 1 {
            return Err(Refusal::Origin("several at once".to_owned()));
        }
        let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
        let origin = text(Some(origin)).to_ascii_lowercase();
        let from_loopback = ["http://", "https://"].iter().any(|scheme| {
            origin.strip_prefix(scheme).is_some_and(|rest| is_loopback(without_port(rest)))
        });
        if from_loopback || self.origins.contains(&origin) {
            return Ok(());
        }
        Err(Refusal::Origin(marquetry_protocol_wire::shortened(&origin).to_owned()))
    }

    fn allows_host(&self, host: &str) -> bool {
        self.hosts.iter().any(|allowed| allowed == host || allowed == without_port(host))
    }
}

fn text(value: Option<&HeaderValue>) -> String {
    value.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).unwrap_or_default()
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port))
            if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.is_empty() =>
        {
            name
        }
        _ => host,
    }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost"
        || host == "[::1]"
        || host.parse::<std::net::Ipv4Addr>().is_ok_and(|address| address.is_loopback())
}
