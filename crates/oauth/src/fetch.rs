//! Fetches small documents from addresses that a server named.

use std::{net::IpAddr, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::{
    client::legacy::Client as HyperClient,
    rt::{TokioExecutor, TokioTimer},
};

use marquetry_protocol::client::{Connector, Network, ServerUrlError, parse_server_url};

use crate::url::{origin, same_origin};

/// Fetches documents of bounded size in bounded time. Follows redirects of documents within their
/// origin, and no others.
#[derive(Clone)]
pub(crate) struct Fetcher {
    client: HyperClient<Connector, Full<Bytes>>,
    max_bytes: usize,
    timeout: Duration,
}

/// An answer with its whole body.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// Why a request failed, as the end of a sentence whose subject is the address.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unreachable(String);

impl Fetcher {
    pub(crate) fn new(max_bytes: usize, timeout: Duration, network: &Network) -> Self {
        let client = HyperClient::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .build(network.connector());
        Self { client, max_bytes, timeout }
    }

    /// Fetches a document. Some servers keep it at another path, or add a slash at its end, and
    /// redirect there.
    pub(crate) async fn get(&self, uri: &Uri) -> Result<Answer, Unreachable> {
        const MAX_REDIRECTS: usize = 3;
        let mut uri = uri.clone();
        let mut redirects = 0;
        loop {
            let head = Request::get(&uri).header(header::ACCEPT, "application/json");
            let answer = self.send(head, Bytes::new()).await?;
            match redirect(&uri, &answer) {
                Some(next) if redirects < MAX_REDIRECTS => uri = next,
                _ => return Ok(answer),
            }
            redirects += 1;
        }
    }

    pub(crate) async fn send(
        &self,
        head: http::request::Builder,
        body: Bytes,
    ) -> Result<Answer, Unreachable> {
        let request = head
            .header(header::USER_AGENT, concat!("marquetry/", env!("CARGO_PKG_VERSION")))
            .body(Full::new(body))
            .map_err(|error| Unreachable(format!("the request is invalid: {error}")))?;
        let work = async {
            let response = self.client.request(request).await.map_err(|error| {
                let causes =
                    std::iter::successors(Some(&error as &dyn std::error::Error), |error| {
                        error.source()
                    });
                let cause = causes.last().map(ToString::to_string).unwrap_or_default();
                Unreachable(format!("cannot be reached: {cause}"))
            })?;
            let (parts, body) = response.into_parts();
            let body = Limited::new(body, self.max_bytes).collect().await.map_err(|error| {
                Unreachable(format!("cannot be read (at most {} bytes): {error}", self.max_bytes))
            })?;
            Ok(Answer { status: parts.status, headers: parts.headers, body: body.to_bytes() })
        };
        tokio::time::timeout(self.timeout, work).await.unwrap_or_else(|_| {
            Err(Unreachable(format!("no answer within {} s", self.timeout.as_secs_f64())))
        })
    }
}

/// Returns the address at the same origin that the answer redirects to, if it does.
fn redirect(uri: &Uri, answer: &Answer) -> Option<Uri> {
    use StatusCode as Status;
    let is_redirect = matches!(
        answer.status,
        Status::MOVED_PERMANENTLY
            | Status::FOUND
            | Status::SEE_OTHER
            | Status::TEMPORARY_REDIRECT
            | Status::PERMANENT_REDIRECT
    );
    let location = answer.headers.get(header::LOCATION).filter(|_| is_redirect)?.to_str().ok()?;
    if location.starts_with('/') && !location.starts_with("//") {
        return format!("{}{location}", origin(uri)).parse().ok();
    }
    let next: Uri = location.parse().ok()?;
    // A user in the address is another identity.
    let has_user = next.authority()?.as_str().contains('@');
    (same_origin(uri, &next) && !has_user).then_some(next)
}

// The crate `url` is not used: what is checked must be what is connected to, which is hyper's
// `http::Uri`. Two parsers that disagree on a URL would let an address through. It would also bring
// 26 crates to a library without knowledge.
/// The addresses that a server may name: a remote server must not make us send requests to this
/// machine or to a private network.
///
/// The check sees literal addresses and `localhost` in the URL. It does not resolve other names,
/// which may still point to a private address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Servers on this machine may name addresses on it.
    Loopback,
    /// Servers in a private network may name addresses in private networks.
    Private,
    /// Other servers may name public addresses only.
    Public,
}

impl Reach {
    /// Returns the addresses that the server at `uri` may name.
    pub(crate) fn of(uri: &Uri) -> Self {
        let host = uri.host().unwrap_or_default();
        match host.trim_matches(['[', ']']).parse::<IpAddr>() {
            Ok(ip) if is_loopback(ip) => Self::Loopback,
            Ok(ip) if is_private(ip) => Self::Private,
            Ok(_) => Self::Public,
            Err(_) if is_localhost(host) => Self::Loopback,
            Err(_) => Self::Public,
        }
    }

