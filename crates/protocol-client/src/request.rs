//! Requests: in the form of the server's revision, over any transport, and again with answers and
//! authorization.

use std::{collections::BTreeMap, pin::Pin, sync::Arc, time::Duration};

use marquetry_protocol_callers::in_place;
use marquetry_protocol_wire::{
    DEFAULT_MAX_NESTING, Era, Feature, RequestId, Revision, envelope, error_code,
    null_members::remove_null_members,
    types::{
        CallToolParams, ClientCapabilities, JsonObject, LogLevel, ServerCapabilities,
        TASKS_EXTENSION, Tool, meta_key,
    },
};
use serde::Deserialize;
use serde_json::{
    json,
    value::{RawValue, to_raw_value},
};
use tokio_util::sync::{CancellationToken, DropGuard};

#[cfg(feature = "http")]
use super::http::HttpLink;
use super::{
    Client, ClientShared, authorized,
    error::{ClientError, ProtocolError},
    options::{CallOptions, ClientOptions, ServerPeer},
    pipe::PipeLink,
    questions::{self, InputRequired},
    shared::{Outgoing, RequestState, Shared, is_too_deep},
    tasks::{CancelOnDrop, TaskHandle},
    upgrade,
};

impl Client {
    /// Calls a tool and returns the result object as the server wrote it, for programs that forward
    /// it. [`Self::call_tool`] and [`Self::call_tool_as`] parse it. If the server continues the
    /// call as a task, this waits for the task's result ([`Self::start_tool`] returns the task
    /// instead).
    ///
    /// # Errors
    /// Returns an error as [`Self::request`] does. A failed tool is a result, not an error.
    /// [`ClientError::OutputSchema`], which contains the result, if the result violates the tool's
    /// `outputSchema`: for tools that this client has [listed](Self::list_tools), unless the
    /// [options](ClientOptions::check_results) disable the check.
    pub async fn call_tool_raw(
        &self,
        call: &CallToolParams,
        options: CallOptions,
    ) -> Result<Box<RawValue>, ClientError> {
        let params = to_raw_value(call).map_err(ClientError::params)?;
        let result = self.request("tools/call", Some(&params), options).await?;
        #[cfg(feature = "schema")]
        if self.inner.options.check_results {
            return self.inner.schemas.check(&call.name, result);
        }
        Ok(result)
    }

