//! Errors of requests.

use std::{io, time::Duration};

use marquetry_protocol_wire::RpcError;

#[cfg(feature = "http")]
use super::authorizer::{AuthorizationError, Refusal};
use super::events::CloseReason;
#[cfg(feature = "stdio")]
use super::program_error::ProgramError;
#[cfg(feature = "http")]
use super::unreached::{Unreached, UnreachedKind};

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
    /// The server did not answer in time. The limit of a request is
    /// [`CallOptions::timeout`](super::CallOptions), or else one of
    /// [`ClientOptions`](super::ClientOptions), and the request was cancelled. Notifications and
    /// subscriptions have fixed limits.
    #[error("no answer within {} s", .0.as_secs_f64())]
    Timeout(Duration),
    /// The caller cancelled the request.
    #[error("request was cancelled")]
    Cancelled,
    /// The server asked a question that the client could not answer (2026-07-28, `input_required`).
    #[error("server asks for input that this client cannot give: {0}")]
    Unanswered(RpcError),
    /// A tool's result violates its `outputSchema`.
    #[error("result of tool '{tool}' breaks its outputSchema: {faults}")]
    OutputSchema {
        /// The tool.
        tool: String,
        /// The violations, each with its JSON pointer.
        faults: String,
        /// The result as the server wrote it, for callers that can use it.
        result: Box<serde_json::value::RawValue>,
    },
    /// The tool reports a failure; see [`Client::call_tool_as`](super::Client::call_tool_as).
    #[error("tool '{tool}' failed: {message}")]
    ToolFailed {
        /// The tool.
        tool: String,
        /// Message of the error.
        message: String,
    },
    /// The call continued as a task, which was cancelled by the server or by another client.
    #[error("the server's task was cancelled")]
    TaskCancelled,
    /// The server asked for input in too many rounds.
    #[error("server has asked for input {0} times without returning a result")]
    TooManyRounds(usize),
    /// An HTTP error status without a message of MCP.
    #[error("server answered with HTTP status {status}{}", suffix(.body))]
    Http {
        /// The status.
        status: u16,
        /// The start of the response body. If a 404 refuses only the request and not the session, a
        /// note about that comes first.
        body: String,
    },
    /// The server refused the request as unauthorized: HTTP 401, or 403 with a challenge.
    #[cfg(feature = "http")]
    #[error("{0}")]
    Unauthorized(Box<Refusal>),
    /// The client failed to get the authorization that the server requires.
    #[cfg(feature = "http")]
    #[error("no authorization: {0}")]
    Authorization(#[from] AuthorizationError),
    /// The parameters of a request cannot be sent: they are not a JSON object, or do not fit into a
    /// header.
    #[error("invalid parameters: {problem}")]
    Params {
        /// The problem with the parameters.
        problem: String,
    },
    /// The server's answer violates the protocol or exceeds a limit of this client.
    #[error("{}{}", prefix(.0), .0)]
    Protocol(#[from] ProtocolError),
    /// The server is not started, with the reason. For programs that start servers, such as
    /// gateways.
    #[error("not started: {0}")]
    NotStarted(String),
    /// The server does not speak the requested revision.
    #[error("server does not speak {0}")]
    Revision(String),
    /// A program could not be started, an address could not be reached, or a URL is invalid.
    #[error("{what}: {source}")]
    Io {
        /// What failed: the start of the error's text, such as `cannot reach HOST`.
        what: String,
        /// The cause.
        source: io::Error,
    },
}

/// An answer of a server that cannot be used: it violates the protocol, or exceeds a limit of this
/// client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// A message is not valid JSON-RPC.
    #[error("invalid message: {0}")]
    Message(String),
    /// The body of an HTTP response is a web page.
    #[error("the answer is a web page (text/html), not a message of MCP")]
    WebPage,
    /// The body of an HTTP response is not an answer to its request.
    #[error("the body is not an answer to the request")]
    NoAnswer,
    /// The result of a method is invalid.
    #[error("invalid result of '{method}': {problem}")]
    Result {
        /// The method.
        method: String,
        /// The problem with the result.
        problem: String,
    },
    /// The answer of a tool is not the value that the caller wants.
    #[error("answer of tool '{tool}' cannot be read: {problem}")]
    ToolAnswer {
        /// The tool.
        tool: String,
        /// The problem with the answer.
        problem: String,
    },
    /// A result has a `resultType` that this client does not know.
    #[error("result of '{method}' has an unknown `resultType`")]
    ResultType {
        /// The method.
        method: String,
    },
    /// The server answered with a task to a method that does not support tasks.
    #[error("server returned a task for '{method}', which does not support tasks")]
    UnexpectedTask {
        /// The method.
        method: String,
    },
    /// A task has ended without a result or an error.
    #[error("task has ended without a result or an error")]
    TaskWithoutOutcome,
    /// A message exceeds
    /// [`ClientOptions::max_message_bytes`](super::ClientOptions::max_message_bytes).
    #[error("server sent a message of more than {limit} bytes")]
    MessageTooLong {
        /// The limit.
        limit: usize,
    },
    /// A list has more items than
    /// [`ClientOptions::max_list_items`](super::ClientOptions::max_list_items).
    #[error("'{method}' lists more than {limit} items")]
    TooManyItems {
        /// The method.
        method: String,
        /// The limit.
        limit: usize,
    },
    /// The pages of a list have more bytes together than a message may have.
    #[error("'{method}' lists more than {limit} bytes")]
    ListTooLong {
        /// The method.
        method: String,
        /// The limit.
        limit: usize,
    },
    /// A page of a list names a cursor that an earlier page named: the server lists in a circle.
    #[error("'{method}' names the cursor of an earlier page as its next")]
    RepeatedCursor {
        /// The method.
        method: String,
    },
    /// A page of a list names a cursor that is not a string.
    #[error("'{method}' names a cursor that is not a string")]
    InvalidCursor {
        /// The method.
        method: String,
    },
    /// All pages of a list together take longer than a request may.
    #[error("'{method}' takes more than {} s for all its pages", limit.as_secs_f64())]
    ListTooSlow {
        /// The method.
        method: String,
        /// The limit.
        limit: Duration,
    },
    /// The server refused a later page of a list, or the page is invalid.
    #[error("'{method}' failed after its first page: {problem}")]
    PageFailed {
        /// The method.
        method: String,
        /// The error of the page.
        problem: String,
    },
    /// A list has many consecutive pages without a valid item.
    #[error("'{method}' returned more than {limit} consecutive pages without a valid item")]
    TooManyEmptyPages {
        /// The method.
        method: String,
        /// The limit.
        limit: usize,
    },
    /// An event stream ended before the answer to its request.
    #[error("stream ended before the answer")]
    StreamEnded,
    /// An event stream ended before the answer, and several attempts to resume it brought no new
    /// event.
    #[error(
        "stream ended before the answer, and {attempts} attempts to resume it brought no new event"
    )]
    StreamNotResumed {
        /// Number of attempts.
        attempts: usize,
    },
    /// An event stream ended before the answer, and the server refused to resume it.
    #[error("stream ended before the answer, and the server refused to resume it: {refusal}")]
    ResumeRefused {
        /// The answer to the attempt.
        refusal: String,
    },
    /// An event id is not a valid header value.
    #[error("the id of an event is not a valid header value")]
    EventId,
    /// A redirect that is not followed.
    #[error("{url} redirects to an address that {problem}")]
    Redirect {
        /// The redirecting URL.
        url: String,
        /// Why the redirect is not followed.
        problem: &'static str,
    },
    /// Too many redirects.
    #[error("{url} redirects more than {limit} times")]
    TooManyRedirects {
        /// The URL.
        url: String,
        /// The limit.
        limit: usize,
    },
    /// The stream of HTTP+SSE ended before its `endpoint` event.
    #[error("stream ended before its `endpoint` event")]
    NoMessageEndpoint,
    /// The message endpoint of HTTP+SSE is not used.
    #[error("message endpoint '{endpoint}' {problem}")]
    MessageEndpoint {
        /// The endpoint, as the server named it.
        endpoint: String,
        /// Why the endpoint is not used.
        problem: &'static str,
    },
    /// The server closed the stream of notifications before it accepted the subscription.
    #[error("the stream of notifications did not open")]
    NoNotificationStream,
}

