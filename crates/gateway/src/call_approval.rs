//! Waits until a person has allowed a call of an upstream's tool.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use marquetry_approvals::{
    Approvals, CHOICE, CallToApprove, Decision, QuestionText, Resumed, TooManyQuestions,
    choice_schema,
};
use marquetry_protocol::{
    Feature, RpcError,
    server::RequestContext,
    types::{CallToolParams, ElicitAction, ElicitParams, ElicitResult},
};
use marquetry_request_notes::{Refusal, ToolOfUpstream, note};
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};
use tokio_util::task::AbortOnDropHandle;

use super::{
    Catalog, Gateway, ToolRoute,
    approval::{ActiveRules, AskedBefore, CallApprovals},
    asker::UPSTREAM_KEY,
    bridge::Carried,
    call_error::CallFailure,
};

const ELICIT: &str = "elicitation/create";

/// Member of the question's `_meta` that names the tool.
const TOOL_KEY: &str = "marquetry/tool";

/// The outcome for a call before it is sent.
enum Verdict {
    Decided(Decision),
    TimedOut,
    /// No person was asked.
    NotAsked(String),
}

impl From<TooManyQuestions> for Verdict {
    fn from(full: TooManyQuestions) -> Self {
        Self::NotAsked(full.to_string())
    }
}

/// A call that needs a decision, and its question.
struct PendingCall<'a> {
    desk: &'a CallApprovals,
    call: CallToApprove,
    message: String,
    cx: &'a RequestContext,
    /// Time that a person has for an answer.
    time: Duration,
}

