//! Tasks: work that continues after its request was answered (extension
//! `io.modelcontextprotocol/tasks`, SEP-2663).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::RpcError;

/// Identifier of the extension in `extensions` of both sides (SEP-2663).
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// A task as `tasks/get` and `notifications/tasks` show it. The answer that creates one lacks
/// result, error and questions.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// Id of the task; it cannot be guessed.
    pub task_id: String,
    /// Status of the task.
    pub status: TaskStatus,
    /// Status in words, for people and models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_message: Option<String>,
    /// Time of creation, ISO 8601.
    #[serde(default)]
    pub created_at: String,
    /// Time of the last change, ISO 8601.
    #[serde(default)]
    pub last_updated_at: String,
    /// Time from its creation for which the task is kept, in milliseconds; `None` for no limit.
    #[serde(default)]
    pub ttl_ms: Option<u64>,
    /// Recommended interval between two requests for the status, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll_interval_ms: Option<u64>,
    /// Questions to the client, while the status is [`TaskStatus::InputRequired`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub input_requests: BTreeMap<String, InputRequest>,
    /// Result of the original request, if the status is [`TaskStatus::Completed`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<RawValue>>,
    /// Error of the original request, if the status is [`TaskStatus::Failed`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RpcError>,
}

/// Status of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// The work is in progress.
    Working,
    /// The task waits for answers of the client.
    InputRequired,
    /// The task has a result, which may be the result of a failed tool.
    Completed,
    /// The task ended with a protocol error.
    Failed,
    /// The task was cancelled.
    Cancelled,
}

impl TaskStatus {
    /// Returns whether the status cannot change any more.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// A question of a server to its client within a result (2026-07-28, `inputRequests`).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InputRequest {
    /// Method of the question, for example `elicitation/create`.
    pub method: String,
    /// The parameters of that method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Box<RawValue>>,
}
