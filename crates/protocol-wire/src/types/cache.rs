//! How long a result stays good, and for whom (2026-07-28, "Caching"; SEP-2549).

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How long a result stays good, and for whom. By default it is for its client alone and good for no time: it has to be
/// asked for again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CacheHint {
    /// For so many milliseconds after it came.
    #[serde(default)]
    pub ttl_ms: u64,
    /// Who may be given it from a cache.
    #[serde(default)]
    pub cache_scope: CacheScope,
}

/// Who may be given a result from a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheScope {
    /// Anybody: it says nothing about its client.
    Public,
    /// The client alone that it was given to.
    #[default]
    Private,
}

impl CacheHint {
    /// Good for this time, for its client alone.
    #[must_use]
    pub fn private(time: Duration) -> Self {
        let ttl_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self { ttl_ms, cache_scope: CacheScope::Private }
    }

    /// Good for this time, for anybody.
    #[must_use]
    pub fn public(time: Duration) -> Self {
        Self { cache_scope: CacheScope::Public, ..Self::private(time) }
    }
}
