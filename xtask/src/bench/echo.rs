//! Calls of an echo tool, the load for every peer, and the check of the answers.

use serde_json::{Value, json};

use crate::Failed;

/// The revision of the rows with sessions.
pub(super) const SESSIONS: &str = "2025-11-25";
/// The revision of the rows without sessions.
pub(super) const STATELESS: &str = "2026-07-28";
/// The lengths of the echoed texts, in bytes.
pub(super) const SIZES: [usize; 2] = [16, 64 << 10];

/// Returns the message that opens a session.
pub(super) fn initialize() -> Value {
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": SESSIONS,
        "capabilities": {},
        "clientInfo": { "name": "bench", "version": "0" },
    } })
}

/// Returns the notification after the answer to [`initialize`].
pub(super) fn initialized() -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })
}

/// Returns a call that echoes `bytes` bytes of text.
pub(super) fn call(revision: &str, bytes: usize, id: &Value) -> String {
    let mut params = json!({ "name": "echo", "arguments": { "text": "x".repeat(bytes) } });
    if revision == STATELESS {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": STATELESS,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": { "name": "bench", "version": "0" },
        });
    }
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string()
}

/// Checks that `answer` answers a [`call`] with the id 7.
pub(super) fn check_answer(answer: &Value, bytes: usize) -> Result<(), Failed> {
    let text = answer["result"]["content"][0]["text"].as_str();
    if answer["id"] == 7 && text.is_some_and(|text| text == "x".repeat(bytes)) {
        return Ok(());
    }
    Err(Failed::new(format!("answered {answer}")))
}
