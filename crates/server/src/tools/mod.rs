//! The tools that this server has itself.

mod artifacts;
mod knowledge;
mod plantuml;

use marquetry_protocol::{
    RpcError,
    server::{Reply, RequestContext, Toolbox},
    types::{CallToolParams, CallToolResult, Tool},
};
use serde_json::json;

use self::plantuml::has_no_text;
pub(crate) use self::{
    artifacts::{Artifacts, LIST, READ},
    knowledge::{ERROR, KnowledgeTools, SEARCH, error_code},
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
    /// Diagrams, the artifacts that captured answers became, and knowledge.
    pub(crate) fn new(
        diagrams: &Diagrams,
        artifacts: &Artifacts,
        knowledge: &KnowledgeTools,
    ) -> Self {
        let toolbox = Toolbox::new("marquetry", env!("CARGO_PKG_VERSION"));
        let mut toolbox = artifacts.add_to(diagrams.add_to(toolbox));
        if knowledge.is_enabled() {
            toolbox = knowledge.add_to(toolbox);
        }
        let listed = toolbox.tools().map(listed).collect();
        Self { toolbox, listed }
    }

    /// The names that no upstream can have.
    pub(crate) fn names(has_knowledge: bool) -> Vec<&'static str> {
        let mut names = vec![ENCODE, DECODE, LIST, READ];
        if has_knowledge {
            names.extend(KnowledgeTools::NAMES);
        }
        names
    }

    /// The tools as `tools/list` shows them.
    pub(crate) fn listed(&self) -> &[Tool] {
        &self.listed
    }

    /// Calls one; none when the name is not one of ours.
    pub(crate) async fn call(
        &self,
        params: &CallToolParams,
        cx: &RequestContext,
    ) -> Option<Result<Reply, RpcError>> {
        if params.name == ENCODE && params.arguments.as_deref().is_some_and(has_no_text) {
            let error = DiagramError::EncodingFailed;
            let meta = json!({ERROR: {"code": error.code()}});
            let result = CallToolResult::error(error.to_string());
            return Some(Reply::json(&CallToolResult {
                meta: meta.as_object().cloned(),
                ..result
            }));
        }
        let mut result = self.toolbox.call(&params.name, params.arguments.as_deref(), cx).await?;
        if !KnowledgeTools::NAMES.contains(&params.name.as_str()) {
            return Some(Reply::json(&result));
        }
        if let Some(code) = error_code(&result) {
            let meta = result.meta.get_or_insert_default();
            meta.entry(ERROR).or_insert(json!({"code": code.as_str()}));
        }
        Some(Reply::json(&KnowledgeTools::finish(&params.name, result)))
    }
}

/// A tool with what the type of its arguments cannot say.
fn listed(tool: &Tool) -> Tool {
    // Diagrams and artifacts change nothing, and reach nothing beyond this process.
    let reads = json!({"readOnlyHint": true, "idempotentHint": true, "openWorldHint": false});
    let (title, hints) = match tool.name.as_str() {
        ENCODE => ("Encode a PlantUML diagram", reads),
        DECODE => ("Decode a PlantUML diagram", reads),
        LIST => ("List artifacts", reads),
        READ => ("Read an artifact", reads),
        other => KnowledgeTools::says(other).unwrap_or((other, reads)),
    };
    Tool { title: Some(title.to_owned()), annotations: hints.as_object().cloned(), ..tool.clone() }
}
