//! Who may come in.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use http::{HeaderMap, HeaderValue, StatusCode, header};

use super::endpoint::{Response, refused};
use crate::{auth::Challenge, server::Principal};

/// Finds out who an HTTP request is from.
///
/// `ResourceServer` of the crate `marquetry-oauth` is one.
#[async_trait]
pub trait Authenticator: Send + Sync + 'static {
    /// Who the request with these headers is from.
    ///
    /// # Errors
    /// What to answer to somebody who may not come in.
    async fn authenticate(&self, headers: &HeaderMap) -> Result<Arc<Principal>, Denial>;
}

/// Why somebody may not come in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// 401 (who is it?), 403 (may not do this) or 503 (nobody can tell now).
    pub status: StatusCode,
    /// What would be needed.
    pub challenge: Challenge,
    /// The same for a person.
    pub message: String,
}

impl Denial {
    /// The `WWW-Authenticate` header to send along.
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

/// Nobody's token is worth showing, and nothing else is known of it.
impl fmt::Debug for dyn Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authenticator")
    }
}

/// Who a request is from, where somebody looks; nobody in particular, where nobody does.
pub(super) async fn principal(
    authenticator: Option<&Arc<dyn Authenticator>>,
    headers: &HeaderMap,
) -> Result<Option<Arc<Principal>>, Box<Response>> {
    match authenticator {
        None => Ok(None),
        Some(authenticator) => match authenticator.authenticate(headers).await {
            Ok(principal) => Ok(Some(principal)),
            Err(denial) => {
                tracing::debug!(status = denial.status.as_u16(), denial.message, "denied");
                Err(Box::new(denial.response()))
            }
        },
    }
}
