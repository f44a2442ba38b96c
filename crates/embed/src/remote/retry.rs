//! Sending a request again when the endpoint is busy.

use std::{
    future::Future,
    time::{Duration, SystemTime},
};

use reqwest::header::{HeaderMap, RETRY_AFTER};

use super::RemoteOptions;
use crate::error::EndpointFailure;

/// Does it again while it fails for a while only, with longer and longer waits, or those that the endpoint asks for.
pub(super) async fn retried<T, F: Future<Output = Result<T, EndpointFailure>>>(
    options: &RemoteOptions,
    mut attempt: impl FnMut() -> F,
) -> Result<T, EndpointFailure> {
    let mut tried = 0;
    loop {
        let failure = match attempt().await {
            Err(failure) if failure.is_transient() && tried < options.retries => failure,
            outcome => return outcome,
        };
        // What asks for more patience than there is shall say so at once.
        let Some(wait) = wait(&failure, tried, options.longest_wait) else { return Err(failure) };
        tokio::time::sleep(wait).await;
        tried += 1;
    }
}

/// What the endpoint asks for, if it is not too long; else half a second, doubled each time. A quarter more at random,
/// so that those who failed together do not come back together.
fn wait(failure: &EndpointFailure, tried: u32, longest: Duration) -> Option<Duration> {
    let wait = match failure.retry_after() {
        Some(wanted) if wanted > longest => return None,
        Some(wanted) => wanted,
        None => Duration::from_millis(500).saturating_mul(1 << tried.min(16)),
    };
    let mut byte = [0];
    // Without random numbers they come back together, and nothing is lost.
    _ = getrandom::fill(&mut byte);
    Some((wait + wait.mul_f64(f64::from(byte[0]) / 1024.0)).min(longest))
}

/// The wait that an answer asks for: `retry-after-ms`, or `retry-after` in seconds or as a date.
pub(super) fn wanted_wait(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
    let duration = |seconds: f64| Duration::try_from_secs_f64(seconds).ok();
    if let Some(milliseconds) = number("retry-after-ms") {
        return duration(milliseconds / 1000.0);
    }
    if let Some(seconds) = number(RETRY_AFTER.as_str()) {
        return duration(seconds);
    }
    let date = headers.get(RETRY_AFTER)?.to_str().ok()?;
    let at = httpdate::parse_http_date(date).ok()?;
    Some(at.duration_since(SystemTime::now()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_those_that_are_asked_for_and_bounded() {
        let longest = Duration::from_secs(4);
        let limited = |seconds: Option<u64>| EndpointFailure::RateLimited {
            retry_after: seconds.map(Duration::from_secs),
            message: String::new(),
        };
        assert_eq!(wait(&limited(Some(5)), 0, longest), None);
        assert_eq!(wait(&limited(Some(0)), 3, longest), Some(Duration::ZERO));
        for (tried, least) in [(0, 500), (1, 1000), (2, 2000), (3, 4000), (40, 4000)] {
            let wait = wait(&limited(None), tried, longest).unwrap();
            assert!(wait >= Duration::from_millis(least) && wait <= longest, "{tried}: {wait:?}");
        }
    }

    #[test]
    fn an_endpoint_may_ask_in_three_ways() {
        let wanted = |name: &'static str, value: &str| {
            wanted_wait(&HeaderMap::from_iter([(name.parse().unwrap(), value.parse().unwrap())]))
        };
        assert_eq!(wanted("retry-after-ms", "250"), Some(Duration::from_millis(250)));
        assert_eq!(wanted("retry-after", "7"), Some(Duration::from_secs(7)));
        let date = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(60));
        let seconds = wanted("retry-after", &date).unwrap().as_secs();
        assert!((55..=60).contains(&seconds), "{seconds}");
        for nonsense in ["-1", "NaN", "1e300", "soon", ""] {
            assert_eq!(wanted("retry-after", nonsense), None, "{nonsense}");
        }
    }
}
