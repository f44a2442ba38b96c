//! The context of a request: its sender, its revision, and notifications before the answer.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, Weak},
    time::Duration,
};

use marquetry_protocol_wire::{
    Era, Feature, RequestId, Revision, RpcError,
    envelope::write_notification,
    error_code,
    members::OwnedMembers,
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
    Caller, Principal,
    ask::{question::Question, stateless::Rounds},
    conversation::{Conversation, ConversationId},
    fair::{FairLimiter, ReturnablePlace},
    notifier::{Announcer, Notifier},
    outgoing::{Outgoing, nowhere},
    tasks::{Job, Tasks},
};

/// The context of one request: its sender and revision. Sends notifications and questions to the client. Cheap to clone.
#[derive(Clone)]
pub struct RequestContext {
    inner: Arc<Inner>,
    /// What the handler gave its own requests.
    #[cfg(feature = "typed")]
    states: Option<Arc<States>>,
}

struct Inner {
    parts: Parts,
    outbound: mpsc::Sender<Outgoing>,
    cancel: CancellationToken,
    /// The task that goes on after its request.
    job: Option<Arc<Job>>,
}

/// What a request says of itself.
pub(super) struct Parts {
    pub(super) id: RequestId,
    pub(super) method: &'static str,
    pub(super) params: Option<OwnedMembers>,
    pub(super) revision: Revision,
    pub(super) client: Option<Implementation>,
    pub(super) capabilities: ClientCapabilities,
    pub(super) progress_token: Option<RequestId>,
    /// The least important log messages that a stateless client wants.
    pub(super) log_level: Option<LogLevel>,
    pub(super) conversation: Arc<Conversation>,
    pub(super) principal: Option<Arc<Principal>>,
    /// The HTTP request that brought it.
    #[cfg(feature = "http")]
    pub(super) http: Option<Arc<http::request::Parts>>,
    pub(super) notifier: Arc<Notifier>,
    /// The caller that limits count it for.
    pub(super) caller: Caller,
    /// Its place among the requests in flight.
    pub(super) place: Weak<ReturnablePlace>,
    /// Bounds what waits to be sent; none where nothing is sent before the answer.
    pub(super) sending: Option<FairLimiter>,
    /// In the stateless era, for the methods that may ask the client something.
    pub(super) rounds: Option<Arc<Rounds>>,
    pub(super) question_timeout: Duration,
    /// In the stateless era, for the methods that may be answered with a task.
    pub(super) tasks: Option<Arc<Tasks>>,
}

impl From<Inner> for RequestContext {
    fn from(inner: Inner) -> Self {
        Self {
            inner: Arc::new(inner),
            #[cfg(feature = "typed")]
            states: None,
        }
    }
}

impl RequestContext {
    pub(super) fn new(
        parts: Parts,
        outbound: mpsc::Sender<Outgoing>,
        cancel: CancellationToken,
    ) -> Self {
        Self::from(Inner { parts, outbound, cancel, job: None })
    }

    /// The context of work that goes on as a task: it belongs to no request, so that nothing can be sent but by the
    /// task itself.
    pub(super) fn of_job(&self, job: Arc<Job>) -> Self {
        let parts = &self.inner.parts;
        let parts = Parts {
            id: parts.id.clone(),
            method: parts.method,
            params: None,
            revision: parts.revision,
            client: parts.client.clone(),
            capabilities: parts.capabilities.clone(),
            progress_token: None,
            log_level: None,
            conversation: parts.conversation.clone(),
            principal: parts.principal.clone(),
            #[cfg(feature = "http")]
            http: parts.http.clone(),
            notifier: parts.notifier.clone(),
            caller: parts.caller.clone(),
            place: Weak::new(),
            sending: None,
            rounds: None,
            question_timeout: parts.question_timeout,
            tasks: None,
        };
        let cancel = job.cancellation().clone();
        let inner = Inner { parts, outbound: nowhere(), cancel, job: Some(job) };
        Self {
            #[cfg(feature = "typed")]
            states: self.states.clone(),
            ..Self::from(inner)
        }
    }

    pub(super) fn job(&self) -> Option<&Arc<Job>> {
        self.inner.job.as_ref()
    }

    pub(super) fn tasks(&self) -> Option<&Arc<Tasks>> {
        self.inner.parts.tasks.as_ref()
    }

    /// Returns the request's id, which the client chose.
    #[must_use]
    pub fn id(&self) -> &RequestId {
        &self.inner.parts.id
    }

