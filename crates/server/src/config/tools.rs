//! Which of this server's own tools are listed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// This server's own tools, by groups. What is listed costs every conversation some thousand tokens; a tool that is not listed cannot be called.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ToolsConfig {
    /// Diagrams: `encodePlantUML` and `decodePlantUML`.
    pub diagrams: bool,
    /// The artifacts that captured answers became: `list_artifacts`, `read_artifact` and the like. Without them, what is cut can be read as resources alone.
    pub artifacts: bool,
    /// Records, and passages that are found in them: the tools `am7_*`. `enabled` of `[knowledge]` switches off their resources as well.
    pub knowledge: bool,
    /// Chat with a model: `am7_chat`, where `[knowledge.chat]` says with which, and `knowledge` is on.
    pub chat: bool,
}

impl Default for ToolsConfig {
    fn default() -> Self {
        Self { diagrams: true, artifacts: true, knowledge: true, chat: true }
    }
}
