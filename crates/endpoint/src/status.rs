//! Failures from HTTP statuses and bodies.

use reqwest::header::{HeaderMap, LOCATION};
use serde_json::Value;

use crate::{ApiKey, EndpointFailure, retry_after};

impl EndpointFailure {
    /// Returns the failure for an answer with a status of 300 or more. The key is redacted.
    pub fn from_status(
        status: u16,
        headers: Option<&HeaderMap>,
        body: &[u8],
        key: Option<&ApiKey>,
    ) -> Self {
        if (300..400).contains(&status) {
            let header = headers.and_then(|headers| headers.get(LOCATION));
            let target = header.map_or(&b""[..], |header| header.as_bytes());
            let location = ApiKey::redact(key, &String::from_utf8_lossy(target));
            return Self::Redirected { status, location };
        }
        let retry_after = headers.and_then(retry_after);
        let message = ApiKey::redact(key, &error_message(body));
        match status {
            401 | 403 => Self::Unauthorized { status, message },
            429 => Self::RateLimited { retry_after, message },
            // OpenAI's own clients retry 408 and 409.
            408 | 409 | 500.. => Self::Failed { status, retry_after, message },
            _ => Self::Refused { status, message },
        }
    }
}

/// Returns the message in the body of an error: of `{"error": {"message": …}}`, `{"error": …}` or
/// `{"message": …}`, else the body itself. The key is not redacted.
pub fn error_message(body: &[u8]) -> String {
    let message = serde_json::from_slice::<Value>(body).ok().and_then(|body| {
        let error = body.get("error").unwrap_or(&body);
        error.get("message").unwrap_or(error).as_str().map(str::to_owned)
    });
    message.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_in_the_forms_that_providers_use() {
        for (body, want) in [
            (r#"{"error": {"message": "slow down", "type": "x"}}"#, "slow down"),
            (r#"{"error": "slow down"}"#, "slow down"),
            (r#"{"message": "slow down"}"#, "slow down"),
            ("slow down", "slow down"),
            ("{}", "{}"),
        ] {
            assert_eq!(error_message(body.as_bytes()), want, "{body}");
        }
    }

    #[test]
    fn a_status_tells_whether_a_retry_is_of_use() {
        for (status, is_transient) in [
            (307, false),
            (400, false),
            (401, false),
            (403, false),
            (404, false),
            (408, true),
            (409, true),
            (429, true),
            (500, true),
            (503, true),
        ] {
            let failure = EndpointFailure::from_status(status, None, b"", None);
            assert_eq!(failure.is_transient(), is_transient, "{failure}");
            assert!(failure.to_string().contains(&status.to_string()), "{failure}");
        }
    }
}
