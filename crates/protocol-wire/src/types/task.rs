//! Tasks: work that goes on after its request was answered (extension `io.modelcontextprotocol/tasks`, SEP-2663).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::RpcError;

/// The name under which both sides declare in `extensions` that they know tasks (SEP-2663).
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// A task as `tasks/get` and `notifications/tasks` show it. The answer that creates one lacks result, error and
/// questions.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// The id of the task; it cannot be guessed.
    pub task_id: String,
    /// How far it is.
    pub status: TaskStatus,
    /// The same in words, for people and models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_message: Option<String>,
    /// When it was created, ISO 8601.
    #[serde(default)]
    pub created_at: String,
    /// When it last changed, ISO 8601.
    #[serde(default)]
    pub last_updated_at: String,
    /// How long it is kept from its creation on, in milliseconds; for ever when there is none.
    #[serde(default)]
    pub ttl_ms: Option<u64>,
    /// How often to ask for it, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll_interval_ms: Option<u64>,
    /// What it asks the client, while it is [`TaskStatus::InputRequired`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub input_requests: BTreeMap<String, InputRequest>,
    /// What the request would have been answered with, once it is [`TaskStatus::Completed`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<RawValue>>,
    /// The same when it [failed](TaskStatus::Failed).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RpcError>,
}

/// How far a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// Under way.
    Working,
    /// Waits for the client's answers.
    InputRequired,
    /// Has a result; a tool that says it failed has one too.
    Completed,
    /// Ended with an error of the protocol.
    Failed,
    /// Was cancelled.
    Cancelled,
}

impl TaskStatus {
    /// Whether nothing more will happen.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// What a server asks its client in a result (2026-07-28, `inputRequests`).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InputRequest {
    /// The method that it would be as a request, for example `elicitation/create`.
    pub method: String,
    /// The parameters of that method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Box<RawValue>>,
}
