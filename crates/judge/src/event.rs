//! Events of a run, for progress views.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Status, ToolCallRecord,
    result::{Turn, Vote},
};

/// Something that happened during a case.
///
/// Events contain secrets unredacted; only results are redacted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum TestEvent {
    /// A trial begins.
    TrialStarted {
        /// Its number, from 0.
        trial: u32,
        /// The number of trials.
        of: u32,
    },
    /// All servers are connected.
    Connected {
        /// The trial.
        trial: u32,
        /// The servers.
        servers: Vec<String>,
        /// The number of tools that the model gets.
        tools: u32,
    },
    /// The model has answered.
    Turn {
        /// The trial.
        trial: u32,
        /// The answer; its calls follow.
        turn: Turn,
    },
    /// A tool call begins.
    CallStarted {
        /// The trial.
        trial: u32,
        /// The tool.
        tool_name: String,
        /// The server.
        server_id: String,
    },
    /// A tool call has ended.
    CallEnded {
        /// The trial.
        trial: u32,
        /// The call.
        call: ToolCallRecord,
    },
    /// The judge has voted.
    Vote {
        /// The trial.
        trial: u32,
        /// The vote.
        vote: Vote,
    },
    /// A trial has ended.
    TrialEnded {
        /// Its number, from 0.
        trial: u32,
        /// Its outcome.
        status: Status,
        /// Reason, if the status is `error`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
}

/// Callback for the events of a case.
pub(crate) type OnEvent = dyn Fn(&TestEvent) + Send + Sync;
