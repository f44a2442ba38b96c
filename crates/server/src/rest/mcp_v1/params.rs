//! Parameters of a method: the body of a request.

use marquetry_protocol::RpcError;
use serde_json::{Map, Value};

use super::error::Problem;

/// Kind of a parameter's value.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Number,
    Object,
    List,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Text => "a string",
            Self::Number => "a whole number from 0 on",
            Self::Object => "an object",
            Self::List => "a list",
        }
    }

    fn matches(self, value: &Value) -> bool {
        match self {
            Self::Text => value.is_string(),
            Self::Number => value.is_u64(),
            Self::Object => value.is_object(),
            Self::List => value.is_array(),
        }
    }
}

/// The parameters of a method that are checked here, each with its kind and whether it is required.
fn checked_parameters(method: &str) -> &'static [(&'static str, Kind, bool)] {
    match method {
        "initialize" => &[
            ("protocolVersion", Kind::Text, false),
            ("capabilities", Kind::Object, false),
            ("clientInfo", Kind::Object, false),
        ],
        "resources/list" => &[("cursor", Kind::Text, false), ("type", Kind::Text, false)],
        "resources/templates/list" | "tools/list" | "prompts/list" => {
            &[("cursor", Kind::Text, false)]
        }
        "resources/read" => &[("uri", Kind::Text, true)],
        "resources/search" => &[("query", Kind::Text, true), ("limit", Kind::Number, false)],
        "tools/call" | "prompts/get" => {
            &[("name", Kind::Text, true), ("arguments", Kind::Object, false)]
        }
        "sampling/createMessage" => &[("messages", Kind::List, true)],
        _ => &[],
    }
}

/// Parses the parameters of `method` in a body: an object, or nothing.
pub(super) fn parse(
    method: &str,
    body: &[u8],
    max_nesting: usize,
) -> Result<Map<String, Value>, Problem> {
    let params = object(body, max_nesting)?;
    for (name, kind, is_required) in checked_parameters(method) {
        match params.get(*name).filter(|value| !value.is_null()) {
            None if *is_required => return Err(required(name)),
            Some(value) if !kind.matches(value) => {
                return Err(Problem::invalid_params(format!("{name} must be {}", kind.name())));
            }
            _ => {}
        }
    }
    Ok(params)
}

/// Returns the problem of a parameter that is missing.
pub(super) fn required(name: &str) -> Problem {
    Problem::invalid_params(format!("{name} is required"))
}

/// Parses a JSON object, or nothing.
fn object(body: &[u8], max_nesting: usize) -> Result<Map<String, Value>, Problem> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Map::new());
    }
    // serde_json has its own limit of 128 levels.
    let value: Value = serde_json::from_slice(body).map_err(|error| {
        Problem::new(400, "invalid_request", format!("the body is not JSON: {error}"))
    })?;
    if depth(&value) > max_nesting {
        let message = format!("the body is nested deeper than limits.max_nesting ({max_nesting})");
        return Err(RpcError::limit_exceeded(message).into());
    }
    match value {
        Value::Object(params) => Ok(params),
        _ => Err(Problem::new(400, "invalid_request", "the body is not a JSON object".to_owned())),
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}
