//! Retries while an endpoint is busy.
//!
//! The crate `backon` is not used. It would only replace the loop of ten lines in
//! [`RetryPolicy::run`], and we would still compute the wait ourselves: a random part is also added
//! to an endpoint's `Retry-After`, and a `Retry-After` beyond the longest wait ends the retries.

use std::{
    future::Future,
    time::{Duration, SystemTime},
};

use reqwest::header::{HeaderMap, RETRY_AFTER};

use crate::EndpointFailure;

/// Maximum retries after transient failures, and the longest wait before each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetryPolicy {
    /// Number of retries; 3 by default.
    pub retries: u32,
    /// Longest wait before a retry; 30 s by default.
    pub longest_wait: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::new(3, Duration::from_secs(30))
    }
}

impl RetryPolicy {
    /// Returns the policy of these two numbers.
    pub fn new(retries: u32, longest_wait: Duration) -> Self {
        Self { retries, longest_wait }
    }

    /// Runs `attempt` until it succeeds, fails for good, or the retries are used up.
    ///
    /// The wait before a retry is the one that the endpoint asks for, else 0.5 s, doubled each
    /// time. Up to a quarter is added at random, so that clients that failed together do not return
    /// together.
    ///
    /// # Errors
    ///
    /// Returns an error if the last attempt fails, or one fails whose
    /// [`EndpointFailure::retry_after`] exceeds the longest wait.
    pub async fn run<T, F: Future<Output = Result<T, EndpointFailure>>>(
        &self,
        mut attempt: impl FnMut() -> F,
    ) -> Result<T, EndpointFailure> {
        let mut retry = 0;
        loop {
            let failure = match attempt().await {
                Err(failure) if failure.is_transient() && retry < self.retries => failure,
                outcome => return outcome,
            };
            let Some(wait) = self.wait(&failure, retry) else { return Err(failure) };
            tracing::debug!(%failure, ?wait, retry, "retrying the request");
            tokio::time::sleep(wait).await;
            retry += 1;
        }
    }

    /// Returns the wait before a retry, counted from 0; `None` if the endpoint asks for more than
    /// the longest wait.
    fn wait(&self, failure: &EndpointFailure, retry: u32) -> Option<Duration> {
        let wait = match failure.retry_after() {
            Some(asked) if asked > self.longest_wait => return None,
            Some(asked) => asked,
            None => Duration::from_millis(500).saturating_mul(1 << retry.min(16)),
        };
        let mut byte = [0];
        // Without random numbers the wait still works, but clients that failed together return
        // together.
        _ = getrandom::fill(&mut byte);
        Some((wait + wait.mul_f64(f64::from(byte[0]) / 1024.0)).min(self.longest_wait))
    }
}

/// Returns the wait that an answer asks for: `retry-after-ms`, or `Retry-After` in seconds or as a
/// date (RFC 9110).
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    if let Some(milliseconds) = number(headers, "retry-after-ms") {
        return Duration::try_from_secs_f64(milliseconds / 1000.0).ok();
    }
    if let Some(seconds) = number(headers, RETRY_AFTER.as_str()) {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = headers.get(RETRY_AFTER)?.to_str().ok()?;
    let at = httpdate::parse_http_date(date).ok()?;
    Some(at.duration_since(SystemTime::now()).unwrap_or_default())
}

fn number(headers: &HeaderMap, name: &str) -> Option<f64> {
    headers.get(name)?.to_str().ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate_limited(seconds: Option<u64>) -> EndpointFailure {
        EndpointFailure::RateLimited {
            retry_after: seconds.map(Duration::from_secs),
            message: String::new(),
        }
    }

    #[test]
    fn waits_grow_and_are_bounded() {
        let policy = RetryPolicy::new(3, Duration::from_secs(4));
        assert_eq!(policy.wait(&rate_limited(Some(5)), 0), None);
        assert_eq!(policy.wait(&rate_limited(Some(0)), 3), Some(Duration::ZERO));
        for (retry, least) in [(0, 500), (1, 1000), (2, 2000), (3, 4000), (40, 4000)] {
            let wait = policy.wait(&rate_limited(None), retry).unwrap();
            let least = Duration::from_millis(least);
            assert!(wait >= least && wait <= policy.longest_wait, "{retry}: {wait:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_transient_failure_is_retried_as_often_as_allowed() {
        assert_eq!(attempts_with(rate_limited(Some(1))).await, 3);
        let too_long = rate_limited(Some(86_400));
        assert_eq!(attempts_with(too_long).await, 1, "the wait would be too long");
        assert_eq!(attempts_with(EndpointFailure::Malformed(String::new())).await, 1);
    }

    /// Returns the number of attempts that all end with `failure`.
    async fn attempts_with(failure: EndpointFailure) -> usize {
        let mut attempts = 0;
        let outcome: Result<(), _> = RetryPolicy::new(2, Duration::from_secs(4))
            .run(|| {
                attempts += 1;
                std::future::ready(Err(failure.clone()))
            })
            .await;
        assert_eq!(outcome, Err(failure));
        attempts
    }

    #[test]
    fn an_endpoint_asks_for_a_wait_in_three_forms() {
        fn asked(name: &'static str, value: &str) -> Option<Duration> {
            let name = reqwest::header::HeaderName::from_static(name);
            retry_after(&HeaderMap::from_iter([(name, value.parse().unwrap())]))
        }
        assert_eq!(asked("retry-after-ms", "250"), Some(Duration::from_millis(250)));
        assert_eq!(asked("retry-after", "7"), Some(Duration::from_secs(7)));
        let date = httpdate::fmt_http_date(SystemTime::now() + Duration::from_mins(1));
        let seconds = asked("retry-after", &date).unwrap().as_secs();
        assert!((55..=60).contains(&seconds), "{seconds}");
        for invalid in ["-1", "NaN", "1e300", "soon", ""] {
            assert_eq!(asked("retry-after", invalid), None, "{invalid}");
        }
    }
}
