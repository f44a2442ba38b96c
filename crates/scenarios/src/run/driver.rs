//! Runs one case: starts its environment, runs the steps, checks the outcome, and stops everything.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json, value::RawValue};
use tokio::time::timeout;

use super::{
    agent::{self, ToolCallOptions},
    artifacts::{self, Reports},
    case::Case,
    failure::Failure,
    report::Status,
    world::{World, WorldError},
};
use crate::{
    language::{
        Action, Context, Expect, HttpRequest, Matcher, Mismatch, SocketExchange, Step, Template,
        compare::show, vars::Vars,
    },
    plain_http::{self, Exchange, Unread, send_unread},
    server::{ServerStartError, TestedServer},
    web_socket::JsonSocket,
};

/// Time limit for the shutdown of a case.
const END: Duration = Duration::from_secs(15);
/// Default time limit of a step that waits for a notification.
const NOTIFICATION: Duration = Duration::from_secs(10);
/// Time within which a message of the agent reaches an upstream.
const DELIVERY: Duration = Duration::from_secs(5);
/// Pause between two tries of a step with `eventually`.
const RETRY: Duration = Duration::from_millis(50);

/// Runs a case within `limit`.
pub(crate) async fn run(case: Case, server: Arc<dyn TestedServer>, limit: Duration) -> Status {
    let started = Instant::now();
    let world = match timeout(limit, World::start(&case, &*server)).await {
        Ok(Ok(world)) => world,
        Ok(Err(WorldError::Server(ServerStartError::Skip(why)))) => return Status::Skipped(why),
        Ok(Err(error)) => return Status::Error(Failure::text(error.to_string())),
        Err(_) => return Status::Error(over(limit, "the server did not start")),
    };
    let mut vars = Vars::default();
    // `http` requests name the revision in a header.
    vars.set("revision", case.cell.revision.to_string().into());
    let mut run = Run {
        case: &case,
        world,
        vars,
        unread: Vec::new(),
        socket: None,
        reports: Reports::default(),
        at: None,
    };
    let left = limit.saturating_sub(started.elapsed());
    let mut outcome = match timeout(left, run.steps()).await {
        Ok(outcome) => outcome,
        Err(_) => Err(Failure { step: run.at.take(), ..over(limit, "the steps were not done") }),
    };
    if let Err(failure) = &mut outcome {
        failure.health = run.world.health_problem().await.map(|health| health.to_string());
    }
    match timeout(END, run.world.shut_down()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => outcome = outcome.and(Err(Failure::text(format!("at the end: {error}")))),
        Err(_) => outcome = outcome.and(Err(over(END, "the server did not end"))),
    }
    match outcome {
        Ok(()) => Status::Passed,
        Err(failure) => Status::Failed(failure),
    }
}

fn over(limit: Duration, what: &str) -> Failure {
    Failure::text(format!("{what} within the time limit of {} s", limit.as_secs()))
}

struct Run<'a> {
    case: &'a Case,
    world: World,
    vars: Vars,
    /// Connections whose answers are not read.
    unread: Vec<Unread>,
    /// The WebSocket that was opened last.
    socket: Option<JsonSocket>,
    reports: Reports,
    /// The current step.
    at: Option<(usize, u64, String)>,
}

