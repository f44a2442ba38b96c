//! Events of questions, for a log and for pages.

use serde_json::{Value, json};

use crate::CallToApprove;

/// A question to a person, as pages show it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Question {
    /// Its number, which is unique while the program runs.
    pub id: u64,
    /// The call.
    pub call: CallToApprove,
    /// The text of the question.
    pub message: String,
}

/// An event in the life of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ApprovalEvent {
    /// The question.
    pub question: Question,
    /// The event.
    pub outcome: ApprovalOutcome,
    /// Where the person has answered, if one has.
    pub by: Option<Answerer>,
}

/// The kind of an event in the life of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ApprovalOutcome {
    /// The question waits for a person.
    Asked,
    /// The call is allowed.
    AllowedOnce,
    /// The tool is allowed for the session.
    AllowedForSession,
    /// The tool is allowed from now on.
    AllowedAlways,
    /// The person said no.
    Declined,
    /// The person gave no answer in time.
    TimedOut,
    /// The call was cancelled, or the client could not ask.
    Withdrawn,
}

/// Where a person has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answerer {
    /// In the client that makes the call.
    Client,
    /// In the console.
    Console,
}

impl ApprovalOutcome {
    /// Returns its name in logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::AllowedOnce => "allowed_once",
            Self::AllowedForSession => "allowed_session",
            Self::AllowedAlways => "allowed_always",
            Self::Declined => "declined",
            Self::TimedOut => "timed_out",
            Self::Withdrawn => "withdrawn",
        }
    }
}

impl Answerer {
    /// Returns its name in logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Console => "console",
        }
    }
}

impl ApprovalEvent {
    /// Returns the event for an audit log. It has the hash of the arguments in place of their
    /// values, so that the event of the call can be found.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let Question { id, call, .. } = &self.question;
        let hash = call.arguments[..8].iter().map(|byte| format!("{byte:02x}"));
        // The id of a principal is its issuer, or `-`, and its name.
        let (issuer, name) = call.principal().split_once(' ').unwrap_or(("-", call.principal()));
        json!({
            "event": "approval",
            "question": id,
            "principal": name,
            "issuer": Some(issuer).filter(|it| *it != "-"),
            "upstream": call.server,
            "tool": call.tool,
            "arguments_hash": hash.collect::<String>(),
            "rule": call.reason,
            "outcome": self.outcome.name(),
            "by": self.by.map(Answerer::name),
        })
    }

    /// Writes a line of the log.
    pub(crate) fn log(&self) {
        let call = &self.question.call;
        let caller = call.principal();
        let server = &*call.server;
        let tool = &call.tool[..call.tool.floor_char_boundary(200)];
        let outcome = self.outcome.name();
        let by = self.by.map(Answerer::name);
        let rule = &*call.reason;
        tracing::info!(caller, server, tool, outcome, by, rule, "a call needs a decision");
    }
}
