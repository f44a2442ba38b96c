//! The state machine between a View and its host.

mod events;
mod receive;

use std::{collections::BTreeMap, time::Duration};

use marquetry_protocol::{
    RequestId, RpcError,
    types::{Implementation, JsonObject, Tool},
};
use marquetry_rate_limit::TokenBucket;
use serde_json::{Value, json};

use super::{
    app_tools::{AppCallError, AppToolList},
    audit::{AuditRecord, Direction, MessageKind, Verdict},
    call_delivery::CallDelivery,
    consent::Denials,
    context::ViewContext,
    effect::{Effect, RemoveReason, RequestToken},
    incoming::PendingRequest,
    limits::Limits,
    model_context::ModelContext,
    outgoing::{Outgoing, RequestKind},
    sandbox::SandboxResource,
    size::SizeFollower,
};
use crate::types::{AppCapabilities, DisplayMode, HostCapabilities, HostContext, method};

/// The state machine between one View and its host: messages and events go in, messages and effects
/// come out.
///
/// It does no I/O and reads no clock. Each call takes the time since a starting point that the host
/// chooses once, and returns the effects that the host carries out, in order. A host calls
/// [`Bridge::handle`] with [`Event::Tick`](super::Event::Tick) when [`Bridge::deadline`] has
/// passed.
///
/// ```
/// use marquetry_apps_ext::host::{Bridge, BridgeOptions, Effect, Event};
/// use std::time::Duration;
///
/// let mut bridge = Bridge::new(BridgeOptions::default());
/// bridge.handle(Duration::ZERO, Event::Input(Default::default()));
/// let hello = r#"{"jsonrpc":"2.0","id":0,"method":"ui/initialize","params":{"appInfo":{"name":"v","version":"1"},
///     "appCapabilities":{},"protocolVersion":"2026-01-26"}}"#;
/// bridge.receive(Duration::ZERO, hello);
/// let ready = r#"{"jsonrpc":"2.0","method":"ui/notifications/initialized"}"#;
/// let effects = bridge.receive(Duration::ZERO, ready);
/// let sent = effects.iter().find_map(|it| if let Effect::Send(text) = it { Some(text) } else { None });
/// assert!(sent.unwrap().contains("ui/notifications/tool-input"));
/// ```
#[derive(Debug)]
pub struct Bridge {
    host_info: Implementation,
    capabilities: HostCapabilities,
    limits: Limits,
    phase: Phase,
    sandbox: Option<SandboxResource>,
    app: Option<App>,
    call: CallDelivery,
    context: ViewContext,
    size: SizeFollower,
    server_tools: Vec<Tool>,
    /// Requests of the View that wait for an answer of the host.
    incoming: BTreeMap<RequestToken, PendingRequest>,
    /// Number of the token of the next request.
    next_token: u64,
    outgoing: Outgoing,
    app_tools: AppToolList,
    model_context: Option<ModelContext>,
    rate: TokenBucket,
    refused: u32,
    denials: Denials,
    now: Duration,
    effects: Vec<Effect>,
}

/// A View, as it described itself in `ui/initialize`.
#[derive(Clone, Debug)]
struct App {
    info: Implementation,
    capabilities: AppCapabilities,
}

/// Options of a [`Bridge`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct BridgeOptions {
    /// Name and version of the host.
    pub host_info: Implementation,
    /// The capabilities that the host offers to the View. A request that needs an absent capability
    /// is refused.
    pub capabilities: HostCapabilities,
    /// The initial host context.
    pub context: HostContext,
    /// All tools of the View's server, under their names on that server.
    pub server_tools: Vec<Tool>,
    /// The document for a sandbox proxy; `None` if the host loads the View's HTML in another way.
    pub sandbox: Option<SandboxResource>,
    /// Limits on what the View may use.
    pub limits: Limits,
}

