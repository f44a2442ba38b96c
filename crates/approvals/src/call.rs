//! A call that needs a decision.

use marquetry_protocol_wire::comparable;
use serde_json::value::RawValue;

use crate::SessionScope;

/// A call that needs a decision: who makes it, and what it would do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallToApprove {
    /// The id of the principal who calls; `None` without authentication.
    pub owner: Option<String>,
    /// The session for which a decision may count; without sessions, the caller.
    pub session: String,
    /// What `session` names.
    pub scope: SessionScope,
    /// The name of the server.
    pub server: String,
    /// The server's own name of the tool.
    pub tool: String,
    /// The setting that demands the question.
    pub reason: String,
    /// The hash of the arguments.
    pub arguments: [u8; 32],
}

impl CallToApprove {
    /// Creates the call of a server's tool with these arguments, of a caller without a principal
    /// and a session.
    #[must_use]
    pub fn new(
        server: impl Into<String>,
        tool: impl Into<String>,
        arguments: Option<&RawValue>,
    ) -> Self {
        Self {
            owner: None,
            session: String::new(),
            scope: SessionScope::default(),
            server: server.into(),
            tool: tool.into(),
            reason: String::new(),
            arguments: hash(arguments),
        }
    }

    /// Sets the principal who calls.
    #[must_use]
    pub fn of_principal(self, owner: Option<String>) -> Self {
        Self { owner, ..self }
    }

    /// Sets the session for which a decision may count.
    #[must_use]
    pub fn of_session(self, session: impl Into<String>) -> Self {
        Self { session: session.into(), scope: SessionScope::Session, ..self }
    }

    /// Sets the caller for whom a decision may count, of a call without a session.
    #[must_use]
    pub fn of_caller(self, caller: impl Into<String>) -> Self {
        Self { session: caller.into(), scope: SessionScope::Caller, ..self }
    }

    /// Sets the setting that demands the question.
    #[must_use]
    pub fn because_of(self, reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), ..self }
    }

    /// Returns the name of the principal in the file of decisions.
    pub(crate) fn principal(&self) -> &str {
        // The id of a principal contains a blank, so it is another one.
        self.owner.as_deref().unwrap_or("local")
    }

    /// Returns whether both are the same call of the same caller.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.owner == other.owner
            && self.session == other.session
            && self.server == other.server
            && self.tool == other.tool
            && self.arguments == other.arguments
    }
}

/// Hashes arguments. Clients may repeat a call with its members in another order. Arguments that
/// parsers read differently must return as they were.
fn hash(arguments: Option<&RawValue>) -> [u8; 32] {
    let Some(arguments) = arguments else { return *blake3::hash(b"{}").as_bytes() };
    let text = comparable(arguments).unwrap_or_else(|| format!("as written: {}", arguments.get()));
    *blake3::hash(text.as_bytes()).as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(arguments: &str) -> [u8; 32] {
        hash(Some(&RawValue::from_string(arguments.to_owned()).unwrap()))
    }

    #[test]
    fn the_same_arguments_have_one_hash() {
        assert_eq!(
            of(r#"{"a": 1, "b": {"c": "x y", "d": []}}"#),
            of(r#"{"b":{"d":[],"c":"x y"},"a":1}"#)
        );
        assert_eq!(hash(None), of("{}"));
        for (a, b) in [
            (r#"{"a":1}"#, r#"{"a":2}"#),
            (r#"{"a":1}"#, r#"{"a":"1"}"#),
            (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
            (r#"{"a":2,"a":1}"#, r#"{"a":1,"a":2}"#),
            (r#"{"a":1e999}"#, r#"{"a":2e999}"#),
            (
                r#"{"a":12345678901234567890123,"n":1e1}"#,
                r#"{"a":12345678901234567890999,"n":1e1}"#,
            ),
            (r#"{"p":"safe","n":1000000000000.0}"#, r#"{"p":"/etc","p":"safe","n":1e12}"#),
            (r#"{"a":["x","y"]}"#, r#"{"a":["y","x"]}"#),
        ] {
            assert_ne!(of(a), of(b), "{a} {b}");
        }
    }

    #[test]
    fn another_callers_call_is_not_the_same() {
        let call = CallToApprove::new("s", "t", None).of_session("1");
        assert!(call.is_same(&call.clone().because_of("another rule")));
        assert!(!call.is_same(&call.clone().of_session("2")));
        assert!(!call.is_same(&call.clone().of_principal(Some("- anna".to_owned()))));
        assert_eq!(call.principal(), "local");
    }
}
