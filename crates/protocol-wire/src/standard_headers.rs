//! The `Mcp-*` headers of the stateless era, which must match the body.

use base64::{Engine, engine::general_purpose::STANDARD};
use http::HeaderMap;
use serde_json::Value;

use crate::{Request, RpcError, error_code, header_arguments::HeaderArguments, members::Members};

/// Checks `Mcp-Protocol-Version`, `Mcp-Method` and, for methods with a target, `Mcp-Name` against
/// the body (2026-07-28, "Standard Request Headers").
///
/// # Errors
///
/// Returns an error if a header does not match (-32020); the message names it.
pub fn check(
    headers: &HeaderMap,
    request: &Request<'_>,
    members: &Members<'_>,
    version: &str,
) -> Result<(), RpcError> {
    agrees(headers, "mcp-protocol-version", version)?;
    agrees(headers, "mcp-method", &request.method)?;
    if let Some(target) = target(request, members)? {
        agrees(headers, "mcp-name", &target)?;
    }
    Ok(())
}

/// Checks the `Mcp-Param-*` headers of a tool call, which repeat the arguments that the tool's
/// schema marks with `x-mcp-header` (2026-07-28, "Custom Headers").
///
/// # Errors
///
/// Returns an error if a header does not match (-32020); the message names it.
pub fn check_params(
    headers: &HeaderMap,
    members: &Members<'_>,
    marks: &HeaderArguments,
) -> Result<(), RpcError> {
    let arguments: Value = members
        .read("arguments")
        .map_err(|error| {
            let why = format!("arguments cannot be compared with their headers: {error}");
            RpcError::invalid_params(why)
        })?
        .unwrap_or_default();
    for mark in marks.iter() {
        let header = &mark.header;
        match mark.text(&arguments) {
            None if headers.contains_key(header) => {
                let why = format!("header '{header}' repeats a missing argument");
                return Err(RpcError::new(error_code::HEADER_MISMATCH, why));
            }
            None => {}
            Some(text) => {
                let number = mark.value(&arguments).and_then(Value::as_f64);
                agrees_with(headers, header, |value| {
                    value == text || number.is_some_and(|number| is_number(value, number))
                })?;
            }
        }
    }
    Ok(())
}

/// Returns whether the text is that number in any notation ("Server Validation").
fn is_number(text: &str, number: f64) -> bool {
    // Larger integers are not exact as floating-point numbers, so their text must be the same.
    const EXACT: f64 = 9_007_199_254_740_991.0;
    number.abs() <= EXACT && text.parse() == Ok(number)
}

/// Returns the target of the request: the tool, the prompt or the resource.
///
/// # Errors
///
/// Returns an error if the body has no such text: then no header can match it.
pub fn target(request: &Request<'_>, members: &Members<'_>) -> Result<Option<String>, RpcError> {
    let member = match &*request.method {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
        _ => return Ok(None),
    };
    members
        .read(member)
        .ok()
        .flatten()
        .map(Some)
        .ok_or_else(|| RpcError::invalid_params(format!("parameter '{member}' must be a string")))
}

fn agrees(headers: &HeaderMap, name: &str, body: &str) -> Result<(), RpcError> {
    agrees_with(headers, name, |value| value == body)
}

fn agrees_with(
    headers: &HeaderMap,
    name: &str,
    agrees: impl FnOnce(&str) -> bool,
) -> Result<(), RpcError> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return mismatch(name, "is missing") };
    if values.next().is_some() {
        return mismatch(name, "is repeated");
    }
    let Some(value) = decoded(value.as_bytes()) else { return mismatch(name, "is not readable") };
    if agrees(&value) { Ok(()) } else { mismatch(name, "differs from the body") }
}

fn mismatch(name: &str, why: &str) -> Result<(), RpcError> {
    Err(RpcError::new(error_code::HEADER_MISMATCH, format!("header '{name}' {why}")))
}

/// Decodes the text of a header; text that a header cannot contain is sent as `=?base64?…?=`.
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
    fn headers_must_match_the_body() {
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

    #[test]
    fn marked_arguments_are_repeated() {
        let both = r#"{"region":"eu","count":3,"other":"x"}"#;
        assert_eq!(
            check_marked(&[("mcp-param-region", "eu"), ("mcp-param-count", "3")], both),
            None
        );
        assert_eq!(
            check_marked(
                &[("mcp-param-region", "=?base64?ZXU=?="), ("mcp-param-count", "3")],
                both
            ),
            None
        );
        assert_eq!(check_marked(&[], r#"{"other":"x"}"#), None);
        for arguments in [r#"{"region":"eu","other":1e999}"#, r#"{"count":-1e999}"#] {
            let why = check_marked(&[], arguments).unwrap();
            assert!(why.contains("cannot be compared"), "{arguments}: {why}");
        }
        assert_eq!(check_marked(&[("mcp-param-count", "3.0")], r#"{"count":3}"#), None);
        assert_eq!(
            check_marked(&[("mcp-param-deep", "a b")], r#"{"nested":{"deep":"a b"}}"#),
            None
        );
        assert_eq!(
            check_marked(&[], r#"{"nested":{"deep":"a b"}}"#).unwrap(),
            "header 'mcp-param-deep' is missing"
        );
        assert_eq!(
            check_marked(
                &[("mcp-param-count", "9007199254740992")],
                r#"{"count":9007199254740993}"#
            )
            .unwrap(),
            "header 'mcp-param-count' differs from the body"
        );
        let why = check_marked(&[], r#"{"other":1e999}"#).unwrap();
        assert!(why.contains("cannot be compared with their headers"), "{why}");
        for (given, arguments, why) in [
            (&[("mcp-param-count", "3")][..], both, "is missing"),
            (&[("mcp-param-region", "us")], r#"{"region":"eu"}"#, "differs from the body"),
            (&[("mcp-param-region", "=?base64?ZXU?=")], r#"{"region":"eu"}"#, "is not readable"),
            (&[("mcp-param-region", "eu")], "{}", "repeats a missing argument"),
        ] {
            assert_eq!(
                check_marked(given, arguments),
                Some(format!("header 'mcp-param-region' {why}")),
                "{arguments}"
            );
        }
    }

    fn check_marked(given: &[(&'static str, &str)], arguments: &str) -> Option<String> {
        let schema = serde_json::json!({ "properties": {
            "region": { "type": "string", "x-mcp-header": "Region" },
            "count": { "type": "integer", "x-mcp-header": "Count" },
            "other": { "type": "string" },
            "nested": { "type": "object", "properties": {
                "deep": { "type": "string", "x-mcp-header": "Deep" },
            } },
        } });
        let marks = HeaderArguments::of(&schema).unwrap().unwrap();
        let headers: HeaderMap = given
            .iter()
            .map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap()))
            .collect();
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t","arguments":{arguments}}}}}"#
        );
        let Ok(Message::Request(request)) = Message::parse(body.as_bytes(), 10) else {
            panic!("no request")
        };
        check_params(&headers, &Members::of(request.params), &marks)
            .err()
            .map(|error| error.message)
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
        let members = Members::of(request.params);
        let got =
            check(&headers, &request, &members, "2026-07-28").err().map(|error| error.message);
        assert_eq!(got.as_deref(), want);
    }
}
