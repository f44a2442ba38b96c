//! Requests of a server to its client, and log levels.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use super::{JsonObject, valid_or_default};

/// Severity of a log message (RFC 5424), least severe first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Details for debugging.
    Debug,
    /// A normal event.
    Info,
    /// A normal but noteworthy event.
    Notice,
    /// A sign that an operation may fail.
    Warning,
    /// A failed operation.
    Error,
    /// A failed component.
    Critical,
    /// A failure on which a person must act at once.
    Alert,
    /// The system is unusable.
    Emergency,
}

impl LogLevel {
    /// Returns the nearest of the four levels of 2024-10-07.
    #[must_use]
    pub fn nearest_of_four(self) -> Self {
        match self {
            Self::Notice => Self::Info,
            Self::Critical | Self::Alert | Self::Emergency => Self::Error,
            level => level,
        }
    }
}

/// The parameters of `elicitation/create`, which asks the user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ElicitParams {
    /// `url` sends the user to a web page (since 2025-11-25); otherwise the user fills in a form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Text that is shown to the user.
    pub message: String,
    /// The form's fields: an object of primitive values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_schema: Option<Value>,
    /// URL of the web page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Id that `notifications/elicitation/complete` uses for this request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elicitation_id: Option<String>,
}

impl ElicitParams {
    /// Returns a request to fill in a form.
    #[must_use]
    pub fn form(message: impl Into<String>, schema: Value) -> Self {
        Self {
            mode: None,
            message: message.into(),
            requested_schema: Some(schema),
            url: None,
            elicitation_id: None,
        }
    }

    /// Returns a request to visit a web page.
    #[must_use]
    pub fn url(
        message: impl Into<String>,
        url: impl Into<String>,
        elicitation_id: impl Into<String>,
    ) -> Self {
        Self {
            mode: Some("url".to_owned()),
            message: message.into(),
            requested_schema: None,
            url: Some(url.into()),
            elicitation_id: Some(elicitation_id.into()),
        }
    }

    /// Returns the initial values of the form: the `default` of each field that has one (SEP-1034).
    /// A field that the user does not change keeps its default in the answer.
    #[must_use]
    pub fn defaults(&self) -> JsonObject {
        let properties = self.requested_schema.as_ref().and_then(|schema| schema.get("properties"));
        let fields = properties.and_then(Value::as_object).into_iter().flatten();
        fields
            .filter_map(|(name, field)| Some((name.clone(), field.get("default")?.clone())))
            .collect()
    }
}

/// The user's reaction to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ElicitAction {
    /// The user filled in the form and sent it, or visited the page.
    Accept,
    /// The user refused.
    Decline,
    /// The user closed the request without an answer.
    Cancel,
}

/// The answer to `elicitation/create`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ElicitResult {
    /// The user's reaction.
    pub action: ElicitAction,
    /// The values of the form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<JsonObject>,
}

impl ElicitResult {
    /// Returns the answer of a user who sent these values. After a visit to a web page there are no
    /// values.
    #[must_use]
    pub fn accept(content: impl Into<Option<JsonObject>>) -> Self {
        Self { action: ElicitAction::Accept, content: content.into() }
    }

    /// Returns the answer of a user who refused.
    #[must_use]
    pub fn decline() -> Self {
        Self { action: ElicitAction::Decline, content: None }
    }
}

/// The answer to `roots/list`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ListRootsResult {
    /// The folders in which the server may work.
    pub roots: Vec<Root>,
}

/// A folder or file with which the server may work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Root {
    /// A `file:` URI.
    pub uri: String,
    /// Name of the root, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// The parameters of `completion/complete`, which asks for possible values of an argument.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompleteParams {
    /// The prompt or resource template with the argument.
    #[serde(rename = "ref")]
    pub reference: CompleteReference,
    /// The argument that is being typed.
    pub argument: CompleteArgument,
    /// The other arguments, which have a value already (since 2025-06-18).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<CompleteContext>,
}

