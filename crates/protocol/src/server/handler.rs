//! What a server answers.

use std::borrow::Cow;

use async_trait::async_trait;
use serde::Serialize;
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

use super::{RequestContext, TaskOptions, shape::shape};
use crate::{
    Revision, RpcError,
    types::{
        CacheHint, CallToolParams, CallToolResult, CompleteParams, CompleteResult, GetPromptParams,
        Implementation, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
        ListToolsResult, LogLevel, ReadResourceParams, ServerCapabilities, Task,
    },
};

/// Who a server is and what it can do.
#[derive(Clone, Debug, Default)]
pub struct ServerDescription {
    /// Its name and version.
    pub info: Implementation,
    /// What it offers. A method whose capability is missing should be left at its default.
    pub capabilities: ServerCapabilities,
    /// How to use it, for the model.
    pub instructions: Option<String>,
}

/// Answers the protocol's methods. What is not overridden is answered with "method not found".
///
/// A call ends early when its future is dropped: the client cancelled it, or went away in the stateless era.
/// [`RequestContext::cancelled`] tells it beforehand when there is something to clean up.
#[async_trait]
pub trait Handler: Send + Sync + 'static {
    /// Who the server is; asked for at each `initialize` and `server/discover`.
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

    /// `tools/call`. A tool that fails answers with [`CallToolResult::error`]; an [`RpcError`] says that the tool was
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
    /// A server with such tools declares [`TASKS_EXTENSION`](crate::types::TASKS_EXTENSION) in
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

    /// A client no longer wants to hear of it: it said so, or it is gone.
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

/// A result that is already JSON.
#[derive(Clone, Debug)]
pub struct Reply {
    json: Box<RawValue>,
    has_result_type: bool,
    cache: Option<CacheHint>,
}

impl Reply {
    /// Serialises `value`, which must give a JSON object.
    ///
    /// # Errors
    /// An internal error when it cannot be serialised.
    pub fn json(value: &impl Serialize) -> Result<Self, RpcError> {
        let json = to_raw_value(value)
            .map_err(|error| RpcError::internal(format!("result is no JSON: {error}")))?;
        Ok(Self::raw(json))
    }

    /// A JSON object that goes out as it is, but for the members that a revision demands of every result.
    #[must_use]
    pub fn raw(json: Box<RawValue>) -> Self {
        Self { json, has_result_type: false, cache: None }
    }

    /// A result that already has the members which 2026-07-28 demands (`resultType`, and for lists and reads `ttlMs`
    /// and `cacheScope`), as one that came from a server of that revision.
    #[must_use]
    pub fn complete(json: Box<RawValue>) -> Self {
        Self { json, has_result_type: true, cache: None }
    }

    /// The same, which clients may keep for a while (since 2026-07-28; older revisions are told nothing).
    ///
    /// Lists and reads of resources have a hint in any case, [`Handler::cache_hint`] if none is given here. A
    /// [complete](Self::complete) reply bears its own.
    #[must_use]
    pub fn cached(self, hint: CacheHint) -> Self {
        Self { cache: Some(hint), ..self }
    }

    pub(super) fn cache(&self) -> Option<CacheHint> {
        self.cache
    }

    /// The JSON.
    #[must_use]
    pub fn get(&self) -> &RawValue {
        &self.json
    }

    /// In the form of the revision that it goes to.
    pub(super) fn shaped(self, method: &str, revision: Revision) -> Result<Self, RpcError> {
        Ok(Self { json: shape(method, revision, self.json)?, ..self })
    }

    /// The answer that creates a task (SEP-2663, "Task Creation").
    pub(super) fn task(task: &Task) -> Result<Self, RpcError> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Created<'a> {
            result_type: &'static str,
            #[serde(flatten)]
            task: &'a Task,
        }
        let created = Created { result_type: "task", task };
        Ok(Self { has_result_type: true, ..Self::json(&created)? })
    }

    /// With what the stateless era demands of a tool's result, for use inside of another result.
    pub(super) fn into_whole(self) -> Box<RawValue> {
        if self.has_result_type {
            return self.json;
        }
        let members = r#"{"resultType":"complete""#;
        let rest = self.json.get().strip_prefix('{').unwrap_or("}");
        let comma = if rest.trim_start().starts_with('}') { "" } else { "," };
        RawValue::from_string(format!("{members}{comma}{rest}")).unwrap_or(self.json)
    }

    pub(super) fn has_result_type(&self) -> bool {
        self.has_result_type
    }
}

impl TryFrom<CallToolResult> for Reply {
    type Error = RpcError;

    fn try_from(result: CallToolResult) -> Result<Self, RpcError> {
        Self::json(&result)
    }
}
