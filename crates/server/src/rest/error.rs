//! The table from REST errors to status, code and message.

use std::borrow::Cow;

use axum::{
    body::Body,
    http::{HeaderValue, Response, StatusCode, header},
};
use marquetry_plantuml_tools::DiagramError;
use marquetry_protocol::server::http::Denial;
use serde_json::json;

use super::json_response;

/// Why a REST request was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RestError {
    /// The tool was called and failed.
    Diagram(DiagramError),
    /// The body is not JSON.
    InvalidJson,
    /// The body is larger than any diagram within the limit could be.
    BodyTooLarge,
    /// The values of the body take more memory than a caller may have.
    BodyTakesMemory(String),
    /// The body did not arrive in time.
    BodyTimeout,
    /// The body is compressed, by this method.
    BodyEncoded(String),
    /// No tool has that name.
    ToolNotFound(String),
    /// `POST /api/tools/`
    ToolNameRequired,
    /// The path has other methods; the header `Allow` lists them.
    MethodNotAllowed,
    /// No route has that path.
    NotFound,
    /// No profile has that name. The names of profiles are not secret.
    ProfileNotFound { name: String, known: Vec<String> },
    /// `Host` has this value, which is neither a loopback name nor in `server.allowed_hosts`. Empty
    /// if the header is missing.
    HostNotAllowed(String),
    /// `Origin` has this value, which is neither this server's own page nor in
    /// `server.allowed_origins`.
    OriginNotAllowed(String),
    /// The request has no `Origin`, and `Sec-Fetch-Site` has this value, so a page of another site
    /// sends it.
    CrossSite(String),
    /// The token is missing or invalid, with the reason.
    Unauthorized(String),
    /// The token lacks a scope, with the reason.
    InsufficientScope(String),
    /// Tokens cannot be checked now, with the reason.
    NoKeys(String),
    /// A limit per caller or in total is reached; the message names it.
    Busy(String),
}

/// Seconds after which a refused client may try again.
pub(super) const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");

