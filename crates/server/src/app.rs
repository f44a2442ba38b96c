//! The whole server as one value: built from a configuration, served over HTTP, pipes or a router,
//! and shut down.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    Extension, Router,
    body::{Body, Bytes, HttpBody},
    extract::Request,
    middleware::{Next, from_fn},
    response::Response,
};
use http_body::{Frame, SizeHint};
use marquetry_apps_ext::server::{self as apps_server, Apps};
use marquetry_apps_ext::types::{ToolUi, UiUri};
use marquetry_artifact_tools::ArtifactTools;
use marquetry_artifacts::{
    ArtifactStore, Capturer,
    source::{FixedClock, SeededIds},
};
use marquetry_config::{
    Config, ConfigError, SERVER_NAME,
    sections::{AppOnlyTools, AppsConfig, ArtifactsConfig, Gating, StoreKind},
};
use marquetry_gateway::Gateway;
use marquetry_protocol::server::{
    RequestContext, Server, ToolOutput, Toolbox,
    http::{Authenticator, HostGuard, HttpEndpoint, HttpOptions, LegacySseEndpoint, ServeOptions},
    serve_pipe,
};
use marquetry_protocol::types::Tool;
use marquetry_views::ToolView;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    time::{Instant, timeout_at},
};
use tokio_util::{
    sync::CancellationToken,
    task::{TaskTracker, task_tracker::TaskTrackerToken},
};

use crate::console::{
    ServerBackend, UpstreamObserver, WithLogins, console_options, watch_upstreams,
};
use crate::{
    changes::Changes,
    console::{ListListener, Recorder},
    faults::Faults,
    handler::GatewayHandler,
    health::Health,
    http::{MESSAGES, OnLoopback, Routes, metadata_routes, router},
    knowledge::Knowledge,
    limits::{protocol_limits, read_limits},
    rest::{McpV1, Rest},
    tools::{BuiltIns, CustomTools, Diagrams},
    watched_store::WatchedStore,
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
    inner: Arc<Inner>,
}

struct Inner {
    server: Server,
    gateway: Arc<Gateway>,
    knowledge: Knowledge,
    diagrams: Diagrams,
    health: Arc<Health>,
    router: Router,
    metadata: Router,
    /// The console, if it is switched on.
    console: Option<marquetry_console::Console>,
    /// `console.views_origin`
    views_origin: Option<String>,
    serve_options: ServeOptions,
    stop: CancellationToken,
    /// Listeners and pipes in use; shutting down waits for them.
    serving: TaskTracker,
    /// Tool calls in flight.
    calls: TaskTracker,
    /// Requests that came through [`App::router`].
    routed: TaskTracker,
    /// The console, where requests need a token.
    login: Option<marquetry_console::Console>,
}

impl Drop for Inner {
    /// Ends the upstreams without waiting for them, unlike [`App::shutdown`].
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(console) = &self.console {
            console.close();
        }
        self.gateway.abandon();
    }
}

/// Builds and starts an [`App`].
pub struct AppBuilder {
    config: Config,
    store: Option<Arc<dyn ArtifactStore>>,
    authenticator: Option<Arc<dyn Authenticator>>,
    /// Tools added by [`AppBuilder::tool`].
    tools: Toolbox,
    toolboxes: Vec<Toolbox>,
    /// See [`AppBuilder::admin_routes`].
    admin_routes: Router,
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
        /// The problem.
        problem: String,
    },
    /// The configuration is incomplete or contradicts itself; see [`Config::check`].
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// `artifacts.store` is the directory store, and there is no `artifacts.directory`.
    #[error("artifacts.directory: the directory store needs a directory")]
    NoDirectory,
    /// Two tools have one name: two that were added, or an added one and one of this server.
    #[error("tool {name:?} cannot be added: another tool of this server has that name")]
    ToolNameTaken {
        /// The name.
        name: String,
    },
    /// [`AppBuilder::authenticator`] was called, and the configuration has tokens or an issuer in
    /// `[auth]`.
    #[error("an authenticator was added, but [auth] is configured, too; use one of them")]
    TwoAuthenticators,
}

