//! The MCP server of an upstream: lists its tools, records each call, and sends the given answers.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use async_trait::async_trait;
use marquetry_protocol::{
    RpcError,
    server::{Handler, Reply, RequestContext, ServerDescription},
    types::{
        CallToolParams, Content, CreateMessageParams, ElicitParams, GetPromptParams,
        GetPromptResult, Implementation, ListChanged, ListPromptsResult, ListResourcesResult,
        ListToolsResult, Prompt, PromptMessage, ReadResourceParams, ReadResourceResult, Resource,
        ResourceContents, ResourcesCapability, Role, SamplingMessage, ServerCapabilities,
    },
};
use serde_json::{Value, json, value::RawValue};
use tokio::sync::mpsc;

use super::{
    Journal, Offer, ToolSpec, ViewSpec,
    answer::{AnswerSpec, Send},
};
use crate::language::Question;

/// Exit status of a crash that the scenario asks for.
pub(super) const CRASHED: i32 = 70;

/// An upstream's behaviour, shared by all of its connections.
#[derive(Clone)]
pub(super) struct Behaviour {
    name: String,
    tools: Arc<RwLock<Vec<ToolSpec>>>,
    resources: Arc<BTreeMap<String, String>>,
    views: Arc<Vec<ViewSpec>>,
    prompts: Arc<BTreeMap<String, String>>,
    journal: Arc<Journal>,
    /// Sends lines that are not JSON-RPC to the pipe; `None` over HTTP.
    garbage: Option<mpsc::UnboundedSender<String>>,
}

impl Behaviour {
    pub(super) fn new(
        name: String,
        offer: Offer,
        journal: Arc<Journal>,
        garbage: Option<mpsc::UnboundedSender<String>>,
    ) -> Self {
        let Offer { tools, resources, views, prompts } = offer;
        Self {
            name,
            tools: Arc::new(RwLock::new(tools)),
            resources: Arc::new(resources),
            views: Arc::new(views),
            prompts: Arc::new(prompts),
            journal,
            garbage,
        }
    }

    /// Replaces the tools.
    pub(super) fn set_tools(&self, tools: Vec<ToolSpec>) {
        *self.tools.write().unwrap_or_else(PoisonError::into_inner) = tools;
    }

    fn next_answer(&self, params: &CallToolParams) -> Result<AnswerSpec, RpcError> {
        let arguments = params
            .arguments
            .as_deref()
            .map_or(Ok(Value::Null), |raw| serde_json::from_str(raw.get()))
            .map_err(|error| RpcError::invalid_params(error.to_string()))?;
        let tools = self.tools.read().unwrap_or_else(PoisonError::into_inner);
        let tool = tools
            .iter()
            .find(|tool| tool.tool.name == params.name)
            .ok_or_else(|| RpcError::invalid_params(format!("unknown tool '{}'", params.name)))?;
        let before = self
            .journal
            .record(&params.name, &arguments)
            .map_err(|error| RpcError::internal(error.to_string()))?;
        tool.answers
            .get(before)
            .or(tool.answers.last())
            .cloned()
            .ok_or_else(|| RpcError::internal(format!("'{}' has no answer", params.name)))
    }
}

#[async_trait]
impl Handler for Behaviour {
    fn describe(&self) -> ServerDescription {
        let mut capabilities = ServerCapabilities::default();
        capabilities.tools = Some(ListChanged { list_changed: true });
        if !self.resources.is_empty() || !self.views.is_empty() {
            capabilities.resources =
                Some(ResourcesCapability { list_changed: false, subscribe: false });
        }
        if !self.prompts.is_empty() {
            capabilities.prompts = Some(ListChanged { list_changed: false });
        }
        let info = Implementation::new(&self.name, "1.0.0");
        ServerDescription { info, capabilities, instructions: None }
    }

    async fn list_tools(
        &self,
        _cursor: Option<&str>,
        _cx: &RequestContext,
    ) -> Result<ListToolsResult, RpcError> {
        let tools = self.tools.read().unwrap_or_else(PoisonError::into_inner);
        Ok(ListToolsResult {
            tools: tools.iter().map(|tool| tool.tool.clone()).collect(),
            ..Default::default()
        })
    }

