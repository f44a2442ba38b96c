//! What agents talk to: our own tools and artifacts, and everything of the upstreams.

use std::sync::Arc;

use async_trait::async_trait;
use marquetry_artifacts::{Captured, Capturer, ToolCall};
use marquetry_gateway::{CallFailure, Gateway, List, ToolAnswer, Unreachable};
use marquetry_protocol::{
    RpcError,
    server::{
        Caller, Handler, HeaderArguments, Reply, RequestContext, ServerDescription, fair::Full,
        page,
    },
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
    knowledge::Knowledge,
    tools::{Artifacts, BuiltIns, LIST, READ},
};

/// The key of a failed call's `_meta` that says which upstream failed, and how.
pub(crate) const UPSTREAM: &str = "marquetry/upstream";

/// The handler of the one MCP server that agents see.
pub(crate) struct Front {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) built_ins: BuiltIns,
    pub(crate) artifacts: Artifacts,
    pub(crate) knowledge: Knowledge,
    pub(crate) capturer: Capturer,
    pub(crate) limits: Limits,
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

    fn header_arguments(&self, tool: &str) -> Option<Arc<HeaderArguments>> {
        // Tools of our own mark none.
        self.gateway.catalog().tool(tool)?.headers.clone()
    }

    async fn header_arguments_known(&self, tool: &str, caller: &Caller) -> Result<(), Full> {
        if self.built_ins.has(tool) { Ok(()) } else { self.gateway.tool_known(tool, caller).await }
    }

    async fn list_tools(
        &self,
        cursor: Option<&str>,
        cx: &RequestContext,
    ) -> Result<ListToolsResult, RpcError> {
        self.gateway.list_ready(List::Tools, cx).await?;
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
        if let Some(reply) = self.built_ins.call(&params, cx).await {
            return reply;
        }
        let (name, arguments) = (params.name.clone(), params.arguments.clone());
        let ToolAnswer { result, capture, output_schema, is_stateless } =
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
                let scope = self.artifacts.scope_of(cx);
                let call = ToolCall::new(&scope, &name)
                    .with_arguments(arguments.as_deref())
                    .with_output_schema(output_schema.as_deref());
                let captured = self.capturer.capture(call, &settings, result).await;
                if matches!(captured, Captured::Changed { .. }) {
                    self.artifacts.of(cx).announce_change();
                }
                captured.into_result()
            }
        };
        Ok(if is_stateless { Reply::complete(result) } else { Reply::raw(result) })
    }

    async fn list_resources(
        &self,
        cursor: Option<&str>,
        cx: &RequestContext,
    ) -> Result<ListResourcesResult, RpcError> {
        self.gateway.list_ready(List::Resources, cx).await?;
        // The upstreams' resources first, then our artifacts and records, whose lists may grow long. A cursor says which of them it belongs to.
        const ARTIFACTS: &str = "a:";
        const RECORDS: &str = "r:";
        let limit = self.limits.list_page_size.get();
        let mut resources = Vec::new();
        let mut cursor = cursor.map(str::to_owned);
        if !cursor.as_ref().is_some_and(|it| it.starts_with(ARTIFACTS) || it.starts_with(RECORDS)) {
            let catalog = self.gateway.catalog();
            let (range, next_cursor) = self.page(catalog.resources.len(), cursor.as_deref())?;
            resources = catalog.resources[range].to_vec();
            if next_cursor.is_some() {
                return Ok(ListResourcesResult { resources, next_cursor });
            }
            cursor = Some(ARTIFACTS.to_owned());
        }
        if resources.len() < limit
            && let Some(after) = cursor.as_deref().and_then(|cursor| cursor.strip_prefix(ARTIFACTS))
        {
            let after = Some(after).filter(|after| !after.is_empty());
            let page = self.artifacts.of(cx).resources(after, limit - resources.len()).await;
            let (page, next) = match page {
                Ok(page) => page,
                // A failure is no empty list.
                Err(error) if after.is_some() => return Err(error),
                // Upstreams and records are there all the same.
                Err(error) => {
                    tracing::warn!(
                        error = error.message,
                        "artifacts are left out of the list of resources"
                    );
                    (Vec::new(), None)
                }
            };
            resources.extend(page);
            cursor = match next {
                Some(name) => Some(format!("{ARTIFACTS}{name}")),
                None => self.knowledge.is_enabled().then(|| RECORDS.to_owned()),
            };
        }
        if resources.len() < limit
            && let Some(after) = cursor.as_deref().and_then(|cursor| cursor.strip_prefix(RECORDS))
        {
            let after = Some(after).filter(|after| !after.is_empty());
            let room = limit - resources.len();
            let next = match self.knowledge.resources(after, room, cx).await {
                Ok((page, next)) => {
                    resources.extend(page);
                    next
                }
                // A failure is no empty list.
                Err(error) if after.is_some() || resources.is_empty() => return Err(error),
                // Upstreams and artifacts are there all the same.
                Err(error) => {
                    tracing::warn!(error = error.message, "records cannot be listed");
                    None
                }
            };
            cursor = next.map(|after| format!("{RECORDS}{after}"));
        }
        Ok(ListResourcesResult { resources, next_cursor: cursor })
    }

    async fn list_resource_templates(
        &self,
        cursor: Option<&str>,
        cx: &RequestContext,
    ) -> Result<ListResourceTemplatesResult, RpcError> {
        self.gateway.list_ready(List::Resources, cx).await?;
        let catalog = self.gateway.catalog();
        let mut own = vec![Artifacts::template()];
        own.extend(self.knowledge.templates());
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
        if let Some(whole) = self.artifacts.of(cx).resource(&params.uri).await {
            let mut whole = whole?;
            let contents = vec![std::mem::take(&mut whole.contents)];
            return Reply::json(&ReadResourceResult { contents, meta: None });
        }
        if self.knowledge.owns(&params.uri) {
            let most = self.limits.max_resource_bytes.get();
            return self.knowledge.read(&params.uri, most, cx).await;
        }
        self.gateway.read_resource(params, cx).await
    }

    async fn complete(
        &self,
        params: CompleteParams,
        cx: &RequestContext,
    ) -> Result<CompleteResult, RpcError> {
        if let Some(result) = self.knowledge.complete(&params, self.taken_prompts(), cx).await? {
            return Ok(result);
        }
        self.gateway.complete(params, cx).await
    }

    async fn subscribe(&self, uri: &str, cx: &RequestContext) -> Result<(), RpcError> {
        if uri.starts_with("artifact:") {
            // A version never changes, and a new one changes the list.
            return Err(RpcError::invalid_params("artifacts cannot be subscribed to"));
        }
        if self.knowledge.owns(uri) {
            return self.knowledge.watch(uri, cx).await;
        }
        self.gateway.subscribe(uri, cx).await
    }

    async fn unsubscribe(&self, uri: &str) {
        if self.knowledge.owns(uri) {
            self.knowledge.unwatch(uri);
        } else {
            self.gateway.unsubscribe(uri).await;
        }
    }

    async fn set_log_level(&self, level: LogLevel, cx: &RequestContext) {
        self.gateway.set_log_level(level, cx).await;
    }

    async fn list_prompts(
        &self,
        cursor: Option<&str>,
        cx: &RequestContext,
    ) -> Result<ListPromptsResult, RpcError> {
        self.gateway.list_ready(List::Prompts, cx).await?;
        let catalog = self.gateway.catalog();
        let own = self.knowledge.prompts(self.taken_prompts(), cx).await?;
        let (range, next_cursor) = self.page(own.len() + catalog.prompts.len(), cursor)?;
        let all = own.iter().chain(&catalog.prompts);
        let prompts = all.skip(range.start).take(range.len()).cloned().collect();
        Ok(ListPromptsResult { prompts, next_cursor })
    }

    async fn get_prompt(
        &self,
        params: GetPromptParams,
        cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        if let Some(reply) = self.knowledge.prompt(&params, self.taken_prompts(), cx).await? {
            return Ok(reply);
        }
        self.gateway.get_prompt(params, cx).await
    }
}

