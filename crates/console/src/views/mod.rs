//! Views of tools, hosted for pages of the console.
//!
//! A page opens a View and gets a ticket for its socket. Over the socket it forwards the View's
//! messages and carries out the effects of the host. All rules are in
//! [`marquetry_apps_ext::host::Bridge`], none in the page. Each View is served once, as a document
//! of another origin, under an id that only the page knows, with the policy in its header. A View
//! lives as long as its socket.

mod audit;
mod blocked;
mod conversation;
mod routes;
mod sandbox;
mod session;
mod socket;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use marquetry_apps_ext::{
    host::{BridgeOptions, Event, Lists, Sandbox, SandboxOptions, ViewDocument, ViewDocumentError},
    types::{
        HostCapabilities, HostContext, HostSampling, ListChanges, Modalities, ToolInfo, ToolUi,
        ToolUiError, UiUri,
    },
};
use marquetry_protocol::types::{Implementation, JsonObject, ReadResourceResult, Tool};
use serde::Deserialize;
use tokio::sync::mpsc;

pub use self::conversation::ModelInput;
use self::{
    audit::AuditLog,
    blocked::Blocked,
    conversation::Conversation,
    session::{Session, SessionDetails},
};
pub(crate) use self::{routes::router, sandbox::sandbox_router, socket::socket_router};
use crate::{
    Backend, ChangedLists, Events, Messages, ServerTools, ViewOptions, Viewer, random::secret_name,
};

/// Allowance for the envelope around the message or answer in a frame, in bytes.
const ENVELOPE_BYTES: usize = 1 << 20;

/// The open Views. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Views {
    inner: Arc<SharedViews>,
}

struct SharedViews {
    options: ViewOptions,
    sessions: Mutex<BTreeMap<String, Arc<Session>>>,
    conversation: Conversation,
    messages: Messages,
    audit: AuditLog,
    /// The number of the last View.
    last: AtomicU64,
    /// Whether no further View may be opened.
    is_closed: AtomicBool,
}

/// A page's request to open a View.
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
    #[error(
        "{0} Views of all users are open, the most that console.max_views allows; close one, or try again later"
    )]
    TooMany(usize),
    #[error(
        "your open Views have reached the limit for one user, {0}: a quarter of console.max_views; close one"
    )]
    TooManyOfUser(usize),
    #[error("the server is shutting down")]
    Closed,
}