/// A stage in the life of a View.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Phase {
    /// The bridge waits for the sandbox proxy. Only with [`BridgeOptions::sandbox`].
    Created,
    /// The View is loading, or has loaded and not sent `ui/initialize` yet.
    Loading,
    /// `ui/initialize` was answered.
    Initializing,
    /// The View sent `ui/notifications/initialized`.
    Ready,
    /// `ui/resource-teardown` was sent.
    TearingDown,
    /// The View is removed.
    Closed,
}

impl Bridge {
    /// Creates a bridge to a View that is about to be loaded.
    #[must_use]
    pub fn new(options: BridgeOptions) -> Self {
        let BridgeOptions { host_info, capabilities, context, server_tools, sandbox, limits } =
            options;
        Self {
            host_info,
            capabilities,
            phase: if sandbox.is_some() { Phase::Created } else { Phase::Loading },
            sandbox,
            app: None,
            call: CallDelivery::default(),
            context: ViewContext::new(context),
            size: SizeFollower::default(),
            server_tools,
            incoming: BTreeMap::new(),
            next_token: 0,
            outgoing: Outgoing::default(),
            app_tools: AppToolList::default(),
            model_context: None,
            rate: TokenBucket::new(limits.messages_per_second, limits.message_burst),
            limits,
            refused: 0,
            denials: Denials::default(),
            now: Duration::ZERO,
            effects: Vec::new(),
        }
    }

    /// Returns the present stage of the View's life.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Returns the name and version that the View sent in `ui/initialize`.
    #[must_use]
    pub fn app_info(&self) -> Option<&Implementation> {
        self.app.as_ref().map(|app| &app.info)
    }

    /// Returns the mode in which the View is shown.
    #[must_use]
    pub fn display_mode(&self) -> DisplayMode {
        self.context.mode()
    }

    /// Returns the modes that the user may choose: those that both the host and the View support.
    #[must_use]
    pub fn display_modes(&self) -> Vec<DisplayMode> {
        self.context.modes(&self.app_capabilities())
    }

