//! Plays a host: shows a tool's result in a View, and carries out the effects of the bridge.
//!
//! `cargo run -p marquetry-apps-ext --example view_host`. The messages of the View are a script; in
//! a real host they come from the `postMessage` of a sandboxed frame.

use std::time::Instant;

use marquetry_apps_ext::host::{Bridge, BridgeOptions, Effect, Event, HostRequest};
use marquetry_protocol::types::JsonObject;
use serde_json::{Value, json};

fn main() {
    let mut options = BridgeOptions::default();
    "example-host".clone_into(&mut options.host_info.name);
    options.capabilities.open_links = Some(JsonObject::new());
    let mut bridge = Bridge::new(options);
    let start = Instant::now();

    // The tool may have answered before the View is ready: the bridge keeps the result for it.
    let result = json!({"content": [{"type": "text", "text": "12:00:00"}]});
    for event in [Event::Input(JsonObject::new()), Event::Result(result)] {
        let effects = bridge.handle(start.elapsed(), event);
        carry_out(&mut bridge, start, effects);
    }

    let hello = json!({
        "appInfo": {"name": "clock", "version": "1.0.0"},
        "appCapabilities": {},
        "protocolVersion": "2026-01-26",
    });
    for message in [
        json!({"jsonrpc": "2.0", "id": 1, "method": "ui/initialize", "params": hello}),
        json!({"jsonrpc": "2.0", "method": "ui/notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "ui/open-link", "params": {"url": "https://example.org/"}}),
    ] {
        println!("View: {message}");
        let effects = bridge.receive(start.elapsed(), &message.to_string());
        carry_out(&mut bridge, start, effects);
    }
}

/// Carries out the effects in order. The answer to a request causes further effects.
fn carry_out(bridge: &mut Bridge, start: Instant, effects: Vec<Effect>) {
    for effect in effects {
        match effect {
            Effect::Send(message) => println!("Host: {message}"),
            Effect::Request { token, request: HostRequest::OpenLink { url } } => {
                println!("(the user agrees to open {url})");
                let answer = Event::Answer { token, answer: Ok(Value::Object(JsonObject::new())) };
                let effects = bridge.handle(start.elapsed(), answer);
                carry_out(bridge, start, effects);
            }
            Effect::Remove(reason) => println!("(the View is removed: {reason})"),
            _ => {}
        }
    }
}
