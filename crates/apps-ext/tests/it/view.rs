//! A View and its host on one thread, for tests.

use std::time::Duration;

use marquetry_apps_ext::{
    host::{AuditRecord, Bridge, BridgeOptions, Effect, Event, HostRequest, RequestToken, Verdict},
    types::{HostCapabilities, HostContext},
};
use marquetry_protocol::{RpcError, types::Tool};
use serde_json::{Value, json};

/// A bridge with the messages and effects that came out of it.
pub(crate) struct View {
    pub(crate) bridge: Bridge,
    pub(crate) now: Duration,
    sent: Vec<Value>,
    effects: Vec<Effect>,
    audit: Vec<AuditRecord>,
    next_id: u64,
}

/// A host that does all that it can.
pub(crate) fn options() -> BridgeOptions {
    let mut options = BridgeOptions::default();
    options.capabilities = capabilities(json!({
        "openLinks": {}, "downloadFile": {}, "logging": {},
        "serverTools": { "listChanged": true }, "serverResources": { "listChanged": true },
        "updateModelContext": { "text": {}, "structuredContent": {} },
        "message": { "text": {}, "image": {} }, "sampling": {},
    }));
    options.context = context(json!({
        "theme": "light", "availableDisplayModes": ["inline", "fullscreen"],
        "containerDimensions": { "width": 500, "maxHeight": 600 },
    }));
    options.server_tools = vec![
        tool("both", json!(["model", "app"])),
        tool("app", json!(["app"])),
        tool("model", json!(["model"])),
        tool("default", Value::Null),
    ];
    options
}

pub(crate) fn tool(name: &str, visibility: Value) -> Tool {
    let tool =
        json!({ "name": name, "inputSchema": {}, "_meta": { "ui": { "visibility": visibility } } });
    serde_json::from_value(tool).unwrap()
}

pub(crate) fn capabilities(value: Value) -> HostCapabilities {
    serde_json::from_value(value).unwrap()
}

pub(crate) fn context(value: Value) -> HostContext {
    serde_json::from_value(value).unwrap()
}

impl View {
    pub(crate) fn new(options: BridgeOptions) -> Self {
        Self {
            bridge: Bridge::new(options),
            now: Duration::ZERO,
            sent: Vec::new(),
            effects: Vec::new(),
            audit: Vec::new(),
            next_id: 0,
        }
    }

    /// A View that has sent `ui/notifications/initialized`, and whose first messages were taken.
    pub(crate) fn ready(options: BridgeOptions, app_capabilities: Value) -> Self {
        let mut view = Self::new(options);
        view.initialize(app_capabilities);
        view.notify("ui/notifications/initialized", json!({}));
        view.sent();
        view
    }

    pub(crate) fn initialize(&mut self, app_capabilities: Value) -> Value {
        let params = json!({
            "appInfo": { "name": "v", "version": "1" },
            "appCapabilities": app_capabilities,
            "protocolVersion": "2026-01-26",
        });
        self.call("ui/initialize", params)
    }

    pub(crate) fn receive(&mut self, message: &Value) {
        self.receive_text(&message.to_string());
    }

    pub(crate) fn receive_text(&mut self, text: &str) {
        let effects = self.bridge.receive(self.now, text);
        self.take(effects);
    }

    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        self.receive(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Sends a request, and returns its id.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.receive(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// Sends a request that is answered at once, and returns its result or error.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params);
        self.answer_of(id).unwrap_or_else(|| panic!("no answer to {method}"))
    }

    /// Sends a request that the host answers in this way.
    #[track_caller]
    pub(crate) fn call_answered(
        &mut self,
        method: &str,
        params: Value,
        answer: Result<Value, RpcError>,
    ) -> (HostRequest, Value) {
        let id = self.request(method, params);
        let (token, request) = self.host_request().expect("a request to the host");
        assert_eq!(self.answer_of(id), None, "{method} is answered by the host");
        self.handle(Event::Answer { token, answer });
        let answer = self.answer_of(id).expect("the host's answer");
        (request, answer)
    }

    pub(crate) fn handle(&mut self, event: Event) {
        let effects = self.bridge.handle(self.now, event);
        self.take(effects);
    }

    fn take(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Send(text) => self.sent.push(serde_json::from_str(&text).unwrap()),
                Effect::Audit(record) => self.audit.push(record),
                other => self.effects.push(other),
            }
        }
    }

    /// Takes the messages to the View.
    pub(crate) fn sent(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.sent)
    }

    /// Takes the methods of the messages to the View; `-` is an answer.
    pub(crate) fn methods(&mut self) -> Vec<String> {
        let name = |it: &Value| it["method"].as_str().map_or("-".to_owned(), ToOwned::to_owned);
        self.sent().iter().map(name).collect()
    }

    /// Takes the effects that are neither messages nor records.
    pub(crate) fn effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    pub(crate) fn audit(&self) -> &[AuditRecord] {
        &self.audit
    }

    pub(crate) fn last_verdict(&self) -> &Verdict {
        let from_view = self.audit.iter().rev().find(|it| it.method.is_some() || it.id.is_none());
        &from_view.expect("a record").verdict
    }

    fn host_request(&mut self) -> Option<(RequestToken, HostRequest)> {
        let is_request = |it: &Effect| matches!(it, Effect::Request { .. });
        let index = self.effects.iter().position(is_request)?;
        match self.effects.remove(index) {
            Effect::Request { token, request } => Some((token, request)),
            _ => None,
        }
    }

    fn answer_of(&mut self, id: u64) -> Option<Value> {
        let is_answer = |it: &Value| it["id"] == id && it.get("method").is_none();
        let place = self.sent.iter().position(is_answer)?;
        let mut answer = self.sent.remove(place);
        let member = if answer.get("error").is_some() { "error" } else { "result" };
        Some(answer[member].take())
    }
}