impl App {
    /// Creates a builder for a server with this configuration.
    #[must_use]
    pub fn builder(config: Config) -> AppBuilder {
        AppBuilder {
            config,
            store: None,
            authenticator: None,
            tools: Toolbox::new("marquetry", env!("CARGO_PKG_VERSION")),
            toolboxes: Vec::new(),
            admin_routes: Router::new(),
        }
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
        self.inner.router.clone().layer(from_fn(move |request: Request, next: Next| {
            let app = app.clone();
            async move { app.routed(request, next).await }
        }))
    }

    /// Answers a request, which counts as in flight until its response was sent or dropped.
    async fn routed(&self, request: Request, next: Next) -> Response {
        let running = self.inner.routed.token();
        let response = next.run(request).await;
        response.map(|body| Body::new(RoutedBody { body, _running: running }))
    }

    /// Returns the route of the protected resource metadata (RFC 9728),
    /// `/.well-known/oauth-protected-resource…`. Clients look for it at the root of the host: merge
    /// it there if [`App::router`] is nested under a path and `[auth]` has an issuer. Empty without
    /// an issuer.
    pub fn metadata_router(&self) -> Router {
        self.inner.metadata.clone()
    }

    /// Serves the routes of [`App::router`] on `listener` until [`App::shutdown`], within the
    /// limits of connections and times in `[limits]`.
    ///
    /// # Errors
    ///
    /// The listener fails; errors of one connection end that connection.
    pub async fn serve(&self, listener: TcpListener) -> io::Result<()> {
        let is_loopback = listener.local_addr().is_ok_and(|address| address.ip().is_loopback());
        let router = self.inner.router.clone().layer(Extension(OnLoopback(is_loopback)));
        let service = hyper_util::service::TowerToHyperService::new(router);
        let serve = marquetry_protocol::server::http::serve(listener, service)
            .with_options(self.inner.serve_options.clone())
            .until(self.inner.stop.clone());
        self.inner.serving.track_future(serve.into_future()).await
    }

    /// Serves the frames of Views of tools for the console until [`App::shutdown`]. The listener is
    /// another one than that of [`App::serve`]: browsers keep documents of different ports apart,
    /// so that a View cannot reach the console. Does nothing if the console is switched off.
    ///
    /// # Errors
    ///
    /// The listener fails; errors of one connection end that connection.
    pub async fn serve_views(&self, listener: TcpListener) -> io::Result<()> {
        let Some(console) = &self.inner.console else { return Ok(()) };
        let mut address = listener.local_addr()?;
        if address.ip().is_unspecified() {
            let here = if address.is_ipv4() {
                std::net::Ipv4Addr::LOCALHOST.into()
            } else {
                std::net::Ipv6Addr::LOCALHOST.into()
            };
            address.set_ip(here);
        }
        let origin = self.inner.views_origin.clone();
        console.allow_frames_of(origin.unwrap_or_else(|| format!("http://{address}")));
        let service = hyper_util::service::TowerToHyperService::new(console.sandbox_router());
        let serve = marquetry_protocol::server::http::serve(listener, service)
            .with_options(self.inner.serve_options.clone())
            .until(self.inner.stop.clone());
        self.inner.serving.track_future(serve.into_future()).await
    }

