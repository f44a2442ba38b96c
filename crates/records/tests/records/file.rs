//! Records in a file: other processes, killed processes, a full disk, and the same behaviour as in
//! memory.

use std::{cell::Cell, path::Path, sync::Arc, time::Duration};

use marquetry_records::{
    ContentChange, DatabaseError, Expected, LibsqlRecords, LibsqlRecordsOptions, MemoryRecords,
    Put, Record, RecordFilter, RecordStore, RecordStoreError,
};
use proptest::{prelude::*, test_runner::TestRunner};
use serde_json::json;

use super::child::{Child, end_with_parent};

/// Names the database that the child, which is this same test binary, is to write to until it is
/// killed.
const CHILD: &str = "MARQUETRY_TEST_RECORD_INTO";
const CHILD_TEST: &str = "file::child_that_writes_until_it_is_killed";

async fn open(path: &Path) -> LibsqlRecords {
    LibsqlRecords::open(path).await.unwrap()
}

fn numbered(id: &str, number: u64) -> Record {
    let mut record = Record::new("data.note", format!("Version {number}")).with_object_id(id);
    record.tags.insert(format!("version {number}"));
    record.attributes.insert("number".to_owned(), json!(number));
    record
}

/// One version of everything: records with contents that must be seen together or not at all.
fn version(number: u64) -> Vec<Put> {
    let content = number.to_string().repeat(2_000);
    ["a", "b", "c"].map(|id| Put::any(numbered(id, number)).with_content(content.clone())).into()
}

/// Checks that all records are of one version, and returns the version.
async fn check(records: &LibsqlRecords) -> u64 {
    let all = records.list(&RecordFilter::new("default")).await.unwrap();
    let number = all[0].attributes["number"].as_u64().unwrap();
    for record in &all {
        let id = &record.object_id;
        let mut want = numbered(id, number);
        want.revision = record.revision;
        assert_eq!(*record, want);
    }
    assert_eq!(all.len(), 3);
    let mut tagged = RecordFilter::new("default");
    tagged.tags = vec![format!("version {number}")];
    // Another process may have written in the meantime, but either all records of a version are
    // found or none.
    let count = records.count(&tagged).await.unwrap();
    assert!(count == 3 || count == 0, "{count} of version {number}");
    let content = records.content("am7://default/data.note/a").await.unwrap().unwrap();
    let text = String::from_utf8(content).unwrap();
    let written = &text[..text.len() / 2_000];
    assert_eq!(text, written.repeat(2_000));
    written.parse::<u64>().unwrap();
    number
}

