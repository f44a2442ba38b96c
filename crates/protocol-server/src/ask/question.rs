//! What a server can ask of its client.

use marquetry_protocol_wire::{
    RpcError,
    types::{ClientCapabilities, CreateMessageResult, ElicitResult, ListRootsResult},
};
use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};
use serde_json::{Value, json, value::RawValue};

/// A question, and what a client has to offer to be asked it.
pub(crate) struct Question {
    pub(crate) method: &'static str,
    pub(crate) is_offered: bool,
    /// The capabilities that it takes.
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

impl Question {
    /// # Errors
    /// When no client can be asked that, or the parameters are not an object.
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
            // Clients that do not say that their model may call tools must not be asked to (2025-11-25, "Sampling").
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
    /// When the answer is none to this question.
    pub(crate) fn check(&self, answer: &RawValue) -> serde_json::Result<()> {
        (self.is_answer)(answer.get())
    }
}
