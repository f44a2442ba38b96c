//! Connections: accepted within limits, served with HTTP/1.1 or HTTP/2, and shut down cleanly.

use std::{
    convert::Infallible,
    future::Future,
    io,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Request as HttpRequest, Response as HttpResponse, Version, header};
use http_body::Body;
use http_body_util::{BodyExt as _, combinators::UnsyncBoxBody};
use hyper::{
    body::Incoming,
    rt::Executor,
    server::conn::{http1, http2},
    service::{Service, service_fn},
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    time::{Instant, MissedTickBehavior},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    HttpEndpoint, ResponseBody,
    client_stream::{ClientSocket, ClientStream, Pace},
    connection::{Connection, ConnectionInfo, Connections},
    paced_body::PacedBody,
    request_body::RequestBody,
};

/// Limits of connections, and the shutdown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeOptions {
    /// Open connections: 1,024. At the limit, a new connection closes an idle one: the one that was
    /// idle for the longest, of the address with the most idle ones. If none is idle, the new
    /// connection gets status 503.
    pub max_connections: usize,
    /// Open connections of one address, or of one /64 network: 256. At the limit, a new connection
    /// closes the one of the same address that was silent for the longest. Addresses of this
    /// machine have only the total limit.
    pub max_connections_per_address: usize,
    /// Maximum time for a request's head to arrive, and for a connection to be idle: 30 s.
    pub head_timeout: Duration,
    /// Time after which a connection is closed if its client reads nothing: 60 s.
    pub write_timeout: Duration,
    /// A connection is also closed if its client reads fewer bytes a second over that time: 4,096.
    pub min_bytes_per_second: u64,
    /// Time for requests in flight to finish after a stop: 5 s. Then each gets an error as its
    /// answer, and connections are closed a second later.
    pub shutdown_grace: Duration,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            max_connections: 1_024,
            max_connections_per_address: 256,
            head_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_mins(1),
            min_bytes_per_second: 4_096,
            shutdown_grace: Duration::from_secs(5),
        }
    }
}

/// Time for the answers of calls that a shutdown has ended.
const CANCELLED_GRACE: Duration = Duration::from_secs(1);

/// Serves connections of `listener` when it is awaited:
/// `serve(listener, endpoint).with_options(options).until(stop).await`.
///
/// Speaks HTTP/1.1, and HTTP/2 with clients that begin with it ("prior knowledge"). Requests have a
/// [`ConnectionInfo`] among their extensions.
///
/// Small answers are sent at once (`TCP_NODELAY`): with Nagle's algorithm a stream of events takes
/// 40 ms a step.
///
/// # Errors
/// Returns an error if the listener fails. Errors of one connection end only that connection.
pub fn serve<S>(listener: TcpListener, service: S) -> Serve<S> {
    let stop = CancellationToken::new();
    Serve { listener, service, options: ServeOptions::default(), stop, handshake: None }
}

/// Makes the byte stream of a connection from its socket, such as by a handshake of TLS.
pub trait Handshake: Send + Sync {
    /// Returns the stream. The connection counts within the limits meanwhile, delays no other one,
    /// and is closed after [`ServeOptions::head_timeout`].
    fn open(&self, socket: TcpStream) -> Opening<'_>;
}

/// The future of a [`Handshake`].
type Opening<'a> = Pin<Box<dyn Future<Output = io::Result<Secured>> + Send + 'a>>;

/// The byte stream of a connection after its [`Handshake`].
pub struct Secured {
    /// The stream.
    pub stream: Box<dyn ClientSocket>,
    /// Whether the client has chosen HTTP/2; otherwise it speaks HTTP/1.1.
    pub is_http2: bool,
}

/// A server of connections that starts when it is awaited; see [`serve()`].
#[must_use = "it serves nothing until it is awaited"]
pub struct Serve<S> {
    listener: TcpListener,
    service: S,
    options: ServeOptions,
    stop: CancellationToken,
    handshake: Option<Arc<dyn Handshake>>,
}

impl<S> Serve<S> {
    /// Opens each connection by this handshake, if there is one.
    pub fn secured_by(self, handshake: Option<Arc<dyn Handshake>>) -> Self {
        Self { handshake, ..self }
    }

    /// Serves with these options instead of the default ones.
    pub fn with_options(self, options: ServeOptions) -> Self {
        Self { options, ..self }
    }

