use marquetry_protocol::{
    RpcError,
    types::{JsonObject, Tool},
};
use serde_json::Value;

use super::{
    app_tools::{AppCallError, AppTool},
    audit::AuditRecord,
    download::DownloadFile,
    log::LogEntry,
    model_context::ModelContext,
    size::Size,
    user_message::UserMessage,
};
use crate::types::{DisplayMode, HostContext};

/// What happened on the host's side. Messages of the View come through `Bridge::receive`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The model has written so much of the arguments of the call that the View shows, as JSON text.
    PartialInput(String),
    /// The arguments are complete.
    Input(JsonObject),
    /// The call has a result, a `CallToolResult` as JSON.
    Result(Value),
    /// The call ended without a result, for any reason.
    Cancelled(Option<String>),
    /// The host's context is another one.
    Context(Box<HostContext>),
    /// The user shows the View in another mode. Modes that the View does not support are ignored.
    DisplayMode(DisplayMode),
    /// The answer to a [`HostRequest`].
    Answer {
        /// The request.
        token: RequestToken,
        /// The result, or the error for the View.
        answer: Result<Value, RpcError>,
    },
    /// A [`HostRequest::CallTool`] or [`HostRequest::Forward`] makes progress.
    Progress {
        /// The request.
        token: RequestToken,
        /// The members of `notifications/progress` without the token.
        params: JsonObject,
    },
    /// The tools of the View's server are others.
    ServerTools(Vec<Tool>),
    /// Another list of the View's server changed.
    ListChanged(Lists),
    /// Call a tool of the View.
    CallAppTool {
        /// The number that [`Effect::AppAnswer`] repeats.
        call: u64,
        /// The tool.
        name: String,
        /// Its arguments.
        arguments: JsonObject,
    },
    /// The answer of a [`Event::CallAppTool`] is no longer wanted.
    CancelAppCall {
        /// The number of the call.
        call: u64,
    },
    /// Ask the View whether it is alive; [`Effect::Alive`] follows.
    Ping,
    /// A message of the View was too long to be passed on. Its request, if it was one, is refused.
    TooLong {
        /// The id, if it is a request.
        id: Option<marquetry_protocol::RequestId>,
        /// Its length in bytes.
        bytes: usize,
    },
    /// Remove the View, after it had time to save its state.
    Teardown {
        /// Why, for the View.
        reason: String,
    },
    /// The View's frame is gone.
    Gone,
    /// A deadline has passed; see `Bridge::deadline`.
    Tick,
}

/// A list of a server that can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lists {
    /// The resources.
    Resources,
    /// The prompts.
    Prompts,
}

/// A request of a View while the host works on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestToken(u64);

impl RequestToken {
    pub(super) fn new(number: u64) -> Self {
        Self(number)
    }

    /// The token as a number, for messages to another program.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }

    /// The token of this number.
    #[must_use]
    pub fn from_number(number: u64) -> Self {
        Self(number)
    }
}

/// What the host has to do now.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Effect {
    /// Pass this JSON text to the View.
    Send(String),
    /// Pass this JSON text to the sandbox proxy.
    SendToSandbox(String),
    /// Write this to the log.
    Audit(AuditRecord),
    /// Give the View's frame this size.
    Resize(Size),
    /// The View is shown in this mode from now on.
    ShowMode(DisplayMode),
    /// Do this, and answer with [`Event::Answer`].
    Request {
        /// The request.
        token: RequestToken,
        /// What to do.
        request: HostRequest,
    },
    /// The answer of this request is no longer wanted.
    Cancel {
        /// The request.
        token: RequestToken,
    },
    /// Tell the model this with the next message of the user, instead of what this View said before; nothing clears it.
    SetModelContext(Option<ModelContext>),
    /// A log message of the View.
    Log(LogEntry),
    /// The View's tools are these now.
    AppTools(Vec<AppTool>),
    /// The answer of a [`Event::CallAppTool`].
    AppAnswer {
        /// The number of the call.
        call: u64,
        /// The result, a `CallToolResult`; only its `content` is for a model.
        outcome: Result<Value, AppCallError>,
    },
    /// Whether the View answered a ping in time.
    Alive(bool),
    /// Remove the View's frame. Nothing follows.
    Remove(RemoveReason),
}

/// What a View asks its host for.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum HostRequest {
    /// Open this checked URL outside of the View, with the user's consent.
    OpenLink {
        /// The URL.
        url: String,
    },
    /// Add this message to the conversation, with the user's consent.
    AddMessage(UserMessage),
    /// Show the View in this mode; the answer is `{"mode": …}` with the mode that it is shown in.
    SetDisplayMode(DisplayMode),
    /// Save these files, with the user's consent.
    Download(Vec<DownloadFile>),
    /// Call this tool of the View's own server, and of no other.
    CallTool {
        /// The tool.
        name: String,
        /// Its arguments.
        arguments: JsonObject,
        /// The View wants to know of progress.
        wants_progress: bool,
    },
    /// Send this request to the View's own server, and to no other.
    Forward {
        /// The method.
        method: &'static str,
        /// Its parameters, without `_meta`.
        params: JsonObject,
    },
    /// Ask the host's model, after a person has seen the request.
    Sample {
        /// The parameters of `sampling/createMessage`.
        params: JsonObject,
    },
}

/// Why a View is removed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RemoveReason {
    /// The View answered `ui/resource-teardown`, or was not ready for it.
    #[error("the View was closed")]
    Closed,
    /// The View answered `ui/resource-teardown` with an error.
    #[error("the View was closed, and failed to prepare for it: {message}")]
    TeardownFailed {
        /// The View's message.
        message: String,
    },
    /// The View did not answer `ui/resource-teardown` in time.
    #[error("the View was closed without its answer to ui/resource-teardown")]
    TeardownTimedOut,
    /// The frame is gone.
    #[error("the View's frame is gone")]
    Gone,
    /// The View broke a rule that only an attacker or a bug breaks.
    #[error("the View broke a rule: {rule}")]
    Violation {
        /// The rule.
        rule: String,
    },
    /// Too many messages were refused.
    #[error("{refused} messages of the View were refused, more than max_refused")]
    TooManyRefused {
        /// How many.
        refused: u32,
    },
}