#[tokio::test(flavor = "multi_thread")]
async fn child_that_writes_until_it_is_killed() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    end_with_parent();
    let records = open(Path::new(&path)).await;
    let from = check(&records).await;
    for number in from.. {
        records.put_all(version(number)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_killed_leaves_the_old_or_the_new() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let reader = open(&path).await;
    reader.put_all(version(0)).await.unwrap();
    let mut latest = 0;
    for round in 0..12 {
        let children = [(); 2].map(|()| Child::start(CHILD_TEST, CHILD, &path));
        tokio::time::sleep(Duration::from_millis(150 + round * 17 % 90)).await;
        check(&reader).await;
        children.into_iter().for_each(Child::kill);
        check(&reader).await;
        latest = latest.max(check(&open(&path).await).await);
    }
    assert!(latest > 3, "the children wrote nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn data_survives_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let records = open(&path).await;
    let kept = records.put_all(version(7)).await.unwrap();
    drop(records);
    assert_eq!(open(&path).await.list(&RecordFilter::new("default")).await.unwrap(), kept);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_at_one_file_see_each_other_and_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let stores = [Arc::new(open(&path).await), Arc::new(open(&path).await)];
    stores[0].put(Put::new(numbered("a", 0))).await.unwrap();
    let writers: Vec<_> = stores
        .iter()
        .map(|store| {
            let store = Arc::clone(store);
            tokio::spawn(async move {
                let mut done = 0;
                while done < 25 {
                    let record = store.get("am7://default/data.note/a").await.unwrap().unwrap();
                    let number = record.attributes["number"].as_u64().unwrap();
                    let revision = record.revision;
                    match store.put(Put::update(numbered("a", number + 1), revision)).await {
                        Ok(_) => done += 1,
                        Err(error) => assert!(error.is_conflict(), "{error}"),
                    }
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    for store in &stores {
        let record = store.get("am7://default/data.note/a").await.unwrap().unwrap();
        assert_eq!(record.attributes["number"], 50);
    }
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_goes_while_it_is_in_use_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let records = open(&path).await;
    records.put(Put::any(numbered("a", 1))).await.unwrap();
    std::fs::remove_file(&path).unwrap();
    let gone = format!(
        "the database cannot be used: {} was removed or replaced while this program had it open: start the program again",
        path.display()
    );
    for replaced in [false, true] {
        if replaced {
            std::fs::write(&path, "").unwrap();
        }
        let kept = records.put(Put::any(numbered("a", 2))).await.unwrap_err();
        assert_eq!(kept.to_string(), gone);
        assert_eq!(records.get("am7://default/data.note/a").await.unwrap_err().to_string(), gone);
    }
    assert_eq!(std::fs::read(&path).unwrap(), b"");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_room_the_old_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let mut options = LibsqlRecordsOptions::default();
    options.max_bytes = Some(400_000);
    options.max_content_bytes = 1 << 20;
    let records = LibsqlRecords::open_with(&path, options).await.unwrap();
    records.put_all(version(1)).await.unwrap();
    let large = Put::any(numbered("a", 2)).with_content(vec![b'2'; 1 << 20]);
    let batch = vec![Put::any(numbered("b", 2)), large.clone()];
    let error = records.put_all(batch).await.unwrap_err();
    assert!(matches!(error, RecordStoreError::Database(DatabaseError::Full)), "{error}");
    assert_eq!(check(&records).await, 1);
    records.put_all(version(3)).await.unwrap();
    assert_eq!(check(&open(&path).await).await, 3);

    let larger = Put::any(numbered("a", 2)).with_content(vec![b'2'; (1 << 20) + 1]);
    let error = records.put(larger).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the content has 1048577 bytes, more than max_content_bytes (1048576)"
    );
    assert_eq!(check(&records).await, 3);
}

/// Something done to a store.
#[derive(Clone, Debug)]
enum Step {
    Put(Vec<Put>),
    Delete(String, Option<u64>),
}

fn record() -> impl Strategy<Value = Record> {
    let id = "[a-d]";
    let group = prop_oneof![
        2 => Just(None),
        4 => prop::sample::select(vec!["/", "~", "/G", "~/G", "/G/H", "/H"]).prop_map(|path| Some(path.to_owned())),
    ];
    let owner = prop::sample::select(vec!["alice", "bob"]);
    let names = || prop::collection::btree_set("[a-c]", 0..3);
    let value = prop_oneof![
        any::<f64>().prop_map(|number| json!(number)),
        any::<i64>().prop_map(|number| json!(number)),
        any::<String>().prop_map(|text| json!(text)),
        prop::collection::vec(".*", 0..3).prop_map(|list| json!({"list": list})),
    ];
    let attributes = prop::collection::vec((any::<String>(), value), 0..3);
    let kind = prop::sample::select(vec!["data.note", "auth.group", "auth.group"]);
    let group_name = prop::sample::select(vec!["G", "H"]);
    (
        kind,
        id,
        group,
        owner,
        (names(), names(), names()),
        attributes,
        any::<String>(),
        group_name,
        any::<u64>(),
    )
        .prop_map(
            |(
                kind,
                id,
                group,
                owner,
                (tags, readers, writers),
                attributes,
                name,
                group_name,
                created,
            )| {
                let name = if kind == "auth.group" { group_name.to_owned() } else { name };
                let mut record = Record::new(kind, name).with_object_id(id);
                (record.group, record.owner) = (group, Some(owner.to_owned()));
                (record.tags, record.readers, record.writers) = (tags, readers, writers);
                record.attributes = attributes.into_iter().collect();
                record.created = created;
                record
            },
        )
}

fn step() -> impl Strategy<Value = Step> {
    let content = prop_oneof![
        Just(ContentChange::Keep),
        Just(ContentChange::Remove),
        prop::collection::vec(any::<u8>(), 0..8).prop_map(ContentChange::Set),
    ];
    let expected = prop_oneof![
        6 => Just(Expected::Any),
        1 => Just(Expected::Absent),
        1 => (0..3_u64).prop_map(Expected::Revision),
    ];
    let put = (record(), content, expected).prop_map(|(record, content, expected)| {
        let mut put = Put::new(record);
        (put.content, put.expected) = (content, expected);
        put
    });
    let uri = ("(data.note|auth.group)/[a-d]").prop_map(|rest| format!("am7://default/{rest}"));
    prop_oneof![
        4 => prop::collection::vec(put, 1..4).prop_map(Step::Put),
        1 => (uri, prop::option::of(0..3_u64)).prop_map(|(uri, revision)| Step::Delete(uri, revision)),
    ]
}

async fn take(store: &dyn RecordStore, step: &Step) -> Result<Vec<Record>, String> {
    match step.clone() {
        Step::Put(puts) => store.put_all(puts).await.map_err(|error| error.to_string()),
        Step::Delete(uri, revision) => store
            .delete(&uri, revision)
            .await
            .map(|gone| gone.into_iter().collect())
            .map_err(|error| error.to_string()),
    }
}

#[test]
fn the_file_and_memory_give_the_same_answers() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let done = Cell::new(0);
    let refused = Cell::new(0);
    let mut runner = TestRunner::new(ProptestConfig { cases: 60, ..ProptestConfig::default() });
    let ran = runner.run(&prop::collection::vec(step(), 1..25), |steps| {
        runtime.block_on(async {
            let folder = tempfile::tempdir().unwrap();
            let file = open(&folder.path().join("a.db")).await;
            let memory = MemoryRecords::new();
            for step in &steps {
                let in_memory = take(&memory, step).await;
                let in_file = take(&file, step).await;
                let counted = if in_memory.is_ok() { &done } else { &refused };
                counted.update(|count| count + 1);
                assert_eq!(in_memory, in_file, "{step:?}");
                let mut filters = vec![RecordFilter::new("default"); 6];
                filters[1].tags = vec!["a".to_owned(), "b".to_owned()];
                filters[2].readers = Some(["a".to_owned(), "bob".to_owned()].into());
                filters[3].group = Some("~/G".to_owned());
                filters[3].owners = vec!["alice".to_owned()];
                filters[4].not_in_home_of = Some("bob".to_owned());
                filters[5].after = Some("am7://default/auth.group/c".to_owned());
                filters[5].limit = Some(2);
                for filter in &filters {
                    let listed = memory.list(filter).await.unwrap();
                    for record in &listed {
                        let uri = record.uri().unwrap();
                        assert_eq!(file.get(&uri).await.unwrap().as_ref(), Some(record));
                        assert_eq!(
                            file.content(&uri).await.unwrap(),
                            memory.content(&uri).await.unwrap()
                        );
                    }
                    assert_eq!(listed, file.list(filter).await.unwrap());
                    assert_eq!(
                        file.count(filter).await.unwrap(),
                        memory.count(filter).await.unwrap()
                    );
                }
            }
        });
        Ok(())
    });
    ran.unwrap();
    assert!(done.get() > 200 && refused.get() > 100, "{done:?} done, {refused:?} refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_the_file_alone_has_everything() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let copy = folder.path().join("copy.db");
    let records = open(&path).await;
    let kept = records.put_all(version(7)).await.unwrap();
    records.checkpoint().await.unwrap();
    std::fs::copy(&path, &copy).unwrap();
    let copied = open(&copy).await;
    assert_eq!(copied.list(&RecordFilter::new("default")).await.unwrap(), kept);
    assert_eq!(check(&copied).await, 7);
    // The store stays usable.
    records.put_all(version(8)).await.unwrap();
    assert_eq!(check(&records).await, 8);
}