impl ProtocolError {
    /// Returns whether the server kept to the protocol, and exceeded a limit of this client.
    fn is_limit(&self) -> bool {
        matches!(
            self,
            Self::MessageTooLong { .. }
                | Self::TooManyItems { .. }
                | Self::ListTooLong { .. }
                | Self::ListTooSlow { .. }
                | Self::TooManyEmptyPages { .. }
                | Self::Redirect { .. }
                | Self::TooManyRedirects { .. }
                | Self::StreamNotResumed { .. }
                | Self::PageFailed { .. }
        )
    }

    pub(super) fn result(method: &str, problem: impl ToString) -> Self {
        Self::Result { method: method.to_owned(), problem: problem.to_string() }
    }
}

impl ClientError {
    /// Returns why the address of a server cannot be reached, if that is the error.
    #[cfg(feature = "http")]
    #[must_use]
    pub fn unreached(&self) -> Option<UnreachedKind> {
        let Self::Io { source, .. } = self else { return None };
        Some(source.get_ref()?.downcast_ref::<Unreached>()?.kind)
    }

    /// Returns why a program cannot be started, if
    /// [`StdioCommand::find_program`](super::StdioCommand::find_program) has found that.
    #[cfg(feature = "stdio")]
    #[must_use]
    pub fn program(&self) -> Option<&ProgramError> {
        let Self::Io { source, .. } = self else { return None };
        source.get_ref()?.downcast_ref()
    }

    /// Returns the error for an invalid result of `method`, which is the server's fault.
    pub(super) fn result(method: &str, problem: impl ToString) -> Self {
        ProtocolError::result(method, problem).into()
    }

    /// Returns the error for parameters that cannot be sent.
    pub(super) fn params(problem: impl ToString) -> Self {
        Self::Params { problem: problem.to_string() }
    }

    #[cfg(any(feature = "stdio", feature = "http"))]
    pub(super) fn io(
        what: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Io { what: what.into(), source: io::Error::other(source) }
    }
}

fn prefix(error: &ProtocolError) -> &'static str {
    if error.is_limit() { "" } else { "server violated the protocol: " }
}

fn suffix(body: &str) -> String {
    if body.is_empty() { String::new() } else { format!(": {body}") }
}
