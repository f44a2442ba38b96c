//! Measures what the capture of a tool answer costs; prints a JSON object for each row.
//!
//! ```text
//! cargo run --release -p marquetry-artifacts --example capture_speed
//! ```

use std::{
    error::Error,
    sync::Arc,
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use marquetry_artifacts::{
    ArtifactStore, Capturer, DirectoryOptions, DirectoryStore, MemoryStore, Scope, Settings,
    ToolCall, store::MemoryLimits,
};
use serde_json::{
    json,
    value::{RawValue, to_raw_value},
};

/// Time for each row.
const TIME: Duration = Duration::from_millis(400);
/// Size of the stores, which are full after a few hundred large answers.
const STORE_BYTES: u64 = 16 << 20;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let directory = DirectoryOptions::default().with_max_total_bytes(STORE_BYTES);
    let durable = directory.with_durable(true);
    let stores: [(&str, Arc<dyn ArtifactStore>); 3] = [
        (
            "memory",
            Arc::new(MemoryStore::new(MemoryLimits::default().with_max_total_bytes(STORE_BYTES))),
        ),
        (
            "directory",
            Arc::new(DirectoryStore::open(folder.path().join("a"), directory.with_durable(false))?),
        ),
        ("directory, durable", Arc::new(DirectoryStore::open(folder.path().join("b"), durable)?)),
    ];
    for (store_name, store) in stores {
        let capturer = Capturer::new(store);
        for (answer_name, answer) in answers()? {
            let (micros, is_saved) = measure(&capturer, &answer).await;
            println!(
                "{}",
                json!({
                    "store": store_name,
                    "answer": answer_name,
                    "bytes": answer.get().len(),
                    "is_saved": is_saved,
                    "micros": micros,
                })
            );
        }
    }
    println!("{}", json!({ "peak_resident_kib": peak_resident_kib()? }));
    Ok(())
}

type Answer = (&'static str, Box<RawValue>);

/// Captures an answer over and over. Returns the time of each capture, and whether it was saved.
async fn measure(capturer: &Capturer, answer: &RawValue) -> (f64, bool) {
    let scope = Scope::local();
    let settings = Settings::default();
    let mut captures = 0_u32;
    let mut is_saved = false;
    let started = Instant::now();
    while started.elapsed() < TIME {
        let call = ToolCall::new(&scope, "payload");
        let captured = capturer.capture(call, &settings, answer.to_owned()).await;
        is_saved = captured.report().is_some();
        captures += 1;
    }
    (started.elapsed().as_secs_f64() * 1e6 / f64::from(captures), is_saved)
}

fn answers() -> serde_json::Result<Vec<Answer>> {
    let mut answers = Vec::new();
    for (name, bytes) in [
        ("log of 16 B", 16),
        ("log of 30 KB", 30_000),
        ("log of 64 KiB", 64 << 10),
        ("log of 1 MiB", 1 << 20),
    ] {
        answers.push((name, text_answer(&log(bytes))?));
    }
    let records: Vec<_> = (0..2_000)
        .map(|number| json!({ "id": number, "name": format!("entity {number}"), "tags": ["a", "b"] }))
        .collect();
    let graph = json!({ "entities": records });
    let both = json!({
        "content": [{ "type": "text", "text": graph.to_string() }],
        "structuredContent": graph,
    });
    answers.push(("2,000 records, structured", to_raw_value(&both)?));
    let image = STANDARD.encode([b"\x89PNG\r\n\x1a\n".as_slice(), &vec![7; 1 << 20]].concat());
    let item = json!({ "type": "image", "mimeType": "image/png", "data": image });
    answers.push(("image of 1 MiB", to_raw_value(&json!({ "content": [item] }))?));
    Ok(answers)
}

fn log(bytes: usize) -> String {
    let mut text = String::new();
    let mut job = 0;
    while text.len() < bytes {
        job += 1;
        text += &format!("2026-11-28T12:00:00Z INFO worker-7 finished job {job} in 34 ms\n");
    }
    text.truncate(bytes);
    text
}

fn text_answer(text: &str) -> serde_json::Result<Box<RawValue>> {
    to_raw_value(&json!({ "content": [{ "type": "text", "text": text }] }))
}

fn peak_resident_kib() -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    Ok(line.trim().trim_end_matches(" kB").trim().parse()?)
}