    /// Returns the method of the request.
    #[must_use]
    pub fn method(&self) -> &'static str {
        self.inner.parts.method
    }

    /// The parameters, as they came.
    pub(super) fn params(&self) -> Option<&OwnedMembers> {
        self.inner.parts.params.as_ref()
    }

    /// Returns the protocol revision of the request.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.inner.parts.revision
    }

    /// Returns the name and version that the client gives itself. Stateless clients may leave it out.
    #[must_use]
    pub fn client(&self) -> Option<&Implementation> {
        self.inner.parts.client.as_ref()
    }

    /// Returns the authenticated sender; `None` without authentication, as on a pipe.
    #[must_use]
    pub fn principal(&self) -> Option<&Arc<Principal>> {
        self.inner.parts.principal.as_ref()
    }

    /// Returns the head of the HTTP request that brought this request: headers, URI, and the extensions that the HTTP
    /// server and its middleware set. `None` on a pipe and in [`Server::direct_call`](super::Server::direct_call).
    ///
    /// The headers may hold secrets, such as the client's token.
    #[cfg(feature = "http")]
    #[must_use]
    pub fn http(&self) -> Option<&http::request::Parts> {
        self.inner.parts.http.as_deref()
    }

    /// Returns a header of the HTTP request that brought this request, if it is there and is text.
    #[cfg(feature = "http")]
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.http()?.headers.get(name)?.to_str().ok()
    }

    /// Returns an extension of the HTTP request that brought this request: what middleware or the authenticator's
    /// server has put there.
    #[cfg(feature = "http")]
    #[must_use]
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.http()?.extensions.get()
    }

    /// Returns the state that the [`Toolbox`](super::Toolbox) was given for its functions
    /// ([`Toolbox::with_state`](super::Toolbox::with_state)).
    ///
    /// # Panics
    /// When the `Toolbox` has no state of this type. The request is then answered with an internal error.
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

    /// Announces changes to every client of the server: lists that have changed, resources that have been updated.
    #[must_use]
    pub fn notifier(&self) -> &Notifier {
        &self.inner.parts.notifier
    }

    /// Returns the caller that limits count this request for: its principal, otherwise its address.
    #[must_use]
    pub fn caller(&self) -> &Caller {
        &self.inner.parts.caller
    }

    /// Returns the client's capabilities.
    #[must_use]
    pub fn capabilities(&self) -> &ClientCapabilities {
        &self.inner.parts.capabilities
    }

    /// Returns the id of the HTTP session, if the request belongs to one.
    #[must_use]
    pub fn session_id(&self) -> Option<&str> {
        self.inner.parts.conversation.id.as_deref()
    }

    /// Returns an id of the pipe, the HTTP session or the stateless request.
    #[must_use]
    pub fn conversation(&self) -> ConversationId {
        self.inner.parts.conversation.number
    }

    /// Returns a sender of notifications that do not belong to this request; `None` in the stateless era.
    #[must_use]
    pub fn announcer(&self) -> Option<Announcer> {
        match self.inner.parts.revision.era() {
            Era::Session => {
                let facts = self.inner.parts.conversation.session.get();
                facts.map(|facts| Announcer::new(&facts.listener))
            }
            Era::Stateless => None,
        }
    }

    /// Returns the lowest level of log messages that the client wants; `None` if it wants none.
    #[must_use]
    pub fn log_level(&self) -> Option<LogLevel> {
        let parts = &self.inner.parts;
        match parts.revision.era() {
            Era::Stateless => parts.log_level,
            Era::Session => {
                Some(*parts.conversation.log_level.lock().unwrap_or_else(PoisonError::into_inner))
            }
        }
    }

    /// Returns whether the client asked for progress notifications.
    #[must_use]
    pub fn wants_progress(&self) -> bool {
        self.inner.parts.progress_token.is_some()
    }

    /// Sends a progress notification, if the client asked for them. In a task `message` becomes the status message.
    ///
    /// `progress` must grow from call to call; `total` is what it grows towards, if known. Waits while the client reads
    /// more slowly than we write.
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
                job.say(message);
            }
            return;
        }
        let Some(progress_token) = &self.inner.parts.progress_token else { return };
        let message = message.filter(|_| self.revision().has(Feature::ProgressMessages));
        self.notify(
            "notifications/progress",
            &Progress { progress_token, progress, total, message },
        )
        .await;
    }

    /// Sends a notification that belongs to this request. Parameters that are not a JSON object send nothing.
    pub async fn notify(&self, method: &str, params: &(impl Serialize + Sync + ?Sized)) {
        match to_raw_value(params) {
            Ok(params) if params.get().starts_with('{') => {
                self.send(Outgoing::notification(write_notification(method, Some(&params)))).await;
            }
            _ => tracing::error!(method, "notification's parameters are no JSON object"),
        }
    }

    /// Sends a log message, when the client wants those of this importance.
    pub async fn log(
        &self,
        level: LogLevel,
        logger: Option<&str>,
        data: &(impl Serialize + Sync + ?Sized),
    ) {
        let least = self.log_level();
        if least.is_none_or(|least| level < least) {
            return;
        }
        let level = match self.revision().has(Feature::EightLogLevels) {
            true => level,
            false => level.of_four(),
        };
        let mut params = json!({ "level": level, "data": data });
        if let Some(logger) = logger {
            params["logger"] = logger.into();
        }
        self.notify("notifications/message", &params).await;
    }

    /// Asks the user, by the client.
    ///
    /// `key` names the question within this request. In the stateless era a question ends the request, which comes
    /// again with the answer: the handler then runs from its start, and this call returns at once. What must not
    /// happen twice belongs behind the last question; what is costly can be [carried](Self::carry) over.
    ///
    /// # Errors
    /// When the client does not offer it, answers with an error, or does not answer.
    pub async fn elicit(&self, key: &str, params: &ElicitParams) -> Result<ElicitResult, RpcError> {
        self.ask_typed(key, "elicitation/create", params).await
    }

    /// Asks the client's model. The rest is as with [`Self::elicit`].
    ///
    /// # Errors
    /// As [`Self::elicit`].
    pub async fn sample(
        &self,
        key: &str,
        params: &CreateMessageParams,
    ) -> Result<CreateMessageResult, RpcError> {
        self.ask_typed(key, "sampling/createMessage", params).await
    }

    /// Asks which places the user lets the server work in. The rest is as with [`Self::elicit`].
    ///
    /// # Errors
    /// As [`Self::elicit`].
    pub async fn roots(&self, key: &str) -> Result<ListRootsResult, RpcError> {
        self.ask_typed(key, "roots/list", &json!({})).await
    }

    /// What an earlier round of this request has [carried](Self::carry) over.
    ///
    /// # Errors
    /// When it is not a `T`.
    pub fn carried<T: DeserializeOwned>(&self) -> Result<Option<T>, RpcError> {
        let Some(carried) = self.inner.parts.rounds.as_ref().and_then(|rounds| rounds.carried())
        else {
            return Ok(None);
        };
        serde_json::from_str(carried.get())
            .map(Some)
            .map_err(|error| RpcError::invalid_params(format!("requestState: {error}")))
    }

    /// Gives the next round of this request something to start from. In the session era there are no rounds, and this
    /// does nothing. The client sees it, but cannot change it.
    ///
    /// # Errors
    /// When it is no JSON.
    pub fn carry(&self, value: &impl Serialize) -> Result<(), RpcError> {
        if let Some(rounds) = &self.inner.parts.rounds {
            rounds
                .carry(to_raw_value(value).map_err(|error| RpcError::internal(error.to_string()))?);
        }
        Ok(())
    }

    /// Drops the answers of the rounds so far from what travels with the request: the next round gets those alone that
    /// come with it. For handlers that keep what they were told elsewhere.
    pub fn forget_answers(&self) {
        if let Some(rounds) = &self.inner.parts.rounds {
            rounds.forget();
        }
    }

    /// The answers that came with this round of the request, by the keys of their questions; unchecked, and none in the
    /// session era.
    #[must_use]
    pub fn answers(&self) -> Option<&BTreeMap<String, Box<RawValue>>> {
        self.inner.parts.rounds.as_ref().map(|rounds| rounds.fresh())
    }

    async fn ask_typed<T: DeserializeOwned>(
        &self,
        key: &str,
        method: &str,
        params: &(impl Serialize + Sync),
    ) -> Result<T, RpcError> {
        let internal = |error: serde_json::Error| RpcError::internal(error.to_string());
        let params = to_raw_value(params).map_err(internal)?;
        let answer = self.ask(key, method, &params).await?;
        serde_json::from_str(answer.get()).map_err(internal)
    }

    fn offered(&self, method: &str, params: &RawValue) -> Result<Question, RpcError> {
        let question = Question::of(method, params, self.capabilities())?;
        if question.is_offered {
            return Ok(question);
        }
        let message = format!("the client does not offer '{method}'");
        Err(match self.revision().era() {
            Era::Session => RpcError::invalid_request(message),
            Era::Stateless => RpcError::new(error_code::MISSING_CAPABILITY, message)
                .with_data(&json!({ "requiredCapabilities": question.needs })),
        })
    }

    /// Asks the client one of the questions above, as JSON that goes on as it is, both ways. The rest is as with
    /// [`Self::elicit`].
    ///
    /// # Errors
    /// As [`Self::elicit`]; "method not found" for any other method.
    pub async fn ask(
        &self,
        key: &str,
        method: &str,
        params: &RawValue,
    ) -> Result<Box<RawValue>, RpcError> {
        let parts = &self.inner.parts;
        let question = self.offered(method, params)?;
        let method = question.method;
        match (parts.revision.era(), &parts.rounds) {
            (Era::Session, _) => {
                let answer = parts.conversation.questions.ask(&self.inner.outbound, method, params);
                let answer: Box<RawValue> = tokio::time::timeout(parts.question_timeout, answer)
                    .await
                    .map_err(|_| {
                        RpcError::internal(format!("the client did not answer '{method}' in time"))
                    })??;
                question.check(&answer).map_err(|error| {
                    RpcError::internal(format!("answer to '{method}' is not valid: {error}"))
                })?;
                Ok(answer)
            }
            (Era::Stateless, None) if let Some(job) = &self.inner.job => {
                const MOST_TRIES: usize = 5;
                let mut tries = 0;
                loop {
                    let answer = job.ask(key, method, params.to_owned()).await?;
                    tries += 1;
                    match question.check(&answer) {
                        Ok(()) => return Ok(answer),
                        // An answer that is not valid is asked for again (2026-07-28), but not for ever.
                        Err(error) if tries == MOST_TRIES => {
                            return Err(RpcError::internal(format!(
                                "{MOST_TRIES} answers to '{method}' were not valid: {error}"
                            )));
                        }
                        Err(_) => {}
                    }
                }
            }
            (Era::Stateless, Some(rounds)) => {
                // An answer that is not valid is asked for again (2026-07-28).
                if let Some(answer) = rounds.answer(key)
                    && question.check(answer).is_ok()
                {
                    return Ok(answer.to_owned());
                }
                rounds.ask(key, method, params.to_owned());
                std::future::pending().await
            }
            (Era::Stateless, None) => Err(RpcError::internal(format!(
                "'{}' cannot ask the client anything",
                parts.method
            ))),
        }
    }

    /// Closes the stream of events that the answer would come on, so that no connection is held while the work goes on:
    /// the client comes back after `come_back_after` for what was said meanwhile (2025-11-25, "Sending Messages to the
    /// Server"; SEP-1699).
    ///
    /// Does nothing elsewhere: on pipes, in other revisions, and for clients that take no events. A stream that the
    /// client has come back on stays open.
    pub async fn close_stream(&self, come_back_after: Duration) {
        let in_session = self.inner.parts.conversation.id.is_some();
        if in_session && self.inner.job.is_none() && self.revision().has(Feature::StreamPolling) {
            self.send(Outgoing::close(come_back_after)).await;
        }
    }

    /// Waits without a place among the requests in flight, and takes a place again after the wait. It is for a request
    /// that waits for something else to become ready, such as a server that is starting: meanwhile its caller's other
    /// requests can use the place. The caller of this method bounds how many requests wait.
    ///
    /// # Errors
    /// When no place was free within [`Limits::queue_time`](super::Limits::queue_time) after the wait.
    pub async fn without_place<T>(&self, wait: impl Future<Output = T>) -> Result<T, RpcError> {
        let waited = ReturnablePlace::released_while(&self.inner.parts.place, wait).await;
        waited.map_err(|full| RpcError::too_many_requests(full.to_string()))
    }

    /// Completes when the client has cancelled the request or, in the stateless era, gone away.
    pub fn cancelled(&self) -> WaitForCancellationFuture<'_> {
        self.inner.cancel.cancelled()
    }

    /// A token that is cancelled with the request, to hand on.
    #[must_use]
    pub fn cancellation(&self) -> CancellationToken {
        self.inner.cancel.clone()
    }

    /// A client that is gone is no error of the handler's: it learns of it by cancellation where the era has that.
    pub(super) async fn send(&self, message: Outgoing) {
        let parts = &self.inner.parts;
        let message = match &parts.sending {
            Some(sending) => message.charge(sending, &parts.caller).await,
            None => Ok(message),
        };
        match message {
            Ok(message) => _ = self.inner.outbound.send(message).await,
            Err(full) => tracing::warn!(%full, "a large notification was dropped"),
        }
    }
}
