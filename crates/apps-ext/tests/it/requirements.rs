//! The requirements of a host, one test for each. The names begin with the ids of our list of
//! requirements; the ids in the comments are those of the official catalogue for hosts.

use std::time::Duration;

use marquetry_apps_ext::{
    host::{
        AppCallError, Direction, Effect, Event, HostRequest, Lists, Phase, RemoveReason, Size,
        Verdict, model_tools,
    },
    types::{DisplayMode, UiResourceMeta, client_settings, declare_client, is_ui_enabled},
};
use marquetry_protocol::{RpcError, types::ClientCapabilities};
use serde_json::{Value, json};

use crate::view::{View, capabilities, context, options, tool};

const INITIALIZED: &str = "ui/notifications/initialized";

fn object(value: Value) -> serde_json::Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn ready() -> View {
    View::ready(options(), json!({}))
}

/// `resources/read-referenced`, `resources/prefetch`: the host reads a View by `resources/read`;
/// here the View's own reads go to its server alone.
#[test]
fn h05_resources_are_read_at_the_views_server() {
    let mut view = ready();
    let (request, answer) = view.call_answered(
        "resources/read",
        json!({ "uri": "ui://a", "_meta": { "x": 1 } }),
        Ok(json!({ "contents": [] })),
    );
    let params = object(json!({ "uri": "ui://a" }));
    assert_eq!(request, HostRequest::Forward { method: "resources/read", params });
    assert_eq!(answer, json!({ "contents": [] }));
    assert_eq!(view.call("resources/read", json!({ "uri": 7 }))["code"], -32602);
}

/// `visibility/app-tool-hidden`
#[test]
fn h06_tools_for_apps_alone_are_hidden_from_the_model() {
    let tools = options().server_tools;
    let names: Vec<_> = model_tools(&tools).map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["both", "model", "default"]);
}

/// `visibility/app-tool-call-guard`
#[test]
fn h07_an_app_calls_only_tools_for_apps() {
    let mut view = ready();
    for name in ["both", "app", "default"] {
        let (request, _) = view.call_answered("tools/call", json!({ "name": name }), Ok(json!({})));
        assert!(matches!(request, HostRequest::CallTool { name: called, .. } if called == name));
    }
    let error = view.call("tools/call", json!({ "name": "model" }));
    assert_eq!(error, json!({ "code": -32000, "message": "Views may not call the tool 'model'" }));
    assert_eq!(view.effects(), []);
    let listed = view.call("tools/list", json!({}));
    let names: Vec<_> = listed["tools"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["both", "app", "default"]);
}

#[test]
fn h08_a_tool_of_another_server_is_never_called() {
    let mut view = ready();
    let error = view.call("tools/call", json!({ "name": "other_server__delete" }));
    assert_eq!(error["code"], -32000);
    view.handle(Event::ServerTools(vec![tool("new", Value::Null)]));
    assert_eq!(view.methods(), ["notifications/tools/list_changed"]);
    assert_eq!(view.call("tools/call", json!({ "name": "both" }))["code"], -32000);
    assert_eq!(view.effects(), []);
}

/// `context/initialize-hostcontext`, `lifecycle/initialize-capabilities`
#[test]
fn h09_the_answer_to_initialize_has_capabilities_and_context() {
    let mut view = View::new(options());
    let answer = view.initialize(json!({}));
    assert_eq!(answer["protocolVersion"], "2026-01-26");
    assert_eq!(answer["hostContext"]["theme"], "light");
    assert_eq!(answer["hostCapabilities"]["openLinks"], json!({}));
    let mut bare = View::new(Default::default());
    assert_eq!(bare.initialize(json!({}))["hostContext"], json!({}));
    let other = json!({ "appInfo": { "name": "v", "version": "1" }, "appCapabilities": {}, "protocolVersion": "2031-01-01" });
    assert_eq!(bare.call("ui/initialize", other)["protocolVersion"], "2026-01-26");
}

/// `sandbox-message-forwarding`, X8: nothing but answers before `initialized`.
#[test]
fn h10_and_x08_nothing_is_sent_before_initialized() {
    let mut view = View::new(options());
    view.handle(Event::PartialInput("{\"a\":".into()));
    view.handle(Event::Input(object(json!({ "a": 1 }))));
    view.handle(Event::Result(json!({ "content": [] })));
    view.handle(Event::Context(Box::new(context(json!({ "theme": "dark" })))));
    view.handle(Event::ServerTools(Vec::new()));
    view.handle(Event::ListChanged(Lists::Resources));
    view.handle(Event::Ping);
    assert_eq!(view.methods(), [""; 0]);
    view.initialize(json!({}));
    view.handle(Event::Context(Box::new(context(json!({ "theme": "light" })))));
    assert_eq!(view.methods(), [""; 0]);
    view.notify(INITIALIZED, json!({}));
    let told = [
        "ui/notifications/host-context-changed",
        "ui/notifications/tool-input",
        "ui/notifications/tool-result",
    ];
    assert_eq!(view.methods(), told);
}

