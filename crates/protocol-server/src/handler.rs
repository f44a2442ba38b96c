//! The trait that answers requests.

use std::{borrow::Cow, sync::Arc};

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
use super::{HeaderArguments, Peer, fair::Full};
use super::{
    context::RequestContext, conversation_id::ConversationId, reply::Reply,
    subscriptions::Unsubscribe, tasks::TaskOptions,
};

/// The server's name, capabilities and instructions.
#[derive(Clone, Debug, Default)]
pub struct ServerDescription {
    /// Name and version of the server.
    pub info: Implementation,
    /// Capabilities of the server. Leave the methods of a missing capability at their defaults.
    pub capabilities: ServerCapabilities,
    /// Instructions for the model.
    pub instructions: Option<String>,
}

/// Answers the protocol's methods. A method that is not overridden answers "method not found", or
/// as the [inner handler](Handler::inner) does.
///
/// A cancelled call ends by dropping its future; so does a call in the stateless era whose client
/// disconnects. [`RequestContext::cancelled`] completes before that, for handlers that need to
/// clean up.
///
/// A call first runs on the task that reads its client's messages, until its first wait. A method
/// that computes for long before it awaits delays the client's other messages (on a pipe,
/// cancellations too). Use `tokio::task::spawn_blocking` for such work.
#[async_trait]
pub trait Handler: Send + Sync + 'static {
    /// Describes the server.
    fn describe(&self) -> ServerDescription;

    /// Describes the server to one client. Called at each `initialize` and `server/discover`. A
    /// handler overrides it when its capabilities depend on those of the client, as those of some
    /// extensions do.
    ///
    /// In the session era the client's capabilities hold for the session; since 2026-07-28 each
    /// request has its own. A description that depends on them needs a [cache
    /// hint](Self::cache_hint) for `server/discover` that is private.
    fn describe_for(&self, client: &ClientCapabilities) -> ServerDescription {
        let _ = client;
        self.describe()
    }

    /// Describes the server to the sender of a request; by default as [`Self::describe_for`] does.
    /// The capabilities are those of `client`: at `initialize`, the context has none yet.
    fn describe_to(&self, client: &ClientCapabilities, cx: &RequestContext) -> ServerDescription {
        let _ = cx;
        self.describe_for(client)
    }

    /// Returns the handler that this one wraps; none by default. A handler that changes some
    /// answers of another one returns that one here, and overrides only the methods that it
    /// changes: every other method calls the inner handler. Descriptions are not taken over:
    /// implement [`Self::describe`], and [`Self::describe_for`] and [`Self::describe_to`] if the
    /// inner handler implements them.
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

    /// Handles `tools/list`; `cursor` is the next cursor of an earlier page.
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

    /// Answers `tools/call`. A tool that fails answers with
    /// [`CallToolResult::error`](marquetry_protocol_wire::types::CallToolResult::error); an
    /// [`RpcError`] means that the tool was not called.
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

    /// Returns how long clients may cache the results of `method` (`server/discover`, a list,
    /// `resources/read`), and whether caches may share them (since 2026-07-28). By default they may
    /// not cache. A [`Reply`] may have its [own hint](Reply::cached).
    ///
    /// Clients that listen are notified of changes before that time is over.
    fn cache_hint(&self, method: &str) -> CacheHint {
        self.inner().map_or_else(CacheHint::default, |inner| inner.cache_hint(method))
    }

    /// Returns whether calls of a tool run as tasks; by default they do not. If the client does not
    /// support tasks, the call waits for its answer ([`RequestContext::run_as_task`] has the
    /// details).
    ///
    /// A server with such tools declares
    /// [`TASKS_EXTENSION`](marquetry_protocol_wire::types::TASKS_EXTENSION) in
    /// [`ServerCapabilities::extensions`].
    fn task_options(&self, tool: &str) -> Option<TaskOptions> {
        self.inner()?.task_options(tool)
    }

    /// Returns the input schema of a tool, for calls over stateless HTTP: arguments with the mark
    /// `x-mcp-header` must be repeated in headers. Without a schema they are not checked.
    fn input_schema(&self, tool: &str) -> Option<Cow<'_, Value>> {
        self.inner()?.input_schema(tool)
    }

    /// Returns what knows the arguments that [`Self::input_schema`] marks, for a server that does
    /// not want their schema to be searched at each call, or whose tools come and go; none by
    /// default.
    #[cfg(feature = "http")]
    fn tool_headers(&self) -> Option<&dyn ToolHeaders> {
        self.inner()?.tool_headers()
    }

    /// Returns the schemas of a tool: arguments are checked before the tool sees them, results
    /// before the client sees them. Without schemas there is no check. A result that violates its
    /// `outputSchema` becomes an error that names the place, in the answer and in the log.
    #[cfg(feature = "schema")]
    fn tool_schema(&self, tool: &str) -> Option<Arc<super::ToolSchema>> {
        self.inner()?.tool_schema(tool)
    }

    /// Answers `resources/list`.
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

    /// Answers `resources/templates/list`.
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

    /// Answers `resources/read`, with [`RpcError::resource_not_found`] for unknown resources.
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

    /// Answers `completion/complete`.
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

    /// Subscribes a client to the resource `uri`; call
    /// [`Notifier::resource_updated`](super::Notifier::resource_updated) when it changes. Override
    /// it to offer subscriptions.
    async fn subscribe(&self, uri: &str, cx: &RequestContext) -> Result<(), RpcError> {
        match self.inner() {
            Some(inner) => inner.subscribe(uri, cx).await,
            None => Err(unanswered(cx)),
        }
    }

    /// Ends a client's subscription to the resource, also when the client has disconnected. The
    /// request that subscribed had the same [`RequestContext::conversation`] `client`.
    async fn unsubscribe(&self, uri: &str, client: ConversationId) {
        if let Some(inner) = self.inner() {
            inner.unsubscribe(uri, client).await;
        }
    }

    /// Handles a new log level of a session's client. [`RequestContext::log`] already applies it.
    async fn set_log_level(&self, level: LogLevel, cx: &RequestContext) {
        if let Some(inner) = self.inner() {
            inner.set_log_level(level, cx).await;
        }
    }

    /// Answers `prompts/list`.
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

    /// Answers `prompts/get`.
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

/// The arguments of tools that the headers of calls must repeat, for a server that prepares them,
/// such as a gateway. Other handlers need no implementation.
#[cfg(feature = "http")]
#[async_trait]
pub trait ToolHeaders: Send + Sync {
    /// Returns the marked arguments of a tool, by its name for the client that the call names; none
    /// if it has none, is not known yet, or is not there for the sender of the call.
    fn arguments(
        &self,
        tool: &str,
        info: Option<&Implementation>,
        sender: &Peer,
    ) -> Option<Arc<HeaderArguments>>;

    /// Waits until [`Self::arguments`] knows `tool`, before the headers of a call are checked; by
    /// default it returns at once. It is called only for tools for which [`Self::arguments`]
    /// returned [`None`]. The request has no slot among those in flight yet, so an implementation
    /// that waits must limit the number of the sender's waiting requests.
    ///
    /// # Errors
    /// Returns an error if too many requests wait already.
    async fn known(&self, tool: &str, sender: &Peer) -> Result<(), Full> {
        let _ = (tool, sender);
        Ok(())
    }
}

#[async_trait]
impl Unsubscribe for Arc<dyn Handler> {
    async fn unsubscribe(&self, uri: &str, client: ConversationId) {
        Handler::unsubscribe(&**self, uri, client).await;
    }
}

fn unanswered(cx: &RequestContext) -> RpcError {
    RpcError::method_not_found(cx.method())
}