    /// Sends any request, with JSON parameters (an object) and the result as JSON: the raw call
    /// behind the typed methods.
    ///
    /// # Errors
    /// Returns an error if the server answers with one, or does not answer.
    pub async fn request(
        &self,
        method: &str,
        params: Option<&RawValue>,
        options: CallOptions,
    ) -> Result<Box<RawValue>, ClientError> {
        let timeout = options.timeout;
        let cancel = options.cancel.clone().unwrap_or_default();
        let own = RequestState::of(options);
        let work = async {
            let result = self.rounds(method, params, timeout, &own).await?;
            if !self.is_task(&result) {
                return Ok(result);
            }
            let task = TaskHandle::created(self, method, &result, &own)?;
            // If this future ends before the task, no one needs the task's result.
            let cancel = CancelOnDrop::new(task.clone());
            let timeout = timeout.unwrap_or(self.inner.options.task_timeout);
            let result = tokio::time::timeout(timeout, task.follow(own.progress.clone()))
                .await
                .map_err(|_| ClientError::Timeout(timeout))?;
            if matches!(result, Ok(_) | Err(ClientError::Rpc(_) | ClientError::TaskCancelled)) {
                cancel.disarm();
            }
            result
        };
        // Leaving this select drops the exchange, which cancels the request at the server.
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(ClientError::Cancelled),
            result = work => result.map(|result| {
                in_place(result.get().len(), || self.without_nulls(method, result))
            }),
        }
    }

    /// Sends a request, repeated as often as the server asks for input.
    pub(super) async fn rounds(
        &self,
        method: &str,
        params: Option<&RawValue>,
        timeout: Option<Duration>,
        own: &RequestState,
    ) -> Result<Box<RawValue>, ClientError> {
        let defaults = &self.inner.options;
        let mut next: Option<Box<RawValue>> = None;
        let mut authorizations = 0;
        for _ in 0..defaults.max_rounds {
            let params = next.as_deref().or(params);
            let result = self.once(method, params, timeout, own, &mut authorizations).await?;
            if self.inner.server.revision.era() == Era::Session {
                return Ok(result);
            }
            match ResultKind::of(&result) {
                ResultKind::InputRequired => {}
                ResultKind::Complete | ResultKind::Task => return Ok(result),
                ResultKind::Unknown => {
                    return Err(ProtocolError::ResultType { method: method.to_owned() }.into());
                }
            }
            let asked: InputRequired = serde_json::from_str(result.get())
                .map_err(|error| ClientError::result(method, error))?;
            // A result without a question only asks to repeat the request.
            if own.pass_questions && asked.has_questions() {
                return Ok(result);
            }
            let handler = own.handler.as_ref().unwrap_or(&defaults.handler);
            next = Some(questions::next_round(&**handler, params, asked).await?);
        }
        Err(ClientError::TooManyRounds(defaults.max_rounds))
    }

    /// Sends a request once, or again after it was authorized.
    pub(super) async fn once(
        &self,
        method: &str,
        params: Option<&RawValue>,
        timeout: Option<Duration>,
        own: &RequestState,
        authorizations: &mut usize,
    ) -> Result<Box<RawValue>, ClientError> {
        let ClientShared { link, server, options: defaults, .. } = &*self.inner;
        let timeout = timeout.unwrap_or(defaults.request_timeout);
        let mut listed = false;
        loop {
            let answer = link.request(server, defaults, method, params, own);
            // A login may take longer than a request.
            let outcome = tokio::time::timeout(timeout, answer)
                .await
                .unwrap_or(Err(ClientError::Timeout(timeout)));
            // The server requires a header that only its list of tools describes (2026-07-28,
            // "Client Behavior").
            if method == "tools/call"
                && !listed
                && matches!(&outcome, Err(ClientError::Rpc(error)) if error.code == error_code::HEADER_MISMATCH)
            {
                listed = true;
                self.list_again().await;
                continue;
            }
            if let Some(result) = authorized(outcome, defaults, authorizations).await? {
                // Items of lists are measured one by one.
                if !method.ends_with("/list") && is_too_deep(&result) {
                    let why =
                        format!("result is nested more than {DEFAULT_MAX_NESTING} levels deep");
                    return Err(ProtocolError::Message(why).into());
                }
                return Ok(result);
            }
        }
    }

    /// Boxed, because listing makes requests in turn.
    fn list_again(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            if let Err(error) = self.list_tools().await {
                tracing::debug!(%error, "tools cannot be listed");
            }
        })
    }

    /// Returns whether the server continues a call as a task.
    pub(super) fn is_task(&self, result: &RawValue) -> bool {
        self.inner.server.revision.era() == Era::Stateless
            && ResultKind::of(result) == ResultKind::Task
    }

    /// Removes the members of a result that are `null`, if the options say so.
    pub(super) fn without_nulls(&self, method: &str, result: Box<RawValue>) -> Box<RawValue> {
        if !self.inner.options.remove_nulls {
            return result;
        }
        match remove_null_members(method, self.inner.server.revision.era(), &result) {
            Some(changed) => {
                tracing::debug!(method, "removed members that are null from a result");
                changed
            }
            None => result,
        }
    }
}

/// A transport.
pub(super) enum Link {
    Pipe(PipeLink),
    #[cfg(feature = "http")]
    Http(HttpLink),
}

impl Link {
    pub(super) fn shared(&self) -> &Arc<Shared> {
        match self {
            Self::Pipe(link) => link.shared(),
            #[cfg(feature = "http")]
            Self::Http(link) => link.shared(),
        }
    }

    /// Sends a request in the form of the server's revision, and waits for its result.
    pub(super) async fn request(
        &self,
        server: &ServerPeer,
        options: &ClientOptions,
        method: &str,
        params: Option<&RawValue>,
        own: &RequestState,
    ) -> Result<Box<RawValue>, ClientError> {
        let shared = self.shared();
        let id = shared.next_id();
        let asks = Asks {
            revision: server.revision,
            options,
            capabilities: own.capabilities.as_ref(),
            log_level: own.log_level,
            progress_token: own.progress.is_some().then_some(&id),
            // Questions of a task could not be forwarded.
            tasks: options.tasks && !own.pass_questions,
        };
        let prepared = prepare(params, &asks)?;
        let params = prepared.as_deref().or(params);
        let outgoing = Outgoing { id: id.clone(), method, params, own };
        let result = match self {
            Self::Pipe(link) => link.request(outgoing).await,
            #[cfg(feature = "http")]
            Self::Http(link) => link.request(server.revision, outgoing).await,
        }?;
        match method {
            "tools/call" if !server.revision.has(Feature::ContentList) => {
                upgrade::tool_answer(result)
            }
            _ => Ok(result),
        }
    }

    /// Stores which headers calls of a complete list of tools need, and removes tools that cannot
    /// be called.
    pub(super) fn accept_tools(&self, server: &ServerPeer, tools: &mut Vec<Tool>) {
        match self {
            #[cfg(feature = "http")]
            Self::Http(link) if server.revision.era() == Era::Stateless => {
                link.accept_tools(tools);
            }
            // Only HTTP requests have headers.
            _ => _ = (server, tools),
        }
    }

