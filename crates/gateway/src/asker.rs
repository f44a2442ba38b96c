//! Forwards questions and notifications of an upstream during a call to the agent of the call.

use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use indexmap::IndexMap;
use marquetry_protocol::{
    Era, Feature, Revision, RpcError,
    client::{ClientHandler, ServerNotification},
    remove_null_members,
    server::{Announcer, RequestContext},
    types::{ClientCapabilities, ListRootsResult, Root},
};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::{
    approval::CallApprovals,
    observer::{CallObserver, Observed},
    options::Sampler,
    parked_calls::ParkingSlot,
};

/// Forwards questions and notifications of an upstream to the agent of one call.
pub(crate) struct Asker {
    pub(super) via: AskVia,
    pub(super) agent: Agent,
    /// Name of the upstream, which each question shows to the user.
    pub(super) upstream: String,
    /// Receives events that concern more than this call.
    pub(super) connection: Arc<dyn ConnectionEvents>,
    /// Answers requests for a message of a model, if the agent offers none.
    pub(super) sampler: Option<Arc<dyn Sampler>>,
    /// Roots that are answered in place of the agent's.
    pub(super) roots: Option<Vec<Root>>,
    /// Time that the sampler has.
    pub(super) sampling_time: Duration,
    /// The most questions that one call may ask.
    pub(super) max: usize,
    pub(super) asked: AtomicUsize,
    /// Number of open questions. The time limit of the call pauses while one is open.
    pub(super) open: watch::Sender<usize>,
    /// Log messages for the agent. Messages that do not fit are dropped: an upstream that logs much
    /// must not wait for a slow agent.
    pub(super) log: mpsc::Sender<ServerNotification>,
    /// Cancelled when the call ends, which cancels its questions.
    pub(super) over: CancellationToken,
    /// Receives questions and notifications.
    pub(super) observer: Option<CallObserver>,
    /// Learns that the upstream asks: meanwhile no call of the session is asked about.
    pub(super) approvals: Option<Arc<CallApprovals>>,
}

/// Receives events of a call that concern more than the call.
pub(super) trait ConnectionEvents: Send + Sync {
    /// Reports that the upstream has sent the user to a page. The announcer notifies the agent when
    /// the user is done.
    fn page_opened(&self, id: String, announcer: Announcer);

    /// Passes on a notification of the upstream that belongs to no call.
    fn notified(&self, notification: &ServerNotification);
}

/// Facts about an agent that decide about questions.
pub(super) struct Agent {
    pub(super) revision: Revision,
    pub(super) offers: ClientCapabilities,
}

/// Way in which questions reach the agent.
pub(super) enum AskVia {
    /// A request on the agent's connection, while the call waits.
    Request(RequestContext),
    /// The result `input_required` of the call. The call continues when the agent returns with the
    /// answers.
    InputRequired { questions: mpsc::Sender<PendingQuestion>, room: ParkingSlot },
    /// The questions are forwarded unchanged.
    Nothing,
}

/// A question for an agent, and the channel for its answer.
pub(super) struct PendingQuestion {
    pub(super) method: String,
    pub(super) params: Box<RawValue>,
    pub(super) answer: oneshot::Sender<Result<Box<RawValue>, RpcError>>,
}

impl Asker {
    /// Whether the agent, or this server, could answer such a question.
    pub(super) fn can_ask(&self, question: &QuestionKind<'_>) -> bool {
        (self.sampler.is_some() && question.method == SAMPLING)
            || (self.roots.is_some() && question.method == ROOTS)
            || self.check(question).is_ok()
    }

    /// Asks the agent.
    ///
    /// # Errors
    /// Returns an error if the agent does not support the question, did not answer, or was asked
    /// too often. The error goes to the upstream.
    pub(super) async fn ask(
        &self,
        method: &str,
        params: &RawValue,
    ) -> Result<Box<RawValue>, RpcError> {
        if let Some(roots) = self.roots.as_deref().filter(|_| method == ROOTS) {
            return list_of_roots(roots);
        }
        let sampler = self.sampler.as_deref().filter(|_| method == SAMPLING);
        if sampler.is_none() {
            self.check(&QuestionKind::of(method, params))?;
        }
        // After the check: a question that the agent never sees does not count.
        if self.asked.fetch_add(1, Ordering::Relaxed) >= self.max {
            let max = self.max;
            return Err(RpcError::limit_exceeded(format!(
                "more than {max} questions in one call (limits.max_questions_per_call)"
            )));
        }
        let params = match sampler {
            Some(_) => Cow::Borrowed(params),
            None => for_agent(&self.upstream, self.agent.revision, method, params)?,
        };
        // From here on, the time limit of the call pauses: a user may think for minutes.
        let _open = OpenQuestion::new(&self.open);
        let observed = self.observer.as_ref().map(|it| ObservedQuestion::open(it, method, &params));
        let answer = match sampler {
            Some(sampler) => self.sample(sampler, &params).await,
            None => self.deliver(method, params).await,
        };
        if let Some(observed) = observed {
            observed.answered(&answer);
        }
        answer
    }