    /// Returns the address if it may be requested; otherwise why not.
    pub(crate) fn check(self, url: &str) -> Result<Uri, &'static str> {
        if url.contains('#') {
            return Err("it has a fragment");
        }
        let uri: Uri = url.parse().map_err(|_| "it is not a valid URL")?;
        // A connection would go to the default port instead, which may belong to another server.
        if parse_server_url(url) == Err(ServerUrlError::Port) {
            return Err("its port is not a number from 1 to 65535");
        }
        let Some(authority) = uri.authority() else { return Err("it is not an absolute URL") };
        if authority.as_str().contains('@') {
            return Err("it contains a user name");
        }
        if is_odd_number(uri.host().unwrap_or_default()) {
            return Err("its host is a number, but not an IP address");
        }
        let there = Self::of(&uri);
        match (uri.scheme_str(), there) {
            (Some("https"), _) | (Some("http"), Self::Loopback) => {}
            (Some("http"), _) => return Err("it must be https, or on this machine"),
            _ => return Err("it must be https"),
        }
        match (self, there) {
            (Self::Public, Self::Loopback | Self::Private) => Err(
                "it is on this machine or in a private network, and the server that names it is not",
            ),
            (Self::Private, Self::Loopback) => {
                Err("it is on this machine, and the server that names it is not")
            }
            _ => Ok(uri),
        }
    }
}

/// Returns whether a resolver may read it as an IPv4 address although it does not look like one:
/// `127.1`, `2130706433`, `0x7f.1` (the URL standard, "ends in a number").
fn is_odd_number(host: &str) -> bool {
    let last = host.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    let is_number = match last.strip_prefix("0x").or(last.strip_prefix("0X")) {
        Some(hex) => hex.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit()),
    };
    is_number && host.parse::<std::net::Ipv4Addr>().is_err()
}

fn is_localhost(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    host == "localhost" || host.ends_with(".localhost")
}

fn is_loopback(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    ip.is_loopback() || ip.is_unspecified()
}

fn is_private(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            let [a, b, ..] = ip.octets();
            ip.is_private() || ip.is_link_local() || (a == 100 && (64..128).contains(&b))
        }
        IpAddr::V6(ip) => ip.is_unique_local() || ip.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_servers_cannot_name_private_addresses() {
        let home =
            "it is on this machine or in a private network, and the server that names it is not";
        let number = "its host is a number, but not an IP address";
        for (server, url, want) in [
            ("https://a.example/mcp", "https://b.example/x", Ok(())),
            (
                "https://a.example/mcp",
                "http://b.example/x",
                Err("it must be https, or on this machine"),
            ),
            ("https://a.example/mcp", "http://localhost:1/x", Err(home)),
            ("https://a.example/mcp", "https://127.0.0.1/x", Err(home)),
            ("https://a.example/mcp", "https://[::1]/x", Err(home)),
            ("https://a.example/mcp", "https://127.1/x", Err(number)),
            ("https://a.example/mcp", "https://127.0.0.1./x", Err(number)),
            ("https://a.example/mcp", "https://2130706433/x", Err(number)),
            ("https://a.example/mcp", "https://0x7f.0x1/x", Err(number)),
            ("https://a.example/mcp", "https://1.example/x", Ok(())),
            ("https://a.example/mcp", "https://93.184.216.34/x", Ok(())),
            ("https://a.example/mcp", "https://[::ffff:127.0.0.1]/x", Err(home)),
            ("https://a.example/mcp", "https://0.0.0.0/x", Err(home)),
            ("https://a.example/mcp", "https://169.254.169.254/latest", Err(home)),
            ("https://a.example/mcp", "https://10.0.0.1/x", Err(home)),
            ("https://a.example/mcp", "https://[fd00::1]/x", Err(home)),
            ("https://a.example/mcp", "https://app.LOCALHOST./x", Err(home)),
            ("https://10.0.0.1/mcp", "https://10.0.0.2/x", Ok(())),
            (
                "https://10.0.0.1/mcp",
                "https://127.0.0.1/x",
                Err("it is on this machine, and the server that names it is not"),
            ),
            ("http://127.0.0.1:1/mcp", "http://localhost:2/x", Ok(())),
            ("http://127.0.0.1:1/mcp", "https://a.example/x", Ok(())),
            ("https://a.example/mcp", "file:///etc/passwd", Err("it is not a valid URL")),
            ("https://a.example/mcp", "javascript:alert(1)", Err("it must be https")),
            ("https://a.example/mcp", "ftp://a.example/x", Err("it must be https")),
            ("https://a.example/mcp", "https://u:p@a.example/x", Err("it contains a user name")),
            ("https://a.example/mcp", "https://a.example/x#y", Err("it has a fragment")),
            ("https://a.example/mcp", "/x", Err("it is not an absolute URL")),
            (
                "https://a.example/mcp",
                "https://b.example:65979/x",
                Err("its port is not a number from 1 to 65535"),
            ),
        ] {
            let reach = Reach::of(&server.parse().unwrap());
            assert_eq!(reach.check(url).map(|_| ()), want, "{server} names {url}");
        }
    }
}
