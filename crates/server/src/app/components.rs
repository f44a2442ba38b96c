//! The parts of a server, started and joined to an [`App`].

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::Router;
use marquetry_artifact_tools::ArtifactTools;
use marquetry_artifacts::ArtifactStore;
use marquetry_client_fit::Clients;
use marquetry_config::{Config, ConfigError, ServerSwitches, sections::Gating};
use marquetry_console::Console;
use marquetry_gateway::{Gateway, GatewayOptions};
use marquetry_inbound_tls::Tls;
use marquetry_oauth::server::ReplaceableAuthenticator;
use marquetry_plantuml_tools::Diagrams;
use marquetry_projections::Projections;
use marquetry_protocol::{
    server::{
        Server,
        http::{Authenticator, HostGuard, HttpEndpoint, HttpOptions, LegacySseEndpoint},
    },
    types::Tool,
};
use marquetry_savings::Savings;
use marquetry_search_tools::ToolSearch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    App, RunningServer,
    access::Access,
    artifacts::{artifact_tools, capturer},
    notifications::announce,
    views::{own_tools_with_views, own_views},
};
use crate::{
    approvals::call_approvals,
    call_rate::CallRate,
    changes::Changes,
    console::{ListListener, Recorder, ServerBackend, UpstreamObserver, console_options},
    faults::Faults,
    handler::GatewayHandler,
    health::Health,
    http::{MESSAGES, Routes, metadata_routes, router},
    knowledge::Knowledge,
    limits::{protocol_limits, serve_options},
    observation::Observation,
    reload::{ConfigSource, ReloadState, Reloader, watch_upstreams},
    rest::{McpV1, Rest},
    tools::{BuiltIns, CustomTools},
    watched_store::WatchedStore,
};

/// The parts that the handler, the routes and the console share.
pub(super) struct Components {
    config: Config,
    /// Reports failed saves to `faults`.
    store: Arc<dyn ArtifactStore>,
    faults: Arc<Faults>,
    changes: Arc<Changes>,
    /// The console, if it is switched on.
    console: Option<Console>,
    recorder: Recorder,
    knowledge: Knowledge,
    gateway: Arc<Gateway>,
    diagrams: Diagrams,
    artifacts: ArtifactTools,
    authenticator: Option<Arc<dyn Authenticator>>,
    /// The authenticator of `[auth]`, whose tokens may change.
    reloadable: Option<Arc<ReplaceableAuthenticator>>,
    /// See [`metadata_routes`].
    metadata: Router,
    /// Further routes, for administrators.
    admin_routes: Router,
    /// Tool calls in flight.
    calls: TaskTracker,
    savings: Savings,
    search: Arc<ToolSearch>,
    observation: Observation,
    /// Cancelled when the server shuts down.
    stop: CancellationToken,
}

impl Components {
    /// Creates the parts, and starts the upstreams without waiting for them. Upstreams may not have
    /// tools with the names of the built-in and `custom` ones.
    pub(super) fn start(
        config: Config,
        store: Arc<dyn ArtifactStore>,
        custom: &CustomTools,
        access: Access,
        admin_routes: Router,
        observation: Observation,
    ) -> Result<Self, ConfigError> {
        let faults = Arc::new(Faults::default());
        let store: Arc<dyn ArtifactStore> = Arc::new(WatchedStore::new(store, faults.clone()));
        let changes = Arc::new(Changes::default());
        let console =
            config.console.enabled.then(|| Console::new(console_options(&config.console)));
        let recorder = Recorder(console.clone());
        let knowledge = Knowledge::new(&config, changes.clone(), recorder.view_contexts())?;
        if let Some(console) = &console {
            observation.watch_logins(console);
        }
        let mut options = gateway_options(&config, custom, &knowledge, console.as_ref());
        options.approvals = Some(call_approvals(&config, &observation, console.as_ref())?);
        options.pin_listener = observation.pin_listener();
        // After the last step that can fail, because this starts child processes.
        let gateway = Gateway::start(options, changes.clone());
        let diagrams = Diagrams::new(config.plantuml.url_base.clone())
            .with_engine(config.plantuml.engine_options());
        let artifacts = artifact_tools(&config, store.clone(), changes.clone(), recorder.clone());
        let savings = Savings::start(config.artifacts.savings_database.as_deref());
        let search = Arc::new(ToolSearch::new(config.tools.search.options()));
        let mut own_tools: Vec<String> = custom.tools().map(|tool| tool.name.clone()).collect();
        own_tools.extend(BuiltIns::names(&config).into_iter().map(str::to_owned));
        if !config.tools.search.always.is_empty() {
            warn_of_unmatched(&gateway, search.clone(), own_tools);
        }
        let metadata = metadata_routes(access.resource_server.clone());
        let reloadable = access.reloadable.clone();
        let authenticator = access.with_logins(console.as_ref());
        let authenticator = authenticator.map(|it| observation.authenticator(it));
        Ok(Self {
            config,
            store,
            faults,
            changes,
            console,
            recorder,
            knowledge,
            gateway,
            diagrams,
            artifacts,
            authenticator,
            reloadable,
            metadata,
            admin_routes,
            calls: TaskTracker::new(),
            savings,
            search,
            observation,
            stop: CancellationToken::new(),
        })
    }

