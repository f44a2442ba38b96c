//! The client capabilities that this gateway passes on to upstreams.

use marquetry_apps_ext::types::{declare_client, is_ui_enabled};
use marquetry_protocol::types::ClientCapabilities;

/// Returns the capabilities of one request to an upstream (since 2026-07-28): the questions that
/// its agent answers, and Views.
///
/// A call has the capabilities of its agent, because some tools answer differently without Views.
/// All other requests declare Views: lists are filtered here, and every client can read a View.
pub(super) fn declared(
    offers: &ClientCapabilities,
    method: &str,
    assumes_views: bool,
) -> ClientCapabilities {
    let mut declared = bridged(offers);
    if method != "tools/call" || assumes_views || is_ui_enabled(offers) {
        declare_client(&mut declared);
    }
    declared
}

/// Returns the capabilities of a client for questions of upstreams.
pub(super) fn bridged(offers: &ClientCapabilities) -> ClientCapabilities {
    let mut bridged = ClientCapabilities::default();
    bridged.elicitation.clone_from(&offers.elicitation);
    bridged.sampling.clone_from(&offers.sampling);
    bridged.roots.clone_from(&offers.roots);
    if let Some(roots) = &mut bridged.roots {
        // Changes of the roots are not passed on.
        roots.list_changed = false;
    }
    bridged
}

/// Returns the capabilities that Marquetry declares to upstreams with sessions. The agent of a call
/// determines which questions are answered; if the agent lacks a capability, the upstream gets an
/// error.
pub(super) fn offered() -> ClientCapabilities {
    let mut all = ClientCapabilities::all();
    declare_client(&mut all);
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_declares_views_when_its_agent_does() {
        let mut with_views = ClientCapabilities::default();
        declare_client(&mut with_views);
        let without = ClientCapabilities::default();
        fn declares(offers: &ClientCapabilities, method: &str, assumes_views: bool) -> bool {
            is_ui_enabled(&declared(offers, method, assumes_views))
        }
        assert!(declares(&with_views, "tools/call", false));
        assert!(!declares(&without, "tools/call", false));
        assert!(declares(&without, "tools/call", true));
        assert!(declares(&without, "resources/read", false));
        assert!(is_ui_enabled(&offered()));
        // No upstream can ask a question by it.
        assert!(bridged(&with_views).is_empty());
        let roots = json!({ "roots": { "listChanged": true }, "experimental": {} });
        let roots: ClientCapabilities = serde_json::from_value(roots).unwrap();
        assert_eq!(json!(declared(&roots, "tools/call", false)), json!({ "roots": {} }));
    }
}
