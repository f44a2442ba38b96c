//! Observes requests, for an audit log or metrics.

use std::{future::Future, pin::Pin, sync::Arc};

use async_trait::async_trait;
use marquetry_protocol_wire::RpcError;

use super::{Peer, Reply, RequestContext};

/// A request that runs until its answer.
pub type RunningRequest<'a> = Pin<Box<dyn Future<Output = Result<Reply, RpcError>> + Send + 'a>>;

/// Observes the requests of a server; see [`Server::with_observer`](super::Server::with_observer).
#[async_trait]
pub trait RequestObserver: Send + Sync + 'static {
    /// Awaits a request, and returns the answer to send. The answer waits for this method. If the
    /// client cancels the request, the future of this method is dropped.
    async fn observe(
        &self,
        cx: &RequestContext,
        request: RunningRequest<'_>,
    ) -> Result<Reply, RpcError>;

    /// Receives a request that is refused before it runs, such as one for an unknown method.
    fn refused(&self, method: &str, peer: &Peer, error: &RpcError);
}

/// Runs a request, observed if there is an observer.
pub(super) async fn observed(
    observer: Option<&Arc<dyn RequestObserver>>,
    cx: &RequestContext,
    request: impl Future<Output = Result<Reply, RpcError>> + Send,
) -> Result<Reply, RpcError> {
    match observer {
        Some(observer) => observer.observe(cx, Box::pin(request)).await,
        None => request.await,
    }
}