    /// Asks the model of this server.
    async fn sample(
        &self,
        sampler: &dyn Sampler,
        params: &RawValue,
    ) -> Result<Box<RawValue>, RpcError> {
        let answer = tokio::time::timeout(self.sampling_time, sampler.create_message(params)).await;
        answer.unwrap_or_else(|_| {
            let ms = self.sampling_time.as_millis();
            Err(RpcError::internal(format!(
                "the model gave no answer within {ms} ms (limits.question_ms)"
            )))
        })
    }

    /// Takes a question to the agent, and returns its answer.
    async fn deliver(
        &self,
        method: &str,
        params: Cow<'_, RawValue>,
    ) -> Result<Box<RawValue>, RpcError> {
        match &self.via {
            AskVia::Request(cx) => {
                if let (Some(id), Some(announcer)) = (elicitation_id(&params), cx.announcer()) {
                    self.connection.page_opened(id, announcer);
                }
                let approvals = self.approvals.as_ref().filter(|_| method != ROOTS);
                let _asks = approvals.map(|it| it.upstream_asks(cx.conversation()));
                cx.ask("", method, &params).await
            }
            AskVia::InputRequired { questions, room } => {
                // Before the question is asked: an agent that comes back must find its call.
                room.take()?;
                let (answer, answered) = oneshot::channel();
                let params = params.into_owned();
                let asked = PendingQuestion { method: method.to_owned(), params, answer };
                questions.send(asked).await.map_err(|_| client_gone())?;
                answered.await.map_err(|_| client_gone())?
            }
            AskVia::Nothing => Err(RpcError::method_not_found(method)),
        }
    }

    /// Returns the time limit of the call when it is over; time during questions does not count.
    /// Each time that the upstream has `progressed`, `limit` starts again, until `longest` is over.
    pub(super) async fn run_out(
        &self,
        limit: Duration,
        longest: Duration,
        progressed: &Notify,
    ) -> Duration {
        let longest = longest.max(limit);
        let mut open = self.open.subscribe();
        let mut left = limit;
        let mut left_in_all = longest;
        loop {
            // Fails only if the sender is gone, and `self` has the sender.
            if open.wait_for(|open| *open == 0).await.is_err() {
                return std::future::pending().await;
            }
            let since = Instant::now();
            // If both end at once, the error names `longest`: raising `limit` would not help.
            let is_last = left_in_all <= left;
            tokio::select! {
                () = tokio::time::sleep(left.min(left_in_all)) => {
                    return if is_last { longest } else { limit };
                }
                _ = open.wait_for(|open| *open > 0) => left = left.saturating_sub(since.elapsed()),
                // Progress extends only `limit`. Otherwise an upstream that reports for ever would
                // never time out.
                () = progressed.notified() => left = limit,
            }
            left_in_all = left_in_all.saturating_sub(since.elapsed());
        }
    }

    /// Forwards a log message to the agent.
    pub(super) fn logged(&self, notification: &ServerNotification) {
        _ = self.log.try_send(notification.clone());
    }

    /// Refuses questions that the agent does not support, with the error codes of a client
    /// (2025-11-25): the upstream knows what this server can forward, but not the capabilities of
    /// each agent.
    fn check(&self, question: &QuestionKind<'_>) -> Result<(), RpcError> {
        let QuestionKind { method, params } = question;
        let params =
            params.as_ref().map_err(|error| RpcError::invalid_params(error.to_string()))?;
        let offers = &self.agent.offers;
        let with_tools = params.tools.is_some() || params.tool_choice.is_some();
        let (capability, part) = match *method {
            "elicitation/create" if params.mode.as_deref() == Some("url") => {
                ("elicitation", Some(("mode 'url'", offers.has_url_elicitation())))
            }
            "elicitation/create" => {
                ("elicitation", Some(("mode 'form'", offers.has_form_elicitation())))
            }
            SAMPLING if with_tools => ("sampling", Some(("tools", offers.has_sampling_tools()))),
            SAMPLING => ("sampling", None),
            ROOTS => ("roots", None),
            _ => return Err(RpcError::method_not_found(method)),
        };
        if !offers.has(capability) {
            let mut error = RpcError::method_not_found(method);
            error.message += ": the client of this call does not support it";
            return Err(error);
        }
        match part {
            Some((part, false)) => Err(RpcError::invalid_params(format!(
                "the client of this call does not support '{method}' with {part}"
            ))),
            _ => Ok(()),
        }
    }
}

