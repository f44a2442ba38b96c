//! Events that a host reports to the bridge, and effects that it carries out.

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

/// An event on the host's side. Messages of the View go to `Bridge::receive` instead.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The model has written this part of the call's arguments so far, as JSON text.
    PartialInput(String),
    /// The call's arguments are complete.
    Input(JsonObject),
    /// The call ended with this result, a `CallToolResult` as JSON.
    Result(Value),
    /// The call ended without a result; the text is the reason, if it is known.
    Cancelled(Option<String>),
    /// The host context changed. The host already shows the View in the mode that the context
    /// names, so no [`Effect::ShowMode`] follows.
    Context(Box<HostContext>),
    /// The user chose another display mode. A mode that the View does not support is ignored.
    DisplayMode(DisplayMode),
    /// The host answers a [`HostRequest`].
    Answer {
        /// Token of the request.
        token: RequestToken,
        /// The result, or the error that is sent to the View.
        answer: Result<Value, RpcError>,
    },
    /// A [`HostRequest::CallTool`] or [`HostRequest::Forward`] made progress.
    Progress {
        /// Token of the request.
        token: RequestToken,
        /// The members of `notifications/progress` without the token.
        params: JsonObject,
    },
    /// The tools of the View's server changed; this is the complete list.
    ServerTools(Vec<Tool>),
    /// Another list of the View's server changed.
    ListChanged(Lists),
    /// The host calls a tool of the View.
    CallAppTool {
        /// A number that [`Effect::AppAnswer`] repeats.
        call: u64,
        /// Name of the tool.
        name: String,
        /// Arguments of the call.
        arguments: JsonObject,
    },
    /// The host no longer wants the answer to an [`Event::CallAppTool`].
    CancelAppCall {
        /// The number of the [`Event::CallAppTool`].
        call: u64,
    },
    /// The host asks whether the View is alive; [`Effect::Alive`] follows.
    Ping,
    /// A message of the View was too long to be passed to the bridge. If it was a request, it is
    /// refused.
    TooLong {
        /// Id of the request; `None` for other messages.
        id: Option<marquetry_protocol::RequestId>,
        /// Length of the message, in bytes.
        bytes: usize,
    },
    /// The host wants to remove the View, after it had time to save its state.
    Teardown {
        /// The reason, which is sent to the View.
        reason: String,
    },
    /// The View's frame is gone without [`Event::Teardown`].
    Gone,
    /// A deadline has passed; see `Bridge::deadline`.
    Tick,
}

/// A list of the View's server other than its tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lists {
    /// The list of resources.
    Resources,
    /// The list of prompts.
    Prompts,
}

/// The identity of a View's request while the host works on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestToken(u64);

impl RequestToken {
    /// Returns the token as a number, to send it to another program.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }

    /// Returns the token with this number.
    #[must_use]
    pub fn from_number(number: u64) -> Self {
        Self(number)
    }
}

/// An action that the host must take.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Effect {
    /// Send this JSON text to the View.
    Send(String),
    /// Send this JSON text to the sandbox proxy.
    SendToSandbox(String),
    /// Write this record to the audit log.
    Audit(AuditRecord),
    /// Give the View's frame this size.
    Resize(Size),
    /// Show the View in this mode.
    ShowMode(DisplayMode),
    /// Do what the View requests, then answer with [`Event::Answer`].
    Request {
        /// Token for the answer.
        token: RequestToken,
        /// The View's request.
        request: HostRequest,
    },
    /// Stop working on a request: the View no longer wants the answer.
    Cancel {
        /// Token of the request.
        token: RequestToken,
    },
    /// Send this to the model with the user's next message. It replaces the View's earlier context;
    /// `None` clears the View's context.
    SetModelContext(Option<ModelContext>),
    /// Write this log message of the View.
    Log(LogEntry),
    /// Replace the list of the View's own tools by this one.
    AppTools(Vec<AppTool>),
    /// Use the answer to an [`Event::CallAppTool`].
    AppAnswer {
        /// The number of the [`Event::CallAppTool`].
        call: u64,
        /// The result, a `CallToolResult`. Show the model only its `content`.
        outcome: Result<Value, AppCallError>,
    },
    /// Note the answer to [`Event::Ping`]: true if the View answered in time.
    Alive(bool),
    /// Remove the View's frame. No effect follows.
    Remove(RemoveReason),
}

/// A request of a View that the host has to fulfil.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum HostRequest {
    /// Open this URL outside of the View, if the user agrees. The URL was checked.
    OpenLink {
        /// The URL to open.
        url: String,
    },
    /// Add this message to the conversation, if the user agrees.
    AddMessage(UserMessage),
    /// Show the View in this mode. Answer `{"mode": …}` with the mode in which the View is shown
    /// then.
    SetDisplayMode(DisplayMode),
    /// Save these files, if the user agrees.
    Download(Vec<DownloadFile>),
    /// Call this tool of the View's own server; never one of another server.
    CallTool {
        /// Name of the tool.
        name: String,
        /// Arguments of the call.
        arguments: JsonObject,
        /// Whether the View wants progress notifications.
        wants_progress: bool,
    },
    /// Send this request to the View's own server; never to another server.
    Forward {
        /// Method of the request.
        method: &'static str,
        /// Parameters of the request, without `_meta`.
        params: JsonObject,
    },
    /// Ask the host's model, after the user has seen the request.
    Sample {
        /// Parameters of `sampling/createMessage`.
        params: JsonObject,
    },
}

/// The reason why a View is removed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RemoveReason {
    /// The View answered `ui/resource-teardown`, or was not ready for that request.
    #[error("the View was closed")]
    Closed,
    /// The View answered `ui/resource-teardown` with an error.
    #[error("the View was closed, and failed to prepare for it: {message}")]
    TeardownFailed {
        /// The error message of the View.
        message: String,
    },
    /// The View did not answer `ui/resource-teardown` in time.
    #[error("the View was closed without its answer to ui/resource-teardown")]
    TeardownTimedOut,
    /// The frame is gone.
    #[error("the View's frame is gone")]
    Gone,
    /// The View broke a rule that a correct View never breaks.
    #[error("the View broke a rule: {rule}")]
    Violation {
        /// The broken rule.
        rule: String,
    },
    /// The View sent too many messages that were refused.
    #[error("{refused} messages of the View were refused, which is too many")]
    TooManyRefused {
        /// Number of refused messages.
        refused: u32,
    },
}
