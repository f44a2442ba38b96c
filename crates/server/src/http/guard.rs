//! Checks of each request before it reaches a route: `Host`, `Origin`, and the encoding of its
//! body.

use std::{sync::Arc, time::Instant};

use axum::{
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header},
    middleware::Next,
};
use marquetry_protocol::{
    error_code,
    server::http::{HostGuard, Refusal},
};
use marquetry_rate_limit::LogLimit;
use serde_json::json;
use tracing::Instrument as _;

use super::{MCP, MESSAGES, SSE, refusal};
use crate::rest::{RestError, json_response};

/// Refused requests that are logged in a second.
const MAX_LOGGED_REFUSALS: u32 = 5;

/// Refuses requests with foreign `Host` or `Origin` headers before they reach a route.
pub(super) struct RequestGuard {
    guard: HostGuard,
    /// Origins of other servers whose pages may call, in lower case.
    origins: Vec<String>,
    /// Bounds the log of refusals.
    logged: LogLimit,
}

impl RequestGuard {
    pub(super) fn new(guard: HostGuard, origins: Vec<String>) -> Self {
        let origins = origins
            .into_iter()
            .map(|origin| origin.trim_end_matches('/').to_ascii_lowercase())
            .collect();
        Self { guard, origins, logged: LogLimit::new(MAX_LOGGED_REFUSALS) }
    }

    /// Returns the first of the headers `Host` and `Origin` that is refused. The guard accepts
    /// every page on this machine; this check accepts only pages of this server and of the
    /// configured origins, because any program on this machine can serve a page with content from
    /// elsewhere.
    fn check(&self, request: &Request) -> Result<(), RestError> {
        self.guard.check_request(request).map_err(|refusal| match refusal {
            Refusal::Origin(origin) => RestError::OriginNotAllowed(origin),
            Refusal::Host(host) => RestError::HostNotAllowed(host),
            _ => RestError::HostNotAllowed(String::new()),
        })?;
        let Some(origin) = request.headers().get(header::ORIGIN) else {
            return check_site(request);
        };
        let origin = String::from_utf8_lossy(origin.as_bytes()).to_ascii_lowercase();
        let authority = request.uri().authority().map(|authority| authority.as_str().as_bytes());
        let host = authority.or(request.headers().get(header::HOST).map(HeaderValue::as_bytes));
        let page = origin.split_once("://").map(|(_, host)| host.as_bytes());
        let is_own = match (page, host) {
            (Some(page), Some(host)) => page.eq_ignore_ascii_case(host),
            _ => false,
        };
        if is_own || self.origins.contains(&origin) {
            return Ok(());
        }
        Err(RestError::OriginNotAllowed(marquetry_protocol::shortened(&origin).to_owned()))
    }
}

/// Refuses requests from pages of other sites that have no `Origin` header, such as requests for
/// images. Links to this server's own page work from everywhere.
fn check_site(request: &Request) -> Result<(), RestError> {
    let headers = request.headers();
    let Some(site) = headers.get(SITE) else { return Ok(()) };
    let is_other = site != "same-origin" && site != "none";
    let is_link = request.uri().path() == "/"
        && headers.get("sec-fetch-dest").is_some_and(|destination| destination == "document");
    if is_other && !is_link {
        let site = String::from_utf8_lossy(site.as_bytes());
        return Err(RestError::CrossSite(marquetry_protocol::shortened(&site).to_owned()));
    }
    Ok(())
}

/// The header in which a browser names the relation of the requesting site to this server (Fetch
/// Metadata Request Headers, section 2.4).
const SITE: &str = "sec-fetch-site";

/// Checks `Host` and `Origin`, answers preflight requests, and adds CORS headers.
pub(super) async fn check(
    State(guard): State<Arc<RequestGuard>>,
    mut request: Request,
    next: Next,
) -> Response<Body> {
    if let Err(error) = guard.check(&request) {
        if let Some(suppressed) = guard.logged.admit() {
            let (.., advice) = error.parts();
            tracing::warn!(suppressed, "request refused: {advice}");
        }
        return refused(&request, &error);
    }
    if let Some(encoding) = content_encoding(request.headers()) {
        return refused(&request, &RestError::BodyEncoded(encoding));
    }
    // In HTTP/2 it is in the target (`:authority`); the routes read the header.
    if let Some(authority) = request.uri().authority()
        && let Ok(host) = authority.as_str().parse()
    {
        request.headers_mut().entry(header::HOST).or_insert(host);
    }
    let origin = request.headers().get(header::ORIGIN).cloned();
    let is_preflight = request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let span = tracing::info_span!("http", %method, path);
    let started = Instant::now();
    let mut response = if is_preflight {
        preflight(&request)
    } else {
        next.run(request).instrument(span.clone()).await
    };
    let ms = started.elapsed().as_millis() as u64;
    tracing::debug!(parent: &span, status = response.status().as_u16(), ms, "answered");
    if let Some(origin) = origin {
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.append(header::VARY, HeaderValue::from_static("Origin"));
        headers.insert(
            header::ACCESS_CONTROL_EXPOSE_HEADERS,
            HeaderValue::from_static("Mcp-Session-Id, Mcp-Protocol-Version, WWW-Authenticate"),
        );
    }
    response
}

/// Returns the encoding of a compressed body, which no route reads.
fn content_encoding(headers: &HeaderMap) -> Option<String> {
    let encoding = String::from_utf8_lossy(headers.get(header::CONTENT_ENCODING)?.as_bytes());
    let shown = &encoding[..encoding.floor_char_boundary(100)];
    (!encoding.eq_ignore_ascii_case("identity")).then(|| shown.to_owned())
}

/// Returns the answer to a request that fails a check: a JSON-RPC error at MCP paths, else an
/// error body of the path.
fn refused(request: &Request, error: &RestError) -> Response<Body> {
    let path = request.uri().path();
    let mut response = if [MCP, SSE, MESSAGES].contains(&path) {
        let (status, _, message) = error.parts();
        let error = json!({"code": error_code::INVALID_REQUEST, "message": message});
        json_response(status, &json!({"jsonrpc": "2.0", "id": null, "error": error}))
    } else {
        refusal(path, error)
    };
    // The body stays unread; the server must not parse it as the next request.
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

// `tower_http::cors` has one list of methods for all paths, and treats every OPTIONS request as a
// preflight request. Its request span would need as many lines as `check`.
/// Answers a preflight request. No route uses cookies, so an allowed page may send any header.
fn preflight(request: &Request) -> Response<Body> {
    const MAX_AGE: HeaderValue = HeaderValue::from_static("600");
    let methods = if request.uri().path() == MCP { "GET, POST, DELETE" } else { "GET, POST" };
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(methods));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    let asked: HeaderName = header::ACCESS_CONTROL_REQUEST_HEADERS;
    if let Some(asked) = request.headers().get(asked) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, asked.clone());
    }
    response
}
