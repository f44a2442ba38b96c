//! Records as documents of an index.

use std::sync::Arc;

use marquetry_rag::{
    Caller, ChunkStore, EmbeddingModel, MemoryRecords, MemoryStore, NewChunk, NewRecord, Record,
    RecordFilter, RecordPatch, Records, SearchRequest, everyone, record_document,
};

fn records() -> Records {
    Records::new(Arc::new(MemoryRecords::new()))
}

fn user(id: &str) -> Caller {
    Caller::new("default", id).unwrap()
}

fn uri(record: &Record) -> String {
    record.uri().unwrap()
}

async fn note(records: &Records, caller: &Caller, group: &str, name: &str) -> Record {
    records.create(caller, NewRecord::new("data.note", name).group(group)).await.unwrap()
}

async fn group(records: &Records, caller: &Caller, parent: &str, name: &str) -> Record {
    let found = records.find(caller, parent, name).await.unwrap();
    found.into_iter().find(|record| record.kind == "auth.group").unwrap()
}

async fn share(
    records: &Records,
    caller: &Caller,
    record: &Record,
    readers: &[&str],
    writers: &[&str],
) {
    let mut patch = RecordPatch::new();
    patch.readers = Some(readers.iter().map(|one| (*one).to_owned()).collect());
    patch.writers = Some(writers.iter().map(|one| (*one).to_owned()).collect());
    records.update(caller, &uri(record), patch).await.unwrap();
}

#[tokio::test]
async fn a_search_finds_what_may_be_read() {
    let records = records();
    let alice = user("alice");
    let bob = user("bob");
    let chunks = MemoryStore::new(EmbeddingModel::new("test", 4));
    for (group, name) in [("~/Own", "own"), ("~/Shared", "shared"), ("/Common/Deep", "common")] {
        let record = note(&records, &alice, group, name).await;
        let chunk = NewChunk::of_text(format!("Bread is {name}."), vec![0.0; 4]);
        chunks.replace(record_document(&record), vec![chunk]).await.unwrap();
    }
    let found = async |caller: &Caller| {
        let mut request = SearchRequest::new("bread", None);
        request.filter.readers =
            Some(records.principals(caller).await.unwrap().into_iter().collect());
        let hits = chunks.search(&request).await.unwrap();
        let mut names: Vec<_> = hits.into_iter().map(|hit| hit.chunk.content).collect();
        names.sort();
        names
    };
    assert_eq!(found(&alice).await.len(), 3);
    assert_eq!(found(&bob).await, [""; 0]);
    assert_eq!(found(&bob.clone().admin()).await.len(), 3);
    // The documents need not be made anew when a group is shared.
    let shared = group(&records, &alice, "~", "Shared").await;
    share(&records, &alice, &shared, &[&bob.user], &[]).await;
    let common = group(&records, &alice, "/", "Common").await;
    share(&records, &alice, &common, &[&everyone("default")], &[]).await;
    assert_eq!(found(&bob).await, ["Bread is common.", "Bread is shared."]);
    share(&records, &alice, &shared, &[], &[]).await;
    assert_eq!(found(&bob).await, ["Bread is common."]);
    let stranger = Caller::new("other", "alice").unwrap().admin();
    assert_eq!(found(&stranger).await, [""; 0]);
}

#[cfg(feature = "libsql")]
#[tokio::test(flavor = "multi_thread")]
async fn records_and_chunks_share_a_file() {
    use marquetry_rag::{Document, Filter, LibsqlRecords, LibsqlStore};

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let chunks = LibsqlStore::open(&path, EmbeddingModel::new("test", 4)).await.unwrap();
    let store = Arc::new(LibsqlRecords::open(&path).await.unwrap());
    let records = Records::new(store);
    let alice = user("alice");
    for number in 0..10 {
        let new = NewRecord::new("data.note", format!("Note {number}")).group("~/Notes");
        let record = records.create(&alice, new).await.unwrap();
        let chunk = NewChunk::of_text("Content.", vec![1.0; 4]);
        chunks.replace(record_document(&record), vec![chunk]).await.unwrap();
    }
    assert_eq!(chunks.count(&Filter::default()).await.unwrap(), 10);
    assert_eq!(records.count(&alice, &RecordFilter::default()).await.unwrap(), 11);
    chunks.delete(&Filter::default()).await.unwrap();
    assert_eq!(records.count(&alice, &RecordFilter::default()).await.unwrap(), 11);
    chunks.replace(Document::new("x"), Vec::new()).await.unwrap();
}