impl PendingCall<'_> {
    async fn verdict(&self, asked: Option<AskedBefore>) -> Verdict {
        let open = match asked.map(|asked| self.resumed(asked)) {
            None => None,
            Some(Ok(open)) => open,
            Some(Err(verdict)) => return verdict,
        };
        if let Some(decision) = self.desk.approvals().remembered(&self.call) {
            return Verdict::Decided(decision);
        }
        if !self.cx.capabilities().has_form_elicitation() {
            return self.ask_in_console();
        }
        if self.desk.is_asked_by_upstream(self.cx.conversation()) {
            return Verdict::NotAsked(
                "a person must allow it, and another question to this client is still open; answer it first, and call again".to_owned(),
            );
        }
        let asking = match self.cx.answers() {
            Some(_) => self.ask_in_rounds(open).await,
            None => self.ask_while_waiting().await,
        };
        asking.unwrap_or_else(|error| {
            Verdict::NotAsked(format!("the client did not ask: {}", error.message))
        })
    }

    /// Asks while the call waits. The console may be faster than the client.
    async fn ask_while_waiting(&self) -> Result<Verdict, RpcError> {
        let params = self.question()?;
        let turn = self.desk.turn(self.cx.conversation());
        let Ok(_turn) = tokio::time::timeout(self.time, turn.lock()).await else {
            return Ok(Verdict::TimedOut);
        };
        // The question before this one may have allowed the tool for the session.
        if let Some(decision) = self.desk.approvals().remembered(&self.call) {
            return Ok(Verdict::Decided(decision));
        }
        let mut waiting = match self.desk.approvals().wait(&self.call, self.message.as_str()) {
            Ok(waiting) => waiting,
            Err(full) => return Ok(full.into()),
        };
        let answer = tokio::select! {
            biased;
            decision = waiting.answered_in_console() => {
                return Ok(Verdict::Decided(waiting.answered(decision)));
            }
            answer = self.cx.ask("", ELICIT, &params) => answer?,
            () = tokio::time::sleep(self.time) => {
                waiting.timed_out();
                return Ok(Verdict::TimedOut);
            }
        };
        Ok(match decision_of(&answer) {
            Ok(decision) => Verdict::Decided(waiting.answered(decision)),
            Err(problem) => Verdict::NotAsked(problem),
        })
    }

    /// Ends the round with a question: the client sends the call again with the answer.
    async fn ask_in_rounds(&self, open: Option<AskedBefore>) -> Result<Verdict, RpcError> {
        let params = self.question()?;
        let asked = if let Some(asked) = open {
            asked
        } else {
            match self.desk.approvals().ask_in_rounds(&self.call, self.message.as_str()) {
                Ok(question) => {
                    self.expire(question);
                    self.desk.asked(question, now_ms())
                }
                Err(full) => return Ok(full.into()),
            }
        };
        self.cx.carry(&Carried::Asked(asked))?;
        self.cx.ask(&asked.key(), ELICIT, &params).await?;
        // The key is not known before the question, so no answer can be there already.
        Ok(Verdict::NotAsked("its client answered before it was asked".to_owned()))
    }

    /// Takes the answer that a stateless client brings. Returns the question if it is still open,
    /// and `None` if it is unknown.
    fn resumed(&self, asked: AskedBefore) -> Result<Option<AskedBefore>, Verdict> {
        let approvals = self.desk.approvals();
        let answers = self.cx.answers();
        let answer = answers.and_then(|answers| answers.get(&asked.key()));
        let decision = match answer.map(|answer| decision_of(answer)) {
            None => None,
            Some(Ok(decision)) => Some(decision),
            Some(Err(problem)) => return Err(Verdict::NotAsked(problem)),
        };
        let question = Some(asked.question()).filter(|_| self.desk.has_asked(asked));
        let resumed = match question {
            None => Resumed::Unknown,
            // A form that is closed after an answer in the console is no refusal.
            Some(question) if answer.is_some_and(|answer| is_cancelled(answer)) => {
                match approvals.resume(question, &self.call, None) {
                    Resumed::Open => approvals.resume(question, &self.call, decision),
                    resumed => resumed,
                }
            }
            Some(question) => approvals.resume(question, &self.call, decision),
        };
        match resumed {
            Resumed::Decided(decision) => Err(Verdict::Decided(decision)),
            Resumed::Open => Ok(Some(asked)),
            Resumed::Unknown if asked.age(now_ms()) >= self.time => Err(Verdict::TimedOut),
            Resumed::Unknown => Ok(None),
        }
    }

    /// Leaves the question to the console, and refuses the call.
    fn ask_in_console(&self) -> Verdict {
        let mut text = "a person must allow it, and this client cannot ask, because it does not declare the capability \"elicitation\". ".to_owned();
        if let Some(console) = self.desk.console() {
            match self.desk.approvals().ask_in_console(&self.call, self.message.as_str()) {
                Ok(Some(question)) => self.expire(question),
                Ok(None) => {}
                Err(full) => return full.into(),
            }
            let seconds = self.time.as_secs_f64();
            text += &format!(
                "A person can allow it at {console} within {seconds} s; then call again. "
            );
        }
        text += &match self.desk.approvals().decision_file() {
            Some(file) => format!(
                "To allow the tool from now on, a person adds this to {} (ask.decisions_file):\n",
                file.display()
            ),
            None => "To allow the tool from now on, a person names a file in ask.decisions_file, and adds this to it:\n".to_owned(),
        };
        text += &Approvals::entry_for(&self.call);
        Verdict::NotAsked(text)
    }

    /// Lets a question expire that no call waits for.
    fn expire(&self, question: u64) {
        let approvals = self.desk.approvals().clone();
        let time = self.time;
        let expiry = tokio::spawn(async move {
            tokio::time::sleep(time).await;
            approvals.expire(question);
        });
        let expiry = Box::new(AbortOnDropHandle::new(expiry));
        self.desk.approvals().keep_until_end(question, expiry);
    }

    /// Returns the parameters of the question.
    fn question(&self) -> Result<Box<RawValue>, RpcError> {
        // The revision that brought pages for users also brought titles of choices.
        let schema =
            choice_schema(self.cx.revision().has(Feature::UrlElicitation), self.call.scope);
        let params = ElicitParams::form(&*self.message, schema);
        let mut params = serde_json::to_value(params).unwrap_or_default();
        params["_meta"] = json!({UPSTREAM_KEY: self.call.server, TOOL_KEY: self.call.tool});
        to_raw_value(&params).map_err(|error| RpcError::internal(error.to_string()))
    }
}

impl Gateway {
    /// Returns what asks before calls, if the options have it.
    #[must_use]
    pub fn approvals(&self) -> Option<&Arc<CallApprovals>> {
        self.options.approvals.as_ref()
    }

