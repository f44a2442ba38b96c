//! Measures the memory of a store and of a capture. It runs in a separate process, so that other
//! tests are not measured with it.

use std::{sync::Arc, time::SystemTime};

use bytes::Bytes;
use marquetry_artifacts::{
    ArtifactName, ArtifactStore, Capturer, MemoryLimits, MemoryStore, NewArtifact, Scope, Settings,
    ToolCall,
};
use serde_json::{json, value::RawValue};

/// Memory of this process: the current or the peak value.
fn memory(key: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// C4: one after the other, so that neither is measured with the other.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn memory_stays_within_what_is_charged() {
    // All stores are kept, so that none reuses memory that another has freed.
    let stores = [
        a_store_takes_what_it_charges().await,
        scopes_are_charged(|number| ("user".to_owned(), format!("{number:032x}"))).await,
        scopes_are_charged(|number| (format!("{number:032x}"), "session".to_owned())).await,
    ];
    drop(stores);
    millions_of_items_cost_no_more_than_their_bytes().await;
}

/// Small artifacts with arguments and a schema, as answers of many items make them.
async fn a_store_takes_what_it_charges() -> MemoryStore {
    const LIMIT: u64 = 24 << 20;
    let before = memory("VmRSS:");
    let store = MemoryStore::new(MemoryLimits::default().with_max_total_bytes(LIMIT));
    let scope = Scope::local();
    let arguments = json!({"list": vec!["value"; 50], "name": "x"});
    let put = async |number: u32| {
        let name = format!("server__tool_with_a_name_json_{number}_{number:08x}.json");
        let name = ArtifactName::parse(&name).unwrap();
        let content = Bytes::from(vec![b'x'; 90]);
        let mut artifact =
            NewArtifact::new(name, "application/json", SystemTime::UNIX_EPOCH, content);
        artifact.metadata.source_tool_args = Some(arguments.clone());
        store.put(&scope, artifact).await.unwrap();
    };
    let mut number = 0;
    while store.usage().evicted < 2000 {
        put(number).await;
        number += 1;
    }
    let held = store.usage().bytes;
    let taken = memory("VmRSS:") - before;
    assert!(held <= LIMIT && held > LIMIT * 9 / 10, "{held}");
    assert!(taken < held * 5 / 4, "{number} artifacts take {taken}, and are charged {held}");
    store
}

/// One small artifact in each scope, of these users and sessions.
async fn scopes_are_charged(user_and_session: impl Fn(u32) -> (String, String)) -> MemoryStore {
    const LIMIT: u64 = 24 << 20;
    let before = memory("VmRSS:");
    let store = MemoryStore::new(MemoryLimits::default().with_max_total_bytes(LIMIT));
    let mut number = 0;
    while store.usage().evicted < 2000 {
        let (user, session) = user_and_session(number);
        let scope = Scope::new("app", user, session).unwrap();
        let name = ArtifactName::parse("a.txt").unwrap();
        let artifact = NewArtifact::new(name, "text/plain", SystemTime::UNIX_EPOCH, Bytes::new());
        store.put(&scope, artifact).await.unwrap();
        number += 1;
    }
    let held = store.usage().bytes;
    let taken = memory("VmRSS:") - before;
    println!("{number} scopes take {taken}, and are charged {held}");
    assert!(held <= LIMIT && held > LIMIT * 9 / 10, "{held}");
    assert!(taken < held * 5 / 4, "{number} scopes take {taken}, and are charged {held}");
    store
}

async fn millions_of_items_cost_no_more_than_their_bytes() {
    let answer = format!("{{\"content\":[{}]}}", vec!["{}"; 2_000_000].join(","));
    let bytes = answer.len() as u64;
    let before = memory("VmHWM:").max(memory("VmRSS:"));
    let answer = RawValue::from_string(answer).unwrap();
    let store = Arc::new(MemoryStore::default());
    let scope = Scope::local();
    let call = ToolCall::new(&scope, "tool");
    let captured = Capturer::new(store.clone()).capture(call, &Settings::default(), answer).await;
    let taken = memory("VmHWM:") - before;
    assert!(taken < 8 * bytes + (16 << 20), "{taken} for {bytes}");
    assert_eq!(captured.report().unwrap().items_not_listed, 1_999_000);
    assert!(store.usage().bytes < 2 * bytes);
}
