//! Checks requests of a View for a message of the model.

use marquetry_protocol::{RpcError, types::JsonObject};

use crate::types::HostSampling;

/// Checks the parameters of `sampling/createMessage`. The host must show them to the user before
/// its model gets them.
pub(super) fn check(params: &JsonObject, allowed: &HostSampling) -> Result<(), RpcError> {
    if !params.get("messages").is_some_and(serde_json::Value::is_array) {
        return Err(RpcError::invalid_params("messages is not an array"));
    }
    if params.contains_key("tools") && allowed.tools.is_none() {
        return Err(RpcError::invalid_params("the host takes no tools in sampling requests"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tools_need_a_capability() {
        fn is_valid(params: serde_json::Value, tools: Option<JsonObject>) -> bool {
            check(params.as_object().unwrap(), &HostSampling { tools }).is_ok()
        }
        assert!(is_valid(json!({ "messages": [] }), None));
        assert!(!is_valid(json!({ "messages": [], "tools": [] }), None));
        assert!(is_valid(json!({ "messages": [], "tools": [] }), Some(JsonObject::new())));
        assert!(!is_valid(json!({}), None));
    }
}
