//! The calls of an echo tool that every peer is loaded with, and the check of an answer.

use serde_json::{Value, json};

use crate::Failed;

/// The revision that is measured with sessions.
pub(super) const SESSIONS: &str = "2025-11-25";
/// The revision that is measured without sessions.
pub(super) const STATELESS: &str = "2026-07-28";
/// The lengths of the echoed texts, in bytes.
pub(super) const SIZES: [usize; 2] = [16, 64 << 10];

/// The message that opens a session.
pub(super) fn initialize() -> Value {
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": SESSIONS,
        "capabilities": {},
        "clientInfo": { "name": "bench", "version": "0" },
    } })
}

/// The message that says that the session is open.
pub(super) fn initialized() -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })
}

/// A call that echoes so many bytes of text.
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
