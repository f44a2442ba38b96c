//! Which client capabilities this gateway passes on to upstreams.

use marquetry_protocol::types::{ClientCapabilities, JsonObject};

/// Returns the part of a client's capabilities that this server can pass on.
pub(super) fn bridged(offers: &ClientCapabilities) -> ClientCapabilities {
    const BRIDGED: [&str; 3] = ["elicitation", "sampling", "roots"];
    let bridged = offers.0.iter().filter(|(name, _)| BRIDGED.contains(&name.as_str()));
    let mut bridged: JsonObject =
        bridged.map(|(name, value)| (name.clone(), value.clone())).collect();
    if let Some(roots) = bridged.get_mut("roots").and_then(|roots| roots.as_object_mut()) {
        // That they have changed is not passed on.
        roots.remove("listChanged");
    }
    ClientCapabilities(bridged)
}

/// What upstreams are told that can be asked here. Which of it holds for a call depends on its agent; one that offers less
/// says so in the answer.
pub(super) fn offered() -> ClientCapabilities {
    let all = serde_json::json!({
        "elicitation": { "form": {}, "url": {} }, "sampling": { "tools": {} }, "roots": {},
    });
    ClientCapabilities(all.as_object().cloned().unwrap_or_default())
}
