//! Documents, records and chat, from the crate `marquetry-knowledge`.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use marquetry_chat::{
    CHAT_TOOL, CREATE_MESSAGE, Chat, ChatTool, SamplingStream, TurnContext,
    prompts::{self, CHAT_SYSTEM_PROMPT},
};
use marquetry_config::{Config, ConfigError};
use marquetry_gateway::{Gateway, GatewayOptions, Sampler};
use marquetry_knowledge::{
    ErrorCode, Failure, KnowledgeService, KnowledgeTools, Media, SEARCH_RESOURCES, resources,
    search_resources,
    tools::{SEARCH, error_code},
};
use marquetry_protocol::{
    RpcError,
    server::{ChangeListener, Principal, Reply, RequestContext, Server, Toolbox},
    types::{
        CallToolResult, CompleteParams, CompleteReference, CompleteResult, CreateMessageParams,
        GetPromptParams, Prompt, Resource, ResourceTemplate,
    },
};
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};

use crate::{
    faults::{Faults, KNOWLEDGE},
    limits::answer_limits,
};

/// Member of `_meta` of a failed tool call that holds the code of the failure.
pub(crate) const ERROR: &str = "marquetry/error";

/// Contexts and messages of Views for the model; [`None`] without a console.
pub(crate) type ViewContexts = Option<Arc<dyn TurnContext>>;

/// Documents, records and chat of one server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Knowledge {
    service: Arc<KnowledgeService>,
    chat: Arc<Chat>,
    tools: KnowledgeTools,
    chat_tool: ChatTool,
    has_chat_tool: bool,
    has_embed_tool: bool,
    has_tools: bool,
}

impl Knowledge {
    /// Creates the value without opening the database. `listener` is notified of changes, and
    /// `views` has the contexts and messages of Views for the model.
    pub(crate) fn new(
        config: &Config,
        listener: Arc<dyn ChangeListener>,
        views: ViewContexts,
    ) -> Result<Self, ConfigError> {
        let service = Arc::new(KnowledgeService::new(config.knowledge_options(), listener));
        let chat = Chat::new(config.knowledge.chat.clone(), &|name| std::env::var(name).ok())
            .map_err(|invalid| config.chat_fault(invalid))?;
        let chat = Arc::new(match views {
            Some(views) => chat.with_turn_context(views),
            None => chat,
        });
        Ok(Self {
            tools: KnowledgeTools::new(service.clone(), answer_limits(&config.limits)),
            chat_tool: ChatTool::new(service.clone(), chat.clone()),
            has_tools: config.tools.knowledge && service.is_enabled(),
            has_chat_tool: config.tools.chat,
            has_embed_tool: config.tools.embedding,
            service,
            chat,
        })
    }

    /// Lets the chat model answer requests for messages of those upstreams that the configuration
    /// names.
    pub(crate) fn add_sampler(&self, config: &Config, gateway: &mut GatewayOptions) {
        for upstream in &mut gateway.upstreams {
            if config.mcp_servers.get(&upstream.name).is_some_and(|it| it.sampling) {
                upstream.sampler = Some(Arc::new(self.clone()));
            }
        }
    }

    /// Returns whether the configuration enables it.
    pub(crate) fn is_enabled(&self) -> bool {
        self.service.is_enabled()
    }

    /// Moves the write-ahead log into the database file.
    pub(crate) async fn close(&self) {
        self.service.close().await;
    }

    /// Adds `resources/search` (seed 003, part 3), which is not a method of MCP, and
    /// `sampling/createMessage`, which MCP has only from server to client.
    pub(crate) fn add_methods(&self, server: Server, gateway: &Arc<Gateway>) -> Server {
        if !self.is_enabled() {
            return server;
        }
        let service = self.service.clone();
        let knowledge = self.clone();
        let searched = gateway.clone();
        let sampled = gateway.clone();
        server
            .with_method(SEARCH_RESOURCES, move |params, cx| {
                let service = service.clone();
                let allowed = searched.check_own_method(SEARCH, &cx);
                async move {
                    allowed?;
                    search_resources(&service, params.as_deref(), &cx).await
                }
            })
            .and_then(|server| {
                server.with_method(CREATE_MESSAGE, move |params, cx| {
                    let Self { chat, service, .. } = knowledge.clone();
                    let allowed = sampled.check_own_method(CHAT_TOOL, &cx);
                    async move {
                        allowed?;
                        let caller = service.caller(cx.principal().map(AsRef::as_ref));
                        chat.sample(params.as_deref(), &caller).await
                    }
                })
            })
            .expect("servers of MCP have no methods of these names")
    }

    /// Continues messages of a principal with the model, in parts.
    pub(crate) fn stream_message(
        &self,
        mut params: CreateMessageParams,
        principal: Option<&Principal>,
    ) -> Result<SamplingStream, Failure> {
        self.chat.add_context(&mut params, &self.service.caller(principal))?;
        self.chat.stream_message(params)
    }
}

