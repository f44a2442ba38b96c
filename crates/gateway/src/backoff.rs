//! Backoff between restarts of an upstream.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

use super::options::GatewayOptions;

/// An upstream that ran for this long, or answered a call, has recovered: its next failure counts
/// as the first.
pub(crate) const STEADY: Duration = Duration::from_secs(10);

/// Returns the pause after this number of consecutive failures. It doubles with each failure up to
/// the maximum. Then it is shortened at random by up to a half, so that upstreams that failed
/// together do not restart together.
pub(crate) fn pause(options: &GatewayOptions, failures: u32) -> Duration {
    let doubled = options.restart_delay.saturating_mul(1 << failures.saturating_sub(1).min(20));
    let longest = doubled.min(options.restart_max_delay);
    // The standard library's hasher keys are random enough to spread restarts, and need no further
    // crate.
    let random = RandomState::new().hash_one(failures) as f64 / u64::MAX as f64;
    longest.mul_f64(1.0 - random / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_maximum() {
        let options = GatewayOptions::default();
        for (failures, longest) in
            [(1, 500), (2, 1_000), (3, 2_000), (8, 60_000), (u32::MAX, 60_000)]
        {
            for _ in 0..20 {
                let pause = pause(&options, failures).as_millis();
                assert!((longest / 2..=longest).contains(&pause), "{failures}: {pause}");
            }
        }
    }
}
