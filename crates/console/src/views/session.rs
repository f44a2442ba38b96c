//! One View that a page shows: takes the page's messages to the bridge, and carries out the
//! effects.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use axum::body::Bytes;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use marquetry_apps_ext::{
    host::{
        Bridge, BridgeOptions, DownloadContent, DownloadFile, Effect, Event, HostRequest, Phase,
        RequestToken, Sandbox, UserMessage,
    },
    types::{DisplayMode, HostContext},
};
use marquetry_protocol::{RequestId, RpcError, types::JsonObject};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use tokio::sync::{mpsc, watch};

use super::{
    Views,
    audit::LoggedView,
    blocked::{Blocked, Reported},
};
use crate::{Direction, NewMessage, ServerTools, Side, Viewer, messages::MAX_MESSAGE};

/// Maximum number of host events that wait for the View's socket. A View that reads too slowly
/// misses some. That is harmless: each event announces a changed list, and the View fetches the
/// list after the next one.
const MAX_HOST_EVENTS: usize = 64;

/// One View that a page shows.
pub(super) struct Session {
    details: SessionDetails,
    /// Key of the context that the View sets for the model.
    context_key: String,
    started: Instant,
    /// Messages in the audit log.
    messages: AtomicU64,
    views: Views,
    state: Mutex<SessionState>,
    host_events: mpsc::Sender<Event>,
    closed: watch::Sender<bool>,
}

/// The constant properties of a session.
pub(super) struct SessionDetails {
    pub(super) id: String,
    /// Identifies the View in logs, because its id is a secret.
    pub(super) number: u64,
    pub(super) tool: String,
    /// The URI of the View.
    pub(super) uri: String,
    pub(super) viewer: Viewer,
    pub(super) call: Option<String>,
    pub(super) sandbox: Sandbox,
    pub(super) prefers_border: Option<bool>,
    /// Notes for the user about the View's metadata.
    pub(super) notes: Vec<String>,
}

struct SessionState {
    bridge: Bridge,
    server: ServerTools,
    /// The messages that the user is asked about. The bridge bounds how many requests wait.
    asked: BTreeMap<RequestToken, UserMessage>,
    /// Whether the page has yet to fetch the frame's document.
    has_frame: bool,
    reported: Reported,
    /// Opens the View's socket, once.
    ticket: Option<String>,
    /// Receiver of host events, until the socket takes it.
    host_events: Option<mpsc::Receiver<Event>>,
}

/// A message of a page over the socket of a View: an object with exactly one member.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum PageMessage {
    /// A message of the View or of its sandbox proxy.
    Message(Box<RawValue>),
    /// The View sent a message that is too long to forward.
    TooLong {
        #[serde(default)]
        id: Option<RequestId>,
        bytes: usize,
    },
    /// A part of the arguments while the model still writes them (requirement
    /// `tool-input-partial`).
    PartialInput(String),
    Input(JsonObject),
    Result(Value),
    Cancelled(Option<String>),
    Context(Box<HostContext>),
    DisplayMode(DisplayMode),
    Answer {
        token: u64,
        #[serde(default)]
        result: Value,
        #[serde(default)]
        error: Option<RpcError>,
    },
    Progress {
        token: u64,
        params: JsonObject,
    },
    /// The user agreed to the message that the View asked to send with this token.
    AddMessage {
        token: u64,
    },
    CallAppTool {
        call: u64,
        name: String,
        #[serde(default)]
        arguments: JsonObject,
    },
    Ping {},
    Teardown {
        reason: String,
    },
    Gone {},
}