    /// Waits until a person has allowed a call, if the rules demand that.
    ///
    /// # Errors
    /// Returns an error if the call is not allowed; the call must not be sent then.
    pub(super) async fn approved(
        &self,
        catalog: &Catalog,
        upstream: &str,
        route: &ToolRoute,
        params: &CallToolParams,
        cx: &RequestContext,
    ) -> Result<(), CallFailure> {
        let Some(approvals) = self.approvals() else { return Ok(()) };
        let Some(ActiveRules { rules, time }) = approvals.active_rules() else { return Ok(()) };
        let tool = &route.to.name;
        let reason = rules
            .reason(cx, upstream, tool, &route.hints)
            .or_else(|| catalog.question_before(&route.to, &route.hints));
        let Some(reason) = reason else { return Ok(()) };
        let asked = match cx.carried()? {
            None => None,
            Some(Carried::Asked(asked)) => Some(asked),
            // The call was allowed in an earlier round.
            Some(_) => {
                let state = cx.param("requestState").map_or("", RawValue::get);
                if approvals.approvals().may_go_on(state) {
                    return Ok(());
                }
                note(|notes| notes.refusal = Some(Refusal::NotConfirmed));
                return Err(CallFailure::NotAllowed(format!(
                    "the tool '{tool}' of the server '{upstream}' was not called ({reason}): this round was answered already; call the tool anew"
                )));
            }
        };
        let arguments = params.arguments.as_deref();
        let mut secret_names = Vec::new();
        note(|notes| {
            secret_names.clone_from(&notes.secret_names);
            notes.rule.get_or_insert_with(|| reason.clone());
            notes.tool_to_approve = Some(ToolOfUpstream::new(upstream, tool));
        });
        let call = CallToApprove::new(upstream, tool, arguments)
            .of_principal(cx.principal().map(|principal| principal.id()))
            .because_of(reason);
        let call = within_session(call, cx);
        let text = QuestionText::new(upstream, tool, arguments).with_hints(route.hints);
        let message = text.hiding(&secret_names).message();
        let pending = PendingCall { desk: approvals, call, message, cx, time };
        let verdict = pending.verdict(asked).await;
        let why = match verdict {
            Verdict::Decided(decision) if decision.allows() => return Ok(()),
            Verdict::Decided(_) => {
                "the user declined; do not repeat it unless the user asks for it".to_owned()
            }
            Verdict::TimedOut => format!(
                "no person answered within {} s (ask.timeout_ms), which counts as a refusal",
                time.as_secs_f64()
            ),
            Verdict::NotAsked(why) => why,
        };
        note(|notes| notes.refusal = Some(Refusal::NotConfirmed));
        let reason = &pending.call.reason;
        Err(CallFailure::NotAllowed(format!(
            "the tool '{tool}' of the server '{upstream}' was not called ({reason}): {why}"
        )))
    }
}

/// Sets what a decision for the session counts for: the session, and without one the caller.
fn within_session(call: CallToApprove, cx: &RequestContext) -> CallToApprove {
    match (cx.announcer(), cx.principal()) {
        (Some(_), _) => call.of_session(format!("{:?}", cx.conversation())),
        // A renewed token is the same caller.
        (None, Some(principal)) => call.of_caller(principal.id()),
        (None, None) => call.of_caller(format!("{:?}", cx.caller())),
    }
}

/// Returns the decision in an answer of a client.
fn decision_of(answer: &RawValue) -> Result<Decision, String> {
    let answer: ElicitResult = serde_json::from_str(answer.get())
        .map_err(|error| format!("the answer of the client is not valid: {error}"))?;
    if answer.action != ElicitAction::Accept {
        return Ok(Decision::Declined);
    }
    // Clients that show no forms send none: their user has allowed this call, and nothing more.
    match answer.content.as_ref().and_then(|content| content.get(CHOICE)) {
        None => Ok(Decision::Once),
        Some(choice) => choice.as_str().and_then(Decision::of_name).ok_or_else(|| {
            format!("the answer of the client, {}, is no choice of the form", short(choice))
        }),
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    text[..text.floor_char_boundary(100)].to_owned()
}

/// Returns whether the user closed the form without an answer.
fn is_cancelled(answer: &RawValue) -> bool {
    let answer: Result<ElicitResult, _> = serde_json::from_str(answer.get());
    answer.is_ok_and(|answer| answer.action == ElicitAction::Cancel)
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(answer: &Value, want: Result<Decision, &str>) {
        let answer = to_raw_value(answer).unwrap();
        let found = decision_of(&answer);
        assert_eq!(found.as_ref().copied().map_err(String::as_str), want);
    }

    #[test]
    fn answers_are_decisions() {
        for choice in ["once", "session", "always"] {
            let answer = json!({"action": "accept", "content": {"decision": choice}});
            check(&answer, Ok(Decision::of_name(choice).unwrap()));
        }
        check(&json!({"action": "accept"}), Ok(Decision::Once));
        check(&json!({"action": "accept", "content": {}}), Ok(Decision::Once));
        for action in ["decline", "cancel"] {
            let content = json!({"decision": "always"});
            check(&json!({"action": action, "content": content}), Ok(Decision::Declined));
        }
        let decline = json!({"action": "accept", "content": {"decision": "decline"}});
        check(&decline, Ok(Decision::Declined));
        for (odd, shown) in [(json!("forever"), "\"forever\""), (json!(true), "true")] {
            let problem = format!("the answer of the client, {shown}, is no choice of the form");
            let answer = json!({"action": "accept", "content": {"decision": odd}});
            check(&answer, Err(problem.as_str()));
        }
    }
}
