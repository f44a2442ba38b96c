//! What a server answers.

use std::borrow::Cow;
#[cfg(any(feature = "schema", feature = "http"))]
use std::sync::Arc;

use async_trait::async_trait;
use marquetry_protocol_wire::{
    RpcError,
    types::{
        CacheHint, CallToolParams, CompleteParams, CompleteResult, GetPromptParams, Implementation,
        ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
        LogLevel, ReadResourceParams, ServerCapabilities,
    },
};
use serde_json::Value;

#[cfg(feature = "http")]
use super::{Caller, fair::Full};
use super::{context::RequestContext, reply::Reply, tasks::TaskOptions};

/// The server's name, capabilities and instructions.
#[derive(Clone, Debug, Default)]
pub struct ServerDescription {
    /// Its name and version.
    pub info: Implementation,
    /// Its capabilities. Leave the methods of a missing capability at their defaults.
    pub capabilities: ServerCapabilities,
    /// How to use it, for the model.
    pub instructions: Option<String>,
}

/// Answers the protocol's methods. A method that is not overridden answers "method not found".
///
/// A call ends early when its future is dropped: the client cancelled it, or went away in the stateless era.
/// [`RequestContext::cancelled`] tells it beforehand when there is something to clean up.
///
/// A call first runs where its client's messages are read, up to its first wait: a method that computes for long before
/// it awaits anything holds up the client's other messages (on a pipe, cancellations too). Such work belongs in
/// `tokio::task::spawn_blocking`.
#[async_trait]
pub trait Handler: Send + Sync + 'static {
    /// Describes the server. Called at each `initialize` and `server/discover`.
    fn describe(&self) -> ServerDescription;

    /// `tools/list`; `cursor` is what an earlier page gave as its next one.
    async fn list_tools(
        &self,
        cursor: Option<&str>,
        cx: &RequestContext,
    ) -> Result<ListToolsResult, RpcError> {
        let _ = cursor;
        Err(unanswered(cx))
    }

    /// `tools/call`. A tool that fails answers with [`CallToolResult::error`](marquetry_protocol_wire::types::CallToolResult::error); an [`RpcError`] says that the tool was
    /// never reached.
    async fn call_tool(
        &self,
        params: CallToolParams,
        cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        let _ = params;
        Err(unanswered(cx))
    }

    /// How long clients may keep the results of `method` (`server/discover`, a list, `resources/read`), and whether
    /// anybody may be given them (since 2026-07-28); no time at all, by default. A [`Reply`] may have a
    /// [hint of its own](Reply::cached).
    ///
    /// Clients that listen learn of changes before that time is over.
    fn cache_hint(&self, method: &str) -> CacheHint {
        let _ = method;
        CacheHint::default()
    }

    /// Whether calls of a tool run as tasks; none does, by default. Where the client does not know tasks, the call
    /// waits for its answer ([`RequestContext::run_as_task`] has the details).
    ///
    /// A server with such tools declares [`TASKS_EXTENSION`](marquetry_protocol_wire::types::TASKS_EXTENSION) in
    /// [`ServerCapabilities::extensions`].
    fn task_options(&self, tool: &str) -> Option<TaskOptions> {
        let _ = tool;
        None
    }

    /// The input schema of a tool, asked for at calls over stateless HTTP: arguments that it marks with `x-mcp-header`
    /// must be repeated in headers. Without a schema they are not checked.
    fn input_schema(&self, tool: &str) -> Option<Cow<'_, Value>> {
        let _ = tool;
        None
    }

    /// Returns the arguments that [`Self::input_schema`] marks. By default it searches the schema at each call; override it
    /// to search each schema once.
    #[cfg(feature = "http")]
    fn header_arguments(&self, tool: &str) -> Option<Arc<super::HeaderArguments>> {
        let schema = self.input_schema(tool)?;
        // A tool with wrong marks is not listed; its author finds out by the server's own tests.
        super::HeaderArguments::of(&schema).ok().flatten()
    }

    /// Waits until [`Self::header_arguments`] knows `tool`, before the headers of a call are checked; returns at once, by
    /// default. It is asked only about tools for which [`Self::header_arguments`] returned none. The request holds no
    /// place among those in flight yet, so an implementation that waits bounds how many of `caller`'s requests do.
    ///
    /// # Errors
    /// When too many requests wait already.
    #[cfg(feature = "http")]
    async fn header_arguments_known(&self, tool: &str, caller: &Caller) -> Result<(), Full> {
        let _ = (tool, caller);
        Ok(())
    }

    /// What calls of a tool are checked against: their arguments before the tool sees them, their results before the
    /// client does. Without it they are not checked. A result that breaks its `outputSchema` becomes an error that says
    /// where, in the answer and in the trace.
    #[cfg(feature = "schema")]
    fn tool_schema(&self, tool: &str) -> Option<Arc<super::ToolSchema>> {
        let _ = tool;
        None
    }

    /// `resources/list`
    async fn list_resources(
        &self,
        cursor: Option<&str>,
        cx: &RequestContext,
    ) -> Result<ListResourcesResult, RpcError> {
        let _ = cursor;
        Err(unanswered(cx))
    }

    /// `resources/templates/list`
    async fn list_resource_templates(
        &self,
        cursor: Option<&str>,
        cx: &RequestContext,
    ) -> Result<ListResourceTemplatesResult, RpcError> {
        let _ = cursor;
        Err(unanswered(cx))
    }

    /// `resources/read`; [`RpcError::resource_not_found`] when there is none.
    async fn read_resource(
        &self,
        params: ReadResourceParams,
        cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        let _ = params;
        Err(unanswered(cx))
    }

    /// `completion/complete`
    async fn complete(
        &self,
        params: CompleteParams,
        cx: &RequestContext,
    ) -> Result<CompleteResult, RpcError> {
        let _ = params;
        Err(unanswered(cx))
    }

    /// A client wants to hear when the resource `uri` changes; tell it by
    /// [`Notifier::resource_updated`](super::Notifier::resource_updated). Override it to offer subscriptions.
    async fn subscribe(&self, uri: &str, cx: &RequestContext) -> Result<(), RpcError> {
        let _ = uri;
        Err(unanswered(cx))
    }

    /// A client has ended its subscription to the resource, or is gone.
    async fn unsubscribe(&self, uri: &str) {
        let _ = uri;
    }

    /// A session's client wants log messages from `level` on; [`RequestContext::log`] minds it by itself.
    async fn set_log_level(&self, level: LogLevel, cx: &RequestContext) {
        let _ = (level, cx);
    }

    /// `prompts/list`
    async fn list_prompts(
        &self,
        cursor: Option<&str>,
        cx: &RequestContext,
    ) -> Result<ListPromptsResult, RpcError> {
        let _ = cursor;
        Err(unanswered(cx))
    }

    /// `prompts/get`
    async fn get_prompt(
        &self,
        params: GetPromptParams,
        cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        let _ = params;
        Err(unanswered(cx))
    }
}

fn unanswered(cx: &RequestContext) -> RpcError {
    RpcError::method_not_found(cx.method())
}