#[test]
fn h10_requests_before_initialize_are_refused_and_pings_answered() {
    let mut view = View::new(options());
    assert_eq!(view.call("ping", json!({})), json!({}));
    let early = view.call("tools/call", json!({ "name": "app" }));
    assert_eq!((early["code"].clone(), view.effects()), (json!(-32600), vec![]));
    view.notify(INITIALIZED, json!({}));
    assert_eq!(view.bridge.phase(), Phase::Loading);
    view.initialize(json!({}));
    assert_eq!(view.bridge.phase(), Phase::Initializing);
}

/// Views that call a tool before they send `initialized` never repeat it.
#[test]
fn h10_requests_before_initialized_are_answered_without_notifications() {
    let mut view = View::new(options());
    view.initialize(json!({}));
    let meta = json!({ "progressToken": "p" });
    view.request("tools/call", json!({ "name": "app", "_meta": meta }));
    let Some(Effect::Request { token, .. }) = view.effects().pop() else { panic!("no call") };
    view.handle(Event::Progress { token, params: object(json!({ "progress": 1 })) });
    assert_eq!(view.methods(), [""; 0]);
    let (request, answer) =
        view.call_answered("ui/open-link", json!({ "url": "https://a" }), Ok(json!({})));
    assert_eq!((request, answer), (HostRequest::OpenLink { url: "https://a".into() }, json!({})));
    assert_eq!(view.bridge.phase(), Phase::Initializing);
    view.notify(INITIALIZED, json!({}));
    assert_eq!(view.methods(), [""; 0]);
    view.handle(Event::Progress { token, params: object(json!({ "progress": 2 })) });
    assert_eq!(view.methods(), ["notifications/progress"]);
}

/// `lifecycle/tool-input`
#[test]
fn h11_the_input_is_sent_once_even_without_arguments() {
    let mut view = ready();
    view.handle(Event::Input(Default::default()));
    view.handle(Event::Input(object(json!({ "b": 2 }))));
    let sent = view.sent();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0]["params"], json!({ "arguments": {} }));
    // A component that is mounted twice introduces itself twice.
    assert!(view.initialize(json!({})).get("hostInfo").is_some());
    view.notify(INITIALIZED, json!({}));
    assert_eq!(view.sent(), [Value::Null; 0]);
}

/// `tool-input-partial`, `tool-input-partial-stop`
#[test]
fn h11_partial_input_is_repaired_and_stops_after_the_input() {
    let mut view = ready();
    view.handle(Event::PartialInput(r#"{"city": "Par"#.into()));
    view.handle(Event::PartialInput(r#"{"city": "Paris", "days": [1"#.into()));
    view.handle(Event::Input(object(json!({ "city": "Paris", "days": [1, 2] }))));
    view.handle(Event::PartialInput("{}".into()));
    let sent = view.sent();
    let arguments: Vec<_> = sent.iter().map(|it| it["params"]["arguments"].clone()).collect();
    let want = [
        json!({ "city": "Par" }),
        json!({ "city": "Paris", "days": [1] }),
        json!({ "city": "Paris", "days": [1, 2] }),
    ];
    assert_eq!(arguments, want);
    assert_eq!(sent[1]["method"], "ui/notifications/tool-input-partial");
    assert_eq!(sent[2]["method"], "ui/notifications/tool-input");
}

/// `tool-result`
#[test]
fn h12_the_result_is_sent_whole_and_after_the_input() {
    let mut view = ready();
    let result = json!({ "content": [], "structuredContent": { "x": 1.5 }, "_meta": { "m": 1 }, "isError": true });
    view.handle(Event::Result(result.clone()));
    assert_eq!(view.sent(), [Value::Null; 0]);
    view.handle(Event::Input(Default::default()));
    let sent = view.sent();
    assert_eq!(
        (&sent[1]["method"], &sent[1]["params"]),
        (&json!("ui/notifications/tool-result"), &result)
    );
    view.handle(Event::Cancelled(None));
    assert_eq!(view.sent(), [Value::Null; 0]);
}

/// `tool-cancelled`
#[test]
fn h12_a_cancelled_call_is_reported_for_any_reason() {
    let mut view = ready();
    view.handle(Event::Input(Default::default()));
    view.handle(Event::Cancelled(Some("the server died".into())));
    view.handle(Event::Result(json!({ "content": [] })));
    let sent = view.sent();
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[1]["method"], "ui/notifications/tool-cancelled");
    assert_eq!(sent[1]["params"], json!({ "reason": "the server died" }));
}

/// `teardown-notify`, `teardown-await`
#[test]
fn h13_a_view_is_removed_after_its_answer_to_teardown() {
    let mut view = ready();
    view.handle(Event::Teardown { reason: "the page closes".into() });
    let sent = view.sent();
    assert_eq!(sent[0]["method"], "ui/resource-teardown");
    assert_eq!(sent[0]["params"], json!({ "reason": "the page closes" }));
    assert_eq!((view.effects(), view.bridge.phase()), (vec![], Phase::TearingDown));
    view.receive(&json!({ "jsonrpc": "2.0", "id": sent[0]["id"], "result": {} }));
    assert_eq!(view.effects(), [Effect::Remove(RemoveReason::Closed)]);
    assert_eq!(view.bridge.phase(), Phase::Closed);
    view.request("ping", json!({}));
    assert_eq!(view.sent(), [Value::Null; 0]);
}

#[test]
fn h13_teardown_has_a_time_limit_and_may_fail() {
    let mut view = ready();
    view.handle(Event::Teardown { reason: "r".into() });
    view.now = view.bridge.deadline().unwrap().checked_sub(Duration::from_millis(1)).unwrap();
    view.handle(Event::Tick);
    assert_eq!(view.effects(), []);
    view.now += Duration::from_millis(1);
    view.handle(Event::Tick);
    assert_eq!(view.effects(), [Effect::Remove(RemoveReason::TeardownTimedOut)]);

    let mut view = ready();
    view.handle(Event::Teardown { reason: "r".into() });
    let id = view.sent()[0]["id"].clone();
    view.receive(
        &json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32000, "message": "unsaved" } }),
    );
    let reason = RemoveReason::TeardownFailed { message: "unsaved".into() };
    assert_eq!(view.effects(), [Effect::Remove(reason)]);
}

