//! What the tools answer.

use marquetry_protocol::{
    server::{Json, ToolOutput},
    types::CallToolResult,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::knowledge::{ErrorCode, Failure};

/// Under which name of `_meta` a failed tool says what kind of failure it is.
pub(crate) const ERROR: &str = "marquetry/error";

/// Data, or why there is none.
pub(super) struct Answer<T>(pub(super) Result<T, Failure>);

impl<T: Serialize + JsonSchema + Send> ToolOutput for Answer<T> {
    fn output_schema() -> Option<Value> {
        Json::<T>::output_schema()
    }

    fn into_result(self) -> CallToolResult {
        match self.0 {
            Ok(data) => Json(data).into_result(),
            Err(failure) => failed(&failure),
        }
    }
}

/// A failed tool call, for the model and for programs.
pub(super) fn failed(failure: &Failure) -> CallToolResult {
    let meta = json!({ERROR: {"code": failure.code.as_str()}});
    let result = CallToolResult::error(failure.message.clone());
    CallToolResult { meta: meta.as_object().cloned(), ..result }
}

/// The kind of a tool's failure. One of our tools that does not say was given arguments that do not fit its schema.
pub(crate) fn error_code(result: &CallToolResult) -> Option<ErrorCode> {
    if !result.is_error() {
        return None;
    }
    let said = result.meta.as_ref().and_then(|meta| meta.get(ERROR)?.get("code")?.as_str());
    let Some(said) = said else { return Some(ErrorCode::InvalidParams) };
    ErrorCode::ALL.into_iter().find(|code| code.as_str() == said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_its_kind() {
        for code in ErrorCode::ALL {
            assert_eq!(error_code(&failed(&Failure::new(code, "why"))), Some(code));
        }
        assert_eq!(
            error_code(&CallToolResult::error("arguments of 'x' are not valid")),
            Some(ErrorCode::InvalidParams)
        );
        assert_eq!(error_code(&CallToolResult::text("fine")), None);
    }
}
