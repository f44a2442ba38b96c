//! Authentication of HTTP requests.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use http::{HeaderValue, StatusCode, header, request::Parts};
use marquetry_protocol_wire::auth::Challenge;

use super::response::{Response, refused};
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