#[test]
fn h13_a_view_that_is_not_ready_is_removed_at_once() {
    let mut view = View::new(options());
    view.initialize(json!({}));
    view.handle(Event::Teardown { reason: "r".into() });
    assert_eq!(view.effects(), [Effect::Remove(RemoveReason::Closed)]);
    assert_eq!(view.sent(), [Value::Null; 0]);
}

#[test]
fn h13_teardown_cancels_pending_requests() {
    let mut view = ready();
    let id = view.request("tools/call", json!({ "name": "app" }));
    let Some(Effect::Request { token, .. }) = view.effects().pop() else { panic!("a request") };
    view.notify("ui/notifications/request-teardown", json!({}));
    assert_eq!(view.effects(), [Effect::Cancel { token }]);
    let sent = view.sent();
    assert_eq!((&sent[0]["id"], &sent[0]["error"]["code"]), (&json!(id), &json!(-32000)));
    assert_eq!(sent[1]["method"], "ui/resource-teardown");
    view.handle(Event::Answer { token, answer: Ok(json!({})) });
    assert_eq!(view.call("tools/list", json!({}))["code"], -32000);
    assert_eq!(view.sent(), [Value::Null; 0]);
}

/// `dimensions/listen-size-changed`
#[test]
fn h14_flexible_axes_follow_the_content() {
    let mut view = ready();
    let resize = |height| Effect::Resize(Size { width: None, height: Some(height) });
    view.notify("ui/notifications/size-changed", json!({ "width": 300, "height": 200 }));
    view.notify("ui/notifications/size-changed", json!({ "height": 199 }));
    view.notify("ui/notifications/size-changed", json!({ "height": 9_000 }));
    assert_eq!(view.effects(), [resize(200.0), resize(600.0)]);
    assert_eq!(
        view.sent(),
        [Value::Null; 0],
        "no notification, which could make the View report again"
    );
    view.notify("ui/notifications/size-changed", json!({ "height": "tall" }));
    assert!(matches!(view.last_verdict(), Verdict::Refused(_)));
    assert_eq!(view.effects(), []);
    let context = |view: &mut View| {
        let params = json!({
            "appInfo": { "name": "a", "version": "1" }, "appCapabilities": {}, "protocolVersion": "2026-01-26",
        });
        view.call("ui/initialize", params)["hostContext"].take()
    };
    let told = context(&mut view);
    assert_eq!(told["marquetry/frameSize"], json!({ "height": 600.0 }));
    assert_eq!(told["containerDimensions"]["maxHeight"], 600.0, "the axis stays flexible");
    view.handle(Event::DisplayMode(DisplayMode::Fullscreen));
    assert_eq!(context(&mut view)["marquetry/frameSize"], Value::Null, "the room has changed");
}

