//! Calls that a limit refuses for now.

use std::{fmt, time::Duration};

use serde_json::{Value, json};

/// A limit that refuses a call for now.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limited {
    /// The upstream that has the limit; `None` for a limit of the caller.
    pub upstream: Option<String>,
    /// The limit and its setting, such as "more than 60 calls per minute (max_calls_per_minute)".
    pub what: String,
    /// Time after which the call can succeed.
    pub retry_after: Duration,
}

impl Limited {
    /// Creates the refusal of a caller who used up its rate.
    #[must_use]
    pub fn caller(what: String, retry_after: Duration) -> Self {
        Self { upstream: None, what, retry_after }
    }

    /// Returns the facts for programs as JSON.
    #[must_use]
    pub fn data(&self) -> Value {
        let millis = u64::try_from(self.retry_after.as_millis()).unwrap_or(u64::MAX);
        json!({"upstream": self.upstream, "kind": "limited", "retryAfterMs": millis})
    }
}

impl fmt::Display for Limited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(upstream) = &self.upstream {
            write!(f, "upstream '{upstream}': ")?;
        }
        let seconds = self.retry_after.as_millis().div_ceil(1_000).max(1);
        write!(f, "{}; try again in {seconds} s", self.what)
    }
}
