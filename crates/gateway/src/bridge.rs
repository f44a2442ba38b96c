//! Sends a request of an agent to an upstream, and handles the upstream's questions.
//!
//! | agent | upstream | questions of the upstream |
//! |---|---|---|
//! | session | session | become requests to the agent |
//! | session | stateless | become requests to the agent; the call is sent again with the answers |
//! | stateless | session | become the result `input_required`; the call waits, parked here |
//! | stateless | stateless | are forwarded with the upstream's `requestState`; nothing waits here |
//! | stateless, this server samples or has roots | stateless | are answered here, or become `input_required` |
//! | any | stateless, with a task | as those of an upstream with sessions |
//!
//! A request of a stateless agent ends with each question: its future is dropped, and the agent
//! sends the request again with the answers ([`Carried`] says where to go on). So the work at an
//! upstream with sessions runs in a task of its own, which [`ParkOnDrop`] keeps meanwhile.

use std::{collections::BTreeMap, pin::pin, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use marquetry_apps_ext::types::{declare_client, is_ui_enabled};
use marquetry_in_flight::{Entry, Owner, Target};
use marquetry_protocol::{
    Era, RpcError,
    client::{AnswerMemory, CallOptions, Client, ClientError},
    server::{RequestContext, RequestMemory, fair::Slot},
    types::{ClientCapabilities, RootsCapability, TASKS_EXTENSION},
};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tracing::Instrument as _;

use super::{
    Gateway, Upstream,
    approval::AskedBefore,
    asker::{Agent, AskVia, Asker, PendingQuestion, for_agent},
    call_events::CallEvents,
    connection::Connection,
    observer::CallObserver,
    options::Sampler,
    own_keys,
    parked_calls::{Handle, ParkedCalls},
    upstream_set::InUse,
    watched_progress::WatchedProgress,
};

/// The result as the upstream wrote it, or the reason why there is no result.
pub(super) type Outcome = Result<Box<RawValue>, ClientError>;

/// A request to an upstream.
#[derive(Clone)]
pub(super) struct Outgoing {
    pub(super) target: Target,
    pub(super) params: Box<RawValue>,
}

/// A call that waits for answers of its agent.
pub(super) struct Call {
    /// Dropping it cancels the call at the upstream.
    work: AbortOnDropHandle<Outcome>,
    questions: mpsc::Receiver<PendingQuestion>,
    open: Vec<(String, PendingQuestion)>,
    /// Number of questions so far, which names the next one.
    asked: usize,
    events: CallEvents,
    /// The account of the request that began the call.
    memory: RequestMemory,
}

/// Content of our `requestState` between the rounds of a stateless agent.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Carried {
    /// The call waits here.
    Waiting(Handle),
    /// The upstream is stateless as well, and keeps its own state.
    Passed { round: usize, state: Option<String> },
    /// The agent's user is visiting pages; then the request is sent again.
    Visiting { round: usize, pages: usize },
    /// A person is asked whether the call may be made. Nothing of it was sent yet.
    Asked(AskedBefore),
}

/// Questions of one call that may wait; as many as the client answers at once.
const AT_ONCE: usize = 32;

/// Questions of one call within this time are asked together: each round costs a stateless agent
/// another request.
const GATHER_TIME: Duration = Duration::from_millis(20);

