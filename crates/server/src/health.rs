//! `GET /healthz`

use serde_json::{Value, json};

use crate::gateway::{Gateway, State};

/// The server's state: `degraded` when an upstream that should be there is not.
pub(crate) fn report(gateway: &Gateway) -> Value {
    /// Refused names shown of one upstream; a log line told each.
    const MOST_REFUSED: usize = 20;
    let catalog = gateway.catalog();
    let mut degraded = false;
    let upstreams = gateway.upstreams().iter().enumerate().map(|(index, upstream)| {
        let state = upstream.state();
        degraded |= !matches!(state, State::Ready(_) | State::Disabled);
        let mut report = state.report();
        report["name"] = json!(upstream.name);
        report["transport"] = json!(upstream.config.transport.kind());
        report["tools"] = json!(catalog.tools_of(index));
        report["restarts"] = json!(upstream.restarts());
        let refused = catalog.refused.iter().filter(|refused| refused.upstream == index);
        let refused: Vec<Value> = refused
            .take(MOST_REFUSED)
            .map(|refused| json!({"kind": refused.kind, "name": refused.name, "why": refused.why.to_string()}))
            .collect();
        if !refused.is_empty() {
            report["refused"] = json!(refused);
        }
        let listing = upstream.listing();
        if !listing.left_out.is_empty() {
            let lists = listing.left_out.iter();
            let lists = lists.map(|(list, problem)| json!({"list": list, "problem": problem}));
            report["left_out"] = lists.collect();
        }
        report
    });
    let upstreams: Vec<Value> = upstreams.collect();
    json!({
        "status": if degraded { "degraded" } else { "ok" },
        "version": env!("CARGO_PKG_VERSION"),
        "upstreams": upstreams,
    })
}
