//! The trait that answers a server's questions.

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

/// Answers a server's questions. The default implementations answer "method not found". Declare the
/// methods that you implement in
/// [`ClientOptions::capabilities`](super::ClientOptions::capabilities).
///
/// In the session era questions are requests; in the stateless era they are results, and the client
/// repeats its request with the answers. A handler sees no difference.
#[async_trait]
pub trait ClientHandler: Send + Sync + 'static {
    /// Answers any of the questions below, as JSON. By default it is parsed and passed to its
    /// method; override it to forward questions unchanged.
    async fn request(
        &self,
        method: &str,
        params: Option<&RawValue>,
    ) -> Result<Box<RawValue>, RpcError> {
        dispatch(self, method, params).await
    }

    /// Receives the server's notifications, in order with its answers; progress notifications go to
    /// their call. It runs on the task that reads messages, so it must not block.
    fn notified(&self, notification: &ServerNotification) {
        let _ = notification;
    }

    /// Receives a line on the standard output of a server that is not a message: a log line, in
    /// most cases. It must not block.
    fn stray_output(&self, line: &str) {
        let _ = line;
    }

    /// Handles `elicitation/create`: asks the user.
    async fn elicit(&self, params: ElicitParams) -> Result<ElicitResult, RpcError> {
        let _ = params;
        Err(RpcError::method_not_found("elicitation/create"))
    }

    /// Handles `sampling/createMessage`: asks the model.
    async fn sample(&self, params: CreateMessageParams) -> Result<CreateMessageResult, RpcError> {
        let _ = params;
        Err(RpcError::method_not_found("sampling/createMessage"))
    }

    /// Handles `roots/list`: returns the folders in which the server may work.
    async fn roots(&self) -> Result<ListRootsResult, RpcError> {
        Err(RpcError::method_not_found("roots/list"))
    }
}

/// A client without capabilities.
#[derive(Clone, Copy, Debug)]
pub(super) struct NoHandler;

impl ClientHandler for NoHandler {}

/// Parses a question and passes it to its method.
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
