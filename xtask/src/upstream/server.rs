//! The MCP server: lists its tools, writes down each call, sends what it was told to.

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use async_trait::async_trait;
use marquetry_protocol::{
    RpcError,
    server::{Handler, Reply, RequestContext, ServerDescription},
    types::{CallToolParams, Implementation, ListChanged, ListToolsResult, ServerCapabilities},
};
use serde_json::{Value, value::RawValue};
use tokio::sync::mpsc;

use super::{Journal, ToolSpec, answer::Send};

/// An upstream's behaviour, shared by all of its connections.
#[derive(Clone)]
pub(super) struct Behaviour {
    name: String,
    tools: Arc<RwLock<Vec<ToolSpec>>>,
    journal: Arc<Journal>,
    /// Takes lines that are not JSON-RPC to the pipe; there is none over HTTP.
    garbage: Option<mpsc::UnboundedSender<String>>,
}

impl Behaviour {
    pub(super) fn new(
        name: String,
        tools: Vec<ToolSpec>,
        journal: Arc<Journal>,
        garbage: Option<mpsc::UnboundedSender<String>>,
    ) -> Self {
        Self { name, tools: Arc::new(RwLock::new(tools)), journal, garbage }
    }

    /// Has other tools from now on.
    pub(super) fn set_tools(&self, tools: Vec<ToolSpec>) {
        *self.tools.write().unwrap_or_else(PoisonError::into_inner) = tools;
    }

    fn next_answer(&self, params: &CallToolParams) -> Result<super::answer::AnswerSpec, RpcError> {
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
        let answer = self.next_answer(&params)?;
        tokio::time::sleep(Duration::from_millis(answer.delay_ms)).await;
        match answer.send {
            Send::Result(text) => {
                let raw = RawValue::from_string(text)
                    .map_err(|error| RpcError::internal(error.to_string()))?;
                Ok(Reply::raw(raw))
            }
            Send::Error { code, message } => Err(RpcError::new(code, message)),
            Send::Crash => std::process::exit(super::child::CRASHED),
            Send::Silence => {
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
}
