//! Users who are removed while something becomes theirs.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use async_trait::async_trait;
use marquetry_records::{
    MemoryRecords, NewRecord, Put, Record, RecordError, RecordFilter, RecordPatch, RecordStore,
    RecordStoreError, Records,
};

use super::user;

/// Removes a user, of whom there is nothing yet, when something is put that was looked at while the user was there.
#[derive(Default)]
struct Removing {
    records: MemoryRecords,
    now: AtomicBool,
}

const BOB: &str = "am7://default/system.user/bob";

#[async_trait]
impl RecordStore for Removing {
    async fn put_all(&self, puts: Vec<Put>) -> Result<Vec<Record>, RecordStoreError> {
        if self.now.load(Ordering::Relaxed) {
            let mut theirs = RecordFilter::new("default");
            theirs.owners = vec![BOB.to_owned()];
            let removed = self.records.delete_unless(BOB, None, Some(&theirs)).await;
            assert!(removed.unwrap().is_some());
        }
        self.records.put_all(puts).await
    }

    async fn get(&self, uri: &str) -> Result<Option<Record>, RecordStoreError> {
        self.records.get(uri).await
    }

    async fn content(&self, uri: &str) -> Result<Option<Vec<u8>>, RecordStoreError> {
        self.records.content(uri).await
    }

    async fn delete_unless(
        &self,
        uri: &str,
        revision: Option<u64>,
        used_by: Option<&RecordFilter>,
    ) -> Result<Option<Record>, RecordStoreError> {
        self.records.delete_unless(uri, revision, used_by).await
    }

    async fn list(&self, filter: &RecordFilter) -> Result<Vec<Record>, RecordStoreError> {
        self.records.list(filter).await
    }

    async fn count(&self, filter: &RecordFilter) -> Result<u64, RecordStoreError> {
        self.records.count(filter).await
    }
}

#[tokio::test]
async fn nothing_becomes_that_of_a_user_who_goes() {
    for round in 0..3 {
        let store = Arc::new(Removing::default());
        let records = Records::new(Arc::clone(&store) as _);
        let (root, bob) = (user("root").admin(), user("bob"));
        let made = records.create(&root, NewRecord::new("data.note", "Gift")).await.unwrap();
        records.create(&root, NewRecord::new("system.user", "Bob").object_id("bob")).await.unwrap();
        store.now.store(true, Ordering::Relaxed);
        let done = match round {
            0 => records.create(&bob, NewRecord::new("data.note", "N")).await,
            1 => records.create(&bob, NewRecord::new("data.note", "N").group("~/Notes")).await,
            _ => {
                let mut give = RecordPatch::new();
                give.owner = Some(BOB.to_owned());
                records.update(&root, &made.uri().unwrap(), give).await
            }
        };
        assert!(matches!(&done, Err(RecordError::NotFound(uri)) if uri == BOB), "{done:?}");
        let mut theirs = RecordFilter::new("default");
        theirs.owners = vec![BOB.to_owned()];
        assert_eq!(store.count(&theirs).await.unwrap(), 0);
    }
    // Who has no record needs none.
    let records = Records::new(Arc::new(MemoryRecords::new()));
    records.create(&user("eve"), NewRecord::new("data.note", "N")).await.unwrap();
}
