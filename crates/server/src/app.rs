//! The whole server as one value: started from a configuration, served over HTTP or a pair of pipes, shut down.

use std::{io, sync::Arc, time::Duration};

use axum::{Extension, Router};
use marquetry_artifacts::{
    ArtifactStore, Capturer,
    source::{FixedClock, SeededIds},
};
use marquetry_gateway::Gateway;
use marquetry_protocol::server::{
    Limits as ProtocolLimits, Server,
    http::{Authenticator, HostGuard, HttpEndpoint, HttpOptions, LegacySseEndpoint, ServeOptions},
    serve_pipe,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    changes::Changes,
    config::{ArtifactsConfig, Config, ConfigError, Limits, StoreKind},
    front::Front,
    health::{Faults, Health},
    http::{MESSAGES, OnLoopback, Site, router},
    knowledge::Knowledge,
    rest::{McpV1, Rest},
    tools::{Artifacts, BuiltIns, Diagrams},
    watched_store::WatchedStore,
};

/// A running server: its upstreams are being started or are there, and it can be served on any number of transports. Cheap to clone;
/// dropping the last clone ends the upstreams.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// let app = marquetry::App::builder(marquetry::Config::default()).start().await?;
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
/// let serving = tokio::spawn({
///     let app = app.clone();
///     async move { app.serve_http(listener).await }
/// });
/// assert_eq!(app.health()["status"], "ok");
/// app.shutdown().await;
/// serving.await??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct App {
    inner: Arc<Inner>,
}

struct Inner {
    server: Server,
    gateway: Arc<Gateway>,
    knowledge: Knowledge,
    health: Arc<Health>,
    router: Router,
    serve_options: ServeOptions,
    stop: CancellationToken,
    /// What serves now; shutting down waits for it.
    serving: TaskTracker,
}

impl Drop for Inner {
    /// Without [`App::shutdown`] the upstreams end as well, only nobody waits for it.
    fn drop(&mut self) {
        self.stop.cancel();
        self.gateway.abandon();
    }
}

/// Starts an [`App`].
pub struct AppBuilder {
    config: Config,
    store: Option<Arc<dyn ArtifactStore>>,
}

/// Why an [`App`] could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The artifact directory cannot be used.
    #[error("artifact directory {path:?} cannot be opened: {problem}")]
    Store {
        /// The directory.
        path: std::path::PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A server that nothing says how to reach; see [`Config::check`].
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// `artifacts.store` is the directory store, and there is no `artifacts.directory`.
    #[error("artifacts.directory: the directory store needs a directory")]
    NoDirectory,
}

impl App {
    /// Begins to build a server of this configuration.
    #[must_use]
    pub fn builder(config: Config) -> AppBuilder {
        AppBuilder { config, store: None }
    }

    /// Serves `/mcp`, `/sse` with `/messages`, `/mcp/v1`, `/api/tools`, `/healthz`, `/livez`, `/readyz` and a page at `/` until
    /// [`App::shutdown`].
    ///
    /// # Errors
    ///
    /// The listener fails; errors of one connection end that connection.
    pub async fn serve_http(&self, listener: TcpListener) -> io::Result<()> {
        let options = self.inner.serve_options.clone();
        let is_loopback = listener.local_addr().is_ok_and(|address| address.ip().is_loopback());
        let router = self.inner.router.clone().layer(Extension(OnLoopback(is_loopback)));
        let service = hyper_util::service::TowerToHyperService::new(router);
        let stop = self.inner.stop.clone();
        let serve = marquetry_protocol::server::http::serve(listener, service, options, stop);
        self.inner.serving.track_future(serve).await
    }