/// `display/no-undeclared-mode`, `decline-undeclared`
#[test]
fn h15_a_view_is_never_shown_in_a_mode_that_it_did_not_declare() {
    let mut view = View::ready(options(), json!({ "availableDisplayModes": ["inline", "pip"] }));
    assert_eq!(view.bridge.display_modes(), [DisplayMode::Inline]);
    view.handle(Event::DisplayMode(DisplayMode::Fullscreen));
    view.handle(Event::DisplayMode(DisplayMode::Pip));
    let switched =
        json!({ "displayMode": "fullscreen", "availableDisplayModes": ["inline", "fullscreen"] });
    view.handle(Event::Context(Box::new(context(switched))));
    assert_eq!((view.bridge.display_mode(), view.effects()), (DisplayMode::Inline, vec![]));
}

fn mode(mode: &str) -> Value {
    json!({ "mode": mode })
}

/// `display/return-resulting-mode`, `unavailable-returns-current`
#[test]
fn h15_a_request_is_answered_with_the_resulting_mode() {
    let mut view = ready();
    assert_eq!(view.call("ui/request-display-mode", mode("pip")), mode("inline"));
    assert_eq!(view.call("ui/request-display-mode", mode("inline")), mode("inline"));
    assert_eq!(view.call("ui/request-display-mode", mode("hologram"))["code"], -32602);
    let denied = Err(RpcError::new(-32000, "no"));
    let (_, answer) = view.call_answered("ui/request-display-mode", mode("fullscreen"), denied);
    assert_eq!((answer, view.effects()), (mode("inline"), vec![]));
    let (request, answer) =
        view.call_answered("ui/request-display-mode", mode("fullscreen"), Ok(mode("fullscreen")));
    assert_eq!(request, HostRequest::SetDisplayMode(DisplayMode::Fullscreen));
    assert_eq!(answer, mode("fullscreen"));
    assert_eq!(view.effects(), [Effect::ShowMode(DisplayMode::Fullscreen)]);
    let sent = view.sent();
    assert_eq!(sent[0]["method"], "ui/notifications/host-context-changed");
    assert_eq!(sent[0]["params"], json!({ "displayMode": "fullscreen" }));
}

/// `links/open-external`
#[test]
fn h16_links_are_checked_and_opened_by_the_host() {
    let mut view = ready();
    let url = |url: &str| json!({ "url": url });
    let (request, answer) = view.call_answered("ui/open-link", url("https://a/b"), Ok(json!(7)));
    assert_eq!(request, HostRequest::OpenLink { url: "https://a/b".into() });
    assert_eq!(answer, json!({}));
    let denied = Err(RpcError::new(-32000, "Link opening denied by user"));
    let (_, answer) = view.call_answered("ui/open-link", url("https://a"), denied);
    assert_eq!(answer["message"], "Link opening denied by user");
    for wrong in ["javascript:alert(1)", "file:///etc/passwd", "nothing"] {
        assert_eq!(view.call("ui/open-link", url(wrong))["code"], -32000, "{wrong}");
    }
    assert_eq!(view.call("ui/open-link", json!({}))["code"], -32602);
    let mut closed = View::ready(Default::default(), json!({}));
    assert_eq!(closed.call("ui/open-link", url("https://a"))["code"], -32601);
}

/// `messages/consent`: after repeated denials, requests of the View no longer reach the user.
#[test]
fn h17_after_three_denials_in_a_row_the_user_is_not_asked_again() {
    let link = json!({ "url": "https://a/b" });
    let message = json!({ "role": "user", "content": { "type": "text", "text": "hi" } });
    let file = json!({ "type": "resource", "resource": { "uri": "file:///a.txt", "text": "1" } });
    let file = json!({ "contents": [file] });
    let sample = json!({ "messages": [], "maxTokens": 1 });
    let denied = || Err(RpcError::new(-32000, "no"));
    for (method, params) in [
        ("ui/open-link", &link),
        ("ui/message", &message),
        ("ui/download-file", &file),
        ("sampling/createMessage", &sample),
    ] {
        let mut view = ready();
        view.call_answered(method, params.clone(), denied());
        view.call_answered(method, params.clone(), denied());
        // An agreement begins the count anew.
        view.call_answered(method, params.clone(), Ok(json!({})));
        view.call_answered(method, params.clone(), denied());
        view.call_answered(method, params.clone(), denied());
        view.call_answered(method, params.clone(), denied());
        let refused = view.call(method, params.clone());
        assert_eq!(refused["code"], -32000, "{method}: {refused}");
        assert!(refused["message"].as_str().unwrap().contains("max_denials"), "{refused}");
        assert!(matches!(view.last_verdict(), Verdict::Refused(why) if why.contains(method)));
        assert!(view.effects().is_empty(), "{method}: the user is not asked");
        // Other kinds are still asked for.
        let other = if method == "ui/open-link" {
            ("ui/message", &message)
        } else {
            ("ui/open-link", &link)
        };
        assert_eq!(view.call_answered(other.0, other.1.clone(), Ok(json!({}))).1, json!({}));
    }
}

