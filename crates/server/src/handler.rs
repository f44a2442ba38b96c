//! The MCP handler for agents: tools of this server, artifacts, knowledge, and everything of the
//! upstreams.

use std::sync::Arc;

use async_trait::async_trait;
use marquetry_apps_ext::types::ToolUi;
use marquetry_artifact_tools::{ArtifactTools, LIST, QUERY, READ, SEARCH};
use marquetry_artifacts::{
    Captured, Capturer, Settings, ToolCall, ViewUse,
    report::{KeptFromModel, SaveStatus},
};
use marquetry_client_fit::{Client, Clients};
use marquetry_config::{SERVER_NAME, sections::Limits};
use marquetry_gateway::{
    CallFailure, Catalog, Gateway, ItemKind, Limited, List, Listing, ToolAnswer, Unreachable,
};
use marquetry_projections::{
    InvalidSelection, Projected, Projections, Selection, announce, failed_selection, has_own,
    may_select,
};
use marquetry_protocol::{
    Era, RpcError,
    server::{
        ConversationId, Handler, HeaderArguments, Peer, Reply, RequestContext, ServerDescription,
        ToolHeaders, fair::Full, page,
    },
    types::{
        CallToolParams, CallToolResult, ClientCapabilities, CompleteParams, CompleteReference,
        CompleteResult, GetPromptParams, Implementation, JsonObject, ListChanged,
        ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
        LogLevel, Prompt, ReadResourceParams, ReadResourceResult, Resource, ResourcesCapability,
        ServerCapabilities, Tool,
    },
};
use marquetry_request_notes::{Refusal, note};
use marquetry_savings::{Saving, Savings};
use marquetry_search_tools::{CALL, Origin, SEARCH as FIND, ToolSearch, not_found, target};
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};
use tokio_util::task::TaskTracker;

use crate::{
    call_rate::CallRate,
    console::{CallRecord, Recorder},
    knowledge::Knowledge,
    tools::{BuiltIns, CustomTools},
};

/// Member of a failed call's `_meta` that names the upstream and the kind of the failure.
pub(crate) const UPSTREAM: &str = "marquetry/upstream";

/// The name that the console's page gives itself as a client.
const CONSOLE_CLIENT: &str = "marquetry-console";
/// The name that `marquetry call` and `marquetry tools` give themselves.
const SHELL_CLIENT: &str = "marquetry-call";

/// The handler of the one MCP server that agents see.
pub(crate) struct GatewayHandler {
    /// Counts the tool calls in flight.
    pub(crate) calls: TaskTracker,
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) built_ins: BuiltIns,
    pub(crate) custom: CustomTools,
    pub(crate) artifacts: ArtifactTools,
    pub(crate) knowledge: Knowledge,
    pub(crate) capturer: Capturer,
    /// Capture settings of custom tools; upstreams have their own.
    pub(crate) capture_settings: Settings,
    /// What clients show their models.
    pub(crate) clients: Clients,
    pub(crate) limits: Limits,
    /// Records calls for the console.
    pub(crate) recorder: Recorder,
    /// Runs the programs of calls over their answers, if `artifacts.projections` is on.
    pub(crate) projections: Option<Projections>,
    /// Two tools in place of a long list, if `tools.search` is on.
    pub(crate) search: Arc<ToolSearch>,
    /// Counts what answers keep from models.
    pub(crate) savings: Savings,
    /// Limits the rate of each caller's tool calls.
    pub(crate) call_rate: CallRate,
}

/// A call whose answer is captured.
#[derive(Clone, Copy)]
struct CapturedCall<'a> {
    name: &'a str,
    arguments: Option<&'a RawValue>,
    output_schema: Option<&'a Value>,
    ui: &'a ToolUi,
}

