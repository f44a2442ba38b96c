//! What `am7_chat` takes and gives.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What `am7_chat` takes.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ChatArguments {
    pub(crate) message: String,
    /// Of an olio.llm.chatConfig: which model answers, and as whom.
    #[serde(default)]
    pub(crate) chat_config_id: Option<String>,
    /// Or its URI.
    #[serde(default)]
    pub(crate) chat_config_uri: Option<String>,
    /// Of an olio.llm.promptConfig: what the model is told first.
    #[serde(default)]
    pub(crate) prompt_config_uri: Option<String>,
    /// Values for ${name} in it.
    #[serde(default)]
    pub(crate) prompt_arguments: Option<BTreeMap<String, String>>,
    /// The chat to go on with, from an earlier answer.
    #[serde(default)]
    pub(crate) chat_request_uri: Option<String>,
    /// URIs of what to cite from.
    #[serde(default)]
    pub(crate) data_references: Option<Vec<String>>,
    /// Also from what has all of these.
    #[serde(default)]
    pub(crate) tags: Option<Vec<String>>,
    /// Whether the model is sent earlier messages.
    #[serde(default = "yes")]
    #[schemars(default = "yes")]
    pub(crate) include_history: bool,
}

fn yes() -> bool {
    true
}

/// What `am7_chat` answers.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChatReply {
    /// What the model says.
    pub(crate) answer: String,
    /// The chat; give it as chatRequestUri to go on.
    pub(crate) chat_request_uri: String,
    /// The model that answered.
    pub(crate) model: String,
    /// Why the answer ended: "stop"; "length" if it is cut; or what the provider says.
    pub(crate) finish: String,
    /// The URIs of what was cited to the model.
    pub(crate) cited: Vec<String>,
    /// What could not be cited or kept, one sentence each.
    pub(crate) problems: Vec<String>,
    #[serde(skip)]
    pub(crate) counts: Counts,
}

/// Figures of an answer, for `_meta`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Counts {
    /// Tokens of the request, if the provider tells.
    pub(crate) input_tokens: Option<u64>,
    /// Tokens of the answer, if the provider tells.
    pub(crate) output_tokens: Option<u64>,
    /// Passages that were cited.
    pub(crate) passages: usize,
    /// Passages that were left out, as there were too many.
    pub(crate) passages_omitted: usize,
    /// Earlier messages that the model was sent.
    pub(crate) history_sent: usize,
    /// Earlier messages that are kept, and were too old or too long to be sent.
    pub(crate) history_left_out: usize,
    /// Messages that are not kept any more.
    pub(crate) history_dropped: u64,
}
