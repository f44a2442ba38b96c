//! The builder of an [`App`], with what an embedding program adds.

use std::{future::Future, sync::Arc};

use axum::Router;
use marquetry_artifacts::ArtifactStore;
use marquetry_config::{Config, sections::TlsConfig};
use marquetry_inbound_tls::{Tls, TlsError, TlsFiles};
use marquetry_observe::SpanSink;
use marquetry_protocol::server::{RequestContext, ToolOutput, Toolbox, http::Authenticator};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::{App, StartError, access::Access, artifacts::open_store, components::Components};
use crate::{
    observation::Observation,
    reload::ConfigSource,
    tools::{BuiltIns, CustomTools},
};

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
    source: Option<Arc<dyn ConfigSource>>,
    spans: Option<Arc<dyn SpanSink>>,
}

impl AppBuilder {
    pub(super) fn new(config: Config) -> Self {
        Self {
            config,
            store: None,
            authenticator: None,
            tools: Toolbox::new("marquetry", env!("CARGO_PKG_VERSION")),
            toolboxes: Vec::new(),
            admin_routes: Router::new(),
            source: None,
            spans: None,
        }
    }

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

    /// Reads the configuration again from `source`: when its files change, by [`App::reload`], and
    /// when a person asks for it in the console.
    #[must_use]
    pub fn reload_from(self, source: Arc<dyn ConfigSource>) -> Self {
        Self { source: Some(source), ..self }
    }

    /// Passes the spans of each request to `spans`, and tells upstreams in `_meta.traceparent` to
    /// which span their call belongs.
    #[must_use]
    pub fn trace_to(self, spans: Arc<dyn SpanSink>) -> Self {
        Self { spans: Some(spans), ..self }
    }

    /// Also serves these routes to administrators: with authentication callers with the scope
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
    /// Returns an error if the configuration is invalid, the artifact store cannot be opened, two
    /// tools have one name, or there are two authenticators; see [`StartError`].
    pub async fn start(self) -> Result<App, StartError> {
        let Self {
            config,
            store,
            authenticator,
            tools,
            mut toolboxes,
            admin_routes,
            source,
            spans,
        } = self;
        config.check()?;
        let access = Access::new(&config, authenticator)?;
        access.fetch_signing_keys();
        let tls = config.server.tls.as_ref().map(open_tls).transpose()?;
        toolboxes.push(tools);
        let custom = CustomTools::new(toolboxes, &BuiltIns::names(&config))
            .map_err(|name| StartError::ToolNameTaken { name })?;
        let store = match store {
            Some(store) => store,
            None => open_store(&config).await?,
        };
        let observation = Observation::open(&config, spans)?;
        let components =
            Components::start(config, store, &custom, access, admin_routes, observation)?;
        Ok(components.into_app(custom, tls, source))
    }
}

/// Reads the files of TLS.
pub(crate) fn open_tls(files: &TlsConfig) -> Result<Arc<Tls>, TlsError> {
    let TlsConfig { certificate, key, client_ca, .. } = files;
    let mut files = TlsFiles::new(certificate, key);
    if let Some(client_ca) = client_ca {
        files = files.with_client_ca(client_ca);
    }
    Tls::load(files).map(Arc::new)
}
