//! Ends tests early: when their client disconnects or does not read, and when the server stops.

use axum::Extension;
use futures_util::future::{BoxFuture, FutureExt as _, Shared as SharedFuture};
use marquetry_protocol::server::http::ConnectionInfo;

use super::Shared;

pub(super) const CLIENT_LEFT: &str =
    "its client closed the connection before the result; run it again, and wait for the answer";
pub(super) const CLIENT_STOPPED_READING: &str =
    "its client did not read the results; run the batch again, and read events as they come";
const SERVER_STOPPED: &str = "the test server stopped; start it, and run the test again";

/// Completes with the reason when a test must end early.
pub(super) type StopSignal = SharedFuture<BoxFuture<'static, String>>;

/// Returns the stop signal of tests; `client_gone` completes with the reason when their client
/// disconnects or does not read.
pub(super) fn stop_signal(
    shared: &Shared,
    client_gone: impl Future<Output = &'static str> + Send + 'static,
) -> StopSignal {
    let stopping = shared.stopping.clone();
    let reason = async move {
        tokio::select! {
            reason = client_gone => reason.to_owned(),
            () = stopping.cancelled() => SERVER_STOPPED.to_owned(),
        }
    };
    reason.boxed().shared()
}

/// Completes when the client has closed its side of the connection. It never completes without a
/// [`ConnectionInfo`]: other servers drop the request when its client disconnects.
pub(super) async fn half_closed(connection: Option<Extension<ConnectionInfo>>) {
    match connection {
        Some(Extension(connection)) => connection.half_closed().await,
        None => std::future::pending().await,
    }
}
