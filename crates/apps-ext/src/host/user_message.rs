//! Messages that a View adds to the conversation in the user's name.

use marquetry_protocol::{
    RpcError,
    types::{Content, JsonObject},
};
use serde::Serialize;
use serde_json::Value;

use crate::types::{DENIED, Modalities};

/// A message that a View adds to the conversation in the user's name.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct UserMessage {
    /// The items of the message; at least one.
    pub content: Vec<Content>,
}

impl UserMessage {
    /// Returns a message with these items.
    #[must_use]
    pub fn new(content: Vec<Content>) -> Self {
        Self { content }
    }

    /// Parses the parameters of `ui/message`. The content is an array, or a single block, which the
    /// text of the specification also allows.
    pub(super) fn parse(
        params: &JsonObject,
        allowed: &Modalities,
        max_bytes: usize,
    ) -> Result<Self, RpcError> {
        if params.get("role").and_then(Value::as_str) != Some("user") {
            return Err(RpcError::invalid_params("role must be \"user\""));
        }
        let Some(content) = params.get("content") else {
            return Err(RpcError::invalid_params("content is missing"));
        };
        let content = read_content(content, allowed, max_bytes)?;
        if content.is_empty() {
            return Err(RpcError::invalid_params("content is empty"));
        }
        Ok(Self { content })
    }

    /// Returns the texts of the message, one on each line.
    #[must_use]
    pub fn text(&self) -> String {
        let texts: Vec<_> = self.content.iter().filter_map(Content::as_text).collect();
        texts.join("\n")
    }
}

/// Parses one block or an array of blocks; refuses kinds that the host does not accept.
pub(super) fn read_content(
    value: &Value,
    allowed: &Modalities,
    max_bytes: usize,
) -> Result<Vec<Content>, RpcError> {
    let blocks = match value {
        Value::Array(blocks) => blocks.as_slice(),
        block => std::slice::from_ref(block),
    };
    let bytes = value.to_string().len();
    if bytes > max_bytes {
        let message = format!("content has {bytes} bytes; this host takes at most {max_bytes}");
        return Err(RpcError::new(DENIED, message));
    }
    let mut content = Vec::with_capacity(blocks.len());
    for (index, block) in blocks.iter().enumerate() {
        let item: Content = serde::Deserialize::deserialize(block)
            .map_err(|error| RpcError::invalid_params(format!("content[{index}]: {error}")))?;
        let (kind, is_allowed) = match &item {
            Content::Text { .. } => ("text", &allowed.text),
            Content::Image { .. } => ("image", &allowed.image),
            Content::Audio { .. } => ("audio", &allowed.audio),
            Content::Resource { .. } => ("resource", &allowed.resource),
            Content::ResourceLink(_) => ("resource_link", &allowed.resource_link),
        };
        if is_allowed.is_none() {
            let message = format!("content[{index}]: the host takes no {kind}");
            return Err(RpcError::new(DENIED, message));
        }
        content.push(item);
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(params: Value) -> Result<UserMessage, i32> {
        let params = params.as_object().unwrap();
        UserMessage::parse(params, &Modalities::text(), 60).map_err(|error| error.code)
    }

    #[test]
    fn one_block_or_an_array_is_a_message() {
        let block = json!({ "type": "text", "text": "hi" });
        let one = parse(json!({ "role": "user", "content": block })).unwrap();
        assert_eq!(one, parse(json!({ "role": "user", "content": [block] })).unwrap());
        let two = parse(json!({ "role": "user", "content": [block, block] })).unwrap();
        assert_eq!(two.text(), "hi\nhi");
    }

    #[test]
    fn other_messages_are_refused() {
        let block = json!({ "type": "text", "text": "hi" });
        let image = json!({ "type": "image", "data": "", "mimeType": "i" });
        let long = json!({ "type": "text", "text": "h".repeat(60) });
        for (params, code) in [
            (json!({ "role": "assistant", "content": [block] }), -32602),
            (json!({ "content": [block] }), -32602),
            (json!({ "role": "user" }), -32602),
            (json!({ "role": "user", "content": [] }), -32602),
            (json!({ "role": "user", "content": "hi" }), -32602),
            (json!({ "role": "user", "content": [{ "type": "smell" }] }), -32602),
            (json!({ "role": "user", "content": [block, image] }), DENIED),
            (json!({ "role": "user", "content": long }), DENIED),
        ] {
            assert_eq!(parse(params.clone()), Err(code), "{params}");
        }
    }
}