impl Session {
    /// Creates a session whose socket opens with `ticket`.
    pub(super) fn new(
        details: SessionDetails,
        ticket: String,
        server: ServerTools,
        bridge: BridgeOptions,
        views: Views,
    ) -> Self {
        // The View of a call has one context, however often it is loaded: the context of a later
        // document replaces that of an earlier one.
        let context_key = match &details.call {
            Some(call) => format!("{call} {}", details.uri),
            None => details.id.clone(),
        };
        let (host_events, receiver) = mpsc::channel(MAX_HOST_EVENTS);
        let state = SessionState {
            bridge: Bridge::new(bridge),
            server,
            asked: BTreeMap::new(),
            has_frame: true,
            reported: Reported::default(),
            ticket: Some(ticket),
            host_events: Some(receiver),
        };
        Self {
            details,
            context_key,
            started: Instant::now(),
            messages: AtomicU64::new(0),
            views,
            state: Mutex::new(state),
            host_events,
            closed: watch::Sender::new(false),
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.details.id
    }

    pub(super) fn number(&self) -> u64 {
        self.details.number
    }

    pub(super) fn tool(&self) -> &str {
        &self.details.tool
    }

    /// Returns the key of the View's context for the model. All sessions that show the View of one
    /// call have the same key.
    pub(super) fn context_key(&self) -> &str {
        &self.context_key
    }

    pub(super) fn viewer(&self) -> &Viewer {
        &self.details.viewer
    }

    pub(super) fn sandbox(&self) -> &Sandbox {
        &self.details.sandbox
    }

    /// Returns whether the frame's document may be served, which is true once.
    pub(super) fn take_frame(&self) -> bool {
        std::mem::take(&mut self.state().has_frame)
    }

    /// Returns what the audit log has to know of the View for its next record.
    fn next_logged(&self) -> LoggedView<'_> {
        LoggedView {
            number: self.details.number,
            sequence: self.messages.fetch_add(1, Ordering::Relaxed) + 1,
            tool: &self.details.tool,
            owner: self.details.viewer.owner.as_deref(),
            call: self.details.call.as_deref(),
        }
    }

    /// Adds a source that the policy has blocked to the audit log, unless it is there already.
    pub(super) fn blocked(&self, blocked: &Blocked) {
        if self.state().reported.add(blocked) {
            self.views.audit().push_blocked(&self.next_logged(), blocked);
        }
    }

    /// Redeems the ticket if it matches. Returns the receiver of the host's events for the View.
    pub(super) fn redeem(&self, ticket: &str) -> Option<mpsc::Receiver<Event>> {
        let mut state = self.state();
        state.ticket.take_if(|own| own == ticket)?;
        state.host_events.take()
    }

    /// Returns whether the page has yet to open the View's socket.
    pub(super) fn is_waiting(&self) -> bool {
        self.state().ticket.is_some()
    }

    /// Returns what the page needs to show the View.
    pub(super) fn description(&self, sandbox_origin: Option<&str>) -> Value {
        let state = self.state();
        let limits = &self.views.options().limits;
        json!({
            "id": self.details.id,
            "number": self.details.number,
            "ticket": state.ticket,
            "tool": self.details.tool,
            "server": state.server.server,
            "frame": sandbox_origin.map(|origin| format!("{origin}/view/{}", self.details.id)),
            "allow": self.details.sandbox.allow_attribute(),
            "sandbox": self.details.sandbox.sandbox_attribute(),
            "policy": self.details.sandbox.policy(),
            "prefersBorder": self.details.prefers_border,
            "maxMessageBytes": limits.max_message_bytes,
            "maxSocketBytes": self.views.max_socket_bytes(),
            "maxMessages": self.max_messages(),
            "messagesPerSecond": self.messages_per_second(),
            "notes": self.details.notes,
        })
    }

    /// Returns the burst of messages after which the bridge removes the View.
    pub(super) fn max_messages(&self) -> u32 {
        let limits = &self.views.options().limits;
        limits.message_burst.saturating_add(limits.max_refused)
    }

    pub(super) fn messages_per_second(&self) -> u32 {
        self.views.options().limits.messages_per_second
    }

