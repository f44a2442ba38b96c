//! The tools of this server.

mod custom;
mod listing;

use std::sync::Arc;

use marquetry_artifact_tools::{ArtifactTools, DELETE, LIST, QUERY, READ, SEARCH};
use marquetry_config::{Config, sections::ToolSearchMode};
use marquetry_plantuml_tools::{
    CHECK, DECODE, DiagramError, Diagrams, ENCODE, RENDER, has_no_text,
};
use marquetry_protocol::{
    RpcError,
    server::{Reply, RequestContext, Toolbox},
    types::{CallToolParams, CallToolResult, Tool},
};
use marquetry_search_tools::{CALL, SEARCH as FIND};
use serde_json::json;

pub(crate) use self::custom::CustomTools;

use crate::{
    faults::Faults,
    knowledge::{ERROR, Knowledge},
};

/// Code of a failed call of a built-in tool whose arguments do not match its schema; that of
/// knowledge, too.
pub(crate) const INVALID_ARGUMENTS: &str = "invalid_params";

/// The built-in tools that are switched on.
pub(crate) struct BuiltIns {
    toolbox: Toolbox,
    listed: Vec<Tool>,
    faults: Arc<Faults>,
}

impl BuiltIns {
    /// Builds the tools of the groups in `config`.
    pub(crate) fn new(
        config: &Config,
        diagrams: &Diagrams,
        artifacts: &ArtifactTools,
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
        let listed =
            toolbox.tools().filter(|tool| knowledge.is_listed(&tool.name)).map(listed).collect();
        Self { toolbox, listed, faults: Arc::default() }
    }

    /// Reports internal failures to `/healthz`.
    pub(crate) fn reporting_to(self, faults: Arc<Faults>) -> Self {
        Self { faults, ..self }
    }

    /// Returns the names that are reserved for built-in tools.
    pub(crate) fn names(config: &Config) -> Vec<&'static str> {
        let mut names = Vec::new();
        if config.tools.diagrams {
            names.extend([ENCODE, DECODE]);
            if config.plantuml.engine_options().is_some() {
                names.extend([RENDER, CHECK]);
            }
        }
        if config.tools.artifacts {
            names.extend([LIST, READ, SEARCH, QUERY, DELETE]);
        }
        names.extend(Knowledge::reserved_tools(config));
        if config.tools.search.mode != ToolSearchMode::Off {
            names.extend([FIND, CALL]);
        }
        names
    }

    /// Returns whether a built-in tool has this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.toolbox.tools().any(|tool| tool.name == name)
    }

    /// Returns the tools as `tools/list` shows them.
    pub(crate) fn listed(&self) -> &[Tool] {
        &self.listed
    }

    /// Calls a tool; `None` if no built-in tool has the name.
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
        Some(if let Some(result) = Knowledge::finish(&params.name, &mut result, &self.faults) {
            Reply::json(&result)
        } else {
            name_invalid_arguments(&params.name, &mut result);
            Reply::json(&result)
        })
    }
}

/// Adds a code to the refusal of arguments that do not match the schema of a tool.
fn name_invalid_arguments(tool: &str, result: &mut CallToolResult) {
    let text = result.content.first().and_then(|item| item.as_text());
    let refusal = format!("arguments of '{tool}' are not valid: ");
    if result.is_error() && text.is_some_and(|text| text.starts_with(&refusal)) {
        let meta = result.meta.get_or_insert_default();
        meta.entry(ERROR).or_insert(json!({"code": INVALID_ARGUMENTS}));
    }
}

/// Adds title and hints to a tool, and shortens its schema.
pub(crate) fn listed(tool: &Tool) -> Tool {
    // Tools for diagrams and artifacts are read-only and local.
    let reads = json!({"readOnlyHint": true, "openWorldHint": false});
    let (title, hints) = match tool.name.as_str() {
        ENCODE => ("Encode a PlantUML diagram", reads),
        DECODE => ("Decode a PlantUML diagram", reads),
        RENDER => ("Draw a PlantUML diagram", reads),
        CHECK => ("Check a PlantUML diagram", reads),
        LIST => ("List artifacts", reads),
        READ => ("Read an artifact", reads),
        SEARCH => ("Search an artifact", reads),
        QUERY => ("Query an artifact", reads),
        DELETE => {
            // Without hints MCP assumes a tool that writes and destroys.
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
