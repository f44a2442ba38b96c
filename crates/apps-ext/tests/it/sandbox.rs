//! The requirements of a sandbox that do not need a browser. The others are in `tests/browser`.

use marquetry_apps_ext::{
    host::{Effect, Event, Phase, RemoveReason, Sandbox, SandboxOptions, Verdict},
    types::{Permission, Permissions, UiResourceMeta},
};
use serde_json::{Value, json};

use crate::view::{View, options};

fn sandbox(ui: Value) -> (Sandbox, usize) {
    let mut sandbox = SandboxOptions::default();
    sandbox.permissions =
        Permissions::NONE.with(Permission::Camera).with(Permission::ClipboardWrite);
    sandbox.frame_ancestors = vec!["http://127.0.0.1:8080".into()];
    let (sandbox, problems) = Sandbox::new(&UiResourceMeta::parse(&ui).0, &sandbox);
    (sandbox, problems.len())
}

fn sandboxed() -> View {
    let mut with_sandbox = options();
    let ui = json!({ "csp": { "connectDomains": ["https://a.example"] }, "permissions": { "camera": {} } });
    with_sandbox.sandbox = Some(sandbox(ui).0.resource("<!doctype html>"));
    View::new(with_sandbox)
}

const READY: &str = "ui/notifications/sandbox-proxy-ready";

/// `security/csp-construct-from-domains`, `csp-allow-declared`
#[test]
fn h01_and_h03_and_x06_the_policy_has_the_declared_origins() {
    let ui = json!({ "csp": {
        "connectDomains": ["https://api.example", "wss://live.example"],
        "resourceDomains": ["https://*.cdn.example"],
        "frameDomains": ["https://frames.example"],
        "baseUriDomains": ["https://base.example"],
    } });
    let (sandbox, _) = sandbox(ui);
    for directive in [
        "connect-src https://api.example wss://live.example;",
        "script-src 'self' 'unsafe-inline' data: blob: https://*.cdn.example;",
        "font-src 'self' data: https://*.cdn.example;",
        "frame-src https://frames.example;",
        "base-uri https://base.example;",
        "object-src 'none';",
        "form-action 'none';",
        "frame-ancestors http://127.0.0.1:8080",
    ] {
        assert!(sandbox.policy().contains(directive), "{directive} in {}", sandbox.policy());
    }
}

/// `csp-default-deny`
#[test]
fn h02_the_default_policy_reaches_nothing() {
    for ui in [json!({}), json!({ "csp": null }), json!({ "csp": "x" }), json!([])] {
        let (sandbox, _) = sandbox(ui.clone());
        assert!(sandbox.policy().starts_with("default-src 'none'; "), "{ui}");
        assert!(
            sandbox.policy().contains("connect-src 'none'; frame-src 'none'; base-uri 'self';")
        );
        assert!(!sandbox.policy().contains("http://a"));
    }
}

/// `csp-no-loosening`
#[test]
fn h03_entries_that_try_to_break_out_are_left_out() {
    let evil = [
        "*",
        "'unsafe-eval'",
        "https://a; script-src *",
        "https://a, https://b",
        "https://a\r\nX: y",
        "data:x",
        "blob: *",
        "https:",
        "https://*",
        "javascript://a",
    ];
    let ui = json!({ "csp": { "connectDomains": evil, "resourceDomains": evil, "frameDomains": evil, "baseUriDomains": evil } });
    let (sandbox, problems) = sandbox(ui);
    assert_eq!(sandbox.policy(), super::sandbox::sandbox(json!({})).0.policy());
    assert_eq!(problems, 4 * evil.len());
}

/// `external-domain-warning`. The log of policies (`csp-audit-log`) is that of the program:
/// `tests/browser/views-panel.test.mjs`. A list of origins for all Views (`global-allowlist`) is
/// optional, and there is none.
#[test]
fn h04_foreign_origins_are_named() {
    let ui = json!({ "csp": { "connectDomains": ["https://api.example", "http://127.0.0.1:9"] } });
    let (_, problems) = Sandbox::new(&UiResourceMeta::parse(&ui).0, &SandboxOptions::default());
    let notices: Vec<_> =
        problems.iter().filter(|it| it.is_notice()).map(ToString::to_string).collect();
    assert_eq!(notices, ["the View may reach https://api.example (connectDomains)"]);
}

/// `sandbox-permissions`, `permissions-allow-attr`
#[test]
fn x03_and_x06_permissions_are_granted_by_the_host() {
    let ui = json!({ "permissions": { "camera": {}, "microphone": {}, "clipboardWrite": {} } });
    let (sandbox, problems) = sandbox(ui);
    assert_eq!((sandbox.allow_attribute().as_str(), problems), ("camera; clipboard-write", 1));
    let granted = json!({ "permissions": { "camera": {}, "clipboardWrite": {} } });
    assert_eq!(json!(sandbox.granted()), granted);
    assert_eq!(sandbox.sandbox_attribute(), "allow-scripts allow-forms");
}

/// `sandbox-proxy-ready`, `sandbox-resource-ready`, `sandbox-proxy-required`
#[test]
fn x04_and_x05_the_proxy_gets_the_view_once() {
    let mut view = sandboxed();
    assert_eq!(view.bridge.phase(), Phase::Created);
    assert_eq!(view.initialize(json!({}))["code"], -32600);
    view.notify(READY, json!({}));
    let Some(Effect::SendToSandbox(text)) = view.effects().pop() else { panic!("the View") };
    let message: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(message["method"], "ui/notifications/sandbox-resource-ready");
    let want = json!({
        "html": "<!doctype html>",
        "sandbox": "allow-scripts allow-forms",
        "csp": { "connectDomains": ["https://a.example"] },
        "permissions": { "camera": {} },
    });
    assert_eq!(message["params"], want);
    assert!(view.initialize(json!({})).get("hostInfo").is_some());
}

#[test]
fn x05_a_proxy_that_is_ready_again_is_a_violation() {
    let mut view = sandboxed();
    view.notify(READY, json!({}));
    view.initialize(json!({}));
    view.notify("ui/notifications/initialized", json!({}));
    view.effects();
    view.notify(READY, json!({}));
    let rule = "the sandbox proxy was ready twice".to_owned();
    assert_eq!(view.effects(), [Effect::Remove(RemoveReason::Violation { rule: rule.clone() })]);
    assert_eq!(view.audit().last().unwrap().verdict, Verdict::Violation(rule));
    view.handle(Event::Input(Default::default()));
    view.sent();
    view.notify(READY, json!({}));
    assert_eq!(view.effects(), []);
}

/// `sandbox-message-forwarding`, `sandbox-no-self-requests`
#[test]
fn x07_and_x09_a_view_cannot_forge_messages_of_the_sandbox() {
    for id in [None, Some(1)] {
        let mut view = View::ready(options(), json!({}));
        let mut forged =
            json!({ "jsonrpc": "2.0", "method": "ui/notifications/sandbox-resource-ready" });
        if let Some(id) = id {
            forged["id"] = json!(id);
        }
        view.receive(&forged);
        assert!(matches!(&view.effects()[..], [Effect::Remove(RemoveReason::Violation { .. })]));
        assert_eq!(view.sent(), [Value::Null; 0]);
    }
}
