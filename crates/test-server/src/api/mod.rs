//! The HTTP API: `POST /api/test/run`, `GET /api/test/health`, `GET /api/test/results` of seed 004,
//! batches and runs.

mod batch;
mod body;
mod configurations;
mod error;
mod guard;
mod handlers;
mod live;
mod openapi;
mod operations;
mod results;
mod stop;
#[cfg(all(test, feature = "client"))]
mod tests;

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{Router, middleware::from_fn_with_state};
use hyper_util::service::TowerToHyperService;
use marquetry_judge::ApiKey;
use marquetry_protocol::server::http::{HostGuard, ServeOptions};
use tokio::{
    net::TcpListener,
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::openapi::document;
use self::{error::ApiError, live::Live, operations::Operation};
use crate::Tests;

/// Maximum time that the shutdown of the server waits for tests. Each test waits 5 s for its
/// programs.
const LONGEST_STOP: Duration = Duration::from_secs(10);

/// Options of a [`TestApi`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ApiOptions {
    /// Longest body of a request, in bytes; 8 MiB by default.
    pub max_body_bytes: usize,
    /// Longest time until a body is whole; 30 s by default. Slower requests are answered with 408.
    pub body_timeout: Duration,
    /// Tests that run at a time; 16 by default.
    pub max_running: usize,
    /// Requests that wait for a slot; 64 by default. Others are answered with 503.
    pub max_waiting: usize,
    /// Cases in a batch; 1,000 by default.
    pub max_batch: usize,
    /// Batches that are open at a time; 16 by default. Others are answered with 503.
    pub max_batches: usize,
    /// Time that a batch waits for its client to read events; 60 s by default. Then it ends like a
    /// batch whose client has left. Tests that run do not wait for the client.
    pub batch_read_timeout: Duration,
    /// Event streams of `/api/test/events` that are open at a time; 64 by default. Others are
    /// answered with 503.
    pub max_streams: usize,
    /// Time after which the answer to a longer test begins; 60 s by default. It begins with spaces,
    /// one every 15 s, since clients such as Node's `fetch` give up on an answer that does not
    /// begin within 300 s.
    pub answer_after: Duration,
    /// The token that requests must carry, if there is one. The health check needs none.
    pub token: Option<ApiKey>,
    /// Checks `Host` and `Origin`: loopback by default. `None` if the routes are part of a server
    /// that checks them itself.
    pub host_guard: Option<HostGuard>,
    /// Limits of connections for [`TestApi::serve`]: 256 of them, and otherwise those of
    /// [`ServeOptions`].
    pub connections: ServeOptions,
}

impl Default for ApiOptions {
    fn default() -> Self {
        Self {
            max_body_bytes: 8 << 20,
            body_timeout: Duration::from_secs(30),
            max_running: 16,
            max_waiting: 64,
            max_batch: 1000,
            max_batches: 16,
            batch_read_timeout: Duration::from_mins(1),
            max_streams: 64,
            answer_after: Duration::from_mins(1),
            token: None,
            host_guard: Some(HostGuard::loopback()),
            connections: ServeOptions { max_connections: 256, ..ServeOptions::default() },
        }
    }
}

/// The HTTP API of tests.
#[derive(Clone)]
pub struct TestApi {
    shared: Shared,
}

type Shared = Arc<ApiState>;

struct ApiState {
    tests: Tests,
    options: ApiOptions,
    /// Tests that may run.
    slots: Arc<Semaphore>,
    /// Batches that may be open.
    batches: Arc<Semaphore>,
    waiting: AtomicUsize,
    live: Live,
    /// Cancelled when the server stops.
    stopping: CancellationToken,
    /// Tests and batches. They outlive their requests, to store their results.
    tasks: TaskTracker,
}

impl TestApi {
    /// Returns the API of `tests`.
    #[must_use]
    pub fn new(tests: Tests, options: ApiOptions) -> Self {
        let slots = Arc::new(Semaphore::new(options.max_running.max(1)));
        let batches = Arc::new(Semaphore::new(options.max_batches));
        let state = ApiState {
            tests,
            options,
            slots,
            batches,
            waiting: AtomicUsize::new(0),
            live: Live::new(),
            stopping: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        Self { shared: Arc::new(state) }
    }

    /// Returns the routes, below `/api/test/`.
    pub fn router(&self) -> Router {
        Operation::ALL
            .into_iter()
            .fold(Router::new(), |router, operation| {
                router.route(operation.path(), handlers::handler(operation))
            })
            .layer(from_fn_with_state(self.shared.clone(), guard::check))
            .with_state(self.shared.clone())
    }

    /// Ends the streams of `/api/test/events`, so that a server can stop without waiting for their
    /// readers.
    pub fn close_streams(&self) {
        self.shared.live.close();
    }

    /// Ends the streams and all tests that run. Each ends with a stored result with the status
    /// `error`. Waits for them, at most 10 s.
    pub async fn stop(&self) {
        self.close_streams();
        self.shared.stopping.cancel();
        self.shared.tasks.close();
        if tokio::time::timeout(LONGEST_STOP, self.shared.tasks.wait()).await.is_err() {
            tracing::warn!("tests have not ended within {} s", LONGEST_STOP.as_secs());
        }
    }

    /// Serves the routes alone, until `stop` is done. Requests in flight then have
    /// [`ServeOptions::shutdown_grace`] to end.
    ///
    /// # Errors
    ///
    /// Returns an error if the listener fails.
    pub async fn serve(
        &self,
        listener: TcpListener,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        let service = TowerToHyperService::new(self.router());
        let stopping = CancellationToken::new();
        let mut serving = marquetry_protocol::server::http::serve(listener, service)
            .with_options(self.shared.options.connections.clone())
            .until(stopping.clone())
            .into_future();
        tokio::select! {
            ended = serving.as_mut() => return ended,
            () = stop => stopping.cancel(),
        }
        serving.await
    }
}

impl ApiState {
    /// Waits for a slot among the running tests.
    async fn slot(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        let slot = if let Ok(slot) = self.slots.clone().try_acquire_owned() {
            return Ok(slot);
        } else {
            let _waiter = Waiter::new(&self.waiting, self.options.max_waiting)?;
            self.slots.clone().acquire_owned().await
        };
        slot.map_err(|_| ApiError::Busy { waiting: 0 })
    }
}

/// A waiting request. It is counted until it is dropped, even if its client disconnects.
struct Waiter<'a>(&'a AtomicUsize);

impl<'a> Waiter<'a> {
    fn new(count: &'a AtomicUsize, max_waiting: usize) -> Result<Self, ApiError> {
        let waiting = count.fetch_add(1, Ordering::Relaxed);
        let waiter = Self(count);
        if waiting >= max_waiting { Err(ApiError::Busy { waiting }) } else { Ok(waiter) }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