#[async_trait]
impl ToolHeaders for GatewayHandler {
    fn arguments(
        &self,
        tool: &str,
        client: Option<&Implementation>,
        sender: &Peer,
    ) -> Option<Arc<HeaderArguments>> {
        let catalog = self.gateway.view_of_peer(sender);
        let own_name = self.own_name(tool, &catalog, &self.clients.of_info(client));
        let tool = own_name.as_deref().unwrap_or(tool);
        // The built-in tools have no header arguments.
        let own = self.custom.header_arguments(tool, sender);
        let own = own.filter(|_| catalog.lists_own(ItemKind::Tool, tool));
        own.or_else(|| self.gateway.header_arguments(tool, sender))
    }

    async fn known(&self, tool: &str, sender: &Peer) -> Result<(), Full> {
        // Only an upstream may still be starting.
        if self.built_ins.has(tool) || self.custom.has_tool(tool) || self.search.has(tool) {
            return Ok(());
        }
        self.gateway.tool_known(tool, sender).await
    }
}

#[async_trait]
impl Handler for GatewayHandler {
    fn describe(&self) -> ServerDescription {
        let changing = ListChanged { list_changed: true };
        let mut capabilities = ServerCapabilities::default();
        capabilities.tools = Some(changing);
        capabilities.prompts = Some(changing);
        capabilities.resources = Some(ResourcesCapability { list_changed: true, subscribe: true });
        capabilities.completions = Some(JsonObject::new());
        capabilities.logging = Some(JsonObject::new());
        let mut info = Implementation::new(SERVER_NAME, env!("CARGO_PKG_VERSION"));
        info.title = Some("Marquetry".to_owned());
        let instructions = Some(self.instructions(&self.gateway.view_of(None, None)));
        ServerDescription { info, capabilities, instructions }
    }

    fn describe_to(&self, _: &ClientCapabilities, cx: &RequestContext) -> ServerDescription {
        let instructions = Some(self.instructions(&self.gateway.view(cx)));
        ServerDescription { instructions, ..self.describe() }
    }

    fn tool_headers(&self) -> Option<&dyn ToolHeaders> {
        Some(self)
    }

    async fn list_tools(
        &self,
        cursor: Option<&str>,
        cx: &RequestContext,
    ) -> Result<ListToolsResult, RpcError> {
        self.gateway.list_ready(List::Tools, cx).await?;
        let catalog = self.gateway.view(cx);
        let client = self.clients.of(cx);
        let shown = self.shown_tools(&catalog, &client, cx);
        let count = shown.len();
        client.check_number_of_tools(count);
        let (range, next_cursor) =
            if client.reads_pages() { self.page(count, cursor)? } else { (0..count, None) };
        let names = client.tool_names(self.listed_names(&catalog));
        let tools = shown[range]
            .iter()
            .map(|&tool| self.with_selection(tool.clone(), &catalog, &client, cx))
            .map(|tool| client.listed(tool, &names))
            .collect();
        Ok(ListToolsResult { tools, next_cursor })
    }

    async fn call_tool(
        &self,
        mut params: CallToolParams,
        cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        let _in_flight = self.calls.token();
        let refusal = self.unwrap_call(&mut params, cx).await;
        let catalog = self.gateway.view(cx);
        if let Some(name) = self.own_name(&params.name, &catalog, &self.clients.of(cx)) {
            params.name = name;
        }
        let mut record =
            self.recorder.begin(&params, || self.input_schema_of(&params.name, &catalog), cx);
        let answer = match refusal {
            Some(refusal) => Reply::json(&refusal),
            None => self.answer(params, cx, &mut record).await,
        };
        record.end(&answer);
        answer
    }

