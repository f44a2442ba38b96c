//! The record of calls: the most recent ones, bounded in number and bytes.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json, value::RawValue};

use crate::{
    Audience, Events, Options, Outcome, Viewer,
    record::{Record, Step, StoredText, micros},
    secrets::without_secrets,
};

/// The name that the console's page gives itself as a client (`page/api.js`).
const PAGE_CLIENT: &str = "marquetry-console ";

/// The record of calls. Cheap to clone.
#[derive(Clone)]
pub struct Calls {
    inner: Arc<SharedCalls>,
}

struct SharedCalls {
    log: Mutex<CallLog>,
    events: Arc<Events>,
    max_calls: usize,
    max_bytes: usize,
}

#[derive(Default)]
struct CallLog {
    /// Each record has a separate lock, so that calls block each other only when they begin and
    /// end.
    records: VecDeque<Arc<Mutex<Record>>>,
    bytes: usize,
    /// The number of the last call.
    last: u64,
}

/// The properties of a call that are known when it begins.
#[derive(Clone, Debug)]
pub struct NewCall<'a> {
    tool: &'a str,
    arguments: Option<&'a RawValue>,
    owner: Option<String>,
    client: Option<String>,
    revision: Option<&'static str>,
    secret_names: Vec<String>,
}

impl<'a> NewCall<'a> {
    /// A call of a tool, by the name that agents use.
    #[must_use]
    pub fn new(tool: &'a str) -> Self {
        Self {
            tool,
            arguments: None,
            owner: None,
            client: None,
            revision: None,
            secret_names: Vec::new(),
        }
    }

    /// Sets the arguments. Secrets in them are never shown.
    #[must_use]
    pub fn arguments(self, arguments: Option<&'a RawValue>) -> Self {
        Self { arguments, ..self }
    }

    /// Sets the principal who calls, by its id.
    #[must_use]
    pub fn owner(self, owner: Option<String>) -> Self {
        Self { owner, ..self }
    }

    /// Sets the name and version that the client gives itself, and its revision.
    #[must_use]
    pub fn client(self, client: Option<String>, revision: &'static str) -> Self {
        Self { client, revision: Some(revision), ..self }
    }

    /// Sets the names of arguments that the tool's input schema marks as secret: see
    /// [`crate::secret_names`].
    #[must_use]
    pub fn secret_names(self, secret_names: Vec<String>) -> Self {
        Self { secret_names, ..self }
    }
}

/// A call that runs. Dropping it records that it was cancelled.
pub struct RunningCall {
    calls: Arc<SharedCalls>,
    record: Arc<Mutex<Record>>,
    id: String,
    began: Instant,
    is_over: bool,
}

impl Calls {
    pub(crate) fn new(options: &Options, events: Arc<Events>) -> Self {
        let max_calls = options.max_calls;
        let max_bytes = options.max_calls_bytes;
        Self {
            inner: Arc::new(SharedCalls { log: Mutex::default(), events, max_calls, max_bytes }),
        }
    }

    /// Records that a call begins.
    #[must_use]
    pub fn begin(&self, call: NewCall<'_>) -> RunningCall {
        let NewCall { tool, arguments, owner, client, revision, secret_names } = call;
        let inner = &self.inner;
        let mut record = Record {
            number: 0,
            counted: 0,
            owner,
            tool: shortened(tool).to_owned(),
            server: None,
            client: client.as_deref().map(|client| shortened(client).to_owned()),
            revision,
            started_ms: now_ms(),
            took: None,
            outcome: None,
            arguments: arguments
                .map_or_else(StoredText::default, |text| inner.stored_text(text.get())),
            secret_names: secret_names.into_boxed_slice(),
            upstream: None,
            model: None,
            capture: None,
            decided: None,
            kept: None,
            steps: Vec::new(),
            progress: None,
        };
        record.counted = record.cost();
        let mut log = inner.log();
        log.last += 1;
        record.number = log.last;
        inner.announce("call.started", &record);
        let id = format!("{}-{}", inner.events.run(), record.number);
        log.bytes += record.counted;
        let record = Arc::new(Mutex::new(record));
        log.records.push_back(record.clone());
        let dropped = inner.shrink(&mut log);
        drop(log);
        drop(dropped);
        RunningCall { calls: inner.clone(), record, id, began: Instant::now(), is_over: false }
    }

