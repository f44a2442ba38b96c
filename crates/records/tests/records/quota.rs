//! The bytes that one owner's records may take.

use std::sync::Arc;

use marquetry_records::{
    MemoryRecords, NewRecord, RecordError, RecordLimits, RecordPatch, Records,
};

use super::user;

const FILE: usize = 10_000;

fn limited() -> Records {
    let mut limits = RecordLimits::default();
    limits.max_owner_bytes = 35_000;
    Records::with_limits(Arc::new(MemoryRecords::new()), limits)
}

fn file(name: &str) -> NewRecord {
    NewRecord::new("data.data", name).content("text/plain", vec![b'x'; FILE])
}

fn check_full(error: &RecordError) {
    let text = error.to_string();
    assert!(text.contains("more than max_owner_bytes (35000)"), "{text}");
}

#[tokio::test]
async fn one_user_does_not_fill_the_database() {
    let records = limited();
    let alice = user("alice");
    let mut uris = Vec::new();
    for name in ["a", "b", "c"] {
        uris.push(records.create(&alice, file(name)).await.unwrap().uri().unwrap());
    }
    check_full(&records.create(&alice, file("d")).await.unwrap_err());
    let mut larger = RecordPatch::new();
    larger.attributes.insert("description".to_owned(), "y".repeat(FILE).into());
    check_full(&records.update(&alice, &uris[0], larger).await.unwrap_err());
    // Others have their own quota, and administrators have none.
    records.create(&user("bob"), file("a")).await.unwrap();
    for name in ["a", "b", "c", "d"] {
        records.create(&user("root").admin(), file(name)).await.unwrap();
    }
    // A full quota prevents no change that adds nothing.
    records.update(&alice, &uris[0], RecordPatch::new().name("z")).await.unwrap();
    records.delete(&alice, &uris[1], None).await.unwrap();
    records.create(&alice, file("d")).await.unwrap();
}
