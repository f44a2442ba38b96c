//! Bodies of requests.

use axum::{body::Bytes, extract::rejection::BytesRejection};
use http::StatusCode;
use serde::de::DeserializeOwned;

use super::{ApiError, Shared};

/// Parses a body.
pub(super) fn parse<T: DeserializeOwned>(
    shared: &Shared,
    body: Result<Bytes, BytesRejection>,
    wanted: &'static str,
) -> Result<T, ApiError> {
    let body = body.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => ApiError::TooLong(shared.options.max_body_bytes),
        _ => ApiError::Body { wanted, problem: rejection.body_text() },
    })?;
    // serde would read a list as the members of an object, in their order.
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(ApiError::Body { wanted, problem: "it is not a JSON object".to_owned() });
    }
    serde_json::from_slice(&body)
        .map_err(|error| ApiError::Body { wanted, problem: error.to_string() })
}
