//! Arguments and answer of `am7_chat`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Arguments of a message; those of `am7_chat`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChatArguments {
    /// The message.
    pub message: String,
    /// Of an olio.llm.chatConfig: which model answers, and as whom.
    #[serde(default)]
    pub chat_config_id: Option<String>,
    /// Or its URI.
    #[serde(default)]
    pub chat_config_uri: Option<String>,
    /// Of an olio.llm.promptConfig: what the model is told first.
    #[serde(default)]
    pub prompt_config_uri: Option<String>,
    /// Values for ${name} in it.
    #[serde(default)]
    pub prompt_arguments: Option<BTreeMap<String, String>>,
    /// The chat to go on with, from an earlier answer.
    #[serde(default)]
    pub chat_request_uri: Option<String>,
    /// URIs of what to cite from.
    #[serde(default)]
    pub data_references: Option<Vec<String>>,
    /// Also from what has all of these.
    #[serde(default)]
    pub tags: Option<Vec<String>>,
    /// Whether the model is sent earlier messages.
    #[serde(default = "yes")]
    #[schemars(default = "yes")]
    pub include_history: bool,
}

fn yes() -> bool {
    true
}

/// Answer to a message.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChatReply {
    /// What the model says.
    pub answer: String,
    /// The chat; give it as chatRequestUri to go on.
    pub chat_request_uri: String,
    /// The model that answered.
    pub model: String,
    /// Why the answer ended: "stop"; "length" if it is cut; or what the provider says.
    pub finish: String,
    /// The URIs of what was cited to the model.
    pub cited: Vec<String>,
    /// What could not be cited or kept, one sentence each.
    pub problems: Vec<String>,
    /// Figures, for `_meta`.
    #[serde(skip)]
    pub counts: Counts,
}

/// Figures of an answer, for `_meta`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Tokens of the request, if the provider tells.
    pub input_tokens: Option<u64>,
    /// Tokens of the answer, if the provider tells.
    pub output_tokens: Option<u64>,
    /// Passages that were cited.
    pub passages: usize,
    /// Passages that were left out, as there were too many.
    pub passages_omitted: usize,
    /// Earlier messages that the model was sent.
    pub history_sent: usize,
    /// Earlier messages that are kept, and were too old or too long to be sent.
    pub history_left_out: usize,
    /// Messages that are not kept any more.
    pub history_dropped: u64,
}
