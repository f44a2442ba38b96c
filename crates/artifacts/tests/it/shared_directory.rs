//! Several servers with stores in one directory.

use std::time::SystemTime;

use bytes::Bytes;
use marquetry_artifacts::{
    ArtifactName, ArtifactStore, DirectoryOptions, DirectoryStore, NewArtifact, Scope, StoreError,
    Version,
    store::{Page, Versions},
};

fn artifact(number: usize) -> NewArtifact {
    let name = ArtifactName::parse(&format!("{number}.bin")).unwrap();
    let content = Bytes::from(vec![number as u8; 100_000]);
    NewArtifact::new(name, "x/y", SystemTime::UNIX_EPOCH, content)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limit_holds_for_all_stores_together() {
    const LIMIT: u64 = 4_000_000;
    let root = tempfile::tempdir().unwrap();
    let options = DirectoryOptions::default().with_durable(false).with_max_total_bytes(LIMIT);
    let stores = [0, 1].map(|_| DirectoryStore::open(root.path(), options).unwrap());
    let scope = Scope::local();
    let mut tasks = Vec::new();
    for (index, store) in stores.iter().enumerate() {
        let store = store.clone();
        let scope = scope.clone();
        tasks.push(tokio::spawn(async move {
            for number in 0..60 {
                store.put(&scope, artifact(number * 2 + index)).await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let listing = stores[0].list(&scope, &Page::new(None, Page::MAX_LIMIT)).await.unwrap();
    let held: u64 = listing.records.iter().map(|record| record.size_bytes).sum();
    assert!(held > LIMIT / 2 && held <= LIMIT + LIMIT / 8, "{held}");
    for record in &listing.records {
        stores[1].get(&scope, &record.name, Version::Latest).await.unwrap();
    }
    for store in &stores {
        let first = store.get(&scope, &artifact(0).name, Version::Latest).await;
        assert!(matches!(first, Err(StoreError::Expired { .. })), "{first:?}");
    }

    let name = &listing.records[0].name;
    stores[0].delete(&scope, name, Versions::All).await.unwrap();
    let deleted = stores[1].get(&scope, name, Version::Latest).await;
    assert!(matches!(deleted, Err(StoreError::NotFound { .. })), "{deleted:?}");
}