    /// Handles a message of the page. Returns the frames for the page.
    pub(super) fn take(&self, message: PageMessage) -> Vec<String> {
        self.handle(match message {
            PageMessage::Message(message) => {
                let text = message.get();
                self.log(Direction::Received, text);
                let now = self.started.elapsed();
                return self.act(|bridge| bridge.receive(now, text));
            }
            PageMessage::AddMessage { token } => {
                let token = RequestToken::from_number(token);
                // The View may have cancelled its request meanwhile.
                let Some(message) = self.state().asked.remove(&token) else { return Vec::new() };
                let owner = self.details.viewer.owner.as_deref();
                self.views.conversation().add_message(owner, &self.details.tool, &message);
                Event::Answer { token, answer: Ok(json!({})) }
            }
            PageMessage::Answer { token, result, error } => {
                let token = RequestToken::from_number(token);
                self.state().asked.remove(&token);
                Event::Answer { token, answer: error.map_or(Ok(result), Err) }
            }
            PageMessage::TooLong { id, bytes } => Event::TooLong { id, bytes },
            PageMessage::PartialInput(text) => Event::PartialInput(text),
            PageMessage::Input(arguments) => Event::Input(arguments),
            PageMessage::Result(result) => Event::Result(result),
            PageMessage::Cancelled(reason) => Event::Cancelled(reason),
            PageMessage::Context(context) => Event::Context(context),
            PageMessage::DisplayMode(mode) => Event::DisplayMode(mode),
            PageMessage::Progress { token, params } => {
                Event::Progress { token: RequestToken::from_number(token), params }
            }
            PageMessage::CallAppTool { call, name, arguments } => {
                Event::CallAppTool { call, name, arguments }
            }
            PageMessage::Ping {} => Event::Ping,
            PageMessage::Teardown { reason } => Event::Teardown { reason },
            PageMessage::Gone {} => Event::Gone,
        })
    }

    /// Handles an event of the host. Returns the frames for the page.
    pub(super) fn handle(&self, event: Event) -> Vec<String> {
        let now = self.started.elapsed();
        self.act(|bridge| bridge.handle(now, event))
    }

    fn act(&self, act: impl FnOnce(&mut Bridge) -> Vec<Effect>) -> Vec<String> {
        let mut state = self.state();
        let effects = act(&mut state.bridge);
        effects.into_iter().filter_map(|effect| self.perform(&mut state, effect)).collect()
    }

    /// Carries out the server's part of an effect, and returns the frame that tells the page its
    /// part.
    fn perform(&self, state: &mut SessionState, effect: Effect) -> Option<String> {
        let owner = self.details.viewer.owner.as_deref();
        match &effect {
            Effect::Audit(record) => {
                self.views.audit().push(&self.next_logged(), record);
                return None;
            }
            Effect::Send(text) => self.log(Direction::Sent, text),
            Effect::SetModelContext(context) => {
                let conversation = self.views.conversation();
                conversation.set_context(
                    owner,
                    &self.context_key,
                    &self.details.tool,
                    context.clone(),
                );
            }
            Effect::Request { token, request: HostRequest::AddMessage(message) } => {
                state.asked.insert(*token, message.clone());
            }
            Effect::Cancel { token } => {
                state.asked.remove(token);
            }
            _ => {}
        }
        effect_for_page(&effect, &state.server)
    }

    /// Replaces the tools of the View's server, and tells the View if they differ.
    pub(super) fn set_tools(&self, server: ServerTools) {
        let mut state = self.state();
        if state.server.tools != server.tools {
            let tools = server.tools.iter().map(|(tool, _)| tool.clone()).collect();
            // A View that misses this event learns the tools with the next change.
            if self.notify(Event::ServerTools(tools)) {
                state.server = server;
            }
        }
    }

    /// Sends the View an event. Returns whether its page keeps up.
    pub(super) fn notify(&self, event: Event) -> bool {
        self.host_events.try_send(event).is_ok()
    }

