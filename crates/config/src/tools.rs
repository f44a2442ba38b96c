//! The section `[tools]`: the server's own tools.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// This server's own tools, in groups. Tools cost tokens in every conversation, a few thousand for
/// all groups. A tool of a disabled group is not listed and cannot be called.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ToolsConfig {
    /// Diagrams: `encodePlantUML`, `decodePlantUML`, and with an engine `renderPlantUML` and
    /// `checkPlantUML`.
    pub diagrams: bool,
    /// Artifacts: `list_artifacts`, `read_artifact` and `delete_artifact`. Without them, artifacts
    /// can only be read as resources.
    pub artifacts: bool,
    /// Records and search: the tools `am7_*`. `enabled` in `[knowledge]` also switches their
    /// resources off.
    pub knowledge: bool,
    /// Chat: `am7_chat`, if `[knowledge.chat]` names a model and `knowledge` is on.
    pub chat: bool,
    /// Vectors of texts: `am7_embed`, if `knowledge` is on. For programs with an index of their
    /// own; a model has no use for vectors.
    pub embedding: bool,
}

impl Default for ToolsConfig {
    fn default() -> Self {
        Self { diagrams: true, artifacts: true, knowledge: true, chat: true, embedding: false }
    }
}
