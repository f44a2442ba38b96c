//! Handles one request, from its envelope to the bytes of its answer.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::Poll,
};

use marquetry_protocol_wire::{
    Era, Notification, Request, RequestId, Revision, RpcError, error_code,
    members::Members,
    types::{CacheHint, RequestMeta, meta_key},
};
use serde::Deserialize;
use serde_json::{json, value::RawValue};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    Caller, Handler, Reply, RequestContext, RequestMemory, Server,
    ask::stateless::{self, Rounds},
    context::RequestParts,
    conversation::{ClientFacts, Conversation},
    fair::{Full, Slot},
    in_flight::InFlightGuard,
    in_place,
    method_table::{Method, MethodCall},
    observe::observed,
    outgoing::Outgoing,
    peer::Peer,
    reply::Stamp,
};

/// An accepted request: its revision is known, and its id is in flight.
pub(super) struct Accepted {
    server: Server,
    in_flight: InFlightGuard,
    /// See [`Peer::cut`].
    cut: CancellationToken,
    method: Method,
    /// Boxed: it is large, and an accepted request is moved several times.
    parts: Box<RequestParts>,
    /// See [`MethodCall::raw_params`].
    raw_params: Option<Box<RawValue>>,
}

impl Server {
    /// Takes one of the slots for requests in flight, which all clients share. Waits at most
    /// [`Limits::queue_time`] for a free slot.
    ///
    /// # Errors
    /// Returns an error if no slot became free in that time.
    ///
    /// [`Limits::queue_time`]: super::Limits::queue_time
    pub(super) async fn slot(&self, caller: &Caller) -> Result<Slot, RpcError> {
        let slot = self.shared.shares.calls.enter(caller, 1).await;
        slot.map_err(|full| RpcError::too_many_requests(full.to_string()))
    }

    /// Returns the account of the memory of a request.
    pub(super) fn memory_of(&self, caller: &Caller) -> RequestMemory {
        RequestMemory::new(&self.shared.shares.working, caller)
    }

    /// Accepts a request of `peer`; [`Accepted::run`] does the work. The request keeps `slot` until
    /// its answer is sent.
    ///
    /// # Errors
    /// Returns an error if the request is refused; the error is the answer to send.
    pub(super) fn accept(
        &self,
        conversation: &Arc<Conversation>,
        peer: &Peer,
        request: &Request<'_>,
        members: &Members<'_>,
        slot: Option<Slot>,
    ) -> Result<Accepted, Outgoing> {
        self.try_accept(conversation, peer, request, members, slot).map_err(|error| {
            if let Some(observer) = &self.shared.observer {
                observer.refused(&request.method, peer, &error);
            }
            Outgoing::error(Some(&request.id), &error)
        })
    }

    fn try_accept(
        &self,
        conversation: &Arc<Conversation>,
        peer: &Peer,
        request: &Request<'_>,
        members: &Members<'_>,
        slot: Option<Slot>,
    ) -> Result<Accepted, RpcError> {
        members.check_size()?;
        let principal = peer.principal.as_ref();
        let meta = request_meta(members)?;
        let revision = revision_of(&meta, conversation, request)?;
        if conversation.ending.is_cancelled() {
            return Err(RpcError::invalid_request("the session has ended"));
        }
        let method = self
            .shared
            .tables
            .find(revision.era(), &request.method)
            .ok_or_else(|| RpcError::method_not_found(&request.method))?;
        let rounds = match (revision.era(), method.name) {
            (Era::Stateless, "tools/call" | "prompts/get" | "resources/read") => {
                Some(Arc::new(Rounds::of(
                    request,
                    members,
                    principal.map(|principal| &**principal),
                    &self.shared.sealer,
                )?))
            }
            _ => None,
        };
        let in_flight = conversation.in_flight.enter(&request.id, slot)?;
        let client = match (revision.era(), conversation.session.get()) {
            (Era::Session, Some(facts)) => facts.client.clone(),
            _ => Arc::new(ClientFacts {
                info: meta.client_info,
                capabilities: meta.client_capabilities.unwrap_or_default(),
            }),
        };
        let parts = Box::new(RequestParts {
            id: request.id.clone(),
            method: method.name,
            params: request.params.map(|_| members.to_owned()),
            revision,
            client,
            progress_token: meta.progress_token,
            log_level: meta.log_level,
            conversation: conversation.clone(),
            principal: principal.cloned(),
            #[cfg(feature = "http")]
            http: peer.http.clone(),
            notifier: self.shared.notifier.clone(),
            caller: peer.caller.clone(),
            slot: Arc::downgrade(&in_flight.slot),
            sending: Some(self.shared.shares.sending.clone()),
            rounds,
            question_timeout: self.shared.limits.question_timeout,
            memory: self.memory_of(&peer.caller),
            tasks: (revision.era() == Era::Stateless && method.name == "tools/call")
                .then(|| self.shared.tasks.clone()),
        });
        Ok(Accepted {
            server: self.clone(),
            in_flight,
            cut: peer.cut.clone(),
            raw_params: request.params.filter(|_| method.is_extension).map(ToOwned::to_owned),
            method,
            parts,
        })
    }

