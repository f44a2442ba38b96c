//! The checks of the fuzz targets in `fuzz/`, one function for each. Compiled only for them, for
//! the properties below and for the test that replays their corpus.

use std::{collections::BTreeMap, time::Duration};

use marquetry_protocol::{Message, RequestId, RpcError, types::Tool};
use serde_json::{Value, json};

use crate::{
    host::{
        Bridge, BridgeOptions, Direction, Effect, Event, Lists, Phase, RequestToken, Sandbox,
        SandboxOptions, repair,
    },
    types::{DisplayMode, HostCapabilities, HostContext, UiResourceMeta, method},
};

/// Checks the properties of one input.
pub type Target = fn(&[u8]);

/// All targets by the name of their corpus.
pub const TARGETS: &[(&str, Target)] = &[("view", view)];

/// The input is metadata, the beginning of arguments, a message, and a sequence of messages and
/// events.
pub fn view(data: &[u8]) {
    let text = &*String::from_utf8_lossy(data);
    let _ = repair(text);
    if let Ok(ui) = serde_json::from_str::<Value>(text) {
        let (meta, _) = UiResourceMeta::parse(&ui);
        let (sandbox, _) = Sandbox::new(&meta, &SandboxOptions::default());
        assert_eq!(sandbox.policy().matches(';').count(), 12, "{}", sandbox.policy());
        assert!(!sandbox.policy().contains(['\r', '\n', ',', '"']), "{}", sandbox.policy());
    }
    check(&[Step::Text(text.to_owned())]);
    check(&sequence(data));
}

/// One input of a bridge.
#[derive(Clone, Debug)]
enum Step {
    /// The View sends this.
    Text(String),
    /// Something happens on the host's side.
    Event(Event),
    /// The host answers the oldest request that it was given.
    Answer(bool),
    /// The View answers the oldest request that it was sent.
    Reply(bool),
    /// Time passes, and a tick follows.
    Pass(Duration),
}

/// The outcome of a sequence.
#[derive(Debug, Default, PartialEq)]
struct Counts {
    inputs: usize,
    ends: usize,
    answers: usize,
    removals: usize,
}

/// Converts bytes to steps. Most steps are valid, so that sequences run long.
fn sequence(bytes: &[u8]) -> Vec<Step> {
    bytes.iter().enumerate().map(|(number, &byte)| step(number, byte)).collect()
}

