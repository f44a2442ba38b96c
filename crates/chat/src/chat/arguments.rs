//! Arguments and answer of `am7_chat`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::context::{ContextItem, OmittedContext};

/// Arguments of a message, and of `am7_chat`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChatArguments {
    /// Text.
    pub message: String,
    /// Id of an olio.llm.chatConfig: model and character.
    #[serde(default)]
    pub chat_config_id: Option<String>,
    /// Or its URI.
    #[serde(default)]
    pub chat_config_uri: Option<String>,
    /// URI of an olio.llm.promptConfig: the system prompt.
    #[serde(default)]
    pub prompt_config_uri: Option<String>,
    /// Values for ${name} in it.
    #[serde(default)]
    pub prompt_arguments: Option<BTreeMap<String, String>>,
    /// The chat to continue.
    #[serde(default)]
    pub chat_request_uri: Option<String>,
    /// URIs of records to cite.
    #[serde(default)]
    pub data_references: Option<Vec<String>>,
    /// Also cite records with all of these tags.
    #[serde(default)]
    pub tags: Option<Vec<String>>,
    /// For this message: [{kind: reminder|keyframe|metrics, schema, data, uri?, ephemeral?,
    /// expires?}]
    #[serde(default)]
    // The whole schema of an item would cost each conversation 1.4 KB.
    #[schemars(with = "Option<Vec<Map<String, Value>>>")]
    pub context: Option<Vec<ContextItem>>,
    /// Sends earlier messages, too.
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
    /// Answer of the model.
    pub answer: String,
    /// The chat; pass it as chatRequestUri to continue.
    pub chat_request_uri: String,
    /// The model that answered.
    pub model: String,
    /// "stop"; "length" if the answer is cut; or the provider's reason.
    pub finish: String,
    /// URIs of the cited passages.
    pub cited: Vec<String>,
    /// Problems with citations, pictures and stored context, and with storing the chat, one
    /// sentence each.
    pub problems: Vec<String>,
    /// Context that the model did not get.
    #[serde(rename = "left_out")]
    pub left_out: Vec<OmittedContext>,
    /// URI of the keyframe that the model wrote after this message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keyframe: Option<String>,
    /// All blocks that went to the model with the message, in their order, for programs that show
    /// them to the user. They are not stored.
    #[serde(skip)]
    pub blocks: String,
    /// The model's reasoning before its answer, if it wrote any. It is not stored.
    #[serde(skip)]
    pub reasoning: Option<String>,
    /// Figures, for `_meta`.
    #[serde(skip)]
    pub counts: Counts,
}

/// Figures of an answer, for `_meta`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Tokens of the request, if the provider reports them.
    pub input_tokens: Option<u64>,
    /// Tokens of the answer, if the provider reports them.
    pub output_tokens: Option<u64>,
    /// Passages that were cited.
    pub passages: usize,
    /// Passages that exceeded the limits.
    pub passages_omitted: usize,
    /// Earlier messages that were sent to the model.
    pub history_sent: usize,
    /// Stored messages that were not sent, because of their age or length.
    pub history_left_out: usize,
    /// Messages that are no longer stored.
    pub history_dropped: u64,
    /// Contexts and messages of Views of tools that were sent to the model.
    pub view_contexts: usize,
}