impl Views {
    pub(crate) fn new(options: ViewOptions, messages: Messages, events: Arc<Events>) -> Self {
        let inner = SharedViews {
            options,
            sessions: Mutex::default(),
            conversation: Conversation::default(),
            messages,
            audit: AuditLog::new(events),
            last: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Opens a View. `origin` is the page's, the only one that may have the View in a frame.
    fn open(
        &self,
        request: OpenRequest,
        server: ServerTools,
        viewer: &Viewer,
        origin: Option<&str>,
    ) -> Result<Arc<Session>, OpenError> {
        let (tool, uri) = view_of_tool(&server, &request.tool)?;
        let options = &self.inner.options;
        let OpenRequest { tool: name, contents, listing, context, call } = request;
        let document =
            ViewDocument::read(uri.as_str(), &contents, listing.as_ref(), options.max_html_bytes)
                .inspect_err(|error| self.log_refused(&name, viewer, call.as_deref(), error))?;
        let mut sandbox_options = SandboxOptions::default();
        sandbox_options.permissions = options.permissions;
        sandbox_options.frame_ancestors = origin.map(ToOwned::to_owned).into_iter().collect();
        let (sandbox, problems) = Sandbox::new(&document.meta, &sandbox_options);
        let mut bridge = BridgeOptions::default();
        bridge.host_info = Implementation::new("marquetry-console", env!("CARGO_PKG_VERSION"));
        bridge.capabilities = capabilities(&sandbox);
        bridge.context = context;
        bridge.context.tool_info = Some(ToolInfo::new(None, tool.clone()));
        bridge.server_tools = server.tools.iter().map(|(tool, _)| tool.clone()).collect();
        bridge.limits = options.limits.clone();
        bridge.sandbox = Some(sandbox.resource(document.html.clone()));
        let document_notes = document.problems.iter().map(ToString::to_string);
        let sandbox_notes = problems.iter().map(ToString::to_string);
        let details = SessionDetails {
            id: secret_name(),
            number: self.next_number(),
            tool: name,
            uri: uri.as_str().to_owned(),
            viewer: viewer.clone(),
            call,
            sandbox,
            prefers_border: document.meta.prefers_border,
            notes: document_notes.chain(sandbox_notes).collect(),
        };
        let session = Arc::new(Session::new(details, secret_name(), server, bridge, self.clone()));
        self.insert(&session)?;
        // The context of a View that was closed stays until the user's next message: the user may
        // have chosen something in the View for that message. A View that is loaded again starts
        // without a context.
        self.conversation().forget_context(viewer.owner.as_deref(), session.context_key());
        // Specification, "Security": hosts log the policy under which a View runs.
        tracing::info!(
            view = session.number(),
            tool = session.tool(),
            policy = session.sandbox().policy(),
            "a View is opened"
        );
        self.remove_if_unused(&session);
        Ok(session)
    }

    /// Adds a record of a View whose document was refused to the audit log.
    fn log_refused(
        &self,
        tool: &str,
        viewer: &Viewer,
        call: Option<&str>,
        error: &ViewDocumentError,
    ) {
        let number = self.next_number();
        let owner = viewer.owner.as_deref();
        let view = audit::LoggedView { number, sequence: 1, tool, owner, call };
        self.inner.audit.push_refused(&view, &error.to_string());
    }

    /// Adds a session to the open Views, unless there are too many.
    fn insert(&self, session: &Arc<Session>) -> Result<(), OpenError> {
        let mut sessions = self.sessions();
        if self.inner.is_closed.load(Ordering::Relaxed) {
            return Err(OpenError::Closed);
        }
        let owner = &session.viewer().owner;
        let of_owner = sessions.values().filter(|it| it.viewer().owner == *owner).count();
        let max_views = self.inner.options.max_views;
        // The limit of one user comes first, because the user can do something about it.
        if owner.is_some() && of_owner >= max_views.div_ceil(4) {
            return Err(OpenError::TooManyOfUser(of_owner));
        }
        if sessions.len() >= max_views {
            return Err(OpenError::TooMany(sessions.len()));
        }
        sessions.insert(session.id().to_owned(), session.clone());
        Ok(())
    }

    fn next_number(&self) -> u64 {
        self.inner.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Removes a View whose socket is not opened in time.
    fn remove_if_unused(&self, session: &Arc<Session>) {
        let views = self.clone();
        let id = session.id().to_owned();
        tokio::spawn(async move {
            tokio::time::sleep(views.options().ticket_time).await;
            let session = views.sessions().get(&id).cloned();
            if session.is_some_and(|session| session.is_waiting()) {
                tracing::debug!("a View is removed: its page did not open its socket in time");
                views.remove(&id);
            }
        });
    }

    /// Returns the View that a ticket opens, with the receiver of events for its socket. A ticket
    /// works once.
    fn redeem(&self, ticket: &str) -> Option<(Arc<Session>, mpsc::Receiver<Event>)> {
        let sessions = self.sessions();
        sessions.values().find_map(|session| Some((session.clone(), session.redeem(ticket)?)))
    }

    /// Notifies the open Views of changes in the lists of their servers.
    pub(crate) fn lists_changed(&self, backend: &dyn Backend, lists: ChangedLists) {
        let sessions: Vec<_> = self.sessions().values().cloned().collect();
        for session in sessions {
            match lists {
                ChangedLists::Tools => {
                    if let Some(server) = backend.server_of_tool(session.tool(), session.viewer()) {
                        session.set_tools(server);
                    }
                }
                ChangedLists::Resources => {
                    session.notify(Event::ListChanged(Lists::Resources));
                }
                ChangedLists::Prompts => {
                    session.notify(Event::ListChanged(Lists::Prompts));
                }
            }
        }
    }

    /// Closes all Views, and opens none from then on.
    pub(crate) fn close(&self) {
        let sessions = {
            let mut sessions = self.sessions();
            self.inner.is_closed.store(true, Ordering::Relaxed);
            std::mem::take(&mut *sessions)
        };
        for session in sessions.values() {
            session.close();
        }
    }

    /// Returns the View whose document is to be served in its frame, once for each View.
    fn take_frame(&self, id: &str) -> Option<Arc<Session>> {
        let session = self.sessions().get(id)?.clone();
        session.take_frame().then_some(session)
    }

    /// Takes a browser's report that the policy of a View has blocked something.
    fn blocked(&self, id: &str, blocked: &Blocked) {
        let session = self.sessions().get(id).cloned();
        if let Some(session) = session {
            session.blocked(blocked);
        }
    }

    fn remove(&self, id: &str) {
        self.sessions().remove(id);
    }

    pub(crate) fn model_input(&self, owner: Option<&str>) -> Vec<ModelInput> {
        self.conversation().model_input(owner)
    }

    pub(crate) fn mark_delivered(&self, owner: Option<&str>, numbers: &[u64]) {
        self.conversation().mark_delivered(owner, numbers);
    }

    fn conversation(&self) -> &Conversation {
        &self.inner.conversation
    }

    fn options(&self) -> &ViewOptions {
        &self.inner.options
    }

    fn messages(&self) -> &Messages {
        &self.inner.messages
    }

    fn audit(&self) -> &AuditLog {
        &self.inner.audit
    }

    /// The largest frame of a socket, in bytes.
    fn max_socket_bytes(&self) -> usize {
        self.inner.options.limits.max_message_bytes + ENVELOPE_BYTES
    }

    fn sessions(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Session>>> {
        self.inner.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the tool that agents know as `name`, and the URI of its View.
fn view_of_tool<'a>(server: &'a ServerTools, name: &str) -> Result<(&'a Tool, UiUri), OpenError> {
    let Some((tool, _)) = server.tools.iter().find(|(_, exposed)| exposed == name) else {
        return Err(OpenError::UnknownTool(name.to_owned()));
    };
    let ui =
        ToolUi::read(tool).map_err(|error| OpenError::Link { tool: name.to_owned(), error })?;
    match ui.and_then(|ui| ui.resource) {
        Some(uri) => Ok((tool, uri)),
        None => Err(OpenError::NoView(name.to_owned())),
    }
}

/// Returns the host capabilities that the console offers to a View.
fn capabilities(sandbox: &Sandbox) -> HostCapabilities {
    let mut capabilities = HostCapabilities::default();
    capabilities.open_links = Some(JsonObject::new());
    capabilities.download_file = Some(JsonObject::new());
    capabilities.logging = Some(JsonObject::new());
    capabilities.server_tools = Some(ListChanges { list_changed: true });
    capabilities.server_resources = Some(ListChanges { list_changed: true });
    capabilities.update_model_context = Some(Modalities::all());
    capabilities.message = Some(Modalities::text());
    capabilities.sandbox = Some(sandbox.granted().clone());
    // The console has no model.
    capabilities.sampling = None::<HostSampling>;
    capabilities
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::*;
    use crate::Options;

    fn views(change: impl FnOnce(&mut ViewOptions)) -> Views {
        let mut options = Options::default();
        change(&mut options.views);
        let events = Arc::new(Events::new(&options));
        let messages = Messages::new(&options, events.clone());
        Views::new(options.views, messages, events)
    }

    fn server(names: &[&str]) -> ServerTools {
        let tools = names.iter().map(|name| {
            let tool: Result<Tool, _> = serde_json::from_value(json!({
                "name": name, "inputSchema": {"type": "object"},
                "_meta": {"ui": {"resourceUri": "ui://lab/view.html"}},
            }));
            (tool.unwrap(), format!("lab__{name}"))
        });
        ServerTools::new("lab", tools.collect())
    }

    fn open(views: &Views, viewer: &Viewer) -> Result<Arc<Session>, OpenError> {
        let request = serde_json::from_value(json!({
            "tool": "lab__show",
            "contents": {"contents": [{
                "uri": "ui://lab/view.html", "mimeType": "text/html;profile=mcp-app", "text": "<!doctype html><p>",
            }]},
            "call": "run-1",
        }));
        views.open(request.unwrap(), server(&["show"]), viewer, None)
    }

    fn ticket(session: &Session) -> String {
        session.description(None)["ticket"].as_str().unwrap().to_owned()
    }

    /// Brings a View to the point where it is notified of changes.
    fn initialize(session: &Session) {
        for message in [
            json!({"jsonrpc": "2.0", "method": "ui/notifications/sandbox-proxy-ready", "params": {}}),
            json!({"jsonrpc": "2.0", "id": 0, "method": "ui/initialize", "params": {
                "appInfo": {"name": "v", "version": "1"}, "appCapabilities": {}, "protocolVersion": "2026-01-26",
            }}),
            json!({"jsonrpc": "2.0", "method": "ui/notifications/initialized"}),
        ] {
            let message = json!({"message": message}).to_string();
            session.take(serde_json::from_str(&message).unwrap());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_view_whose_page_opens_no_socket_is_removed_by_time() {
        let views = views(|options| options.ticket_time = Duration::from_secs(5));
        let viewer = Viewer::everything();
        let unused = ticket(&open(&views, &viewer).unwrap());
        let used = open(&views, &viewer).unwrap();
        let host_events = views.redeem(&ticket(&used)).unwrap();
        tokio::time::sleep(Duration::from_secs(6)).await;
        assert!(views.redeem(&unused).is_none());
        assert_eq!(views.sessions().keys().collect::<Vec<_>>(), [used.id()]);
        drop(host_events);
    }

    #[tokio::test]
    async fn a_ticket_works_once_and_one_viewer_cannot_open_all_views() {
        let views = views(|options| options.max_views = 4);
        let anna = Viewer::of("anna", true);
        let ticket = ticket(&open(&views, &anna).unwrap());
        assert!(views.redeem("guessed").is_none() && views.redeem("").is_none());
        assert!(views.redeem(&ticket).is_some());
        assert!(views.redeem(&ticket).is_none(), "used");
        let refused = open(&views, &anna).err().unwrap().to_string();
        let mine = "your open Views have reached the limit for one user, 1: a quarter of console.max_views";
        assert!(refused.starts_with(mine), "{refused}");
        for other in ["bert", "cem", "dora"] {
            assert!(open(&views, &Viewer::of(other, false)).is_ok());
        }
        let refused = open(&views, &Viewer::of("eve", false)).err().unwrap().to_string();
        let all = "4 Views of all users are open, the most that console.max_views allows";
        assert!(refused.starts_with(all), "{refused}");
        views.close();
        assert!(views.sessions().is_empty());
        assert!(matches!(open(&views, &anna), Err(OpenError::Closed)));
    }

    #[tokio::test]
    async fn a_view_that_is_loaded_again_replaces_its_context() {
        fn update_context(session: &Session, text: &str) {
            let message = json!({"jsonrpc": "2.0", "id": 1, "method": "ui/update-model-context", "params": {
                "content": [{"type": "text", "text": text}],
            }});
            let message = json!({"message": message}).to_string();
            session.take(serde_json::from_str(&message).unwrap());
        }
        fn texts(views: &Views, owner: &str) -> Vec<String> {
            views.model_input(Some(owner)).into_iter().map(|it| it.text).collect()
        }
        let views = views(|_| {});
        let anna = Viewer::of("anna", false);
        let first = open(&views, &anna).unwrap();
        initialize(&first);
        update_context(&first, "first");
        let other = open(&views, &Viewer::of("bert", false)).unwrap();
        initialize(&other);
        update_context(&other, "of another");
        views.remove(first.id());
        assert_eq!(texts(&views, "anna"), ["first"], "a View that was left");
        let second = open(&views, &anna).unwrap();
        assert_eq!(texts(&views, "anna"), [""; 0], "a View that is loaded again has no context");
        assert_eq!(texts(&views, "bert"), ["of another"]);
        initialize(&second);
        update_context(&first, "late");
        update_context(&second, "second");
        assert_eq!(texts(&views, "anna"), ["second"], "the last one wins");
    }

    #[tokio::test]
    async fn the_audit_log_has_each_message_for_its_viewer_only() {
        let views = views(|_| {});
        let session = open(&views, &Viewer::of("anna", false)).unwrap();
        initialize(&session);
        session.take(serde_json::from_str(r#"{"message":"nonsense"}"#).unwrap());
        let anna = Viewer::of("anna", false);
        let records = views.audit().list(&anna, Some("run-1"), 100);
        let summaries = records.iter().map(|record| {
            let [direction, kind, method] = ["direction", "kind", "method"]
                .map(|name| record[name].as_str().unwrap_or_default());
            let verdict = record["verdict"]["is"].as_str().unwrap();
            [direction, kind, method, verdict].join(" ")
        });
        let shown: Vec<_> = summaries.collect();
        assert_eq!(
            shown,
            [
                "from-sandbox notification ui/notifications/sandbox-proxy-ready accepted",
                "to-sandbox notification ui/notifications/sandbox-resource-ready accepted",
                "from-view request ui/initialize accepted",
                "to-view result  accepted",
                "from-view notification ui/notifications/initialized accepted",
                "from-view unreadable  refused",
            ]
        );
        let sequence: Vec<_> = records.iter().map(|it| it["sequence"].as_u64().unwrap()).collect();
        assert_eq!(sequence, [1, 2, 3, 4, 5, 6]);
        assert!(views.audit().list(&anna, Some("run-2"), 100).is_empty());
        assert!(views.audit().list(&Viewer::of("bert", false), None, 100).is_empty());
    }

    #[tokio::test]
    async fn the_document_of_another_view_is_refused_and_logged() {
        let views = views(|_| {});
        let anna = Viewer::of("anna", false);
        let request = serde_json::from_value(json!({
            "tool": "lab__show",
            "contents": {"contents": [{
                "uri": "ui://lab/other.html", "mimeType": "text/html;profile=mcp-app", "text": "<!doctype html><p>",
            }]},
            "call": "run-1",
        }));
        let error = views.open(request.unwrap(), server(&["show"]), &anna, None).err().unwrap();
        assert!(
            error.to_string().contains("\"ui://lab/other.html\" for the View ui://lab/view.html"),
            "{error}"
        );
        assert!(views.sessions().is_empty());
        let records = views.audit().list(&anna, Some("run-1"), 10);
        assert_eq!(records.len(), 1, "{records:?}");
        assert_eq!(records[0]["verdict"], json!({"is": "refused", "why": error.to_string()}));
        assert_eq!(records[0]["method"], "resources/read");
        assert!(views.audit().list(&Viewer::of("bert", false), None, 10).is_empty());
    }

    struct OneServer(ServerTools);

    #[async_trait::async_trait]
    impl Backend for OneServer {
        fn state(&self) -> Value {
            json!({})
        }

        fn server(&self, _: &str) -> Option<Value> {
            None
        }

        fn server_of_tool(&self, _: &str, _: &Viewer) -> Option<ServerTools> {
            Some(self.0.clone())
        }

        async fn restart(&self, name: &str) -> Result<(), crate::RestartError> {
            Err(crate::RestartError::Unknown(name.to_owned()))
        }
    }

    #[tokio::test]
    async fn a_view_is_notified_when_a_list_of_its_server_changes() {
        let views = views(|_| {});
        let session = open(&views, &Viewer::everything()).unwrap();
        let (_, mut host_events) = views.redeem(&ticket(&session)).unwrap();
        initialize(&session);
        views.lists_changed(&OneServer(server(&["show"])), ChangedLists::Tools);
        assert!(host_events.try_recv().is_err(), "the tools of its server are the same");
        let more = OneServer(server(&["show", "more"]));
        views.lists_changed(&more, ChangedLists::Tools);
        views.lists_changed(&more, ChangedLists::Resources);
        for method in ["notifications/tools/list_changed", "notifications/resources/list_changed"] {
            let frames = session.handle(host_events.try_recv().unwrap());
            let frame: Value = serde_json::from_str(&frames[0]).unwrap();
            assert_eq!(frame["send"]["method"], method);
        }
    }
}
