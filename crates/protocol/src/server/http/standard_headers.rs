//! The `Mcp-*` headers of the stateless era, which must say what the body says.

use base64::{Engine, engine::general_purpose::STANDARD};
use http::HeaderMap;
use serde::Deserialize;

use crate::{Request, RpcError, error_code};

/// Checks `Mcp-Protocol-Version`, `Mcp-Method` and, for methods with a target, `Mcp-Name` against the body
/// (2026-07-28, "Standard Request Headers").
///
/// # Errors
/// Header mismatch (-32020), naming the header.
pub(super) fn check(
    headers: &HeaderMap,
    request: &Request<'_>,
    version: &str,
) -> Result<(), RpcError> {
    agrees(headers, "mcp-protocol-version", version)?;
    agrees(headers, "mcp-method", &request.method)?;
    if let Some(target) = target(request) {
        agrees(headers, "mcp-name", &target)?;
    }
    Ok(())
}

/// What the request is about: the tool, the prompt or the resource.
fn target(request: &Request<'_>) -> Option<String> {
    #[derive(Deserialize)]
    struct Target {
        name: Option<String>,
        uri: Option<String>,
    }
    let params: Target = serde_json::from_str(request.params?.get()).ok()?;
    match &*request.method {
        "tools/call" | "prompts/get" => params.name,
        "resources/read" => params.uri,
        _ => None,
    }
}

fn agrees(headers: &HeaderMap, name: &str, body: &str) -> Result<(), RpcError> {
    let mismatch = |why: &str| {
        Err(RpcError::new(error_code::HEADER_MISMATCH, format!("header '{name}' {why}")))
    };
    let Some(value) = headers.get(name) else { return mismatch("is missing") };
    let Some(value) = decoded(value.as_bytes()) else { return mismatch("is not readable") };
    if value == body { Ok(()) } else { mismatch("differs from the body") }
}

/// A header's text; what a header cannot hold comes as `=?base64?…?=`.
fn decoded(value: &[u8]) -> Option<String> {
    let value = std::str::from_utf8(value).ok()?.trim();
    match value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        Some(encoded) => String::from_utf8(STANDARD.decode(encoded).ok()?).ok(),
        None => Some(value.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Message;

    #[test]
    fn headers_say_what_the_body_says() {
        check_call(&[("mcp-method", "tools/call"), ("mcp-name", "größe")], None);
        check_call(&[("mcp-method", "tools/call"), ("mcp-name", "=?base64?Z3LDtsOfZQ==?=")], None);
        check_call(&[("mcp-name", "größe")], Some("header 'mcp-method' is missing"));
        check_call(&[("mcp-method", "tools/call")], Some("header 'mcp-name' is missing"));
        check_call(
            &[("mcp-method", "tools/list"), ("mcp-name", "größe")],
            Some("header 'mcp-method' differs from the body"),
        );
        check_call(
            &[("mcp-method", "tools/call"), ("mcp-name", "=?base64?!?=")],
            Some("header 'mcp-name' is not readable"),
        );
    }

    #[track_caller]
    fn check_call(given: &[(&'static str, &str)], want: Option<&str>) {
        let mut headers = HeaderMap::new();
        headers.insert("mcp-protocol-version", "2026-07-28".parse().unwrap());
        for (name, value) in given {
            headers.insert(*name, http::HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"größe"}}"#;
        let Ok(Message::Request(request)) = Message::parse(body.as_bytes(), 10) else {
            panic!("no request")
        };
        let got = check(&headers, &request, "2026-07-28").err().map(|error| error.message);
        assert_eq!(got.as_deref(), want);
    }
}
