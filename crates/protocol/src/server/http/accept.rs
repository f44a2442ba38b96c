//! Connections: accepted within limits, closed in good order.

use std::{convert::Infallible, future::Future, io, pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request as HttpRequest, Response as HttpResponse};
use http_body::Body;
use hyper::{body::Incoming, server::conn::http1, service::Service};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{HttpEndpoint, ResponseBody, patience::Patience};

/// How connections are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeOptions {
    /// Connections open at a time: 1,024. Further ones wait to be accepted.
    pub max_connections: usize,
    /// A client must have sent a request's head within this time: 30 s. An idle connection closes after it, too.
    pub head_timeout: Duration,
    /// A connection closes when its client reads nothing of what it is sent for this time: 60 s.
    pub write_timeout: Duration,
    /// After a stop was asked for, requests may finish within this time: 5 s.
    pub shutdown_grace: Duration,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            max_connections: 1_024,
            head_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(60),
            shutdown_grace: Duration::from_secs(5),
        }
    }
}

/// Serves HTTP/1.1 connections of `listener` until `stop` is cancelled and the requests in flight have finished or
/// their grace is over.
///
/// Small answers are sent at once (`TCP_NODELAY`): with Nagle's algorithm a stream of events takes 40 ms a step.
///
/// # Errors
/// When the listener itself fails; errors of one connection end that connection.
pub async fn serve<S, B>(
    listener: TcpListener,
    service: S,
    options: ServeOptions,
    stop: CancellationToken,
) -> io::Result<()>
where
    S: Service<HttpRequest<Incoming>, Response = HttpResponse<B>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let room = Arc::new(Semaphore::new(options.max_connections.min(Semaphore::MAX_PERMITS)));
    let connections = TaskTracker::new();
    let kill = CancellationToken::new();
    let ended = loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &room) => accepted,
            () = stop.cancelled() => break Ok(()),
        };
        let (stream, permit) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => break Err(error),
        };
        _ = stream.set_nodelay(true);
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(options.head_timeout)
            .serve_connection(
                TokioIo::new(Patience::new(stream, options.write_timeout)),
                service.clone(),
            );
        let (stop, kill) = (stop.clone(), kill.clone());
        connections.spawn(async move {
            let _permit = permit;
            let mut connection = pin!(connection);
            let ended = tokio::select! {
                ended = connection.as_mut() => ended,
                () = kill.cancelled() => return,
                () = stop.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    tokio::select! {
                        ended = connection => ended,
                        () = kill.cancelled() => return,
                    }
                }
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "connection ended");
            }
        });
    };
    connections.close();
    if tokio::time::timeout(options.shutdown_grace, connections.wait()).await.is_err() {
        kill.cancel();
        connections.wait().await;
    }
    ended
}

async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> io::Result<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let permit = room.clone().acquire_owned().await.map_err(io::Error::other)?;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return Ok((stream, permit)),
            // The client went away while it waited: its loss alone.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
                ) => {}
            // Out of file descriptors or memory: connections that end will make room.
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection; trying again");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

impl Service<HttpRequest<Incoming>> for HttpEndpoint {
    type Response = HttpResponse<ResponseBody>;
    type Error = Infallible;
    type Future =
        std::pin::Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: HttpRequest<Incoming>) -> Self::Future {
        let endpoint = self.clone();
        Box::pin(async move { Ok(endpoint.handle(request).await) })
    }
}
