//! The whole server as one value: built from a configuration, served over HTTP, pipes or a router,
//! and shut down.

mod access;
mod artifacts;
mod builder;
mod components;
mod error;
mod notifications;
mod routed_body;
mod views;

use std::{
    future::Future,
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use axum::{
    Extension, Router,
    body::Body,
    extract::Request,
    middleware::{Next, from_fn},
    response::Response,
};
use hyper_util::service::TowerToHyperService;
use marquetry_config::Config;
use marquetry_console::{Console, LoggedReader, LoggedWriter};
use marquetry_gateway::Gateway;
use marquetry_inbound_tls::{Tls, TlsHandshake};
use marquetry_observe::{MetricsAccess, metrics_router};
use marquetry_plantuml_tools::Diagrams;
use marquetry_protocol::server::{
    Peer, Server,
    http::{self, Authenticator, ServeOptions},
    serve_pipe_of,
};
use marquetry_savings::Savings;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    time::{Instant, timeout_at},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::routed_body::RoutedBody;
#[cfg(feature = "cli")]
pub(crate) use self::{artifacts::try_bucket, builder::open_tls};
pub use self::{builder::AppBuilder, error::StartError};
use crate::{
    health::Health,
    http::OnLoopback,
    knowledge::Knowledge,
    observation::Observation,
    reload::{ReloadScope, Reloaded, Reloader},
};

/// A running server. Cheap to clone; one server can be served on any number of listeners, pipes and
/// routers.
///
/// [`App::shutdown`] stops it cleanly. Without that, dropping the last clone and the last
/// [`App::router`] ends the upstreams.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// let app = marquetry::App::builder(marquetry::Config::default()).start().await?;
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
/// let serving = tokio::spawn({
///     let app = app.clone();
///     async move { app.serve(listener).await }
/// });
/// assert_eq!(app.health()["status"], "ok");
/// app.shutdown().await;
/// serving.await??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct App {
    running: Arc<RunningServer>,
}

/// The parts of a running server that its handles share.
struct RunningServer {
    server: Server,
    gateway: Arc<Gateway>,
    knowledge: Knowledge,
    savings: Savings,
    observation: Observation,
    /// See [`App::serve_metrics`].
    authenticator: Option<Arc<dyn Authenticator>>,
    diagrams: Diagrams,
    health: Arc<Health>,
    router: Router,
    /// See [`App::metadata_router`].
    metadata: Router,
    /// The console, if it is switched on.
    console: Option<Console>,
    /// `console.views_origin`.
    views_origin: Option<String>,
    serve_options: ServeOptions,
    /// Cancelled when the server shuts down.
    stop: CancellationToken,
    /// Listeners and pipes in use; shutting down waits for them.
    serving: TaskTracker,
    /// Tool calls in flight.
    calls: TaskTracker,
    /// Requests that came through [`App::router`].
    routed: TaskTracker,
    /// The console, if it is switched on and requests need a token.
    login: Option<Console>,
    tls: Option<Arc<Tls>>,
    reloader: Arc<Reloader>,
}

impl Drop for RunningServer {
    /// Ends the upstreams without waiting for them, unlike [`App::shutdown`].
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(console) = &self.console {
            console.close();
        }
        self.gateway.abandon();
    }
}

impl App {
    /// Creates a builder for a server with this configuration.
    #[must_use]
    pub fn builder(config: Config) -> AppBuilder {
        AppBuilder::new(config)
    }

    /// Returns the routes that [`App::serve`] serves: `/mcp`, `/sse` with `/messages`, `/mcp/v1`,
    /// `/api/tools`, `/healthz`, `/livez`, `/readyz`, and the console at `/`, `/console/…` and
    /// `/api/console/…`. Nest them in an axum program of your own; no socket is bound.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// let app = marquetry::App::builder(marquetry::Config::default()).start().await?;
    /// let site: axum::Router = axum::Router::new().nest("/tools", app.router());
    /// # Ok::<(), marquetry::StartError>(())
    /// # }).unwrap();
    /// ```
    ///
    /// Requests pass the checks of `Host`, `Origin` and authentication that `[server]` and `[auth]`
    /// configure. The limits of connections and the limits per address in `[limits]` apply only to
    /// [`App::serve`]: here all callers without a principal count as one.
    ///
    /// Stop the embedding server with [`App::stopping`], or after [`App::shutdown`].
    pub fn router(&self) -> Router {
        let app = self.clone();
        // Each request holds the app, so that the upstreams live as long as the router.
        self.running.router.clone().layer(from_fn(move |request: Request, next: Next| {
            let app = app.clone();
            async move { app.routed(request, next).await }
        }))
    }

    /// Answers a request, which counts as in flight until its response was sent or dropped.
    async fn routed(&self, request: Request, next: Next) -> Response {
        let in_flight = self.running.routed.token();
        let response = next.run(request).await;
        response.map(|body| Body::new(RoutedBody { body, _in_flight: in_flight }))
    }

