//! Expectations that code checks.

use std::fmt;

use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{self, MapAccess, Visitor, value::MapAccessDeserializer},
};

use crate::matcher::Matcher;

/// How the calls of a run must agree with the expected ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Matching {
    /// The expected calls, in any order, and no others.
    AnyOrder,
    /// The expected calls in this order; others may come between them.
    InOrder,
    /// The expected calls in this order, and no others.
    Exact,
    /// At least the expected calls, in any order.
    #[default]
    Superset,
}

/// A call that is expected, or forbidden: the name of a tool, or an object with more about the
/// call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "NameOrCall", into = "NameOrCall")]
#[schemars(with = "NameOrCall")]
#[non_exhaustive]
pub struct ExpectedTool {
    /// The name of the tool at its server.
    pub name: String,
    /// The server that has the tool; absent: any.
    pub server: Option<String>,
    /// A [matcher](crate::matcher) of the arguments. Arguments that it does not name may have any
    /// value.
    pub arguments: Option<Matcher>,
    /// The expected result.
    pub result: Option<ResultExpectation>,
}

impl ExpectedTool {
    /// Expects a call of a tool, with any arguments.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), server: None, arguments: None, result: None }
    }

    /// Expects these arguments.
    #[must_use]
    pub fn with_arguments(self, arguments: Matcher) -> Self {
        Self { arguments: Some(arguments), ..self }
    }

    /// Expects this result.
    #[must_use]
    pub fn with_result(self, result: ResultExpectation) -> Self {
        Self { result: Some(result), ..self }
    }

    /// Expects the call at this server.
    #[must_use]
    pub fn at(self, server: impl Into<String>) -> Self {
        Self { server: Some(server.into()), ..self }
    }
}

/// The two forms of an [`ExpectedTool`] in JSON.
#[derive(Clone, Serialize, JsonSchema)]
#[serde(untagged)]
enum NameOrCall {
    Name(String),
    Call(Box<Call>),
}

/// Written by hand, since an untagged enum would hide the mistake in a call.
impl<'de> Deserialize<'de> for NameOrCall {
    fn deserialize<D: Deserializer<'de>>(given: D) -> Result<Self, D::Error> {
        struct Form;

        impl<'de> Visitor<'de> for Form {
            type Value = NameOrCall;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "the name of a tool, or an object with name, server, arguments and result",
                )
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<NameOrCall, E> {
                Ok(NameOrCall::Name(name.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<NameOrCall, A::Error> {
                let call = Call::deserialize(MapAccessDeserializer::new(members))?;
                Ok(NameOrCall::Call(Box::new(call)))
            }
        }

        given.deserialize_any(Form)
    }
}

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Call {
    /// Name of the tool.
    name: String,
    /// Name of the server that has the tool; any server if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    server: Option<String>,
    /// A matcher of the arguments. Arguments that it does not name may have any value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    arguments: Option<Matcher>,
    /// The expected result; any result if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result: Option<ResultExpectation>,
}

impl From<NameOrCall> for ExpectedTool {
    fn from(given: NameOrCall) -> Self {
        match given {
            NameOrCall::Name(name) => Self::new(name),
            NameOrCall::Call(call) => {
                let Call { name, server, arguments, result } = *call;
                Self { name, server, arguments, result }
            }
        }
    }
}

impl From<ExpectedTool> for NameOrCall {
    fn from(tool: ExpectedTool) -> Self {
        match tool {
            ExpectedTool { name, server: None, arguments: None, result: None } => Self::Name(name),
            ExpectedTool { name, server, arguments, result } => {
                Self::Call(Box::new(Call { name, server, arguments, result }))
            }
        }
    }
}

/// The expected result of a call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ResultExpectation {
    /// Whether the call succeeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub success: Option<bool>,
    /// A matcher of the text of the result, all text items joined by line ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<Matcher>,
    /// A matcher of `structuredContent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured: Option<Matcher>,
}

/// Expectations of a whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Expectations {
    /// Minimum number of tool calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_calls: Option<u32>,
    /// Maximum number of tool calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_calls: Option<u32>,
    /// Calls that must not be made: names of tools, or objects with a name and the server or the
    /// arguments of the call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub forbidden_tools: Vec<ExpectedTool>,
    /// A matcher of the model's last text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<Matcher>,
    /// Whether every tool call must succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all_calls_succeed: Option<bool>,
    /// Maximum time of the work on the prompt, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_duration_ms: Option<u64>,
    /// Maximum time of one tool call, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_call_ms: Option<u64>,
    /// Maximum tokens of the work on the prompt, requests and answers together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Minimum `toolAccuracy`, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_tool_accuracy: Option<f64>,
}

impl Expectations {
    /// Whether nothing is expected.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_mistake_in_a_call_is_reported() {
        for (given, said) in [
            (
                json!({"name": "a", "arguments": {"path": {"$regx": "a"}}}),
                "unknown operator \"$regx\"",
            ),
            (json!({"name": "a", "args": {}}), "unknown field `args`, expected one of `name`"),
            (json!({"server": "a"}), "missing field `name`"),
            (json!(1), "expected the name of a tool, or an object"),
        ] {
            let error = serde_json::from_value::<ExpectedTool>(given).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        let short: ExpectedTool = serde_json::from_value(json!("a")).unwrap();
        assert_eq!(json!(short), json!("a"));
        let long = json!({"name": "a", "server": "s", "arguments": {"n": 1}});
        let call: ExpectedTool = serde_json::from_value(long.clone()).unwrap();
        assert_eq!(json!(call), long);
    }
}