    /// Joins the parts, and begins to announce changes to clients and the console.
    pub(super) fn into_app(
        self,
        custom: CustomTools,
        tls: Option<Arc<Tls>>,
        source: Option<Arc<dyn ConfigSource>>,
    ) -> App {
        let built_ins =
            BuiltIns::new(&self.config, &self.diagrams, &self.artifacts, &self.knowledge)
                .reporting_to(self.faults.clone());
        // The handler takes the built-in tools.
        let own_tools = own_tools_with_views(built_ins.listed());
        let server = self.server(built_ins, custom);
        let health = self.health();
        let reloader = self.reloader(&health, tls.clone(), source);
        let backend = self.console_backend(&health, own_tools, &reloader);
        reloader.start_watching();
        let listener = ListListener(backend.clone());
        let gateway = self.gateway.clone();
        let changes = self.changes.clone();
        tokio::spawn(announce(changes, server.clone(), listener, gateway, self.stop.clone()));
        let router = router(self.routes(&server, &health, backend));
        App {
            running: Arc::new(RunningServer {
                serve_options: serve_options(&self.config.limits, self.shutdown_grace()),
                views_origin: self.config.console.views_origin,
                server,
                gateway: self.gateway,
                knowledge: self.knowledge,
                diagrams: self.diagrams,
                health,
                router,
                metadata: self.metadata,
                login: self.console.clone().filter(|_| self.authenticator.is_some()),
                console: self.console,
                stop: self.stop,
                tls,
                reloader,
                serving: TaskTracker::new(),
                calls: self.calls,
                savings: self.savings,
                observation: self.observation,
                authenticator: self.authenticator,
                routed: TaskTracker::new(),
            }),
        }
    }

    /// Returns the MCP server that agents see.
    fn server(&self, built_ins: BuiltIns, custom: CustomTools) -> Server {
        let views = own_views(&self.config.apps, &built_ins, self.gateway.clone());
        let handler = GatewayHandler {
            calls: self.calls.clone(),
            gateway: self.gateway.clone(),
            built_ins,
            custom,
            artifacts: self.artifacts.clone(),
            knowledge: self.knowledge.clone(),
            capturer: capturer(self.store.clone(), &self.config),
            capture_settings: self.config.artifacts.settings(),
            clients: Clients::new(
                self.config.clients.clone(),
                self.config.apps.gating == Gating::Always,
            ),
            limits: self.config.limits.clone(),
            recorder: self.recorder.clone(),
            projections: self.config.artifacts.projections.then(Projections::default),
            search: self.search.clone(),
            savings: self.savings.clone(),
            call_rate: CallRate::new(&self.config.limits),
        };
        let limits = protocol_limits(&self.config.limits, self.shutdown_grace());
        let server = Server::with_limits(views.wrap(handler), limits);
        let observed = self.observation.observed(server, &self.gateway);
        self.knowledge.add_methods(observed, &self.gateway)
    }

    fn health(&self) -> Arc<Health> {
        Arc::new(Health::new(
            self.gateway.clone(),
            &self.config,
            self.store.clone(),
            self.knowledge.clone(),
            self.faults.clone(),
            self.observation.clone(),
            self.stop.clone(),
        ))
    }