    /// Returns the route of the protected resource metadata (RFC 9728),
    /// `/.well-known/oauth-protected-resource…`. Clients look for it at the root of the host: merge
    /// it there if [`App::router`] is nested under a path and `[auth]` has an issuer. Empty without
    /// an issuer.
    pub fn metadata_router(&self) -> Router {
        self.running.metadata.clone()
    }

    /// Serves the routes of [`App::router`] on `listener` until [`App::shutdown`], within the
    /// limits of connections and times in `[limits]`.
    ///
    /// # Errors
    ///
    /// Returns an error if the listener fails. Errors of one connection end that connection.
    pub async fn serve(&self, listener: TcpListener) -> io::Result<()> {
        let is_loopback = listener.local_addr().is_ok_and(|address| address.ip().is_loopback());
        if let (Some(_), Some(approvals), Ok(address)) =
            (&self.running.console, self.running.gateway.approvals(), listener.local_addr())
        {
            approvals.set_console(format!("{}://{}/", self.scheme(), reachable(address)));
        }
        // Without authentication, administrators are the callers on this machine. A router of an
        // embedding program lacks this mark, so that its callers count as callers from elsewhere.
        let router = self.running.router.clone().layer(Extension(OnLoopback(is_loopback)));
        self.serve_router(listener, router, self.running.tls.clone()).await
    }

    async fn serve_router(
        &self,
        listener: TcpListener,
        router: Router,
        tls: Option<Arc<Tls>>,
    ) -> io::Result<()> {
        let serve = http::serve(listener, TowerToHyperService::new(router))
            .secured_by(tls.map(|tls| Arc::new(TlsHandshake(tls)) as _))
            .with_options(self.running.serve_options.clone())
            .until(self.running.stop.clone());
        self.running.serving.track_future(serve.into_future()).await
    }

    /// Serves the frames of Views for the console until [`App::shutdown`]. Needs another listener
    /// than [`App::serve`]: documents of different ports have different origins, so that a View
    /// cannot access the console (MCP Apps requires it). Does nothing if the console is switched
    /// off.
    ///
    /// # Errors
    ///
    /// Returns an error if the listener fails. Errors of one connection end that connection.
    pub async fn serve_views(&self, listener: TcpListener) -> io::Result<()> {
        let Some(console) = &self.running.console else { return Ok(()) };
        let origin = match &self.running.views_origin {
            Some(origin) => origin.clone(),
            None => format!("{}://{}", self.scheme(), reachable(listener.local_addr()?)),
        };
        // The policy of the console's page names this origin; without it browsers show no frame.
        console.allow_frames_of(origin);
        self.serve_router(listener, console.sandbox_router(), self.running.tls.clone()).await
    }

    /// Serves `/metrics` for Prometheus until [`App::shutdown`], if `metrics.listen` is set. On a
    /// loopback address every program may read them, without TLS; on another one, a token with the
    /// scope `metrics` is needed, and `server.tls` applies.
    ///
    /// # Errors
    ///
    /// Returns an error if the listener fails, or can be reached from other machines and there is
    /// no authentication.
    pub async fn serve_metrics(&self, listener: TcpListener) -> io::Result<()> {
        let Some(metrics) = self.running.observation.metrics.clone() else { return Ok(()) };
        if listener.local_addr()?.ip().is_loopback() {
            // A scraper on this machine knows neither the name nor the authority of a certificate.
            let router = metrics_router(metrics, MetricsAccess::ThisMachine);
            return self.serve_router(listener, router, None).await;
        }
        let authenticator = self.running.authenticator.clone();
        let problem = "metrics for other machines need authentication";
        let access = MetricsAccess::Token(authenticator.ok_or_else(|| io::Error::other(problem))?);
        self.serve_router(listener, metrics_router(metrics, access), self.running.tls.clone()).await
    }

    /// Opens the file of the audit log again before the next event, after another program has
    /// renamed it.
    pub fn reopen_audit(&self) {
        if let Some(audit) = &self.running.observation.audit {
            audit.log().reopen();
        }
    }

