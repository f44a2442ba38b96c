//! Errors of `/mcp/v1`: a status and `{"code", "message"}`; seed 003, part 12.

use axum::{
    body::Body,
    http::{HeaderValue, Response, StatusCode, header},
};
use marquetry_gateway::{FailureKind, UNKNOWN_TOOL};
use marquetry_protocol::{RpcError, error_code, types::CallToolResult};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::{RestError, error::RETRY_AFTER, json_response};
use crate::{handler::UPSTREAM, knowledge::code_of_failure, tools::INVALID_ARGUMENTS};

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::rest) struct Problem {
    status: StatusCode,
    code: String,
    message: String,
}

impl Problem {
    pub(in crate::rest) fn new(status: u16, code: &str, message: String) -> Self {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self { status, code: code.to_owned(), message }
    }

    pub(super) fn of_body(error: &RestError, limit: usize) -> Self {
        match error {
            RestError::BodyTooLarge => {
                let message = format!("the body is larger than limits.max_request_bytes ({limit})");
                Self::new(413, "limit_exceeded", message)
            }
            error => Self::of_rest(error),
        }
    }

    fn of_rest(error: &RestError) -> Self {
        let (status, code, message) = error.parts();
        Self { status, code: code.to_ascii_lowercase(), message: message.into_owned() }
    }

    pub(super) fn invalid_params(message: String) -> Self {
        Self::new(400, "invalid_params", message)
    }

    /// Returns the problem for a failed tool of this server, by its code; [`None`] for other
    /// results.
    pub(super) fn of_tool(code: &str, message: &str) -> Option<Self> {
        if code == INVALID_ARGUMENTS {
            return Some(Self::invalid_params(message.to_owned()));
        }
        let (status, code) = code_of_failure(code)?;
        Some(Self::new(status, code, message.to_owned()))
    }

    /// Returns the problem for a call that its upstream did not answer; [`None`] for other results.
    pub(super) fn of_upstream(failed: &CallToolResult) -> Option<Self> {
        #[derive(Deserialize)]
        struct Data {
            kind: FailureKind,
        }
        let data = failed.meta.as_ref()?.get(UPSTREAM)?;
        let Data { kind } = Data::deserialize(data).ok()?;
        let message = failed.content.first().and_then(|item| item.as_text());
        Some(Self::of_failure(kind, message.unwrap_or_default().to_owned()))
    }

    /// Converts the failure of an upstream. As a gateway, the server answers 502 or 504 (RFC 9110,
    /// sections 15.6.3 and 15.6.5).
    fn of_failure(kind: FailureKind, message: String) -> Self {
        let (status, code) = match kind {
            FailureKind::Unreachable => (502, "upstream_unreachable"),
            // A 401 would ask the caller to log in at this server.
            FailureKind::Unauthorized => (502, "upstream_unauthorized"),
            FailureKind::Timeout => (504, "upstream_timeout"),
        };
        Self::new(status, code, message)
    }

    pub(in crate::rest) fn is_not_found(&self) -> bool {
        self.status == StatusCode::NOT_FOUND
    }

    /// Returns the body of the answer.
    pub(super) fn body(&self) -> Value {
        json!({"code": self.code, "message": self.message})
    }

