//! Who a request is from.

use std::{
    collections::BTreeSet,
    time::{Duration, SystemTime},
};

/// Who a request is from, as its token proves.
///
/// A session, a question's answer and whatever else one request leaves for a later one belong to the principal of the
/// first: nobody else reaches them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Principal {
    /// Who vouches for it: the issuer of its token. None for a token that this server was configured with.
    pub issuer: Option<String>,
    /// What the issuer calls it, or the name of the configured token.
    pub subject: String,
    /// What it may do.
    pub scopes: BTreeSet<String>,
    /// Until when its token holds. Streams that would go on without end do not outlive it: whoever listens comes back
    /// with a new token. None for a token without an end.
    pub expires: Option<SystemTime>,
}

impl Principal {
    /// A principal without scopes.
    #[must_use]
    pub fn new(issuer: Option<String>, subject: impl Into<String>) -> Self {
        Self { issuer, subject: subject.into(), scopes: BTreeSet::new(), expires: None }
    }

    /// The same with these scopes.
    #[must_use]
    pub fn with_scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.scopes.extend(scopes.into_iter().map(Into::into));
        self
    }

    /// The same, whose token holds until then.
    #[must_use]
    pub fn until(mut self, expires: SystemTime) -> Self {
        self.expires = Some(expires);
        self
    }

    /// How long its token still holds; none where that has no end.
    #[must_use]
    pub fn time_left(&self) -> Option<Duration> {
        let expires = self.expires?;
        Some(expires.duration_since(SystemTime::now()).unwrap_or_default())
    }

    /// Whether it may do what `scope` stands for.
    #[must_use]
    pub fn has_scope(&self, scope: &str) -> bool {
        self.scopes.contains(scope)
    }

    /// A name that no other principal has, whatever its scopes: to keep by it what belongs to it.
    ///
    /// ```
    /// # use marquetry_protocol::server::Principal;
    /// let ours = Principal::new(None, "a");
    /// let theirs = Principal::new(Some("https://login.example".into()), "a");
    /// assert_ne!(ours.id(), theirs.id());
    /// ```
    #[must_use]
    pub fn id(&self) -> String {
        // No URL has a blank in it.
        format!("{} {}", self.issuer.as_deref().unwrap_or("-"), self.subject)
    }
}

/// Whether both are one principal, or both nobody.
pub(super) fn is_same(a: Option<&Principal>, b: Option<&Principal>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => a.issuer == b.issuer && a.subject == b.subject,
        _ => false,
    }
}