#[test]
fn h17_pending_requests_are_cancelled_after_too_many_denials() {
    let mut options = options();
    options.limits.max_denials = 2;
    let mut view = View::ready(options, json!({}));
    let ids: Vec<_> =
        (0..5).map(|_| view.request("ui/open-link", json!({ "url": "https://a" }))).collect();
    let tokens: Vec<_> = view
        .effects()
        .into_iter()
        .filter_map(|it| if let Effect::Request { token, .. } = it { Some(token) } else { None })
        .collect();
    for token in &tokens[..2] {
        let answer = Err(RpcError::new(-32000, "no"));
        view.handle(Event::Answer { token: *token, answer });
    }
    let cancelled: Vec<_> =
        tokens[2..].iter().map(|token| Effect::Cancel { token: *token }).collect();
    assert_eq!(view.effects(), cancelled);
    let answered: Vec<_> = view.sent().iter().map(|it| it["id"].as_u64().unwrap()).collect();
    assert_eq!(answered, ids);
}

/// A question that the View takes back before its answer counts as denied.
#[test]
fn h17_requests_that_the_view_cancels_count_as_denied() {
    let mut view = ready();
    for _ in 0..3 {
        let id = view.request("ui/open-link", json!({ "url": "https://a" }));
        view.notify("notifications/cancelled", json!({ "requestId": id }));
    }
    view.effects();
    let refused = view.call("ui/open-link", json!({ "url": "https://a" }));
    assert_eq!(refused["code"], -32000);
    assert!(view.effects().is_empty());
}

/// `messages/add-to-conversation`, `messages/consent`
#[test]
fn h17_messages_join_the_conversation() {
    let mut view = ready();
    let block = json!({ "type": "text", "text": "hi" });
    for content in [json!([block]), block.clone()] {
        let params = json!({ "role": "user", "content": content });
        let (request, answer) = view.call_answered("ui/message", params, Ok(json!({})));
        assert!(matches!(request, HostRequest::AddMessage(message) if message.text() == "hi"));
        assert_eq!(answer, json!({}));
    }
    let audio =
        json!({ "role": "user", "content": [{ "type": "audio", "data": "", "mimeType": "a" }] });
    assert_eq!(view.call("ui/message", audio)["code"], -32000);
    assert_eq!(
        view.call("ui/message", json!({ "role": "system", "content": [block] }))["code"],
        -32602
    );
}

