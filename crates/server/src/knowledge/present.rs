//! Documents, records and chat, from the crate `marquetry-knowledge`.

use std::sync::Arc;

use marquetry_knowledge::{
    ErrorCode, Failure, KnowledgeService, KnowledgeTools, SEARCH_RESOURCES,
    chat::{CREATE_MESSAGE, Chat},
    prompts::{self, CHAT_SYSTEM_PROMPT},
    resources, search_resources,
    tools::{CHAT, SEARCH, error_code},
};
use marquetry_protocol::{
    RpcError,
    server::{ChangeListener, Principal, Reply, RequestContext, Server, Toolbox},
    types::{
        CallToolResult, CompleteParams, CompleteReference, CompleteResult, GetPromptParams, Prompt,
        Resource, ResourceTemplate,
    },
};
use serde_json::{Value, json, value::RawValue};

use super::ERROR;
use crate::{
    config::{Config, ConfigError, environment},
    faults::{Faults, KNOWLEDGE},
};

/// Documents, records and chat of one server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Knowledge {
    service: Arc<KnowledgeService>,
    chat: Arc<Chat>,
    tools: KnowledgeTools,
    has_chat_tool: bool,
    has_tools: bool,
}

impl Knowledge {
    /// Opens nothing yet; `listener` hears of changes.
    pub(crate) fn new(
        config: &Config,
        listener: Arc<dyn ChangeListener>,
    ) -> Result<Self, ConfigError> {
        let service = Arc::new(KnowledgeService::new(config.knowledge_options(), listener));
        let chat = Chat::new(config.knowledge.chat.clone(), &environment)
            .map_err(|invalid| config.chat_fault(invalid))?;
        let chat = Arc::new(chat);
        let tools = KnowledgeTools::new(service.clone(), chat.clone(), config.limits.of_answers());
        Ok(Self {
            has_tools: config.tools.knowledge && service.is_enabled(),
            has_chat_tool: config.tools.chat,
            service,
            chat,
            tools,
        })
    }

    /// Whether the configuration switches it on.
    pub(crate) fn is_enabled(&self) -> bool {
        self.service.is_enabled()
    }

    /// Moves the write-ahead log into the database file.
    pub(crate) async fn close(&self) {
        self.service.close().await;
    }

    /// Adds `resources/search` (seed 003, part 3), which is no method of MCP, and `sampling/createMessage`, which MCP has in the other
    /// direction alone.
    pub(crate) fn add_methods(&self, server: Server) -> Server {
        if !self.is_enabled() {
            return server;
        }
        let (service, chat) = (self.service.clone(), self.chat.clone());
        let search = move |params: Option<Box<RawValue>>, cx: RequestContext| {
            let service = service.clone();
            async move { search_resources(&service, params.as_deref(), &cx).await }
        };
        let sample = move |params: Option<Box<RawValue>>, _: RequestContext| {
            let chat = chat.clone();
            async move { chat.sample(params.as_deref()).await }
        };
        server
            .with_method(SEARCH_RESOURCES, search)
            .and_then(|server| server.with_method(CREATE_MESSAGE, sample))
            .expect("servers of MCP have no methods of these names")
    }
}

/// Tools.
impl Knowledge {
    /// The names that no upstream can have.
    pub(crate) fn reserved_tools(config: &Config) -> &'static [&'static str] {
        if config.tools.knowledge && config.has_knowledge() { &KnowledgeTools::NAMES } else { &[] }
    }

    /// Adds the tools that are switched on.
    pub(crate) fn add_tools(&self, mut toolbox: Toolbox) -> Toolbox {
        if self.has_tools {
            toolbox = self.tools.add_to(toolbox);
            if self.has_chat_tool {
                toolbox = self.tools.add_chat(toolbox);
            }
        }
        toolbox
    }

    /// Whether `tools/list` shows a tool. Chat without a model could not be used; a call says how to set one up.
    pub(crate) fn is_listed(&self, tool: &str) -> bool {
        tool != CHAT || self.tools.has_model()
    }

    /// Title and hints of a tool, for lists.
    pub(crate) fn listing(tool: &str) -> Option<(&'static str, Value)> {
        KnowledgeTools::listing(tool)
    }

    /// The result of one of these tools as it is sent; `None` for other tools. A failure that is not the caller's fault shows in health.
    pub(crate) fn finish(
        tool: &str,
        result: &mut CallToolResult,
        faults: &Faults,
    ) -> Option<Value> {
        if !KnowledgeTools::NAMES.contains(&tool) {
            return None;
        }
        report(tool, result, faults);
        if let Some(code) = error_code(result) {
            let meta = result.meta.get_or_insert_default();
            meta.entry(ERROR).or_insert(json!({"code": code.as_str()}));
        }
        Some(KnowledgeTools::finish(tool, std::mem::take(result)))
    }

    /// What the server's instructions say of a tool that it has.
    pub(crate) fn instructions(has_tool: impl Fn(&str) -> bool) -> Option<String> {
        has_tool(SEARCH).then(|| {
            format!("{SEARCH} finds passages of the documents and notes that are kept here; cite them by their sourceUri.")
        })
    }
}