    /// Returns the heads of the viewer's last calls, newest first. At most `max` are returned,
    /// only those before the call `before`, and only those of the tool `tool` if it is given.
    #[must_use]
    pub fn list(
        &self,
        viewer: &Viewer,
        tool: Option<&str>,
        before: Option<&str>,
        max: usize,
    ) -> Vec<Value> {
        let run = self.inner.events.run();
        let before = before.and_then(|id| number_of(run, id)).unwrap_or(u64::MAX);
        let log = self.inner.log();
        let seen = log.records.iter().rev().map(locked).filter(|record| {
            record.number < before
                && viewer.sees(record.owner.as_deref())
                && tool.is_none_or(|tool| record.tool == tool)
        });
        seen.take(max).map(|record| record.head(run)).collect()
    }

    /// Returns one call without its answers. `None` if it is no longer stored, or if the viewer may
    /// not see it.
    #[must_use]
    pub fn get(&self, id: &str, viewer: &Viewer) -> Option<Value> {
        self.inner.with(id, viewer, |record| record.whole(self.inner.events.run()))
    }

    /// Returns the tool of a call, by the name that agents use.
    pub(crate) fn tool_of(&self, id: &str) -> Option<String> {
        let everything = Viewer::everything();
        self.inner.with(id, &everything, |record| record.tool.clone())
    }

    /// Returns the upstream's answer to a call, unchanged.
    pub(crate) fn upstream_answer(&self, id: &str, viewer: &Viewer) -> Option<Arc<str>> {
        self.inner.with(id, viewer, |record| record.upstream.as_ref()?.text.clone())?
    }

    /// Returns the upstream's answer to a call that the viewer has made with the console's page.
    /// Calls of agents, and those of other users, have none: their answers are shown without
    /// secrets.
    pub(crate) fn said_to_page(&self, id: &str, viewer: &Viewer) -> Option<Arc<str>> {
        self.inner.with(id, viewer, |record| {
            let client = record.client.as_deref().unwrap_or_default();
            let is_own = client.starts_with(PAGE_CLIENT) && record.owner == viewer.owner;
            record.upstream.as_ref().filter(|_| is_own)?.text.clone()
        })?
    }

    /// Hides the secrets in an answer of a call.
    pub(crate) fn without_secrets(&self, id: &str, viewer: &Viewer, answer: &str) -> String {
        let names = self.inner.with(id, viewer, |record| record.secret_names.clone());
        without_secrets(answer, &names.unwrap_or_default())
    }

    /// Keeps the last event of the progress of a call.
    pub(crate) fn set_progress(&self, id: &str, progress: &Value) {
        let Some(number) = number_of(self.inner.events.run(), id) else { return };
        let record = {
            let log = self.inner.log();
            let Some(at) = index_of(&log, number) else { return };
            log.records[at].clone()
        };
        locked(&record).progress = Some(progress.to_string().into());
        self.inner.recount(&record);
    }

    /// Returns the tool of a call.
    pub(crate) fn tool(&self, id: &str, viewer: &Viewer) -> Option<String> {
        self.inner.with(id, viewer, |record| record.tool.clone())
    }

    /// Returns the answer that the model got in a call.
    pub(crate) fn shown(&self, id: &str, viewer: &Viewer) -> Option<Arc<str>> {
        self.inner.with(id, viewer, |record| record.model.as_ref()?.text.clone())?
    }

    /// Returns counts of the viewer's calls that are kept: by outcome, the median and the 95th
    /// percentile of their time in microseconds, and the number of bytes that did not reach the
    /// model.
    #[must_use]
    pub fn stats(&self, viewer: &Viewer) -> Value {
        let log = self.inner.log();
        let all = log.records.iter().map(locked);
        let seen = all.filter(|record| viewer.sees(record.owner.as_deref()));
        let mut count = 0_u64;
        let mut running = 0_u64;
        let mut failed = 0_u64;
        let mut saved = 0_u64;
        let mut times = Vec::new();
        for record in seen {
            count += 1;
            match &record.outcome {
                None => running += 1,
                Some(Outcome::Ok | Outcome::InputRequired) => {}
                Some(_) => failed += 1,
            }
            times.extend(record.took.map(micros));
            if let Some(model) = &record.model {
                let sent = record.upstream.as_ref().map_or(0, |it| it.bytes as u64);
                saved += sent.saturating_sub(model.bytes as u64);
            }
        }
        times.sort_unstable();
        fn percentile(sorted: &[u64], share: usize) -> Option<&u64> {
            sorted.get((sorted.len() * share / 100).min(sorted.len().saturating_sub(1)))
        }
        json!({
            "calls": count, "running": running, "failed": failed,
            "p50_us": percentile(&times, 50), "p95_us": percentile(&times, 95), "kept_from_model_bytes": saved,
        })
    }
}

