//! How a client behaves.

use std::{sync::Arc, time::Duration};

use marquetry_protocol_wire::{
    Revision,
    types::{ClientCapabilities, Implementation, LogLevel, ServerCapabilities},
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

#[cfg(feature = "http")]
use super::{authorizer::Authorizer, network::Network};
use super::{
    events::Progress,
    handler::{ClientHandler, NoHandler},
};

/// Options of a client: its name, its capabilities and its limits.
#[derive(Clone)]
pub struct ClientOptions {
    /// Its name and version.
    pub implementation: Implementation,
    /// What it offers.
    pub capabilities: ClientCapabilities,
    /// Answers what the server asks; nothing, by default.
    pub handler: Arc<dyn ClientHandler>,
    /// Authorizes requests to an HTTP server; none by default.
    #[cfg(feature = "http")]
    pub authorizer: Option<Arc<dyn Authorizer>>,
    /// By which proxy an HTTP server is reached, and which certificate authorities are trusted.
    #[cfg(feature = "http")]
    pub network: Network,
    /// Which revision to speak.
    pub revision: RevisionChoice,
    /// How long to wait for an answer to `server/discover` before `initialize` is sent as well: 5 s. A later answer to
    /// `server/discover` still counts.
    pub probe_timeout: Duration,
    /// How long a server may take from its start until both sides know the revision: 60 s (some are downloaded first).
    pub connect_timeout: Duration,
    /// How long a request may take unless its [`CallOptions`] say otherwise: 5 minutes.
    pub request_timeout: Duration,
    /// The longest message to accept, in bytes: 64 MiB. A longer one closes a pipe and fails an HTTP request.
    pub max_message_bytes: usize,
    /// How often in a row a broken HTTP stream of a session is taken up again without anything new on it, before its
    /// request fails: 5 times, with growing pauses.
    pub max_reconnects: usize,
    /// How often a stateless server may ask for input before it has to answer: 10 times.
    pub max_rounds: usize,
    /// Whether [`Client::call_tool`](super::Client::call_tool) checks results against the `outputSchema` of their tools:
    /// yes. It takes the feature `schema`; a client that only passes results on has no use for it.
    pub check_results: bool,
    /// Whether to tell stateless servers that they may go on with calls as tasks, which this client then follows: yes.
    pub tasks: bool,
    /// How long a task may take to its end, unless the call's [`CallOptions`] say otherwise: 1 hour. Then it is
    /// cancelled.
    pub task_timeout: Duration,
    /// The most items to take from a list of many pages: 10,000.
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
            connect_timeout: Duration::from_secs(60),
            request_timeout: Duration::from_secs(300),
            max_message_bytes: 64 << 20,
            max_reconnects: 5,
            max_rounds: 10,
            check_results: true,
            tasks: true,
            task_timeout: Duration::from_secs(3_600),
            max_list_items: 10_000,
        }
    }
}

/// Which revision a client speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RevisionChoice {
    /// The newest that both sides know: asks with `server/discover`, falls back to `initialize`.
    #[default]
    Auto,
    /// The newest of the session era that both sides know, without `server/discover`: for servers that end when they are
    /// asked anything before `initialize`.
    Session,
    /// This one; a server that does not speak it is an error.
    Only(Revision),
}

/// The server's description of itself, and the revision that the connection speaks.
#[derive(Clone, Debug)]
pub struct ServerPeer {
    /// The revision that the connection speaks.
    pub revision: Revision,
    /// Its name and version; empty if a stateless server leaves them out.
    pub info: Implementation,
    /// What it offers.
    pub capabilities: ServerCapabilities,
    /// How to use it, for the model.
    pub instructions: Option<String>,
}

/// How one request is made.
#[derive(Default)]
pub struct CallOptions {
    /// How long the answer may take, if not as long as [`ClientOptions::request_timeout`], or
    /// [`ClientOptions::task_timeout`] for a call that goes on as a task.
    pub timeout: Option<Duration>,
    /// Cancels the request.
    pub cancel: Option<CancellationToken>,
    /// Where progress goes; asks the server for it. What does not fit into the channel is left out.
    pub progress: Option<mpsc::Sender<Progress>>,
    /// Answers what the server asks because of this call, instead of [`ClientOptions::handler`]: questions of a
    /// stateless server, and over Streamable HTTP those that come on the call's own stream. On pipes, and on the stream
    /// of announcements, a session-era server's questions do not say which call they belong to; they go to the handler
    /// of the connection.
    pub handler: Option<Arc<dyn ClientHandler>>,
    /// The capabilities that this call declares to a stateless server, instead of [`ClientOptions::capabilities`].
    pub capabilities: Option<ClientCapabilities>,
    /// The least important log messages that a stateless server shall send during this call; none without it.
    pub log_level: Option<LogLevel>,
    /// Hands a stateless server's questions to the caller, as the result `input_required`, instead of answering them.
    pub pass_questions: bool,
}
