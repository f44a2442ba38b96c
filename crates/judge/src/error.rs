//! Why a trial has no verdict.

use marquetry_llm::ChatError;
use marquetry_protocol::client::ClientError;

use crate::{budget::LimitReached, cassette::CassetteError, judge::JudgeError, models::advice};

/// Why a case or a trial ended with the status `error`. `Display` says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrialError {
    /// A member of the case is missing or invalid.
    #[error("{member} {problem}")]
    Case {
        /// The member.
        member: &'static str,
        /// What is wrong with it, and what to do.
        problem: String,
    },
    /// A case names a tool that no server has.
    #[error("{member} names the tool {tool:?}, which no server lists{}; tools: {known}", did_you_mean(.nearest.as_deref()))]
    UnknownTool {
        /// The member.
        member: &'static str,
        /// The tool.
        tool: String,
        /// A tool with a similar name.
        nearest: Option<String>,
        /// The tools.
        known: String,
    },
    /// A server could not be started, reached or listed.
    #[error("server {server:?} did not start: {error}; check serverConfigs{}", last_output(.stderr))]
    Connect {
        /// The server.
        server: String,
        /// Why.
        error: Box<ClientError>,
        /// The last lines of its standard error.
        stderr: String,
    },
    /// A server ended its connection during a call.
    #[error("server {server:?} ended the connection during a call of {tool:?}: {error}{}", last_output(.stderr))]
    ServerEnded {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
        /// Why.
        error: Box<ClientError>,
        /// The last lines of its standard error.
        stderr: String,
    },
    /// A server behind a URL refused the request of a call.
    #[error(
        "server {server:?} refused a call of {tool:?}: {error}; check its URL and headers in serverConfigs, and whether it runs"
    )]
    ServerRefused {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
        /// Why.
        error: Box<ClientError>,
    },
    /// The test was stopped before its end, for the given reason.
    #[error("the test was stopped: {0}")]
    Stopped(String),
    /// A limit was reached.
    #[error("{0}")]
    Limit(#[from] LimitReached),
    /// The call of the agent's model failed.
    #[error("failed to call the agent's model: {error}{advice}", advice = advice(.error, .member))]
    Agent {
        /// The member of the case that has the model's settings.
        member: &'static str,
        /// Why.
        error: ChatError,
    },
    /// The model's answer was cut.
    #[error(
        "the answer of the agent's model was cut at its maximum length: raise {member}.maxTokens ({max_tokens})"
    )]
    AnswerCut {
        /// The member of the case that has the model's settings.
        member: &'static str,
        /// The maximum length, in tokens.
        max_tokens: u32,
    },
    /// The provider withheld the model's answer.
    #[error(
        "the provider of the agent's model withheld an answer (content filter): change the prompt"
    )]
    Filtered,
    /// The judge gave no verdict.
    #[error("{0}")]
    Judge(#[from] JudgeError),
    /// A replay differs from its recording.
    #[error("{0}")]
    Cassette(#[from] CassetteError),
}

impl TrialError {
    pub(crate) fn case(member: &'static str, problem: impl Into<String>) -> Self {
        Self::Case { member, problem: problem.into() }
    }
}

fn did_you_mean(tool: Option<&str>) -> String {
    tool.map_or_else(String::new, |tool| format!("; did you mean {tool:?}?"))
}

/// Returns the last lines of a server's standard error, as text that follows the error.
pub(crate) fn last_output(stderr: &str) -> String {
    if stderr.is_empty() { String::new() } else { format!("; its last output: {stderr}") }
}
