//! The rate of each caller's tool calls.

use std::num::NonZeroU32;

use marquetry_config::sections::Limits;
use marquetry_gateway::Limited;
use marquetry_protocol::server::Caller;
use marquetry_rate_limit::KeyedRate;

/// Limits the rate of tool calls for each caller, as MCP requires of servers. Callers on this
/// machine without a token have no limit, as with the other limits for one caller.
pub(crate) struct CallRate {
    per_minute: NonZeroU32,
    rate: KeyedRate<Caller>,
}

impl CallRate {
    pub(crate) fn new(limits: &Limits) -> Self {
        let per_minute = limits.max_calls_per_minute_per_caller;
        Self { per_minute, rate: KeyedRate::new(per_minute, limits.max_call_burst_per_caller) }
    }

    /// Counts a call.
    ///
    /// # Errors
    /// Returns an error if the caller used up its rate.
    pub(crate) fn admit(&self, caller: &Caller) -> Result<(), Limited> {
        if !caller.is_bounded() {
            return Ok(());
        }
        self.rate.admit(caller).map_err(|retry_after| {
            let what = format!(
                "more than {} tool calls per minute for one caller (limits.max_calls_per_minute_per_caller)",
                self.per_minute
            );
            Limited::caller(what, retry_after)
        })
    }
}
