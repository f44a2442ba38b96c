//! The server that the official conformance suite wants to see: its fixtures are named in the
//! suite's scenarios.
//!
//! `cargo xtask conformance` runs the suite against it. By hand:
//! `cargo run -p marquetry-protocol --example conformance_server -- 127.0.0.1:3300`, then
//! `conformance server --url http://127.0.0.1:3300/mcp --requirements 2026-07-28`.

mod fixtures;
mod prompts;
mod resources;
mod skills;
mod tasks;
mod tools;

use std::{
    borrow::Cow,
    sync::{Arc, OnceLock},
};

use async_trait::async_trait;
use marquetry_protocol::{
    RpcError,
    server::{
        Handler, Reply, RequestContext, Server, ServerDescription, TaskOptions,
        http::{HttpEndpoint, HttpOptions, serve},
    },
    types::{
        CallToolParams, CompleteParams, CompleteResult, GetPromptParams, Implementation,
        ListChanged, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
        ListToolsResult, ReadResourceParams, ResourcesCapability, ServerCapabilities,
        TASKS_EXTENSION,
    },
};

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("http://{}/mcp", listener.local_addr()?);
    let own = Arc::new(OnceLock::new());
    let server = skills::serve(Server::new(Fixtures { server: own.clone() }));
    _ = own.set(server.clone());
    let endpoint = HttpEndpoint::new(server, HttpOptions::default());
    serve(listener, endpoint).await
}

struct Fixtures {
    /// For notifications to all clients; set before the first client connects.
    server: Arc<OnceLock<Server>>,
}

#[async_trait]
impl Handler for Fixtures {
    fn describe(&self) -> ServerDescription {
        let mut capabilities = ServerCapabilities::default();
        capabilities.tools = Some(ListChanged { list_changed: true });
        capabilities.prompts = Some(ListChanged { list_changed: true });
        capabilities.resources = Some(ResourcesCapability { list_changed: true, subscribe: true });
        capabilities.completions = Some(Default::default());
        capabilities.logging = Some(Default::default());
        capabilities.add_extension(TASKS_EXTENSION);
        capabilities.extensions.insert(skills::EXTENSION.to_owned(), skills::settings());
        let info = Implementation::new("marquetry-conformance", env!("CARGO_PKG_VERSION"));
        ServerDescription { info, capabilities, instructions: None }
    }

    async fn list_tools(
        &self,
        _: Option<&str>,
        _: &RequestContext,
    ) -> Result<ListToolsResult, RpcError> {
        let tools = tools::list().into_iter().chain(tasks::list()).collect();
        Ok(ListToolsResult { tools, next_cursor: None })
    }

    async fn call_tool(
        &self,
        params: CallToolParams,
        cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        if tasks::knows(&params.name) {
            return tasks::call(params, cx).await;
        }
        if let Some(server) = self.server.get() {
            match &*params.name {
                "test_trigger_tool_change" => server.notifier().tools_changed(),
                "test_trigger_prompt_change" => server.notifier().prompts_changed(),
                _ => {}
            }
        }
        tools::call(params, cx).await?.try_into()
    }

    fn task_options(&self, tool: &str) -> Option<TaskOptions> {
        tasks::options(tool)
    }

    fn input_schema(&self, tool: &str) -> Option<Cow<'_, serde_json::Value>> {
        let tool = tools::list().into_iter().find(|known| known.name == tool)?;
        Some(Cow::Owned(tool.input_schema))
    }

    async fn list_resources(
        &self,
        _: Option<&str>,
        _: &RequestContext,
    ) -> Result<ListResourcesResult, RpcError> {
        let resources = resources::list().into_iter().chain(skills::resources()).collect();
        Ok(ListResourcesResult { resources, next_cursor: None })
    }

    async fn list_resource_templates(
        &self,
        _: Option<&str>,
        _: &RequestContext,
    ) -> Result<ListResourceTemplatesResult, RpcError> {
        Ok(ListResourceTemplatesResult {
            resource_templates: resources::templates(),
            next_cursor: None,
        })
    }

    async fn read_resource(
        &self,
        params: ReadResourceParams,
        _: &RequestContext,
    ) -> Result<Reply, RpcError> {
        Reply::json(&resources::read(&params.uri)?)
    }

    async fn subscribe(&self, uri: &str, _: &RequestContext) -> Result<(), RpcError> {
        resources::find(uri).map(drop)
    }

    async fn list_prompts(
        &self,
        _: Option<&str>,
        _: &RequestContext,
    ) -> Result<ListPromptsResult, RpcError> {
        Ok(ListPromptsResult { prompts: prompts::list(), next_cursor: None })
    }

    async fn get_prompt(
        &self,
        params: GetPromptParams,
        cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        Reply::json(&prompts::get(params, cx).await?)
    }

    async fn complete(
        &self,
        params: CompleteParams,
        _: &RequestContext,
    ) -> Result<CompleteResult, RpcError> {
        Ok(prompts::complete(&params))
    }
}