    /// Serves until `stop` is cancelled and the requests in flight have finished or their time is
    /// over. The listener closes as soon as `stop` is cancelled.
    pub fn until(self, stop: CancellationToken) -> Self {
        Self { stop, ..self }
    }
}

impl<S, B> IntoFuture for Serve<S>
where
    S: Service<HttpRequest<RequestBody>, Response = HttpResponse<B>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Failure>,
{
    type Output = io::Result<()>;
    type IntoFuture = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { listener, service, options, stop, handshake } = self;
        let new_service = Box::new(move || -> BoxedService {
            let service = service.clone();
            Box::new(move |request| {
                let service = service.clone();
                Box::pin(async move {
                    let Ok(response) = service.call(request).await;
                    response.map(|body| UnsyncBoxBody::new(body.map_err(Into::into)))
                })
            })
        });
        Box::pin(serve_connections(listener, new_service, options, stop, handshake))
    }
}

/// The service of a connection. It is boxed, so that hyper's connections are compiled once, here,
/// and not again in each crate that serves.
type BoxedService = Box<dyn Fn(HttpRequest<RequestBody>) -> BoxedAnswer + Send>;
type BoxedAnswer = Pin<Box<dyn Future<Output = HttpResponse<BoxedBody>> + Send>>;
type BoxedBody = UnsyncBoxBody<Bytes, Failure>;

async fn serve_connections(
    listener: TcpListener,
    new_service: Box<dyn Fn() -> BoxedService + Send>,
    options: ServeOptions,
    stop: CancellationToken,
    handshake: Option<Arc<dyn Handshake>>,
) -> io::Result<()> {
    let open =
        Arc::new(Connections::new(options.max_connections, options.max_connections_per_address));
    let tasks = TaskTracker::new();
    let cut = CancellationToken::new();
    let kill = CancellationToken::new();
    let ended = loop {
        let accepted = tokio::select! {
            accepted = accept(&listener) => accepted,
            () = stop.cancelled() => break Ok(()),
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => break Err(error),
        };
        _ = stream.set_nodelay(true);
        let connection = match open.admit(address, &cut) {
            Ok(connection) => connection,
            Err(full) => {
                tracing::warn!(%address, %full, "a connection was refused");
                // Its answer would be no message of a handshake.
                if handshake.is_none() {
                    refuse(&stream);
                }
                continue;
            }
        };
        let served = Served {
            service: new_service(),
            handshake: handshake.clone(),
            options: options.clone(),
            connection: connection.clone(),
            stop: stop.clone(),
            streams: Streams { tasks: tasks.clone(), kill: connection.kill.clone() },
        };
        let open = open.clone();
        let kill = kill.clone();
        tasks.spawn(async move {
            let _leave = LeaveOnDrop { open: &open, connection: &connection };
            let ended = tokio::select! {
                ended = served.run(stream) => ended,
                () = connection.kill.cancelled() => return,
                () = kill.cancelled() => return,
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "connection ended");
            }
        });
    };
    // The port closes first: a stopping server would not answer new connections.
    drop(listener);
    tasks.close();
    if tokio::time::timeout(options.shutdown_grace, tasks.wait()).await.is_err() {
        cut.cancel();
        if tokio::time::timeout(CANCELLED_GRACE, tasks.wait()).await.is_err() {
            kill.cancel();
            tasks.wait().await;
        }
    }
    ended
}

async fn accept(listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    loop {
        match listener.accept().await {
            Ok(accepted) => return Ok(accepted),
            // The client disconnected before it was accepted.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
                ) => {}
            // Out of file descriptors or memory: connections that end free some.
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection; trying again");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Answers with 503, if that can be written at once.
fn refuse(stream: &TcpStream) {
    const ANSWER: &[u8] =
        b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 1\r\n\
        content-length: 0\r\n\r\n";
    _ = stream.try_write(ANSWER);
}

/// Removes a connection from the open ones when it ends.
struct LeaveOnDrop<'a> {
    open: &'a Connections,
    connection: &'a Connection,
}

impl Drop for LeaveOnDrop<'_> {
    fn drop(&mut self) {
        self.open.leave(self.connection);
    }
}

