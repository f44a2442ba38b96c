//! The data of this server for the console.

use std::sync::Arc;

use async_trait::async_trait;
use marquetry_artifact_tools::ArtifactTools;
use marquetry_artifacts::{Capturer, MemoryStore, Scope, Settings, ToolCall};
use marquetry_config::SERVER_NAME;
use marquetry_console::{
    Backend, ChangedLists, Console, RestartError, ServerChange, ServerTools, Viewer,
};
use marquetry_gateway::{Gateway, ItemKind, RestartRefused};
use marquetry_protocol::{server::Principal, types::Tool};
use marquetry_savings::Savings;
use serde_json::{Value, json, value::RawValue};

use crate::health::Health;
use crate::knowledge::Knowledge;
use crate::reload::{ReloadScope, Reloader};

/// The backend of the console.
pub(crate) struct ServerBackend {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) health: Arc<Health>,
    /// This server's own tools.
    pub(crate) own_tools: Vec<Tool>,
    /// The artifacts of all callers.
    pub(crate) artifacts: ArtifactTools,
    /// Capture settings of tools that belong to no upstream.
    pub(crate) capture: Settings,
    /// What answers kept from models.
    pub(crate) savings: Savings,
    /// Chats and documents, for the page of chats.
    pub(crate) knowledge: Knowledge,
    pub(crate) reloader: Arc<Reloader>,
}

#[async_trait]
impl Backend for ServerBackend {
    fn state(&self) -> Value {
        self.health.report()
    }

    fn server(&self, name: &str) -> Option<Value> {
        let upstreams = self.gateway.upstreams();
        let upstream = upstreams.iter().find(|upstream| upstream.name() == name)?;
        let listing = upstream.listing();
        let tools = listing.tools.iter().map(|tool| &tool.name);
        let prompts = listing.prompts.iter().map(|prompt| &prompt.name);
        let resources = listing.resources.iter().map(|resource| &resource.uri);
        Some(json!({
            "name": name,
            "stderr": upstream.log(),
            "instructions": listing.instructions,
            "interface": {
                "tools": tools.take(MAX_NAMES).collect::<Vec<_>>(),
                "prompts": prompts.take(MAX_NAMES).collect::<Vec<_>>(),
                "resources": resources.take(MAX_NAMES).collect::<Vec<_>>(),
            },
            "connection": upstream.introduction(),
        }))
    }

    fn server_of_tool(&self, name: &str, viewer: &Viewer) -> Option<ServerTools> {
        let catalog = self.gateway.view_of(viewer.principal.as_deref(), None);
        let own = self.own_tools.iter();
        let own = own.filter(|tool| catalog.lists_own(ItemKind::Tool, &tool.name));
        if own.clone().any(|tool| tool.name == name) {
            let own = own.map(|tool| (tool.clone(), tool.name.clone()));
            return Some(ServerTools::new(SERVER_NAME, own.collect()));
        }
        let index = catalog.tool(name)?.to.upstream;
        let upstream = self.gateway.upstream(index)?;
        let own = catalog.tools.iter().filter_map(|tool| {
            let to = &catalog.tool(&tool.name)?.to;
            let own = Tool { name: to.name.clone(), ..tool.clone() };
            (to.upstream == index).then(|| (own, tool.name.clone()))
        });
        Some(ServerTools::new(upstream.name(), own.collect()))
    }

    async fn shown_with_limit(
        &self,
        tool: &str,
        said: Box<RawValue>,
        limit: u64,
    ) -> Option<Box<RawValue>> {
        let catalog = self.gateway.catalog();
        let (mut settings, output_schema) = match catalog.tool(tool) {
            Some(route) => (route.capture.clone()?, route.output_schema.clone()),
            None => (self.capture.clone(), None),
        };
        settings.mcp_tool_llm_return_max_bytes = limit;
        let scope = Scope::local();
        let call = ToolCall::new(&scope, tool).with_output_schema(output_schema.as_deref());
        // Artifacts of a trial capture go to memory and are dropped.
        let capturer = Capturer::new(Arc::new(MemoryStore::default()));
        Some(capturer.capture(call, &settings, said).await.into_result())
    }

    fn savings(&self, viewer: &Viewer, days: u32) -> Value {
        let rows = if viewer.is_admin {
            self.savings.rows_of_all(days)
        } else {
            self.savings.rows(viewer.owner.as_deref(), days)
        };
        json!(rows)
    }

    async fn change(&self, name: &str, change: ServerChange) -> Result<String, RestartError> {
        let scope = match change {
            ServerChange::Enable => ReloadScope::Switch(name, true),
            ServerChange::Disable => ReloadScope::Switch(name, false),
            _ => ReloadScope::Only(name),
        };
        let reloaded = self.reloader.clone().reload(scope).await;
        reloaded.map(|reloaded| reloaded.to_string()).map_err(RestartError::NotReloaded)
    }

    async fn restart(&self, name: &str) -> Result<(), RestartError> {
        self.gateway.restart(name).map_err(|refused| match refused {
            RestartRefused::Unknown => RestartError::Unknown(name.to_owned()),
            RestartRefused::Impossible(why) => {
                RestartError::Impossible { name: name.to_owned(), why: why.to_owned() }
            }
            other => RestartError::Impossible { name: name.to_owned(), why: other.to_string() },
        })
    }
}

/// Maximum number of names that the console shows of one list of an upstream.
const MAX_NAMES: usize = 2_000;

/// Tells the console of changed lists, if it is switched on.
pub(crate) struct ListListener(pub(crate) Option<(Console, Arc<ServerBackend>)>);

impl ListListener {
    pub(crate) fn tools_changed(&self) {
        self.changed(ChangedLists::Tools);
    }

    pub(crate) fn prompts_changed(&self) {
        self.changed(ChangedLists::Prompts);
    }

    pub(crate) fn resources_changed(&self) {
        self.changed(ChangedLists::Resources);
    }

    pub(crate) fn prompts_changed_for(&self, principal: Option<&Principal>) {
        self.changed_for(ChangedLists::Prompts, principal);
    }

    pub(crate) fn resources_changed_for(&self, principal: Option<&Principal>) {
        self.changed_for(ChangedLists::Resources, principal);
    }

    fn changed_for(&self, lists: ChangedLists, principal: Option<&Principal>) {
        if let Some((console, _)) = &self.0 {
            console.own_lists_changed(principal.map(Principal::id), lists);
        }
    }

    fn changed(&self, lists: ChangedLists) {
        if let Some((console, backend)) = &self.0 {
            console.lists_changed(&**backend, lists);
        }
    }
}