    async fn call_tool(
        &self,
        params: CallToolParams,
        cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        // Without a session the client repeats the call with the answers; it is the same call.
        let answer = match cx.carried::<AnswerSpec>()? {
            Some(answer) => answer,
            None => self.next_answer(&params)?,
        };
        if !answer.asks.is_empty() {
            cx.carry(&answer)?;
            let mut answers = Vec::new();
            for (number, question) in answer.asks.iter().enumerate() {
                answers.push(ask(cx, &format!("question {number}"), question).await?);
            }
            for (asked, answer) in answers {
                self.journal
                    .record_answer(asked, &answer)
                    .map_err(|error| RpcError::internal(error.to_string()))?;
            }
        }
        for step in 1..=answer.progress {
            let total = f64::from(answer.progress);
            cx.progress(f64::from(step), Some(total), Some("on the way")).await;
        }
        tokio::time::sleep(Duration::from_millis(answer.delay_ms)).await;
        match answer.send {
            Send::Result(text) => {
                let raw = RawValue::from_string(text)
                    .map_err(|error| RpcError::internal(error.to_string()))?;
                Ok(Reply::raw(raw))
            }
            Send::Error { code, message } => Err(RpcError::new(code, message)),
            Send::Crash => std::process::exit(CRASHED),
            Send::Silence => {
                let _recorder = CancellationRecorder { journal: &self.journal, tool: &params.name };
                cx.cancelled().await;
                Err(RpcError::internal("cancelled"))
            }
            Send::Garbage(line) => {
                if let Some(garbage) = &self.garbage {
                    let _ = garbage.send(line);
                }
                cx.cancelled().await;
                Err(RpcError::internal("cancelled"))
            }
        }
    }

    async fn list_resources(
        &self,
        _cursor: Option<&str>,
        _cx: &RequestContext,
    ) -> Result<ListResourcesResult, RpcError> {
        let resources = self.resources.keys().map(|uri| Resource {
            uri: uri.clone(),
            name: uri.clone(),
            ..Resource::default()
        });
        let views = self.views.iter().filter_map(|view| view.listed.clone());
        Ok(ListResourcesResult {
            resources: resources.chain(views).collect(),
            ..Default::default()
        })
    }

    async fn read_resource(
        &self,
        params: ReadResourceParams,
        _cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        let view = self.views.iter().find(|view| view.contents.uri == params.uri);
        if let Some(ViewSpec { contents, .. }) = view {
            let contents = vec![contents.clone()];
            return Reply::json(&ReadResourceResult { contents, meta: None });
        }
        let text = self
            .resources
            .get(&params.uri)
            .ok_or_else(|| RpcError::resource_not_found(&params.uri))?
            .clone();
        let contents =
            ResourceContents { uri: params.uri, text: Some(text), ..ResourceContents::default() };
        Reply::json(&ReadResourceResult { contents: vec![contents], meta: None })
    }

    async fn list_prompts(
        &self,
        _cursor: Option<&str>,
        _cx: &RequestContext,
    ) -> Result<ListPromptsResult, RpcError> {
        Ok(ListPromptsResult {
            prompts: self
                .prompts
                .keys()
                .map(|name| Prompt { name: name.clone(), ..Prompt::default() })
                .collect(),
            ..Default::default()
        })
    }

    async fn get_prompt(
        &self,
        params: GetPromptParams,
        _cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        let text = self
            .prompts
            .get(&params.name)
            .ok_or_else(|| RpcError::invalid_params(format!("unknown prompt '{}'", params.name)))?;
        let message = PromptMessage { role: Role::User, content: Content::text(text) };
        Reply::json(&GetPromptResult { messages: vec![message], ..GetPromptResult::default() })
    }
}

/// Asks the agent, and returns the method and the answer.
async fn ask(
    cx: &RequestContext,
    key: &str,
    question: &Question,
) -> Result<(&'static str, Value), RpcError> {
    if let Some(message) = &question.elicit {
        let schema = json!({
            "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"],
        });
        let answer = cx.elicit(key, &ElicitParams::form(message, schema)).await?;
        return Ok(("elicit", json!(answer)));
    }
    if let Some(text) = &question.sample {
        let params = CreateMessageParams {
            messages: vec![SamplingMessage::user(text)],
            max_tokens: 100,
            ..CreateMessageParams::default()
        };
        return Ok(("sample", cx.sample(key, &params).await?.text().into()));
    }
    Ok(("roots", json!(cx.roots(key).await?.roots)))
}

/// Records a cancelled call: a cancellation drops the future that holds this value.
struct CancellationRecorder<'a> {
    journal: &'a Journal,
    tool: &'a str,
}

impl Drop for CancellationRecorder<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.journal.record_cancelled(self.tool) {
            eprintln!("upstream: failed to record a cancelled call: {error}");
        }
    }
}
