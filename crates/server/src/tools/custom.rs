//! Tools, resources and prompts that the embedding program adds.

use std::sync::Arc;

use marquetry_protocol::{
    RpcError,
    server::{
        Handler as _, HeaderArguments, Peer, Reply, RequestContext, ToolHeaders as _, Toolbox,
    },
    types::{
        CallToolParams, CallToolResult, GetPromptParams, Prompt, ReadResourceParams, Resource, Tool,
    },
};

/// The toolboxes of the embedding program, offered beside the tools of this server and its
/// upstreams.
#[derive(Default)]
pub(crate) struct CustomTools {
    toolboxes: Vec<Toolbox>,
}

impl CustomTools {
    /// Returns an error with the first tool name that is in `reserved`, or that two toolboxes have.
    pub(crate) fn new(toolboxes: Vec<Toolbox>, reserved: &[&str]) -> Result<Self, String> {
        let mut names = reserved.to_vec();
        for tool in toolboxes.iter().flat_map(Toolbox::tools) {
            if names.contains(&tool.name.as_str()) {
                return Err(tool.name.clone());
            }
            names.push(&tool.name);
        }
        Ok(Self { toolboxes })
    }

    pub(crate) fn tools(&self) -> impl Iterator<Item = &Tool> {
        self.toolboxes.iter().flat_map(Toolbox::tools)
    }

    pub(crate) fn resources(&self) -> impl Iterator<Item = &Resource> {
        self.toolboxes.iter().flat_map(Toolbox::resources)
    }

    pub(crate) fn prompts(&self) -> impl Iterator<Item = &Prompt> {
        self.toolboxes.iter().flat_map(Toolbox::prompts)
    }

    pub(crate) fn has_tool(&self, name: &str) -> bool {
        self.tools().any(|tool| tool.name == name)
    }

    pub(crate) fn has_prompt(&self, name: &str) -> bool {
        self.prompts().any(|prompt| prompt.name == name)
    }

    /// Returns the arguments of a tool that HTTP headers repeat.
    pub(crate) fn header_arguments(
        &self,
        tool: &str,
        sender: &Peer,
    ) -> Option<Arc<HeaderArguments>> {
        self.toolboxes.iter().find_map(|toolbox| toolbox.arguments(tool, None, sender))
    }

    /// Calls a tool; `None` when no toolbox has it.
    pub(crate) async fn call(
        &self,
        params: &CallToolParams,
        cx: &RequestContext,
    ) -> Option<(&Tool, CallToolResult)> {
        for toolbox in &self.toolboxes {
            if let Some(tool) = toolbox.tools().find(|tool| tool.name == params.name) {
                let result = toolbox.call(&params.name, params.arguments.as_deref(), cx).await?;
                return Some((tool, result));
            }
        }
        None
    }

    /// Reads a resource; `None` when no toolbox has it.
    pub(crate) async fn read_resource(
        &self,
        uri: &str,
        cx: &RequestContext,
    ) -> Option<Result<Reply, RpcError>> {
        let toolbox = self
            .toolboxes
            .iter()
            .find(|toolbox| toolbox.resources().any(|resource| resource.uri == uri))?;
        let params = ReadResourceParams { uri: uri.to_owned(), meta: None };
        Some(toolbox.read_resource(params, cx).await)
    }

    /// Fills in a prompt; `None` when no toolbox has it.
    pub(crate) async fn get_prompt(
        &self,
        params: &GetPromptParams,
        cx: &RequestContext,
    ) -> Option<Result<Reply, RpcError>> {
        let toolbox = self
            .toolboxes
            .iter()
            .find(|toolbox| toolbox.prompts().any(|prompt| prompt.name == params.name))?;
        Some(toolbox.get_prompt(params.clone(), cx).await)
    }
}