fn text_context(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

/// `model-context/provide-future-turns`, `last-wins`
#[test]
fn h18_the_last_model_context_counts() {
    let mut view = ready();
    for text in ["a", "b", "b"] {
        assert_eq!(view.call("ui/update-model-context", text_context(text)), json!({}));
    }
    assert_eq!(view.call("ui/update-model-context", json!({})), json!({}));
    let set: Vec<_> = view
        .effects()
        .into_iter()
        .map(|it| match it {
            Effect::SetModelContext(context) => json!(context),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(set, [text_context("a"), text_context("b"), Value::Null]);
    let long = text_context(&"x".repeat(300_000));
    assert_eq!(view.call("ui/update-model-context", long)["code"], -32000);
}

/// `capabilities/server-passthrough`, `tools/proxy-call`
#[test]
fn h19_calls_go_to_the_server_with_progress_and_cancellation() {
    let mut view = ready();
    let params = json!({ "name": "app", "arguments": { "a": 1 }, "_meta": { "progressToken": 0 } });
    let id = view.request("tools/call", params);
    let Some(Effect::Request { token, request }) = view.effects().pop() else {
        panic!("a request")
    };
    let arguments = object(json!({ "a": 1 }));
    assert_eq!(
        request,
        HostRequest::CallTool { name: "app".into(), arguments, wants_progress: true }
    );
    view.handle(Event::Progress { token, params: object(json!({ "progress": 1, "total": 2 })) });
    assert_eq!(view.sent()[0]["params"], json!({ "progress": 1, "total": 2, "progressToken": 0 }));
    let result = json!({ "content": [], "structuredContent": { "x": 1 } });
    view.handle(Event::Answer { token, answer: Ok(result.clone()) });
    assert_eq!(view.sent(), [json!({ "jsonrpc": "2.0", "id": id, "result": result })]);
    view.handle(Event::Progress { token, params: Default::default() });
    assert_eq!(view.sent(), [Value::Null; 0]);

    let id = view.request("tools/call", json!({ "name": "app" }));
    let Some(Effect::Request { token, .. }) = view.effects().pop() else { panic!("a request") };
    view.notify("notifications/cancelled", json!({ "requestId": id, "reason": "r" }));
    assert_eq!(view.effects(), [Effect::Cancel { token }]);
    view.handle(Event::Answer { token, answer: Ok(json!({})) });
    assert_eq!(view.sent(), [Value::Null; 0]);
    assert_eq!(view.call("ui/unheard-of", json!({}))["code"], -32601);
    assert_eq!(view.call("completion/complete", json!({}))["code"], -32601);
}

/// A host that follows `ShowMode`, reports its context each time, and is slow: its messages and the
/// bridge's cross.
#[test]
fn h15_a_mode_comes_to_rest_when_messages_cross() {
    let mut view = ready();
    let report = |mode: DisplayMode, theme: &str| {
        let modes = json!(["inline", "fullscreen"]);
        let context =
            context(json!({ "displayMode": mode, "theme": theme, "availableDisplayModes": modes }));
        Event::Context(Box::new(context))
    };
    let mut shown = DisplayMode::Inline;
    // The window changes its theme while the bridge wants the View in full screen.
    let mut on_the_way = std::collections::VecDeque::from([report(shown, "dark")]);
    view.handle(Event::DisplayMode(DisplayMode::Fullscreen));
    for round in 0.. {
        for effect in view.effects() {
            if let Effect::ShowMode(mode) = effect
                && mode != shown
            {
                shown = mode;
                on_the_way.push_back(report(shown, "dark"));
            }
        }
        let Some(event) = on_the_way.pop_front() else { break };
        assert!(round < 10, "they never agree");
        view.handle(event);
    }
    assert_eq!((shown, view.bridge.display_mode()), (DisplayMode::Fullscreen, shown));
    let last = view.sent().into_iter().next_back().unwrap();
    assert_eq!(last["params"]["displayMode"], "fullscreen");
}

/// `capabilities/mimetypes-required`
#[test]
fn h19_the_host_declares_the_mime_type() {
    let mut client = ClientCapabilities::default();
    declare_client(&mut client);
    assert!(is_ui_enabled(&client));
    assert_eq!(client_settings(), json!({ "mimeTypes": ["text/html;profile=mcp-app"] }));
}

/// `context/context-changed`
#[test]
fn h20_only_changed_members_of_the_context_are_sent() {
    let mut view = ready();
    let mut changed = options().context;
    changed.theme = Some(marquetry_apps_ext::types::Theme::Dark);
    view.handle(Event::Context(Box::new(changed.clone())));
    view.handle(Event::Context(Box::new(changed)));
    let sent = view.sent();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0]["params"], json!({ "theme": "dark" }));
}

#[test]
fn h21_malformed_messages_are_refused_and_survived() {
    let mut view = ready();
    for text in [
        "",
        "null",
        "[]",
        "\"text\"",
        "{",
        "{\"jsonrpc\":\"1.0\"}",
        "\u{0}",
        r#"{"jsonrpc":"2.0"}"#,
        r#"{"jsonrpc":"2.0","method":7}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#,
        r#"{"jsonrpc":"2.0","id":99,"result":{}}"#,
        r#"{"jsonrpc":"2.0","method":"ui/notifications/size-changed","params":[1]}"#,
    ] {
        view.receive_text(text);
        assert!(matches!(view.audit().last().unwrap().verdict, Verdict::Refused(_)), "{text}");
    }
    assert_eq!(view.sent(), [Value::Null; 0]);
    view.receive_text(r#"{"jsonrpc":"2.0","id":5,"method":"ui/message","params":[1]}"#);
    assert_eq!(view.sent()[0]["error"]["code"], -32600);
    let deep = "[".repeat(200) + &"]".repeat(200);
    view.receive_text(&format!(
        r#"{{"jsonrpc":"2.0","id":6,"method":"ping","params":{{"a":{deep}}}}}"#
    ));
    view.sent();
    assert_eq!(view.call("ping", json!({})), json!({}));
}

#[test]
fn h21_messages_that_are_too_long_or_too_many_are_refused() {
    let mut strict = options();
    strict.limits.max_message_bytes = 500;
    strict.limits.message_burst = 10;
    strict.limits.messages_per_second = 10;
    strict.limits.max_refused = 20;
    let mut view = View::ready(strict, json!({}));
    view.receive(
        &json!({ "jsonrpc": "2.0", "id": 1, "method": "ping", "params": { "a": "x".repeat(500) } }),
    );
    assert!(
        matches!(view.last_verdict(), Verdict::Refused(why) if why.contains("takes at most 500"))
    );
    view.handle(Event::TooLong { id: Some(7.into()), bytes: 100 << 20 });
    assert_eq!(view.sent()[0]["error"]["code"], 413);
    let answers: Vec<_> = (0..12).map(|_| view.call("ping", json!({}))).collect();
    assert_eq!(answers.iter().filter(|it| it["code"] == 429).count(), 4);
    view.now += Duration::from_secs(1);
    assert_eq!(view.call("ping", json!({})), json!({}));
    view.now += Duration::from_secs(1);
    for _ in 0..40 {
        view.notify("ui/notifications/size-changed", json!({ "height": 5 }));
    }
    let removed = |it: &Effect| matches!(it, Effect::Remove(RemoveReason::TooManyRefused { .. }));
    assert!(view.effects().iter().any(removed));
    assert_eq!(view.bridge.phase(), Phase::Closed);
}

#[test]
fn h21_requests_that_wait_are_bounded_and_ids_are_used_once() {
    let mut strict = options();
    strict.limits.max_requests = 2;
    let mut view = View::ready(strict, json!({}));
    let open =
        json!({ "jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": { "name": "app" } });
    view.receive(&open);
    view.receive(&open);
    assert_eq!(view.sent()[0]["error"]["code"], -32600);
    view.request("tools/call", json!({ "name": "app" }));
    assert_eq!(view.call("tools/call", json!({ "name": "app" }))["code"], 429);
    assert_eq!(view.call("ping", json!({})), json!({}));
}

#[test]
fn h21_an_id_of_zero_is_an_id() {
    let mut view = View::new(options());
    view.receive_text(r#"{"jsonrpc":"2.0","id":0,"method":"ping"}"#);
    assert_eq!(view.sent(), [json!({ "jsonrpc": "2.0", "id": 0, "result": {} })]);
}

#[test]
fn h22_metadata_of_the_content_comes_before_that_of_the_list() {
    let listing = object(json!({ "ui": { "prefersBorder": true } }));
    let content = object(json!({ "ui": { "domain": "d" } }));
    let chosen = UiResourceMeta::choose(Some(&listing), Some(&content)).unwrap();
    assert_eq!(UiResourceMeta::parse(chosen).0.prefers_border, None);
    let chosen = UiResourceMeta::choose(Some(&listing), None).unwrap();
    assert_eq!(UiResourceMeta::parse(chosen).0.prefers_border, Some(true));
}

#[test]
fn h23_downloads_have_plain_names_and_the_hosts_consent() {
    let mut view = ready();
    let file = json!({ "type": "resource", "resource": { "uri": "file:///a/../../b c.csv", "text": "1" } });
    let params = json!({ "contents": [file] });
    let (request, answer) = view.call_answered("ui/download-file", params.clone(), Ok(json!({})));
    assert!(matches!(request, HostRequest::Download(files) if files[0].name == "b c.csv"));
    assert_eq!(answer, json!({}));
    let denied = Err(RpcError::new(-32000, "no"));
    let (_, answer) = view.call_answered("ui/download-file", params, denied);
    assert_eq!(answer["code"], -32000);
    let many = json!({ "contents": vec![json!({}); 17] });
    assert_eq!(view.call("ui/download-file", many)["code"], -32000);
}

fn with_tools(names: &[&str]) -> View {
    let mut view = View::new(options());
    view.initialize(json!({ "tools": { "listChanged": true } }));
    view.notify(INITIALIZED, json!({}));
    let asked = view.sent().pop().unwrap();
    assert_eq!(asked["method"], "tools/list");
    let tools: Vec<_> = names.iter().map(|it| json!({ "name": it, "inputSchema": {} })).collect();
    view.receive(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "tools": tools } }));
    view
}

