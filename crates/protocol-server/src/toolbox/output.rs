//! The results of typed tools.

use std::fmt::Display;

use marquetry_protocol_wire::types::{CallToolResult, Content};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::schema::object_schema_of;

/// A result type of typed tools.
pub trait ToolOutput {
    /// The schema of the answer's `structuredContent`, if it has one.
    #[must_use]
    fn output_schema() -> Option<Value> {
        None
    }

    /// The answer.
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

/// An answer as data: its type's schema is listed with the tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Json<T>(pub T);

impl<T: Serialize + JsonSchema + Send> ToolOutput for Json<T> {
    fn output_schema() -> Option<Value> {
        object_schema_of::<T>()
    }

    fn into_result(self) -> CallToolResult {
        match serde_json::to_value(&self.0) {
            Ok(value @ Value::Object(_)) => CallToolResult::structured(value),
            // Only objects are structured content in every revision.
            Ok(value) => CallToolResult::text(value.to_string()),
            Err(error) => CallToolResult::error(format!("result is no JSON: {error}")),
        }
    }
}
