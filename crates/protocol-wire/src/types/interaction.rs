//! What a server asks of its client, and what it tells it beside answers.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::JsonObject;

/// How much a log message matters (RFC 5424), least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// For those who look for a fault.
    Debug,
    /// What normally happens.
    Info,
    /// Normal, but worth a look.
    Notice,
    /// Something may go wrong.
    Warning,
    /// Something went wrong.
    Error,
    /// A part does not work.
    Critical,
    /// Somebody must act now.
    Alert,
    /// Nothing works.
    Emergency,
}

impl LogLevel {
    /// The nearest of the four levels that 2024-10-07 has.
    #[must_use]
    pub fn of_four(self) -> Self {
        match self {
            Self::Notice => Self::Info,
            Self::Critical | Self::Alert | Self::Emergency => Self::Error,
            level => level,
        }
    }
}

/// `elicitation/create`: asks the user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ElicitParams {
    /// `url` to send the user to a page (since 2025-11-25); a form otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// What the user is told.
    pub message: String,
    /// The form's fields: an object of primitive values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_schema: Option<Value>,
    /// The page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Names the request in `notifications/elicitation/complete`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elicitation_id: Option<String>,
}

impl ElicitParams {
    /// A form.
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

    /// A page to visit.
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

    /// What the form holds before the user touches it: the `default` of each field that has one (SEP-1034). Fields
    /// that the user leaves alone are answered with it.
    #[must_use]
    pub fn defaults(&self) -> JsonObject {
        let properties = self.requested_schema.as_ref().and_then(|schema| schema.get("properties"));
        let fields = properties.and_then(Value::as_object).into_iter().flatten();
        fields
            .filter_map(|(name, field)| Some((name.clone(), field.get("default")?.clone())))
            .collect()
    }
}

/// What the user did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ElicitAction {
    /// Filled in and sent.
    Accept,
    /// Said no.
    Decline,
    /// Went away.
    Cancel,
}

/// The answer to `elicitation/create`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ElicitResult {
    /// What the user did.
    pub action: ElicitAction,
    /// What the user filled in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<JsonObject>,
}

impl ElicitResult {
    /// The user sent the form with these values, or went to the page, for which there are none.
    #[must_use]
    pub fn accept(content: impl Into<Option<JsonObject>>) -> Self {
        Self { action: ElicitAction::Accept, content: content.into() }
    }

    /// The user said no.
    #[must_use]
    pub fn decline() -> Self {
        Self { action: ElicitAction::Decline, content: None }
    }
}

/// The answer to `roots/list`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ListRootsResult {
    /// The places that the user lets the server work in.
    pub roots: Vec<Root>,
}

/// A place that the user lets the server work in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Root {
    /// A `file:` URI.
    pub uri: String,
    /// Its name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// `completion/complete`: what an argument may be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompleteParams {
    /// Whose argument.
    #[serde(rename = "ref")]
    pub reference: CompleteReference,
    /// Which argument, and what there is of it.
    pub argument: CompleteArgument,
    /// The arguments filled in already (since 2025-06-18).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<CompleteContext>,
}

/// Whose argument is to be completed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum CompleteReference {
    /// A prompt's.
    #[serde(rename = "ref/prompt")]
    Prompt {
        /// The prompt.
        name: String,
    },
    /// A resource template's.
    #[serde(rename = "ref/resource")]
    Resource {
        /// The template.
        uri: String,
    },
}

/// The argument that is being typed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompleteArgument {
    /// Its name.
    pub name: String,
    /// What there is of it.
    pub value: String,
}

/// The arguments filled in already.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompleteContext {
    /// By name.
    #[serde(default)]
    pub arguments: std::collections::BTreeMap<String, String>,
}

/// The answer to `completion/complete`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CompleteResult {
    /// What the argument may be.
    pub completion: Completion,
}

/// What an argument may be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Completion {
    /// The best, at most 100.
    pub values: Vec<String>,
    /// How many there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// Whether there are more than those given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub has_more: Option<bool>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