#[test]
fn h24_tools_of_a_view_exist_while_it_is_open() {
    let names: Vec<_> = (0..60).map(|it| format!("t{it}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let mut view = with_tools(&names);
    assert!(matches!(&view.effects()[..], [Effect::AppTools(tools)] if tools.len() == 50));
    let call = |name: &str| Event::CallAppTool {
        call: 7,
        name: name.into(),
        arguments: Default::default(),
    };
    view.handle(call("t1"));
    let asked = view.sent().pop().unwrap();
    assert_eq!((&asked["method"], &asked["params"]["name"]), (&json!("tools/call"), &json!("t1")));
    view.receive(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "content": [] } }));
    assert_eq!(
        view.effects(),
        [Effect::AppAnswer { call: 7, outcome: Ok(json!({ "content": [] })) }]
    );
    view.handle(call("t55"));
    let unknown = AppCallError::UnknownTool { name: "t55".into() };
    assert_eq!(view.effects(), [Effect::AppAnswer { call: 7, outcome: Err(unknown) }]);
    view.handle(call("t1"));
    view.handle(Event::Teardown { reason: "r".into() });
    let closed = || Effect::AppAnswer { call: 7, outcome: Err(AppCallError::Closed) };
    assert_eq!(view.effects(), [closed(), Effect::AppTools(Vec::new())]);
    view.handle(Event::Gone);
    view.effects();
    view.handle(call("t1"));
    assert_eq!(view.effects(), [closed()]);
}

