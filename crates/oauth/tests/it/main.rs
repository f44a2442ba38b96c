//! A client's login and a server's look at its token, with a small authorization server between
//! them.

mod issuer;
mod login;
mod resource;

use std::time::Duration;

/// Returns the result of `future`; panics if it takes too long.
async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future)
        .await
        .unwrap_or_else(|_| panic!("{what} did not happen"))
}