impl RestError {
    /// Status, code and message; specs: PlantUML "Edges", and seed 002, scenarios 3, 4, 6 and 7.
    pub(crate) fn parts(&self) -> (StatusCode, &'static str, Cow<'static, str>) {
        match self {
            Self::Diagram(error) => {
                let status = match error {
                    DiagramError::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
                    DiagramError::EncodingFailed => StatusCode::INTERNAL_SERVER_ERROR,
                    DiagramError::Empty
                    | DiagramError::NoCode
                    | DiagramError::Undecodable(_)
                    | DiagramError::Argument(_) => StatusCode::BAD_REQUEST,
                };
                (status, error.code(), error.to_string().into())
            }
            Self::InvalidJson => {
                (StatusCode::BAD_REQUEST, "INVALID_JSON", "Request body is not valid JSON".into())
            }
            Self::BodyTooLarge => {
                let message = DiagramError::TooLarge.to_string();
                (StatusCode::PAYLOAD_TOO_LARGE, "CODE_TOO_LARGE", message.into())
            }
            Self::BodyTakesMemory(why) => {
                (StatusCode::PAYLOAD_TOO_LARGE, "LIMIT_EXCEEDED", why.clone().into())
            }
            Self::BodyTimeout => (
                StatusCode::REQUEST_TIMEOUT,
                "REQUEST_TIMEOUT",
                "Request body did not arrive in time".into(),
            ),
            Self::BodyEncoded(encoding) => (
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "UNSUPPORTED_ENCODING",
                format!("Content-Encoding '{encoding}' is not supported; send the body uncompressed")
                    .into(),
            ),
            Self::ToolNotFound(name) => {
                let name = &name[..name.floor_char_boundary(200)];
                (StatusCode::NOT_FOUND, "TOOL_NOT_FOUND", format!("Tool '{name}' not found").into())
            }
            Self::ToolNameRequired => {
                (StatusCode::BAD_REQUEST, "TOOL_NAME_REQUIRED", "Tool name is required".into())
            }
            Self::MethodNotAllowed => (
                StatusCode::METHOD_NOT_ALLOWED,
                "METHOD_NOT_ALLOWED",
                "Method not allowed; the Allow header lists the allowed methods".into(),
            ),
            Self::NotFound => {
                (StatusCode::NOT_FOUND, "NOT_FOUND", "No route has this path".into())
            }
            Self::ProfileNotFound { name, known } => {
                let name = &name[..name.floor_char_boundary(64)];
                let known = match known.as_slice() {
                    [] => "[profiles] has none".to_owned(),
                    known => format!("there are {}", known.join(", ")),
                };
                let message = format!("no profile {name:?}; {known}");
                (StatusCode::NOT_FOUND, "PROFILE_NOT_FOUND", message.into())
            }
            Self::HostNotAllowed(host) if host.is_empty() => (
                StatusCode::FORBIDDEN,
                "HOST_NOT_ALLOWED",
                "The Host header is missing; send the name of this server in it".into(),
            ),
            Self::HostNotAllowed(host) => (
                StatusCode::FORBIDDEN,
                "HOST_NOT_ALLOWED",
                format!(
                    "Host '{host}' is neither this machine nor one of server.allowed_hosts; add it there, or use 127.0.0.1 or localhost"
                )
                .into(),
            ),
            Self::OriginNotAllowed(origin) => (
                StatusCode::FORBIDDEN,
                "ORIGIN_NOT_ALLOWED",
                format!(
                    "Origin '{origin}' is neither this server's own page nor one of server.allowed_origins; to allow its calls, add it there"
                )
                .into(),
            ),
            Self::CrossSite(site) => (
                StatusCode::FORBIDDEN,
                "ORIGIN_NOT_ALLOWED",
                format!(
                    "a page of another site sends this request without Origin (Sec-Fetch-Site: {site}); only links to the page of this server may do so"
                )
                .into(),
            ),
            Self::Unauthorized(why) => {
                (StatusCode::UNAUTHORIZED, "UNAUTHORIZED", why.clone().into())
            }
            Self::InsufficientScope(why) => {
                (StatusCode::FORBIDDEN, "INSUFFICIENT_SCOPE", why.clone().into())
            }
            Self::NoKeys(why) => {
                (StatusCode::SERVICE_UNAVAILABLE, "AUTH_UNAVAILABLE", why.clone().into())
            }
            Self::Busy(why) => {
                (StatusCode::TOO_MANY_REQUESTS, "TOO_MANY_REQUESTS", why.clone().into())
            }
        }
    }

    /// Returns the answer: `{"success": false, "error": {"code", "message"}}`.
    pub(crate) fn response(&self) -> Response<Body> {
        let (status, code, message) = self.parts();
        let body = json!({"success": false, "error": {"code": code, "message": message}});
        let mut response = json_response(status, &body);
        if *self == Self::BodyTimeout {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        if [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE].contains(&status) {
            response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER);
        }
        response
    }
}

impl From<DiagramError> for RestError {
    fn from(error: DiagramError) -> Self {
        Self::Diagram(error)
    }
}