impl SharedCalls {
    fn log(&self) -> MutexGuard<'_, CallLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stored_text(&self, text: &str) -> StoredText {
        let fits = text.len() <= self.max_bytes / 8;
        StoredText { bytes: text.len(), text: fits.then(|| text.into()) }
    }

    /// Tells viewers of a call's new state.
    fn announce(&self, event: &'static str, record: &Record) {
        self.events.push(
            event,
            || Audience::Owner(record.owner.clone()),
            || record.head(self.events.run()),
        );
    }

    /// Takes out the oldest calls while there are too many. The caller drops them after it has
    /// unlocked the record.
    fn shrink(&self, log: &mut CallLog) -> Vec<Arc<Mutex<Record>>> {
        let mut dropped = Vec::new();
        while log.records.len() > self.max_calls || log.bytes > self.max_bytes {
            let Some(oldest) = log.records.pop_front() else { break };
            log.bytes -= locked(&oldest).counted;
            dropped.push(oldest);
        }
        dropped
    }

    /// Updates the total size by the texts that were added to a record since its last count, if it
    /// is still stored.
    fn recount(&self, record: &Arc<Mutex<Record>>) {
        let mut log = self.log();
        let (number, cost) = {
            let record = locked(record);
            (record.number, record.cost())
        };
        if index_of(&log, number).is_none() {
            return;
        }
        let before = std::mem::replace(&mut locked(record).counted, cost);
        log.bytes = log.bytes + cost - before;
        let dropped = self.shrink(&mut log);
        drop(log);
        drop(dropped);
    }

    /// Reads a record, if the viewer may see it.
    fn with<T>(&self, id: &str, viewer: &Viewer, read: impl FnOnce(&Record) -> T) -> Option<T> {
        let number = number_of(self.events.run(), id)?;
        let log = self.log();
        let record = locked(&log.records[index_of(&log, number)?]);
        viewer.sees(record.owner.as_deref()).then(|| read(&record))
    }
}

fn locked(record: &Arc<Mutex<Record>>) -> MutexGuard<'_, Record> {
    record.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the index of a record. Records are in the order of their numbers, without gaps.
fn index_of(log: &CallLog, number: u64) -> Option<usize> {
    let first = locked(log.records.front()?).number;
    let index = usize::try_from(number.checked_sub(first)?).ok()?;
    (index < log.records.len()).then_some(index)
}

fn number_of(run: &str, id: &str) -> Option<u64> {
    id.strip_prefix(run)?.strip_prefix('-')?.parse().ok()
}

impl RunningCall {
    /// Returns the id of the record, which links and the response header `Marquetry-Call` name.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Records that the call reached a step. The first 64 are kept.
    pub fn step(&self, name: &'static str) {
        const MAX_STEPS: usize = 64;
        let at_us = micros(self.began.elapsed());
        let mut record = locked(&self.record);
        if record.steps.len() < MAX_STEPS {
            record.steps.push(Step { name, at_us });
        }
    }

    /// Records which upstream has the tool.
    pub fn sent_to(&self, server: &str) {
        locked(&self.record).server = Some(shortened(server).to_owned());
    }

    /// Records the result as the upstream wrote it.
    pub fn upstream_said(&self, result: &RawValue) {
        let said = self.calls.stored_text(result.get());
        locked(&self.record).upstream = Some(said);
        self.calls.recount(&self.record);
        self.step("answered");
    }

    /// Records what was decided about the answer: the report of the capture as JSON, and the
    /// settings that decided, each an object with `setting`, `value` and `effect`.
    pub fn decided(&self, capture: Option<&str>, settings: Vec<Value>) {
        let capture = capture.map(|report| self.calls.stored_text(report));
        let settings = Value::Array(settings).to_string();
        {
            let mut record = locked(&self.record);
            record.capture = capture;
            record.decided = Some(settings.into());
        }
        self.calls.recount(&self.record);
    }

    /// Adds bytes and tokens of the answer that the model does not get.
    pub fn kept_from_model(&self, bytes: u64, tokens: u64) {
        let mut record = locked(&self.record);
        let (all_bytes, all_tokens) = record.kept.unwrap_or_default();
        record.kept = Some((all_bytes + bytes, all_tokens + tokens));
    }

    /// Tells pages that the call has saved an artifact. Does nothing while no page listens.
    pub fn saved(&self, name: &str, version: u64) {
        self.calls.events.push(
            "artifact",
            || Audience::Owner(locked(&self.record).owner.clone()),
            || json!({"call": self.id, "name": name, "version": version}),
        );
    }

