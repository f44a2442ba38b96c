use marquetry_apps_ext::{
    host::{Event, RequestToken},
    types::{DisplayMode, HostContext},
};
use marquetry_protocol::{RequestId, RpcError, types::JsonObject};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::Conversation;

/// What a page says over the socket of a View: an object with exactly one member.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Happened {
    /// The View, or its sandbox proxy, sent this.
    Message(Box<RawValue>),
    /// The View sent something that is too long to be passed on.
    TooLong {
        #[serde(default)]
        id: Option<RequestId>,
        bytes: usize,
    },
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
    /// The user agreed to a message of the View.
    AddMessage {
        token: u64,
        content: Value,
    },
    CallAppTool {
        call: u64,
        name: String,
        #[serde(default)]
        arguments: JsonObject,
    },
    CancelAppCall {
        call: u64,
    },
    Ping {},
    Teardown {
        reason: String,
    },
    Gone {},
}

/// What the bridge is told.
pub(super) enum Told {
    Message(Box<RawValue>),
    Event(Event),
}

impl Happened {
    /// Returns what the bridge is told, and adds a message that the user agreed to.
    pub(super) fn tell(self, conversation: &Conversation, owner: Option<&str>, tool: &str) -> Told {
        Told::Event(match self {
            Self::Message(message) => return Told::Message(message),
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
            Self::AddMessage { token, content } => {
                conversation.add_message(owner, tool, &content);
                Event::Answer { token: RequestToken::from_number(token), answer: Ok(json!({})) }
            }
            Self::CallAppTool { call, name, arguments } => {
                Event::CallAppTool { call, name, arguments }
            }
            Self::CancelAppCall { call } => Event::CancelAppCall { call },
            Self::Ping {} => Event::Ping,
            Self::Teardown { reason } => Event::Teardown { reason },
            Self::Gone {} => Event::Gone,
        })
    }
}