    pub(super) async fn notify(
        &self,
        server: &ServerPeer,
        method: &str,
        params: Option<&RawValue>,
    ) -> Result<(), ClientError> {
        let _ = server;
        let message = envelope::write_notification(method, params);
        match self {
            Self::Pipe(link) => link.send(message).await,
            #[cfg(feature = "http")]
            Self::Http(link) => link.notify(server.revision, method, message).await,
        }
    }

    /// Starts to receive announcements.
    pub(super) async fn listen(&self, server: &ServerPeer, options: &ClientOptions) {
        let params = listen_params(server, options);
        match self {
            Self::Pipe(link) => params.iter().for_each(|params| link.listen(params)),
            #[cfg(feature = "http")]
            Self::Http(link) => link.listen(server, options, params).await,
        }
    }

    /// Opens another stream of notifications of a stateless server, until the guard is dropped. Its
    /// id is that of the first attempt; over HTTP it is reopened when it breaks.
    pub(super) async fn open_stream(
        &self,
        server: &ServerPeer,
        options: &ClientOptions,
        params: &RawValue,
    ) -> Result<(RequestId, DropGuard), ClientError> {
        let prepared = prepare(Some(params), &Asks::of(server, options))?;
        let id = self.shared().next_id();
        let stop = CancellationToken::new();
        let guard = stop.clone().drop_guard();
        match self {
            Self::Pipe(link) => link.stream(id.clone(), prepared, stop).await?,
            #[cfg(feature = "http")]
            Self::Http(link) => link.stream(server.revision, id.clone(), prepared, stop, None),
        }
        Ok((id, guard))
    }

    pub(super) async fn close(&self) {
        match self {
            Self::Pipe(link) => link.close().await,
            #[cfg(feature = "http")]
            Self::Http(link) => link.close().await,
        }
    }
}

/// Values for a request's `_meta`.
struct Asks<'a> {
    revision: Revision,
    options: &'a ClientOptions,
    /// Capabilities for this request, if they differ from the options.
    capabilities: Option<&'a ClientCapabilities>,
    /// The level of log messages that a stateless server should send.
    log_level: Option<LogLevel>,
    progress_token: Option<&'a RequestId>,
    /// Whether the request may be answered with a task.
    tasks: bool,
}

impl<'a> Asks<'a> {
    /// Returns the values of a request that has none of its own.
    fn of(server: &ServerPeer, options: &'a ClientOptions) -> Self {
        Self {
            revision: server.revision,
            options,
            capabilities: None,
            log_level: None,
            progress_token: None,
            tasks: options.tasks,
        }
    }
}

/// Returns the parameters with these values; [`None`] if they need no change.
fn prepare(
    params: Option<&RawValue>,
    asks: &Asks<'_>,
) -> Result<Option<Box<RawValue>>, ClientError> {
    if asks.revision.era() == Era::Session && asks.progress_token.is_none() {
        return Ok(None);
    }
    let mut members: BTreeMap<String, Box<RawValue>> = match params {
        Some(params) => serde_json::from_str(params.get()).map_err(ClientError::params)?,
        None => BTreeMap::new(),
    };
    let mut meta: JsonObject = match members.get("_meta") {
        Some(meta) => serde_json::from_str(meta.get()).map_err(ClientError::params)?,
        None => JsonObject::new(),
    };
    if asks.revision.era() == Era::Stateless {
        meta.insert(meta_key::PROTOCOL_VERSION.to_owned(), json!(asks.revision));
        let mut capabilities = asks.capabilities.unwrap_or(&asks.options.capabilities).clone();
        if asks.tasks {
            capabilities.add_extension(TASKS_EXTENSION);
        }
        meta.insert(meta_key::CLIENT_CAPABILITIES.to_owned(), json!(capabilities));
        if let Some(level) = asks.log_level {
            meta.insert(meta_key::LOG_LEVEL.to_owned(), json!(level));
        }
        meta.insert(meta_key::CLIENT_INFO.to_owned(), json!(asks.options.implementation));
    }
    if let Some(token) = asks.progress_token {
        meta.insert("progressToken".to_owned(), json!(token));
    }
    members.insert("_meta".to_owned(), to_raw_value(&meta).map_err(ClientError::params)?);
    to_raw_value(&members).map(Some).map_err(ClientError::params)
}

/// The kind of a stateless server's result (2026-07-28, `resultType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResultKind {
    /// The answer.
    Complete,
    /// A question.
    InputRequired,
    /// A task that will have the answer.
    Task,
    /// An unknown kind, which must not be taken for an answer (2026-07-28, "ResultType").
    Unknown,
}