    async fn list_resources(
        &self,
        cursor: Option<&str>,
        cx: &RequestContext,
    ) -> Result<ListResourcesResult, RpcError> {
        self.gateway.list_ready(List::Resources, cx).await?;
        if let Some(upstream) = self.gateway.bound_to(SERVER_NAME, cx)? {
            let resources = self.listing_of(upstream, cx).resources.clone();
            return Ok(ListResourcesResult { resources, next_cursor: None });
        }
        // Resources of custom tools and upstreams come first, then artifacts and records, whose
        // lists may grow long. The prefix of a cursor says which of the three lists it belongs to.
        const ARTIFACTS: &str = "a:";
        const RECORDS: &str = "r:";
        let limit = self.limits.list_page_size.get();
        let mut resources = Vec::new();
        let catalog = self.gateway.view(cx);
        let mut cursor = cursor.map(str::to_owned);
        if !cursor.as_ref().is_some_and(|it| it.starts_with(ARTIFACTS) || it.starts_with(RECORDS)) {
            let count = self.custom.resources().count() + catalog.resources.len();
            let (range, next_cursor) = self.page(count, cursor.as_deref())?;
            let all = self.custom.resources().chain(&catalog.resources);
            resources = all.skip(range.start).take(range.len()).cloned().collect();
            resources.retain(|it| self.shows(it, &catalog));
            if next_cursor.is_some() {
                return Ok(ListResourcesResult { resources, next_cursor });
            }
            cursor = Some(ARTIFACTS.to_owned());
        }
        if resources.len() < limit
            && let Some(after) = cursor.as_deref().and_then(|cursor| cursor.strip_prefix(ARTIFACTS))
        {
            let after = Some(after).filter(|after| !after.is_empty());
            let page =
                self.artifacts.for_request(cx).resources(after, limit - resources.len()).await;
            let (page, next) = match page {
                Ok(page) => page,
                // A page with artifacts only: an empty list would hide the failure.
                Err(error) if after.is_some() => return Err(error),
                // The resources of upstreams and records can still be listed.
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
                // An empty list would hide the failure.
                Err(error) if after.is_some() || resources.is_empty() => return Err(error),
                // The resources of upstreams and artifacts can still be listed.
                Err(error) => {
                    tracing::warn!(error = error.message, "records cannot be listed");
                    None
                }
            };
            cursor = next.map(|after| format!("{RECORDS}{after}"));
        }
        resources.retain(|it| self.shows(it, &catalog));
        Ok(ListResourcesResult { resources, next_cursor: cursor })
    }

    async fn list_resource_templates(
        &self,
        cursor: Option<&str>,
        cx: &RequestContext,
    ) -> Result<ListResourceTemplatesResult, RpcError> {
        self.gateway.list_ready(List::Resources, cx).await?;
        if let Some(upstream) = self.gateway.bound_to(SERVER_NAME, cx)? {
            let resource_templates = self.listing_of(upstream, cx).templates.clone();
            return Ok(ListResourceTemplatesResult { resource_templates, next_cursor: None });
        }
        let catalog = self.gateway.view(cx);
        let mut own = vec![ArtifactTools::template()];
        own.extend(self.knowledge.templates());
        own.retain(|it| catalog.lists_own(ItemKind::Resource, &it.uri_template));
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
        if let Some(upstream) = self.gateway.bound_to(SERVER_NAME, cx)? {
            return self.gateway.read_resource_for_view(upstream, params, cx).await;
        }
        if self.is_own_resource(&params.uri) {
            self.gateway.check_own_resource(&params.uri, cx)?;
        }
        if let Some(whole) =
            self.artifacts.for_request(cx).resource(&params.uri, Some(cx.memory())).await
        {
            let mut whole = whole?;
            let contents = vec![std::mem::take(&mut whole.contents)];
            return Reply::json(&ReadResourceResult { contents, meta: None });
        }
        if let Some(reply) = self.custom.read_resource(&params.uri, cx).await {
            return reply;
        }
        if self.knowledge.owns(&params.uri) {
            let max_bytes = self.limits.max_resource_bytes.get();
            return self.knowledge.read(&params.uri, max_bytes, cx).await;
        }
        self.gateway.read_resource(params, cx).await
    }

