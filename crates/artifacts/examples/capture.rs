//! Shows what becomes of a tool answer from standard input:
//!
//! ```text
//! echo '{"content":[{"type":"image","mimeType":"image/gif","data":"R0lGODlhAQABAAAAACwAAAAAAQABAAACAkQBADs="}]}' \
//!     | cargo run -p marquetry-artifacts --example capture
//! ```
//!
//! Artifacts go to the directory that is named as the first argument, or stay in memory.

use std::{error::Error, io::Read, sync::Arc};

use marquetry_artifacts::{
    ArtifactStore, Capturer, DirectoryStore, MemoryStore, Scope, Settings, ToolCall,
};
use serde_json::value::RawValue;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store: Arc<dyn ArtifactStore> = match std::env::args_os().nth(1) {
        Some(path) => Arc::new(DirectoryStore::open(path, Default::default())?),
        None => Arc::new(MemoryStore::default()),
    };
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let answer = RawValue::from_string(text.trim().to_owned())?;

    let scope = Scope::local();
    let call = ToolCall::new(&scope, "example");
    let captured =
        Capturer::new(Arc::clone(&store)).capture(call, &Settings::default(), answer).await;

    let changed = captured.report().is_some();
    let result: serde_json::Value = serde_json::from_str(captured.into_result().get())?;
    println!("{}", serde_json::to_string_pretty(&result)?);
    eprintln!("{}", if changed { "The answer was captured." } else { "The answer is unchanged." });
    for record in store.list(&scope, &Default::default()).await?.records {
        eprintln!(
            "{} version {}: {}, {} bytes",
            record.name, record.version, record.mime_type, record.size_bytes
        );
    }
    Ok(())
}
