//! A running server, at a URL.

use std::net::SocketAddr;

use async_trait::async_trait;
use marquetry_protocol::{Revision, client::parse_server_url};

use super::{Connection, RunningServer, ServerSetup, ServerStartError, TestedServer};
use crate::language::{Limits, Transport};

/// A running server, which all cases share.
#[derive(Clone, Debug)]
pub struct UrlServer {
    url: String,
    transport: Transport,
    revisions: Vec<Revision>,
}

impl UrlServer {
    /// Creates a server that speaks Streamable HTTP at `url`.
    pub fn new(url: impl Into<String>) -> Self {
        let revisions = vec![Revision::V2025_11_25];
        Self { url: url.into(), transport: Transport::Http, revisions }
    }

    /// Uses HTTP+SSE instead.
    #[must_use]
    pub fn over_sse(mut self) -> Self {
        self.transport = Transport::Sse;
        self
    }

    /// Sets the revisions that scenarios run with; only 2025-11-25 by default.
    #[must_use]
    pub fn with_revisions(mut self, revisions: Vec<Revision>) -> Self {
        self.revisions = revisions;
        self
    }
}

#[async_trait]
impl TestedServer for UrlServer {
    fn limits(&self) -> Limits {
        Limits::only(self.transport, self.revisions.clone())
    }

    async fn start(
        &self,
        setup: ServerSetup<'_>,
    ) -> Result<Box<dyn RunningServer>, ServerStartError> {
        setup.check_has_only_agent()?;
        parse_server_url(&self.url).map_err(std::io::Error::other)?;
        let address = match host_and_port(&self.url) {
            Some(address) => tokio::net::lookup_host(address).await?.next(),
            None => None,
        };
        Ok(Box::new(Running { url: self.url.clone(), address }))
    }
}

/// Returns the host and the port of a plain `http` URL, for `http` steps.
fn host_and_port(url: &str) -> Option<String> {
    let rest = url.strip_prefix("http://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| {
        !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
    });
    Some(if has_port { authority.to_owned() } else { format!("{authority}:80") })
}

struct Running {
    url: String,
    address: Option<SocketAddr>,
}

#[async_trait]
impl RunningServer for Running {
    async fn connect(&mut self) -> Result<Connection, ServerStartError> {
        Ok(Connection::http(self.url.clone()))
    }

    fn http_address(&self) -> Option<SocketAddr> {
        self.address
    }

    async fn shut_down(self: Box<Self>) -> Result<(), String> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_url_is_its_host_and_port() {
        for (url, want) in [
            ("http://127.0.0.1:3001/mcp", Some("127.0.0.1:3001")),
            ("http://localhost/mcp", Some("localhost:80")),
            ("http://[::1]:8080", Some("[::1]:8080")),
            ("https://localhost/mcp", None),
        ] {
            assert_eq!(host_and_port(url).as_deref(), want, "{url}");
        }
    }
}
