//! The authenticated sender of a request.

use std::{
    collections::BTreeSet,
    time::{Duration, SystemTime},
};

/// The authenticated sender of a request.
///
/// State that outlives a request (a session, a task, a question) belongs to the principal of that
/// request. Other principals cannot reach it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Principal {
    /// The issuer of its token; `None` for a token from this server's configuration.
    pub issuer: Option<String>,
    /// Name at the issuer (`sub`), or the name of the configured token.
    pub subject: String,
    /// The scopes that its token grants.
    pub scopes: BTreeSet<String>,
    /// The names of the groups that its token says it is in.
    pub groups: BTreeSet<String>,
    /// Time at which the token expires; `None` if it does not. Endless streams are closed then, and
    /// the client opens a new one with a new token.
    pub expires: Option<SystemTime>,
}

impl Principal {
    /// Creates a principal without scopes.
    #[must_use]
    pub fn new(issuer: Option<String>, subject: impl Into<String>) -> Self {
        Self {
            issuer,
            subject: subject.into(),
            scopes: BTreeSet::new(),
            groups: BTreeSet::new(),
            expires: None,
        }
    }

    /// Adds scopes.
    #[must_use]
    pub fn with_scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.scopes.extend(scopes.into_iter().map(Into::into));
        self
    }

    /// Adds groups.
    #[must_use]
    pub fn with_groups(mut self, groups: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.groups.extend(groups.into_iter().map(Into::into));
        self
    }

    /// Sets when its token expires.
    #[must_use]
    pub fn until(mut self, expires: SystemTime) -> Self {
        self.expires = Some(expires);
        self
    }

    /// Returns the time until its token expires, if it does.
    #[must_use]
    pub fn time_left(&self) -> Option<Duration> {
        let expires = self.expires?;
        Some(expires.duration_since(SystemTime::now()).unwrap_or_default())
    }

    /// Returns whether its token grants `scope`.
    #[must_use]
    pub fn has_scope(&self, scope: &str) -> bool {
        self.scopes.contains(scope)
    }

    /// Returns a name that is unique among principals and does not depend on scopes: a key for
    /// stored state.
    ///
    /// ```
    /// # use marquetry_protocol_callers::Principal;
    /// let ours = Principal::new(None, "a");
    /// let theirs = Principal::new(Some("https://login.example".into()), "a");
    /// assert_ne!(ours.id(), theirs.id());
    /// ```
    #[must_use]
    pub fn id(&self) -> String {
        // A URL contains no blank.
        format!("{} {}", self.issuer.as_deref().unwrap_or("-"), self.subject)
    }

    /// Returns whether both are the same principal, or both `None`. Scopes and expiry do not
    /// matter.
    #[must_use]
    pub fn is_same(a: Option<&Self>, b: Option<&Self>) -> bool {
        match (a, b) {
            (None, None) => true,
            (Some(a), Some(b)) => a.issuer == b.issuer && a.subject == b.subject,
            _ => false,
        }
    }
}
