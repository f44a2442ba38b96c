//! What a client answers when its server asks.

use async_trait::async_trait;
use serde_json::value::RawValue;

use super::{answering, link::ServerNotification};
use crate::{
    RpcError,
    types::{
        CreateMessageParams, CreateMessageResult, ElicitParams, ElicitResult, ListRootsResult,
    },
};

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
        answering::dispatch(self, method, params).await
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
