//! The kinds of questions.

use marquetry_protocol_wire::{
    RpcError,
    types::{ClientCapabilities, CreateMessageResult, ElicitResult, ListRootsResult},
};
use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};
use serde_json::{Value, json, value::RawValue};

/// A question, and the capabilities that a client needs for it.
pub(crate) struct QuestionKind {
    pub(crate) method: &'static str,
    pub(crate) is_offered: bool,
    /// Required capabilities.
    pub(crate) needs: Value,
    is_answer: fn(&str) -> serde_json::Result<()>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params<'a> {
    #[serde(borrow)]
    mode: Option<std::borrow::Cow<'a, str>>,
    tools: Option<IgnoredAny>,
    tool_choice: Option<IgnoredAny>,
}

impl QuestionKind {
    /// # Errors
    /// Returns an error if the method is not a question, or the parameters are not an object.
    pub(crate) fn of(
        method: &str,
        params: &RawValue,
        offers: &ClientCapabilities,
    ) -> Result<Self, RpcError> {
        fn is<T: DeserializeOwned>(answer: &str) -> serde_json::Result<()> {
            serde_json::from_str::<T>(answer).map(drop)
        }
        let params: Params<'_> = serde_json::from_str(params.get())
            .map_err(|error| RpcError::invalid_params(error.to_string()))?;
        Ok(match method {
            "elicitation/create" if params.mode.as_deref() == Some("url") => Self {
                method: "elicitation/create",
                is_offered: offers.has_url_elicitation(),
                needs: json!({ "elicitation": { "url": {} } }),
                is_answer: is::<ElicitResult>,
            },
            "elicitation/create" => Self {
                method: "elicitation/create",
                is_offered: offers.has_form_elicitation(),
                needs: json!({ "elicitation": {} }),
                is_answer: is::<ElicitResult>,
            },
            // Only clients with the capability may be asked to let their model call tools
            // (2025-11-25, "Sampling").
            "sampling/createMessage" if params.tools.is_some() || params.tool_choice.is_some() => {
                Self {
                    method: "sampling/createMessage",
                    is_offered: offers.has_sampling_tools(),
                    needs: json!({ "sampling": { "tools": {} } }),
                    is_answer: is::<CreateMessageResult>,
                }
            }
            "sampling/createMessage" => Self {
                method: "sampling/createMessage",
                is_offered: offers.has("sampling"),
                needs: json!({ "sampling": {} }),
                is_answer: is::<CreateMessageResult>,
            },
            "roots/list" => Self {
                method: "roots/list",
                is_offered: offers.has("roots"),
                needs: json!({ "roots": {} }),
                is_answer: is::<ListRootsResult>,
            },
            _ => return Err(RpcError::method_not_found(method)),
        })
    }

    /// # Errors
    /// Returns an error if the answer is not valid for this question.
    pub(crate) fn check(&self, answer: &RawValue) -> serde_json::Result<()> {
        (self.is_answer)(answer.get())
    }
}