    /// Serves MCP, one message a line, until `reader` ends or [`App::shutdown`].
    ///
    /// # Errors
    ///
    /// Reading or writing fails.
    pub async fn serve_stdio<R, W>(&self, reader: R, writer: W) -> io::Result<()>
    where
        R: AsyncRead + Unpin + Send,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let serve = serve_pipe(&self.inner.server, reader, writer, self.inner.stop.clone());
        self.inner.serving.track_future(serve).await
    }

    /// Waits until the first start of every upstream is over, well or badly.
    pub async fn ready(&self) {
        self.inner.gateway.settled().await;
    }

    /// What `GET /healthz` answers those who may know everything.
    #[must_use]
    pub fn health(&self) -> serde_json::Value {
        self.inner.health.report()
    }

    /// Stops serving: nothing new is accepted, calls under way may finish within `server.shutdown_grace_ms` and are cancelled after it, then the
    /// upstreams end. No child process is left when this returns.
    pub async fn shutdown(&self) {
        self.inner.stop.cancel();
        self.inner.server.close_streams();
        self.inner.serving.close();
        self.inner.serving.wait().await;
        self.inner.gateway.stop().await;
        self.inner.knowledge.close().await;
    }
}

impl AppBuilder {
    /// Keeps artifacts in `store` instead of the configured one.
    #[must_use]
    pub fn store(mut self, store: Arc<dyn ArtifactStore>) -> Self {
        self.store = Some(store);
        self
    }

    /// Starts the server. It answers at once; upstreams come as they get ready.
    ///
    /// # Errors
    ///
    /// The configuration is incomplete, or the artifact store cannot be opened.
    pub async fn start(self) -> Result<App, StartError> {
        let Self { config, store } = self;
        config.check()?;
        let auth = config.resource_server()?.map(Arc::new);
        if let Some(auth) = auth.clone() {
            tokio::spawn(async move {
                if let Err(problem) = auth.warm_up().await {
                    tracing::warn!(problem, "issuer's keys cannot be had yet");
                }
            });
        }
        let store = match store {
            Some(store) => store,
            None => open_store(&config.artifacts)?,
        };
        let faults = Arc::new(Faults::default());
        let store: Arc<dyn ArtifactStore> = Arc::new(WatchedStore::new(store, faults.clone()));
        let capturer = capturer(store.clone(), &config);
        let changes = Arc::new(Changes::default());
        let knowledge = Knowledge::new(&config, changes.clone())?;
        let reserved = BuiltIns::names(&config);
        let gateway = Gateway::start(config.gateway_options(&reserved), changes.clone());
        let diagrams = Diagrams::new(config.plantuml.url_base.clone());
        let artifacts = Artifacts::new(
            store.clone(),
            config.artifacts.scope,
            config.limits.clone(),
            changes.clone(),
        );
        let front = Front {
            gateway: gateway.clone(),
            built_ins: BuiltIns::new(&config, &diagrams, &artifacts, &knowledge)
                .reporting_to(faults.clone()),
            artifacts,
            knowledge: knowledge.clone(),
            capturer,
            limits: config.limits.clone(),
        };
        let limits = &config.limits;
        let grace = Duration::from_millis(config.server.shutdown_grace_ms);
        let server = Server::with_limits(front, protocol_limits(limits, grace));
        let server = knowledge.add_methods(server);
        let serve_options = ServeOptions {
            max_connections: limits.max_connections.get(),
            max_connections_per_address: limits.max_connections_per_address.get(),
            head_timeout: Duration::from_millis(limits.max_head_ms.get()),
            write_timeout: Duration::from_millis(limits.max_write_ms.get()),
            min_bytes_per_second: limits.min_write_bytes_per_second,
            shutdown_grace: grace,
        };
        let stop = CancellationToken::new();
        tokio::spawn(announce(changes, server.clone(), stop.clone()));
        let guard = HostGuard::loopback()
            .and_hosts(config.server.allowed_hosts.clone())
            .and_origins(config.server.allowed_origins.clone());
        let options = HttpOptions {
            guard: guard.clone(),
            authenticator: auth.clone().map(|auth| auth as Arc<dyn Authenticator>),
            body_timeout: Duration::from_millis(limits.max_body_ms.get()),
            ..HttpOptions::default()
        };
        let transports = config.mcp_servers.values().map(|it| it.transport.kind()).collect();
        let health =
            Arc::new(Health::new(gateway.clone(), transports, store, faults, stop.clone()));
        let router = router(Site {
            sse: LegacySseEndpoint::new(server.clone(), options.clone(), MESSAGES),
            mcp: HttpEndpoint::new(server.clone(), options),
            guard,
            auth,
            health: health.clone(),
            endpoint: config.auth.resource.clone(),
            mcp_v1: Arc::new(McpV1::new(server.clone(), knowledge.clone(), config.limits.clone())),
            rest: Arc::new(Rest { server: server.clone(), diagrams, limits: config.limits }),
        });
        let serving = TaskTracker::new();
        let inner =
            Inner { server, gateway, knowledge, health, router, serve_options, stop, serving };
        Ok(App { inner: Arc::new(inner) })
    }
}