    /// Records the result that the agent gets, and ends the call. For [`Outcome::Ok`], the result
    /// itself decides the outcome.
    pub fn end(mut self, outcome: Outcome, result: Option<&RawValue>) {
        let outcome = match (outcome, result) {
            (Outcome::Ok, Some(result)) => Outcome::of_result(result),
            (outcome, _) => outcome,
        };
        self.finish(outcome, result);
    }

    fn finish(&mut self, mut outcome: Outcome, result: Option<&RawValue>) {
        outcome.shorten();
        self.is_over = true;
        let took = self.began.elapsed();
        let mut record = locked(&self.record);
        if let Some(result) = result {
            let said = record.upstream.as_ref();
            let model = match said.filter(|said| said.text.as_deref() == Some(result.get())) {
                Some(said) => said.clone(),
                None => self.calls.stored_text(result.get()),
            };
            record.model = Some(model);
        }
        record.took = Some(took);
        record.outcome = Some(outcome);
        self.calls.announce("call.ended", &record);
        drop(record);
        self.calls.recount(&self.record);
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        if !self.is_over {
            self.finish(Outcome::Cancelled { reason: None }, None);
        }
    }
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Shortens a name from a client to the length that lists show.
pub(crate) fn shortened(text: &str) -> &str {
    const MAX_TEXT_BYTES: usize = 256;
    &text[..text.floor_char_boundary(MAX_TEXT_BYTES)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::value::to_raw_value;

    fn calls(max_calls: usize, max_calls_bytes: usize) -> Calls {
        let options = Options { max_calls, max_calls_bytes, ..Options::default() };
        Calls::new(&options, Arc::new(Events::new(&options)))
    }

    fn text(bytes: usize) -> Box<RawValue> {
        to_raw_value(&"x".repeat(bytes - 2)).unwrap()
    }

    fn end(calls: &Calls, tool: &str, owner: Option<&str>, bytes: usize) -> String {
        let call = calls.begin(NewCall::new(tool).owner(owner.map(str::to_owned)));
        let id = call.id().to_owned();
        call.upstream_said(&text(bytes));
        call.end(Outcome::Ok, Some(&text(bytes)));
        id
    }

    #[test]
    fn the_oldest_calls_are_forgotten_by_number_and_by_bytes() {
        let by_number = calls(3, 1 << 20);
        let ids: Vec<_> = (0..5).map(|_| end(&by_number, "t", None, 10)).collect();
        let admin = Viewer::everything();
        assert_eq!(by_number.list(&admin, None, None, 10).len(), 3);
        assert!(by_number.get(&ids[1], &admin).is_none());
        assert!(by_number.get(&ids[2], &admin).is_some());

        let by_bytes = calls(1_000, 10_000);
        for _ in 0..50 {
            end(&by_bytes, "t", None, 1_000);
        }
        let log = by_bytes.inner.log();
        let counted: usize = log.records.iter().map(|record| locked(record).cost()).sum();
        assert_eq!(log.bytes, counted);
        assert!(log.bytes <= 10_000, "{}", log.bytes);
        assert!((4..=9).contains(&log.records.len()), "{}", log.records.len());
    }

    #[test]
    fn of_an_answer_that_is_too_large_only_the_size_is_kept() {
        let calls = calls(10, 80_000);
        let id = end(&calls, "t", None, 10_001);
        let admin = Viewer::everything();
        let call = calls.get(&id, &admin).unwrap();
        assert_eq!(call["upstream"], json!({"bytes": 10_001, "kept": false}));
        assert!(calls.upstream_answer(&id, &admin).is_none());
        let id = end(&calls, "t", None, 10_000);
        assert_eq!(calls.upstream_answer(&id, &admin).unwrap().len(), 10_000);
        assert_eq!(calls.get(&id, &admin).unwrap()["same"], true);

        let call = calls.begin(NewCall::new("t"));
        call.decided(Some("{\"message\":\"saved\"}"), vec![json!({"setting": "a"})]);
        let shown = calls.get(call.id(), &admin).unwrap();
        assert_eq!(shown["capture"]["message"], "saved");
        assert_eq!(shown["decided"], json!([{"setting": "a"}]));
        call.decided(Some(&"x".repeat(10_001)), Vec::new());
        let shown = calls.get(call.id(), &admin).unwrap();
        assert_eq!(shown["capture"]["message"], "The report has 10001 bytes, too many to be kept.");
    }

    #[test]
    fn only_the_page_that_made_a_call_gets_its_answer_with_secrets() {
        fn made_by(calls: &Calls, client: &str, owner: Option<&str>) -> String {
            let call = NewCall::new("t")
                .owner(owner.map(str::to_owned))
                .client(Some(client.to_owned()), "2026-07-28");
            let call = calls.begin(call);
            call.upstream_said(&text(10));
            call.id().to_owned()
        }
        let calls = calls(10, 1 << 20);
        let annas = made_by(&calls, "marquetry-console 0.1.0", Some("anna"));
        let of_agent = made_by(&calls, "agent 1", Some("anna"));
        let of_anyone = made_by(&calls, "marquetry-console 0.1.0", None);
        let anna = Viewer::of("anna", false);
        let admin = Viewer::of("root", true);
        assert!(calls.said_to_page(&annas, &anna).is_some());
        assert!(calls.said_to_page(&of_agent, &anna).is_none());
        for id in [&annas, &of_agent, &of_anyone] {
            assert!(
                calls.upstream_answer(id, &admin).is_some()
                    && calls.said_to_page(id, &admin).is_none()
            );
        }
        assert!(calls.said_to_page(&of_anyone, &Viewer::everything()).is_some());
    }

    #[test]
    fn each_viewer_sees_their_own_calls_and_an_administrator_all() {
        let calls = calls(10, 1 << 20);
        let annas = end(&calls, "t", Some("anna"), 10);
        let berts = end(&calls, "t", Some("bert"), 10);
        let anonymous = end(&calls, "t", None, 10);
        let anna = Viewer::of("anna", false);
        assert_eq!(calls.list(&anna, None, None, 10).len(), 1);
        assert!(calls.get(&annas, &anna).is_some());
        for other in [&berts, &anonymous] {
            assert!(calls.get(other, &anna).is_none());
            assert!(
                calls.upstream_answer(other, &anna).is_none()
                    && calls.shown(other, &anna).is_none()
            );
        }
        assert_eq!(calls.stats(&anna)["calls"], 1);
        assert_eq!(calls.list(&Viewer::of("root", true), None, None, 10).len(), 3);
        let before = calls.list(&Viewer::everything(), None, Some(&berts), 10);
        assert_eq!(before.len(), 1, "those before the second one");
    }

    #[test]
    fn a_dropped_call_was_cancelled_and_a_failed_one_says_so() {
        let calls = calls(10, 1 << 20);
        let admin = Viewer::everything();
        let dropped = calls.begin(NewCall::new("t")).id().to_owned();
        let dropped = calls.get(&dropped, &admin).unwrap();
        assert_eq!((&dropped["outcome"], &dropped["problem"]), (&json!("cancelled"), &json!(null)));
        let cancelled = calls.begin(NewCall::new("t"));
        let id = cancelled.id().to_owned();
        cancelled.end(Outcome::Cancelled { reason: Some("Stop <b>".into()) }, None);
        let cancelled = calls.get(&id, &admin).unwrap();
        assert_eq!(cancelled["outcome"], "cancelled");
        assert_eq!(cancelled["problem"], json!({"message": "Stop <b>"}), "in the agent's words");
        let failed = calls.begin(NewCall::new("t"));
        let id = failed.id().to_owned();
        failed.end(Outcome::Ok, Some(&to_raw_value(&json!({"isError": true})).unwrap()));
        assert_eq!(calls.get(&id, &admin).unwrap()["outcome"], "tool_failed");
        let refused = calls.begin(NewCall::new("t"));
        let id = refused.id().to_owned();
        refused.end(Outcome::RpcError { code: -32602, message: "no".into() }, None);
        assert_eq!(calls.get(&id, &admin).unwrap()["problem"]["code"], -32602);
        assert_eq!(calls.stats(&admin)["failed"], 4);
    }

    #[test]
    fn a_long_error_is_kept_in_part() {
        let calls = calls(10, 1 << 20);
        let failed = calls.begin(NewCall::new("t"));
        let id = failed.id().to_owned();
        failed.end(Outcome::GatewayError { message: "ä".repeat(1 << 20) }, None);
        let call = calls.get(&id, &Viewer::everything()).unwrap();
        let message = call["problem"]["message"].as_str().unwrap();
        assert_eq!(message, "ä".repeat(2 << 10) + "…");
        let cancelled = calls.begin(NewCall::new("t"));
        let id = cancelled.id().to_owned();
        cancelled.end(Outcome::Cancelled { reason: Some("ä".repeat(1 << 20)) }, None);
        let call = calls.get(&id, &Viewer::everything()).unwrap();
        assert_eq!(call["problem"]["message"].as_str().unwrap(), "ä".repeat(2 << 10) + "…");
    }
}
