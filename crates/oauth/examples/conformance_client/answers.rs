//! A user, a model and a file system that agree to every request.

use async_trait::async_trait;
use marquetry_protocol::{
    RpcError,
    client::{ClientHandler, ClientOptions},
    types::{
        ClientCapabilities, CreateMessageParams, CreateMessageResult, ElicitParams, ElicitResult,
        ListRootsResult,
    },
};
use serde_json::{from_value, json};

struct Answers;

/// Options of a client with all capabilities.
pub(crate) fn options() -> ClientOptions {
    let capabilities =
        ClientCapabilities::default().with_form_elicitation().with_roots().with_sampling();
    ClientOptions {
        capabilities,
        handler: std::sync::Arc::new(Answers),
        ..ClientOptions::default()
    }
}

#[async_trait]
impl ClientHandler for Answers {
    /// Sends the form with its default values.
    async fn elicit(&self, params: ElicitParams) -> Result<ElicitResult, RpcError> {
        Ok(ElicitResult::accept(params.defaults()))
    }

    async fn sample(&self, _: CreateMessageParams) -> Result<CreateMessageResult, RpcError> {
        let result = json!({
            "role": "assistant", "model": "none", "content": { "type": "text", "text": "yes" },
        });
        from_value(result).map_err(|error| RpcError::internal(error.to_string()))
    }

    async fn roots(&self) -> Result<ListRootsResult, RpcError> {
        from_value(json!({ "roots": [{ "uri": "file:///work", "name": "work" }] }))
            .map_err(|error| RpcError::internal(error.to_string()))
    }
}