/// The parts of a question that decide whether an agent could answer it.
pub(super) struct QuestionKind<'a> {
    method: &'a str,
    params: serde_json::Result<QuestionParams<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct QuestionParams<'a> {
    #[serde(borrow)]
    mode: Option<Cow<'a, str>>,
    tools: Option<IgnoredAny>,
    tool_choice: Option<IgnoredAny>,
}

impl<'a> QuestionKind<'a> {
    /// Parses a question, which may be large.
    pub(super) fn of(method: &'a str, params: &'a RawValue) -> Self {
        Self { method, params: serde_json::from_str(params.get()) }
    }
}

/// The method by which an upstream asks for a message of a model.
const SAMPLING: &str = "sampling/createMessage";

/// The method by which an upstream asks for the folders in which it may work.
pub(super) const ROOTS: &str = "roots/list";

/// Returns the answer to `roots/list` with the roots of the configuration.
///
/// # Errors
/// Returns an error if the answer cannot be written as JSON.
pub(super) fn list_of_roots(roots: &[Root]) -> Result<Box<RawValue>, RpcError> {
    let result = ListRootsResult { roots: roots.to_vec() };
    to_raw_value(&result).map_err(|error| RpcError::internal(error.to_string()))
}

/// Member of a question's `_meta` that names the upstream.
pub(crate) const UPSTREAM_KEY: &str = "marquetry/upstream";

/// Returns a question's parameters for the agent: in the form of its revision, and with the name of
/// the upstream.
///
/// A client must make clear which server asks (2026-07-28, "Elicitation"), and this server is the
/// only one that it knows. Text for users begins with the upstream's name; for programs the name is
/// in `_meta`.
///
/// # Errors
/// Returns an error if the parameters are not an object.
pub(super) fn for_agent<'a>(
    upstream: &str,
    revision: Revision,
    method: &str,
    params: &'a RawValue,
) -> Result<Cow<'a, RawValue>, RpcError> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    const ID: &str = "elicitationId";
    // Some libraries write a missing member as `null`, which strict clients refuse.
    let params = match remove_null_members(method, revision.era(), params) {
        Some(removed) => Cow::Owned(removed),
        None => Cow::Borrowed(params),
    };
    if method == ROOTS {
        return Ok(params);
    }
    // The values are not parsed: they may contain more than a `Value` can represent.
    type Members = IndexMap<String, Box<RawValue>>;
    fn invalid(error: serde_json::Error) -> RpcError {
        RpcError::invalid_params(error.to_string())
    }
    fn text(members: &Members, name: &str) -> Option<String> {
        serde_json::from_str(members.get(name)?.get()).ok()
    }
    let mut members: Members = serde_json::from_str(params.get()).map_err(invalid)?;
    let mut meta: Members = members
        .get("_meta")
        .and_then(|meta| serde_json::from_str(meta.get()).ok())
        .unwrap_or_default();
    meta.insert(UPSTREAM_KEY.to_owned(), to_raw_value(upstream).map_err(invalid)?);
    members.insert("_meta".to_owned(), to_raw_value(&meta).map_err(invalid)?);
    if method == "elicitation/create" {
        let message = text(&members, "message").unwrap_or_default();
        let message = format!("[{upstream}] {message}");
        members.insert("message".to_owned(), to_raw_value(&message).map_err(invalid)?);
    }
    if text(&members, "mode").as_deref() == Some("url") {
        // The id of a page exists only in 2025-11-25, which requires it.
        match (revision.era(), members.contains_key(ID)) {
            (Era::Stateless, true) => _ = members.shift_remove(ID),
            (Era::Session, false) if revision.has(Feature::UrlElicitation) => {
                let id = format!("marquetry-{}", NEXT.fetch_add(1, Ordering::Relaxed));
                members.insert(ID.to_owned(), to_raw_value(&id).map_err(invalid)?);
            }
            _ => {}
        }
    }
    to_raw_value(&members).map(Cow::Owned).map_err(invalid)
}

#[async_trait]
impl ClientHandler for Asker {
    async fn request(
        &self,
        method: &str,
        params: Option<&RawValue>,
    ) -> Result<Box<RawValue>, RpcError> {
        let params = or_empty(params);
        let asked = self.over.run_until_cancelled(self.ask(method, &params));
        asked.await.unwrap_or_else(|| Err(RpcError::internal("the call has ended")))
    }

    fn notified(&self, notification: &ServerNotification) {
        match &*notification.method {
            "notifications/message" => {
                if let Some(observer) = &self.observer {
                    let params = notification.params.as_deref();
                    observer
                        .observe(&Observed::Notification { method: &notification.method, params });
                }
                self.logged(notification);
            }
            _ => self.connection.notified(notification),
        }
    }
}

