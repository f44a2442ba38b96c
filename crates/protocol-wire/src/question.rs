//! The questions that a server may ask its client: elicitation, sampling and roots.

use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};
use serde_json::{Value, json, value::RawValue};

use crate::{
    RpcError,
    types::{ClientCapabilities, CreateMessageResult, ElicitResult, ListRootsResult},
};

/// A kind of question, and whether the client supports it.
#[derive(Clone, Debug)]
pub struct QuestionKind {
    /// The method of the question.
    pub method: &'static str,
    /// Whether the client supports it.
    pub is_supported: bool,
    /// The capabilities that a client needs, in the form of `requiredCapabilities`.
    pub required_capabilities: Value,
    validate: fn(&str) -> serde_json::Result<()>,
}

/// The parameters on which the required capabilities depend.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct QuestionParams<'a> {
    #[serde(borrow)]
    mode: Option<std::borrow::Cow<'a, str>>,
    tools: Option<IgnoredAny>,
    tool_choice: Option<IgnoredAny>,
}

impl QuestionKind {
    /// Returns the kind of a question to a client with these capabilities.
    ///
    /// # Errors
    /// Returns an error if the method is not a question, or the parameters are not an object.
    pub fn of(
        method: &str,
        params: &RawValue,
        capabilities: &ClientCapabilities,
    ) -> Result<Self, RpcError> {
        let params: QuestionParams<'_> = serde_json::from_str(params.get())
            .map_err(|error| RpcError::invalid_params(error.to_string()))?;
        Ok(match method {
            "elicitation/create" if params.mode.as_deref() == Some("url") => Self {
                method: "elicitation/create",
                is_supported: capabilities.has_url_elicitation(),
                required_capabilities: json!({ "elicitation": { "url": {} } }),
                validate: validate::<ElicitResult>,
            },
            "elicitation/create" => Self {
                method: "elicitation/create",
                is_supported: capabilities.has_form_elicitation(),
                required_capabilities: json!({ "elicitation": {} }),
                validate: validate::<ElicitResult>,
            },
            // Only clients with the capability may be asked to let their model call tools
            // (2025-11-25, "Sampling").
            "sampling/createMessage" if params.tools.is_some() || params.tool_choice.is_some() => {
                Self {
                    method: "sampling/createMessage",
                    is_supported: capabilities.has_sampling_tools(),
                    required_capabilities: json!({ "sampling": { "tools": {} } }),
                    validate: validate::<CreateMessageResult>,
                }
            }
            "sampling/createMessage" => Self {
                method: "sampling/createMessage",
                is_supported: capabilities.has("sampling"),
                required_capabilities: json!({ "sampling": {} }),
                validate: validate::<CreateMessageResult>,
            },
            "roots/list" => Self {
                method: "roots/list",
                is_supported: capabilities.has("roots"),
                required_capabilities: json!({ "roots": {} }),
                validate: validate::<ListRootsResult>,
            },
            _ => return Err(RpcError::method_not_found(method)),
        })
    }

    /// Checks that an answer is valid for this question.
    ///
    /// # Errors
    /// Returns an error if it is not.
    pub fn check(&self, answer: &RawValue) -> serde_json::Result<()> {
        (self.validate)(answer.get())
    }
}

/// Checks that a text is the JSON of a `T`.
fn validate<T: DeserializeOwned>(text: &str) -> serde_json::Result<()> {
    serde_json::from_str::<T>(text).map(drop)
}