    pub(in crate::rest) fn response(&self) -> Response<Body> {
        let mut response = json_response(self.status, &self.body());
        let headers = response.headers_mut();
        if self.status == StatusCode::REQUEST_TIMEOUT {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        if [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE].contains(&self.status) {
            headers.insert(header::RETRY_AFTER, RETRY_AFTER);
        }
        response
    }
}

/// Returns the problem for a refusal before any method runs: of the host, of a token, of a path.
pub(crate) fn refusal(error: &RestError) -> Response<Body> {
    Problem::of_rest(error).response()
}

impl From<RpcError> for Problem {
    fn from(error: RpcError) -> Self {
        /// Returns the code in an error's data: that of a failure of knowledge, or that of an
        /// upstream that did not answer.
        #[derive(Deserialize)]
        struct Data {
            #[serde(rename = "marquetry/failure")]
            code: Option<String>,
            upstream: Option<String>,
            kind: Option<FailureKind>,
            scopes: Option<Vec<String>>,
        }
        let data = error.data.as_ref().and_then(|data| serde_json::from_str(data.get()).ok());
        if let Some(Data { code, upstream, kind, scopes }) = data {
            if error.code == error_code::INSUFFICIENT_SCOPE && scopes.is_some() {
                return Self::new(403, "insufficient_scope", error.message);
            }
            if let Some(problem) = code.and_then(|code| Self::of_tool(&code, &error.message)) {
                return problem;
            }
            if let (Some(_), Some(kind)) = (upstream, kind) {
                return Self::of_failure(kind, error.message);
            }
        }
        if error.code == error_code::INVALID_PARAMS && !error.message.starts_with(UNKNOWN_TOOL) {
            return Self::invalid_params(without_position(&error.message));
        }
        let (status, code) = match error.code {
            error_code::INVALID_PARAMS => (404, "unknown_tool"),
            error_code::INVALID_REQUEST => (400, "invalid_request"),
            error_code::METHOD_NOT_FOUND => (404, "unknown_method"),
            error_code::RESOURCE_NOT_FOUND => (404, "not_found"),
            error_code::LIMIT_EXCEEDED => (413, "limit_exceeded"),
            error_code::TOO_MANY_REQUESTS => (429, "too_many_requests"),
            _ => (500, "internal"),
        };
        Self::new(status, code, error.message)
    }
}

/// Removes the position from an error of serde_json, which is one in a part of the body.
fn without_position(message: &str) -> String {
    let Some((text, position)) = message.rsplit_once(" at line ") else {
        return message.to_owned();
    };
    match position.split_once(" column ") {
        Some((line, column)) if is_number(line) && is_number(column) => text.to_owned(),
        _ => message.to_owned(),
    }
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use marquetry_knowledge::{ErrorCode, Failure};

    use super::*;

    #[test]
    fn the_whole_table() {
        let mut all: Vec<Problem> = ErrorCode::ALL
            .iter()
            .filter_map(|code| Problem::of_tool(code.as_str(), "why"))
            .collect();
        all.extend(
            ErrorCode::ALL.map(|code| RpcError::from(Failure::new(code, "as an error")).into()),
        );
        all.extend(
            [
                RpcError::invalid_params("unknown tool 'x'"),
                RpcError::invalid_params("why"),
                RpcError::invalid_request("why"),
                RpcError::method_not_found("x"),
                RpcError::resource_not_found("am7://x"),
                RpcError::limit_exceeded("why"),
                RpcError::too_many_requests("why"),
                RpcError::insufficient_scope(["a", "b"]),
                RpcError::internal("why"),
            ]
            .map(Problem::from),
        );
        let foreign = json!({ "code": "forbidden" });
        all.push(RpcError::internal("an upstream's").with_data(&foreign).into());
        for kind in [FailureKind::Unreachable, FailureKind::Timeout, FailureKind::Unauthorized] {
            let data = json!({"upstream": "files", "kind": kind});
            all.push(RpcError::internal("no answer").with_data(&data).into());
            let failed = CallToolResult {
                meta: json!({ UPSTREAM: data }).as_object().cloned(),
                ..CallToolResult::error("no answer of a tool")
            };
            all.extend(Problem::of_upstream(&failed));
        }
        all.push(Problem::of_body(&RestError::BodyTooLarge, 7));
        all.push(Problem::of_body(&RestError::BodyTimeout, 7));
        all.push(Problem::of_rest(&RestError::Unauthorized("why".into())));
        all.push(Problem::of_body(&RestError::Busy("why".into()), 7));
        let table: String = all
            .iter()
            .map(|problem| {
                format!("{} {}: {}\n", problem.status.as_u16(), problem.code, problem.message)
            })
            .collect();
        expect![[r#"
            400 invalid_params: why
            404 not_found: why
            403 forbidden: why
            409 conflict: why
            413 limit_exceeded: why
            503 busy: why
            503 unavailable: why
            500 internal: why
            400 invalid_params: as an error
            404 not_found: as an error
            403 forbidden: as an error
            409 conflict: as an error
            413 limit_exceeded: as an error
            503 busy: as an error
            503 unavailable: as an error
            500 internal: as an error
            404 unknown_tool: unknown tool 'x'
            400 invalid_params: why
            400 invalid_request: why
            404 unknown_method: method 'x' not found
            404 not_found: resource not found: am7://x
            413 limit_exceeded: why
            429 too_many_requests: why
            403 insufficient_scope: a token with the scopes "a b" is needed
            500 internal: why
            500 internal: an upstream's
            502 upstream_unreachable: no answer
            502 upstream_unreachable: no answer of a tool
            504 upstream_timeout: no answer
            504 upstream_timeout: no answer of a tool
            502 upstream_unauthorized: no answer
            502 upstream_unauthorized: no answer of a tool
            413 limit_exceeded: the body is larger than limits.max_request_bytes (7)
            408 request_timeout: Request body did not arrive in time
            401 unauthorized: why
            429 too_many_requests: why
        "#]]
        .assert_eq(&table);
    }
}