    /// Handles a notification. Only `notifications/cancelled` has an effect; unknown notifications
    /// are not an error.
    pub(super) fn notified(&self, conversation: &Conversation, notification: &Notification<'_>) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Cancelled {
            request_id: RequestId,
            /// A reason that is not a string does not make the cancellation void.
            #[serde(default)]
            reason: serde_json::Value,
        }
        if notification.method != "notifications/cancelled" {
            return;
        }
        if let Some(Ok(Cancelled { request_id, reason })) =
            notification.params.map(|params| serde_json::from_str::<Cancelled>(params.get()))
        {
            conversation.in_flight.cancel(&request_id, reason.as_str());
        } else {
            tracing::debug!("a cancellation names no request");
        }
    }
}

impl Accepted {
    /// Waits for a slot ([`Server::slot`]), then runs the request ([`Self::run`]). The answer is an
    /// error if no slot becomes free in time. While it waits, the request is in flight for its
    /// client: it counts in [`Limits::max_in_flight`](super::Limits::max_in_flight), and can be
    /// cancelled.
    pub(super) async fn run_in_turn(self, outbound: mpsc::Sender<Outgoing>) -> Option<Outgoing> {
        if !self.in_flight.slot.is_held() {
            let slot = tokio::select! {
                biased;
                () = self.in_flight.cancel.cancelled() => return None,
                () = self.cut.cancelled() => Err(cut_off()),
                slot = self.server.slot(&self.parts.caller) => slot,
            };
            match slot {
                Ok(slot) => self.in_flight.slot.hold(slot),
                Err(error) => {
                    let answer = Outgoing::error(Some(&self.parts.id), &error);
                    return Some(answer.holding(self.in_flight));
                }
            }
        }
        self.run(outbound).await
    }

    /// Returns the token that cancels the request.
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only HTTP uses it"))]
    pub(super) fn cancellation(&self) -> CancellationToken {
        self.in_flight.cancel.clone()
    }

    /// Runs the request. `outbound` receives the handler's messages before the answer.
    ///
    /// Returns [`None`] if the request was cancelled: it gets no answer.
    pub(super) fn run(
        self,
        outbound: mpsc::Sender<Outgoing>,
    ) -> impl Future<Output = Option<Outgoing>> + Send {
        let Self { server, in_flight, cut, method, parts, raw_params } = self;
        let sending = server.shared.shares.sending.clone();
        let caller = parts.caller.clone();
        let rounds = parts.rounds.clone();
        let sealer = server.shared.sealer.clone();
        let handler = server.shared.handler.clone();
        let observer = server.shared.observer.clone();
        let server_info = server.server_info();
        let id = parts.id.clone();
        let revision = parts.revision;
        let name = method.name;
        let cx = RequestContext::new(parts, outbound, in_flight.cancel.clone());
        async move {
            let work = async {
                reserve_params(&cx).await?;
                method.call(MethodCall { server, cx: cx.clone(), raw_params }).await
            };
            let asked = async {
                match &rounds {
                    Some(rounds) => rounds.asked().await,
                    None => std::future::pending().await,
                }
            };
            let answered = async {
                tokio::select! {
                    biased;
                    // The handler is polled first, so that all its concurrent questions are sent
                    // together.
                    outcome = work => outcome,
                    () = asked => match &rounds {
                        Some(rounds) => {
                            let about = stateless::about(
                                cx.principal().map(|it| &**it),
                                name,
                                cx.params().iter().flat_map(|it| it.iter()),
                            );
                            rounds.input_required(about, &sealer).map(Reply::question)
                        }
                        None => Err(RpcError::internal("a question has no rounds to send it in")),
                    },
                    () = cut.cancelled() => Err(cut_off()),
                }
            };
            let outcome = tokio::select! {
                biased;
                () = in_flight.cancel.cancelled() => return None,
                outcome = observed(observer.as_ref(), &cx, answered) => outcome,
            };
            let length = outcome.as_ref().map_or(0, Reply::text_len);
            let answer =
                in_place(length, || match outcome.and_then(|reply| reply.shaped(name, revision)) {
                    Ok(reply) => Outgoing::result(match revision.era() {
                        Era::Session => reply.write(&id),
                        Era::Stateless => {
                            let hint = cache_hint(name, reply.cache(), &*handler);
                            // The result of `server/discover` has the complete server information
                            // already.
                            let server_info = (name != "server/discover").then_some(&*server_info);
                            reply.write_stamped(&id, &Stamp { hint, server_info })
                        }
                    }),
                    Err(error) => {
                        let scopes = cx.required_scopes();
                        let scopes =
                            scopes.filter(|_| error.code == error_code::INSUFFICIENT_SCOPE);
                        let error = with_code_of(error, revision);
                        Outgoing { scopes, ..Outgoing::error(Some(&id), &error) }
                    }
                });
            let answer = match answer.charge(&sending, &caller).await {
                Ok(answer) => answer,
                Err(full) => {
                    tracing::warn!(method = name, %full, "an answer was dropped: clients read too slowly");
                    Outgoing::error(Some(&id), &no_room(&full))
                }
            };
            Some(answer.holding(in_flight))
        }
    }
}