    /// Returns what puts a new configuration into this server, and begins to report the states of
    /// the upstreams to the console.
    fn reloader(
        &self,
        health: &Arc<Health>,
        tls: Option<Arc<Tls>>,
        source: Option<Arc<dyn ConfigSource>>,
    ) -> Arc<Reloader> {
        let watching = self.stop.child_token();
        if let Some(console) = &self.console {
            watch_upstreams(console, &self.gateway, &watching);
        }
        Arc::new(Reloader {
            gateway: self.gateway.clone(),
            knowledge: self.knowledge.clone(),
            health: health.clone(),
            faults: self.faults.clone(),
            console: self.console.clone(),
            access: self.reloadable.clone(),
            tls,
            search: self.search.clone(),
            source,
            metrics: self.observation.metrics.clone(),
            stop: self.stop.clone(),
            state: Mutex::new(ReloadState {
                started_with: self.config.clone(),
                watches_files: self.config.server.reload_on_change,
                switches: ServerSwitches::default(),
                watching,
            }),
        })
    }

    /// Returns the console with its data, if it is switched on.
    fn console_backend(
        &self,
        health: &Arc<Health>,
        own_tools: Vec<Tool>,
        reloader: &Arc<Reloader>,
    ) -> Option<(Console, Arc<ServerBackend>)> {
        let console = self.console.clone()?;
        let backend = ServerBackend {
            gateway: self.gateway.clone(),
            health: health.clone(),
            own_tools,
            artifacts: self.artifacts.clone(),
            capture: self.config.artifacts.settings(),
            knowledge: self.knowledge.clone(),
            savings: self.savings.clone(),
            reloader: reloader.clone(),
        };
        Some((console, Arc::new(backend)))
    }

    /// Returns the endpoints behind the HTTP routes.
    fn routes(
        &self,
        server: &Server,
        health: &Arc<Health>,
        console: Option<(Console, Arc<ServerBackend>)>,
    ) -> Routes {
        let limits = &self.config.limits;
        let origins = self.config.server.allowed_origins.clone();
        let guard = HostGuard::loopback()
            .and_hosts(self.config.server.allowed_hosts.clone())
            .and_origins(origins.clone());
        let options = HttpOptions {
            guard: guard.clone(),
            authenticator: self.authenticator.clone(),
            body_timeout: Duration::from_millis(limits.max_body_ms.get()),
            ..HttpOptions::default()
        };
        let gateway = self.gateway.clone();
        let mcp_v1 = McpV1::new(server.clone(), self.knowledge.clone(), gateway, limits.clone());
        let rest = Rest {
            gateway: self.gateway.clone(),
            server: server.clone(),
            diagrams: self.diagrams.clone(),
            limits: limits.clone(),
        };
        Routes {
            sse: LegacySseEndpoint::new(server.clone(), options.clone(), MESSAGES),
            mcp: HttpEndpoint::new(server.clone(), options),
            guard,
            origins,
            authenticator: self.authenticator.clone(),
            metadata: self.metadata.clone(),
            health: health.clone(),
            endpoint: self.config.auth.resource.clone(),
            scheme: self.config.server.scheme(),
            admin: self.admin_routes.clone(),
            console,
            mcp_v1: Arc::new(mcp_v1),
            rest: Arc::new(rest),
        }
    }

    /// Returns the time that calls in flight get when the server shuts down.
    fn shutdown_grace(&self) -> Duration {
        Duration::from_millis(self.config.server.shutdown_grace_ms)
    }
}

/// Returns the upstreams of the configuration, with the chat model that answers their sampling
/// requests, and the console that watches them.
fn gateway_options(
    config: &Config,
    custom: &CustomTools,
    knowledge: &Knowledge,
    console: Option<&Console>,
) -> GatewayOptions {
    let mut reserved = BuiltIns::names(config);
    reserved.extend(custom.tools().map(|tool| tool.name.as_str()));
    let mut options = config.gateway_options(&reserved);
    knowledge.add_sampler(config, &mut options);
    if let Some(console) = console {
        options.observer = Some(Arc::new(UpstreamObserver {
            console: console.clone(),
            logs_messages: config.console.log_upstream_messages,
        }));
    }
    options
}

/// Logs the patterns of `tools.search.always` that match no tool, once all tools are known.
fn warn_of_unmatched(gateway: &Arc<Gateway>, search: Arc<ToolSearch>, own: Vec<String>) {
    gateway.once_settled(move |gateway| {
        if gateway.knows_all_tools() {
            let catalog = gateway.catalog();
            let names: Vec<&str> =
                catalog.tool_names().chain(own.iter().map(String::as_str)).collect();
            for warning in search.unmatched(&names) {
                tracing::warn!("{warning}");
            }
        }
    });
}
