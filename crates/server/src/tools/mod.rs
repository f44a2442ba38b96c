//! The tools that this server has itself.

mod artifacts;
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
    plantuml::{
        DECODE, DecodeArguments, DiagramError, DiagramFormat, Diagrams, ENCODE, EncodeArguments,
    },
};

use crate::{
    config::Config,
    health::Faults,
    knowledge::{ERROR, Knowledge},
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
        config: &Config,
        diagrams: &Diagrams,
        artifacts: &Artifacts,
        knowledge: &Knowledge,
    ) -> Self {
        let mut toolbox = Toolbox::new("marquetry", env!("CARGO_PKG_VERSION"));
        let groups = &config.tools;
        if groups.diagrams {
            toolbox = diagrams.add_to(toolbox);
        }
        if groups.artifacts {
            toolbox = artifacts.add_to(toolbox);
        }
        toolbox = knowledge.add_tools(toolbox);
        let is_listed = |tool: &&Tool| knowledge.is_listed(&tool.name);
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
        names.extend(Knowledge::reserved_tools(config));
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
        Some(match Knowledge::finish(&params.name, &mut result, &self.faults) {
            Some(result) => Reply::json(&result),
            None => Reply::json(&result),
        })
    }
}

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
        other => Knowledge::listing(other).unwrap_or((other, reads)),
    };
    let tool = listing::short(tool);
    Tool {
        title: Some(title.to_owned()),
        annotations: hints.as_object().cloned().map(Into::into),
        ..tool
    }
}