/// Returns the step of a byte. `number` is its position, and the id of its request.
fn step(number: usize, byte: u8) -> Step {
    match byte % 48 {
        0..4 => notification(method::SANDBOX_PROXY_READY, json!({})),
        4..7 => request(number, method::INITIALIZE, initialize_params(json!(["inline"]))),
        7 => request(number, method::INITIALIZE, initialize_params(Value::Null)),
        8..12 => notification(method::INITIALIZED, json!({})),
        12 => request(number, method::PING, json!({})),
        13 => request(number, method::OPEN_LINK, json!({ "url": "https://a" })),
        14 => request(number, method::OPEN_LINK, json!({ "url": 7 })),
        15 => request(
            number,
            method::TOOLS_CALL,
            json!({ "name": "a", "_meta": { "progressToken": 0 } }),
        ),
        16 => request(number, method::TOOLS_CALL, json!({ "name": "b" })),
        17 => request(number, method::TOOLS_LIST, json!({})),
        18 => request(number, method::RESOURCES_READ, json!({ "uri": "ui://a" })),
        19 => request(number, method::REQUEST_DISPLAY_MODE, json!({ "mode": "fullscreen" })),
        20 => request(
            number,
            method::MESSAGE,
            json!({ "role": "user", "content": [{ "type": "text", "text": "x" }] }),
        ),
        21 => request(
            number,
            method::UPDATE_MODEL_CONTEXT,
            json!({ "structuredContent": { "p": number } }),
        ),
        22 => request(number, method::DOWNLOAD_FILE, json!({ "contents": [] })),
        23 => request(number, method::SAMPLING, json!({ "messages": [] })),
        24 => request(number, "x/unknown", json!({})),
        25 => notification(method::SIZE_CHANGED, json!({ "height": number })),
        26 => notification(method::REQUEST_TEARDOWN, json!({})),
        27 => notification(method::CANCELLED, json!({ "requestId": number / 2 })),
        28 => notification(method::TOOLS_LIST_CHANGED, json!({})),
        29 => notification(method::LOG_MESSAGE, json!({ "level": "info", "data": 1 })),
        30 => notification("ui/notifications/sandbox-x", json!({})),
        31 => Step::Text("{".to_owned()),
        32 => Step::Event(Event::PartialInput("{\"a\": [".to_owned())),
        33 => Step::Event(Event::Input(Default::default())),
        34 => Step::Event(Event::Result(json!({ "content": [] }))),
        35 => Step::Event(Event::Cancelled(None)),
        36 => {
            let theme = if number.is_multiple_of(2) { "dark" } else { "light" };
            let context: Option<HostContext> =
                serde_json::from_value(json!({ "theme": theme })).ok();
            Step::Event(Event::Context(Box::new(context.unwrap_or_default())))
        }
        37 => Step::Event(Event::DisplayMode(DisplayMode::Fullscreen)),
        38 => Step::Event(Event::ServerTools(tools())),
        39 => Step::Event(Event::ListChanged(Lists::Prompts)),
        40 => Step::Event(Event::CallAppTool {
            call: number as u64,
            name: "t".into(),
            arguments: Default::default(),
        }),
        41 => Step::Event(Event::Ping),
        42 => Step::Event(Event::Teardown { reason: String::new() }),
        43 => Step::Event(Event::TooLong { id: Some((number as u64).into()), bytes: 1 << 30 }),
        44 => Step::Answer(byte < 100),
        45 => Step::Reply(byte < 100),
        46 => Step::Pass(Duration::from_millis(u64::from(byte) * 10)),
        _ => Step::Event(Event::Progress {
            token: RequestToken::from_number(number as u64 / 4),
            params: Default::default(),
        }),
    }
}

fn request(number: usize, method: &str, params: Value) -> Step {
    let message = json!({ "jsonrpc": "2.0", "id": number, "method": method, "params": params });
    Step::Text(message.to_string())
}

fn notification(method: &str, params: Value) -> Step {
    Step::Text(json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string())
}

fn initialize_params(modes: Value) -> Value {
    json!({
        "appInfo": { "name": "v", "version": "1" },
        "appCapabilities": { "tools": {}, "availableDisplayModes": modes },
        "protocolVersion": "2026-01-26",
    })
}

fn tools() -> Vec<Tool> {
    let tools = json!([
        { "name": "a", "inputSchema": {} },
        { "name": "b", "inputSchema": {}, "_meta": { "ui": { "visibility": [] } } },
    ]);
    serde_json::from_value(tools).unwrap_or_default()
}

fn options() -> BridgeOptions {
    let capabilities: Option<HostCapabilities> = serde_json::from_value(json!({
        "openLinks": {}, "downloadFile": {}, "logging": {}, "serverTools": { "listChanged": true },
        "serverResources": { "listChanged": true }, "updateModelContext": { "structuredContent": {} },
        "message": { "text": {} }, "sampling": {},
    }))
    .ok();
    let (sandbox, _) = Sandbox::new(&UiResourceMeta::default(), &SandboxOptions::default());
    BridgeOptions {
        capabilities: capabilities.unwrap_or_default(),
        context: HostContext {
            available_display_modes: Some(DisplayMode::ALL.to_owned()),
            ..HostContext::default()
        },
        server_tools: tools(),
        sandbox: Some(sandbox.resource("html")),
        ..BridgeOptions::default()
    }
}

