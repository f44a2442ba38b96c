//! Checks that every request passes before it reaches a handler.

use axum::{
    body::Body,
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, Method, header};

use super::{ApiError, Shared, operations::Operation};

/// Refuses requests of web pages, requests without the token, and bodies that are not JSON.
///
/// A test may start programs, so the rule is stricter than that of `/mcp`: a page on another port
/// of this machine is foreign, too. Clients other than browsers send no `Origin`.
pub(super) async fn check(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    match refusal(&shared, &request) {
        Some(error) => error.into_response(),
        None => next.run(request).await,
    }
}

fn refusal(shared: &Shared, request: &Request<Body>) -> Option<ApiError> {
    let headers = request.headers();
    if let Some(guard) = &shared.options.host_guard
        && let Err(refusal) = guard.check_request(request)
    {
        return Some(ApiError::Forbidden(refusal.to_string()));
    }
    if !is_own_page(headers) {
        return Some(ApiError::Forbidden(
            "the test API refuses requests of pages of other origins".to_owned(),
        ));
    }
    // Discovery sends no token, and the answer reveals little.
    if let Some(token) = &shared.options.token
        && request.uri().path() != Operation::Health.path()
        && !has_token(headers, token.expose())
    {
        return Some(ApiError::Unauthorized);
    }
    // An HTML form can send other types without a preflight request.
    if request.method() == Method::POST && !is_json(headers) {
        return Some(ApiError::NotJson);
    }
    None
}

/// Returns whether a request does not come from a web page, or comes from a page of this server.
fn is_own_page(headers: &HeaderMap) -> bool {
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let Some(origin) = origins.next() else {
        return headers.get("sec-fetch-site").is_none_or(|site| {
            [&b"same-origin"[..], b"none"].iter().any(|own| site.as_bytes() == *own)
        });
    };
    let host = headers.get(header::HOST).map(http::HeaderValue::as_bytes).unwrap_or_default();
    let origin = origin.as_bytes();
    let rest = origin.strip_prefix(b"http://").or_else(|| origin.strip_prefix(b"https://"));
    origins.next().is_none() && rest.is_some_and(|rest| rest.eq_ignore_ascii_case(host))
}

/// Returns whether a request has the token. Compares digests, so that the time of the comparison
/// reveals nothing about the token.
fn has_token(headers: &HeaderMap, token: &str) -> bool {
    headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split_once(' '))
        .is_some_and(|(scheme, sent)| {
            scheme.eq_ignore_ascii_case("bearer")
                && blake3::hash(sent.trim().as_bytes()) == blake3::hash(token.as_bytes())
        })
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = value.and_then(|value| value.split(';').next());
    essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn only_pages_of_this_server_may_ask() {
        let host = ("host", "127.0.0.1:3002");
        for (lines, own) in [
            (&[host][..], true),
            (&[host, ("origin", "http://127.0.0.1:3002")], true),
            (&[host, ("origin", "http://127.0.0.1:3001")], false),
            (&[host, ("origin", "http://localhost:3002")], false),
            (&[host, ("origin", "https://evil.example")], false),
            (&[host, ("origin", "null")], false),
            (&[host, ("origin", "http://127.0.0.1:3002"), ("origin", "null")], false),
            (&[host, ("sec-fetch-site", "cross-site")], false),
            (&[host, ("sec-fetch-site", "same-origin")], true),
            (&[host, ("sec-fetch-site", "none")], true),
        ] {
            assert_eq!(is_own_page(&headers(lines)), own, "{lines:?}");
        }
    }

    #[test]
    fn the_token_is_compared_whole() {
        for (value, has) in [
            ("Bearer secret", true),
            ("bearer secret", true),
            ("Bearer secret2", false),
            ("Bearer ", false),
            ("Basic secret", false),
            ("secret", false),
        ] {
            assert_eq!(has_token(&headers(&[("authorization", value)]), "secret"), has, "{value}");
        }
        assert!(!has_token(&HeaderMap::new(), "secret"));
    }
}
