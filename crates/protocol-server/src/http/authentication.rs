//! Authentication of HTTP requests.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header, request::Parts};
use marquetry_protocol_wire::auth::Challenge;

use super::response::{Response, answered, refused};
use crate::Principal;

/// Authenticates HTTP requests.
///
/// `ResourceServer` of the crate `marquetry-oauth` is one.
#[async_trait]
pub trait Authenticator: Send + Sync + 'static {
    /// Returns the sender of a request with this head. Its extensions are set by the HTTP server
    /// and its middleware, for example [`ConnectionInfo`](super::ConnectionInfo).
    ///
    /// # Errors
    /// Returns an error if the request is denied; it is the refusal to answer with.
    async fn authenticate(&self, request: &Parts) -> Result<Arc<Principal>, Denial>;

    /// Returns the challenge of an answer with status 403: a token with these scopes is needed.
    fn step_up(&self, scopes: &[String]) -> Challenge {
        insufficient_scope(scopes)
    }
}

/// Returns a challenge for a token with these scopes (RFC 6750, section 3.1).
fn insufficient_scope(scopes: &[String]) -> Challenge {
    Challenge::new("Bearer").with("error", "insufficient_scope").with("scope", scopes.join(" "))
}

/// Returns the response with an error of JSON-RPC for a request that needs these scopes.
pub(super) fn step_up(
    authenticator: Option<&dyn Authenticator>,
    scopes: &[String],
    json: Bytes,
) -> Response {
    let challenge =
        authenticator.map_or_else(|| insufficient_scope(scopes), |it| it.step_up(scopes));
    let denial = Denial { status: StatusCode::FORBIDDEN, challenge, message: String::new() };
    let mut response = answered(denial.status, json);
    response.headers_mut().insert(header::WWW_AUTHENTICATE, denial.www_authenticate());
    response
}

/// The refusal of a request that is not authorized.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// 401 (not authenticated), 403 (not allowed) or 503 (cannot be decided at present).
    pub status: StatusCode,
    /// The challenge: which token the request needs.
    pub challenge: Challenge,
    /// The reason, for people.
    pub message: String,
}

impl Denial {
    /// Returns the `WWW-Authenticate` header of the answer.
    #[must_use]
    pub fn www_authenticate(&self) -> HeaderValue {
        HeaderValue::from_str(&self.challenge.to_string())
            .unwrap_or_else(|_| HeaderValue::from_static("Bearer"))
    }

    pub(super) fn response(&self) -> Response {
        let mut response = refused(self.status, &self.message);
        response.headers_mut().insert(header::WWW_AUTHENTICATE, self.www_authenticate());
        response
    }
}

/// Shows no fields: they may be secrets.
impl fmt::Debug for dyn Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authenticator")
    }
}

/// Authenticates a request. Returns `None` without an authenticator.
pub(super) async fn principal(
    authenticator: Option<&Arc<dyn Authenticator>>,
    request: &Parts,
) -> Result<Option<Arc<Principal>>, Box<Response>> {
    match authenticator {
        None => Ok(None),
        Some(authenticator) => match authenticator.authenticate(request).await {
            Ok(principal) => Ok(Some(principal)),
            Err(denial) => {
                tracing::debug!(status = denial.status.as_u16(), denial.message, "denied");
                Err(Box::new(denial.response()))
            }
        },
    }
}