impl Gateway {
    /// Sends a request to an upstream, forwards progress and questions, and waits for the answer.
    ///
    /// Dropping the future cancels the request at the upstream, unless the agent was asked
    /// something and will return. The `slot` is held as long as the upstream works on the request,
    /// also while the agent is away. A call that already waits has one.
    pub(super) async fn exchange(
        &self,
        in_use: &InUse,
        client: &Client,
        request: Outgoing,
        slot: Option<Arc<Slot>>,
        cx: &RequestContext,
    ) -> Outcome {
        let upstream: &Arc<Upstream> = in_use;
        let settings = upstream.settings();
        let agent_era = cx.revision().era();
        let upstream_era = client.server().revision.era();
        let carried: Option<Carried> = cx.carried().map_err(ClientError::Rpc)?;
        // The answers go to the upstream in this round. In later ones they would be sent again.
        cx.discard_answers();
        if let Some(Carried::Waiting(handle)) = carried {
            let call = self.parked.take(handle).map_err(ClientError::Rpc)?;
            return self.attend(call, cx).await;
        }
        let observer = CallObserver::of(self.options.observer.as_ref(), upstream.name(), cx);
        let sampler = sampler_of(upstream, cx.capabilities());
        let (sender, mut events) = CallEvents::new(upstream.name(), observer.clone());
        let mut options = CallOptions {
            // The time of questions does not count, so this function measures the time itself.
            timeout: Some(Duration::MAX),
            progress: cx.wants_progress().then_some(sender.progress),
            memory: Some(AnswerMemory {
                account: cx.memory().clone(),
                until: answer_limit(upstream),
            }),
            ..CallOptions::default()
        };
        if upstream_era == Era::Stateless {
            let assumes_views = self.options.assumes_views;
            let mut capabilities =
                declared(cx.capabilities(), request.target.method, assumes_views);
            if sampler.is_some() {
                capabilities.sampling = ClientCapabilities::all().sampling;
            }
            if settings.options.roots.is_some() {
                capabilities.roots = Some(RootsCapability::default());
            }
            options.capabilities = Some(capabilities);
            options.log_level = cx.log_level();
        }
        let session = (agent_era == Era::Session).then(|| cx.conversation());
        let entry = Entry { session, owner: Owner::of(cx), target: request.target };
        let params = request.params;
        let mut asker = Asker {
            via: AskVia::Nothing,
            agent: Agent { revision: cx.revision(), offers: bridged(cx.capabilities()) },
            upstream: upstream.name().to_owned(),
            connection: Arc::new(Connection {
                gateway: self.me.clone(),
                upstream: Arc::downgrade(upstream),
            }),
            sampler: sampler.clone(),
            roots: settings.options.roots.clone(),
            sampling_time: self.options.limits.question_time,
            max: self.options.limits.max_questions_per_call,
            asked: 0.into(),
            open: watch::Sender::new(0),
            log: sender.log,
            over: CancellationToken::new(),
            observer,
            approvals: self.options.approvals.clone(),
        };
        // Without it there are no questions, so the call needs no task of its own.
        let offers_something = !bridged(cx.capabilities()).is_empty();
        // A call that continues as a task is followed here, so its questions wait here.
        let has_tasks = client.server().capabilities.has_extension(TASKS_EXTENSION);
        let answers_here = sampler.is_some() || settings.options.roots.is_some();
        match (agent_era, upstream_era) {
            // Questions for our own model, and for roots of the configuration, are answered here.
            (Era::Stateless, Era::Stateless) if !has_tasks && !answers_here => {
                let (asker, options) = with_handler(options, asker);
                let work = self.pass(upstream, client, entry, params, options, asker, carried, cx);
                events.forward_while(pin!(work), cx).await
            }
            (Era::Stateless, _) if offers_something => {
                let (questions, asked) = mpsc::channel(AT_ONCE);
                // The room is taken only with the first question: most calls ask nothing, and are
                // never parked.
                let room = self.parked.room(cx.caller());
                asker.via = AskVia::InputRequired { questions, room };
                let (asker, options) = with_handler(options, asker);
                let work = work(upstream.clone(), client.clone(), entry, params, options, asker);
                let in_use = in_use.clone();
                let work = async move {
                    // The upstream works on the call also while it is parked.
                    let _slot = slot;
                    let _in_use = in_use;
                    work.await
                };
                let call = Call {
                    work: AbortOnDropHandle::new(tokio::spawn(work.in_current_span())),
                    questions: asked,
                    open: Vec::new(),
                    asked: 0,
                    events,
                    memory: cx.memory().clone(),
                };
                self.attend(call, cx).await
            }
            _ => {
                if session.is_some() {
                    asker.via = AskVia::Request(cx.clone());
                }
                let (asker, options) = with_handler(options, asker);
                let upstream = upstream.clone();
                let client = client.clone();
                let work = work(upstream, client, entry, params, options, asker);
                events.forward_while(pin!(work), cx).await
            }
        }
    }

    /// Waits for a call's answer, or leaves the call to the agent's next round.
    async fn attend(&self, call: Call, cx: &RequestContext) -> Outcome {
        let mut parking = ParkOnDrop {
            call: Some(call),
            handle: None,
            parked: &self.parked,
            cancelled: cx.cancellation(),
        };
        let ParkOnDrop {
            call: Some(Call { work, questions, open, asked, events, memory }),
            handle,
            ..
        } = &mut parking
        else {
            unreachable!("the call was set above")
        };
        let attending = async {
            loop {
                if ask(open, cx).await? {
                    let next = self.parked.next_handle();
                    cx.carry(&Carried::Waiting(next)).map_err(ClientError::Rpc)?;
                    *handle = Some(next);
                    // The agent is asked, and this future is dropped.
                    std::future::pending::<()>().await;
                }
                tokio::select! {
                    // An upstream that has answered no longer needs answers to its questions.
                    biased;
                    outcome = &mut *work => {
                        cx.memory().adopt(memory);
                        return outcome.unwrap_or_else(|error| Err(ClientError::Rpc(RpcError::internal(error.to_string()))));
                    }
                    Some(question) = questions.recv() => {
                        name_question(question, open, asked);
                        // Not raced with the answer: what comes meanwhile stays in `work`.
                        tokio::time::sleep(GATHER_TIME).await;
                        while let Ok(question) = questions.try_recv() {
                            name_question(question, open, asked);
                        }
                    }
                }
            }
        };
        events.forward_while(pin!(attending), cx).await
    }