#[async_trait]
impl Sampler for Knowledge {
    async fn create_message(&self, params: &RawValue) -> Result<Box<RawValue>, RpcError> {
        let params = serde_json::from_str(params.get())
            .map_err(|error| RpcError::invalid_params(error.to_string()))?;
        let message = self.chat.create_message(&params).await?;
        to_raw_value(&message).map_err(|error| RpcError::internal(error.to_string()))
    }
}

impl fmt::Debug for Knowledge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Knowledge")
    }
}

/// Tools.
impl Knowledge {
    /// Returns the names that upstreams may not use.
    pub(crate) fn reserved_tools(config: &Config) -> impl Iterator<Item = &'static str> {
        let has_tools = config.tools.knowledge && config.has_knowledge();
        KnowledgeTools::NAMES.into_iter().chain([CHAT_TOOL]).filter(move |_| has_tools)
    }

    /// Adds the enabled tools.
    pub(crate) fn add_tools(&self, mut toolbox: Toolbox) -> Toolbox {
        if self.has_tools {
            toolbox = self.tools.add_to(toolbox);
            if self.has_chat_tool {
                toolbox = self.chat_tool.add_to(toolbox);
            }
            if self.has_embed_tool {
                toolbox = self.tools.add_embed(toolbox);
            }
        }
        toolbox
    }

    /// Returns whether `tools/list` shows a tool. Without a model, chat is not listed; a call says
    /// how to set one up.
    pub(crate) fn is_listed(&self, tool: &str) -> bool {
        tool != CHAT_TOOL || self.chat.check_is_on().is_ok()
    }

    /// Adds title and hints to a tool, for lists.
    pub(crate) fn listing(tool: &str) -> Option<(&'static str, Value)> {
        if tool == CHAT_TOOL { Some(ChatTool::listing()) } else { KnowledgeTools::listing(tool) }
    }

    /// Returns the result of one of these tools as it is sent; `None` for other tools. A failure of
    /// the server is reported to health.
    pub(crate) fn finish(
        tool: &str,
        result: &mut CallToolResult,
        faults: &Faults,
    ) -> Option<Value> {
        if tool != CHAT_TOOL && !KnowledgeTools::NAMES.contains(&tool) {
            return None;
        }
        report(tool, result, faults);
        if let Some(code) = error_code(result) {
            let meta = result.meta.get_or_insert_default();
            meta.entry(ERROR).or_insert(json!({"code": code.as_str()}));
        }
        Some(KnowledgeTools::finish(tool, std::mem::take(result)))
    }

    /// Returns the sentence about search in the server's instructions, if the tool is enabled.
    pub(crate) fn instructions(has_tool: impl Fn(&str) -> bool) -> Option<String> {
        has_tool(SEARCH).then(|| {
            format!("{SEARCH} finds passages of stored documents and notes; cite them by their sourceUri.")
        })
    }
}

/// Reports whether the database works, as far as this call shows. Chat depends on a remote model,
/// so its failures are not reported.
fn report(tool: &str, result: &CallToolResult, faults: &Faults) {
    match error_code(result) {
        _ if tool == CHAT_TOOL => {}
        None if KnowledgeTools::uses_store(tool) => faults.clear(KNOWLEDGE),
        None => {}
        Some(ErrorCode::Internal | ErrorCode::Unavailable) => {
            let text = result.content.first().and_then(|item| item.as_text()).unwrap_or_default();
            let message = &text[..text.floor_char_boundary(500)];
            faults.raise(KNOWLEDGE, format!("the last call failed: {message}"));
        }
        Some(_) => {}
    }
}

/// Chats outside of requests of MCP.
impl Knowledge {
    /// Returns the chats with the configured model.
    pub(crate) fn chat(&self) -> &Arc<Chat> {
        &self.chat
    }

    /// Returns the database.
    pub(crate) fn service(&self) -> &Arc<KnowledgeService> {
        &self.service
    }
}

/// Resources.
impl Knowledge {
    /// Returns whether a URI is one of a record.
    pub(crate) fn owns(&self, uri: &str) -> bool {
        self.is_enabled() && uri.starts_with("am7:")
    }

    /// Returns a page of all records, and the cursor of the next page.
    pub(crate) async fn resources(
        &self,
        cursor: Option<&str>,
        limit: usize,
        cx: &RequestContext,
    ) -> Result<(Vec<Resource>, Option<String>), RpcError> {
        match self.service.existing_records(cx).await? {
            Some(access) => Ok(access.all_resources(cursor, limit).await?),
            None => Ok((Vec::new(), None)),
        }
    }

    /// Returns a page of the records of a type, and the cursor of the next page.
    pub(crate) async fn resources_of_type(
        &self,
        kind: String,
        cursor: Option<&str>,
        limit: usize,
        principal: Option<&Principal>,
    ) -> Result<(Vec<Resource>, Option<String>), RpcError> {
        resources::check_type(&kind)?;
        if cursor.is_some_and(|cursor| !cursor.starts_with("am7://")) {
            return Err(Failure::invalid("cursor is not one that this list gave").into());
        }
        match self.service.open_existing_for(principal).await? {
            Some(access) => Ok(access.resources(&[kind], cursor, limit).await?),
            None => Ok((Vec::new(), None)),
        }
    }