/// A connection that is being served.
struct Served {
    service: BoxedService,
    handshake: Option<Arc<dyn Handshake>>,
    options: ServeOptions,
    connection: Arc<Connection>,
    stop: CancellationToken,
    streams: Streams,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

type Stream = TokioIo<ClientStream<Box<dyn ClientSocket>>>;

impl Served {
    async fn run(self, stream: TcpStream) -> Result<(), Failure> {
        let opening = async {
            if let Some(handshake) = &self.handshake {
                return handshake.open(stream).await;
            }
            let is_http2 = begins_with_http2(&stream).await?;
            Ok(Secured { stream: Box::new(stream), is_http2 })
        };
        let Secured { stream, is_http2 } = tokio::select! {
            opened = tokio::time::timeout(self.options.head_timeout, opening) => {
                opened.map_err(|_| "the client sent no request")??
            }
            () = self.stop.cancelled() => return Ok(()),
        };
        let pace = Pace {
            timeout: self.options.write_timeout,
            bytes_per_second: self.options.min_bytes_per_second,
        };
        let stream = ClientStream::new(stream, pace);
        if is_http2 {
            return self.run_http2(TokioIo::new(stream)).await;
        }
        let stream = stream.answering_to_the_end(self.connection.clone());
        self.run_http1(TokioIo::new(stream)).await
    }

    async fn run_http1(self, stream: Stream) -> Result<(), Failure> {
        let Self { service, options, connection, stop, .. } = self;
        let serving = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(options.head_timeout)
            .serve_connection(stream, answering(service, connection))
            // The limits of connections do not apply to a WebSocket; the service that accepts it
            // must limit it.
            .with_upgrades();
        let mut serving = pin!(serving);
        let mut stopping = false;
        loop {
            tokio::select! {
                ended = serving.as_mut() => return Ok(ended?),
                () = stop.cancelled(), if !stopping => {
                    stopping = true;
                    serving.as_mut().graceful_shutdown();
                }
            }
        }
    }

    async fn run_http2(self, stream: Stream) -> Result<(), Failure> {
        /// Requests of one connection at a time; further ones of the client wait.
        const MAX_STREAMS: u32 = 100;
        /// Bytes of one answer that are buffered while the client does not read.
        const MAX_KEPT: usize = 64 << 10;
        let Self { service, options, connection, stop, streams, .. } = self;
        let serving = http2::Builder::new(streams)
            .timer(TokioTimer::new())
            .max_concurrent_streams(MAX_STREAMS)
            .max_send_buf_size(MAX_KEPT)
            // Notices a client that has gone.
            .keep_alive_interval(options.head_timeout)
            .keep_alive_timeout(options.head_timeout)
            .serve_connection(stream, answering(service, connection.clone()));
        let mut serving = pin!(serving);
        let mut watch = Watch::new(&options, connection);
        let mut stopping = false;
        loop {
            tokio::select! {
                ended = serving.as_mut() => return Ok(ended?),
                verdict = watch.next() => match verdict {
                    Verdict::TooSlow => return Err("the client reads too slowly".into()),
                    Verdict::Idle if !stopping => {
                        stopping = true;
                        serving.as_mut().graceful_shutdown();
                    }
                    Verdict::Idle => return Ok(()),
                },
                () = stop.cancelled(), if !stopping => {
                    stopping = true;
                    serving.as_mut().graceful_shutdown();
                }
            }
        }
    }
}

/// Returns whether the client begins with the preface of HTTP/2, with which no HTTP/1.1 request
/// begins.
///
/// `hyper_util::server::conn::auto` detects this, too, but takes the stream first. The two versions
/// need different streams: a slow client's socket ends an HTTP/1.1 connection, but not an HTTP/2
/// connection.
async fn begins_with_http2(stream: &TcpStream) -> io::Result<bool> {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    const PAUSE: Duration = Duration::from_millis(10);
    let mut start = [0; PREFACE.len()];
    loop {
        let seen = stream.peek(&mut start).await?;
        if seen == 0 || !PREFACE.starts_with(&start[..seen]) {
            return Ok(false);
        }
        if seen == PREFACE.len() {
            return Ok(true);
        }
        // The received part stays readable, so only waiting shows whether more arrives.
        tokio::time::sleep(PAUSE).await;
    }
}

/// Returns the service of one connection, with the parts that every request and answer needs.
fn answering(
    service: BoxedService,
    connection: Arc<Connection>,
) -> impl Service<
    HttpRequest<Incoming>,
    Response = HttpResponse<PacedBody<BoxedBody>>,
    Error = Infallible,
    Future: Send + 'static,
> {
    service_fn(move |mut request: HttpRequest<Incoming>| {
        let connection = connection.clone();
        let busy = connection.begin();
        let version = request.version();
        request.extensions_mut().insert(ConnectionInfo(connection.clone()));
        let answer = service(request.map(|body| RequestBody::new(body, connection.clone())));
        async move {
            let mut response = answer.await;
            if version < Version::HTTP_2 && connection.body_is_open() {
                // The unread rest of a body would be taken for the next request, so the connection
                // must close.
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(header::CONNECTION, close);
            }
            let paced = (version >= Version::HTTP_2).then_some(connection);
            Ok(response.map(|body| PacedBody::new(body, busy, paced)))
        }
    })
}

/// Runs the streams of HTTP/2 connections until their connection ends.
#[derive(Clone)]
struct Streams {
    tasks: TaskTracker,
    kill: CancellationToken,
}

impl<F> Executor<F> for Streams
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let kill = self.kill.clone();
        self.tasks.spawn(async move {
            kill.run_until_cancelled(stream).await;
        });
    }
}

