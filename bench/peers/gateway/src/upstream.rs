//! An MCP server with one tool, whose answer has as many bytes as the call asks for.

use std::{
    borrow::Cow,
    collections::HashMap,
    error::Error,
    io::{BufRead as _, Write as _},
};

use serde::Deserialize;
use serde_json::{json, value::RawValue};

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    params: Option<Params>,
}

#[derive(Deserialize)]
struct Params {
    arguments: Option<Arguments>,
}

#[derive(Deserialize)]
struct Arguments {
    bytes: usize,
}

/// Answers lines of standard input until its end.
pub(crate) fn serve() -> Result<(), Box<dyn Error>> {
    let mut output = std::io::stdout().lock();
    let mut input = std::io::stdin().lock();
    let mut line = Vec::new();
    let mut results = HashMap::new();
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let message: Message<'_> = serde_json::from_slice(&line)?;
        let (Some(id), Some(method)) = (message.id, message.method) else { continue };
        let bytes = message.params.and_then(|params| params.arguments).map(|it| it.bytes);
        let outcome = match (&*method, bytes) {
            ("tools/call", Some(bytes)) => {
                // Only the gateway is measured, so a text is made once.
                let result = results.entry(bytes).or_insert_with(|| result(bytes));
                write!(output, r#"{{"jsonrpc":"2.0","id":{id},"result":"#)?;
                output.write_all(result.as_bytes())?;
                output.write_all(b"}\n")?;
                output.flush()?;
                continue;
            }
            ("initialize", _) => json!({ "result": {
                "protocolVersion": "2025-11-25",
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "payload", "version": "0" },
            } }),
            ("tools/list", _) => json!({ "result": { "tools": [{
                "name": "payload",
                "description": "Returns a text of the given length",
                "inputSchema": {
                    "type": "object",
                    "properties": { "bytes": { "type": "integer" } },
                    "required": ["bytes"],
                },
            }] } }),
            ("ping", _) => json!({ "result": {} }),
            _ => json!({ "error": { "code": -32601, "message": "method not found" } }),
        };
        let outcome = outcome.to_string();
        writeln!(output, r#"{{"jsonrpc":"2.0","id":{id},{}"#, &outcome[1..])?;
        output.flush()?;
    }
}

/// Returns a result whose text has `bytes` bytes: lines of a log, or a few letters.
fn result(bytes: usize) -> String {
    let mut text = String::new();
    let mut job = 0;
    while bytes > 64 && text.len() < bytes {
        job += 1;
        text += &format!("2026-11-28T12:00:00Z INFO worker-7 finished job {job} in 34 ms\n");
    }
    text.truncate(bytes);
    text.extend(std::iter::repeat_n('x', bytes - text.len()));
    json!({ "content": [{ "type": "text", "text": text }] }).to_string()
}
