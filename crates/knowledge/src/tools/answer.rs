//! Answers of the tools.

use marquetry_protocol::{
    server::{Json, ToolOutput},
    types::CallToolResult,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::failure::{ErrorCode, Failure};

/// Member of `_meta` of a failed tool call that holds the code of the failure.
pub const ERROR: &str = "marquetry/error";

/// The data of an answer, or a failure.
pub(super) struct Answer<T>(pub(super) Result<T, Failure>);

impl<T: Serialize + JsonSchema + Send> ToolOutput for Answer<T> {
    fn output_schema() -> Option<Value> {
        Json::<T>::output_schema()
    }

    fn into_result(self) -> CallToolResult {
        match self.0 {
            Ok(data) => Json(data).into_result(),
            Err(failure) => failure.into(),
        }
    }
}

impl From<Failure> for CallToolResult {
    /// Returns a failed tool call: the message for the model, the code for programs.
    fn from(failure: Failure) -> Self {
        let meta = json!({ERROR: {"code": failure.code.as_str()}});
        Self { meta: meta.as_object().cloned(), ..Self::error(failure.message) }
    }
}

/// Returns the code of a failed call of a tool of this server; `None` if it succeeded. A failure
/// without a code means that the arguments did not match the tool's schema.
#[must_use]
pub fn error_code(result: &CallToolResult) -> Option<ErrorCode> {
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
            assert_eq!(error_code(&Failure::new(code, "why").into()), Some(code));
        }
        assert_eq!(
            error_code(&CallToolResult::error("arguments of 'x' are not valid")),
            Some(ErrorCode::InvalidParams)
        );
        assert_eq!(error_code(&CallToolResult::text("fine")), None);
    }
}
