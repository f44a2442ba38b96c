use std::time::Duration;

use marquetry_protocol::{RequestId, shortened};
use serde::Serialize;

/// One message between View and host, for the log. Its text is not kept, so that a record has a bounded size.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AuditRecord {
    /// When, counted from the start of the bridge.
    pub at: Duration,
    /// From whom to whom.
    pub direction: Direction,
    /// What kind of message.
    pub kind: MessageKind,
    /// Its method, at most 200 bytes of it; none of a response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Its id, as JSON, at most 200 bytes of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Its length in bytes of JSON.
    pub bytes: usize,
    /// What the bridge did with it.
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

/// From whom to whom a message went.
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
    /// It wants an answer.
    Request,
    /// It wants none.
    Notification,
    /// It is the result of a request.
    Result,
    /// It is the error of a request.
    Error,
    /// It is no message of JSON-RPC.
    Unreadable,
}

/// What the bridge did with a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "is", content = "why")]
pub enum Verdict {
    /// It was acted on.
    Accepted,
    /// It was answered with an error, or not acted on.
    Refused(String),
    /// It breaks a rule that only an attacker or a bug breaks; the View is removed.
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
