//! Origins that a View may reach, as sources of a content security policy.

use std::{
    fmt,
    net::{Ipv4Addr, Ipv6Addr},
};

/// A source of a content security policy: scheme, host and port. Its text has no character that
/// could end the directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    scheme: &'static str,
    /// Whether the origin covers every host below `host`.
    is_wildcard: bool,
    host: String,
    port: Option<u16>,
}

/// The reason why a text is not an origin that a View may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OriginError {
    /// The text is not a scheme and a host with an optional port.
    #[error(
        "an origin is https://host or https://host:port, with *. before the host for every host below it"
    )]
    Form,
    /// The scheme is not allowed in this list.
    #[error("the scheme is not allowed here")]
    Scheme,
    /// The wildcard covers too many hosts.
    #[error("*. needs a host of at least two parts after it")]
    Wildcard,
    /// The origin is not in the host's list of allowed origins.
    #[error("the host does not allow this origin for Views")]
    NotAllowed,
}

/// Maximum length of an origin, in bytes. The longest name in the DNS has 253.
const MAX_BYTES: usize = 300;

/// Schemes of documents and other resources.
pub(super) const RESOURCE_SCHEMES: &[&str] = &["https", "http"];

/// Schemes of connections, which may be WebSockets.
pub(super) const CONNECTION_SCHEMES: &[&str] = &["https", "http", "wss", "ws"];

impl Origin {
    /// Parses `scheme://host[:port]` with one of these schemes.
    pub(super) fn parse(text: &str, schemes: &[&'static str]) -> Result<Self, OriginError> {
        if text.len() > MAX_BYTES {
            return Err(OriginError::Form);
        }
        let (scheme, rest) = text.split_once("://").ok_or(OriginError::Form)?;
        let scheme = schemes
            .iter()
            .copied()
            .find(|it| scheme.eq_ignore_ascii_case(it))
            .ok_or(OriginError::Scheme)?;
        // Servers often write the slash of the root; any other path would have another meaning in a
        // policy.
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if let Some(rest) = authority.strip_prefix('[') {
            let (address, port) = rest.split_once(']').ok_or(OriginError::Form)?;
            let address: Ipv6Addr = address.parse().map_err(|_| OriginError::Form)?;
            let host = format!("[{address}]");
            return Ok(Self { scheme, is_wildcard: false, host, port: parse_port(port)? });
        }
        let host_end = authority.find(':').unwrap_or(authority.len());
        let (host, port) = authority.split_at(host_end);
        let port = parse_port(port)?;
        let (is_wildcard, host) = match host.strip_prefix("*.") {
            Some(parent) => (true, parent),
            None => (false, host),
        };
        if !host.split('.').all(is_label) {
            return Err(OriginError::Form);
        }
        if is_wildcard && !host.contains('.') {
            return Err(OriginError::Wildcard);
        }
        Ok(Self { scheme, is_wildcard, host: host.to_ascii_lowercase(), port })
    }

    /// Returns whether the origin is on this machine.
    pub(super) fn is_loopback(&self) -> bool {
        self.host == "localhost"
            || self.host.ends_with(".localhost")
            || self.host == "[::1]"
            || self.host.parse().is_ok_and(|it: Ipv4Addr| it.is_loopback())
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wildcard = if self.is_wildcard { "*." } else { "" };
        write!(formatter, "{}://{wildcard}{}", self.scheme, self.host)?;
        self.port.map_or(Ok(()), |port| write!(formatter, ":{port}"))
    }
}

/// Parses what follows a host: nothing, or a colon and a port.
fn parse_port(text: &str) -> Result<Option<u16>, OriginError> {
    if text.is_empty() {
        return Ok(None);
    }
    let digits = text.strip_prefix(':').ok_or(OriginError::Form)?;
    // The parser of the standard library would accept a sign.
    if !digits.bytes().all(|it| it.is_ascii_digit()) {
        return Err(OriginError::Form);
    }
    digits.parse().map(Some).map_err(|_| OriginError::Form)
}

/// Returns whether a text is one part of a host name.
fn is_label(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-' || it == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: Result<&str, OriginError>) {
        let got = Origin::parse(text, CONNECTION_SCHEMES).map(|it| it.to_string());
        assert_eq!(got.as_deref().map_err(|it| *it), want, "{text}");
    }

    #[test]
    fn origins_are_parsed() {
        check("https://a.example", Ok("https://a.example"));
        check("HTTPS://A.Example/", Ok("https://a.example"));
        check("https://*.a.example:8443", Ok("https://*.a.example:8443"));
        check("wss://a", Ok("wss://a"));
        check("http://127.0.0.1:9", Ok("http://127.0.0.1:9"));
        check("http://[::1]:9", Ok("http://[::1]:9"));
        check("http://[::1]", Ok("http://[::1]"));
        assert_eq!(Origin::parse("wss://a", RESOURCE_SCHEMES), Err(OriginError::Scheme));
    }

    #[test]
    fn no_origin_breaks_out_of_its_directive() {
        use OriginError::{Form, Scheme, Wildcard};
        for text in [
            "*",
            "'self'",
            "'unsafe-eval'",
            "a.example",
            "",
            "https",
            "https:a",
            "data:",
            "blob:",
            "https:",
        ] {
            check(text, Err(Form));
        }
        for text in [
            "https://",
            "https://a b",
            "https://a;script-src *",
            "https://a; script-src *",
            "https://a,b",
            "https://a\nb",
            "https://a\r\nSet-Cookie: x",
            "https://a'",
            "https://a\"",
            "https://a/b",
            "https://a?b",
            "https://a:",
            "https://[::1]:",
            "https://a:*",
            "https://a:99999",
            "https://a:+1",
            "https://u@a",
            "https://a..b",
            "https://[::1",
            "https://[x]",
            "https://[::1]x",
            "https://[::1]:",
            "https://*",
            "https://*a.b",
            "https://é.example",
        ] {
            check(text, Err(Form));
        }
        for text in ["javascript://a", "data://a", "file://a", "*://a", "'self'://a", "ui://a"] {
            check(text, Err(Scheme));
        }
        check("https://*.example", Err(Wildcard));
        check("https://*.*.example", Err(Form));
        check(&format!("https://{}", "a".repeat(300)), Err(Form));
    }

    #[test]
    fn loopback_hosts_are_recognised() {
        for (text, is_loopback) in [
            ("http://localhost", true),
            ("http://a.localhost:1", true),
            ("http://127.9.9.9", true),
            ("http://[::1]", true),
            ("http://localhost.example", false),
            ("http://128.0.0.1", false),
        ] {
            assert_eq!(
                Origin::parse(text, RESOURCE_SCHEMES).unwrap().is_loopback(),
                is_loopback,
                "{text}"
            );
        }
    }
}
