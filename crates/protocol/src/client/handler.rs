//! What a client answers when its server asks.

use async_trait::async_trait;

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
