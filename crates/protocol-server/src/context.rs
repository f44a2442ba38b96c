//! The context of a request: its sender, its revision, and notifications before the answer.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock, PoisonError, Weak},
    time::Duration,
};

use marquetry_protocol_wire::{
    Era, Feature, RequestId, Revision, RpcError,
    envelope::write_notification,
    error_code,
    members::OwnedMembers,
    question::QuestionKind,
    types::{
        ClientCapabilities, CreateMessageParams, CreateMessageResult, ElicitParams, ElicitResult,
        Implementation, ListRootsResult, LogLevel,
    },
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{
    json,
    value::{RawValue, to_raw_value},
};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

#[cfg(feature = "typed")]
use super::states::States;
use super::{
    Caller, Principal, RequestMemory,
    ask::stateless::Rounds,
    conversation::{ClientFacts, Conversation},
    conversation_id::ConversationId,
    fair::{FairLimiter, ReturnableSlot},
    notifier::{Announcer, Notifier, Recipient},
    outgoing::{Outgoing, detached},
    tasks::{Job, Tasks},
};

/// The context of one request: its sender and revision. Sends notifications and questions to the
/// client. Cheap to clone.
#[derive(Clone)]
pub struct RequestContext {
    inner: Arc<ContextInner>,
    /// The state of the handler's functions.
    #[cfg(feature = "typed")]
    states: Option<Arc<States>>,
}

struct ContextInner {
    request: Box<RequestParts>,
    outbound: mpsc::Sender<Outgoing>,
    cancel: CancellationToken,
    /// The task that continues after its request.
    job: Option<Arc<Job>>,
    /// See [`RequestContext::require_scopes`].
    required_scopes: OnceLock<Arc<[String]>>,
}

/// The parts that come from the request.
pub(super) struct RequestParts {
    pub(super) id: RequestId,
    pub(super) method: &'static str,
    pub(super) params: Option<OwnedMembers>,
    pub(super) revision: Revision,
    pub(super) client: Arc<ClientFacts>,
    pub(super) progress_token: Option<RequestId>,
    /// The lowest level of log messages that a stateless client wants.
    pub(super) log_level: Option<LogLevel>,
    pub(super) conversation: Arc<Conversation>,
    pub(super) principal: Option<Arc<Principal>>,
    /// The HTTP request with the message.
    #[cfg(feature = "http")]
    pub(super) http: Option<Arc<http::request::Parts>>,
    pub(super) notifier: Arc<Notifier>,
    /// The caller whom limits count.
    pub(super) caller: Caller,
    /// Slot of the request among those in flight.
    pub(super) slot: Weak<ReturnableSlot>,
    /// Limits unsent bytes; [`None`] if nothing is sent before the answer.
    pub(super) sending: Option<FairLimiter>,
    /// Answers of earlier rounds, in the stateless era, for methods that may ask the client.
    pub(super) rounds: Option<Arc<Rounds>>,
    pub(super) question_timeout: Duration,
    pub(super) memory: RequestMemory,
    /// Tasks, in the stateless era, for methods that may be answered with a task.
    pub(super) tasks: Option<Arc<Tasks>>,
}

impl From<ContextInner> for RequestContext {
    fn from(inner: ContextInner) -> Self {
        Self {
            inner: Arc::new(inner),
            #[cfg(feature = "typed")]
            states: None,
        }
    }
}

impl RequestContext {
    pub(super) fn new(
        request: Box<RequestParts>,
        outbound: mpsc::Sender<Outgoing>,
        cancel: CancellationToken,
    ) -> Self {
        let required_scopes = OnceLock::new();
        Self::from(ContextInner { request, outbound, cancel, job: None, required_scopes })
    }

    /// Returns the context of work that continues as a task: it belongs to no request, so only the
    /// task can send messages.
    pub(super) fn of_job(&self, job: Arc<Job>) -> Self {
        let request = self.request();
        let parts = Box::new(RequestParts {
            id: request.id.clone(),
            method: request.method,
            params: None,
            revision: request.revision,
            client: request.client.clone(),
            progress_token: None,
            log_level: None,
            conversation: request.conversation.clone(),
            principal: request.principal.clone(),
            #[cfg(feature = "http")]
            http: request.http.clone(),
            notifier: request.notifier.clone(),
            caller: request.caller.clone(),
            slot: Weak::new(),
            sending: None,
            rounds: None,
            question_timeout: request.question_timeout,
            memory: request.memory.clone(),
            tasks: None,
        });
        let cancel = job.cancellation().clone();
        let inner = ContextInner {
            request: parts,
            outbound: detached(),
            cancel,
            job: Some(job),
            required_scopes: OnceLock::new(),
        };
        Self {
            #[cfg(feature = "typed")]
            states: self.states.clone(),
            ..Self::from(inner)
        }
    }

    pub(super) fn request(&self) -> &RequestParts {
        &self.inner.request
    }

    pub(super) fn job(&self) -> Option<&Arc<Job>> {
        self.inner.job.as_ref()
    }

    pub(super) fn tasks(&self) -> Option<&Arc<Tasks>> {
        self.request().tasks.as_ref()
    }

    /// Returns the request's id, which the client chose.
    #[must_use]
    pub fn id(&self) -> &RequestId {
        &self.request().id
    }

    /// Returns the method of the request.
    #[must_use]
    pub fn method(&self) -> &'static str {
        self.request().method
    }

    /// Returns the parameters, as received.
    pub(super) fn params(&self) -> Option<&OwnedMembers> {
        self.request().params.as_ref()
    }

    /// Returns a parameter of the request, as the client wrote it.
    #[must_use]
    pub fn param(&self, name: &str) -> Option<&RawValue> {
        self.params()?.get(name)
    }

    /// Returns the protocol revision of the request.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.request().revision
    }

    /// Returns the name and version that the client gives itself. Stateless clients may leave it
    /// out.
    #[must_use]
    pub fn client(&self) -> Option<&Implementation> {
        self.request().client.info.as_ref()
    }

    /// Returns the authenticated sender; `None` without authentication, as on a pipe.
    #[must_use]
    pub fn principal(&self) -> Option<&Arc<Principal>> {
        self.request().principal.as_ref()
    }

    /// Returns the error for a request that needs a token with these scopes. If the handler answers
    /// with it, the HTTP response has status 403 and a challenge with the scopes, unless messages
    /// were sent before it. An error of another server with the same code has no such effect.
    #[must_use]
    pub fn require_scopes(&self, scopes: impl IntoIterator<Item = String>) -> RpcError {
        let scopes: Arc<[String]> = scopes.into_iter().collect();
        let error = RpcError::insufficient_scope(scopes.iter().map(String::as_str));
        _ = self.inner.required_scopes.set(scopes);
        error
    }

    /// Returns the client as one that listens for announcements.
    pub(super) fn recipient(&self) -> Recipient {
        let Conversation { principal, profile, .. } = &*self.request().conversation;
        Recipient {
            principal: principal.clone(),
            profile: profile.clone(),
            client: self.conversation(),
        }
    }

    pub(super) fn required_scopes(&self) -> Option<Arc<[String]>> {
        self.inner.required_scopes.get().cloned()
    }

    /// Returns the profile of the server that the client has selected, as by a URL; see
    /// [`Peer::in_profile`](super::Peer::in_profile).
    #[must_use]
    pub fn profile(&self) -> Option<&str> {
        self.request().conversation.profile.as_deref()
    }

    /// Returns the head of the HTTP request that brought this request: headers, URI, and the
    /// extensions that the HTTP server and its middleware set. `None` on a pipe and in
    /// [`Server::direct_call`](super::Server::direct_call).
    ///
    /// The headers may hold secrets, such as the client's token.
    #[cfg(feature = "http")]
    #[must_use]
    pub fn http(&self) -> Option<&http::request::Parts> {
        self.request().http.as_deref()
    }

    /// Returns a header of the HTTP request with this request, if it exists and is text.
    #[cfg(feature = "http")]
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.http()?.headers.get(name)?.to_str().ok()
    }

    /// Returns an extension of the HTTP request that brought this request: set by middleware or by
    /// the authenticator's server.
    #[cfg(feature = "http")]
    #[must_use]
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.http()?.extensions.get()
    }

    /// Returns the state that the [`Toolbox`](super::Toolbox) was given for its functions
    /// ([`Toolbox::with_state`](super::Toolbox::with_state)).
    ///
    /// # Panics
    /// If the `Toolbox` has no state of this type. The request is then answered with an internal
    /// error.
    #[cfg(feature = "typed")]
    #[must_use]
    pub fn state<T: Send + Sync + 'static>(&self) -> &T {
        let state = self.states.as_ref().and_then(|states| states.get::<T>());
        state.unwrap_or_else(|| {
            let name = std::any::type_name::<T>();
            panic!("no state of type {name}: Toolbox::with_state was not called with one")
        })
    }

    #[cfg(feature = "typed")]
    pub(super) fn with_states(&self, states: &Arc<States>) -> Self {
        Self { states: Some(states.clone()), ..self.clone() }
    }

    /// Returns the notifier of all clients: for changed lists and updated resources.
    #[must_use]
    pub fn notifier(&self) -> &Notifier {
        &self.request().notifier
    }

    /// Returns the caller that limits count this request for: its principal, otherwise its address.
    #[must_use]
    pub fn caller(&self) -> &Caller {
        &self.request().caller
    }

    /// Returns the memory that the request holds beside its message. A handler reserves memory here
    /// before it takes much of it. It is counted until the request has been answered.
    #[must_use]
    pub fn memory(&self) -> &RequestMemory {
        &self.request().memory
    }

    /// Parses JSON of the request, such as the arguments of a tool, within the limits of memory.
    ///
    /// # Errors
    /// Returns the reason if it is not JSON, or takes too much memory.
    #[cfg(any(feature = "typed", feature = "schema"))]
    pub(super) async fn parse(&self, json: &RawValue) -> Result<serde_json::Value, String> {
        /// Shorter texts are not counted: the number of requests limits them.
        const FREE: usize = 8 << 10;
        let json = json.get();
        if json.len() > FREE {
            // The value, and the type that is made of it.
            let size = 2 * super::in_place(json.len(), || {
                marquetry_protocol_wire::parsed_size(json.as_bytes())
            });
            self.memory().reserve_all(size).await.map_err(|full| full.to_string())?;
        }
        super::in_place(json.len(), || serde_json::from_str(json))
            .map_err(|error| error.to_string())
    }

    /// Returns the client's capabilities.
    #[must_use]
    pub fn capabilities(&self) -> &ClientCapabilities {
        &self.request().client.capabilities
    }

    /// Returns the id of the HTTP session, if the request belongs to one.
    #[must_use]
    pub fn session_id(&self) -> Option<&str> {
        self.request().conversation.id.as_deref()
    }

    /// Returns an id of the pipe, the HTTP session or the stateless request.
    #[must_use]
    pub fn conversation(&self) -> ConversationId {
        self.request().conversation.number
    }

    /// Returns a sender of notifications that do not belong to this request; `None` in the
    /// stateless era.
    #[must_use]
    pub fn announcer(&self) -> Option<Announcer> {
        match self.request().revision.era() {
            Era::Session => {
                let facts = self.request().conversation.session.get();
                facts.map(|facts| Announcer::new(&facts.listener))
            }
            Era::Stateless => None,
        }
    }

    /// Returns the lowest level of log messages that the client wants; `None` if it wants none.
    #[must_use]
    pub fn log_level(&self) -> Option<LogLevel> {
        let request = self.request();
        match request.revision.era() {
            Era::Stateless => request.log_level,
            Era::Session => {
                Some(*request.conversation.log_level.lock().unwrap_or_else(PoisonError::into_inner))
            }
        }
    }

    /// Returns whether the client asked for progress notifications.
    #[must_use]
    pub fn wants_progress(&self) -> bool {
        self.request().progress_token.is_some()
    }

    /// Sends a progress notification, if the client asked for them. In a task `message` becomes the
    /// status message.
    ///
    /// `progress` must grow from call to call; `total` is its final value, if known. Waits while
    /// the client reads more slowly than the server writes.
    pub async fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Progress<'a> {
            progress_token: &'a RequestId,
            progress: f64,
            #[serde(skip_serializing_if = "Option::is_none")]
            total: Option<f64>,
            #[serde(skip_serializing_if = "Option::is_none")]
            message: Option<&'a str>,
        }
        if let Some(job) = &self.inner.job {
            if let Some(message) = message {
                job.set_message(message);
            }
            return;
        }
        let Some(progress_token) = &self.request().progress_token else { return };
        let message = message.filter(|_| self.revision().has(Feature::ProgressMessages));
        self.notify(
            "notifications/progress",
            &Progress { progress_token, progress, total, message },
        )
        .await;
    }

    /// Sends a notification that belongs to this request. Parameters that are not a JSON object
    /// send nothing.
    pub async fn notify(&self, method: &str, params: &(impl Serialize + Sync + ?Sized)) {
        match to_raw_value(params) {
            Ok(params) if params.get().starts_with('{') => {
                self.send(Outgoing::notification(write_notification(method, Some(&params)))).await;
            }
            _ => tracing::error!(method, "notification parameters are not a JSON object"),
        }
    }

    /// Sends a log message, if the client wants messages of this level.
    pub async fn log(
        &self,
        level: LogLevel,
        logger: Option<&str>,
        data: &(impl Serialize + Sync + ?Sized),
    ) {
        if self.log_level().is_none_or(|min_level| level < min_level) {
            return;
        }
        let has_eight = self.revision().has(Feature::EightLogLevels);
        let level = if has_eight { level } else { level.nearest_of_four() };
        let mut params = json!({ "level": level, "data": data });
        if let Some(logger) = logger {
            params["logger"] = logger.into();
        }
        self.notify("notifications/message", &params).await;
    }

    /// Asks the user, through the client.
    ///
    /// `key` identifies the question within this request. In the stateless era a question ends the
    /// request. The client repeats the request with the answer: the handler then runs from its
    /// start, and this call returns at once. Therefore put side effects after the last question,
    /// and pass the results of expensive work to the next round with [`Self::carry`].
    ///
    /// # Errors
    /// Returns an error if the client lacks the capability, answers with an error, or does not
    /// answer.
    pub async fn elicit(&self, key: &str, params: &ElicitParams) -> Result<ElicitResult, RpcError> {
        self.ask_typed(key, "elicitation/create", params).await
    }

    /// Asks the client's model. Otherwise as [`Self::elicit`].
    ///
    /// # Errors
    /// Returns an error as [`Self::elicit`] does.
    pub async fn sample(
        &self,
        key: &str,
        params: &CreateMessageParams,
    ) -> Result<CreateMessageResult, RpcError> {
        self.ask_typed(key, "sampling/createMessage", params).await
    }

    /// Asks for the roots: the places in which the user lets the server work. Otherwise as
    /// [`Self::elicit`].
    ///
    /// # Errors
    /// Returns an error as [`Self::elicit`] does.
    pub async fn roots(&self, key: &str) -> Result<ListRootsResult, RpcError> {
        self.ask_typed(key, "roots/list", &json!({})).await
    }

    /// Returns whether the handler has asked the client in this round of the request. The round
    /// then ends, and the client repeats the request with its answers. Always `false` in the
    /// session era, which has no rounds.
    #[must_use]
    pub fn has_asked(&self) -> bool {
        self.request().rounds.as_ref().is_some_and(|rounds| rounds.has_asked())
    }

    /// Returns the value that an earlier round of this request has [carried](Self::carry) over.
    ///
    /// # Errors
    /// Returns an error if it is not a `T`.
    pub fn carried<T: DeserializeOwned>(&self) -> Result<Option<T>, RpcError> {
        let Some(carried) = self.request().rounds.as_ref().and_then(|rounds| rounds.carried())
        else {
            return Ok(None);
        };
        serde_json::from_str(carried.get())
            .map(Some)
            .map_err(|error| RpcError::invalid_params(format!("requestState: {error}")))
    }

    /// Passes a value to the next round of this request. The session era has no rounds, so there
    /// this does nothing. The client can see the value, but not change it.
    ///
    /// # Errors
    /// Returns an error if it cannot be serialised.
    pub fn carry(&self, value: &impl Serialize) -> Result<(), RpcError> {
        if let Some(rounds) = &self.request().rounds {
            rounds
                .carry(to_raw_value(value).map_err(|error| RpcError::internal(error.to_string()))?);
        }
        Ok(())
    }

    /// Removes the answers of earlier rounds from the state that the client sends with the next
    /// round, so that the next round gets only its own answers. Use it in handlers that store the
    /// answers themselves.
    pub fn discard_answers(&self) {
        if let Some(rounds) = &self.request().rounds {
            rounds.discard_answers();
        }
    }

    /// Returns the answers that came with this round of the request, unchecked, by the keys of
    /// their questions. [`None`] in the session era.
    #[must_use]
    pub fn answers(&self) -> Option<&BTreeMap<String, Box<RawValue>>> {
        self.request().rounds.as_ref().map(|rounds| rounds.fresh())
    }

    async fn ask_typed<T: DeserializeOwned>(
        &self,
        key: &str,
        method: &str,
        params: &(impl Serialize + Sync),
    ) -> Result<T, RpcError> {
        let params = to_raw_value(params).map_err(|error| RpcError::internal(error.to_string()))?;
        let answer = self.ask(key, method, &params).await?;
        serde_json::from_str(answer.get()).map_err(|error| RpcError::internal(error.to_string()))
    }

    /// Returns the kind of a question, if the client supports it.
    fn question(&self, method: &str, params: &RawValue) -> Result<QuestionKind, RpcError> {
        let question = QuestionKind::of(method, params, self.capabilities())?;
        if question.is_supported {
            return Ok(question);
        }
        let message = format!("the client does not support '{method}'");
        Err(match self.revision().era() {
            Era::Session => RpcError::invalid_request(message),
            Era::Stateless => RpcError::new(error_code::MISSING_CAPABILITY, message)
                .with_data(&json!({ "requiredCapabilities": question.required_capabilities })),
        })
    }

    /// Asks the client by `elicitation/create`, `sampling/createMessage` or `roots/list`.
    /// Parameters and answer pass unchanged as JSON. Otherwise as [`Self::elicit`].
    ///
    /// # Errors
    /// Returns an error as [`Self::elicit`] does, and "method not found" for other methods.
    pub async fn ask(
        &self,
        key: &str,
        method: &str,
        params: &RawValue,
    ) -> Result<Box<RawValue>, RpcError> {
        let request = self.request();
        let question = self.question(method, params)?;
        if request.revision.era() == Era::Session {
            return self.ask_in_session(&question, params).await;
        }
        if let Some(rounds) = &request.rounds {
            return ask_in_round(rounds, key, &question, params).await;
        }
        if let Some(job) = &self.inner.job {
            return ask_in_task(job, key, &question, params).await;
        }
        Err(RpcError::internal(format!("'{}' cannot ask the client anything", request.method)))
    }

    async fn ask_in_session(
        &self,
        question: &QuestionKind,
        params: &RawValue,
    ) -> Result<Box<RawValue>, RpcError> {
        let request = self.request();
        let method = question.method;
        let answer = request.conversation.questions.ask(&self.inner.outbound, method, params);
        let answer: Box<RawValue> =
            tokio::time::timeout(request.question_timeout, answer).await.map_err(|_| {
                RpcError::internal(format!("the client did not answer '{method}' in time"))
            })??;
        question.check(&answer).map_err(|error| {
            RpcError::internal(format!("answer to '{method}' is not valid: {error}"))
        })?;
        Ok(answer)
    }

    /// Closes the event stream of the answer, so that no connection stays open while the work
    /// continues. The client reconnects after `retry_after` and then receives the messages that it
    /// missed (2025-11-25, "Sending Messages to the Server"; SEP-1699).
    ///
    /// Does nothing on pipes, in other revisions, and for clients that do not accept events. A
    /// stream on which the client has already reconnected stays open.
    pub async fn close_stream(&self, retry_after: Duration) {
        let in_session = self.request().conversation.id.is_some();
        if in_session && self.inner.job.is_none() && self.revision().has(Feature::StreamPolling) {
            self.send(Outgoing::close(retry_after)).await;
        }
    }

    /// Releases the request's slot among the requests in flight while `wait` runs, and takes a slot
    /// again afterwards. Meanwhile other requests of the caller can use it. For requests that wait
    /// for something else, such as a server that starts. The caller of this method must limit the
    /// number of waiting requests.
    ///
    /// # Errors
    /// Returns an error if no slot was free within
    /// [`Limits::queue_time`](super::Limits::queue_time) after the wait.
    pub async fn without_slot<T>(&self, wait: impl Future<Output = T>) -> Result<T, RpcError> {
        let waited = ReturnableSlot::released_while(&self.request().slot, wait).await;
        waited.map_err(|full| RpcError::too_many_requests(full.to_string()))
    }

    /// Completes when the client has cancelled the request or, in the stateless era, disconnected.
    pub fn cancelled(&self) -> WaitForCancellationFuture<'_> {
        self.inner.cancel.cancelled()
    }

    /// Returns the reason that the client gave when it cancelled the request, shortened. [`None`]
    /// if it gave none, if it disconnected, and for work that continues as a task, whose
    /// cancellation has no reason.
    #[must_use]
    pub fn cancel_reason(&self) -> Option<Box<str>> {
        let request = self.request();
        // The id of a task's request is free again, and may belong to another request.
        if self.inner.job.is_some() {
            return None;
        }
        request.conversation.in_flight.cancel_reason(&request.id)
    }

    /// Returns a token that is cancelled together with the request.
    #[must_use]
    pub fn cancellation(&self) -> CancellationToken {
        self.inner.cancel.clone()
    }

    /// Sends a message to the client. Returns no error if the client has disconnected: that is not
    /// an error of the handler, and in the stateless era it cancels the request.
    pub(super) async fn send(&self, message: Outgoing) {
        let request = self.request();
        let message = match &request.sending {
            Some(sending) => message.charge(sending, &request.caller).await,
            None => Ok(message),
        };
        match message {
            Ok(message) => _ = self.inner.outbound.send(message).await,
            Err(full) => tracing::warn!(%full, "a large notification was dropped"),
        }
    }
}

/// Returns the answer that came with this or an earlier round. Otherwise asks, which ends the
/// round: the returned future never completes.
async fn ask_in_round(
    rounds: &Rounds,
    key: &str,
    question: &QuestionKind,
    params: &RawValue,
) -> Result<Box<RawValue>, RpcError> {
    // An invalid answer is asked for again (2026-07-28).
    if let Some(answer) = rounds.answer(key)
        && question.check(answer).is_ok()
    {
        return Ok(answer.to_owned());
    }
    rounds.ask(key, question.method, params.to_owned());
    std::future::pending().await
}

async fn ask_in_task(
    job: &Job,
    key: &str,
    question: &QuestionKind,
    params: &RawValue,
) -> Result<Box<RawValue>, RpcError> {
    const MAX_TRIES: usize = 5;
    let method = question.method;
    let mut tries = 0;
    loop {
        let answer = job.ask(key, method, params.to_owned()).await?;
        tries += 1;
        // An invalid answer is asked for again (2026-07-28), a few times.
        let Err(error) = question.check(&answer) else { return Ok(answer) };
        if tries == MAX_TRIES {
            return Err(RpcError::internal(format!(
                "{MAX_TRIES} answers to '{method}' were not valid: {error}"
            )));
        }
    }
}
