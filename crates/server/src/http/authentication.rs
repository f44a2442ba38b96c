//! The sender of a request: authenticated once, for REST, console, tests and health.

use std::sync::Arc;

use axum::{
    Extension,
    body::Body,
    extract::{Request, State},
    http::{Response, StatusCode, header, request::Parts},
    middleware::Next,
};
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
    head.extensions.insert(sender);
    next.run(Request::from_parts(head, body)).await
}

/// Returns whether a request to a loopback address was sent on this machine: a proxy here forwards
/// requests from other machines.
fn is_from_this_machine(head: &Parts) -> bool {
    let is_forwarded =
        ["forwarded", "x-forwarded-for"].iter().any(|name| head.headers.contains_key(*name));
    !is_forwarded && HostGuard::loopback().check(&head.headers).is_ok()
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
        Some(principal) => Some(Viewer::of(principal.id(), sender.is_admin)),
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