/// Checks the invariants.
fn check(steps: &[Step]) -> Counts {
    let mut checker = Checker {
        bridge: Bridge::new(options()),
        now: Duration::ZERO,
        seen: Counts::default(),
        asked: BTreeMap::new(),
        for_host: Vec::new(),
        for_view: Vec::new(),
        has_partial: false,
    };
    for step in steps {
        checker.step(step);
    }
    while !checker.for_host.is_empty() {
        checker.step(&Step::Answer(true));
    }
    if checker.seen.removals == 0 {
        let open: Vec<_> = checker.asked.iter().filter(|(_, it)| **it == Asked::Open).collect();
        assert!(open.is_empty(), "without an answer: {open:?}");
    }
    checker.seen
}

struct Checker {
    bridge: Bridge,
    now: Duration,
    seen: Counts,
    /// The View's requests by id.
    asked: BTreeMap<String, Asked>,
    for_host: Vec<RequestToken>,
    for_view: Vec<Value>,
    has_partial: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Asked {
    Open,
    Answered,
    /// Cancelled by the View, or an id that was used again.
    Any,
}

impl Checker {
    fn step(&mut self, step: &Step) {
        let effects = match step {
            Step::Text(text) => return self.send(text),
            Step::Event(event) => {
                if let Event::TooLong { id: Some(id), .. } = event {
                    self.ask(id);
                }
                self.bridge.handle(self.now, event.clone())
            }
            Step::Answer(is_good) => {
                if self.for_host.is_empty() {
                    return;
                }
                let token = self.for_host.remove(0);
                let good = json!({ "mode": "fullscreen", "content": [] });
                let answer = if *is_good { Ok(good) } else { Err(RpcError::internal("x")) };
                self.bridge.handle(self.now, Event::Answer { token, answer })
            }
            Step::Reply(is_good) => {
                if self.for_view.is_empty() {
                    return;
                }
                let id = self.for_view.remove(0);
                let tools = json!({ "tools": [{ "name": "t", "inputSchema": {} }], "content": [] });
                let reply = if *is_good {
                    json!({ "jsonrpc": "2.0", "id": id, "result": tools })
                } else {
                    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": 1, "message": "m" } })
                };
                return self.send(&reply.to_string());
            }
            Step::Pass(time) => {
                self.now += *time;
                self.bridge.handle(self.now, Event::Tick)
            }
        };
        self.look_at(&effects);
    }

    fn ask(&mut self, id: &RequestId) {
        let was_open = self.bridge.phase() != Phase::Closed;
        let asked = self.asked.entry(id.to_string());
        asked.and_modify(|it| *it = Asked::Any).or_insert(if was_open {
            Asked::Open
        } else {
            Asked::Any
        });
    }

    fn send(&mut self, text: &str) {
        let was_open = self.bridge.phase() != Phase::Closed;
        match Message::parse(text.as_bytes(), 100) {
            Ok(Message::Request(request)) => self.ask(&request.id),
            Ok(Message::Notification(note)) if note.method == method::CANCELLED => {
                let params =
                    note.params.and_then(|it| serde_json::from_str::<Value>(it.get()).ok());
                let id = params.and_then(|it| serde_json::from_value(it["requestId"].clone()).ok());
                if let Some(asked) =
                    id.and_then(|id: RequestId| self.asked.get_mut(&id.to_string()))
                    && *asked == Asked::Open
                {
                    *asked = Asked::Any;
                }
            }
            _ => {}
        }
        let effects = self.bridge.receive(self.now, text);
        fn is_received(effect: &Effect) -> bool {
            matches!(effect, Effect::Audit(record)
                if matches!(record.direction, Direction::FromView | Direction::FromSandbox))
        }
        let records = effects.iter().filter(|it| is_received(it)).count();
        assert_eq!(records, usize::from(was_open), "one record of {text}: {effects:?}");
        let is_first = effects.first().is_none_or(is_received);
        assert!(is_first, "the record of {text} comes before its effects: {effects:?}");
        self.look_at(&effects);
    }

