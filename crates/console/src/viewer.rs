//! Viewers of the console.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use marquetry_protocol::server::Principal;

/// The person who uses the console. The program puts it into the extensions of each request for
/// console data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Viewer {
    /// The id of the principal whose calls the viewer sees; `None` without authentication.
    pub owner: Option<String>,
    /// Administrators see the calls of everybody, and the state and the logs of servers.
    pub is_admin: bool,
    /// When the token of the viewer expires, and the open Views with it. [`None`] without an end.
    pub expires: Option<SystemTime>,
    /// The principal, for what it may use; `None` without authentication.
    pub principal: Option<Arc<Principal>>,
}

impl Viewer {
    /// The viewer of a server without authentication, who sees everything.
    #[must_use]
    pub fn everything() -> Self {
        Self { owner: None, is_admin: true, expires: None, principal: None }
    }

    /// A viewer who sees the calls of one principal.
    #[must_use]
    pub fn of(owner: impl Into<String>, is_admin: bool) -> Self {
        Self { owner: Some(owner.into()), is_admin, expires: None, principal: None }
    }

    /// Sets the principal, which says what the viewer may use.
    #[must_use]
    pub fn with_principal(self, principal: Arc<Principal>) -> Self {
        Self { principal: Some(principal), ..self }
    }

    /// Sets when the token of the viewer expires.
    #[must_use]
    pub fn until(mut self, expires: Option<SystemTime>) -> Self {
        self.expires = expires;
        self
    }

    /// Completes when the token of the viewer has expired.
    pub(crate) async fn until_expired(&self) {
        /// Longest sleep, so that a change of the system's clock counts soon.
        const LONGEST: Duration = Duration::from_mins(1);
        let Some(expires) = self.expires else { return std::future::pending().await };
        while let Ok(left) = expires.duration_since(SystemTime::now())
            && !left.is_zero()
        {
            tokio::time::sleep(left.min(LONGEST)).await;
        }
    }

    /// Returns whether the viewer may see data that belongs to `owner`.
    #[must_use]
    pub fn sees(&self, owner: Option<&str>) -> bool {
        self.is_admin || (self.owner.is_some() && self.owner.as_deref() == owner)
    }
}
