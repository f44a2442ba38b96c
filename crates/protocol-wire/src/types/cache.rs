//! How long and for whom a result may be cached (2026-07-28, "Caching"; SEP-2549).

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How long and for whom a result may be cached. By default it may not be reused at all, and only
/// its client may store it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CacheHint {
    /// Lifetime of the result after its arrival, in milliseconds.
    #[serde(default)]
    pub ttl_ms: u64,
    /// Clients that may get the result from a cache.
    #[serde(default)]
    pub cache_scope: CacheScope,
}

/// Clients that may get a result from a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheScope {
    /// All clients: the result does not depend on the client.
    Public,
    /// Only the client that received the result.
    #[default]
    Private,
}

impl CacheHint {
    /// Returns a hint for a result that only its client may reuse, for this time.
    #[must_use]
    pub fn private(time: Duration) -> Self {
        let ttl_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self { ttl_ms, cache_scope: CacheScope::Private }
    }

    /// Returns a hint for a result that all clients may reuse, for this time.
    #[must_use]
    pub fn public(time: Duration) -> Self {
        Self { cache_scope: CacheScope::Public, ..Self::private(time) }
    }
}