    async fn complete(
        &self,
        params: CompleteParams,
        cx: &RequestContext,
    ) -> Result<CompleteResult, RpcError> {
        let (kind, name) = match &params.reference {
            CompleteReference::Prompt { name } => (ItemKind::Prompt, name),
            CompleteReference::Resource { uri } => (ItemKind::Resource, uri),
        };
        if !self.gateway.view(cx).lists_own(kind, name) {
            return self.gateway.complete(params, cx).await;
        }
        if let Some(result) = self.artifacts.for_request(cx).complete(&params).await {
            return result;
        }
        let is_taken = self.is_taken_prompt(cx);
        if let Some(result) = self.knowledge.complete(&params, is_taken, cx).await? {
            return Ok(result);
        }
        self.gateway.complete(params, cx).await
    }

    async fn subscribe(&self, uri: &str, cx: &RequestContext) -> Result<(), RpcError> {
        if self.is_own_resource(uri) {
            self.gateway.check_own_resource(uri, cx)?;
        }
        if uri.starts_with("artifact:") {
            // A version never changes, and a new one changes the list.
            return Err(RpcError::invalid_params("artifacts cannot be subscribed to"));
        }
        if self.knowledge.owns(uri) {
            return self.knowledge.watch(uri, cx).await;
        }
        self.gateway.subscribe(uri, cx).await
    }

