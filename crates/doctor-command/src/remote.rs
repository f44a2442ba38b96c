//! Causes of servers that are reached over HTTP.

use http::Uri;
use marquetry_gateway::StartFailure;
use marquetry_protocol::client::{
    AuthorizationError, ClientError, ProtocolError, Refusal, UnreachedKind, without_secrets,
};

use crate::{
    cause::{Cause, Finding},
    general,
};

/// A URL that has failed.
pub(crate) struct FailedUrl<'a> {
    /// Name of the server in the configuration.
    pub(crate) server: &'a str,
    pub(crate) url: &'a str,
    /// Whether the configuration sends a token in a header or in the URL.
    pub(crate) has_token: bool,
}

/// Returns why no server answers at a URL.
pub(crate) fn finding(failed: &FailedUrl<'_>, failure: &StartFailure) -> Finding {
    match failure {
        StartFailure::Client(error) => of_error(failed, error),
        StartFailure::NotReady(limit) => Finding::new(
            Cause::Silent,
            format!("it did not answer within {} s", limit.as_secs_f64()),
            "check that the URL is an endpoint of MCP and the server is running; for a slow server raise start_timeout_ms",
        ),
        StartFailure::Lost(why) => Finding::new(
            Cause::Lost,
            format!("its connection was lost soon after it was opened: {why}"),
            "the log of the server may say more",
        ),
        _ => Finding::new(Cause::Unreachable, "it is down", "the log of the server may say more"),
    }
}

fn of_error(failed: &FailedUrl<'_>, error: &ClientError) -> Finding {
    let shown = without_secrets(failed.url);
    match error {
        _ if let Some(kind) = error.unreached() => unreached(failed, kind, error),
        ClientError::Unauthorized(refusal) => unauthorized(failed, refusal),
        ClientError::Authorization(error) => authorization(failed, error),
        ClientError::Http { status, body } => of_status(failed, *status, body),
        ClientError::Protocol(ProtocolError::WebPage) => Finding::new(
            Cause::WebPage,
            format!("{shown} is a web page, not an endpoint of MCP"),
            path_advice(failed.url),
        ),
        ClientError::Protocol(
            ProtocolError::Redirect { .. } | ProtocolError::TooManyRedirects { .. },
        ) => redirect(&error.to_string()),
        error => general::finding(error),
    }
}

fn unreached(failed: &FailedUrl<'_>, kind: UnreachedKind, error: &ClientError) -> Finding {
    let uri = failed.url.parse::<Uri>().unwrap_or_default();
    let host = uri.host().unwrap_or_default();
    match kind {
        UnreachedKind::Name => Finding::new(
            Cause::UnknownHost,
            format!("the host {host:?} has no address (DNS)"),
            "correct the name in \"url\", or check the network",
        ),
        UnreachedKind::Refused => {
            let default = if uri.scheme_str() == Some("https") { 443 } else { 80 };
            let port = uri.port_u16().unwrap_or(default);
            Finding::new(
                Cause::ConnectionRefused,
                format!("no program listens on port {port} of {host:?}"),
                "start the server, or correct the port in \"url\"",
            )
        }
        UnreachedKind::Certificate => Finding::new(
            Cause::Certificate,
            error.to_string(),
            "for a private authority, name its certificate in gateway.ca_file; otherwise the server needs a valid certificate for this host",
        ),
        UnreachedKind::Tls => {
            let advice = if uri.scheme_str() == Some("https") {
                "if the server speaks plain HTTP on this port, write http:// instead of https://"
            } else {
                "if the server speaks TLS on this port, write https:// instead of http://"
            };
            Finding::new(Cause::Tls, error.to_string(), advice)
        }
        _ => Finding::new(
            Cause::Unreachable,
            error.to_string(),
            "check the address, the network and gateway.proxy",
        ),
    }
}

fn unauthorized(failed: &FailedUrl<'_>, refusal: &Refusal) -> Finding {
    let server = failed.server;
    let problem = refusal.to_string();
    if refusal.is_insufficient_scope() {
        return Finding::new(
            Cause::TokenRefused,
            problem,
            "use a token with the scopes that the server names",
        );
    }
    if failed.has_token || refusal.presented().is_some() {
        return Finding::new(
            Cause::TokenRefused,
            format!("it refuses the token that it gets (HTTP status {})", refusal.status),
            "the token is wrong or has expired: renew it, and check its header (Authorization: Bearer TOKEN)",
        );
    }
    if refusal.status == 403 {
        return forbidden();
    }
    Finding::new(
        Cause::LoginNeeded,
        problem,
        format!(
            "log in with `marquetry login {server}`, or set a token in \"headers\" (Authorization: Bearer TOKEN)"
        ),
    )
}

fn forbidden() -> Finding {
    Finding::new(
        Cause::Forbidden,
        "it refuses the request (HTTP status 403), and no token was sent",
        "if it needs a token, set it in \"headers\"; otherwise it does not accept this address or host name",
    )
}