    /// Returns the time at which [`Event::Tick`](super::Event::Tick) is due, if any.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        let list = if self.phase == Phase::Ready { self.app_tools.deadline() } else { None };
        self.outgoing.deadline().into_iter().chain(list).chain(self.size.deadline()).min()
    }

    fn app_capabilities(&self) -> AppCapabilities {
        self.app.as_ref().map(|app| app.capabilities.clone()).unwrap_or_default()
    }

    /// Sets the time. An earlier time than the last one is ignored.
    fn set_now(&mut self, now: Duration) {
        self.now = self.now.max(now);
    }

    /// Sends a notification. The caller has checked that the View is ready or is being torn down.
    fn notify(&mut self, method: &str, params: Value) {
        debug_assert!(self.phase == Phase::Ready || self.phase == Phase::TearingDown);
        let text = json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string();
        self.audit_sent(MessageKind::Notification, Some(method), None, text.len());
        self.effects.push(Effect::Send(text));
    }

    /// Sends a request with a time limit for the answer, and returns its id. The View must be ready
    /// or being torn down.
    fn ask(&mut self, question: RequestKind, method: &str, params: JsonObject) -> u64 {
        debug_assert!(self.phase == Phase::Ready || self.phase == Phase::TearingDown);
        let time = match question {
            RequestKind::Teardown => self.limits.teardown_timeout,
            RequestKind::Ping => self.limits.ping_timeout,
            RequestKind::ListTools | RequestKind::CallTool { .. } => self.limits.app_call_timeout,
        };
        let id = self.outgoing.add(question, self.now + time);
        let text =
            json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string();
        self.audit_sent(MessageKind::Request, Some(method), Some(&id.into()), text.len());
        self.effects.push(Effect::Send(text));
        id
    }

    /// Answers a request of the View.
    fn answer(&mut self, id: &RequestId, answer: Result<Value, RpcError>) {
        let (kind, text) = match answer {
            Ok(result) => {
                (MessageKind::Result, json!({ "jsonrpc": "2.0", "id": id, "result": result }))
            }
            Err(error) => {
                (MessageKind::Error, json!({ "jsonrpc": "2.0", "id": id, "error": error }))
            }
        };
        let text = text.to_string();
        self.audit_sent(kind, None, Some(id), text.len());
        self.effects.push(Effect::Send(text));
    }

    /// Sends the changes that the View does not have yet, in this order: context, arguments,
    /// result. Then asks for the View's tools if a list is due.
    fn send_changes(&mut self) {
        if self.phase != Phase::Ready {
            return;
        }
        if let Some(changes) = self.context.take_changes(&self.app_capabilities()) {
            self.notify(method::HOST_CONTEXT_CHANGED, Value::Object(changes));
        }
        for (method, params) in self.call.notifications() {
            self.notify(method, params);
        }
        if self.app_tools.start(self.now) {
            self.ask(RequestKind::ListTools, method::TOOLS_LIST, JsonObject::new());
        }
    }

    /// Sends the View's document to the sandbox proxy.
    fn send_to_sandbox(&mut self, params: Value) {
        let method = method::SANDBOX_RESOURCE_READY;
        let text = json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string();
        let kind = MessageKind::Notification;
        self.audit(Direction::ToSandbox, kind, Some(method), None, text.len(), Verdict::Accepted);
        self.effects.push(Effect::SendToSandbox(text));
    }

    fn audit_sent(
        &mut self,
        kind: MessageKind,
        method: Option<&str>,
        id: Option<&RequestId>,
        bytes: usize,
    ) {
        self.audit(Direction::ToView, kind, method, id, bytes, Verdict::Accepted);
    }

    fn audit(
        &mut self,
        direction: Direction,
        kind: MessageKind,
        method: Option<&str>,
        id: Option<&RequestId>,
        bytes: usize,
        verdict: Verdict,
    ) {
        let record = AuditRecord::new(self.now, direction, kind, method, id, bytes);
        self.effects.push(Effect::Audit(record.with(verdict)));
    }

    /// Asks the View to save its state, and removes it after that. A View that is not ready may not
    /// be sent any message, so it is removed at once.
    fn tear_down(&mut self, reason: &str) {
        match self.phase {
            Phase::Ready => {
                self.give_up_questions();
                for (token, waiting) in std::mem::take(&mut self.incoming) {
                    self.effects.push(Effect::Cancel { token });
                    self.answer(&waiting.id, Err(Self::closing_error()));
                }
                let mut params = JsonObject::new();
                params.insert("reason".to_owned(), reason.into());
                self.ask(RequestKind::Teardown, method::RESOURCE_TEARDOWN, params);
                self.phase = Phase::TearingDown;
            }
            Phase::Created | Phase::Loading | Phase::Initializing => {
                self.remove(RemoveReason::Closed);
            }
            Phase::TearingDown | Phase::Closed => {}
        }
    }

    /// Removes the View: nothing is sent to it any more, and its tools are removed.
    fn remove(&mut self, reason: RemoveReason) {
        if self.phase == Phase::Closed {
            return;
        }
        self.phase = Phase::Closed;
        self.give_up_questions();
        for token in std::mem::take(&mut self.incoming).into_keys() {
            self.effects.push(Effect::Cancel { token });
        }
        self.effects.push(Effect::Remove(reason));
    }

    fn give_up_questions(&mut self) {
        for asked in self.outgoing.drain() {
            match asked.what {
                RequestKind::CallTool { call } => self.app_answer(call, Err(AppCallError::Closed)),
                RequestKind::Ping => self.effects.push(Effect::Alive(false)),
                RequestKind::Teardown | RequestKind::ListTools => {}
            }
        }
        if self.app_tools.clear() {
            self.effects.push(Effect::AppTools(Vec::new()));
        }
    }
}