/// Returns the error for an answer that exceeds the limit of unsent bytes.
pub(super) fn no_room(full: &Full) -> RpcError {
    RpcError::too_many_requests(format!(
        "there is no room for the answer: {full}; call again later"
    ))
}

/// Returns the error for a call that is still running when the grace period of a shutdown ends.
pub(super) fn cut_off() -> RpcError {
    RpcError::internal("the server is shutting down, and the call did not finish in time")
}

/// Polls a future once: work that is ready immediately needs no task.
pub(super) async fn poll_once<F: Future + Unpin>(mut work: F) -> Poll<F::Output> {
    poll_fn(|cx| Poll::Ready(Pin::new(&mut work).poll(cx))).await
}

/// Reserves the memory that long parameters take beside their message.
async fn reserve_params(cx: &RequestContext) -> Result<(), RpcError> {
    let Some(params) = cx.params() else { return Ok(()) };
    let size = in_place(params.text_len(), || params.memory(cx.method()));
    let memory = cx.memory();
    let reserved = memory.reserve(size, memory.usual_wait()).await;
    reserved.map_err(|full| RpcError::too_many_requests(format!("{full}; call again later")))
}

/// Boxed: it is large, and passes through several results.
fn request_meta(members: &Members<'_>) -> Result<Box<RequestMeta>, RpcError> {
    members
        .read("_meta")
        .map(Option::unwrap_or_default)
        .map_err(|error| RpcError::invalid_params(format!("member '_meta' is not valid: {error}")))
}

/// Returns the revision of a request: the one in its `_meta` (stateless), or the one that the
/// session negotiated.
fn revision_of(
    meta: &RequestMeta,
    conversation: &Conversation,
    request: &Request<'_>,
) -> Result<Revision, RpcError> {
    if let Some(asked) = &meta.protocol_version {
        let revision = stateless_revision(asked)?;
        if meta.client_capabilities.is_none() {
            return Err(RpcError::invalid_params(format!(
                "_meta lacks '{}'",
                meta_key::CLIENT_CAPABILITIES
            )));
        }
        return Ok(revision);
    }
    if let Some(facts) = conversation.session.get() {
        return Ok(facts.revision);
    }
    match &*request.method {
        "initialize" | "ping" => Ok(Revision::LATEST_SESSION),
        "server/discover" => {
            Err(RpcError::invalid_params(format!("_meta lacks '{}'", meta_key::PROTOCOL_VERSION)))
        }
        method => Err(RpcError::invalid_request(format!(
            "'{}' needs 'initialize' first, or '{}' in its _meta",
            marquetry_protocol_wire::shortened(method),
            meta_key::PROTOCOL_VERSION,
        ))),
    }
}

/// Returns the stateless revision that `asked` names, if the server supports it.
pub(super) fn stateless_revision(asked: &str) -> Result<Revision, RpcError> {
    match asked.parse::<Revision>() {
        Ok(revision)
            if revision.era() == Era::Stateless && Revision::SERVED.contains(&revision) =>
        {
            Ok(revision)
        }
        _ => {
            let supported = Revision::SERVED.map(Revision::as_str);
            let message = format!(
                "protocol revision '{}' is not supported",
                marquetry_protocol_wire::shortened(asked)
            );
            Err(RpcError::new(error_code::UNSUPPORTED_VERSION, message)
                .with_data(&json!({ "supported": supported, "requested": asked })))
        }
    }
}

/// Returns how long a client of 2026-07-28 may cache a result; [`None`] for results that must not
/// be cached.
fn cache_hint(
    method: &str,
    own_hint: Option<CacheHint>,
    handler: &dyn Handler,
) -> Option<CacheHint> {
    let is_cacheable = matches!(
        method,
        "server/discover"
            | "tools/list"
            | "resources/list"
            | "resources/templates/list"
            | "resources/read"
            | "prompts/list"
    );
    own_hint.or_else(|| is_cacheable.then(|| handler.cache_hint(method)))
}

/// Changes the error's code to the one that `revision` uses, where revisions differ.
fn with_code_of(mut error: RpcError, revision: Revision) -> RpcError {
    if error.code == error_code::RESOURCE_NOT_FOUND && revision.era() == Era::Stateless {
        error.code = error_code::INVALID_PARAMS;
    }
    error
}