impl Front {
    /// Whether an upstream has a prompt of this name.
    fn taken_prompts(&self) -> impl Fn(&str) -> bool + use<> {
        let catalog = self.gateway.catalog();
        move |name| catalog.prompt(name).is_some()
    }

    fn page(
        &self,
        len: usize,
        cursor: Option<&str>,
    ) -> Result<(std::ops::Range<usize>, Option<String>), RpcError> {
        page(len, cursor, self.limits.list_page_size.get())
    }

    /// How to use this server, and what the upstreams that are there say of themselves, as far as it fits.
    fn instructions(&self) -> String {
        let mut text = "Large and binary tool answers are saved as artifacts: the answer then names each artifact and shows what fits. ".to_owned();
        if self.built_ins.has(READ) {
            text.push_str(&format!("{LIST} lists them, {READ} reads them in parts."));
        } else {
            text.push_str("They can be read as resources.");
        }
        if let Some(more) = Knowledge::instructions(|tool| self.built_ins.has(tool)) {
            text.push_str("\n\n");
            text.push_str(&more);
        }
        let mut room = self.limits.max_instructions_bytes;
        for upstream in self.gateway.upstreams() {
            let listing = upstream.listing();
            let Some(said) = listing.instructions.as_deref().map(str::trim) else { continue };
            let head = format!("\n\n# {}\n\n", upstream.name());
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
    let meta = json!({UPSTREAM: unreachable.data()});
    let result = CallToolResult::error(unreachable.to_string());
    Reply::json(&CallToolResult { meta: meta.as_object().cloned(), ..result })
}
