//! Options of clients.

use std::{sync::Arc, time::Duration};

use marquetry_protocol_wire::{
    Revision,
    types::{ClientCapabilities, Implementation, LogLevel, ServerCapabilities},
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    answer_memory::AnswerMemory,
    events::Progress,
    handler::{ClientHandler, NoHandler},
};
#[cfg(feature = "http")]
use super::{authorizer::Authorizer, network::Network};

/// Options of a client: its name, its capabilities and its limits.
#[derive(Clone)]
pub struct ClientOptions {
    /// Name and version of the client.
    pub implementation: Implementation,
    /// Capabilities of the client.
    pub capabilities: ClientCapabilities,
    /// Answers the server's questions; none by default.
    pub handler: Arc<dyn ClientHandler>,
    /// Authorizes requests to an HTTP server; none by default.
    #[cfg(feature = "http")]
    pub authorizer: Option<Arc<dyn Authorizer>>,
    /// Proxy and certificate authorities for HTTP servers.
    #[cfg(feature = "http")]
    pub network: Network,
    /// The revision to speak.
    pub revision: RevisionChoice,
    /// Time to wait for an answer to `server/discover` before `initialize` is sent as well: 5 s. A
    /// later answer to `server/discover` is still used.
    pub probe_timeout: Duration,
    /// Maximum time of the handshake: 60 s (some servers are downloaded first).
    pub connect_timeout: Duration,
    /// Time limit of a request without its own limit in [`CallOptions`]: 5 minutes.
    pub request_timeout: Duration,
    /// Longest message to accept, in bytes: 64 MiB. A longer one fails the request that it answers;
    /// on a pipe, it closes the connection if that request is unknown.
    pub max_message_bytes: usize,
    /// Attempts to resume a broken HTTP stream of a session without a new event, before its request
    /// fails: 5, with growing pauses.
    pub max_reconnects: usize,
    /// Number of times that a stateless server may ask for input before it must answer: 10.
    pub max_rounds: usize,
    /// Whether [`Client::call_tool`](super::Client::call_tool) checks results against the
    /// `outputSchema` of their tools: true. It needs the feature `schema`. Clients that only
    /// forward results do not need the check.
    pub check_results: bool,
    /// Whether members that are `null` are removed from results with content: false. For programs
    /// that forward results to clients which refuse such members; see
    /// [`remove_null_members`](marquetry_protocol_wire::null_members::remove_null_members).
    pub remove_nulls: bool,
    /// Whether stateless servers may continue calls as tasks, which this client then follows: true.
    pub tasks: bool,
    /// Time limit of a task without its own limit in the call's [`CallOptions`]: 1 hour. Then the
    /// task is cancelled.
    pub task_timeout: Duration,
    /// Maximum number of items of a list, over all its pages: 10,000. Further ones are left out.
    pub max_list_items: usize,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            implementation: Implementation::new("marquetry", env!("CARGO_PKG_VERSION")),
            capabilities: ClientCapabilities::default(),
            handler: Arc::new(NoHandler),
            #[cfg(feature = "http")]
            authorizer: None,
            #[cfg(feature = "http")]
            network: Network::default(),
            revision: RevisionChoice::Auto,
            probe_timeout: Duration::from_secs(5),
            connect_timeout: Duration::from_mins(1),
            request_timeout: Duration::from_mins(5),
            max_message_bytes: 64 << 20,
            max_reconnects: 5,
            max_rounds: 10,
            check_results: true,
            remove_nulls: false,
            tasks: true,
            task_timeout: Duration::from_hours(1),
            max_list_items: 10_000,
        }
    }
}

/// The revision that a client speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RevisionChoice {
    /// The newest that both sides support: asks with `server/discover`, or else with `initialize`.
    #[default]
    Auto,
    /// The newest of the session era that both sides support, without `server/discover`: for
    /// servers that exit at any request before `initialize`.
    Session,
    /// Only this revision; connecting to a server without it fails.
    Only(Revision),
}

/// The server's description of itself, and the revision that the connection speaks.
#[derive(Clone, Debug)]
pub struct ServerPeer {
    /// The revision that the connection speaks.
    pub revision: Revision,
    /// Name and version of the server; empty if a stateless server leaves them out.
    pub info: Implementation,
    /// Capabilities of the server.
    pub capabilities: ServerCapabilities,
    /// Instructions for the model.
    pub instructions: Option<String>,
}

/// Options of one request.
#[derive(Default)]
pub struct CallOptions {
    /// Time limit; by default [`ClientOptions::request_timeout`], or
    /// [`ClientOptions::task_timeout`] for a call that continues as a task.
    pub timeout: Option<Duration>,
    /// Cancels the request.
    pub cancel: Option<CancellationToken>,
    /// Receives progress, and asks the server for it. Progress that does not fit into the channel
    /// is dropped.
    pub progress: Option<mpsc::Sender<Progress>>,
    /// Answers the server's questions because of this call, instead of [`ClientOptions::handler`]:
    /// questions of a stateless server, and over Streamable HTTP those on the call's own stream. On
    /// pipes, and on the stream of announcements, a session-era server's questions do not name
    /// their call; they go to the connection's handler.
    pub handler: Option<Arc<dyn ClientHandler>>,
    /// The capabilities that this call declares to a stateless server, instead of
    /// [`ClientOptions::capabilities`].
    pub capabilities: Option<ClientCapabilities>,
    /// The lowest level of log messages that a stateless server should send during this call; none
    /// by default.
    pub log_level: Option<LogLevel>,
    /// Returns a stateless server's questions to the caller, as the result `input_required`,
    /// instead of answering them.
    pub pass_questions: bool,
    /// Counts the memory of the answer for the call's caller; it is not counted without it.
    pub memory: Option<AnswerMemory>,
}