#[test]
fn h24_calls_of_a_views_tools_are_bounded_in_time_and_number() {
    let mut view = with_tools(&["t"]);
    view.effects();
    let event = |call| Event::CallAppTool { call, name: "t".into(), arguments: Default::default() };
    for call in 0..17 {
        view.handle(event(call));
    }
    let too_many =
        Effect::AppAnswer { call: 16, outcome: Err(AppCallError::TooMany { calls: 16 }) };
    assert_eq!(view.effects(), [too_many]);
    view.sent();
    view.handle(Event::CancelAppCall { call: 3 });
    assert_eq!(view.methods(), ["notifications/cancelled"]);
    view.now += Duration::from_secs(30);
    view.handle(Event::Tick);
    assert_eq!((view.effects().len(), view.methods().len()), (15, 15));
    view.handle(event(99));
    let id = view.sent()[0]["id"].clone();
    view.receive(&json!({ "jsonrpc": "2.0", "id": id, "result": { "content": "no array" } }));
    assert!(matches!(
        &view.effects()[..],
        [Effect::AppAnswer { call: 99, outcome: Err(AppCallError::NoResult { .. }) }]
    ));
}

#[test]
fn h24_a_changed_list_is_fetched_once_a_second() {
    let mut view = with_tools(&["t"]);
    for _ in 0..5 {
        view.notify("notifications/tools/list_changed", json!({}));
    }
    assert_eq!(view.methods(), [""; 0]);
    view.now = view.bridge.deadline().unwrap();
    view.handle(Event::Tick);
    assert_eq!(view.methods(), ["tools/list"]);
    let mut without = ready();
    without.notify("notifications/tools/list_changed", json!({}));
    assert!(matches!(without.last_verdict(), Verdict::Refused(_)));
}

#[test]
fn h25_sampling_needs_a_capability_and_the_host() {
    let mut view = ready();
    let params = json!({ "messages": [], "maxTokens": 9 });
    let (request, answer) = view.call_answered(
        "sampling/createMessage",
        params.clone(),
        Ok(json!({ "role": "assistant" })),
    );
    assert_eq!(request, HostRequest::Sample { params: object(params.clone()) });
    assert_eq!(answer, json!({ "role": "assistant" }));
    let tools = json!({ "messages": [], "tools": [] });
    assert_eq!(view.call("sampling/createMessage", tools)["code"], -32602);
    let mut none = options();
    none.capabilities = capabilities(json!({}));
    let mut view = View::ready(none, json!({}));
    assert_eq!(view.call("sampling/createMessage", params)["code"], -32601);
}

#[test]
fn x10_every_message_is_recorded() {
    let mut view = View::new(options());
    view.initialize(json!({}));
    view.notify(INITIALIZED, json!({}));
    view.receive_text("nonsense");
    view.handle(Event::Input(Default::default()));
    let records: Vec<_> =
        view.audit().iter().map(|it| (it.direction, it.method.as_deref())).collect();
    let want = [
        (Direction::FromView, Some("ui/initialize")),
        (Direction::ToView, None),
        (Direction::FromView, Some(INITIALIZED)),
        (Direction::FromView, None),
        (Direction::ToView, Some("ui/notifications/tool-input")),
    ];
    assert_eq!(records, want);
}

#[test]
fn a_ping_tells_whether_the_view_is_alive() {
    let mut view = ready();
    view.handle(Event::Ping);
    let id = view.sent()[0]["id"].clone();
    view.receive(&json!({ "jsonrpc": "2.0", "id": id, "result": {} }));
    view.handle(Event::Ping);
    view.now += Duration::from_secs(5);
    view.handle(Event::Tick);
    assert_eq!(view.effects(), [Effect::Alive(true), Effect::Alive(false)]);
}

#[test]
fn log_messages_reach_the_host() {
    let mut view = ready();
    view.notify("notifications/message", json!({ "level": "info", "data": { "a": 1 } }));
    assert!(matches!(&view.effects()[..], [Effect::Log(entry)] if entry.data == r#"{"a":1}"#));
}
