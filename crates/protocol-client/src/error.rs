//! What can go wrong with a request.

use std::{io, time::Duration};

use marquetry_protocol_wire::RpcError;

#[cfg(feature = "http")]
use super::authorizer::{AuthorizationError, Refusal};
use super::events::CloseReason;

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
    /// The tool says that it failed; see [`Client::call_tool_as`](super::Client::call_tool_as).
    #[error("tool '{tool}' failed: {message}")]
    ToolFailed {
        /// The tool.
        tool: String,
        /// Its message.
        message: String,
    },
    /// The task that a call went on as was cancelled, by the server or at another's wish.
    #[error("the server's task was cancelled")]
    TaskCancelled,
    /// The server asked for input in too many rounds.
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
    /// The server requires authorization, or a wider scope, and the client has none.
    #[cfg(feature = "http")]
    #[error("{0}")]
    Unauthorized(Box<Refusal>),
    /// The client failed to get the authorization that the server requires.
    #[cfg(feature = "http")]
    #[error("no authorization: {0}")]
    Authorization(#[from] AuthorizationError),
    /// The server broke the protocol.
    #[error("server broke the protocol: {0}")]
    Protocol(String),
    /// The revision that was asked for is not spoken there.
    #[error("server does not speak {0}")]
    Revision(String),
    /// A program could not be started, or an address not be reached.
    #[error("{what}: {source}")]
    Io {
        /// The operation that failed.
        what: String,
        /// The cause.
        source: io::Error,
    },
}

impl ClientError {
    #[cfg(any(feature = "stdio", feature = "http"))]
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
