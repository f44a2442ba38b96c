//! What calls of a tool are checked against.

use marquetry_protocol_wire::{
    RpcError,
    schema::Schema,
    types::{CallToolResult, Tool},
};
use serde_json::{Value, value::RawValue};

use super::reply::Reply;

/// What a tool's arguments and results are checked against, compiled once: make it when the tool is made, and give it
/// out by [`Handler::tool_schema`](super::Handler::tool_schema).
#[derive(Debug)]
pub struct ToolSchema {
    arguments: Schema,
    result: Option<Schema>,
}

/// A tool's schema is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{member} of tool '{tool}' is not a valid JSON Schema: {why}")]
pub struct SchemaError {
    /// The tool's name.
    pub tool: String,
    /// `inputSchema` or `outputSchema`.
    pub member: &'static str,
    /// What is wrong with it.
    pub why: String,
}

impl ToolSchema {
    /// The schemas of a tool.
    ///
    /// # Errors
    /// When one of them is no valid JSON Schema.
    pub fn of(tool: &Tool) -> Result<Self, SchemaError> {
        let compile = |member, schema: &Value| {
            Schema::new(schema).map_err(|why| SchemaError { tool: tool.name.clone(), member, why })
        };
        let arguments = compile("inputSchema", &tool.input_schema)?;
        let result = tool.output_schema.as_ref();
        let result = result.map(|schema| compile("outputSchema", schema)).transpose()?;
        Ok(Self { arguments, result })
    }

    /// The answer to arguments that are not valid: a failed tool call, which a model can mend (2025-11-25, "Error
    /// Handling"; SEP-1303).
    pub(super) fn refusal(&self, tool: &str, arguments: &Value) -> Option<CallToolResult> {
        let faults = self.arguments.faults(arguments)?;
        Some(CallToolResult::error(format!("arguments of '{tool}' are not valid: {faults}")))
    }

    /// The same for arguments not yet read.
    pub(super) fn refusal_of_raw(
        &self,
        tool: &str,
        arguments: Option<&RawValue>,
    ) -> Option<CallToolResult> {
        let arguments = arguments.map_or("{}", RawValue::get);
        match serde_json::from_str(arguments) {
            Ok(arguments) => self.refusal(tool, &arguments),
            Err(error) => Some(CallToolResult::error(format!("arguments are not valid: {error}"))),
        }
    }

    /// The result, if it keeps what the schema promises; else an error that says where it does not.
    #[cfg(feature = "typed")]
    pub(super) fn checked(&self, tool: &str, result: CallToolResult) -> CallToolResult {
        let Some(schema) = self.result.as_ref().filter(|_| !result.is_error()) else {
            return result;
        };
        let faults = match &result.structured_content {
            Some(content) => schema.faults(content),
            None => Some("structuredContent is missing".to_owned()),
        };
        faults.map_or(result, |faults| broken(tool, &faults))
    }

    /// The same for a result that is written already.
    pub(super) fn checked_reply(&self, tool: &str, reply: Reply) -> Result<Reply, RpcError> {
        match self.result.as_ref().and_then(|schema| schema.faults_of_result(reply.get())) {
            Some(faults) => Reply::json(&broken(tool, &faults)),
            None => Ok(reply),
        }
    }
}

/// The error for a result that breaks its schema: a fault of the server, which is logged and told to the caller.
fn broken(tool: &str, faults: &str) -> CallToolResult {
    tracing::error!(tool, faults, "a tool's result breaks its outputSchema");
    CallToolResult::error(format!("the result of '{tool}' breaks its outputSchema: {faults}"))
}