/// Watches an HTTP/2 connection, whose answers wait for flow control and not for the socket.
struct Watch {
    ticks: tokio::time::Interval,
    connection: Arc<Connection>,
    idle: Duration,
    pace: Pace,
    since: Instant,
    sent: u64,
}

enum Verdict {
    TooSlow,
    Idle,
}

impl Watch {
    fn new(options: &ServeOptions, connection: Arc<Connection>) -> Self {
        let pace =
            Pace { timeout: options.write_timeout, bytes_per_second: options.min_bytes_per_second };
        let period = (pace.timeout.min(options.head_timeout) / 4).max(Duration::from_millis(10));
        let mut ticks = tokio::time::interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let sent = connection.sent();
        Self { ticks, connection, idle: options.head_timeout, pace, since: Instant::now(), sent }
    }

    /// Completes when the connection must end. Cancel safe.
    async fn next(&mut self) -> Verdict {
        loop {
            self.ticks.tick().await;
            if self.connection.silence().is_some_and(|silence| silence >= self.idle) {
                return Verdict::Idle;
            }
            let now = Instant::now();
            let sent = self.connection.sent();
            let time = now.duration_since(self.since);
            if self.connection.is_backlogged() && time < self.pace.timeout {
                continue;
            }
            let taken = (sent - self.sent) as f64;
            let wanted = time.as_secs_f64() * self.pace.bytes_per_second as f64;
            if self.connection.is_backlogged() && taken < wanted.max(1.0) {
                return Verdict::TooSlow;
            }
            self.since = now;
            self.sent = sent;
        }
    }
}

impl<B> Service<HttpRequest<B>> for HttpEndpoint
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Failure>,
{
    type Response = HttpResponse<ResponseBody>;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, request: HttpRequest<B>) -> Self::Future {
        let endpoint = self.clone();
        Box::pin(async move { Ok(endpoint.handle(request).await) })
    }
}

type Answering =
    Pin<Box<dyn Future<Output = Result<HttpResponse<ResponseBody>, Infallible>> + Send>>;

/// Serves routers such as axum's: `Router::new().route_service("/mcp", endpoint)`.
impl<B> tower_service::Service<HttpRequest<B>> for HttpEndpoint
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Failure>,
{
    type Response = HttpResponse<ResponseBody>;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: HttpRequest<B>) -> Self::Future {
        Service::call(&*self, request)
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;
    use tower_service::Service;

    use super::*;
    use crate::{Handler, Server, ServerDescription, http::HttpOptions};

    struct Nothing;

    impl Handler for Nothing {
        fn describe(&self) -> ServerDescription {
            ServerDescription::default()
        }
    }

    #[tokio::test]
    async fn routers_take_an_endpoint_for_a_service() {
        let mut endpoint = HttpEndpoint::new(Server::new(Nothing), HttpOptions::default());
        let request = HttpRequest::get("/mcp").header("host", "localhost");
        let request = request.body(Full::new(Bytes::new())).unwrap();
        let response = Service::call(&mut endpoint, request).await.unwrap();
        assert_eq!(response.status(), http::StatusCode::NOT_ACCEPTABLE);
    }
}
