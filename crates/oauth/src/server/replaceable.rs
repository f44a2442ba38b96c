//! An authenticator that changes while a server runs.

use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use http::request::Parts;
use marquetry_protocol::{
    auth::Challenge,
    server::{
        Principal,
        http::{Authenticator, Denial},
    },
};

/// Authenticates by another authenticator, which can be replaced: after a change of tokens, for
/// example. Requests that are being authenticated keep the one that they began with.
pub struct ReplaceableAuthenticator(RwLock<Arc<dyn Authenticator>>);

impl ReplaceableAuthenticator {
    /// Creates one that begins with `inner`.
    #[must_use]
    pub fn new(inner: Arc<dyn Authenticator>) -> Self {
        Self(RwLock::new(inner))
    }

    /// Authenticates later requests by `inner`.
    pub fn replace(&self, inner: Arc<dyn Authenticator>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = inner;
    }
}

#[async_trait]
impl Authenticator for ReplaceableAuthenticator {
    async fn authenticate(&self, request: &Parts) -> Result<Arc<Principal>, Denial> {
        let inner = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        inner.authenticate(request).await
    }

    fn step_up(&self, scopes: &[String]) -> Challenge {
        self.0.read().unwrap_or_else(PoisonError::into_inner).step_up(scopes)
    }
}
