//! The sender of a message.

use std::{net::IpAddr, sync::Arc};

use tokio_util::sync::CancellationToken;

use super::{Caller, Principal};

/// The sender of a message: its principal, and the caller for limits.
#[derive(Clone, Debug)]
pub struct Peer {
    pub(super) principal: Option<Arc<Principal>>,
    /// The caller for limits.
    pub(super) caller: Caller,
    /// Cancelled when a shutdown no longer waits for calls: each then gets an error as its answer.
    pub(super) cut: CancellationToken,
    /// The HTTP request with the message.
    #[cfg(feature = "http")]
    pub(super) http: Option<Arc<http::request::Parts>>,
    /// See [`Peer::in_profile`].
    pub(super) profile: Option<Arc<str>>,
}

impl Peer {
    /// Creates a sender with this principal at this address. Without both it is the program itself.
    #[must_use]
    pub fn new(principal: Option<Arc<Principal>>, address: Option<IpAddr>) -> Self {
        let caller = Caller::new(principal.as_ref(), address);
        Self {
            principal,
            caller,
            cut: CancellationToken::new(),
            #[cfg(feature = "http")]
            http: None,
            profile: None,
        }
    }

    /// Selects a profile of the server, such as the part of it that a URL stands for. Handlers find
    /// it in [`RequestContext::profile`](super::RequestContext::profile). A session stays in the
    /// profile of the request that opened it.
    #[must_use]
    pub fn in_profile(self, profile: Arc<str>) -> Self {
        Self { profile: Some(profile), ..self }
    }

    /// Returns the selected profile.
    #[must_use]
    pub fn profile(&self) -> Option<&str> {
        self.profile.as_deref()
    }

    /// Returns the caller that limits count its requests for.
    #[must_use]
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Returns the authenticated sender; `None` without authentication.
    #[must_use]
    pub fn principal(&self) -> Option<&Arc<Principal>> {
        self.principal.as_ref()
    }

    /// Returns the head of the HTTP request with the message.
    #[cfg(feature = "http")]
    #[must_use]
    pub fn http(&self) -> Option<&http::request::Parts> {
        self.http.as_deref()
    }

    /// Returns the client of a pipe.
    pub(super) fn local() -> Self {
        Self::new(None, None)
    }
}