    /// Forwards a request between two stateless sides: the agent gets the upstream's questions, the
    /// upstream gets the answers.
    #[expect(clippy::too_many_arguments, reason = "one request and all that belongs to it")]
    async fn pass(
        &self,
        upstream: &Arc<Upstream>,
        client: &Client,
        entry: Entry,
        params: Box<RawValue>,
        options: CallOptions,
        asker: Arc<Asker>,
        carried: Option<Carried>,
        cx: &RequestContext,
    ) -> Outcome {
        fn invalid(error: serde_json::Error) -> ClientError {
            ClientError::Params { problem: error.to_string() }
        }
        let (round, params) = match carried {
            Some(Carried::Passed { round, state }) => {
                let prefix = format!("{round}.");
                let answers = cx.answers().into_iter().flatten();
                let answers: BTreeMap<&str, &RawValue> = answers
                    .filter_map(|(key, answer)| Some((key.strip_prefix(&prefix)?, &**answer)))
                    .collect();
                let mut members: BTreeMap<String, Box<RawValue>> =
                    serde_json::from_str(params.get()).map_err(invalid)?;
                members.insert("inputResponses".into(), to_raw_value(&answers).map_err(invalid)?);
                if let Some(state) = state {
                    members.insert("requestState".into(), to_raw_value(&state).map_err(invalid)?);
                }
                (round, to_raw_value(&members).map_err(invalid)?)
            }
            _ => (0, params),
        };
        let options = CallOptions { pass_questions: true, ..options };
        let name = upstream.name();
        let upstream = upstream.clone();
        let client = client.clone();
        let result = work(upstream, client, entry, params, options, asker).await?;
        let Some(InputRequired { input_requests, request_state }) = input_required(&result) else {
            return Ok(result);
        };
        let max = self.options.limits.max_questions_per_call;
        if round >= max {
            return Err(ClientError::TooManyRounds(max));
        }
        let round = round + 1;
        cx.carry(&Carried::Passed { round, state: request_state }).map_err(ClientError::Rpc)?;
        for (key, question) in &input_requests {
            let params = super::asker::or_empty(question.params.as_deref());
            let params = for_agent(name, cx.revision(), &question.method, &params)
                .map_err(ClientError::Rpc)?;
            // The keys name the round, so that earlier answers do not match.
            let key = format!("{round}.{key}");
            let asked = cx.ask(&key, &question.method, &params);
            if let Some(Err(error)) = asked.now_or_never() {
                return Err(ClientError::Rpc(error));
            }
        }
        std::future::pending().await
    }
}

/// Makes `asker` the handler of the call's questions.
fn with_handler(mut options: CallOptions, asker: Asker) -> (Arc<Asker>, CallOptions) {
    let asker = Arc::new(asker);
    options.handler = Some(asker.clone());
    (asker, options)
}

/// Adds a question to the open ones, under the number of the questions so far.
fn name_question(
    question: PendingQuestion,
    open: &mut Vec<(String, PendingQuestion)>,
    asked: &mut usize,
) {
    *asked += 1;
    open.push((format!("question-{asked}"), question));
}

/// Returns the time until which a call may wait for memory for its answer: the upstream has begun
/// to answer, so the error must not be that it has not.
fn answer_limit(upstream: &Upstream) -> Instant {
    Instant::now() + upstream.call_timeout() * 9 / 10
}

/// Returns the model that answers the upstream's requests for messages in place of an agent that
/// offers none.
fn sampler_of(upstream: &Upstream, agent: &ClientCapabilities) -> Option<Arc<dyn Sampler>> {
    let sampler = upstream.settings().options.sampler.clone();
    sampler.filter(|_| !agent.has("sampling"))
}

/// Sends the request within its time limit. The wait for calls of other agents comes before: the
/// upstream has the whole time, so the error for a missing answer is true.
async fn work(
    upstream: Arc<Upstream>,
    client: Client,
    entry: Entry,
    params: Box<RawValue>,
    mut options: CallOptions,
    asker: Arc<Asker>,
) -> Outcome {
    let _over = asker.over.clone().drop_guard();
    let limit = upstream.call_timeout();
    let longest = upstream.settings().options.longest_call;
    let mut progress = WatchedProgress::of(&mut options);
    let progressed = progress.progressed.clone();
    let method = entry.target.method;
    // The agent waits for this time in addition to `limit`, so it is a small part of it.
    let call = upstream.in_flight.enter(entry, &asker, limit / 10).await;
    let outcome = tokio::select! {
        // An answer that comes at the last moment wins over the time limit.
        biased;
        outcome = client.request(method, Some(&params), options) => outcome,
        limit = asker.run_out(limit, longest, &progressed) => {
            Err(ClientError::Timeout(limit))
        }
        never = progress.forward() => match never {},
    };
    progress.forward_rest();
    let outcome = match outcome {
        Ok(result) => Ok(own_keys::removed_from_result(result)),
        Err(ClientError::Rpc(mut error)) => {
            error.data = error.data.map(own_keys::removed_from_error);
            Err(ClientError::Rpc(error))
        }
        outcome => outcome,
    };
    // After a closed connection the upstream cannot ask any more, either.
    if matches!(outcome, Ok(_) | Err(ClientError::Rpc(_) | ClientError::Closed(_))) {
        call.answered();
    }
    outcome
}