    async fn unsubscribe(&self, uri: &str, client: ConversationId) {
        if self.knowledge.owns(uri) {
            self.knowledge.unwatch(uri);
        } else {
            self.gateway.unsubscribe(uri, client).await;
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
        if let Some(upstream) = self.gateway.bound_to(SERVER_NAME, cx)? {
            let prompts = self.listing_of(upstream, cx).prompts.clone();
            return Ok(ListPromptsResult { prompts, next_cursor: None });
        }
        let catalog = self.gateway.view(cx);
        let own = self.knowledge.prompts(self.is_taken_prompt(cx), cx).await?;
        let own = own.iter().chain(self.custom.prompts());
        let own = own.filter(|it| catalog.lists_own(ItemKind::Prompt, &it.name));
        let all: Vec<&Prompt> = own.chain(&catalog.prompts).collect();
        let (range, next_cursor) = self.page(all.len(), cursor)?;
        let prompts = all[range].iter().copied().cloned().collect();
        Ok(ListPromptsResult { prompts, next_cursor })
    }

    async fn get_prompt(
        &self,
        params: GetPromptParams,
        cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        let view = self.gateway.view(cx);
        if self.custom.has_prompt(&params.name)
            && view.may_use_own(ItemKind::Prompt, &params.name, cx)?
            && let Some(reply) = self.custom.get_prompt(&params, cx).await
        {
            return reply;
        }
        let is_taken = self.is_taken_prompt(cx);
        if view.allows_own(ItemKind::Prompt, &params.name)
            && let Some(reply) = self.knowledge.prompt(&params, is_taken, cx).await?
        {
            return Ok(reply);
        }
        self.gateway.get_prompt(params, cx).await
    }
}

impl GatewayHandler {
    /// Answers a tool call, and records what happens.
    async fn answer(
        &self,
        mut params: CallToolParams,
        cx: &RequestContext,
        record: &mut CallRecord,
    ) -> Result<Reply, RpcError> {
        if let Err(limited) = self.call_rate.admit(cx.caller()) {
            return limited_tool(&limited);
        }
        let catalog = self.gateway.view(cx);
        if self.built_ins.has(&params.name) || self.custom.has_tool(&params.name) {
            self.gateway.check_own_tool(&params.name, cx)?;
        }
        if let Some(reply) = self.built_ins.call(&params, cx).await {
            return reply;
        }
        if params.name == FIND && self.search.has(FIND) {
            return self.find_tools(&params, cx).await;
        }
        let name = params.name.clone();
        let arguments = params.arguments.clone();
        let no_ui = ToolUi::default();
        let call = CapturedCall {
            name: &name,
            arguments: arguments.as_deref(),
            output_schema: None,
            ui: &no_ui,
        };
        if let Some((tool, result)) = self.custom.call(&params, cx).await {
            let result =
                to_raw_value(&result).map_err(|error| RpcError::internal(error.to_string()))?;
            record.answered(&result);
            let call = CapturedCall { output_schema: tool.output_schema.as_ref(), ..call };
            let settings = &self.capture_settings;
            let captured = self.capture(call, settings, result, cx, record).await;
            self.count_kept(&name, kept_by(&captured), cx, record);
            return Ok(Reply::raw(captured.into_result()));
        }
        if let Some(upstream) = self.gateway.upstream_of_tool(&name, cx) {
            record.sent_to(upstream.name());
        }
        let selection = match self.selection(&mut params, &catalog, cx).await {
            Ok(selection) => selection,
            Err(problem) => return Reply::json(&CallToolResult::error(problem.to_string())),
        };
        let ToolAnswer { mut result, capture, mut output_schema, ui, is_stateless } =
            match self.gateway.call_tool(params, cx).await {
                Ok(answer) => answer,
                Err(CallFailure::Rpc(error)) => return Err(error),
                Err(CallFailure::NotAllowed(why)) => {
                    return Reply::json(&CallToolResult::error(why));
                }
                Err(CallFailure::Unreachable(unreachable)) => {
                    record.unreachable(unreachable.to_string());
                    return unreachable_tool(&unreachable);
                }
                Err(CallFailure::Limited(limited)) => return limited_tool(&limited),
                Err(CallFailure::Refused(why)) => {
                    return Reply::json(&CallToolResult::error(why));
                }
            };
        record.answered(&result);
        let call = CapturedCall { ui: &ui, ..call };
        let mut kept = KeptFromModel::default();
        let mut failure = None;
        if let (Some(projections), Some(selection)) = (&self.projections, selection) {
            result = match projections.apply(selection, result).await {
                Projected::Unchanged(result) => result,
                Projected::Selected(selected, rest) => {
                    kept = rest;
                    output_schema = None;
                    selected
                }
                Projected::Failed(result, why) => {
                    failure = Some(why);
                    result
                }
            };
        }
        let call = CapturedCall { output_schema: output_schema.as_deref(), ..call };
        let captured = match (&capture, &failure) {
            (None, _) => Captured::Unchanged(result),
            (Some(settings), None) => self.capture(call, settings, result, cx, record).await,
            (Some(settings), Some(_)) => self.saved_whole(call, settings, result, cx, record).await,
        };
        // One answer, whether a selection or the capture has shortened it, or both.
        let by_capture = kept_by(&captured);
        kept.bytes += by_capture.bytes;
        kept.tokens += by_capture.tokens;
        self.count_kept(&name, kept, cx, record);
        let result = match failure {
            Some(why) => failed_selection(captured, &why),
            None => captured.into_result(),
        };
        Ok(if is_stateless { Reply::complete(result) } else { Reply::raw(result) })
    }

    /// Returns a listed tool with the argument `_select`, if it is a tool of an upstream whose
    /// answer no View needs as a whole.
    fn with_selection(
        &self,
        mut tool: Tool,
        catalog: &Catalog,
        client: &Client,
        cx: &RequestContext,
    ) -> Tool {
        let route = catalog.tool(&tool.name).filter(|_| self.projections.is_some());
        if route.is_some_and(|route| !client.shows_view(&route.ui, cx)) {
            announce(&mut tool);
        }
        tool
    }

