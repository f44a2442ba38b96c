//! Errors of the API.

use std::time::Duration;

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, StatusCode, header};
use marquetry_judge::{StoreError, store::ConfigurationError};
use serde_json::json;

/// Why a request has no result. A test that fails or cannot be run is a result, not an error of the
/// API.
#[derive(Debug, thiserror::Error)]
pub(super) enum ApiError {
    #[error("the body is not a valid {expected}: {problem}")]
    Body { expected: &'static str, problem: String },
    #[error("the body is longer than {0} bytes")]
    TooLong(usize),
    #[error("the body did not arrive within {} s", .0.as_secs())]
    TooSlow(Duration),
    #[error("the query is wrong: {0}")]
    Query(String),
    #[error("{0}")]
    Forbidden(String),
    #[error("send the server's token as \"Authorization: Bearer …\"")]
    Unauthorized,
    #[error("send the body as application/json")]
    NotJson,
    #[error("no run has the id {0:?}")]
    NoRun(String),
    #[error("no result has the id {0:?}")]
    NoResult(String),
    #[error("no configuration has the id {0:?}")]
    NoConfiguration(String),
    #[error("{0}")]
    Missing(StoreError),
    #[error("{0}: {advice}", advice = .0.advice())]
    InUse(StoreError),
    #[error("{0}")]
    Unusable(ConfigurationError),
    #[error("{0} event streams are open already; close a page, and try again")]
    TooManyStreams(usize),
    #[error("{0} batches are open already; wait for the end of one, and try again")]
    TooManyBatches(usize),
    #[error("{waiting} requests wait for their tests already; try again later")]
    Busy { waiting: usize },
    #[error("the server is stopping; send the request again after its restart")]
    Stopping,
    #[error("the store failed: {0}")]
    Store(StoreError),
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NotFound { .. } => Self::Missing(error),
            StoreError::InUse { .. } => Self::InUse(error),
            error => Self::Store(error),
        }
    }
}

impl ApiError {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Body { .. } | Self::Query(_) => StatusCode::BAD_REQUEST,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Forbidden(_) => StatusCode::FORBIDDEN,
            Self::NoRun(_) | Self::NoResult(_) | Self::NoConfiguration(_) | Self::Missing(_) => {
                StatusCode::NOT_FOUND
            }
            Self::InUse(_) | Self::Unusable(_) => StatusCode::CONFLICT,
            Self::TooLong(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow(_) => StatusCode::REQUEST_TIMEOUT,
            Self::NotJson => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Store(_) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Busy { .. }
            | Self::TooManyBatches(_)
            | Self::TooManyStreams(_)
            | Self::Stopping => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = Json(json!({"error": self.to_string()}));
        let mut response = (self.status(), body).into_response();
        match self {
            Self::Busy { .. } | Self::TooManyBatches(_) | Self::TooManyStreams(_) => {
                response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            Self::Unauthorized => {
                let scheme = HeaderValue::from_static("Bearer");
                response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
            }
            _ => {}
        }
        response
    }
}
