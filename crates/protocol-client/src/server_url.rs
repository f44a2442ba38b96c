//! URLs of servers, checked before a connection is opened.

use http::{Uri, uri::Authority};

/// Why a text is not the URL of an HTTP server. No variant shows the URL, which may hold a
/// password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServerUrlError {
    /// Another scheme, or none.
    #[error("expected a URL that begins with http:// or https://")]
    Scheme,
    /// The host is missing.
    #[error("the URL has no host")]
    NoHost,
    /// The host begins with `[`, but does not end with `]`.
    #[error("the host of the URL begins with '[' without a closing ']'")]
    Bracket,
    /// The host has characters outside of ASCII.
    #[error(
        "the host of the URL has the character {0:?}; write an international name in its ASCII form (xn--…)"
    )]
    HostCharacter(char),
    /// The port is not a number from 1 to 65535.
    #[error("the port of the URL is not a number from 1 to 65535")]
    Port,
    /// The character is not allowed in a URL.
    #[error("the URL has the character {0:?}; write it percent-encoded (a space as %20)")]
    Character(char),
    /// Another fault of the syntax.
    #[error("the URL is not valid")]
    Invalid,
}

/// Parses the URL of an HTTP server. A port that cannot exist is refused: [`Uri::port_u16`] returns
/// `None` for it, and HTTP clients then connect to the default port of the scheme, which may belong
/// to another server.
///
/// ```
/// use marquetry_protocol_client::{ServerUrlError, parse_server_url};
///
/// assert_eq!(parse_server_url("http://127.0.0.1:8080/mcp").unwrap().port_u16(), Some(8080));
/// assert_eq!(parse_server_url("http://127.0.0.1:80800/mcp"), Err(ServerUrlError::Port));
/// ```
///
/// # Errors
///
/// Returns an error if the URL is not valid; see [`ServerUrlError`].
pub fn parse_server_url(text: &str) -> Result<Uri, ServerUrlError> {
    let uri: Uri = text.parse().map_err(|_| explain(text))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(ServerUrlError::Scheme);
    }
    if uri.host().is_none_or(str::is_empty) {
        return Err(ServerUrlError::NoHost);
    }
    check_port(&uri)?;
    Ok(uri)
}

/// Checks that the port of a URL is missing, empty, or a number from 1 to 65535.
pub(super) fn check_port(uri: &Uri) -> Result<(), ServerUrlError> {
    let authority = uri.authority().map_or("", Authority::as_str);
    let port = split_port(without_user(authority)).1;
    if port.is_empty() {
        return Ok(());
    }
    let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
    let number = port.parse::<u16>().ok().filter(|&number| is_number && number > 0);
    number.map(|_| ()).ok_or(ServerUrlError::Port)
}

/// Finds the fault of a text that [`Uri`] refuses.
fn explain(text: &str) -> ServerUrlError {
    let Some((scheme, rest)) = text.split_once("://") else { return ServerUrlError::Scheme };
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return ServerUrlError::Scheme;
    }
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    let host_and_port = without_user(authority);
    if host_and_port.starts_with('[') && !host_and_port.contains(']') {
        return ServerUrlError::Bracket;
    }
    if split_port(host_and_port).0.is_empty() {
        return ServerUrlError::NoHost;
    }
    if let Some(found) = host_and_port.chars().find(|c| !c.is_ascii()) {
        return ServerUrlError::HostCharacter(found);
    }
    rest.chars()
        .find(|c| c.is_whitespace() || c.is_control() || "\"<>\\^`{|}".contains(*c))
        .map_or(ServerUrlError::Invalid, ServerUrlError::Character)
}

fn without_user(authority: &str) -> &str {
    authority.rsplit_once('@').map_or(authority, |(_, host_and_port)| host_and_port)
}

/// Splits `host:port`; the colons of an IPv6 address are between brackets.
fn split_port(host_and_port: &str) -> (&str, &str) {
    let host_end = host_and_port.rfind(']').map_or(0, |bracket| bracket + 1);
    match host_and_port[host_end..].split_once(':') {
        Some((rest, port)) => (&host_and_port[..host_end + rest.len()], port),
        None => (host_and_port, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_ports_are_refused() {
        for port in ["70335", "65536", "99999", "0", "00", "-1", "+80", "abc", "8o", "80a"] {
            for host in ["127.0.0.1", "me:pw@h", "[::1]", "me@[::1]"] {
                let url = format!("http://{host}:{port}/ok");
                assert_eq!(parse_server_url(&url), Err(ServerUrlError::Port), "{url}");
            }
        }
    }

    #[test]
    fn usual_urls_are_accepted() {
        for url in [
            "http://h",
            "HTTP://H/x",
            "https://h:443/x?y=http://z:99999",
            "http://h:65535",
            "http://h:080/",
            "http://h:/x",
            "http://[::1]/x",
            "http://me:99999@h/x",
            "http://me@[::1]:1/x",
        ] {
            assert!(parse_server_url(url).is_ok(), "{url}");
        }
    }

    #[test]
    fn errors_name_the_fault() {
        for (url, want) in [
            ("", ServerUrlError::Scheme),
            ("h:1/mcp", ServerUrlError::Scheme),
            ("/mcp", ServerUrlError::Scheme),
            ("ftp://h/", ServerUrlError::Scheme),
            ("http:h", ServerUrlError::Scheme),
            ("http://", ServerUrlError::NoHost),
            ("http:///x", ServerUrlError::NoHost),
            ("http://:1/x", ServerUrlError::NoHost),
            ("http://me@/x", ServerUrlError::NoHost),
            ("http://[::1/x", ServerUrlError::Bracket),
            ("http://exämple/", ServerUrlError::HostCharacter('ä')),
            ("http://host/o k", ServerUrlError::Character(' ')),
            ("http://ho st/", ServerUrlError::Character(' ')),
            ("http://h/\u{7}", ServerUrlError::Character('\u{7}')),
            ("http://a:b:c/", ServerUrlError::Invalid),
        ] {
            assert_eq!(parse_server_url(url), Err(want), "{url}");
        }
    }
}