impl ResultKind {
    fn of(result: &RawValue) -> Self {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Kind<'a> {
            #[serde(borrow)]
            result_type: Option<std::borrow::Cow<'a, str>>,
        }
        // A search is cheaper than parsing, and results may be large.
        let text = result.get();
        if text.starts_with(r#"{"resultType":"complete""#)
            || text.contains(r#""resultType":"complete""#)
                && !text.contains("input_required")
                && !text.contains("taskId")
            || !text.contains("resultType")
        {
            return Self::Complete;
        }
        // Servers of older revisions send none.
        let kind = serde_json::from_str::<Kind<'_>>(text).ok().and_then(|kind| kind.result_type);
        match kind.as_deref() {
            None | Some("complete") => Self::Complete,
            Some("input_required") => Self::InputRequired,
            Some("task") => Self::Task,
            Some(_) => Self::Unknown,
        }
    }
}

/// Returns the parameters of `subscriptions/listen` for every announcement that a stateless server
/// declares; [`None`] if it declares none, or has sessions.
fn listen_params(server: &ServerPeer, options: &ClientOptions) -> Option<Box<RawValue>> {
    if server.revision.era() == Era::Session {
        return None;
    }
    let ServerCapabilities { tools, prompts, resources, .. } = &server.capabilities;
    let tools = tools.is_some_and(|tools| tools.list_changed);
    let prompts = prompts.is_some_and(|prompts| prompts.list_changed);
    let resources = resources.is_some_and(|resources| resources.list_changed);
    if !(tools || prompts || resources) {
        return None;
    }
    let wanted = json!({
        "toolsListChanged": tools, "promptsListChanged": prompts, "resourcesListChanged": resources,
    });
    let wanted = to_raw_value(&json!({ "notifications": wanted })).ok()?;
    prepare(Some(&wanted), &Asks::of(server, options)).ok()?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meta_is_added_to_and_the_rest_is_kept() {
        let options = ClientOptions::default();
        let params = RawValue::from_string(
            r#"{"name":"t","arguments":{"a":1.0},"_meta":{"x":1}}"#.to_owned(),
        )
        .unwrap();
        let id = RequestId::from(4);
        let asks = Asks {
            revision: Revision::V2025_11_25,
            options: &options,
            capabilities: None,
            log_level: None,
            progress_token: None,
            tasks: true,
        };
        assert!(prepare(Some(&params), &asks).unwrap().is_none());

        let asks = Asks { progress_token: Some(&id), ..asks };
        let prepared = prepare(Some(&params), &asks).unwrap().unwrap();
        assert_eq!(
            prepared.get(),
            r#"{"_meta":{"x":1,"progressToken":4},"arguments":{"a":1.0},"name":"t"}"#
        );

        let asks = Asks { revision: Revision::V2026_07_28, progress_token: None, ..asks };
        let prepared: JsonObject =
            serde_json::from_str(prepare(None, &asks).unwrap().unwrap().get()).unwrap();
        assert_eq!(prepared["_meta"][meta_key::PROTOCOL_VERSION], "2026-07-28");
        assert_eq!(
            prepared["_meta"][meta_key::CLIENT_CAPABILITIES],
            json!({ "extensions": { TASKS_EXTENSION: {} } })
        );
        let asks = Asks { tasks: false, ..asks };
        let prepared: JsonObject =
            serde_json::from_str(prepare(None, &asks).unwrap().unwrap().get()).unwrap();
        assert_eq!(prepared["_meta"][meta_key::CLIENT_CAPABILITIES], json!({}));
    }

    #[test]
    fn questions_are_told_from_answers() {
        for (text, kind) in [
            (r#"{"resultType":"input_required","inputRequests":{}}"#, ResultKind::InputRequired),
            (r#"{"taskId":"1","resultType":"task"}"#, ResultKind::Task),
            (
                r#"{"resultType":"complete","content":[{"text":"input_required"}]}"#,
                ResultKind::Complete,
            ),
            (r#"{"resultType":"complete","taskId":"task"}"#, ResultKind::Complete),
            (r#"{"content":[]}"#, ResultKind::Complete),
            (r#"{"content":["resultType"]}"#, ResultKind::Complete),
            (r#"{"content":[],"resultType":"complete"}"#, ResultKind::Complete),
            (r#"{"content":[],"resultType":"hologram"}"#, ResultKind::Unknown),
        ] {
            let result = RawValue::from_string(text.to_owned()).unwrap();
            assert_eq!(ResultKind::of(&result), kind, "{text}");
        }
    }
}
