//! How a client behaves, and what can go wrong.

use std::{io, sync::Arc, time::Duration};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

#[cfg(feature = "http-client")]
use super::{AuthorizationError, Authorizer, Network, Refusal};
use super::{
    handler::{ClientHandler, NoHandler},
    link::{CloseReason, Progress},
};
use crate::{
    Revision, RpcError,
    types::{ClientCapabilities, Implementation, LogLevel, ServerCapabilities},
};

/// How a client introduces itself, and what it puts up with.
#[derive(Clone)]
pub struct ClientOptions {
    /// Its name and version.
    pub implementation: Implementation,
    /// What it offers.
    pub capabilities: ClientCapabilities,
    /// Answers what the server asks; nothing, by default.
    pub handler: Arc<dyn ClientHandler>,
    /// Proves to an HTTP server who we are; nobody, by default.
    #[cfg(feature = "http-client")]
    pub authorizer: Option<Arc<dyn Authorizer>>,
    /// By which proxy an HTTP server is reached, and which certificate authorities are trusted.
    #[cfg(feature = "http-client")]
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
            #[cfg(feature = "http-client")]
            authorizer: None,
            #[cfg(feature = "http-client")]
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

/// What a server said of itself.
#[derive(Clone, Debug)]
pub struct ServerPeer {
    /// The revision that the connection speaks.
    pub revision: Revision,
    /// Who it is; a stateless server may keep that to itself.
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
    /// What a stateless server is told that we offer in this call, instead of [`ClientOptions::capabilities`].
    pub capabilities: Option<ClientCapabilities>,
    /// The least important log messages that a stateless server shall send during this call; none without it.
    pub log_level: Option<LogLevel>,
    /// Hands a stateless server's questions to the caller, as the result `input_required`, instead of answering them.
    pub pass_questions: bool,
}

/// Why a request has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The server answered with an error.
    #[error("{0}")]
    Rpc(RpcError),
    /// The connection is closed.
    #[error("connection is closed: {0}")]
    Closed(CloseReason),
    /// No answer in time; the request was cancelled.
    #[error("no answer within {} s", .0.as_secs_f64())]
    Timeout(Duration),
    /// The caller cancelled the request.
    #[error("request was cancelled")]
    Cancelled,
    /// The server asked something that we could not answer (2026-07-28, `input_required`).
    #[error("server asks for input that it does not get: {0}")]
    Unanswered(RpcError),
    /// A tool's result is not what its `outputSchema` promises.
    #[error("result of tool '{tool}' breaks its outputSchema: {faults}")]
    OutputSchema {
        /// The tool.
        tool: String,
        /// What is wrong, and where.
        faults: String,
        /// The result as the server wrote it, for those who can do with it.
        result: Box<serde_json::value::RawValue>,
    },
    /// The task that a call went on as was cancelled, by the server or at another's wish.
    #[error("the server's task was cancelled")]
    TaskCancelled,
    /// The server asked again and again.
    #[error("server has asked for input {0} times without an answer of its own")]
    TooManyRounds(usize),
    /// An HTTP answer that is no MCP answer.
    #[error("server answered with HTTP status {status}{}", said(.body))]
    Http {
        /// The status.
        status: u16,
        /// The start of its body.
        body: String,
    },
    /// The server wants authorization, or a wider one, and nobody has got it.
    #[cfg(feature = "http-client")]
    #[error("{0}")]
    Unauthorized(Box<Refusal>),
    /// The authorization that the server wants cannot be had.
    #[cfg(feature = "http-client")]
    #[error("no authorization: {0}")]
    Authorization(#[from] AuthorizationError),
    /// What the server sent makes no sense.
    #[error("server broke the protocol: {0}")]
    Protocol(String),
    /// The revision that was asked for is not spoken there.
    #[error("server does not speak {0}")]
    Revision(String),
    /// A program could not be started, or an address not be reached.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What came of it.
        source: io::Error,
    },
}

impl ClientError {
    #[cfg(any(feature = "stdio", feature = "http-client"))]
    pub(super) fn io(
        what: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Io { what: what.into(), source: io::Error::other(source) }
    }
}

fn said(body: &str) -> String {
    if body.is_empty() { String::new() } else { format!(": {body}") }
}