impl Run<'_> {
    async fn steps(&mut self) -> Result<(), Failure> {
        let scenario = self.case.scenario();
        for (index, step) in scenario.steps.iter().enumerate() {
            if self.case.cell.is_in(&step.value.only) {
                self.at = Some((index + 1, step.referenced.line(), step.value.name()));
                let done = self.step(&step.value).await;
                let step = self.at.take();
                done.map_err(|failure| Failure { step, ..failure })?;
            }
        }
        let mut mismatches = Vec::new();
        for (name, expected) in &scenario.expect.upstreams {
            mismatches.extend(self.calls(name, &expected.calls).await?);
        }
        if let Some(expected) = &scenario.expect.model {
            let requests = Value::from(self.world.model_requests());
            mismatches.extend(self.context().compare("model", expected, Some(&requests)));
        }
        if let Some(expected) = &scenario.expect.artifacts {
            let found =
                artifacts::find(&self.world.agent, &self.reports).await.map_err(Failure::text)?;
            mismatches.extend(artifacts::compare(self.context(), expected, &found));
        }
        if mismatches.is_empty() {
            return Ok(());
        }
        Err(Failure {
            message: Some("after the last step".into()),
            mismatches,
            ..Failure::default()
        })
    }

    /// Compares the calls that an upstream received. A cancellation may reach it a little later
    /// than the agent.
    async fn calls(&self, name: &str, expected: &Matcher) -> Result<Vec<Mismatch>, Failure> {
        let started = Instant::now();
        loop {
            let calls = self.world.calls(name).map_err(|error| Failure::text(error.to_string()))?;
            let at = format!("upstreams/{name}/calls");
            let found = self.context().compare(&at, expected, Some(&Value::from(calls)));
            if found.is_empty() || started.elapsed() > DELIVERY {
                return Ok(found);
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Runs a step; one with `eventually` is repeated until it holds or its time is over.
    async fn step(&mut self, step: &Step) -> Result<(), Failure> {
        let started = Instant::now();
        loop {
            match self.attempt(step).await {
                Err(_) if step.eventually.is_some_and(|limit| started.elapsed() < limit.0) => {
                    tokio::time::sleep(RETRY).await;
                }
                outcome => return outcome,
            }
        }
    }

    async fn attempt(&mut self, step: &Step) -> Result<(), Failure> {
        let started = Instant::now();
        let outcome = self.act(step).await.map_err(Failure::text)?;
        let elapsed = started.elapsed();
        if let Some(capture) = outcome.get("capture") {
            self.reports.note(capture);
        }

        let mut mismatches = judge(self.context(), step, &outcome);
        if let Some(limit) = step.within.filter(|limit| elapsed > limit.0) {
            mismatches.push(Mismatch {
                at: "within".into(),
                expected: format!("at most {} ms", limit.0.as_millis()),
                actual: format!("{} ms", elapsed.as_millis()),
            });
        }
        if let Some(expected) = step.expect.as_ref().and_then(|expect| expect.artifacts.as_ref()) {
            let found =
                artifacts::find(&self.world.agent, &self.reports).await.map_err(Failure::text)?;
            mismatches.extend(artifacts::compare(self.context(), expected, &found));
        }
        if !mismatches.is_empty() {
            return Err(Failure {
                mismatches,
                actual: Some(pretty(&outcome)),
                ..Failure::default()
            });
        }
        for (name, pointer) in &step.save {
            let Some(value) = outcome.pointer(pointer) else {
                let message = format!("there is no value at {pointer} to save as `{name}`");
                return Err(Failure { actual: Some(pretty(&outcome)), ..Failure::text(message) });
            };
            self.vars.set(name.clone(), value.clone());
        }
        Ok(())
    }

    /// Carries out the action of a step. The outcome is a JSON object.
    async fn act(&mut self, step: &Step) -> Result<Value, String> {
        match step.action().ok_or("the step has no action")? {
            Action::Call { tool, with, with_json, cancel_after } => {
                let arguments = match (with, with_json) {
                    (None, None) => None,
                    (Some(_), _) => Some(agent::raw(&self.fill(with)?)?),
                    (None, Some(source)) => {
                        let folder = &self.case.loaded.folder;
                        let text = source.text(folder).map_err(|error| error.to_string())?;
                        let raw = RawValue::from_string(text);
                        Some(raw.map_err(|error| format!("`with_json` is not JSON: {error}"))?)
                    }
                };
                let options = ToolCallOptions {
                    wants_progress: step.expect.as_ref().is_some_and(|it| it.progress.is_some()),
                    cancel_after: cancel_after.map(|after| after.0),
                };
                self.world.agent.call(tool, arguments, options).await
            }
            Action::Request(request) => {
                let params = self.fill(request.params.as_ref())?;
                self.world.agent.request(&request.method, params).await
            }
            Action::Http(request) => {
                let exchange = self.http(request)?;
                let address = self
                    .world
                    .address()
                    .ok_or("a server over stdio has no HTTP; add `only: [http]` to the step")?;
                for _ in 0..request.unread.unwrap_or(0) {
                    let unread = send_unread(address, &exchange).await;
                    self.unread.push(unread.map_err(|error| error.to_string())?);
                }
                if request.unread.is_some() {
                    return Ok(json!({}));
                }
                plain_http::exchange(address, exchange).await.map_err(|error| error.to_string())
            }
            Action::Socket(wanted) => {
                let within = step.within.map_or(NOTIFICATION, |limit| limit.0);
                self.exchange_messages(wanted, within).await
            }
            Action::Upstream(event) => {
                self.world
                    .apply(event)
                    .await
                    .map_err(|error| format!("{}: {error}", event.name))?;
                Ok(json!({}))
            }
            Action::WaitFor(wait) => {
                let within = step.within.map_or(NOTIFICATION, |limit| limit.0);
                self.world.agent.notification(&wait.notification, within).await
            }
        }
    }

    /// Opens a WebSocket if the step asks for it, sends the messages and receives others.
    async fn exchange_messages(
        &mut self,
        wanted: &SocketExchange,
        within: Duration,
    ) -> Result<Value, String> {
        if let Some(path) = &wanted.open {
            let path = self.text(path)?;
            let mut protocols = Vec::new();
            for protocol in &wanted.protocols {
                protocols.push(self.text(protocol)?);
            }
            let address = self
                .world
                .address()
                .ok_or("a server over stdio has no WebSocket; add `only: [http]` to the step")?;
            let socket = JsonSocket::open(address, &path, &protocols).await;
            self.socket = Some(socket.map_err(|error| error.to_string())?);
        }
        let mut messages = Vec::new();
        for message in &wanted.send {
            messages.push(self.fill(Some(message))?);
        }
        let socket = self.socket.as_mut().ok_or("no step has opened a socket")?;
        for message in &messages {
            socket.send(message).await.map_err(|error| error.to_string())?;
        }
        socket.receive(wanted.receive, within).await.map_err(|error| error.to_string())
    }

    /// Returns the value of a template with its captures; null without a template.
    fn fill(&self, template: Option<&Template>) -> Result<Value, String> {
        let Some(template) = template else { return Ok(Value::Null) };
        let folder = &self.case.loaded.folder;
        template.fill(&self.vars, folder).map_err(|error| error.to_string())
    }

    /// Returns a text with its captures.
    fn text(&self, text: &str) -> Result<String, String> {
        self.vars.text(text).map_err(|error| error.to_string())
    }

    fn http(&self, request: &HttpRequest) -> Result<Exchange, String> {
        let folder = &self.case.loaded.folder;
        let mut headers = Vec::new();
        for (name, value) in &request.headers {
            headers.push((name.clone(), self.text(value)?));
        }
        let has_type = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        let body = match (&request.json, &request.body) {
            (Some(json), _) => {
                if !has_type {
                    headers.push(("content-type".into(), "application/json".into()));
                }
                let value = json.fill(&self.vars, folder).map_err(|error| error.to_string())?;
                value.to_string().into_bytes()
            }
            (None, Some(source)) => source.bytes(folder).map_err(|error| error.to_string())?,
            (None, None) => Vec::new(),
        };
        Ok(Exchange {
            method: request.method.clone(),
            path: self.text(&request.path)?,
            headers,
            body,
            hang_up_after: request.hang_up_after.map(|after| after.0),
        })
    }

    fn context(&self) -> Context<'_> {
        Context { vars: &self.vars, folder: &self.case.loaded.folder }
    }
}

/// Returns every difference between the expectation of a step and its outcome. A step without an
/// expectation must succeed.
fn judge(context: Context<'_>, step: &Step, outcome: &Value) -> Vec<Mismatch> {
    let nothing = Expect::default();
    let expect = step.expect.as_ref();
    let says = expect.unwrap_or(&nothing);
    let mut comparison = OutcomeComparison { context, outcome, found: Vec::new() };
    match step.action() {
        Some(Action::Call { .. } | Action::Request(_)) if says.error.is_some() => {
            comparison.member("error", says.error.as_ref());
        }
        Some(Action::Call { cancel_after: Some(_), .. }) => {
            if outcome.get("cancelled").is_none() {
                let actual = show(Some(outcome));
                let expected = "no answer before the call is cancelled".into();
                comparison.found.push(Mismatch { at: "cancelled".into(), expected, actual });
            }
        }
        Some(Action::Call { .. }) => {
            comparison.member("content", says.content.as_ref());
            comparison.member("progress", says.progress.as_ref());
            // A call without expectations matters for its effects, not for its answer.
            let absent = expect.map(|_| Matcher::absent());
            comparison.member("structured", says.structured.as_ref().or(absent.as_ref()));
            comparison.member("capture", says.capture.as_ref().or(absent.as_ref()));
            comparison.found.extend(unexpected_error(outcome));
            let is_error = outcome.get("is_error").and_then(Value::as_bool).unwrap_or(false);
            if is_error != says.is_error.unwrap_or(false) {
                comparison.found.push(Mismatch {
                    at: "is_error".into(),
                    expected: (!is_error).to_string(),
                    actual: is_error.to_string(),
                });
            }
        }
        Some(Action::Request(_)) => {
            comparison.member("result", says.result.as_ref());
            comparison.found.extend(unexpected_error(outcome));
        }
        Some(Action::Http(request)) if request.unread.is_some() => {}
        Some(Action::Http(_)) => {
            comparison.member("body", says.body.as_ref());
            comparison.member("events", says.events.as_ref());
            let status = outcome["status"].as_u64().unwrap_or_default();
            let good = match says.status {
                Some(want) => u64::from(want) == status,
                None => (200..300).contains(&status),
            };
            if !good {
                let expected = says.status.map_or("a success".into(), |status| status.to_string());
                comparison.found.push(Mismatch {
                    at: "status".into(),
                    expected,
                    actual: status.to_string(),
                });
            }
            for (name, matcher) in &says.headers {
                let at = format!("headers/{name}");
                let actual = outcome["headers"].get(name);
                comparison.found.extend(context.compare(&at, matcher, actual));
            }
        }
        Some(Action::Socket(_)) => {
            comparison.member("messages", says.messages.as_ref());
            let closed = outcome["closed"] == true;
            let want = says.closed.unwrap_or(false);
            if closed != want {
                comparison.found.push(Mismatch {
                    at: "closed".into(),
                    expected: want.to_string(),
                    actual: closed.to_string(),
                });
            }
        }
        Some(Action::WaitFor(wait)) => {
            comparison.member("params", wait.params.as_ref());
        }
        Some(Action::Upstream(_)) | None => {}
    }
    comparison.found
}

/// The differences between the outcome of a step and what is expected of it.
struct OutcomeComparison<'a> {
    context: Context<'a>,
    outcome: &'a Value,
    found: Vec<Mismatch>,
}

