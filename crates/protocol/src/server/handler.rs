//! What a server answers.

#[cfg(any(feature = "schema", feature = "http"))]
use std::sync::Arc;
use std::{borrow::Cow, sync::OnceLock};

use async_trait::async_trait;
use serde::Serialize;
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

#[cfg(feature = "http")]
use super::Caller;
use super::{
    RequestContext, TaskOptions,
    shape::{UNSHAPED_SINCE, for_session, shape},
    stamp::Stamp,
};
use crate::{
    Era, RequestId, Revision, RpcError,
    envelope::{Around, write_result_with, write_text_result},
    object::may_have,
    types::{
        CacheHint, CacheScope, CallToolParams, CallToolResult, CompleteParams, CompleteResult,
        Content, GetPromptParams, Implementation, ListPromptsResult, ListResourceTemplatesResult,
        ListResourcesResult, ListToolsResult, LogLevel, ReadResourceParams, ServerCapabilities,
        Task,
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
///
/// A call first runs where its client's messages are read, up to its first wait: a method that computes for long before
/// it awaits anything holds up the client's other messages (on a pipe, cancellations too). Such work belongs in
/// `tokio::task::spawn_blocking`.
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

    /// What [`Self::input_schema`] marks, found once instead of at each call. Override it instead where tools are kept:
    /// otherwise the schema is looked through at each call.
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
    async fn header_arguments_known(
        &self,
        tool: &str,
        caller: &Caller,
    ) -> Result<(), super::fair::Full> {
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

/// A result.
#[derive(Clone, Debug)]
pub struct Reply {
    content: ReplyContent,
    origin: Origin,
    cache: Option<CacheHint>,
    is_private: bool,
}

/// Who wrote a result, and so what its members mean that 2026-07-28 wants in every result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A handler, which writes none of them: what has their names is something else.
    Handler,
    /// A server of 2026-07-28: it is an answer, and says how long it may be kept.
    Stateless,
    /// This crate: a question or a task. They are not kept.
    Protocol,
}

#[derive(Clone, Debug)]
enum ReplyContent {
    Json(Box<RawValue>),
    /// A tool's answer of one text and nothing else, as most are: written when the message is.
    Text {
        text: String,
        json: OnceLock<Box<RawValue>>,
    },
    /// JSON with some members changed: valid, and not parsed once more to prove it.
    Edited {
        text: String,
        json: OnceLock<Box<RawValue>>,
    },
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
        Self::of(ReplyContent::Json(json))
    }

    /// A complete result that already has the members which 2026-07-28 demands (`resultType`, and for lists and reads
    /// `ttlMs` and `cacheScope`), as one that came from a server of that revision. Those that are missing or not valid
    /// are added, and the type is "complete" whatever it says; clients of older revisions get none of them.
    #[must_use]
    pub fn complete(json: Box<RawValue>) -> Self {
        Self { origin: Origin::Stateless, ..Self::raw(json) }
    }

    /// A question, with its type.
    pub(super) fn question(json: Box<RawValue>) -> Self {
        Self { origin: Origin::Protocol, ..Self::raw(json) }
    }

    fn of(content: ReplyContent) -> Self {
        Self { content, origin: Origin::Handler, cache: None, is_private: false }
    }

    /// The same, for its client alone: caches must not give it to anybody else, whatever it says of itself.
    #[must_use]
    pub fn private(self) -> Self {
        Self { is_private: true, ..self }
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
        match &self.content {
            ReplyContent::Json(json) => json,
            ReplyContent::Text { text, json } => json.get_or_init(|| {
                to_raw_value(&CallToolResult::text(text)).expect("a text serialises")
            }),
            ReplyContent::Edited { text, json } => json.get_or_init(|| {
                RawValue::from_string(text.clone()).expect("members of valid JSON make valid JSON")
            }),
        }
    }

    /// In the form of the revision that it goes to.
    pub(super) fn shaped(self, method: &str, revision: Revision) -> Result<Self, RpcError> {
        if revision.era() == Era::Stateless {
            return Ok(self);
        }
        let reply = match &self.content {
            ReplyContent::Json(json) => match for_session(method, json, self.origin) {
                Some(text) => {
                    let content = ReplyContent::Edited { text, json: OnceLock::new() };
                    Self { content, ..self }
                }
                None => self,
            },
            _ => self,
        };
        if revision >= UNSHAPED_SINCE {
            return Ok(reply);
        }
        let json = shape(method, revision, reply.get().to_owned())?;
        Ok(Self { content: ReplyContent::Json(json), ..reply })
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
        Ok(Self { origin: Origin::Protocol, ..Self::json(&created)? })
    }

    /// With what the stateless era demands of a tool's result, for use inside of another result.
    pub(super) fn into_whole(self) -> Box<RawValue> {
        let json = self.get();
        if self.origin != Origin::Handler {
            return json.to_owned();
        }
        let members = r#"{"resultType":"complete""#;
        let rest = json.get().strip_prefix('{').unwrap_or("}");
        let comma = if rest.trim_start().starts_with('}') { "" } else { "," };
        RawValue::from_string(format!("{members}{comma}{rest}")).unwrap_or_else(|_| json.to_owned())
    }

    /// The bytes of the answer to a client in a session.
    pub(super) fn write(&self, id: &RequestId) -> Vec<u8> {
        self.write_around(id, Around::default())
    }

    /// The bytes of the answer to a client without a session, with all that 2026-07-28 wants in every result.
    pub(super) fn write_stamped(&self, id: &RequestId, stamp: &Stamp<'_>) -> Vec<u8> {
        let hint = stamp.hint.map(|hint| match self.is_private {
            true => CacheHint { cache_scope: CacheScope::Private, ..hint },
            false => hint,
        });
        let stamp = Stamp { hint, ..*stamp };
        match &self.content {
            // Most results have none of the members, and are not taken apart.
            ReplyContent::Json(json)
                if self.origin != Origin::Handler
                    || may_have(json, &[r#""_meta""#, r#""resultType""#])
                    || hint.is_some() && may_have(json, &[r#""ttlMs""#, r#""cacheScope""#]) =>
            {
                match stamp.stamped(json, self.origin, self.is_private) {
                    Some(stamped) => write_result_with(id, Around::default(), &stamped),
                    None => self.write_around(id, Around::default()),
                }
            }
            _ => {
                let (before, after) = stamp.members();
                self.write_around(id, Around { before: &before, after: &after })
            }
        }
    }

    fn write_around(&self, id: &RequestId, around: Around<'_>) -> Vec<u8> {
        match &self.content {
            ReplyContent::Json(json) => write_result_with(id, around, json.get()),
            ReplyContent::Edited { text, .. } => write_result_with(id, around, text),
            ReplyContent::Text { text, .. } => write_text_result(id, around, text),
        }
    }
}

impl TryFrom<CallToolResult> for Reply {
    type Error = RpcError;

    fn try_from(mut result: CallToolResult) -> Result<Self, RpcError> {
        if let CallToolResult { content, structured_content: None, is_error: None, meta: None } =
            &mut result
            && let [Content::Text { text, annotations: None, meta: None }] = &mut content[..]
        {
            let content = ReplyContent::Text { text: std::mem::take(text), json: OnceLock::new() };
            return Ok(Self::of(content));
        }
        Self::json(&result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_alone_is_written_as_any_result() {
        let result = CallToolResult::text("a \"b\"\nä");
        let quick = Reply::try_from(result.clone()).unwrap();
        assert!(matches!(quick.content, ReplyContent::Text { .. }));
        let slow = Reply::json(&result).unwrap();
        assert_eq!(quick.get().get(), slow.get().get());
        let stamp = Stamp { hint: None, server_info: Some(r#"{"name":"s"}"#) };
        assert_eq!(quick.write(&1.into()), slow.write(&1.into()));
        assert_eq!(quick.write_stamped(&1.into(), &stamp), slow.write_stamped(&1.into(), &stamp));
        for other in [
            CallToolResult::error("a"),
            CallToolResult { content: vec![Content::text("a"), Content::text("b")], ..result },
        ] {
            let reply = Reply::try_from(other).unwrap();
            assert!(matches!(reply.content, ReplyContent::Json(_)));
        }
    }
}