    /// Returns the URI templates.
    pub(crate) fn templates(&self) -> Vec<ResourceTemplate> {
        if self.is_enabled() { resources::templates().collect() } else { Vec::new() }
    }

    /// Reads a URI that this [owns](Self::owns).
    pub(crate) async fn read(
        &self,
        uri: &str,
        max_bytes: usize,
        cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        let failed = |failure: Failure| failure.of_resource(uri);
        let access = self.service.open_existing(cx).await.map_err(failed)?;
        let access = access.ok_or_else(|| RpcError::resource_not_found(uri))?;
        Reply::json(&access.read(uri, max_bytes).await.map_err(failed)?)
    }

    /// Reads the content of a record as [`marquetry_knowledge::Access::media`] does; [`None`] if
    /// there are no records.
    pub(crate) async fn media(
        &self,
        uri: &str,
        has_version: impl Fn(&str) -> bool + Send + Sync,
        cx: &RequestContext,
    ) -> Result<Option<Media>, Failure> {
        match self.service.open_existing(cx).await? {
            Some(access) => Ok(Some(access.media(uri, has_version).await?)),
            None => Ok(None),
        }
    }

    /// Returns the name of the record that the contents belong to.
    pub(crate) fn record_name(meta: &serde_json::Map<String, Value>) -> Option<&Value> {
        meta.get(resources::RECORD_META)?.get("name")
    }

    /// Subscribes to a URI that this [owns](Self::owns).
    pub(crate) async fn watch(&self, uri: &str, cx: &RequestContext) -> Result<(), RpcError> {
        self.service.watch(uri, cx).await.map_err(|failure| failure.of_resource(uri))
    }

    /// Ends a subscription of [`Self::watch`].
    pub(crate) fn unwatch(&self, uri: &str) {
        self.service.unwatch(uri);
    }
}

/// Prompts and completions.
impl Knowledge {
    /// Returns the prompts that a caller may use. Names in `taken` belong to prompts of upstreams.
    pub(crate) async fn prompts(
        &self,
        taken: impl Fn(&str) -> bool,
        cx: &RequestContext,
    ) -> Result<Vec<Prompt>, RpcError> {
        if !self.is_enabled() {
            return Ok(Vec::new());
        }
        let access = self.service.open_existing(cx).await?;
        Ok(prompts::list(access.as_ref(), taken).await?)
    }

    /// Fills in a prompt; `None` if no prompt here has that name. Names in `taken` belong to
    /// prompts of upstreams.
    pub(crate) async fn prompt(
        &self,
        params: &GetPromptParams,
        taken: impl Fn(&str) -> bool,
        cx: &RequestContext,
    ) -> Result<Option<Reply>, RpcError> {
        if !self.may_have_prompt(&params.name, taken) {
            return Ok(None);
        }
        let access = self.service.open_existing(cx).await?;
        let request = prompts::PromptRequest {
            arguments: params.arguments.as_ref(),
            caller: self.service.caller(cx.principal().map(AsRef::as_ref)),
            max_context_bytes: self.chat.max_context_bytes(),
        };
        let result = prompts::get(access.as_ref(), &params.name, &request).await?;
        result.map(|result| Reply::json(&result)).transpose()
    }

    /// Completes an argument of a template or prompt; `None` if the reference is not one of these.
    pub(crate) async fn complete(
        &self,
        params: &CompleteParams,
        taken: impl Fn(&str) -> bool,
        cx: &RequestContext,
    ) -> Result<Option<CompleteResult>, RpcError> {
        if self.is_enabled() && resources::is_completed_here(params) {
            return Ok(Some(match self.service.open_existing(cx).await? {
                Some(access) => access.complete(params).await?,
                None => CompleteResult::default(),
            }));
        }
        let CompleteReference::Prompt { name } = &params.reference else { return Ok(None) };
        if !self.may_have_prompt(name, taken) {
            return Ok(None);
        }
        let access = self.service.open_existing(cx).await?;
        let completion = prompts::complete(access.as_ref(), name, &params.argument).await?;
        Ok(completion.map(|completion| CompleteResult { completion }))
    }

    /// Returns whether a prompt may be one of these. Prompts of upstreams win over records with the
    /// same name; the built-in prompt wins over both.
    fn may_have_prompt(&self, name: &str, taken: impl Fn(&str) -> bool) -> bool {
        self.is_enabled() && (name == CHAT_SYSTEM_PROMPT || !taken(name))
    }
}

/// Returns the HTTP status for a failure code; `None` for codes of other parts.
pub(crate) fn code_of_failure(code: &str) -> Option<(u16, &'static str)> {
    let known = ErrorCode::ALL.into_iter().find(|known| known.as_str() == code)?;
    let status = match known {
        ErrorCode::InvalidParams => 400,
        ErrorCode::NotFound => 404,
        ErrorCode::Forbidden => 403,
        ErrorCode::Conflict => 409,
        ErrorCode::LimitExceeded => 413,
        ErrorCode::Busy | ErrorCode::Unavailable => 503,
        ErrorCode::Internal => 500,
    };
    Some((status, known.as_str()))
}
