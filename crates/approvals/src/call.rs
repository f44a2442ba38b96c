//! A call that needs a decision.

use serde_json::{Value, value::RawValue};

/// A call that needs a decision: who makes it, and what it would do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallToApprove {
    /// The id of the principal who calls; `None` without authentication.
    pub owner: Option<String>,
    /// The session for which a decision may count; without sessions, the caller.
    pub session: String,
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
        Self { session: session.into(), ..self }
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

/// Hashes arguments. Clients may repeat a call with its members in another order.
fn hash(arguments: Option<&RawValue>) -> [u8; 32] {
    let text = arguments.map_or("{}", RawValue::get);
    let sorted = match serde_json::from_str::<Value>(text) {
        // Numbers that do not fit, and members that are there twice, must return as they were.
        Ok(value) if has_one_reading(text, &value) => sorted(value).to_string(),
        _ => format!("as written: {text}"),
    };
    *blake3::hash(sorted.as_bytes()).as_bytes()
}

/// Returns whether a value has all that its text has: parsers disagree about the rest.
fn has_one_reading(text: &str, value: &Value) -> bool {
    // The value without blanks is as long as the text without them, unless a member was lost or a
    // string or a number was written in another way. Then the text itself is hashed.
    let blanks = text.bytes().filter(|byte| b" \t\r\n".contains(byte)).count();
    let compact = value.to_string();
    let blanks_within = compact.bytes().filter(|byte| *byte == b' ').count();
    text.len() - blanks == compact.len() - blanks_within
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.into_iter().collect();
            members.sort_by(|a, b| a.0.cmp(&b.0));
            members.into_iter().map(|(name, value)| (name, sorted(value))).collect()
        }
        Value::Array(items) => items.into_iter().map(sorted).collect(),
        scalar => scalar,
    }
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