    /// When [`Event::Tick`] is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.state().bridge.deadline().map(|deadline| self.started + deadline)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state().bridge.phase() == Phase::Closed
    }

    /// Ends the View's socket.
    pub(super) fn close(&self) {
        self.closed.send_replace(true);
    }

    /// Completes when the socket has to end.
    pub(super) async fn until_closed(&self) {
        _ = self.closed.subscribe().wait_for(|closed| *closed).await;
    }

    fn log(&self, direction: Direction, json: &str) {
        self.views.messages().push(NewMessage {
            side: Side::View,
            direction,
            peer: &self.details.tool,
            owner: self.details.viewer.owner.as_deref(),
            call: self.details.call.as_deref(),
            bytes: json.len(),
            json: Bytes::copy_from_slice(&json.as_bytes()[..json.len().min(MAX_MESSAGE)]),
        });
    }

    fn state(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An effect as the page gets it: JSON text of an object with one member that names it.
fn effect_for_page(effect: &Effect, server: &ServerTools) -> Option<String> {
    let shown = match effect {
        // The bridge wrote the text as JSON.
        Effect::Send(text) => return Some(format!(r#"{{"send":{text}}}"#)),
        Effect::SendToSandbox(text) => return Some(format!(r#"{{"sendToSandbox":{text}}}"#)),
        Effect::Resize(size) => json!({ "resize": size }),
        Effect::ShowMode(mode) => json!({ "showMode": mode }),
        Effect::Request { token, request } => {
            let mut shown = request_for_page(request, server);
            shown["token"] = token.number().into();
            json!({ "request": shown })
        }
        Effect::Cancel { token } => json!({ "cancel": { "token": token.number() } }),
        Effect::SetModelContext(context) => json!({ "modelContext": context }),
        Effect::Log(entry) => json!({ "log": entry }),
        Effect::AppTools(tools) => {
            let tools: Vec<_> = tools
                .iter()
                .map(|it| json!({ "tool": it.tool, "needsConsent": it.needs_consent() }))
                .collect();
            json!({ "appTools": tools })
        }
        Effect::AppAnswer { call, outcome } => match outcome {
            Ok(result) => json!({ "appAnswer": { "call": call, "result": result } }),
            Err(error) => json!({ "appAnswer": { "call": call, "error": error.to_string() } }),
        },
        Effect::Alive(is_alive) => json!({ "alive": is_alive }),
        Effect::Remove(reason) => json!({ "remove": { "reason": reason.to_string() } }),
        // Records are in the audit log; effects of later versions of the bridge are not for this
        // page.
        _ => return None,
    };
    Some(shown.to_string())
}

fn request_for_page(request: &HostRequest, server: &ServerTools) -> Value {
    match request {
        HostRequest::OpenLink { url } => json!({ "openLink": { "url": url } }),
        HostRequest::AddMessage(message) => json!({ "addMessage": message }),
        HostRequest::SetDisplayMode(mode) => json!({ "setDisplayMode": mode }),
        HostRequest::Download(files) => {
            json!({ "download": files.iter().map(file_for_page).collect::<Vec<_>>() })
        }
        HostRequest::CallTool { name, arguments, wants_progress } => {
            // The bridge has found the tool in this list.
            let found = server.tools.iter().find(|(tool, _)| tool.name == *name);
            let exposed = found.map(|(_, exposed)| exposed);
            // It marks arguments that headers repeat.
            let schema = found.map(|(tool, _)| &tool.input_schema);
            json!({ "callTool": { "tool": exposed, "schema": schema, "arguments": arguments, "wantsProgress": wants_progress } })
        }
        HostRequest::Forward { method, params } => {
            json!({ "forward": { "server": server.server, "method": method, "params": params } })
        }
        HostRequest::Sample { params } => json!({ "sample": params }),
        _ => json!({}),
    }
}

fn file_for_page(file: &DownloadFile) -> Value {
    match &file.content {
        DownloadContent::Bytes(bytes) => {
            let data = STANDARD.encode(bytes);
            json!({ "name": file.name, "mimeType": file.mime_type, "data": data })
        }
        DownloadContent::Link(uri) => json!({ "name": file.name, "link": uri }),
    }
}