    /// Removes the argument `_select` from a call of an upstream's tool, and returns its program.
    /// A client that shows the tool's View gets the whole answer, and therefore no program.
    async fn selection(
        &self,
        params: &mut CallToolParams,
        catalog: &Catalog,
        cx: &RequestContext,
    ) -> Result<Option<Selection>, InvalidSelection> {
        let Some(projections) = self.projections.as_ref().filter(|_| may_select(params)) else {
            return Ok(None);
        };
        let Some(route) = catalog.tool(&params.name) else { return Ok(None) };
        if catalog.tools.iter().any(|tool| tool.name == params.name && has_own(tool)) {
            return Ok(None);
        }
        let selection = projections.take(params).await?;
        Ok(selection.filter(|_| !self.clients.of(cx).shows_view(&route.ui, cx)))
    }

    /// Returns the input schema of a tool as agents see it.
    fn input_schema_of<'a>(&'a self, tool: &str, catalog: &'a Catalog) -> Option<&'a Value> {
        self.listed_tools(catalog).find(|it| it.name == tool).map(|it| &it.input_schema)
    }

    /// Returns all tools that `tools/list` shows to the caller of a view, in its order.
    fn listed_tools<'a>(&'a self, catalog: &'a Catalog) -> impl Iterator<Item = &'a Tool> {
        let own = self.built_ins.listed().iter().chain(self.custom.tools());
        own.filter(|tool| catalog.lists_own(ItemKind::Tool, &tool.name)).chain(&catalog.tools)
    }

    /// Returns whether a built-in tool has this name, and the caller of a view may see it.
    fn has_own_tool(&self, tool: &str, view: &Catalog) -> bool {
        self.built_ins.has(tool) && view.lists_own(ItemKind::Tool, tool)
    }

    /// Returns whether the caller of a view sees a resource of the view, or of this server.
    fn shows(&self, resource: &Resource, view: &Catalog) -> bool {
        !self.is_own_resource(&resource.uri) || view.lists_own(ItemKind::Resource, &resource.uri)
    }

    /// Returns whether a URI is one of this server itself.
    fn is_own_resource(&self, uri: &str) -> bool {
        uri.starts_with("artifact:")
            || self.knowledge.owns(uri)
            || self.custom.resources().any(|resource| resource.uri == uri)
    }

