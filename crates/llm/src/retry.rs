//! Sending a request again when the provider is busy.

use std::{
    future::Future,
    time::{Duration, SystemTime},
};

use reqwest::header::{HeaderMap, RETRY_AFTER};

use crate::{ChatError, ModelConfig};

/// Does it again while it fails for a while only, with longer and longer waits, or those that the provider asks for.
pub(crate) async fn retried<T, F: Future<Output = Result<T, ChatError>>>(
    config: &ModelConfig,
    mut attempt: impl FnMut() -> F,
) -> Result<T, ChatError> {
    let mut tried = 0;
    loop {
        let error = match attempt().await {
            Err(error) if error.is_transient() && tried < config.retries => error,
            outcome => return outcome,
        };
        let wait = wait(&error, tried);
        if wait > config.longest_wait {
            return Err(error);
        }
        tracing::debug!(model = config.model, %error, ?wait, "asks again");
        tokio::time::sleep(wait).await;
        tried += 1;
    }
}

/// What the provider asks for, else half a second, doubled each time; a quarter more at random, so that those who
/// failed together do not come back together.
fn wait(error: &ChatError, tried: u32) -> Duration {
    let wait = error
        .retry_after()
        .unwrap_or_else(|| Duration::from_millis(500).saturating_mul(1 << tried.min(16)));
    let mut byte = [0];
    // Without random numbers they come back together, and nothing is lost.
    _ = getrandom::fill(&mut byte);
    wait + wait.mul_f64(f64::from(byte[0]) / 1024.0)
}

/// The wait that an answer asks for: `retry-after-ms`, or `retry-after` in seconds or as a date.
pub(crate) fn wanted_wait(headers: &HeaderMap) -> Option<Duration> {
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