/// Returns the parameters, or an empty object.
pub(super) fn or_empty(params: Option<&RawValue>) -> Cow<'_, RawValue> {
    match params {
        Some(params) => Cow::Borrowed(params),
        None => {
            Cow::Owned(RawValue::from_string("{}".to_owned()).expect("an empty object is JSON"))
        }
    }
}

/// A question that counts as open until it is dropped.
struct OpenQuestion<'a>(&'a watch::Sender<usize>);

impl<'a> OpenQuestion<'a> {
    fn new(open: &'a watch::Sender<usize>) -> Self {
        open.send_modify(|open| *open += 1);
        Self(open)
    }
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open -= 1);
    }
}

/// A question whose end is reported to the observer, even if the end of its call ends it.
struct ObservedQuestion<'a> {
    observer: &'a CallObserver,
    method: &'a str,
    number: u64,
    is_closed: bool,
}

impl<'a> ObservedQuestion<'a> {
    fn open(observer: &'a CallObserver, method: &'a str, params: &RawValue) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        observer.observe(&Observed::QuestionOpened { number, method, params });
        Self { observer, method, number, is_closed: false }
    }

    fn answered(mut self, answer: &Result<Box<RawValue>, RpcError>) {
        self.is_closed = true;
        let answer = Some(answer.as_deref());
        let number = self.number;
        let method = self.method;
        self.observer.observe(&Observed::QuestionClosed { number, method, answer });
    }
}

impl Drop for ObservedQuestion<'_> {
    fn drop(&mut self) {
        if !self.is_closed {
            let number = self.number;
            let method = self.method;
            self.observer.observe(&Observed::QuestionClosed { number, method, answer: None });
        }
    }
}

fn client_gone() -> RpcError {
    RpcError::internal("the client did not answer in time, or is gone")
}

fn elicitation_id(params: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Id {
        elicitation_id: Option<String>,
    }
    if !params.get().contains("elicitationId") {
        return None;
    }
    serde_json::from_str::<Id>(params.get()).ok()?.elicitation_id
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(revision: Revision, method: &str, params: &str, want: Value) {
        let params: &RawValue = serde_json::from_str(params).unwrap();
        let got = for_agent("github", revision, method, params).unwrap();
        assert_eq!(serde_json::from_str::<Value>(got.get()).unwrap(), want, "{method} {params}");
    }

    #[test]
    fn a_question_names_its_upstream() {
        let meta = json!({"marquetry/upstream": "github"});
        let revision = Revision::V2025_06_18;
        check(
            revision,
            "elicitation/create",
            r#"{"message":"[gitlab] name?","requestedSchema":{}}"#,
            json!({"message": "[github] [gitlab] name?", "requestedSchema": {}, "_meta": meta}),
        );
        check(
            revision,
            "sampling/createMessage",
            r#"{"messages":[],"maxTokens":1,"_meta":{"x":1,"marquetry/upstream":"gitlab"}}"#,
            json!({"messages": [], "maxTokens": 1, "_meta": {"x": 1, "marquetry/upstream": "github"}}),
        );
        check(revision, "roots/list", "{}", json!({}));
        check(revision, "roots/list", r#"{"_meta":null}"#, json!({}));
        check(
            revision,
            "elicitation/create",
            r#"{"message":"name?","requestedSchema":{"type":"object","properties":{}},"mode":null,"_meta":null}"#,
            json!({"message": "[github] name?", "requestedSchema": {"type": "object", "properties": {}}, "_meta": meta}),
        );
        check(
            revision,
            "sampling/createMessage",
            r#"{"messages":[{"role":"user","content":{"type":"text","text":"a","annotations":null}}],"maxTokens":1,"systemPrompt":null}"#,
            json!({"messages": [{"role": "user", "content": {"type": "text", "text": "a"}}], "maxTokens": 1, "_meta": meta}),
        );
        // A number that is too large for a `Value` must not hide anything.
        let params: &RawValue = serde_json::from_str(r#"{"message":"m","x":1e999}"#).unwrap();
        let got = for_agent("github", revision, "elicitation/create", params).unwrap();
        assert!(got.get().contains(r#""message":"[github] m""#), "{got}");
        let wrong: &RawValue = serde_json::from_str("[]").unwrap();
        assert!(for_agent("github", revision, "elicitation/create", wrong).is_err());
    }

    #[test]
    fn a_page_has_an_id_where_the_revision_has_one() {
        let meta = json!({"marquetry/upstream": "github"});
        let page = r#"{"mode":"url","message":"go","url":"https://a.example","elicitationId":"1"}"#;
        let without_id = json!({
            "mode": "url", "message": "[github] go", "url": "https://a.example", "_meta": meta,
        });
        let mut with_id = without_id.clone();
        with_id["elicitationId"] = "1".into();
        check(Revision::V2025_11_25, "elicitation/create", page, with_id);
        check(Revision::V2026_07_28, "elicitation/create", page, without_id);
    }
}
