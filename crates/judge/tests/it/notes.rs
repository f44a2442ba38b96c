//! A small MCP server of notes. As a program it is this test binary, which runs one test that is
//! the server: libtest writes lines to standard output that are not JSON-RPC, so a shell gives the
//! server a separate output.

use std::sync::{Arc, Mutex};

use marquetry_protocol::server::{Server, Toolbox, serve_stdio};
use schemars::JsonSchema;
use serde::Deserialize;

/// The variable that makes a test the server, and says how it behaves.
pub(crate) const BEHAVIOUR: &str = "NOTES_BEHAVIOUR";

#[derive(Deserialize, JsonSchema)]
struct Write {
    name: String,
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Read {
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// The tools `write_note`, `read_note`, `secret`, `die`, `hang` and `big`.
pub(crate) fn toolbox() -> Toolbox {
    let notes: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
    let write = Arc::clone(&notes);
    let read = notes;
    Toolbox::new("notes", "1.0.0")
        .tool("write_note", "Writes a note.", move |given: Write, _| {
            let write = Arc::clone(&write);
            async move {
                write.lock().unwrap().push((given.name, given.text));
                "written".to_owned()
            }
        })
        .tool("read_note", "Reads a note.", move |given: Read, _| {
            let read = Arc::clone(&read);
            async move {
                let notes = read.lock().unwrap();
                let note = notes.iter().rev().find(|(name, _)| *name == given.name);
                note.map(|(_, text)| text.clone())
                    .ok_or(format!("there is no note {:?}", given.name))
            }
        })
        .tool("secret", "Shows the token.", async |_: Nothing, _| {
            std::env::var("NOTES_TOKEN").unwrap_or_default()
        })
        .tool("die", "Ends the server.", async |_: Nothing, _| -> String {
            eprintln!("out of ink");
            std::process::exit(3)
        })
        .tool("hang", "Never answers.", async |_: Nothing, _| -> String {
            std::future::pending().await
        })
        .tool("big", "Answers at length.", async |_: Nothing, _| "x".repeat(1_000_000))
}

/// Not a test: the server, if the variable is set.
#[test]
fn server() {
    let Ok(behaviour) = std::env::var(BEHAVIOUR) else { return };
    let tools = match behaviour.as_str() {
        "silent" => loop {
            std::thread::sleep(std::time::Duration::from_mins(1));
        },
        "many" => (0..500).fold(toolbox(), |tools, number| {
            tools.tool(format!("tool{number}"), "One of many.", async |_: Nothing, _| "")
        }),
        _ => toolbox(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(serve_stdio(&Server::new(tools), Default::default())).unwrap();
    std::process::exit(0);
}
