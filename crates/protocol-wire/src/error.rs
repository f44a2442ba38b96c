//! Errors as JSON-RPC carries them.

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

/// The error codes of the protocol, and those of this implementation.
pub mod error_code {
    /// The message is not JSON.
    pub const PARSE_ERROR: i32 = -32700;
    /// The message is JSON, but no JSON-RPC message.
    pub const INVALID_REQUEST: i32 = -32600;
    /// The method does not exist.
    pub const METHOD_NOT_FOUND: i32 = -32601;
    /// The parameters do not fit the method.
    pub const INVALID_PARAMS: i32 = -32602;
    /// The server failed.
    pub const INTERNAL_ERROR: i32 = -32603;
    /// The request or its answer is larger than a stated limit of this implementation.
    ///
    /// Codes of our own are positive: 2026-07-28 allows no new ones in -32000 to -32019, and
    /// reserves -32020 to -32099.
    pub const LIMIT_EXCEEDED: i32 = 413;
    /// The request needs a token with further scopes. Over HTTP the answer has status 403 and a
    /// challenge.
    pub const INSUFFICIENT_SCOPE: i32 = 403;
    /// More requests are in flight than a stated limit of this implementation allows; a later
    /// request may succeed.
    pub const TOO_MANY_REQUESTS: i32 = 429;
    /// The resource does not exist (until 2025-11-25; later revisions use [`INVALID_PARAMS`]).
    pub const RESOURCE_NOT_FOUND: i32 = -32002;
    /// An HTTP header contradicts the body (2026-07-28).
    pub const HEADER_MISMATCH: i32 = -32020;
    /// The request needs a capability that the client did not declare (2026-07-28).
    pub const MISSING_CAPABILITY: i32 = -32021;
    /// The request names a revision that the server does not speak (2026-07-28).
    pub const UNSUPPORTED_VERSION: i32 = -32022;
    /// The user has to visit a web page first (only in 2025-11-25; a server of 2026-07-28 asks by
    /// `input_required`).
    pub const URL_ELICITATION_REQUIRED: i32 = -32042;
}

/// A JSON-RPC error object.
#[derive(Clone, Debug, Serialize, Deserialize, thiserror::Error)]
#[error("{message} ({code})")]
pub struct RpcError {
    /// Code of the error; see [`error_code`]. A code that is not a whole number of 32 bits, which
    /// some servers send, is read as [`error_code::INTERNAL_ERROR`], so that the message is not
    /// lost.
    #[serde(deserialize_with = "lenient_code")]
    pub code: i32,
    /// Message for people.
    pub message: String,
    /// Further data for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<RawValue>>,
}

impl RpcError {
    /// Returns an error without data.
    #[must_use]
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// Sets the data, which is for programs. Data that cannot be serialised is left out.
    #[must_use]
    pub fn with_data(mut self, data: &impl Serialize) -> Self {
        self.data = to_raw_value(data).ok();
        self
    }

    /// Returns an error with the code [`error_code::INVALID_REQUEST`].
    #[must_use]
    pub fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(error_code::INVALID_REQUEST, message)
    }

    /// Returns an error with the code [`error_code::METHOD_NOT_FOUND`] that names the method.
    #[must_use]
    pub fn method_not_found(method: &str) -> Self {
        Self::new(error_code::METHOD_NOT_FOUND, format!("method '{}' not found", shortened(method)))
    }

    /// Returns an error with the code [`error_code::INVALID_PARAMS`].
    #[must_use]
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(error_code::INVALID_PARAMS, message)
    }

    /// Returns an error with the code [`error_code::INTERNAL_ERROR`].
    #[must_use]
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(error_code::INTERNAL_ERROR, message)
    }

    /// Returns an error with the code [`error_code::LIMIT_EXCEEDED`]; the message should name the
    /// limit.
    #[must_use]
    pub fn limit_exceeded(message: impl Into<String>) -> Self {
        Self::new(error_code::LIMIT_EXCEEDED, message)
    }

    /// Returns the error for a request that needs a token with these scopes; `data.scopes` has
    /// them.
    #[must_use]
    pub fn insufficient_scope<'a>(scopes: impl IntoIterator<Item = &'a str>) -> Self {
        let scopes: Vec<&str> = scopes.into_iter().collect();
        let message = format!("a token with the scopes \"{}\" is needed", scopes.join(" "));
        Self::new(error_code::INSUFFICIENT_SCOPE, message)
            .with_data(&serde_json::json!({ "scopes": scopes }))
    }

    /// Returns an error with the code [`error_code::TOO_MANY_REQUESTS`]; the message should name
    /// the limit.
    #[must_use]
    pub fn too_many_requests(message: impl Into<String>) -> Self {
        Self::new(error_code::TOO_MANY_REQUESTS, message)
    }

    /// Returns the error for a resource `uri` that does not exist; `data.uri` is the URI.
    ///
    /// Until 2025-11-25 the code is [`error_code::RESOURCE_NOT_FOUND`]; a server of 2026-07-28
    /// sends [`error_code::INVALID_PARAMS`] instead, which the server half of this crate does by
    /// itself.
    #[must_use]
    pub fn resource_not_found(uri: &str) -> Self {
        Self::new(error_code::RESOURCE_NOT_FOUND, format!("resource not found: {}", shortened(uri)))
            .with_data(&serde_json::json!({ "uri": uri }))
    }
}

/// The members of an error as servers write them.
#[derive(Default, Deserialize)]
struct ErrorMembers {
    #[serde(default, deserialize_with = "lenient_code")]
    code: Option<i32>,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    data: Option<Box<RawValue>>,
}

impl RpcError {
    /// Reads an error of which members are missing, or which is only a text.
    pub(crate) fn lenient<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = <&RawValue>::deserialize(deserializer)?;
        let members = if json.get().starts_with('"') {
            let message = serde_json::from_str(json.get()).map_err(D::Error::custom)?;
            ErrorMembers { message: Some(message), ..ErrorMembers::default() }
        } else {
            serde_json::from_str(json.get()).map_err(D::Error::custom)?
        };
        Ok(Self {
            code: members.code.unwrap_or(error_code::INTERNAL_ERROR),
            message: members.message.unwrap_or_else(|| "the server gives no reason".to_owned()),
            data: members.data,
        })
    }
}

fn lenient_code<'de, D: Deserializer<'de>, T: From<i32>>(deserializer: D) -> Result<T, D::Error> {
    let code = Value::deserialize(deserializer)?;
    let text = code.as_str().and_then(|code| code.trim().parse().ok());
    let whole = code.as_i64().or(text).or_else(|| {
        let number = code.as_f64().filter(|number| number.fract() == 0.0)?;
        Some(number as i64)
    });
    let code = whole.and_then(|code| code.try_into().ok()).unwrap_or(error_code::INTERNAL_ERROR);
    Ok(code.into())
}

impl PartialEq for RpcError {
    fn eq(&self, other: &Self) -> bool {
        self.code == other.code
            && self.message == other.message
            && self.data.as_ref().map(|data| data.get())
                == other.data.as_ref().map(|data| data.get())
    }
}

/// Returns the start of a text from another program, at most 200 bytes: short enough for a message
/// or a log line.
#[must_use]
pub fn shortened(text: &str) -> &str {
    const MAX: usize = 200;
    &text[..text.floor_char_boundary(MAX)]
}
