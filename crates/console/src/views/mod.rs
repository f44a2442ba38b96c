//! Views of tools, hosted for pages of the console.
//!
//! A page opens a View, passes the View's messages on, and does what the host has to do. The rules are in
//! [`marquetry_apps_ext::host::Bridge`]; the page has none. Each View is served once, as a document of another origin, under an id that only
//! the page knows, with the policy in its header.

mod conversation;
mod effects;
mod routes;
mod sandbox;
mod session;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use marquetry_apps_ext::{
    host::{BridgeOptions, Sandbox, SandboxOptions, ViewDocument, ViewDocumentError},
    types::{
        DisplayMode, HostCapabilities, HostContext, HostSampling, ListChanges, Modalities,
        ToolInfo, ToolUi, ToolUiError,
    },
};
use marquetry_protocol::types::{Implementation, JsonObject, ReadResourceResult};
use serde::Deserialize;
use serde_json::Value;

use self::{conversation::Conversation, session::Session};
pub(crate) use self::{routes::router, sandbox::sandbox_router};
use crate::{Messages, ServerTools, ViewOptions, Viewer, random::secret_name};

/// The open Views. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Views {
    inner: Arc<Inner>,
}

struct Inner {
    options: ViewOptions,
    sessions: Mutex<BTreeMap<String, Arc<Session>>>,
    conversation: Conversation,
    messages: Messages,
}

/// What a page says of the View that it opens.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct OpenRequest {
    /// The tool, by the name that agents use.
    tool: String,
    /// The answer to `resources/read` of its View.
    contents: ReadResourceResult,
    /// The `_meta` of the View's entry in `resources/list`.
    #[serde(default)]
    listing: Option<JsonObject>,
    /// The View's surroundings.
    #[serde(default)]
    context: HostContext,
    /// The record of the call that the View shows.
    #[serde(default)]
    call: Option<String>,
}

/// Why a View is not opened.
#[derive(Debug, thiserror::Error)]
enum OpenError {
    #[error("no tool is called {0:?}")]
    UnknownTool(String),
    #[error("the tool {0:?} has no View")]
    NoView(String),
    #[error("the View of the tool {tool:?} cannot be found: {error}")]
    Link { tool: String, error: ToolUiError },
    #[error(transparent)]
    Document(#[from] ViewDocumentError),
    #[error("{0} Views are open, the most that console.max_views allows; close one")]
    TooMany(usize),
}

impl Views {
    pub(crate) fn new(options: ViewOptions, messages: Messages) -> Self {
        let (sessions, conversation) = (Mutex::default(), Conversation::default());
        Self { inner: Arc::new(Inner { options, sessions, conversation, messages }) }
    }

    /// Opens a View. `origin` is the page's, the only one that may have the View in a frame.
    fn open(
        &self,
        request: OpenRequest,
        server: ServerTools,
        viewer: &Viewer,
        origin: Option<&str>,
    ) -> Result<Arc<Session>, OpenError> {
        let OpenRequest { tool: name, contents, listing, mut context, call } = request;
        let Some((tool, _)) = server.tools.iter().find(|(_, exposed)| *exposed == name) else {
            return Err(OpenError::UnknownTool(name));
        };
        let ui = ToolUi::read(tool);
        let ui = ui.map_err(|error| OpenError::Link { tool: name.clone(), error })?;
        let Some(uri) = ui.and_then(|ui| ui.resource) else {
            return Err(OpenError::NoView(name));
        };
        let options = &self.inner.options;
        let most = options.max_html_bytes;
        let document = ViewDocument::read(uri.as_str(), &contents, listing.as_ref(), most)?;
        let mut sandbox_options = SandboxOptions::default();
        sandbox_options.permissions = options.permissions;
        sandbox_options.frame_ancestors = origin.map(ToOwned::to_owned).into_iter().collect();
        let (sandbox, problems) = Sandbox::new(&document.meta, &sandbox_options);
        context.tool_info = Some(ToolInfo::new(None, tool.clone()));
        let mut bridge = BridgeOptions::default();
        bridge.host_info = Implementation::new("marquetry-console", env!("CARGO_PKG_VERSION"));
        bridge.capabilities = capabilities(&sandbox);
        bridge.context = context;
        bridge.server_tools = server.tools.iter().map(|(tool, _)| tool.clone()).collect();
        bridge.limits = options.limits.clone();
        bridge.sandbox = Some(sandbox.resource(document.html.clone()));
        let notes = document.problems.iter().map(ToString::to_string);
        let notes = notes.chain(problems.iter().map(ToString::to_string)).collect();
        let session = Session::new(session::Opening {
            id: secret_name(),
            tool: name,
            server,
            viewer: viewer.clone(),
            call,
            sandbox,
            prefers_border: document.meta.prefers_border,
            notes,
            bridge,
            messages: self.inner.messages.clone(),
        });
        let mut sessions = self.sessions();
        sweep(&mut sessions, options.idle);
        let of_viewer = sessions.values().filter(|it| it.viewer().owner == viewer.owner).count();
        let per_viewer =
            if viewer.owner.is_some() { options.max_views.div_ceil(4) } else { options.max_views };
        if sessions.len() >= options.max_views || of_viewer >= per_viewer {
            return Err(OpenError::TooMany(of_viewer));
        }
        let session = Arc::new(session);
        sessions.insert(session.id().to_owned(), session.clone());
        Ok(session)
    }

    /// The View of this id, if it is the viewer's.
    fn get(&self, id: &str, viewer: &Viewer) -> Option<Arc<Session>> {
        let session = self.sessions().get(id)?.clone();
        (session.viewer().owner == viewer.owner).then_some(session)
    }

    /// The document of a View for its frame; once for each View.
    fn take_frame(&self, id: &str) -> Option<Arc<Session>> {
        let session = self.sessions().get(id)?.clone();
        session.take_frame().then_some(session)
    }

    fn remove(&self, id: &str) {
        self.sessions().remove(id);
    }

    fn conversation(&self) -> &Conversation {
        &self.inner.conversation
    }

    fn options(&self) -> &ViewOptions {
        &self.inner.options
    }

    fn sessions(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Session>>> {
        self.inner.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes the Views whose pages are gone.
fn sweep(sessions: &mut BTreeMap<String, Arc<Session>>, idle: Duration) {
    let now = Instant::now();
    sessions.retain(|_, session| now.saturating_duration_since(session.seen_at()) < idle);
}

/// What the console does for a View.
fn capabilities(sandbox: &Sandbox) -> HostCapabilities {
    let yes = || Some(JsonObject::new());
    let mut capabilities = HostCapabilities::default();
    capabilities.open_links = yes();
    capabilities.download_file = yes();
    capabilities.logging = yes();
    capabilities.server_tools = Some(ListChanges { list_changed: true });
    capabilities.server_resources = Some(ListChanges::default());
    capabilities.update_model_context = Some(Modalities::all());
    capabilities.message = Some(Modalities::text());
    capabilities.sandbox = Some(sandbox.granted().clone());
    // The console has no model.
    capabilities.sampling = None::<HostSampling>;
    capabilities
}

/// Reads a display mode as the page writes it.
fn mode(value: &Value) -> Option<DisplayMode> {
    value.as_str().and_then(DisplayMode::from_name)
}
