//! What agents talk to: our own tools and artifacts, and everything of the upstreams.

use std::sync::Arc;

use async_trait::async_trait;
use marquetry_artifacts::{Captured, Capturer, Scope, ToolCall};
use marquetry_protocol::{
    RpcError,
    server::{Handler, Reply, RequestContext, ServerDescription, page},
    types::{
        CallToolParams, CallToolResult, CompleteParams, CompleteResult, GetPromptParams,
        Implementation, JsonObject, ListChanged, ListPromptsResult, ListResourceTemplatesResult,
        ListResourcesResult, ListToolsResult, LogLevel, ReadResourceParams, ReadResourceResult,
        ResourcesCapability, ServerCapabilities,
    },
};
use serde_json::json;

use crate::{
    config::Limits,
    gateway::{CallFailure, Changes, Gateway, ToolAnswer, Unreachable},
    tools::{Artifacts, BuiltIns, LIST, READ},
};

/// The handler of the one MCP server that agents see.
pub(crate) struct Front {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) built_ins: BuiltIns,
    pub(crate) artifacts: Artifacts,
    pub(crate) capturer: Capturer,
    pub(crate) scope: Scope,
    pub(crate) limits: Limits,
    pub(crate) changes: Arc<Changes>,
}

#[async_trait]
impl Handler for Front {
    fn describe(&self) -> ServerDescription {
        let changing = ListChanged { list_changed: true };
        let mut capabilities = ServerCapabilities::default();
        capabilities.tools = Some(changing);
        capabilities.prompts = Some(changing);
        capabilities.resources = Some(ResourcesCapability { list_changed: true, subscribe: true });
        capabilities.completions = Some(JsonObject::new());
        capabilities.logging = Some(JsonObject::new());
        let mut info = Implementation::new("marquetry", env!("CARGO_PKG_VERSION"));
        info.title = Some("Marquetry".to_owned());
        ServerDescription { info, capabilities, instructions: Some(self.instructions()) }
    }

    async fn list_tools(
        &self,
        cursor: Option<&str>,
        _cx: &RequestContext,
    ) -> Result<ListToolsResult, RpcError> {
        self.gateway.settled_or_late().await;
        let catalog = self.gateway.catalog();
        let own = self.built_ins.listed();
        let (range, next_cursor) = self.page(own.len() + catalog.tools.len(), cursor)?;
        let all = own.iter().chain(&catalog.tools);
        let tools = all.skip(range.start).take(range.len()).cloned().collect();
        Ok(ListToolsResult { tools, next_cursor })
    }

    async fn call_tool(
        &self,
        params: CallToolParams,
        cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        if let Some(result) = self.built_ins.call(&params, cx).await {
            return Reply::json(&result);
        }
        let (name, arguments) = (params.name.clone(), params.arguments.clone());
        let ToolAnswer { result, capture, is_stateless } =
            match self.gateway.call_tool(params, cx).await {
                Ok(answer) => answer,
                Err(CallFailure::Rpc(error)) => return Err(error),
                Err(CallFailure::Unreachable(unreachable)) => {
                    return unreachable_tool(&unreachable);
                }
            };
        let result = match capture {
            None => result,
            Some(settings) => {
                let call =
                    ToolCall { scope: &self.scope, tool: &name, arguments: arguments.as_deref() };
                let captured = self.capturer.capture(call, &settings, result).await;
                if matches!(captured, Captured::Changed { .. }) {
                    self.changes.resources.notify_one();
                }
                captured.into_result()
            }
        };
        Ok(if is_stateless { Reply::complete(result) } else { Reply::raw(result) })
    }

    async fn list_resources(
        &self,
        cursor: Option<&str>,
        _cx: &RequestContext,
    ) -> Result<ListResourcesResult, RpcError> {
        self.gateway.settled_or_late().await;
        // The upstreams' resources first, then our artifacts, whose list may grow long. A cursor says which of the two it belongs to.
        const ARTIFACTS: &str = "a:";
        let limit = self.limits.list_page_size.get();
        let (mut resources, after) =
            match cursor.map(|cursor| (cursor, cursor.strip_prefix(ARTIFACTS))) {
                Some((_, Some(after))) => (Vec::new(), (!after.is_empty()).then_some(after)),
                other => {
                    let catalog = self.gateway.catalog();
                    let cursor = other.map(|(cursor, _)| cursor);
                    let (range, next) = self.page(catalog.resources.len(), cursor)?;
                    let resources = catalog.resources[range].to_vec();
                    if next.is_some() {
                        return Ok(ListResourcesResult { resources, next_cursor: next });
                    }
                    if resources.len() == limit {
                        let next_cursor = Some(ARTIFACTS.to_owned());
                        return Ok(ListResourcesResult { resources, next_cursor });
                    }
                    (resources, None)
                }
            };
        let (artifacts, next) = self.artifacts.resources(after, limit - resources.len()).await?;
        resources.extend(artifacts);
        let next_cursor = next.map(|name| format!("{ARTIFACTS}{name}"));
        Ok(ListResourcesResult { resources, next_cursor })
    }