    /// Serves MCP, one message on each line, until `reader` ends or [`App::shutdown`] is called.
    ///
    /// # Errors
    ///
    /// Returns an error if reading or writing fails.
    pub async fn serve_stdio<R, W>(&self, reader: R, writer: W) -> io::Result<()>
    where
        R: AsyncRead + Unpin + Send,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        self.serve_stdio_in(None, reader, writer).await
    }

    /// Serves as [`App::serve_stdio`] does, within a profile of `[profiles]`.
    ///
    /// # Errors
    /// Returns an error if there is no such profile, or as [`App::serve_stdio`] does.
    pub async fn serve_stdio_in(
        &self,
        profile: Option<&str>,
        reader: impl AsyncRead + Unpin + Send,
        writer: impl AsyncWrite + Unpin + Send + 'static,
    ) -> io::Result<()> {
        let mut client = Peer::new(None, None);
        if let Some(name) = profile {
            if !self.running.gateway.has_profile(name) {
                let problem = format!("there is no profile {name:?}; add [profiles.{name}]");
                return Err(io::Error::other(problem));
            }
            client = client.in_profile(name.into());
        }
        let reader = LoggedReader::new(reader, self.running.console.clone());
        let writer = LoggedWriter::new(writer, self.running.console.clone());
        let stop = self.running.stop.clone();
        let serve = serve_pipe_of(client, &self.running.server, reader, writer, stop);
        self.running.serving.track_future(serve).await
    }

    /// Waits until each upstream has started or failed for the first time.
    pub async fn ready(&self) {
        self.running.gateway.settled().await;
    }

    /// Reads the configuration again, from the source of [`AppBuilder::reload_from`]. Upstreams,
    /// captures of their answers and tokens change in place; sessions and calls live on. Nothing
    /// changes if the configuration cannot be used.
    ///
    /// # Errors
    ///
    /// Returns an error that names the file and the place, or says that there is no source.
    pub async fn reload(&self) -> Result<Reloaded, String> {
        self.running.reloader.clone().reload(ReloadScope::All).await
    }

    /// Returns the scheme of the URLs of this server.
    fn scheme(&self) -> &'static str {
        if self.running.tls.is_some() { "https" } else { "http" }
    }

    /// Returns the complete report of `GET /healthz`.
    #[must_use]
    pub fn health(&self) -> serde_json::Value {
        self.running.health.report()
    }

    /// Returns the number of tools of servers that the policy hides from callers without a token.
    #[cfg(feature = "cli")]
    pub(crate) fn hidden_tools(&self) -> usize {
        self.running.gateway.hidden_tools(None)
    }

    /// Returns the end of a link to the console for the person who started the server: `#code=…`
    /// with a code that works once within 60 s. Empty where no token is needed, or without a
    /// console. An earlier code stops working.
    #[must_use]
    pub fn console_login(&self) -> String {
        match &self.running.login {
            Some(console) => format!("#code={}", console.logins().new_code()),
            None => String::new(),
        }
    }

    /// Returns the number of tool calls that are running.
    #[must_use]
    pub fn calls_in_flight(&self) -> usize {
        self.running.calls.len()
    }

    /// Completes when [`App::shutdown`] begins, as `axum::serve(…).with_graceful_shutdown` expects
    /// it.
    pub fn stopping(&self) -> impl Future<Output = ()> + Send + 'static {
        self.running.stop.clone().cancelled_owned()
    }

    /// Stops the server. New connections are refused. Calls in flight may finish within
    /// `server.shutdown_grace_ms`; then they are cancelled. At last the upstreams end; no child
    /// process is left when this returns.
    ///
    /// Requests of [`App::router`] get the same time, and fail when their upstream ends.
    pub async fn shutdown(&self) {
        if !self.running.stop.is_cancelled() {
            tracing::info!(
                calls = self.calls_in_flight(),
                max_ms = self.running.serve_options.shutdown_grace.as_millis() as u64,
                upstreams = self.running.gateway.upstreams().len(),
                "shutting down: waiting for calls in flight, then for upstreams"
            );
        }
        let deadline = Instant::now() + self.running.serve_options.shutdown_grace;
        self.running.stop.cancel();
        // Streams of events never end by themselves. Waiting for them would use up the time that
        // is meant for calls.
        if let Some(console) = &self.running.console {
            console.close();
        }
        self.running.server.close_streams();
        self.running.serving.close();
        // The listeners cancel their calls after the grace; they need no deadline here.
        self.running.serving.wait().await;
        // The embedding program has the connections of its routers, so that their requests cannot
        // be cancelled, only left to fail.
        self.running.routed.close();
        _ = timeout_at(deadline, self.running.routed.wait()).await;
        // Calls need the upstreams, the database and the drawing engine, so these end last.
        self.running.gateway.stop().await;
        self.running.savings.flush().await;
        let kept = self.running.savings.of_this_run();
        if kept.answers > 0 {
            tracing::info!(
                answers = kept.answers,
                bytes = kept.bytes,
                tokens = kept.tokens,
                "kept from the models in this run; tokens are estimated"
            );
        }
        self.running.knowledge.close().await;
        self.running.diagrams.close().await;
        if let Some(audit) = &self.running.observation.audit {
            audit.log().close().await;
        }
    }
}

/// Returns an address that browsers on this machine can open, for one of a listener: browsers
/// cannot open the unspecified address, on which a listener has every address of the machine.
fn reachable(mut listen: SocketAddr) -> SocketAddr {
    if listen.ip().is_unspecified() {
        listen.set_ip(match listen {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    listen
}
