//! What a server answers.

use std::borrow::Cow;
#[cfg(any(feature = "schema", feature = "http"))]
use std::sync::Arc;

use async_trait::async_trait;
use marquetry_protocol_wire::{
    RpcError,
    types::{
        CacheHint, CallToolParams, ClientCapabilities, CompleteParams, CompleteResult,
        GetPromptParams, Implementation, ListPromptsResult, ListResourceTemplatesResult,
        ListResourcesResult, ListToolsResult, LogLevel, ReadResourceParams, ServerCapabilities,
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

/// Answers the protocol's methods. A method that is not overridden answers "method not found", or as the
/// [inner handler](Handler::inner) does.
///
/// A call ends early when its future is dropped: the client cancelled it, or went away in the stateless era.
/// [`RequestContext::cancelled`] tells it beforehand when there is something to clean up.
///
/// A call first runs where its client's messages are read, up to its first wait: a method that computes for long before
/// it awaits anything holds up the client's other messages (on a pipe, cancellations too). Such work belongs in
/// `tokio::task::spawn_blocking`.
#[async_trait]
pub trait Handler: Send + Sync + 'static {
    /// Describes the server.
    fn describe(&self) -> ServerDescription;

    /// Describes the server to one client. Called at each `initialize` and `server/discover`. A handler overrides it when
    /// its capabilities depend on those of the client, as those of some extensions do.
    ///
    /// In the session era the client's capabilities hold for the session; since 2026-07-28 each request has its own. A
    /// description that depends on them needs a [cache hint](Self::cache_hint) for `server/discover` that is private.
    fn describe_for(&self, client: &ClientCapabilities) -> ServerDescription {
        let _ = client;
        self.describe()
    }

    /// The handler that this one wraps; none by default. A handler that changes some answers of another one names it
    /// here, and overrides only the methods that it changes: every other method asks the inner handler. The descriptions
    /// are its own: [`Self::describe`], and [`Self::describe_for`] where the inner handler has one.
    ///
    /// ```
    /// # use marquetry_protocol_server::{Handler, ServerDescription, Toolbox};
    /// struct Renamed(Toolbox);
    ///
    /// impl Handler for Renamed {
    ///     fn inner(&self) -> Option<&dyn Handler> {
    ///         Some(&self.0)
    ///     }
    ///
    ///     fn describe(&self) -> ServerDescription {
    ///         let mut description = self.0.describe();
    ///         description.info.name = "renamed".to_owned();
    ///         description
    ///     }
    /// }
    /// ```
    fn inner(&self) -> Option<&dyn Handler> {
        None
    }

    /// `tools/list`; `cursor` is what an earlier page gave as its next one.
    async fn list_tools(
        &self,
        cursor: Option<&str>,
        cx: &RequestContext,
    ) -> Result<ListToolsResult, RpcError> {
        match self.inner() {
            Some(inner) => inner.list_tools(cursor, cx).await,
            None => Err(unanswered(cx)),
        }
    }

    /// `tools/call`. A tool that fails answers with [`CallToolResult::error`](marquetry_protocol_wire::types::CallToolResult::error); an [`RpcError`] says that the tool was
    /// never reached.
    async fn call_tool(
        &self,
        params: CallToolParams,
        cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        match self.inner() {
            Some(inner) => inner.call_tool(params, cx).await,
            None => Err(unanswered(cx)),
        }
    }

    /// How long clients may keep the results of `method` (`server/discover`, a list, `resources/read`), and whether
    /// anybody may be given them (since 2026-07-28); no time at all, by default. A [`Reply`] may have a
    /// [hint of its own](Reply::cached).
    ///
    /// Clients that listen learn of changes before that time is over.
    fn cache_hint(&self, method: &str) -> CacheHint {
        self.inner().map_or_else(CacheHint::default, |inner| inner.cache_hint(method))
    }

    /// Whether calls of a tool run as tasks; none does, by default. Where the client does not know tasks, the call
    /// waits for its answer ([`RequestContext::run_as_task`] has the details).
    ///
    /// A server with such tools declares [`TASKS_EXTENSION`](marquetry_protocol_wire::types::TASKS_EXTENSION) in
    /// [`ServerCapabilities::extensions`].
    fn task_options(&self, tool: &str) -> Option<TaskOptions> {
        self.inner()?.task_options(tool)
    }

    /// The input schema of a tool, asked for at calls over stateless HTTP: arguments that it marks with `x-mcp-header`
    /// must be repeated in headers. Without a schema they are not checked.
    fn input_schema(&self, tool: &str) -> Option<Cow<'_, Value>> {
        self.inner()?.input_schema(tool)
    }

    /// Returns the arguments that [`Self::input_schema`] marks. By default it searches the schema at each call; override it
    /// to search each schema once.
    #[cfg(feature = "http")]
    fn header_arguments(&self, tool: &str) -> Option<Arc<super::HeaderArguments>> {
        if let Some(inner) = self.inner() {
            return inner.header_arguments(tool);
        }
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
        match self.inner() {
            Some(inner) => inner.header_arguments_known(tool, caller).await,
            None => Ok(()),
        }
    }

    /// What calls of a tool are checked against: their arguments before the tool sees them, their results before the
    /// client does. Without it they are not checked. A result that breaks its `outputSchema` becomes an error that says
    /// where, in the answer and in the trace.
    #[cfg(feature = "schema")]
    fn tool_schema(&self, tool: &str) -> Option<Arc<super::ToolSchema>> {
        self.inner()?.tool_schema(tool)
    }

    /// `resources/list`
    async fn list_resources(
        &self,
        cursor: Option<&str>,
        cx: &RequestContext,
    ) -> Result<ListResourcesResult, RpcError> {
        match self.inner() {
            Some(inner) => inner.list_resources(cursor, cx).await,
            None => Err(unanswered(cx)),
        }
    }

    /// `resources/templates/list`
    async fn list_resource_templates(
        &self,
        cursor: Option<&str>,
        cx: &RequestContext,
    ) -> Result<ListResourceTemplatesResult, RpcError> {
        match self.inner() {
            Some(inner) => inner.list_resource_templates(cursor, cx).await,
            None => Err(unanswered(cx)),
        }
    }

    /// `resources/read`; [`RpcError::resource_not_found`] when there is none.
    async fn read_resource(
        &self,
        params: ReadResourceParams,
        cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        match self.inner() {
            Some(inner) => inner.read_resource(params, cx).await,
            None => Err(unanswered(cx)),
        }
    }

    /// `completion/complete`
    async fn complete(
        &self,
        params: CompleteParams,
        cx: &RequestContext,
    ) -> Result<CompleteResult, RpcError> {
        match self.inner() {
            Some(inner) => inner.complete(params, cx).await,
            None => Err(unanswered(cx)),
        }
    }

    /// A client wants to hear when the resource `uri` changes; tell it by
    /// [`Notifier::resource_updated`](super::Notifier::resource_updated). Override it to offer subscriptions.
    async fn subscribe(&self, uri: &str, cx: &RequestContext) -> Result<(), RpcError> {
        match self.inner() {
            Some(inner) => inner.subscribe(uri, cx).await,
            None => Err(unanswered(cx)),
        }
    }

    /// A client has ended its subscription to the resource, or is gone.
    async fn unsubscribe(&self, uri: &str) {
        if let Some(inner) = self.inner() {
            inner.unsubscribe(uri).await;
        }
    }

    /// A session's client wants log messages from `level` on; [`RequestContext::log`] minds it by itself.
    async fn set_log_level(&self, level: LogLevel, cx: &RequestContext) {
        if let Some(inner) = self.inner() {
            inner.set_log_level(level, cx).await;
        }
    }

    /// `prompts/list`
    async fn list_prompts(
        &self,
        cursor: Option<&str>,
        cx: &RequestContext,
    ) -> Result<ListPromptsResult, RpcError> {
        match self.inner() {
            Some(inner) => inner.list_prompts(cursor, cx).await,
            None => Err(unanswered(cx)),
        }
    }

    /// `prompts/get`
    async fn get_prompt(
        &self,
        params: GetPromptParams,
        cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        match self.inner() {
            Some(inner) => inner.get_prompt(params, cx).await,
            None => Err(unanswered(cx)),
        }
    }
}

fn unanswered(cx: &RequestContext) -> RpcError {
    RpcError::method_not_found(cx.method())
}
