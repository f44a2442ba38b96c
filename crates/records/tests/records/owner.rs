//! Users who are removed while a record is given to them.

use std::sync::Arc;

use marquetry_records::{
    MemoryRecords, NewRecord, RecordError, RecordFilter, RecordPatch, RecordStore, Records,
};

use super::{intercepted::Intercepted, user};

const BOB: &str = "am7://default/system.user/bob";

/// Removes Bob, who owns no record, after `Records` has checked that he exists.
async fn remove_bob(records: &MemoryRecords) {
    let mut theirs = RecordFilter::new("default");
    theirs.owners = vec![BOB.to_owned()];
    let removed = records.delete_unless(BOB, None, Some(&theirs)).await;
    assert!(removed.unwrap().is_some());
}

#[tokio::test]
async fn records_are_not_given_to_a_user_removed_meanwhile() {
    for round in 0..3 {
        let store = Arc::new(Intercepted::default());
        let records = Records::new(Arc::clone(&store) as _);
        let root = user("root").admin();
        let bob = user("bob");
        let made = records.create(&root, NewRecord::new("data.note", "Gift")).await.unwrap();
        records.create(&root, NewRecord::new("system.user", "Bob").object_id("bob")).await.unwrap();
        _ = store.before_put.set(|records| Box::pin(remove_bob(records)));
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
    // A user needs no record.
    let records = Records::new(Arc::new(MemoryRecords::new()));
    records.create(&user("eve"), NewRecord::new("data.note", "N")).await.unwrap();
}