impl From<Denial> for RestError {
    fn from(denial: Denial) -> Self {
        match denial.status {
            StatusCode::FORBIDDEN => Self::InsufficientScope(denial.message),
            StatusCode::SERVICE_UNAVAILABLE => Self::NoKeys(denial.message),
            _ => Self::Unauthorized(denial.message),
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn the_whole_table() {
        let all = [
            DiagramError::Empty.into(),
            DiagramError::TooLarge.into(),
            DiagramError::EncodingFailed.into(),
            DiagramError::NoCode.into(),
            DiagramError::Undecodable("why".into()).into(),
            DiagramError::Argument("what".into()).into(),
            RestError::InvalidJson,
            RestError::BodyTooLarge,
            RestError::BodyTakesMemory("why".into()),
            RestError::BodyTimeout,
            RestError::BodyEncoded("gzip".into()),
            RestError::ToolNotFound("unknownTool".into()),
            RestError::ToolNameRequired,
            RestError::MethodNotAllowed,
            RestError::NotFound,
            RestError::ProfileNotFound {
                name: "nosuch".into(),
                known: vec!["diagrams".into(), "reading".into()],
            },
            RestError::ProfileNotFound { name: "x".into(), known: Vec::new() },
            RestError::HostNotAllowed("far.example".into()),
            RestError::HostNotAllowed(String::new()),
            RestError::OriginNotAllowed("https://far.example".into()),
            RestError::CrossSite("cross-site".into()),
            RestError::Unauthorized("why".into()),
            RestError::InsufficientScope("why".into()),
            RestError::NoKeys("why".into()),
            RestError::Busy("why".into()),
        ];
        let table: String = all
            .iter()
            .map(|error| {
                // A new variant must be added to the list above as well.
                match error {
                    RestError::Diagram(
                        DiagramError::Empty
                        | DiagramError::TooLarge
                        | DiagramError::EncodingFailed
                        | DiagramError::NoCode
                        | DiagramError::Undecodable(_)
                        | DiagramError::Argument(_),
                    )
                    | RestError::InvalidJson
                    | RestError::BodyTooLarge
                    | RestError::BodyTakesMemory(_)
                    | RestError::BodyTimeout
                    | RestError::BodyEncoded(_)
                    | RestError::ToolNotFound(_)
                    | RestError::ToolNameRequired
                    | RestError::MethodNotAllowed
                    | RestError::NotFound
                    | RestError::ProfileNotFound { .. }
                    | RestError::HostNotAllowed(_)
                    | RestError::OriginNotAllowed(_)
                    | RestError::CrossSite(_)
                    | RestError::Unauthorized(_)
                    | RestError::InsufficientScope(_)
                    | RestError::NoKeys(_)
                    | RestError::Busy(_) => {}
                }
                let (status, code, message) = error.parts();
                format!("{} {code}: {message}\n", status.as_u16())
            })
            .collect();
        expect![[r#"
            400 EMPTY_CODE: plantumlCode is required and cannot be empty
            413 CODE_TOO_LARGE: PlantUML code exceeds maximum size of 50KB
            500 ENCODING_FAILED: Failed to encode PlantUML code
            400 EMPTY_CODE: code is required and cannot be empty
            400 INVALID_CODE: Failed to decode PlantUML code: why
            400 INVALID_ARGUMENT: what
            400 INVALID_JSON: Request body is not valid JSON
            413 CODE_TOO_LARGE: PlantUML code exceeds maximum size of 50KB
            413 LIMIT_EXCEEDED: why
            408 REQUEST_TIMEOUT: Request body did not arrive in time
            415 UNSUPPORTED_ENCODING: Content-Encoding 'gzip' is not supported; send the body uncompressed
            404 TOOL_NOT_FOUND: Tool 'unknownTool' not found
            400 TOOL_NAME_REQUIRED: Tool name is required
            405 METHOD_NOT_ALLOWED: Method not allowed; the Allow header lists the allowed methods
            404 NOT_FOUND: No route has this path
            404 PROFILE_NOT_FOUND: no profile "nosuch"; there are diagrams, reading
            404 PROFILE_NOT_FOUND: no profile "x"; [profiles] has none
            403 HOST_NOT_ALLOWED: Host 'far.example' is neither this machine nor one of server.allowed_hosts; add it there, or use 127.0.0.1 or localhost
            403 HOST_NOT_ALLOWED: The Host header is missing; send the name of this server in it
            403 ORIGIN_NOT_ALLOWED: Origin 'https://far.example' is neither this server's own page nor one of server.allowed_origins; to allow its calls, add it there
            403 ORIGIN_NOT_ALLOWED: a page of another site sends this request without Origin (Sec-Fetch-Site: cross-site); only links to the page of this server may do so
            401 UNAUTHORIZED: why
            403 INSUFFICIENT_SCOPE: why
            503 AUTH_UNAVAILABLE: why
            429 TOO_MANY_REQUESTS: why
        "#]].assert_eq(&table);
    }
}