/// The prompt or resource template whose argument is completed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum CompleteReference {
    /// An argument of a prompt.
    #[serde(rename = "ref/prompt")]
    Prompt {
        /// Name of the prompt.
        name: String,
    },
    /// An argument of a resource template.
    #[serde(rename = "ref/resource")]
    Resource {
        /// URI template.
        uri: String,
    },
}

/// The argument that is being typed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompleteArgument {
    /// Name of the argument.
    pub name: String,
    /// The part of the value that was typed.
    pub value: String,
}

/// The arguments that have a value already.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompleteContext {
    /// Values by the names of the arguments.
    #[serde(default)]
    pub arguments: std::collections::BTreeMap<String, String>,
}

/// The answer to `completion/complete`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "JsonObject")]
pub struct CompleteResult {
    /// The possible values.
    pub completion: Completion,
}

/// Servers without a suggestion write an empty object or `null`, and some leave out `completion` or
/// `values` around those that they have. An answer without any has no suggestion.
impl From<JsonObject> for CompleteResult {
    fn from(mut members: JsonObject) -> Self {
        let completion = match members.shift_remove("completion") {
            Some(values @ Value::Array(_)) => json!({ "values": values }),
            Some(completion) => completion,
            None => Value::Object(members),
        };
        Self { completion: serde_json::from_value(completion).unwrap_or_default() }
    }
}

/// Possible values of an argument.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Completion {
    /// The best values, at most 100.
    #[serde(default, deserialize_with = "only_strings")]
    pub values: Vec<String>,
    /// Number of all possible values.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "valid_or_default"
    )]
    pub total: Option<u64>,
    /// Whether there are more values than those in [`Self::values`].
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "valid_or_default"
    )]
    pub has_more: Option<bool>,
}

/// Leaves out values that are not strings, so that they do not hide the others.
fn only_strings<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let Value::Array(values) = Value::deserialize(deserializer)? else { return Ok(Vec::new()) };
    let strings = values.into_iter().filter_map(|value| match value {
        Value::String(string) => Some(string),
        _ => None,
    });
    Ok(strings.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_in_odd_forms_are_read() {
        for (odd, values) in [
            (json!({ "completion": { "values": ["a", "b"] } }), vec!["a", "b"]),
            (json!({ "completion": ["a", "b"] }), vec!["a", "b"]),
            (json!({ "values": ["a", "b"] }), vec!["a", "b"]),
            (json!({ "completion": { "values": null } }), vec![]),
            (json!({ "completion": {} }), vec![]),
            (json!({ "completion": null }), vec![]),
            (json!({ "completion": "a" }), vec![]),
            (json!({}), vec![]),
        ] {
            let result: CompleteResult = serde_json::from_value(odd.clone()).unwrap();
            assert_eq!(result.completion.values, values, "{odd}");
        }
        assert!(serde_json::from_value::<CompleteResult>(json!("a")).is_err());
    }

    #[test]
    fn invalid_members_of_a_completion_do_not_hide_its_values() {
        let odd = json!({ "values": [7, "a", null, "b"], "total": "2", "hasMore": "no" });
        let completion: Completion = serde_json::from_value(odd).unwrap();
        let values = vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(completion, Completion { values, total: None, has_more: None });
        let right = json!({ "values": ["a"], "total": 7, "hasMore": true });
        let completion: Completion = serde_json::from_value(right.clone()).unwrap();
        assert_eq!(json!(completion), right);
    }

    #[test]
    fn a_form_starts_with_its_defaults() {
        let schema = json!({ "type": "object", "properties": {
            "name": { "type": "string", "default": "Ada" },
            "age": { "type": "integer" },
            "sure": { "type": "boolean", "default": false },
        } });
        let defaults = ElicitParams::form("who?", schema).defaults();
        assert_eq!(Value::Object(defaults), json!({ "name": "Ada", "sure": false }));
        assert!(ElicitParams::form("who?", json!(true)).defaults().is_empty());
        assert!(ElicitParams::url("go", "https://example.com", "1").defaults().is_empty());
    }
}