fn authorization(failed: &FailedUrl<'_>, error: &AuthorizationError) -> Finding {
    let server = failed.server;
    let login = format!("log in with `marquetry login {server}`");
    match error {
        AuthorizationError::LoginRequired { .. } => {
            Finding::new(Cause::LoginNeeded, error.to_string(), login)
        }
        AuthorizationError::Denied { .. } => {
            Finding::new(Cause::TokenRefused, error.to_string(), login)
        }
        error => Finding::new(
            Cause::LoginNeeded,
            error.to_string(),
            "check \"auth\" of the server, and its authorization server",
        ),
    }
}

fn of_status(failed: &FailedUrl<'_>, status: u16, body: &str) -> Finding {
    let shown = without_secrets(failed.url);
    let is_page = body.trim_start().get(..5).is_some_and(|start| {
        start.eq_ignore_ascii_case("<html") || start.eq_ignore_ascii_case("<!doc")
    });
    let said = if body.is_empty() || is_page { String::new() } else { format!(": {body}") };
    match status {
        300..400 => redirect(&format!("HTTP status {status}{said}")),
        // With a challenge, both would be an error of their own.
        401 | 403 if failed.has_token => Finding::new(
            Cause::TokenRefused,
            format!("it refuses the token that it gets (HTTP status {status}){said}"),
            "the token is wrong, has expired or lacks a right: renew it, and check its header (Authorization: Bearer TOKEN)",
        ),
        403 => forbidden(),
        404 | 405 | 410 => Finding::new(
            Cause::WrongPath,
            format!("no endpoint of MCP is at {shown} (HTTP status {status})"),
            path_advice(failed.url),
        ),
        400 if body.to_ascii_lowercase().contains("https") => Finding::new(
            Cause::Tls,
            format!("HTTP status {status}{said}"),
            "write https:// instead of http://",
        ),
        407 => Finding::new(
            Cause::HttpStatus,
            "the proxy wants a password (HTTP status 407)",
            "set user and password in the URL of gateway.proxy",
        ),
        429 => Finding::new(
            Cause::HttpStatus,
            format!("it gets too many requests (HTTP status 429){said}"),
            "try again later",
        ),
        500.. => Finding::new(
            Cause::HttpStatus,
            format!("it fails with HTTP status {status}{said}"),
            "the log of the server may say why; 502 to 504 are of a proxy before it",
        ),
        _ => Finding::new(
            Cause::HttpStatus,
            format!("it refuses the request with HTTP status {status}{said}"),
            path_advice(failed.url),
        ),
    }
}

fn redirect(problem: &str) -> Finding {
    Finding::new(
        Cause::Redirect,
        format!("it redirects elsewhere, perhaps to a page to log in on: {problem}"),
        "give the address of the endpoint itself; if a proxy asks for a login in the browser, let it pass requests with a token",
    )
}

/// Names paths at which the endpoint may be.
fn path_advice(url: &str) -> String {
    let uri = url.parse::<Uri>().unwrap_or_default();
    let path = uri.path().trim_end_matches('/');
    let origin = origin(&uri);
    let others = match (path.strip_suffix("/sse"), path.strip_suffix("/mcp")) {
        (Some(head), _) => format!("{origin}{head}/mcp"),
        (_, Some(head)) => format!("{origin}{head}/sse or {origin}{head}/"),
        _ => format!("{origin}{path}/mcp"),
    };
    format!("correct the path in \"url\": try {others}")
}

/// Returns scheme, host and port, without user and password.
fn origin(uri: &Uri) -> String {
    let scheme = uri.scheme_str().unwrap_or("http");
    let authority = uri.authority().map(http::uri::Authority::as_str).unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_proposed() {
        for (url, want) in [
            ("http://h:1/sse", "try http://h:1/mcp"),
            ("http://h:1/api/mcp/", "try http://h:1/api/sse or http://h:1/api/"),
            ("https://me:hush@h", "try https://h/mcp"),
            ("not a url", "try http:///mcp"),
        ] {
            assert!(path_advice(url).ends_with(want), "{}", path_advice(url));
        }
    }

    #[test]
    fn statuses_have_causes() {
        for (status, body, has_token, cause) in [
            (302, "it redirects to https://login", false, Cause::Redirect),
            (401, "", true, Cause::TokenRefused),
            (403, "", true, Cause::TokenRefused),
            (403, "", false, Cause::Forbidden),
            (404, "<html>no", false, Cause::WrongPath),
            (400, "Client sent an HTTP request to an HTTPS server.", false, Cause::Tls),
            (400, "no", false, Cause::HttpStatus),
            (429, "", false, Cause::HttpStatus),
            (503, "busy", false, Cause::HttpStatus),
        ] {
            let failed = FailedUrl { server: "s", url: "http://h/mcp", has_token };
            let found = of_status(&failed, status, body);
            assert_eq!(found.cause, cause, "{status}");
            assert!(!found.problem.contains('<'), "{found:?}");
        }
    }
}