/// Notes whether the database works, as far as this call tells. Chat depends on a model elsewhere, and tells nothing of it.
fn report(tool: &str, result: &CallToolResult, faults: &Faults) {
    match error_code(result) {
        _ if tool == CHAT => {}
        None if KnowledgeTools::uses_store(tool) => faults.clear(KNOWLEDGE),
        None => {}
        Some(ErrorCode::Internal | ErrorCode::Unavailable) => {
            let message = result.content.first().and_then(|item| item.as_text());
            let message = message.unwrap_or_default();
            let message = &message[..message.floor_char_boundary(500)];
            faults.raise(KNOWLEDGE, format!("the last call failed: {message}"));
        }
        Some(_) => {}
    }
}

/// Resources.
impl Knowledge {
    /// Whether a URI is one of a record.
    pub(crate) fn owns(&self, uri: &str) -> bool {
        self.is_enabled() && uri.starts_with("am7:")
    }

    /// A page of all records, and the cursor of the next page.
    pub(crate) async fn resources(
        &self,
        cursor: Option<&str>,
        limit: usize,
        cx: &RequestContext,
    ) -> Result<(Vec<Resource>, Option<String>), RpcError> {
        match self.service.records_if_there(cx).await? {
            Some(access) => Ok(access.all_resources(cursor, limit).await?),
            None => Ok((Vec::new(), None)),
        }
    }

    /// A page of the records of a type, and the cursor of the next page.
    pub(crate) async fn resources_of_type(
        &self,
        kind: String,
        cursor: Option<&str>,
        limit: usize,
        principal: Option<&Principal>,
    ) -> Result<(Vec<Resource>, Option<String>), RpcError> {
        marquetry_rag::records::ModelType::of(&kind).map_err(Failure::from)?;
        if cursor.is_some_and(|cursor| !cursor.starts_with("am7://")) {
            return Err(Failure::invalid("cursor is not one that this list gave").into());
        }
        match self.service.if_there_for(principal).await? {
            Some(access) => Ok(access.resources(&[kind], cursor, limit).await?),
            None => Ok((Vec::new(), None)),
        }
    }

    /// The templates of URIs.
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
        let access = self.service.if_there(cx).await.map_err(failed)?;
        let access = access.ok_or_else(|| RpcError::resource_not_found(uri))?;
        Reply::json(&access.read(uri, max_bytes).await.map_err(failed)?)
    }

    /// The name of the record that the contents of a resource are of.
    pub(crate) fn record_name(meta: &serde_json::Map<String, Value>) -> Option<&Value> {
        meta.get(resources::RECORD_META)?.get("name")
    }

    /// Watches a URI that this [owns](Self::owns).
    pub(crate) async fn watch(&self, uri: &str, cx: &RequestContext) -> Result<(), RpcError> {
        self.service.watch(uri, cx).await.map_err(|failure| failure.of_resource(uri))
    }

    /// Ends a [`Self::watch`].
    pub(crate) fn unwatch(&self, uri: &str) {
        self.service.unwatch(uri);
    }
}

/// Prompts and completions.
impl Knowledge {
    /// The prompts that a caller may use; names of upstreams' prompts are `taken`.
    pub(crate) async fn prompts(
        &self,
        taken: impl Fn(&str) -> bool,
        cx: &RequestContext,
    ) -> Result<Vec<Prompt>, RpcError> {
        if !self.is_enabled() {
            return Ok(Vec::new());
        }
        let access = self.service.if_there(cx).await?;
        Ok(prompts::list(access.as_ref(), taken).await?)
    }

    /// Fills in a prompt; returns `None` if no prompt here has that name. Names that are `taken` by upstreams come first.
    pub(crate) async fn prompt(
        &self,
        params: &GetPromptParams,
        taken: impl Fn(&str) -> bool,
        cx: &RequestContext,
    ) -> Result<Option<Reply>, RpcError> {
        if !self.may_have_prompt(&params.name, taken) {
            return Ok(None);
        }
        let access = self.service.if_there(cx).await?;
        let result = prompts::get(access.as_ref(), &params.name, params.arguments.as_ref()).await?;
        result.map(|result| Reply::json(&result)).transpose()
    }

    /// Completes an argument of a template or prompt; returns `None` if the reference names none here.
    pub(crate) async fn complete(
        &self,
        params: &CompleteParams,
        taken: impl Fn(&str) -> bool,
        cx: &RequestContext,
    ) -> Result<Option<CompleteResult>, RpcError> {
        if self.is_enabled() && resources::is_completed_here(params) {
            return Ok(Some(match self.service.if_there(cx).await? {
                Some(access) => access.complete(params).await?,
                None => CompleteResult::default(),
            }));
        }
        let CompleteReference::Prompt { name } = &params.reference else { return Ok(None) };
        if !self.may_have_prompt(name, taken) {
            return Ok(None);
        }
        let access = self.service.if_there(cx).await?;
        let completion = prompts::complete(access.as_ref(), name, &params.argument).await?;
        Ok(completion.map(|completion| CompleteResult { completion }))
    }

    /// Whether a prompt may be one of these. A name of an upstream's prompt is the upstream's, so that no record takes its place; the
    /// prompt that exists without a record comes before all.
    fn may_have_prompt(&self, name: &str, taken: impl Fn(&str) -> bool) -> bool {
        self.is_enabled() && (name == CHAT_SYSTEM_PROMPT || !taken(name))
    }
}

/// The status of a failure with this code; `None` for a code that is not one of knowledge.
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
