//! Callers, and the rules that are theirs.

use std::collections::BTreeSet;

/// A caller, as rules know it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    principal: String,
    scopes: BTreeSet<String>,
    groups: BTreeSet<String>,
    profile: Option<String>,
}

impl Caller {
    /// The principal of callers without authentication.
    pub const LOCAL: &str = "local";

    /// Creates a caller with this principal: the name of its token, "ISSUER SUBJECT", or
    /// [`Self::LOCAL`].
    #[must_use]
    pub fn new(principal: impl Into<String>) -> Self {
        Self { principal: principal.into(), ..Self::default() }
    }

    /// Adds scopes of its token.
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

    /// Sets the profile that it uses.
    #[must_use]
    pub fn in_profile(self, profile: impl Into<String>) -> Self {
        Self { profile: Some(profile.into()), ..self }
    }

    /// Returns the principal.
    #[must_use]
    pub fn principal(&self) -> &str {
        &self.principal
    }

    pub(crate) fn groups(&self) -> impl Iterator<Item = &str> {
        self.groups.iter().map(String::as_str)
    }

    pub(crate) fn has_scope(&self, scope: &str) -> bool {
        self.scopes.contains(scope)
    }

    pub(crate) fn profile(&self) -> Option<&str> {
        self.profile.as_deref()
    }
}

/// The rules of a caller, as [`Policy::grants`](crate::Policy::grants) finds them: a key of what
/// the caller sees.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Grants {
    /// The rules that are the caller's, by their numbers.
    pub(crate) rules: Vec<usize>,
    /// The rules that would be with further scopes.
    pub(crate) step_up: Vec<usize>,
    /// The scopes of the caller that its rules need, if there is any rule to step up to.
    pub(crate) scopes: BTreeSet<String>,
    pub(crate) profile: Option<String>,
}

impl Grants {
    pub(crate) fn in_profile(profile: Option<&str>) -> Self {
        Self {
            rules: Vec::new(),
            step_up: Vec::new(),
            scopes: BTreeSet::new(),
            profile: profile.map(str::to_owned),
        }
    }

    /// Returns the numbers of the rules that are the caller's.
    #[must_use]
    pub fn rules(&self) -> &[usize] {
        &self.rules
    }

    /// Returns the numbers of the rules that would be the caller's with further scopes.
    #[must_use]
    pub fn step_up_rules(&self) -> &[usize] {
        &self.step_up
    }
}