    /// Serves MCP, one message on each line, until `reader` ends or [`App::shutdown`] is called.
    ///
    /// # Errors
    ///
    /// Reading or writing fails.
    pub async fn serve_stdio<R, W>(&self, reader: R, writer: W) -> io::Result<()>
    where
        R: AsyncRead + Unpin + Send,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let reader = marquetry_console::LoggedReader::new(reader, self.inner.console.clone());
        let writer = marquetry_console::LoggedWriter::new(writer, self.inner.console.clone());
        let serve = serve_pipe(&self.inner.server, reader, writer, self.inner.stop.clone());
        self.inner.serving.track_future(serve).await
    }

    /// Waits until each upstream has started or failed for the first time.
    pub async fn ready(&self) {
        self.inner.gateway.settled().await;
    }

    /// Returns the complete report of `GET /healthz`.
    #[must_use]
    pub fn health(&self) -> serde_json::Value {
        self.inner.health.report()
    }

    /// Returns the end of a link to the console for the person who started the server: `#code=…`
    /// with a code that works once within 60 s. Empty where no token is needed, or without a
    /// console. An earlier code stops working.
    #[must_use]
    pub fn console_login(&self) -> String {
        let login = self.inner.login.as_ref();
        login.map(|console| format!("#code={}", console.logins().new_code())).unwrap_or_default()
    }

    /// Returns the number of tool calls that are running.
    #[must_use]
    pub fn calls_in_flight(&self) -> usize {
        self.inner.calls.len()
    }

    /// Completes when [`App::shutdown`] begins, as `axum::serve(…).with_graceful_shutdown` expects
    /// it.
    pub fn stopping(&self) -> impl Future<Output = ()> + Send + 'static {
        self.inner.stop.clone().cancelled_owned()
    }

    /// Stops the server. New connections are refused. Calls in flight may finish within
    /// `server.shutdown_grace_ms`; then they are cancelled. At last the upstreams end; no child
    /// process is left when this returns.
    ///
    /// Requests of [`App::router`] get the same time, and fail when their upstream ends.
    pub async fn shutdown(&self) {
        if !self.inner.stop.is_cancelled() {
            tracing::info!(
                calls = self.calls_in_flight(),
                max_ms = self.inner.serve_options.shutdown_grace.as_millis() as u64,
                upstreams = self.inner.gateway.upstreams().len(),
                "shutting down: waiting for calls in flight, then for upstreams"
            );
        }
        let deadline = Instant::now() + self.inner.serve_options.shutdown_grace;
        self.inner.stop.cancel();
        if let Some(console) = &self.inner.console {
            console.close();
        }
        self.inner.server.close_streams();
        self.inner.serving.close();
        self.inner.serving.wait().await;
        self.inner.routed.close();
        _ = timeout_at(deadline, self.inner.routed.wait()).await;
        self.inner.gateway.stop().await;
        self.inner.knowledge.close().await;
        self.inner.diagrams.close().await;
    }
}

impl AppBuilder {
    /// Stores artifacts in `store` instead of the configured store.
    #[must_use]
    pub fn store(mut self, store: Arc<dyn ArtifactStore>) -> Self {
        self.store = Some(store);
        self
    }