/// Asks the agent the open questions, and passes answers to the upstream. Returns whether a
/// question stays open.
async fn ask(
    open: &mut Vec<(String, PendingQuestion)>,
    cx: &RequestContext,
) -> Result<bool, ClientError> {
    for (key, question) in std::mem::take(open) {
        // The upstream may have cancelled it while the agent was away.
        if question.answer.is_closed() {
            continue;
        }
        match cx.ask(&key, &question.method, &question.params).now_or_never() {
            Some(answer) => _ = question.answer.send(answer),
            None => open.push((key, question)),
        }
    }
    Ok(!open.is_empty())
}

/// Parks or cancels a call when it is dropped: with a handle, the call is parked under it; without
/// one, it is cancelled. A request that the agent cancels is dropped, too, perhaps after the
/// question was asked, so a handle alone is not enough.
struct ParkOnDrop<'a> {
    call: Option<Call>,
    handle: Option<Handle>,
    parked: &'a Arc<ParkedCalls<Call>>,
    cancelled: CancellationToken,
}

impl Drop for ParkOnDrop<'_> {
    fn drop(&mut self) {
        if let (Some(call), Some(handle), false) =
            (self.call.take(), self.handle, self.cancelled.is_cancelled())
        {
            self.parked.put(handle, call);
        }
    }
}

/// The questions of a stateless upstream.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InputRequired {
    #[serde(default)]
    input_requests: BTreeMap<String, InputRequest>,
    request_state: Option<String>,
}

#[derive(Deserialize)]
struct InputRequest {
    method: String,
    params: Option<Box<RawValue>>,
}

fn input_required(result: &RawValue) -> Option<InputRequired> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Kind {
        result_type: Option<String>,
    }
    // A search is cheaper than parsing, and results may be large.
    if !result.get().contains("input_required") {
        return None;
    }
    let kind: Kind = serde_json::from_str(result.get()).ok()?;
    (kind.result_type.as_deref() == Some("input_required"))
        .then(|| serde_json::from_str(result.get()).ok())
        .flatten()
}

/// Returns the capabilities of one request to an upstream (since 2026-07-28): the questions that
/// its agent answers, and Views.
///
/// A call has the capabilities of its agent, because some tools answer differently without Views.
/// All other requests declare Views: lists are filtered here, and every client can read a View.
fn declared(offers: &ClientCapabilities, method: &str, assumes_views: bool) -> ClientCapabilities {
    let mut declared = bridged(offers);
    if method != "tools/call" || assumes_views || is_ui_enabled(offers) {
        declare_client(&mut declared);
    }
    declared
}

/// Returns the capabilities of a client for questions of upstreams.
fn bridged(offers: &ClientCapabilities) -> ClientCapabilities {
    let mut bridged = ClientCapabilities::default();
    bridged.elicitation.clone_from(&offers.elicitation);
    bridged.sampling.clone_from(&offers.sampling);
    bridged.roots.clone_from(&offers.roots);
    if let Some(roots) = &mut bridged.roots {
        // Changes of the roots are not passed on.
        roots.list_changed = false;
    }
    bridged
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_declares_views_when_its_agent_does() {
        let mut with_views = ClientCapabilities::default();
        declare_client(&mut with_views);
        let without = ClientCapabilities::default();
        fn declares(offers: &ClientCapabilities, method: &str, assumes_views: bool) -> bool {
            is_ui_enabled(&declared(offers, method, assumes_views))
        }
        assert!(declares(&with_views, "tools/call", false));
        assert!(!declares(&without, "tools/call", false));
        assert!(declares(&without, "tools/call", true));
        assert!(declares(&without, "resources/read", false));
        // No upstream can ask a question by it.
        assert!(bridged(&with_views).is_empty());
        let roots = json!({ "roots": { "listChanged": true }, "experimental": {} });
        let roots: ClientCapabilities = serde_json::from_value(roots).unwrap();
        assert_eq!(json!(declared(&roots, "tools/call", false)), json!({ "roots": {} }));
    }
}
