//! Static tokens.

use std::collections::BTreeSet;

/// A static token, stored as its hash.
#[derive(Clone)]
pub struct StaticToken {
    pub(super) name: String,
    pub(super) scopes: BTreeSet<String>,
    pub(super) groups: BTreeSet<String>,
    hash: blake3::Hash,
}

impl StaticToken {
    /// Creates the token `token`. Its holder has this name and these scopes.
    ///
    /// The token should be long and random (`openssl rand -hex 32`).
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        token: &str,
        scopes: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self {
            name: name.into(),
            scopes: scopes.into_iter().map(Into::into).collect(),
            groups: BTreeSet::new(),
            hash: blake3::hash(token.as_bytes()),
        }
    }

    /// Sets the groups that its holder is in.
    #[must_use]
    pub fn with_groups(mut self, groups: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.groups = groups.into_iter().map(Into::into).collect();
        self
    }

    /// Returns whether `token` is this token. Hashes are compared in constant time.
    pub(super) fn matches(&self, token: &str) -> bool {
        blake3::hash(token.as_bytes()) == self.hash
    }

    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.hash == other.hash
    }
}

impl std::fmt::Debug for StaticToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StaticToken")
            .field("name", &self.name)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}