impl OutcomeComparison<'_> {
    /// Compares a member of the outcome, unless nothing is expected of it.
    fn member(&mut self, name: &str, matcher: Option<&Matcher>) {
        if let Some(matcher) = matcher {
            self.found.extend(self.context.compare(name, matcher, self.outcome.get(name)));
        }
    }
}

fn unexpected_error(outcome: &Value) -> Option<Mismatch> {
    let error = outcome.get("error")?;
    Some(Mismatch { at: "error".into(), expected: "(nothing)".into(), actual: show(Some(error)) })
}

/// Pretty-prints JSON, without the middle of long strings.
fn pretty(value: &Value) -> String {
    fn shorten(value: &mut Value) {
        const LONG: usize = 600;
        match value {
            Value::String(text) if text.len() > LONG => {
                let start = text.floor_char_boundary(LONG / 2);
                let end = text.ceil_char_boundary(text.len() - LONG / 4);
                *text = format!("{} … {} bytes … {}", &text[..start], text.len(), &text[end..]);
            }
            Value::Array(list) => list.iter_mut().for_each(shorten),
            Value::Object(object) => object.values_mut().for_each(shorten),
            _ => {}
        }
    }
    let mut value = value.clone();
    // The parts of a tool's result are in the outcome already.
    if let Some(object) = value.as_object_mut()
        && object.contains_key("content")
    {
        object.remove("result");
    }
    shorten(&mut value);
    serde_json::to_string_pretty(&value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn differences(step: &str, outcome: &Value) -> Vec<String> {
        let step: Step = serde_yaml::from_str(step).unwrap();
        let vars = Vars::default();
        let context = Context { vars: &vars, folder: Path::new(".") };
        judge(context, &step, outcome)
            .into_iter()
            .map(|it| format!("{}: {} | {}", it.at, it.expected, it.actual))
            .collect()
    }

    fn captured() -> Value {
        json!({
            "result": {},
            "content": [{"type": "text", "text": "hi"}],
            "capture": {"status": "processed_and_saved"},
        })
    }

    const CALL: &str = "call: x\nexpect:\n  content: [{type: text, text: hi}]\n";

    #[test]
    fn unexpected_results_of_a_call_are_shown() {
        assert_eq!(
            differences(CALL, &captured()),
            ["capture: (nothing) | {\"status\":\"processed_and_saved\"}"]
        );
        let good = format!("{CALL}  capture: {{status: processed_and_saved}}\n");
        assert_eq!(differences(&good, &captured()), [""; 0]);

        let mut doctored = captured();
        doctored["structured"] = json!(1);
        doctored["is_error"] = json!(true);
        assert_eq!(
            differences(&good, &doctored),
            ["structured: (nothing) | 1", "is_error: false | true"]
        );
    }

    #[test]
    fn a_wrong_status_of_capture_fails() {
        let step = format!("{CALL}  capture: {{status: processed}}\n");
        assert_eq!(
            differences(&step, &captured()),
            ["capture/status: \"processed\" | \"processed_and_saved\""]
        );
    }

    #[test]
    fn an_extra_item_fails() {
        let mut doctored = captured();
        doctored["content"] =
            json!([{"type": "text", "text": "hi"}, {"type": "text", "text": "ho"}]);
        let found = differences(&format!("{CALL}  capture: {{}}\n"), &doctored);
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn progress_is_compared_with_the_expectation() {
        let mut told = captured();
        told["progress"] = json!([{"progress": 1.0}]);
        let step = format!("{CALL}  capture: {{}}\n  progress: [{{progress: 1.0}}]\n");
        assert_eq!(differences(&step, &told), [""; 0]);
        told["progress"] = json!([{"progress": 2.0}]);
        assert_eq!(differences(&step, &told).len(), 1);
    }

    #[test]
    fn a_cancelled_call_has_no_answer() {
        let step = "call: x\ncancel_after: 1s\n";
        assert_eq!(differences(step, &json!({"cancelled": true})), [""; 0]);
        assert_eq!(differences(step, &captured()).len(), 1);
    }

    #[test]
    fn an_error_is_expected_or_not() {
        let error = json!({"error": {"code": -32602, "message": "no"}});
        assert_eq!(differences("call: x\nexpect: {error: {code: -32602}}\n", &error), [""; 0]);
        assert_eq!(
            differences("call: x\nexpect: {error: {code: -1}}\n", &error),
            ["error/code: -1 | -32602"]
        );
        assert!(
            differences("call: x\nexpect: {error: {code: -1}}\n", &captured())[0]
                .starts_with("error: ")
        );
        assert_eq!(differences("request: {method: a}\n", &error).len(), 1);
        assert_eq!(differences("call: x\n", &error).len(), 1);
        assert_eq!(differences("call: x\n", &captured()), [""; 0]);
    }

    fn http_step(expect: &str) -> String {
        format!("http: {{method: GET, path: /}}\nexpect: {expect}\n")
    }

    #[test]
    fn http_answers_are_judged_by_status_headers_and_body() {
        let answer =
            json!({"status": 400, "headers": {"allow": "GET"}, "body": {"success": false}});
        let good = "{status: 400, headers: {allow: GET}, body: {success: false}}";
        assert_eq!(differences(&http_step(good), &answer), [""; 0]);
        assert_eq!(differences(&http_step("{status: 200}"), &answer), ["status: 200 | 400"]);
        assert_eq!(
            differences(&http_step("{status: 400, body: {success: true}}"), &answer),
            ["body/success: true | false"]
        );
        assert_eq!(
            differences(&http_step("{status: 400, headers: {vary: x}}"), &answer),
            ["headers/vary: \"x\" | (nothing)"]
        );
        assert_eq!(
            differences("http: {method: GET, path: /}\n", &answer),
            ["status: a success | 400"]
        );
    }
}
