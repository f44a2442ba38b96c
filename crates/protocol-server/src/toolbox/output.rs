//! The results of typed tools.

use std::fmt::Display;

use marquetry_protocol_wire::types::{CallToolResult, Content};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::schema::output_schema_of;

/// A type that a typed tool may return.
pub trait ToolOutput {
    /// Returns the schema of the answer's `structuredContent`, if it has one.
    #[must_use]
    fn output_schema() -> Option<Value> {
        None
    }

    /// Converts the value into an answer.
    fn into_result(self) -> CallToolResult;
}

impl ToolOutput for CallToolResult {
    fn into_result(self) -> CallToolResult {
        self
    }
}

impl ToolOutput for String {
    fn into_result(self) -> CallToolResult {
        CallToolResult::text(self)
    }
}

impl ToolOutput for &str {
    fn into_result(self) -> CallToolResult {
        CallToolResult::text(self)
    }
}

impl ToolOutput for Vec<Content> {
    fn into_result(self) -> CallToolResult {
        CallToolResult { content: self, ..CallToolResult::default() }
    }
}

/// An `Err` is a failed tool call, whose message the model reads.
impl<R: ToolOutput, E: Display> ToolOutput for Result<R, E> {
    fn output_schema() -> Option<Value> {
        R::output_schema()
    }

    fn into_result(self) -> CallToolResult {
        match self {
            Ok(output) => output.into_result(),
            Err(error) => CallToolResult::error(error.to_string()),
        }
    }
}

/// An answer as structured content. The schema of its type is listed with the tool.
///
/// Clients of 2026-07-28 get any value unchanged. Clients of earlier revisions get values that are
/// not objects as `{"result": value}`, with the schema of that object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Json<T>(pub T);

impl<T: Serialize + JsonSchema + Send> ToolOutput for Json<T> {
    fn output_schema() -> Option<Value> {
        Some(output_schema_of::<T>())
    }

    fn into_result(self) -> CallToolResult {
        match serde_json::to_value(&self.0) {
            Ok(value) => CallToolResult::structured(value),
            Err(error) => {
                CallToolResult::error(format!("failed to serialize the result as JSON: {error}"))
            }
        }
    }
}
