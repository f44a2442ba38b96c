//! Context that a View gives the model with the user's next message.

use marquetry_protocol::{
    RpcError,
    types::{Content, JsonObject},
};
use serde::Serialize;
use serde_json::Value;

use super::user_message::read_content;
use crate::types::{DENIED, Modalities};

/// Context that a View gives the model with the user's next message. A newer one of the same View
/// replaces it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ModelContext {
    /// Content for the model.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub content: Vec<Content>,
    /// Data for the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<JsonObject>,
}

impl ModelContext {
    /// Parses the parameters of `ui/update-model-context`. Returns `None` if they clear the
    /// context.
    pub(super) fn parse(
        params: &JsonObject,
        allowed: &Modalities,
        max_bytes: usize,
    ) -> Result<Option<Self>, RpcError> {
        let content = match params.get("content") {
            None | Some(Value::Null) => Vec::new(),
            Some(content @ Value::Array(_)) => read_content(content, allowed, max_bytes)?,
            Some(_) => return Err(RpcError::invalid_params("content is not an array")),
        };
        let structured_content = match params.get("structuredContent") {
            None | Some(Value::Null) => None,
            Some(Value::Object(data)) if data.is_empty() => None,
            Some(Value::Object(data)) => Some(data.clone()),
            Some(_) => return Err(RpcError::invalid_params("structuredContent is not an object")),
        };
        if structured_content.is_some() && allowed.structured_content.is_none() {
            return Err(RpcError::new(DENIED, "this host does not accept structuredContent"));
        }
        let context = Self { content, structured_content };
        let bytes = serde_json::to_string(&context).map_or(usize::MAX, |text| text.len());
        if bytes > max_bytes {
            let message = format!(
                "the model context has {bytes} bytes; this host takes at most {max_bytes} (max_model_context_bytes)"
            );
            return Err(RpcError::new(DENIED, message));
        }
        Ok((context != Self::default()).then_some(context))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(params: Value) -> Result<Option<ModelContext>, i32> {
        let params = params.as_object().unwrap();
        ModelContext::parse(params, &Modalities::all(), 100).map_err(|error| error.code)
    }

    #[test]
    fn content_and_data_are_read() {
        let params = json!({ "content": [{ "type": "text", "text": "a" }], "structuredContent": { "b": 1 } });
        let context = parse(params.clone()).unwrap().unwrap();
        assert_eq!(serde_json::to_value(context).unwrap(), params);
    }

    #[test]
    fn empty_params_clear_the_context() {
        for params in [
            json!({}),
            json!({ "content": [] }),
            json!({ "content": null, "structuredContent": {} }),
        ] {
            assert_eq!(parse(params.clone()), Ok(None), "{params}");
        }
    }

    #[test]
    fn invalid_and_too_large_contexts_are_refused() {
        for (params, code) in [
            (json!({ "content": { "type": "text", "text": "a" } }), -32602),
            (json!({ "content": ["a"] }), -32602),
            (json!({ "structuredContent": [1] }), -32602),
            (json!({ "structuredContent": { "a": "b".repeat(100) } }), DENIED),
        ] {
            assert_eq!(parse(params.clone()), Err(code), "{params}");
        }
    }
}
