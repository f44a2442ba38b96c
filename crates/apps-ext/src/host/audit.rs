//! Records of the messages between View and host.

use std::time::Duration;

use marquetry_protocol::{RequestId, shortened};
use serde::Serialize;

/// A record of one message between View and host, for a log. It does not hold the text, so its size
/// is bounded.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AuditRecord {
    /// Time of the message, counted from the start of the bridge.
    pub at: Duration,
    /// Sender and receiver.
    pub direction: Direction,
    /// Kind of the message.
    pub kind: MessageKind,
    /// Method, cut to 200 bytes; `None` for a response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Id as JSON, cut to 200 bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Length of the message in bytes of JSON.
    pub bytes: usize,
    /// The bridge's decision on the message.
    pub verdict: Verdict,
}

impl AuditRecord {
    pub(super) fn new(
        at: Duration,
        direction: Direction,
        kind: MessageKind,
        method: Option<&str>,
        id: Option<&RequestId>,
        bytes: usize,
    ) -> Self {
        let id = id.map(|id| match id {
            RequestId::Number(number) => shortened(&number.to_string()).to_owned(),
            RequestId::String(text) => format!("{:?}", shortened(text)),
        });
        let method = method.map(|it| shortened(it).to_owned());
        Self { at, direction, kind, method, id, bytes, verdict: Verdict::Accepted }
    }

    pub(super) fn with(mut self, verdict: Verdict) -> Self {
        self.verdict = verdict;
        self
    }
}

/// Sender and receiver of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From the View to the host.
    FromView,
    /// From the host to the View.
    ToView,
    /// From the sandbox proxy to the host.
    FromSandbox,
    /// From the host to the sandbox proxy.
    ToSandbox,
}

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MessageKind {
    /// A message that expects an answer.
    Request,
    /// A message that expects no answer.
    Notification,
    /// The result of a request.
    Result,
    /// The error of a request.
    Error,
    /// Text that is not a JSON-RPC message.
    Unreadable,
}

/// The bridge's decision on a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "is", content = "why")]
pub enum Verdict {
    /// The bridge acted on the message.
    Accepted,
    /// The bridge answered with an error, or ignored the message; the text is the reason.
    Refused(String),
    /// The message breaks a rule that a correct View never breaks. The View is removed.
    Violation(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_small_whatever_the_view_sends() {
        let long = "m".repeat(100_000);
        let record = AuditRecord::new(
            Duration::from_millis(1_500),
            Direction::FromView,
            MessageKind::Request,
            Some(&long),
            Some(&RequestId::String(long.clone())),
            7,
        );
        let text = serde_json::to_string(&record.with(Verdict::Refused("no".into()))).unwrap();
        assert!(text.len() < 700, "{text}");
        assert!(text.contains(r#""verdict":{"is":"refused","why":"no"}"#), "{text}");
    }
}