    fn look_at(&mut self, effects: &[Effect]) {
        let mut recorded = 0_usize;
        for effect in effects {
            let is_closed = self.seen.removals > 0;
            assert!(!is_closed || matches!(effect, Effect::AppAnswer { .. }), "{effect:?}");
            match effect {
                Effect::Audit(record) if record.direction == Direction::ToView => recorded += 1,
                Effect::Send(text) => {
                    recorded = recorded.checked_sub(1).expect("a record of each message");
                    self.sent(&serde_json::from_str(text).expect("JSON"));
                }
                Effect::Request { token, .. } => self.for_host.push(*token),
                Effect::Cancel { token } => self.for_host.retain(|it| it != token),
                Effect::Remove(_) => self.seen.removals += 1,
                _ => {}
            }
        }
        assert_eq!(recorded, 0);
        assert!(self.seen.removals <= 1);
        assert_eq!(self.seen.removals == 1, self.bridge.phase() == Phase::Closed);
    }

    fn sent(&mut self, message: &Value) {
        assert_eq!(message["jsonrpc"], "2.0");
        let Some(name) = message.get("method").and_then(Value::as_str) else {
            let id: RequestId = serde_json::from_value(message["id"].clone()).expect("an id");
            assert!(message.get("result").is_some() != message.get("error").is_some());
            self.seen.answers += 1;
            if let Some(asked) = self.asked.get_mut(&id.to_string()) {
                assert_ne!(*asked, Asked::Answered, "a second answer to {id}");
                if *asked == Asked::Open {
                    *asked = Asked::Answered;
                }
            }
            return;
        };
        let phase = self.bridge.phase();
        let is_late = matches!(phase, Phase::Ready | Phase::TearingDown | Phase::Closed);
        assert!(is_late && self.bridge.app_info().is_some(), "{name} in phase {phase:?}");
        if let Some(id) = message.get("id") {
            self.for_view.push(id.clone());
        }
        match name {
            method::TOOL_INPUT => self.seen.inputs += 1,
            method::TOOL_INPUT_PARTIAL => {
                self.has_partial = true;
                assert_eq!(self.seen.inputs, 0, "partial input after the input");
            }
            method::TOOL_RESULT => {
                self.seen.ends += 1;
                assert_eq!(self.seen.inputs, 1, "a result before the input");
            }
            method::TOOL_CANCELLED => self.seen.ends += 1,
            _ => {}
        }
        assert!(self.seen.inputs <= 1 && self.seen.ends <= 1, "{:?}", self.seen);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

        #[test]
        fn the_rules_hold_for_any_sequence(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            check(&sequence(&bytes));
        }

        #[test]
        fn the_rules_hold_after_a_good_start(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            // Steps that close the View early are left out.
            let rest = bytes.into_iter().filter(|it| !matches!(it % 48, 0..4 | 26 | 30 | 42));
            check(&sequence(&[0, 4, 8].into_iter().chain(rest).collect::<Vec<_>>()));
        }

        #[test]
        fn any_text_is_survived(texts in prop::collection::vec(".{0,60}", 0..20)) {
            check(&texts.into_iter().map(Step::Text).collect::<Vec<_>>());
        }

        #[test]
        fn any_message_is_survived(
            texts in prop::collection::vec(
                r#"\{"jsonrpc":"2.0","id":[0-9]?,"method":"(ping|ui/initialize|tools/call|ui/message)","params":[{}\[\]a-z":,]{0,9}\}"#,
                0..20,
            )
        ) {
            check(&texts.into_iter().map(Step::Text).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_life_from_start_to_end_is_seen_whole() {
        let mut steps = sequence(&[0, 4, 33, 34, 8, 12, 13]);
        steps.push(Step::Answer(true));
        steps.extend(sequence(&[42]));
        steps.push(Step::Pass(Duration::from_secs(40)));
        let seen = check(&steps);
        assert_eq!(seen, Counts { inputs: 1, ends: 1, answers: 3, removals: 1 });
    }

    /// Replays inputs that once failed, with any compiler.
    #[test]
    fn the_corpus_is_replayed() {
        test_corpus::replay(TARGETS);
    }
}
