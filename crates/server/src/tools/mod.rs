//! The tools that this server has itself.

mod artifacts;
mod knowledge;
mod listing;
mod plantuml;

use std::sync::Arc;

use marquetry_protocol::{
    RpcError,
    server::{Reply, RequestContext, Toolbox},
    types::{CallToolParams, CallToolResult, Tool},
};
use serde_json::json;

use self::plantuml::has_no_text;
pub(crate) use self::{
    artifacts::{Artifacts, DELETE, LIST, READ},
    knowledge::{CHAT, ERROR, KnowledgeTools, SEARCH, error_code},
    plantuml::{
        DECODE, DecodeArguments, DiagramError, DiagramFormat, Diagrams, ENCODE, EncodeArguments,
    },
};

use crate::{
    config::{Config, ToolsConfig},
    health::Faults,
    knowledge::ErrorCode,
};

/// All of them, ready to be listed and called.
pub(crate) struct BuiltIns {
    toolbox: Toolbox,
    listed: Vec<Tool>,
    faults: Arc<Faults>,
}

impl BuiltIns {
    /// Those that are switched on: diagrams, the artifacts that captured answers became, and knowledge.
    pub(crate) fn new(
        config: &ToolsConfig,
        diagrams: &Diagrams,
        artifacts: &Artifacts,
        knowledge: &KnowledgeTools,
    ) -> Self {
        let mut toolbox = Toolbox::new("marquetry", env!("CARGO_PKG_VERSION"));
        if config.diagrams {
            toolbox = diagrams.add_to(toolbox);
        }
        if config.artifacts {
            toolbox = artifacts.add_to(toolbox);
        }
        if config.knowledge && knowledge.is_enabled() {
            toolbox = knowledge.add_to(toolbox);
            if config.chat {
                toolbox = knowledge.add_chat(toolbox);
            }
        }
        // What is listed without a model could not be used; a call says how to set one up.
        let has_model = knowledge.has_model();
        let is_listed = |tool: &&Tool| has_model || tool.name != CHAT;
        let listed = toolbox.tools().filter(is_listed).map(listed).collect();
        Self { toolbox, listed, faults: Arc::default() }
    }

    /// The same, whose failures that are no caller's fault show in health.
    pub(crate) fn reporting_to(self, faults: Arc<Faults>) -> Self {
        Self { faults, ..self }
    }

    /// The names that no upstream can have.
    pub(crate) fn names(config: &Config) -> Vec<&'static str> {
        let mut names = Vec::new();
        if config.tools.diagrams {
            names.extend([ENCODE, DECODE]);
        }
        if config.tools.artifacts {
            names.extend([LIST, READ, DELETE]);
        }
        if config.tools.knowledge && config.knowledge.enabled {
            names.extend(KnowledgeTools::NAMES);
        }
        names
    }

    /// Whether one of them has this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.toolbox.tools().any(|tool| tool.name == name)
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
        if params.name == ENCODE
            && self.has(ENCODE)
            && params.arguments.as_deref().is_some_and(has_no_text)
        {
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
        self.report(&params.name, &result);
        if let Some(code) = error_code(&result) {
            let meta = result.meta.get_or_insert_default();
            meta.entry(ERROR).or_insert(json!({"code": code.as_str()}));
        }
        Some(Reply::json(&KnowledgeTools::finish(&params.name, result)))
    }
}

impl BuiltIns {
    /// Notes whether knowledge works, as far as this call tells. Chat depends on a model elsewhere, and says nothing of it.
    fn report(&self, name: &str, result: &CallToolResult) {
        match error_code(result) {
            _ if name == CHAT => {}
            None if KnowledgeTools::uses_store(name) => self.faults.clear(KNOWLEDGE),
            None => {}
            Some(ErrorCode::Internal | ErrorCode::Unavailable) => {
                let message = result.content.first().and_then(|item| item.as_text());
                let message = message.unwrap_or_default();
                let message = &message[..message.floor_char_boundary(500)];
                self.faults.raise(KNOWLEDGE, format!("the last call failed: {message}"));
            }
            Some(_) => {}
        }
    }
}

/// The name of the part in health.
const KNOWLEDGE: &str = "knowledge";

/// A tool with what the type of its arguments cannot say.
fn listed(tool: &Tool) -> Tool {
    // Diagrams and artifacts change nothing, and reach nothing beyond this process.
    let reads = json!({"readOnlyHint": true, "openWorldHint": false});
    let (title, hints) = match tool.name.as_str() {
        ENCODE => ("Encode a PlantUML diagram", reads),
        DECODE => ("Decode a PlantUML diagram", reads),
        LIST => ("List artifacts", reads),
        READ => ("Read an artifact", reads),
        DELETE => {
            // It is taken to write and to destroy where nothing else is said.
            ("Delete an artifact", json!({"idempotentHint": true, "openWorldHint": false}))
        }
        other => KnowledgeTools::says(other).unwrap_or((other, reads)),
    };
    let tool = listing::short(tool);
    Tool {
        title: Some(title.to_owned()),
        annotations: hints.as_object().cloned().map(Into::into),
        ..tool
    }
}
