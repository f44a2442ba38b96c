//! The sender of a request: authenticated once, for REST, console, tests and health.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension,
    body::Body,
    extract::{Request, State},
    http::{HeaderName, Response, StatusCode, header, request::Parts},
    middleware::Next,
};
use futures_util::StreamExt as _;
use marquetry_console::Viewer;
use marquetry_protocol::server::{
    Principal,
    http::{Authenticator, Denial, HostGuard},
};
use serde_json::json;

use super::refusal;
use crate::{
    health::ADMIN,
    rest::{RestError, json_response},
};

/// Whether the listener of a request is on a loopback address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OnLoopback(pub(crate) bool);

/// The sender of a request, from [`authenticate`].
#[derive(Clone)]
pub(super) struct Sender {
    /// `None` without authentication, and for an anonymous request.
    principal: Option<Arc<Principal>>,
    /// With authentication, whether the token grants the scope `admin`. Without it, whether the
    /// request comes from this machine.
    pub(super) is_admin: bool,
}

/// How requests are authenticated.
#[derive(Clone)]
pub(super) struct Authentication {
    pub(super) authenticator: Option<Arc<dyn Authenticator>>,
    /// What happens to a request without a token.
    pub(super) anonymous: Anonymous,
}

/// What happens to a request without a token.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Anonymous {
    /// It is refused with the authenticator's challenge.
    Refused,
    /// It passes, and is not an administrator's.
    Allowed,
}

/// Authenticates a request, and adds [`Sender`] and the principal to its extensions. The MCP
/// endpoints authenticate by themselves, because errors there are messages of JSON-RPC.
pub(super) async fn authenticate(
    State(Authentication { authenticator, anonymous }): State<Authentication>,
    on_loopback: Option<Extension<OnLoopback>>,
    request: Request,
    next: Next,
) -> Response<Body> {
    let (mut head, body) = request.into_parts();
    let sender = match authenticator {
        None => {
            let on_loopback = on_loopback.is_some_and(|Extension(OnLoopback(it))| it);
            Sender { principal: None, is_admin: on_loopback && is_from_this_machine(&head) }
        }
        Some(_)
            if anonymous == Anonymous::Allowed
                && !head.headers.contains_key(header::AUTHORIZATION) =>
        {
            Sender { principal: None, is_admin: false }
        }
        Some(authenticator) => match authenticator.authenticate(&head).await {
            Ok(principal) => {
                let is_admin = principal.has_scope(ADMIN);
                head.extensions.insert(principal.clone());
                Sender { principal: Some(principal), is_admin }
            }
            Err(denial) => return denied(head.uri.path(), denial),
        },
    };
    let time_left = sender.principal.as_deref().and_then(Principal::time_left);
    head.extensions.insert(sender);
    let response = next.run(Request::from_parts(head, body)).await;
    match time_left {
        Some(time_left) if is_event_stream(&response) => until_token_ends(response, time_left),
        _ => response,
    }
}

fn is_event_stream(response: &Response<Body>) -> bool {
    let content_type = response.headers().get(header::CONTENT_TYPE);
    content_type.is_some_and(|it| it.as_bytes().starts_with(b"text/event-stream"))
}

/// Ends a stream of events with the token of its request. Other bodies end by themselves.
fn until_token_ends(response: Response<Body>, time_left: Duration) -> Response<Body> {
    response.map(|body| {
        let end = tokio::time::sleep(time_left);
        Body::from_stream(body.into_data_stream().take_until(end))
    })
}

/// Returns whether a request to a loopback address was sent on this machine: a proxy here forwards
/// requests from other machines.
fn is_from_this_machine(head: &Parts) -> bool {
    !head.headers.keys().any(is_of_proxy) && HostGuard::loopback().check(&head.headers).is_ok()
}

/// Returns whether proxies add this header to the requests that they forward. Programs that call
/// this server themselves send none of these.
fn is_of_proxy(name: &HeaderName) -> bool {
    /// Headers of RFC 9110 and 7239, of nginx, and of load balancers and tunnels.
    const NAMES: [&str; 6] = [
        "via",
        "forwarded",
        "x-real-ip",
        "x-request-start",
        "x-amzn-trace-id",
        "x-cloud-trace-context",
    ];
    /// Families of headers: of most proxies, Envoy, Cloudflare, Tailscale, Azure and AWS.
    const PREFIXES: [&str; 9] = [
        "x-forwarded-",
        "x-original-",
        "x-envoy-",
        "x-proxy",
        "cf-",
        "tailscale-",
        "x-azure-",
        "x-amz-cf-",
        "x-arr-",
    ];
    /// Headers with the address of the client, such as `True-Client-IP` and `X-Appengine-User-IP`.
    const SUFFIXES: [&str; 4] = ["client-ip", "clientip", "user-ip", "connecting-ip"];
    let name = name.as_str();
    NAMES.contains(&name)
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
}

/// Refuses senders that are not administrators.
pub(super) async fn require_admin(
    Extension(sender): Extension<Sender>,
    request: Request,
    next: Next,
) -> Response<Body> {
    if sender.is_admin {
        return next.run(request).await;
    }
    let problem =
        "only callers on this machine may use this, or with [auth] tokens with the scope admin";
    json_response(StatusCode::FORBIDDEN, &json!({"error": problem}))
}

/// Adds the console's [`Viewer`] to a request. Without authentication, callers on this machine see
/// everything. Requests from other machines get no viewer, and the console refuses them with an
/// error that says so.
pub(super) async fn with_viewer(
    Extension(sender): Extension<Sender>,
    mut request: Request,
) -> Request {
    let viewer = match &sender.principal {
        Some(principal) => {
            let viewer = Viewer::of(principal.id(), sender.is_admin).until(principal.expires);
            Some(viewer.with_principal(principal.clone()))
        }
        None => sender.is_admin.then(Viewer::everything),
    };
    if let Some(viewer) = viewer {
        request.extensions_mut().insert(viewer);
    }
    request
}

/// Returns the answer to a request whose token was refused.
fn denied(path: &str, denial: Denial) -> Response<Body> {
    let challenge = denial.www_authenticate();
    let mut response = refusal(path, &RestError::from(denial));
    response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_through_a_proxy_comes_from_another_machine() {
        for (header, is_local) in [
            ("accept", true),
            ("x-api-key", true),
            ("mcp-session-id", true),
            ("forwarded", false),
            ("via", false),
            ("x-forwarded-for", false),
            ("x-forwarded-proto", false),
            ("x-forwarded-host", false),
            ("x-real-ip", false),
            ("cf-connecting-ip", false),
            ("fly-client-ip", false),
            ("true-client-ip", false),
            ("x-cluster-client-ip", false),
            ("x-azure-clientip", false),
            ("tailscale-user-login", false),
            ("x-envoy-external-address", false),
        ] {
            let request = Request::get("/").header("host", "localhost").header(header, "x");
            let (head, ()) = request.body(()).unwrap().into_parts();
            assert_eq!(is_from_this_machine(&head), is_local, "{header}");
        }
    }
}
