//! Checks of tool calls against the tool's schemas.

use serde_json::{Value, value::RawValue};

use crate::{
    schema::Schema,
    types::{CallToolResult, Tool},
};

/// The compiled schemas of a tool, for its arguments and results. Create it together with the tool.
/// A handler of `marquetry-protocol-server` returns it from `tool_schema`.
#[derive(Debug)]
pub struct ToolSchema {
    arguments: Schema,
    result: Option<Schema>,
}

/// A schema of a tool is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{member} of tool '{tool}' is not a valid JSON Schema: {why}")]
pub struct SchemaError {
    /// Name of the tool.
    pub tool: String,
    /// `inputSchema` or `outputSchema`.
    pub member: &'static str,
    /// The problem with the schema.
    pub why: String,
}

impl ToolSchema {
    /// Compiles the schemas of a tool.
    ///
    /// # Errors
    /// Returns an error if one of them is not a valid JSON Schema.
    pub fn of(tool: &Tool) -> Result<Self, SchemaError> {
        let arguments = compile(tool, "inputSchema", &tool.input_schema)?;
        let result = match &tool.output_schema {
            Some(schema) => Some(compile(tool, "outputSchema", schema)?),
            None => None,
        };
        Ok(Self { arguments, result })
    }

    /// Returns the answer to invalid arguments: a failed tool call, which a model can correct
    /// (2025-11-25, "Error Handling"; SEP-1303).
    #[must_use]
    pub fn refusal(&self, tool: &str, arguments: &Value) -> Option<CallToolResult> {
        let faults = self.arguments.faults(arguments)?;
        Some(CallToolResult::error(format!("arguments of '{tool}' are not valid: {faults}")))
    }

    /// Returns the result if it matches the schema; otherwise an error that names the place.
    #[must_use]
    pub fn checked(&self, tool: &str, result: CallToolResult) -> CallToolResult {
        let Some(schema) = self.result.as_ref().filter(|_| !result.is_error()) else {
            return result;
        };
        let faults = match &result.structured_content {
            Some(content) => schema.faults(content),
            None => Some("structuredContent is missing".to_owned()),
        };
        faults.map_or(result, |faults| broken(tool, &faults))
    }

    /// Returns the error that replaces a serialised result, if that does not match the schema.
    #[must_use]
    pub fn error_for(&self, tool: &str, result: &RawValue) -> Option<CallToolResult> {
        let faults = self.result.as_ref()?.faults_of_result(result)?;
        Some(broken(tool, &faults))
    }
}

fn compile(tool: &Tool, member: &'static str, schema: &Value) -> Result<Schema, SchemaError> {
    Schema::new(schema).map_err(|why| SchemaError { tool: tool.name.clone(), member, why })
}

/// Returns the error for a result that violates its schema: a bug of the server, which is logged
/// and reported to the caller.
fn broken(tool: &str, faults: &str) -> CallToolResult {
    tracing::error!(tool, faults, "a tool's result breaks its outputSchema");
    CallToolResult::error(format!("the result of '{tool}' breaks its outputSchema: {faults}"))
}
