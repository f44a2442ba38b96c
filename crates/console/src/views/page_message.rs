//! Messages of a page over the socket of a View.

use marquetry_apps_ext::{
    host::{Event, RequestToken},
    types::{DisplayMode, HostContext},
};
use marquetry_protocol::{RequestId, RpcError, types::JsonObject};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

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

/// The action that a session takes for [`PageMessage`].
pub(super) enum SessionAction {
    Message(Box<RawValue>),
    Event(Event),
    /// The user agreed to the message of the request with this token.
    Agreed(RequestToken),
}

impl PageMessage {
    pub(super) fn into_action(self) -> SessionAction {
        SessionAction::Event(match self {
            Self::Message(message) => return SessionAction::Message(message),
            Self::AddMessage { token } => {
                return SessionAction::Agreed(RequestToken::from_number(token));
            }
            Self::TooLong { id, bytes } => Event::TooLong { id, bytes },
            Self::PartialInput(text) => Event::PartialInput(text),
            Self::Input(arguments) => Event::Input(arguments),
            Self::Result(result) => Event::Result(result),
            Self::Cancelled(reason) => Event::Cancelled(reason),
            Self::Context(context) => Event::Context(context),
            Self::DisplayMode(mode) => Event::DisplayMode(mode),
            Self::Answer { token, result, error } => Event::Answer {
                token: RequestToken::from_number(token),
                answer: error.map_or(Ok(result), Err),
            },
            Self::Progress { token, params } => {
                Event::Progress { token: RequestToken::from_number(token), params }
            }
            Self::CallAppTool { call, name, arguments } => {
                Event::CallAppTool { call, name, arguments }
            }
            Self::Ping {} => Event::Ping,
            Self::Teardown { reason } => Event::Teardown { reason },
            Self::Gone {} => Event::Gone,
        })
    }
}
