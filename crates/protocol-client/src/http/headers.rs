//! The headers of the stateless era.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use http::{HeaderMap, HeaderName, HeaderValue};
use marquetry_protocol_wire::{
    header_arguments::{HeaderArgument, header_arguments},
    types::Tool,
};
use serde::Deserialize;
use serde_json::Value;

use crate::{error::ClientError, shared::Outgoing};

/// Arguments of tools that headers repeat, from the last list of tools.
#[derive(Default)]
pub(super) struct Marks(Mutex<HashMap<String, Arc<[HeaderArgument]>>>);

impl Marks {
    /// Replaces the arguments by those of a complete list, and removes the tools from the list that
    /// a client must not show (2026-07-28, "Schema Extension").
    pub(super) fn replace(&self, tools: &mut Vec<Tool>) {
        let mut marks = HashMap::new();
        tools.retain(|tool| match header_arguments(&tool.input_schema) {
            Ok(found) => {
                if !found.is_empty() {
                    marks.insert(tool.name.clone(), found.into());
                }
                true
            }
            Err(why) => {
                tracing::warn!(tool = tool.name, %why, "a tool is left out");
                false
            }
        });
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = marks;
    }

    fn of(&self, tool: &str) -> Option<Arc<[HeaderArgument]>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(tool).cloned()
    }
}

/// Returns the headers that repeat values of the body (2026-07-28, "Standard Request Headers").
pub(super) fn standard_headers(
    headers: &mut HeaderMap,
    outgoing: &Outgoing<'_>,
    marks: &Marks,
) -> Result<(), ClientError> {
    #[derive(Deserialize)]
    struct Target {
        name: Option<String>,
        uri: Option<String>,
        #[serde(rename = "taskId")]
        task_id: Option<String>,
    }
    #[derive(Deserialize)]
    struct Call {
        #[serde(default)]
        arguments: Value,
    }
    let not_valid =
        |_| ClientError::params(format!("'{}' does not fit into a header", outgoing.method));
    headers.insert("mcp-method", HeaderValue::from_str(outgoing.method).map_err(not_valid)?);
    let target: Option<Target> =
        outgoing.params.and_then(|params| serde_json::from_str(params.get()).ok());
    let target = target.and_then(|target| match outgoing.method {
        "tools/call" | "prompts/get" => target.name,
        "resources/read" => target.uri,
        "tasks/get" | "tasks/update" | "tasks/cancel" => target.task_id,
        _ => None,
    });
    let Some(target) = target else { return Ok(()) };
    headers.insert("mcp-name", header_text(&target).map_err(not_valid)?);
    let marks = match outgoing.method {
        "tools/call" => marks.of(&target),
        _ => None,
    };
    // A tool that was not listed is called without headers; the server reports missing ones
    // ("Client Behavior").
    let Some(marks) = marks else { return Ok(()) };
    let call: Option<Call> =
        outgoing.params.and_then(|params| serde_json::from_str(params.get()).ok());
    let arguments = call.map(|call| call.arguments).unwrap_or_default();
    for mark in &*marks {
        let Some(text) = mark.text(&arguments) else { continue };
        if let (Ok(name), Ok(value)) = (mark.header.parse::<HeaderName>(), header_text(&text)) {
            headers.insert(name, value);
        }
    }
    Ok(())
}

/// Converts text into a header value: unchanged if possible, otherwise as `=?base64?…?=`.
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