    async fn list_resource_templates(
        &self,
        cursor: Option<&str>,
        _cx: &RequestContext,
    ) -> Result<ListResourceTemplatesResult, RpcError> {
        self.gateway.settled_or_late().await;
        let catalog = self.gateway.catalog();
        let own = [Artifacts::template()];
        let (range, next_cursor) = self.page(own.len() + catalog.templates.len(), cursor)?;
        let all = own.iter().chain(&catalog.templates);
        let resource_templates = all.skip(range.start).take(range.len()).cloned().collect();
        Ok(ListResourceTemplatesResult { resource_templates, next_cursor })
    }

    async fn read_resource(
        &self,
        params: ReadResourceParams,
        cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        if let Some(whole) = self.artifacts.resource(&params.uri).await {
            let mut whole = whole?;
            let contents = vec![std::mem::take(&mut whole.contents)];
            return Reply::json(&ReadResourceResult { contents, meta: None });
        }
        self.gateway.read_resource(params, cx).await
    }

    async fn complete(
        &self,
        params: CompleteParams,
        cx: &RequestContext,
    ) -> Result<CompleteResult, RpcError> {
        self.gateway.complete(params, cx).await
    }

    async fn subscribe(&self, uri: &str, cx: &RequestContext) -> Result<(), RpcError> {
        if uri.starts_with("artifact:") {
            // A version never changes, and a new one changes the list.
            return Err(RpcError::invalid_params("artifacts cannot be subscribed to"));
        }
        self.gateway.subscribe(uri, cx).await
    }

    async fn unsubscribe(&self, uri: &str) {
        self.gateway.unsubscribe(uri).await;
    }

    async fn set_log_level(&self, level: LogLevel, cx: &RequestContext) {
        self.gateway.set_log_level(level, cx).await;
    }

    async fn list_prompts(
        &self,
        cursor: Option<&str>,
        _cx: &RequestContext,
    ) -> Result<ListPromptsResult, RpcError> {
        self.gateway.settled_or_late().await;
        let catalog = self.gateway.catalog();
        let (range, next_cursor) = self.page(catalog.prompts.len(), cursor)?;
        Ok(ListPromptsResult { prompts: catalog.prompts[range].to_vec(), next_cursor })
    }

    async fn get_prompt(
        &self,
        params: GetPromptParams,
        cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        self.gateway.get_prompt(params, cx).await
    }
}

impl Front {
    fn page(
        &self,
        len: usize,
        cursor: Option<&str>,
    ) -> Result<(std::ops::Range<usize>, Option<String>), RpcError> {
        page(len, cursor, self.limits.list_page_size.get())
    }

    /// How to use this server, and what the upstreams that are there say of themselves, as far as it fits.
    fn instructions(&self) -> String {
        let mut text = format!(
            "Large and binary tool answers are saved as artifacts: the answer then names each artifact and shows what fits. {LIST} lists them, \
             {READ} reads them in parts."
        );
        let mut room = self.limits.max_instructions_bytes;
        for upstream in self.gateway.upstreams() {
            let listing = upstream.listing();
            let Some(said) = listing.instructions.as_deref().map(str::trim) else { continue };
            let head = format!("\n\n# {}\n\n", upstream.name);
            if said.is_empty() || head.len() + said.len() > room {
                continue;
            }
            room -= head.len() + said.len();
            text.push_str(&head);
            text.push_str(said);
        }
        text
    }
}

/// The answer to a call whose upstream is not there.
///
/// A failed tool call rather than an error of the protocol: those are for unknown tools and malformed requests, while what a model can act on
/// (try later, use another tool) belongs in a result, which every client shows it (2025-11-25, "Tools", "Error Handling").
fn unreachable_tool(unreachable: &Unreachable) -> Result<Reply, RpcError> {
    let meta = json!({"marquetry/upstream": unreachable.data()});
    let result = CallToolResult::error(unreachable.to_string());
    Reply::json(&CallToolResult { meta: meta.as_object().cloned(), ..result })
}
