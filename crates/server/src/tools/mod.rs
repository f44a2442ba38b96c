//! The tools that this server has itself.

mod artifacts;
mod plantuml;

use marquetry_protocol::{
    server::{RequestContext, Toolbox},
    types::{CallToolParams, CallToolResult, Tool},
};
use serde_json::json;

use self::plantuml::has_no_text;
pub(crate) use self::{
    artifacts::{Artifacts, LIST, READ},
    plantuml::{
        DECODE, DecodeArguments, DiagramError, DiagramFormat, Diagrams, ENCODE, EncodeArguments,
    },
};

/// All of them, ready to be listed and called.
pub(crate) struct BuiltIns {
    toolbox: Toolbox,
    listed: Vec<Tool>,
}

impl BuiltIns {
    /// Diagrams, and the artifacts that captured answers became.
    pub(crate) fn new(diagrams: &Diagrams, artifacts: &Artifacts) -> Self {
        let toolbox = Toolbox::new("marquetry", env!("CARGO_PKG_VERSION"));
        let toolbox = artifacts.add_to(diagrams.add_to(toolbox));
        let listed = toolbox.tools().map(listed).collect();
        Self { toolbox, listed }
    }

    /// Their names, which no upstream can have.
    pub(crate) const NAMES: [&str; 4] = [ENCODE, DECODE, LIST, READ];

    /// The tools as `tools/list` shows them.
    pub(crate) fn listed(&self) -> &[Tool] {
        &self.listed
    }

    /// Calls one; none when the name is not one of ours.
    pub(crate) async fn call(
        &self,
        params: &CallToolParams,
        cx: &RequestContext,
    ) -> Option<CallToolResult> {
        if params.name == ENCODE && params.arguments.as_deref().is_some_and(has_no_text) {
            let error = DiagramError::EncodingFailed;
            let meta = json!({"marquetry/error": {"code": error.code()}});
            let result = CallToolResult::error(error.to_string());
            return Some(CallToolResult { meta: meta.as_object().cloned(), ..result });
        }
        self.toolbox.call(&params.name, params.arguments.as_deref(), cx).await
    }
}

/// A tool with what the type of its arguments cannot say.
fn listed(tool: &Tool) -> Tool {
    let title = match tool.name.as_str() {
        ENCODE => "Encode a PlantUML diagram",
        DECODE => "Decode a PlantUML diagram",
        LIST => "List artifacts",
        READ => "Read an artifact",
        other => other,
    };
    // None of ours changes anything, or reaches beyond this process.
    let hints = json!({"readOnlyHint": true, "idempotentHint": true, "openWorldHint": false});
    Tool { title: Some(title.to_owned()), annotations: hints.as_object().cloned(), ..tool.clone() }
}
