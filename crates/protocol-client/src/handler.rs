//! What a client answers when its server asks.

use async_trait::async_trait;
use marquetry_protocol_wire::{
    RpcError,
    types::{
        CreateMessageParams, CreateMessageResult, ElicitParams, ElicitResult, ListRootsResult,
    },
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::value::{RawValue, to_raw_value};

use super::events::ServerNotification;

/// Answers a server's questions. What is not overridden is answered with "method not found"; what is should also be
/// declared in [`ClientOptions::capabilities`](super::ClientOptions::capabilities).
///
/// In the session era the questions come as requests; in the stateless era they come as a result, and the request is
/// sent again with the answers. A handler sees no difference.
#[async_trait]
pub trait ClientHandler: Send + Sync + 'static {
    /// Any of the questions below, as JSON. By default it is read and given to its method; override it to pass
    /// questions on as they are.
    async fn request(
        &self,
        method: &str,
        params: Option<&RawValue>,
    ) -> Result<Box<RawValue>, RpcError> {
        dispatch(self, method, params).await
    }

    /// A notification of the server's, in order with its answers; those of progress go to their call. It is called where
    /// messages are read, so it must not wait.
    fn notified(&self, notification: &ServerNotification) {
        let _ = notification;
    }

    /// `elicitation/create`: asks the user.
    async fn elicit(&self, params: ElicitParams) -> Result<ElicitResult, RpcError> {
        let _ = params;
        Err(RpcError::method_not_found("elicitation/create"))
    }

    /// `sampling/createMessage`: asks the model.
    async fn sample(&self, params: CreateMessageParams) -> Result<CreateMessageResult, RpcError> {
        let _ = params;
        Err(RpcError::method_not_found("sampling/createMessage"))
    }

    /// `roots/list`: the places that the user lets the server work in.
    async fn roots(&self) -> Result<ListRootsResult, RpcError> {
        Err(RpcError::method_not_found("roots/list"))
    }
}

/// A client that offers nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct NoHandler;

impl ClientHandler for NoHandler {}

/// Reads a question and gives it to its method.
async fn dispatch(
    handler: &(impl ClientHandler + ?Sized),
    method: &str,
    params: Option<&RawValue>,
) -> Result<Box<RawValue>, RpcError> {
    match method {
        "elicitation/create" => json(&handler.elicit(read(params)?).await?),
        "sampling/createMessage" => json(&handler.sample(read(params)?).await?),
        "roots/list" => json(&handler.roots().await?),
        _ => Err(RpcError::method_not_found(method)),
    }
}

fn read<T: DeserializeOwned>(params: Option<&RawValue>) -> Result<T, RpcError> {
    let params = params.map_or("{}", RawValue::get);
    serde_json::from_str(params).map_err(|error| RpcError::invalid_params(error.to_string()))
}

fn json(value: &impl Serialize) -> Result<Box<RawValue>, RpcError> {
    to_raw_value(value).map_err(|error| RpcError::internal(error.to_string()))
}
