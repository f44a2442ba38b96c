//! Ends tests early: when their client disconnects, and when the server stops.

use futures_util::future::{BoxFuture, FutureExt as _, Shared as SharedFuture};

use super::Shared;

const CLIENT_LEFT: &str =
    "its client closed the connection before the result; run it again, and wait for the answer";
const SERVER_STOPPED: &str = "the test server stopped; start it, and run the test again";

/// Completes with the reason when a test must end early.
pub(super) type Stopped = SharedFuture<BoxFuture<'static, String>>;

/// Returns the stop signal of tests; `client_left` completes when their client disconnects.
pub(super) fn stopped(
    shared: &Shared,
    client_left: impl Future<Output = ()> + Send + 'static,
) -> Stopped {
    let stopping = shared.stopping.clone();
    let reason = async move {
        tokio::select! {
            () = client_left => CLIENT_LEFT.to_owned(),
            () = stopping.cancelled() => SERVER_STOPPED.to_owned(),
        }
    };
    reason.boxed().shared()
}
