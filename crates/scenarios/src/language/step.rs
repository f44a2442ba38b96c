//! Steps: each does one thing.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    expect::Expect, given::Tool, matcher::Matcher, matrix::Only, source::Source,
    template::Template, units::Span,
};

/// One step: exactly one of `call`, `request`, `http`, `socket`, `upstream` and `wait_for`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Step {
    /// The behaviour that the step shows, for reports.
    pub(crate) title: Option<String>,
    /// The transports, revisions and stores that it runs with.
    pub(crate) only: Vec<Only>,

    /// Calls this tool of the server.
    pub(crate) call: Option<String>,
    /// The call's arguments.
    pub(crate) with: Option<Template>,
    /// The call's arguments as JSON text, sent as it is.
    pub(crate) with_json: Option<Source>,
    /// Cancels the call after this time, with a notification to the server.
    pub(crate) cancel_after: Option<Span>,
    /// Sends any other MCP request.
    pub(crate) request: Option<McpRequest>,
    /// Sends an HTTP request.
    pub(crate) http: Option<HttpRequest>,
    /// Exchanges messages over a WebSocket.
    pub(crate) socket: Option<SocketExchange>,
    /// Changes an upstream: it crashes, or gets other tools.
    pub(crate) upstream: Option<UpstreamEvent>,
    /// Waits for a notification from the server.
    pub(crate) wait_for: Option<WaitFor>,

    /// Maximum time until the answer.
    pub(crate) within: Option<Span>,
    /// Repeats the step until its expectation holds, for at most this time.
    pub(crate) eventually: Option<Span>,
    /// The expected result.
    pub(crate) expect: Option<Expect>,
    /// Parts of the result to save, as name → JSON pointer; later steps write `${name}`.
    pub(crate) save: BTreeMap<String, String>,
}

/// An MCP request.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct McpRequest {
    pub(crate) method: String,
    pub(crate) params: Option<Template>,
}

/// An HTTP request to the server.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HttpRequest {
    pub(crate) method: String,
    /// Path from the root; it may hold captures.
    pub(crate) path: String,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    /// A JSON body, sent with its content type.
    pub(crate) json: Option<Template>,
    /// A body, sent byte for byte.
    pub(crate) body: Option<Source>,
    /// Reads the response for this time, then closes the connection.
    pub(crate) hang_up_after: Option<Span>,
    /// Sends this many copies of the request, each on its own connection, and never reads an
    /// answer. The connections stay open until the case ends.
    pub(crate) unread: Option<usize>,
}

/// Messages over a WebSocket with the server. Its connection stays open for the steps that follow.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SocketExchange {
    /// Opens a connection at this path, which may hold captures. Without it, the step uses the open
    /// one.
    pub(crate) open: Option<String>,
    /// The subprotocols of a new connection.
    #[serde(default)]
    pub(crate) protocols: Vec<String>,
    /// JSON messages to send, in order.
    #[serde(default)]
    pub(crate) send: Vec<Template>,
    /// Number of messages to wait for, at most for `within`; those that follow at once are
    /// received, too.
    #[serde(default)]
    pub(crate) receive: usize,
}

/// A change of an upstream: exactly one of `crash` and `tools`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UpstreamEvent {
    /// Name of the upstream.
    pub(crate) name: String,
    /// It exits without a message.
    #[serde(default)]
    pub(crate) crash: bool,
    /// It has these tools from now on, and announces that.
    pub(crate) tools: Option<BTreeMap<String, Tool>>,
}

/// A notification to wait for.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WaitFor {
    /// Its method.
    pub(crate) notification: String,
    /// Expected parameters.
    pub(crate) params: Option<Matcher>,
}

/// The action of a step.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action<'a> {
    Call {
        tool: &'a str,
        with: Option<&'a Template>,
        with_json: Option<&'a Source>,
        cancel_after: Option<Span>,
    },
    Request(&'a McpRequest),
    Http(&'a HttpRequest),
    Socket(&'a SocketExchange),
    Upstream(&'a UpstreamEvent),
    WaitFor(&'a WaitFor),
}

impl Step {
    /// Returns the one action of the step; `None` if it has none or several.
    pub(crate) fn action(&self) -> Option<Action<'_>> {
        let mut actions = [
            self.call.as_deref().map(|tool| Action::Call {
                tool,
                with: self.with.as_ref(),
                with_json: self.with_json.as_ref(),
                cancel_after: self.cancel_after,
            }),
            self.request.as_ref().map(Action::Request),
            self.http.as_ref().map(Action::Http),
            self.socket.as_ref().map(Action::Socket),
            self.upstream.as_ref().map(Action::Upstream),
            self.wait_for.as_ref().map(Action::WaitFor),
        ]
        .into_iter()
        .flatten();
        actions.next().filter(|_| actions.next().is_none())
    }

    /// Returns its description for reports.
    pub(crate) fn name(&self) -> String {
        if let Some(title) = &self.title {
            return title.clone();
        }
        match self.action() {
            Some(Action::Call { tool, .. }) => format!("call {tool}"),
            Some(Action::Request(request)) => request.method.clone(),
            Some(Action::Http(request)) => format!("{} {}", request.method, request.path),
            Some(Action::Socket(exchange)) => match &exchange.open {
                Some(path) => format!("socket {path}"),
                None => "socket".into(),
            },
            Some(Action::Upstream(event)) => format!("upstream {}", event.name),
            Some(Action::WaitFor(wait)) => format!("wait for {}", wait.notification),
            None => "nothing".into(),
        }
    }
}