    /// Adds a tool; see [`Toolbox::tool`]. An earlier tool with the same name is replaced.
    ///
    /// Its answers are captured as set in `[artifacts]`, like those of upstreams.
    ///
    /// # Panics
    ///
    /// If `A` is not an object, or its schema is invalid.
    #[must_use]
    pub fn tool<A, F, Fut>(
        mut self,
        name: impl Into<String>,
        description: impl Into<String>,
        call: F,
    ) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send,
        F: Fn(A, RequestContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: ToolOutput> + Send + 'static,
    {
        self.tools = self.tools.tool(name, description, call);
        self
    }

    /// Adds the tools, resources and prompts of a toolbox. Its name, version and instructions are
    /// ignored, and its tasks run as ordinary calls.
    #[must_use]
    pub fn toolbox(mut self, toolbox: Toolbox) -> Self {
        self.toolboxes.push(toolbox);
        self
    }

    /// Authenticates HTTP requests with `authenticator` instead of the tokens in `[auth]`.
    #[must_use]
    pub fn authenticator(mut self, authenticator: impl Authenticator) -> Self {
        self.authenticator = Some(Arc::new(authenticator));
        self
    }

    /// Serves these routes, too, for administrators: with authentication those with the scope
    /// `admin`, without it callers on this machine.
    #[cfg(feature = "cli")]
    pub(crate) fn admin_routes(self, admin_routes: Router) -> Self {
        Self { admin_routes, ..self }
    }

    /// Starts the server. It accepts requests at once; the tools of an upstream appear when it is
    /// ready.
    ///
    /// # Errors
    ///
    /// See [`StartError`].
    pub async fn start(self) -> Result<App, StartError> {
        let Self { config, store, authenticator, tools, mut toolboxes, admin_routes } = self;
        config.check()?;
        let resource_server = config.resource_server()?.map(Arc::new);
        if authenticator.is_some() && resource_server.is_some() {
            return Err(StartError::TwoAuthenticators);
        }
        if let Some(server) = resource_server.clone() {
            tokio::spawn(async move {
                if let Err(problem) = server.warm_up().await {
                    tracing::warn!(
                        problem,
                        "failed to fetch the issuer's keys; requests will try again"
                    );
                }
            });
        }
        let authenticator = authenticator
            .or_else(|| resource_server.clone().map(|server| server as Arc<dyn Authenticator>));
        toolboxes.push(tools);
        let mut reserved = BuiltIns::names(&config);
        let custom = CustomTools::new(toolboxes, &reserved)
            .map_err(|name| StartError::ToolNameTaken { name })?;
        reserved.extend(custom.tools().map(|tool| tool.name.as_str()));
        let store = match store {
            Some(store) => store,
            None => open_store(&config.artifacts)?,
        };
        let faults = Arc::new(Faults::default());
        let store: Arc<dyn ArtifactStore> = Arc::new(WatchedStore::new(store, faults.clone()));
        let capturer = capturer(store.clone(), &config);
        let changes = Arc::new(Changes::default());
        let console = config
            .console
            .enabled
            .then(|| marquetry_console::Console::new(console_options(&config.console)));
        let recorder = Recorder(console.clone());
        let knowledge = Knowledge::new(&config, changes.clone(), recorder.view_contexts())?;
        let mut gateway_options = config.gateway_options(&reserved);
        knowledge.add_sampler(&config, &mut gateway_options);
        if let Some(console) = &console {
            let logs_messages = config.console.log_upstream_messages;
            let observer = UpstreamObserver { console: console.clone(), logs_messages };
            gateway_options.observer = Some(Arc::new(observer));
        }
        let gateway = Gateway::start(gateway_options, changes.clone());
        let diagrams = Diagrams::new(config.plantuml.url_base.clone())
            .with_engine(config.plantuml.engine_options());
        let listeners = changes.clone();
        let artifacts = ArtifactTools::new(store.clone())
            .with_scope(config.artifacts.scope)
            .with_limits(read_limits(&config.limits))
            .on_change({
                let recorder = recorder.clone();
                move |whose| {
                    recorder.artifacts_changed(&whose);
                    listeners.artifacts_changed(whose);
                }
            });
        let (shown_artifacts, views_origin) =
            (artifacts.clone(), config.console.views_origin.clone());
        let calls = TaskTracker::new();
        let authenticator = match (&console, authenticator) {
            (Some(console), Some(inner)) => {
                let with_logins = WithLogins::new(console.clone(), inner);
                Some(Arc::new(with_logins) as Arc<dyn Authenticator>)
            }
            (_, authenticator) => authenticator,
        };
        let login = console.clone().filter(|_| authenticator.is_some());
        let handler = GatewayHandler {
            calls: calls.clone(),
            gateway: gateway.clone(),
            built_ins: BuiltIns::new(&config, &diagrams, &artifacts, &knowledge)
                .reporting_to(faults.clone()),
            custom,
            artifacts,
            knowledge: knowledge.clone(),
            capturer,
            capture_settings: config.artifacts.settings(),
            limits: config.limits.clone(),
            recorder,
        };
        let apps = marquetry_views::add_to(apps(&config.apps), |tool| handler.built_ins.has(tool));
        // A View of an upstream reaches what that upstream offers, and nothing of this server.
        let bound = gateway.clone();
        let apps = apps.offered_if(move |cx| matches!(bound.bound_to(SERVER_NAME, cx), Ok(None)));
        let own_tools = own_tools_with_views(handler.built_ins.listed());
        let handler = apps.on(handler);
        let limits = &config.limits;
        let grace = Duration::from_millis(config.server.shutdown_grace_ms);
        let server = Server::with_limits(handler, protocol_limits(limits, grace));
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
        let guard = HostGuard::loopback()
            .and_hosts(config.server.allowed_hosts.clone())
            .and_origins(config.server.allowed_origins.clone());
        let options = HttpOptions {
            guard: guard.clone(),
            authenticator: authenticator.clone(),
            body_timeout: Duration::from_millis(limits.max_body_ms.get()),
            ..HttpOptions::default()
        };
        let transports = config.mcp_servers.values().map(|it| it.transport.kind()).collect();
        let health =
            Arc::new(Health::new(gateway.clone(), transports, store, faults, stop.clone()));
        let metadata = metadata_routes(resource_server);
        let shown = console.clone();
        let console = console.map(|console| {
            watch_upstreams(&console, &gateway, &stop);
            let backend = ServerBackend {
                gateway: gateway.clone(),
                health: health.clone(),
                own_tools,
                artifacts: shown_artifacts,
                capture: config.artifacts.settings(),
                knowledge: knowledge.clone(),
            };
            (console, Arc::new(backend))
        });
        let listener = ListListener(console.clone());
        tokio::spawn(announce(changes, server.clone(), listener, stop.clone()));
        let router = router(Routes {
            sse: LegacySseEndpoint::new(server.clone(), options.clone(), MESSAGES),
            mcp: HttpEndpoint::new(server.clone(), options),
            guard,
            origins: config.server.allowed_origins.clone(),
            authenticator,
            metadata: metadata.clone(),
            health: health.clone(),
            endpoint: config.auth.resource.clone(),
            admin: admin_routes,
            console,
            mcp_v1: Arc::new(McpV1::new(server.clone(), knowledge.clone(), config.limits.clone())),
            rest: Arc::new(Rest {
                server: server.clone(),
                diagrams: diagrams.clone(),
                limits: config.limits,
            }),
        });
        let inner = Inner {
            server,
            gateway,
            knowledge,
            diagrams,
            health,
            router,
            metadata,
            console: shown,
            views_origin,
            serve_options,
            stop,
            serving: TaskTracker::new(),
            calls,
            routed: TaskTracker::new(),
            login,
        };
        Ok(App { inner: Arc::new(inner) })
    }
}

/// Returns this server's own tools with their Views.
fn own_tools_with_views(tools: &[Tool]) -> Vec<Tool> {
    let with_view = |tool: &Tool| {
        let own = ToolView::ALL.into_iter().find(|own| own.tools().contains(&tool.name.as_str()));
        let mut tool = tool.clone();
        if let Some(uri) = own.and_then(|own| UiUri::new(own.uri()).ok()) {
            ToolUi::shown_in(uri).write(&mut tool);
        }
        tool
    };
    tools.iter().map(with_view).collect()
}

/// A response body of [`App::router`], which counts as running until it was sent or dropped.
struct RoutedBody {
    body: Body,
    _running: TaskTrackerToken,
}

impl HttpBody for RoutedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Returns a registry of Views with these settings.
fn apps(config: &AppsConfig) -> Apps {
    let gating = match config.gating {
        Gating::Negotiated => apps_server::Gating::Negotiated,
        Gating::Always => apps_server::Gating::Always,
    };
    let app_only_tools = match config.app_only_tools {
        AppOnlyTools::Listed => apps_server::AppOnlyTools::Listed,
        AppOnlyTools::Hidden => apps_server::AppOnlyTools::Hidden,
    };
    Apps::new().gating(gating).app_only_tools(app_only_tools)
}

/// Notifies every client and the console of changed lists.
async fn announce(
    changes: Arc<Changes>,
    server: Server,
    console: ListListener,
    stop: CancellationToken,
) {
    let notifier = server.notifier();
    loop {
        tokio::select! {
            () = changes.tools.notified() => {
                notifier.tools_changed();
                console.tools_changed();
            }
            () = changes.prompts.notified() => {
                notifier.prompts_changed();
                console.prompts_changed();
            }
            () = changes.resources.notified() => {
                notifier.resources_changed();
                console.resources_changed();
            }
            principals = changes.own_resources.take() => {
                for principal in &principals { notifier.resources_changed_for(principal.as_deref()); }
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
        // Answers do not mention tools that are switched off.
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