    /// Returns the tools that `tools/list` shows a client: all, or two in place of a long list.
    fn shown_tools<'a>(
        &'a self,
        catalog: &'a Arc<Catalog>,
        client: &Client,
        cx: &RequestContext,
    ) -> Vec<&'a Tool> {
        let all: Vec<&Tool> = self.listed_tools(catalog).collect();
        if is_for_people(cx) {
            return all;
        }
        let profile = client.profile();
        let client = marquetry_search_tools::Client {
            defers_tools: profile.defers_tools,
            max_tools: profile.max_tools,
        };
        self.search.shown(catalog, &all, client).unwrap_or(all)
    }

    /// Replaces a call of `call_tool` by the call that it describes. Returns the answer if that is
    /// not possible. Only listed tools can be called in this way.
    async fn unwrap_call(
        &self,
        params: &mut CallToolParams,
        cx: &RequestContext,
    ) -> Option<CallToolResult> {
        if params.name != CALL || !self.search.has(CALL) {
            return None;
        }
        let mut call = match target(params) {
            Ok(call) => call,
            Err(refusal) => return Some(*refusal),
        };
        // The protocol waits only for the upstream of the name that it sees.
        if let Err(error) = self.gateway.list_ready(List::Tools, cx).await {
            return Some(CallToolResult::error(error.message.clone()));
        }
        let catalog = self.gateway.view(cx);
        if let Some(name) = self.own_name(&call.name, &catalog, &self.clients.of(cx)) {
            call.name = name;
        }
        let tools: Vec<&Tool> = self.listed_tools(&catalog).collect();
        let refusal = not_found(&call.name, &tools);
        if refusal.is_none() {
            note(|notes| {
                let arguments = call.arguments.as_deref().map_or("{}", RawValue::get);
                notes.arguments = Some(arguments.into());
            });
            *params = call;
        }
        refusal
    }

    /// Answers a search over the tools that the caller would list without it.
    async fn find_tools(
        &self,
        params: &CallToolParams,
        cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        self.gateway.list_ready(List::Tools, cx).await?;
        let catalog = self.gateway.view(cx);
        let tools: Vec<&Tool> = self.listed_tools(&catalog).collect();
        let found =
            self.search.answer(params, &catalog, &tools, |name| self.origin(name, &catalog));
        Reply::json(&found.await)
    }

    /// Returns the server of a tool and its name there.
    fn origin(&self, tool: &str, catalog: &Catalog) -> Origin {
        let of_upstream = catalog.tool(tool).and_then(|route| {
            let upstream = self.gateway.upstream(route.to.upstream)?;
            Some(Origin { server: upstream.name().to_owned(), name: route.to.name.clone() })
        });
        of_upstream
            .unwrap_or_else(|| Origin { server: SERVER_NAME.to_owned(), name: tool.to_owned() })
    }

    fn listed_names<'a>(&'a self, catalog: &'a Catalog) -> impl Iterator<Item = &'a str> {
        self.listed_tools(catalog).map(|tool| tool.name.as_str())
    }

    /// Returns the own name of a tool that the client calls by the name for this client. A tool is
    /// found by its own name first.
    fn own_name(&self, name: &str, catalog: &Catalog, client: &Client) -> Option<String> {
        if self.built_ins.has(name) || self.custom.has_tool(name) || catalog.tool(name).is_some() {
            return None;
        }
        let names = client.tool_names(self.listed_names(catalog));
        names.original(name).map(str::to_owned)
    }

    /// Saves an answer from which nothing could be selected, and shows little of it.
    async fn saved_whole(
        &self,
        call: CapturedCall<'_>,
        settings: &Settings,
        result: Box<RawValue>,
        cx: &RequestContext,
        record: &CallRecord,
    ) -> Captured {
        /// Bytes of the answer beside the error.
        const SHOWN_BYTES: u64 = 2_048;
        let mut as_saved = settings.clone();
        as_saved.mcp_tool_response_save_threshold_bytes = 0;
        as_saved.mcp_tool_llm_return_max_bytes = SHOWN_BYTES;
        if settings.save {
            let captured = self.capture(call, &as_saved, result.clone(), cx, record).await;
            let save = captured.report().map(|report| report.save.status);
            if save == Some(SaveStatus::Success) {
                return captured;
            }
        }
        // Nothing may be saved, or the store is full or fails: the model gets as much as without a
        // selection.
        self.capture(call, settings, result, cx, record).await
    }

    /// Counts the part of an answer that the model does not get.
    fn count_kept(
        &self,
        tool: &str,
        kept: KeptFromModel,
        cx: &RequestContext,
        record: &CallRecord,
    ) {
        if kept.is_nothing() {
            return;
        }
        let KeptFromModel { bytes, tokens, .. } = kept;
        record.kept_from_model(bytes, tokens);
        let owner = cx.principal().map(|principal| principal.id());
        self.savings.add(Saving { owner, tool: tool.to_owned(), bytes, tokens });
    }

    /// Captures the answer of a tool, and tells clients when that has made artifacts.
    async fn capture(
        &self,
        call: CapturedCall<'_>,
        settings: &Settings,
        result: Box<RawValue>,
        cx: &RequestContext,
        record: &CallRecord,
    ) -> Captured {
        let tool = call.name;
        let scope = self.artifacts.scope_of(cx);
        let client = self.clients.of(cx);
        let view = client.view_use(call.ui, &result, cx);
        if view == ViewUse::Shown && !call.ui.visibility.model {
            // The model does not see the answer, so nothing of it needs to be saved.
            return Captured::Unchanged(result);
        }
        let call = ToolCall::new(&scope, tool)
            .with_arguments(call.arguments)
            .with_output_schema(call.output_schema)
            .with_audience(Some(client.audience(settings)))
            .with_view(view);
        let captured = self.capturer.capture(call, settings, result).await;
        record.captured(&captured, settings, client.profile());
        if matches!(captured, Captured::Changed { .. }) {
            self.artifacts.for_request(cx).announce_change();
        }
        captured
    }

    /// Returns a check whether a custom tool or an upstream has a prompt with a name; records do
    /// not replace those.
    fn is_taken_prompt(&self, cx: &RequestContext) -> impl Fn(&str) -> bool {
        let catalog = self.gateway.view(cx);
        move |name| self.custom.has_prompt(name) || catalog.prompt(name).is_some()
    }

    fn page(
        &self,
        len: usize,
        cursor: Option<&str>,
    ) -> Result<(std::ops::Range<usize>, Option<String>), RpcError> {
        page(len, cursor, self.limits.list_page_size.get())
    }

    /// Returns instructions for this server, and those of the ready upstreams in a view that fit
    /// into `limits.max_instructions_bytes`.
    fn instructions(&self, view: &Catalog) -> String {
        let mut text = "Large and binary tool answers are saved as artifacts: the answer then names each artifact and shows what fits. ".to_owned();
        if [LIST, SEARCH, QUERY, READ].iter().all(|tool| self.has_own_tool(tool, view)) {
            text.push_str(&format!("{LIST} lists them, {SEARCH} and {QUERY} find what is in them, {READ} reads them in parts."));
        } else {
            text.push_str("They can be read as resources.");
        }
        if self.search.has(FIND) {
            text.push_str(&format!(" If {FIND} is listed, it finds the tools that are not."));
        }
        if let Some(more) = Knowledge::instructions(|tool| self.has_own_tool(tool, view)) {
            text.push_str("\n\n");
            text.push_str(&more);
        }
        text.push_str(&self.gateway.instructions(view, self.limits.max_instructions_bytes));
        text
    }
}