fn protocol_limits(limits: &Limits, grace: Duration) -> ProtocolLimits {
    ProtocolLimits {
        max_message_bytes: limits.max_request_bytes.get(),
        max_nesting: limits.max_nesting.get(),
        max_in_flight: limits.max_in_flight.get(),
        max_in_flight_total: limits.max_in_flight_total.get(),
        max_in_flight_per_caller: limits.max_in_flight_per_caller.get(),
        queue_time: Duration::from_millis(limits.queue_ms),
        max_sessions: limits.max_sessions.get(),
        max_sessions_per_caller: limits.max_sessions_per_caller.get(),
        max_send_bytes: limits.max_send_bytes.get(),
        max_send_bytes_per_caller: limits.max_send_bytes_per_caller.get(),
        max_receive_bytes: limits.max_receive_bytes.get(),
        max_receive_bytes_per_caller: limits.max_receive_bytes_per_caller.get(),
        session_idle: Duration::from_millis(limits.session_idle_ms.get()),
        replay_bytes: limits.replay_bytes,
        replay_total_bytes: limits.replay_total_bytes,
        replay_time: Duration::from_millis(limits.replay_ms),
        max_queued_messages: limits.max_queued_messages.get(),
        max_queued_notifications: limits.max_queued_notifications.get(),
        max_subscriptions: limits.max_subscriptions.get(),
        question_timeout: Duration::from_millis(limits.question_ms.get()),
        request_state_time: Duration::from_millis(limits.question_ms.get()),
        shutdown_grace: grace,
        // The rest bounds tasks, which this server starts none of.
        ..ProtocolLimits::default()
    }
}

/// Tells every client which lists have changed.
async fn announce(changes: Arc<Changes>, server: Server, stop: CancellationToken) {
    let notifier = server.notifier();
    loop {
        tokio::select! {
            () = changes.tools.notified() => notifier.tools_changed(),
            () = changes.prompts.notified() => notifier.prompts_changed(),
            () = changes.resources.notified() => notifier.resources_changed(),
            principals = changes.own_resources.take() => {
                principals.iter().for_each(|principal| notifier.resources_changed_for(principal.as_deref()));
            }
            updated = changes.updated.take() => updated.iter().for_each(|uri| notifier.resource_updated(uri)),
            () = stop.cancelled() => return,
        }
    }
}

fn open_store(config: &ArtifactsConfig) -> Result<Arc<dyn ArtifactStore>, StartError> {
    match (config.store, &config.directory) {
        (StoreKind::Directory, None) => Err(StartError::NoDirectory),
        (_, path) => config.open_store().map_err(|error| StartError::Store {
            path: path.clone().unwrap_or_default(),
            problem: error.to_string(),
        }),
    }
}

fn capturer(store: Arc<dyn ArtifactStore>, config: &Config) -> Capturer {
    let testing = &config.testing;
    let mut capturer = Capturer::new(store);
    if !config.tools.artifacts {
        // No answer speaks of tools that are switched off.
        capturer = capturer.tools("", "");
    }
    if let Some(seed) = testing.seed {
        capturer = capturer.ids(Arc::new(SeededIds::new(seed)));
    }
    if let Some(clock) = testing.clock {
        capturer = capturer.clock(Arc::new(FixedClock(clock)));
    }
    capturer
}
