//! The headers of the stateless era.

use http::{HeaderMap, HeaderValue};
use serde::Deserialize;

use crate::client::{ClientError, link::Outgoing};

/// The headers that repeat what the body says (2026-07-28, "Standard Request Headers").
pub(super) fn standard_headers(
    headers: &mut HeaderMap,
    outgoing: &Outgoing<'_>,
) -> Result<(), ClientError> {
    #[derive(Deserialize)]
    struct Target {
        name: Option<String>,
        uri: Option<String>,
    }
    let not_valid =
        |_| ClientError::Protocol(format!("method '{}' fits no header", outgoing.method));
    headers.insert("mcp-method", HeaderValue::from_str(outgoing.method).map_err(not_valid)?);
    let target: Option<Target> =
        outgoing.params.and_then(|params| serde_json::from_str(params.get()).ok());
    let target = target.and_then(|target| match outgoing.method {
        "tools/call" | "prompts/get" => target.name,
        "resources/read" => target.uri,
        _ => None,
    });
    if let Some(target) = target {
        headers.insert("mcp-name", header_text(&target).map_err(not_valid)?);
    }
    Ok(())
}

/// Text as a header's value: as it is where a header can hold it, else `=?base64?…?=`.
fn header_text(text: &str) -> Result<HeaderValue, http::header::InvalidHeaderValue> {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let plain = text.bytes().all(|byte| (0x20..0x7f).contains(&byte))
        && text.trim() == text
        && !text.starts_with("=?base64?");
    if plain {
        HeaderValue::from_str(text)
    } else {
        HeaderValue::from_str(&format!("=?base64?{}?=", STANDARD.encode(text)))
    }
}