impl GatewayHandler {
    /// Returns the lists of an upstream; empty ones if it was removed meanwhile.
    fn listing_of(&self, upstream: usize, cx: &RequestContext) -> Arc<Listing> {
        let upstream = self.gateway.upstream(upstream);
        upstream.map(|it| self.gateway.view(cx).listing_of(&it)).unwrap_or_default()
    }
}

/// Returns whether a request comes from the console, the REST facade or `marquetry call`. People
/// see all tools.
fn is_for_people(cx: &RequestContext) -> bool {
    match cx.client() {
        Some(client) => [CONSOLE_CLIENT, SHELL_CLIENT].contains(&&*client.name),
        // In a session, every client of MCP has said its name.
        None => cx.revision().era() == Era::Session,
    }
}

/// Returns the part of an answer that its capture keeps from the model.
fn kept_by(captured: &Captured) -> KeptFromModel {
    captured.report().map(|report| report.kept_from_model).unwrap_or_default()
}

/// Returns the answer to a call whose upstream cannot be reached.
///
/// It is a failed tool call, not a protocol error. Protocol errors are for unknown tools and
/// invalid requests. Clients show results to the model, but not protocol errors, and the model can
/// act on this one: try later, or use another tool (2025-11-25, "Tools", "Error Handling").
fn unreachable_tool(unreachable: &Unreachable) -> Result<Reply, RpcError> {
    failed_tool(unreachable.to_string(), unreachable.data())
}

/// Returns the answer to a call over a limit: a failed call, too, since the official SDKs do not
/// repeat a refused request.
fn limited_tool(limited: &Limited) -> Result<Reply, RpcError> {
    note(|notes| notes.refusal = Some(Refusal::Limited));
    failed_tool(limited.to_string(), limited.data())
}

fn failed_tool(message: String, data: Value) -> Result<Reply, RpcError> {
    let meta = json!({UPSTREAM: data});
    let result = CallToolResult::error(message);
    Reply::json(&CallToolResult { meta: meta.as_object().cloned(), ..result })
}
