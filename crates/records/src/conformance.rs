//! The tests that every [`RecordStore`] must pass.
//!
//! They need a tokio runtime with several threads, and panic with the broken rule.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::{Value, json};

use crate::{ContentChange, CountLimit, Put, Record, RecordFilter, RecordStore, RecordStoreError};

/// Runs every test, each with a new, empty store from `make`.
///
/// ```
/// # #[cfg(feature = "conformance")]
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use marquetry_records::{MemoryRecords, conformance};
///
/// conformance::check(async || MemoryRecords::new()).await;
/// # });
/// ```
///
/// # Panics
/// When the store breaks a rule.
pub async fn check<S: RecordStore>(make: impl AsyncFn() -> S) {
    records_come_back(&make().await).await;
    no_text_is_taken_as_syntax(&make().await).await;
    revisions_grow(&make().await).await;
    an_unexpected_revision_changes_nothing(&make().await).await;
    contents_stay_until_they_change(&make().await).await;
    a_batch_is_kept_as_one(&make().await).await;
    removed_is_gone(&make().await).await;
    records_come_in_pages(&make().await).await;
    filters_are_exact(&make().await).await;
    organizations_are_apart(&make().await).await;
    records_lie_in_groups_that_are_there(&make().await).await;
    paths_are_taken_once(&make().await).await;
    groups_with_records_cannot_be_deleted(&make().await).await;
    homes_are_apart(&make().await).await;
    a_record_without_a_uri_is_refused(&make().await).await;
    depth_is_refused(&make().await).await;
    members_are_found(&make().await).await;
    a_record_in_use_is_not_removed(&make().await).await;
    needed_records_must_exist(&make().await).await;
    count_limits_are_enforced(&make().await).await;
    bytes_are_those_of_fields_and_contents(&make().await).await;
    a_removed_record_is_not_taken_by_a_concurrent_writer(Arc::new(make().await)).await;
    writers_do_not_lose_each_other(Arc::new(make().await)).await;
    one_of_many_concurrent_writers_gets_the_path(Arc::new(make().await)).await;
}

const ALICE: &str = "am7://default/system.user/alice";
const BOB: &str = "am7://default/system.user/bob";

fn note(id: &str) -> Record {
    Record::new("data.note", format!("Note {id}")).with_object_id(id)
}

fn group(id: &str, path: &str) -> Record {
    let (parent, name) = super::path::parent(path).expect("a path with a name");
    let mut group = Record::new("auth.group", name).with_object_id(id);
    group.group = Some(parent.to_owned());
    group.owner = Some(ALICE.to_owned());
    group
}

fn within(mut record: Record, path: &str) -> Record {
    record.group = Some(path.to_owned());
    record.owner = record.owner.or_else(|| Some(ALICE.to_owned()));
    record
}

fn owned_by(owner: &str, mut record: Record) -> Record {
    record.owner = Some(owner.to_owned());
    record
}

fn with_attribute(mut record: Record, name: &str, value: Value) -> Record {
    record.attributes.insert(name.to_owned(), value);
    record
}

fn uri(record: &Record) -> String {
    record.uri().expect("a URI")
}

async fn put(store: &impl RecordStore, record: Record) -> Record {
    store.put(Put::new(record)).await.expect("put")
}

async fn get(store: &impl RecordStore, record: &Record) -> Option<Record> {
    store.get(&uri(record)).await.expect("get")
}

async fn content(store: &impl RecordStore, record: &Record) -> Option<Vec<u8>> {
    store.content(&uri(record)).await.expect("content")
}

/// Returns the object ids of the listed records; the count must agree.
async fn ids(store: &impl RecordStore, filter: &RecordFilter) -> Vec<String> {
    let listed = store.list(filter).await.expect("list");
    if filter.limit.is_none() && filter.after.is_none() {
        assert_eq!(store.count(filter).await.expect("count"), listed.len() as u64, "{filter:?}");
    }
    listed.into_iter().map(|record| record.object_id).collect()
}

/// A record with a value in every field.
fn full(id: &str) -> Record {
    let mut record = note(id);
    record.owner = Some(ALICE.to_owned());
    record.tags =
        ["am7://default/common.tag/one".to_owned(), "am7://default/common.tag/two".to_owned()]
            .into();
    record.readers = [BOB.to_owned()].into();
    record.writers = ["am7://default/auth.group/team".to_owned()].into();
    record.media_type = Some("text/plain; charset=utf-8".to_owned());
    let attributes = json!({
        "text": "With \u{0} and \u{1F35E}", "year": 1984, "big": u64::MAX, "share": 0.1, "no": null,
        "nested": {"b": [1, null, {"": true}], "a": "x"},
    });
    record.attributes = attributes.as_object().cloned().expect("an object");
    record.created = 1_700_000_000_000;
    record.modified = 1_700_000_000_001;
    record
}

async fn records_come_back(store: &impl RecordStore) {
    let kept = put(store, full("a")).await;
    assert_eq!(kept, Record { revision: 1, ..full("a") });
    assert_eq!(get(store, &kept).await.as_ref(), Some(&kept));
    let names: Vec<_> = kept.attributes.keys().collect();
    assert_eq!(names, ["text", "year", "big", "share", "no", "nested"], "the order of attributes");
    assert_eq!(get(store, &note("b")).await, None);
    assert_eq!(store.get("").await.expect("get"), None);
    assert_eq!(store.list(&RecordFilter::new("default")).await.expect("list"), [kept]);
}

async fn no_text_is_taken_as_syntax(store: &impl RecordStore) {
    let odd = [
        "'; DROP TABLE record_item; --",
        "%",
        "_",
        "\\",
        "\"",
        "$1",
        "?1",
        "a\u{0}b",
        "\u{FEFF}",
        " ",
        "{}",
        "NULL",
        "\u{10FFFF}",
        "ä",
        "a\u{308}",
    ];
    for (number, name) in odd.iter().enumerate() {
        let mut record = note(&number.to_string());
        record.name = (*name).to_owned();
        record.owner = Some((*name).to_owned());
        record.tags.insert((*name).to_owned());
        record.readers.insert(format!("reader {name}"));
        record.attributes.insert((*name).to_owned(), json!(name));
        let kept = put(store, record).await;
        assert_eq!(get(store, &kept).await, Some(kept));
    }
    for (number, name) in odd.iter().enumerate() {
        let all = RecordFilter::new("default");
        let name = (*name).to_owned();
        let filters = [
            RecordFilter { name: Some(name.clone()), ..all.clone() },
            RecordFilter { owners: vec![name.clone()], ..all.clone() },
            RecordFilter { tags: vec![name.clone()], ..all.clone() },
            RecordFilter { readers: Some([format!("reader {name}")].into()), ..all.clone() },
        ];
        for filter in filters {
            assert_eq!(ids(store, &filter).await, [number.to_string()], "{filter:?}");
        }
        assert!(
            ids(store, &RecordFilter { types: vec![name.clone()], ..all.clone() }).await.is_empty()
        );
        assert!(
            ids(store, &RecordFilter { group: Some(name.clone()), ..all.clone() }).await.is_empty()
        );
        assert_eq!(store.get(&name).await.expect("get"), None);
    }
}

async fn revisions_grow(store: &impl RecordStore) {
    let mut first = note("a");
    (first.created, first.modified, first.revision) = (10, 10, 77);
    let first = put(store, first).await;
    assert_eq!(first.revision, 1, "a new record's revision is not its maker's");
    let mut second = first.clone();
    (second.created, second.modified, second.revision) = (20, 20, 77);
    "Other".clone_into(&mut second.name);
    let second = store.put(Put::update(second, 1)).await.expect("put");
    assert_eq!((second.revision, second.created, second.modified), (2, 10, 20));
    assert_eq!(get(store, &first).await.as_ref(), Some(&second));
    let third = store.put(Put::any(second)).await.expect("put");
    assert_eq!(third.revision, 3);
    // It is no longer found by its former values.
    assert!(ids(store, &with_name("Note a")).await.is_empty());
    assert_eq!(ids(store, &with_name("Other")).await, ["a"]);
}

fn with_name(name: &str) -> RecordFilter {
    RecordFilter { name: Some(name.to_owned()), ..RecordFilter::new("default") }
}

async fn an_unexpected_revision_changes_nothing(store: &impl RecordStore) {
    let one = store.put(Put::new(note("a")).with_content("one")).await.expect("put");
    let mut other = one.clone();
    "Other".clone_into(&mut other.name);
    let error =
        store.put(Put::new(other.clone()).with_content("two")).await.expect_err("it is there");
    assert_eq!(conflict_of(error), (uri(&one), None, Some(1)));
    let error =
        store.put(Put::update(other.clone(), 2).with_content("two")).await.expect_err("it is 1");
    assert_eq!(conflict_of(error), (uri(&one), Some(2), Some(1)));
    let error = store.put(Put::update(note("b"), 1)).await.expect_err("it is not there");
    assert_eq!(conflict_of(error), (uri(&note("b")), Some(1), None));
    let error = store.delete(&uri(&one), Some(2)).await.expect_err("it is 1");
    assert_eq!(conflict_of(error), (uri(&one), Some(2), Some(1)));
    assert_eq!(get(store, &one).await.as_ref(), Some(&one));
    assert_eq!(content(store, &one).await.as_deref(), Some(&b"one"[..]));
    assert_eq!(ids(store, &RecordFilter::new("default")).await, ["a"]);
}

/// Returns the URI, the expected and the found revision of a conflict.
fn conflict_of(error: RecordStoreError) -> (String, Option<u64>, Option<u64>) {
    match error {
        RecordStoreError::Conflict { uri, expected, found } => (uri, expected, found),
        error => panic!("{error}"),
    }
}

async fn contents_stay_until_they_change(store: &impl RecordStore) {
    let plain = put(store, note("a")).await;
    assert_eq!(content(store, &plain).await, None);
    assert_eq!(store.content_length(&uri(&plain)).await.expect("length"), None);
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    put_content(store, ContentChange::Set(bytes.clone())).await;
    put_content(store, ContentChange::Keep).await;
    let length = store.content_length(&uri(&plain)).await.expect("length");
    assert_eq!(length, Some(bytes.len() as u64));
    assert_eq!(content(store, &plain).await, Some(bytes));
    put_content(store, ContentChange::Set(Vec::new())).await;
    assert_eq!(content(store, &plain).await, Some(Vec::new()), "nothing is something, too");
    put_content(store, ContentChange::Remove).await;
    assert_eq!(content(store, &plain).await, None);
    put_content(store, ContentChange::Set(vec![1])).await;
    store.delete(&uri(&plain), None).await.expect("delete");
    assert_eq!(content(store, &plain).await, None);
    put(store, note("a")).await;
    assert_eq!(content(store, &plain).await, None, "the content went with the record");
    assert_eq!(content(store, &note("b")).await, None);
}

async fn put_content(store: &impl RecordStore, content: ContentChange) {
    store.put(Put { content, ..Put::any(note("a")) }).await.expect("put");
}

async fn a_batch_is_kept_as_one(store: &impl RecordStore) {
    let before = store.put(Put::new(note("a")).with_content("old")).await.expect("put");
    let mut changed = note("a");
    "Changed".clone_into(&mut changed.name);
    let batch = vec![
        Put::any(changed.clone()).with_content("new"),
        Put::new(group("g", "/G")),
        Put::new(within(note("b"), "/G")),
        Put::new(note("a")),
    ];
    store.put_all(batch.clone()).await.expect_err("the last one is there");
    assert_eq!(get(store, &before).await.as_ref(), Some(&before));
    assert_eq!(content(store, &before).await.as_deref(), Some(&b"old"[..]));
    assert_eq!(ids(store, &RecordFilter::new("default")).await, ["a"]);
    // Nothing of the refused batch blocks a new group at its path.
    put(store, group("other", "/G")).await;
    store.delete(&uri(&group("other", "/G")), None).await.expect("delete");

    let kept = store.put_all(batch[..3].to_vec()).await.expect("put");
    let revisions: Vec<_> = kept.iter().map(|one| (one.object_id.as_str(), one.revision)).collect();
    assert_eq!(revisions, [("a", 2), ("g", 1), ("b", 1)]);
    // If a batch has a record twice, the later one is stored.
    let twice = store.put_all(vec![Put::any(note("a")), Put::any(changed)]).await.expect("put");
    assert_eq!((twice[0].revision, twice[1].revision), (3, 4));
    assert_eq!(get(store, &before).await.as_ref(), Some(&twice[1]));
    assert_eq!(store.put_all(Vec::new()).await.expect("nothing"), []);
}

async fn removed_is_gone(store: &impl RecordStore) {
    let kept = put(store, full("a")).await;
    assert_eq!(store.delete(&uri(&kept), Some(1)).await.expect("delete"), Some(kept.clone()));
    assert_eq!(get(store, &kept).await, None);
    assert_eq!(store.delete(&uri(&kept), None).await.expect("delete"), None);
    assert_eq!(store.delete(&uri(&kept), Some(1)).await.expect("delete"), None);
    for filter in [
        RecordFilter::new("default"),
        RecordFilter { readers: Some([BOB.to_owned()].into()), ..RecordFilter::new("default") },
    ] {
        assert!(ids(store, &filter).await.is_empty());
    }
}

async fn records_come_in_pages(store: &impl RecordStore) {
    let mut all: Vec<_> = (0..60).map(|number| note(&format!("n{number}"))).collect();
    // Records are in byte order: capitals come before small letters, `-` before `.`.
    all.extend(["A", "Z", "a-b", "a.b", "ab", "ä"].map(note));
    all.extend(
        (0..5).map(|number| Record::new("data.data", "x").with_object_id(number.to_string())),
    );
    let mut want: Vec<String> = all.iter().map(uri).collect();
    want.sort_unstable();
    store.put_all(all.into_iter().rev().map(Put::new).collect()).await.expect("put");
    for limit in [1, 7, 71, 1_000] {
        let mut filter = RecordFilter { limit: Some(limit), ..RecordFilter::new("default") };
        let mut seen = Vec::new();
        loop {
            let page = store.list(&filter).await.expect("list");
            assert!(page.len() <= limit);
            let Some(last) = page.last() else { break };
            filter.after = Some(uri(last));
            seen.extend(page.iter().map(uri));
            // Records that are added or removed before the page do not shift it.
            let before = Record::new("aaa.aaa", "x").with_object_id(seen.len().to_string());
            store.put(Put::any(before)).await.expect("put");
        }
        assert_eq!(seen, want);
        let clean =
            RecordFilter { types: vec!["aaa.aaa".to_owned()], ..RecordFilter::new("default") };
        for record in store.list(&clean).await.expect("list") {
            store.delete(&uri(&record), None).await.expect("delete");
        }
    }
    let none = RecordFilter { limit: Some(0), ..RecordFilter::new("default") };
    assert_eq!(store.list(&none).await.expect("list"), []);
    assert_eq!(store.count(&none).await.expect("count"), 71);
    // The page continues after a record that no longer exists.
    let after = RecordFilter { after: Some(want[0].clone()), ..RecordFilter::new("default") };
    store.delete(&want[0], None).await.expect("delete");
    assert_eq!(store.list(&after).await.expect("list").first().map(uri).as_ref(), Some(&want[1]));
}

async fn filters_are_exact(store: &impl RecordStore) {
    let mut all = vec![group("g1", "/G"), group("g2", "/G/H"), group("g3", "~/G")];
    for number in 0..48_usize {
        let mut record = note(&format!("n{number}"));
        ["data.note", "data.data", "common.tag"][number % 3].clone_into(&mut record.kind);
        ["One", "Two", "one"][number / 3 % 3].clone_into(&mut record.name);
        record.owner = [None, Some(ALICE), Some(BOB)][number / 5 % 3].map(str::to_owned);
        record.tags =
            ["t1", "t2", "t3"].iter().take(number % 4).map(|tag| (*tag).to_owned()).collect();
        record.readers =
            ["r1", "r2"].iter().take(number / 2 % 3).map(|tag| (*tag).to_owned()).collect();
        record.writers =
            ["r2", "w1"].iter().take(number / 7 % 3).map(|tag| (*tag).to_owned()).collect();
        let places = ["/", "/G", "/G/H", "~", "~/G"];
        record.group = places.get(number % 7).map(|place| (*place).to_owned());
        if record.group.as_ref().is_some_and(|path| path.starts_with('~')) {
            record.owner = Some(ALICE.to_owned());
        }
        all.push(record);
    }
    let kept = store.put_all(all.into_iter().map(Put::new).collect()).await.expect("put");
    let base = RecordFilter::new("default");
    let mut filters = vec![
        base.clone(),
        filter_with(|filter| filter.types = vec!["data.note".to_owned(), "common.tag".to_owned()]),
        filter_with(|filter| filter.types = vec!["data".to_owned()]),
        filter_with(|filter| filter.group = Some("/G".to_owned())),
        filter_with(|filter| filter.group = Some("~/G".to_owned())),
        filter_with(|filter| filter.group = Some("/g".to_owned())),
        filter_with(|filter| filter.group = Some("~".to_owned())),
        filter_with(|filter| filter.name = Some("one".to_owned())),
        filter_with(|filter| filter.owners = vec![ALICE.to_owned(), BOB.to_owned()]),
        filter_with(|filter| filter.owners = vec![BOB.to_owned()]),
        filter_with(|filter| filter.not_owners = vec![ALICE.to_owned()]),
        filter_with(|filter| {
            filter.not_owners = vec!["x".to_owned(), BOB.to_owned(), ALICE.to_owned()];
        }),
        filter_with(|filter| {
            filter.not_owners = vec![BOB.to_owned()];
            filter.not_in_home_of = Some(ALICE.to_owned());
        }),
        filter_with(|filter| filter.not_in_home_of = Some(ALICE.to_owned())),
        filter_with(|filter| filter.not_in_home_of = Some(BOB.to_owned())),
        filter_with(|filter| filter.readers = Some(BTreeSet::new())),
        filter_with(|filter| {
            filter.owners = vec![ALICE.to_owned()];
            filter.types = vec!["data.data".to_owned()];
            filter.tags = vec!["t1".to_owned()];
            filter.readers = Some(["r2".to_owned()].into());
            filter.name = Some("Two".to_owned());
        }),
    ];
    for tags in [&["t1"][..], &["t1", "t3"], &["t1", "t4"], &["t2", "t2"]] {
        filters.push(RecordFilter {
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
            ..base.clone()
        });
    }
    let places = ["/G", "~/G"].map(|path| super::path::place("default", Some(ALICE), path));
    for readers in
        [&["r1"][..], &["r2", "x"], &["w1"], &[ALICE], &["x"], &[&places[0]], &[&places[1], "r1"]]
    {
        let readers = Some(readers.iter().map(|reader| (*reader).to_owned()).collect());
        filters.push(RecordFilter { readers, ..base.clone() });
    }
    let mut sizes = BTreeSet::new();
    for filter in filters {
        let mut want: Vec<_> = kept.iter().filter(|record| filter.matches(record)).collect();
        want.sort_by_key(|record| uri(record));
        let want: Vec<_> = want.into_iter().map(|record| record.object_id.clone()).collect();
        assert_eq!(ids(store, &filter).await, want, "{filter:?}");
        sizes.insert(want.len());
    }
    assert!(sizes.len() > 8, "the filters told too little apart: {sizes:?}");
}

fn filter_with(change: fn(&mut RecordFilter)) -> RecordFilter {
    let mut filter = RecordFilter::new("default");
    change(&mut filter);
    filter
}

async fn organizations_are_apart(store: &impl RecordStore) {
    let organizations = ["default", "other", "default/more", "Default"];
    for organization in organizations {
        let mut group = group("g", "/G").with_organization(organization);
        "G".clone_into(&mut group.name);
        put(store, group).await;
        let note = within(note("n"), "/G").with_organization(organization);
        store.put(Put::new(note).with_content(organization)).await.expect("put");
    }
    for organization in organizations {
        let filter = RecordFilter::new(organization);
        assert_eq!(ids(store, &filter).await, ["g", "n"]);
        for record in store.list(&filter).await.expect("list") {
            assert_eq!(record.organization, organization);
        }
        let note = note("n").with_organization(organization);
        assert_eq!(content(store, &note).await.as_deref(), Some(organization.as_bytes()));
    }
    assert!(ids(store, &RecordFilter::new("")).await.is_empty());
    assert!(ids(store, &RecordFilter::default()).await.is_empty());
    // Records in the group of the same path in another organisation do not keep this one.
    store.delete(&uri(&note("n")), None).await.expect("delete");
    store.delete(&uri(&group("g", "/G")), None).await.expect("delete");
    assert_eq!(ids(store, &RecordFilter::new("other")).await, ["g", "n"]);
}

async fn records_lie_in_groups_that_are_there(store: &impl RecordStore) {
    check_no_group(store, within(note("a"), "/G"), "/G").await;
    check_no_group(store, group("h", "/G/H"), "/G").await;
    put(store, within(note("a"), "/")).await;
    put(store, within(note("b"), "~")).await;
    put(store, group("g", "/G")).await;
    put(store, within(note("c"), "/G")).await;
    check_no_group(store, within(note("d"), "/g"), "/g").await;
    check_no_group(store, within(note("d"), "~/G"), "~/G").await;
    check_no_group(store, within(note("c"), "/G/H"), "/G/H").await;
    // A group without a path contains no records.
    let team = Record::new("auth.group", "Team").with_object_id("team");
    put(store, team).await;
    check_no_group(store, within(note("d"), "/Team"), "/Team").await;
    // A record of another type with that name does not contain records, either.
    let mut fake = within(note("e"), "/");
    "Fake".clone_into(&mut fake.name);
    put(store, fake).await;
    check_no_group(store, within(note("d"), "/Fake"), "/Fake").await;
    for path in ["", "G", "/G/", "//", "/G//H", "~x", "~alice/G", "~/", "~//x"] {
        let error = store.put(Put::any(within(note("d"), path))).await.expect_err("no path");
        assert!(matches!(error, RecordStoreError::Path(_)), "{path}: {error}");
    }
}

/// Checks that a record is refused because there is no group at this path.
async fn check_no_group(store: &impl RecordStore, record: Record, want: &str) {
    match store.put(Put::any(record)).await.expect_err("no such group") {
        RecordStoreError::NoGroup { path } => assert_eq!(path, want),
        error => panic!("{error}"),
    }
}

async fn paths_are_taken_once(store: &impl RecordStore) {
    put(store, group("one", "/G")).await;
    check_path_taken(store.put(Put::new(group("two", "/G"))).await);
    let mut other = put(store, group("three", "/H")).await;
    "G".clone_into(&mut other.name);
    check_path_taken(store.put(Put::any(other)).await);
    // A group does not conflict with itself, nor with a removed group.
    store.put(Put::any(group("one", "/G"))).await.expect("put");
    let mut moved = group("one", "/G");
    "I".clone_into(&mut moved.name);
    store.put(Put::any(moved)).await.expect("put");
    put(store, group("two", "/G")).await;
    store.delete(&uri(&group("two", "/G")), None).await.expect("delete");
    put(store, group("four", "/G")).await;
    // Only groups need unique names.
    let mut same = within(note("n"), "/");
    "G".clone_into(&mut same.name);
    put(store, same.clone()).await;
    put(store, same.with_object_id("m")).await;
}

fn check_path_taken(result: Result<Record, RecordStoreError>) {
    match result.expect_err("it is taken") {
        RecordStoreError::PathTaken { path } => assert_eq!(path, "/G"),
        error => panic!("{error}"),
    }
}

async fn groups_with_records_cannot_be_deleted(store: &impl RecordStore) {
    let g = put(store, group("g", "/G")).await;
    let h = put(store, group("h", "/G/H")).await;
    let n = put(store, within(note("n"), "/G/H")).await;
    check_not_empty(store.delete(&uri(&g), None).await.map(drop), "/G");
    check_not_empty(store.delete(&uri(&h), Some(1)).await.map(drop), "/G/H");
    let mut renamed = h.clone();
    "I".clone_into(&mut renamed.name);
    check_not_empty(store.put(Put::any(renamed)).await.map(drop), "/G/H");
    let mut elsewhere = h.clone();
    elsewhere.group = None;
    check_not_empty(store.put(Put::any(elsewhere)).await.map(drop), "/G/H");
    // Fields other than the path may change.
    let mut same = h.clone();
    same.attributes.insert("description".to_owned(), json!("x"));
    same.owner = Some(BOB.to_owned());
    store.put(Put::any(same)).await.expect("put");

    // It is empty once all records have left it, and cannot be moved into itself.
    store.put(Put::any(within(n, "/G"))).await.expect("put");
    let mut into_itself = h.clone();
    into_itself.group = Some("/G/H".to_owned());
    let error = store.put(Put::any(into_itself)).await.expect_err("into itself");
    assert!(matches!(error, RecordStoreError::NoGroup { .. }), "{error}");
    store.put(Put::any(within(h.clone(), "/"))).await.expect("put");
    assert_eq!(get(store, &h).await.and_then(|group| group.path()).as_deref(), Some("/H"));
    store.delete(&uri(&h), None).await.expect("delete");
    check_not_empty(store.delete(&uri(&g), None).await.map(drop), "/G");
    store.delete(&uri(&note("n")), None).await.expect("delete");
    store.delete(&uri(&g), None).await.expect("delete");
    assert!(ids(store, &RecordFilter::new("default")).await.is_empty());
}

fn check_not_empty(result: Result<(), RecordStoreError>, want: &str) {
    match result.expect_err("it is not empty") {
        RecordStoreError::NotEmpty { path } => assert_eq!(path, want),
        error => panic!("{error}"),
    }
}

async fn homes_are_apart(store: &impl RecordStore) {
    put(store, owned_by(ALICE, group("a", "~/G"))).await;
    put(store, owned_by(ALICE, within(note("an"), "~/G"))).await;
    let error =
        store.put(Put::new(owned_by(BOB, within(note("bn"), "~/G")))).await.expect_err("another's");
    assert!(matches!(error, RecordStoreError::NoGroup { .. }), "{error}");
    put(store, owned_by(BOB, group("b", "~/G"))).await;
    store
        .delete(&uri(&group("b", "~/G")), None)
        .await
        .expect("what lies in alice's is not in bob's");
    let mut nobody = note("n");
    nobody.group = Some("~".to_owned());
    let error = store.put(Put::new(nobody)).await.expect_err("whose home?");
    assert!(matches!(error, RecordStoreError::NoOwner(_)), "{error}");
}

async fn a_record_without_a_uri_is_refused(store: &impl RecordStore) {
    let odd =
        [note(""), note(".."), note("a/b"), note("a?b"), note("a\u{0}"), note(&"x".repeat(3_000))];
    let odd = odd.into_iter().chain([
        note("a").with_organization(""),
        note("a").with_organization("a/media"),
        Record::new("", "x").with_object_id("a"),
    ]);
    for record in odd {
        let error = store.put(Put::any(record)).await.expect_err("no URI");
        assert!(matches!(error, RecordStoreError::NoUri { .. }), "{error}");
    }
    assert!(ids(store, &RecordFilter::new("default")).await.is_empty());
}

async fn depth_is_refused(store: &impl RecordStore) {
    let kept = put(store, nested(100)).await;
    assert_eq!(get(store, &kept).await, Some(kept));
    for depth in [101, 10_000] {
        let error = store.put(Put::any(nested(depth))).await.expect_err("too deep");
        assert!(matches!(error, RecordStoreError::TooDeep { max: 100 }), "{error}");
    }
}

/// Returns a record with an attribute of this depth.
fn nested(depth: usize) -> Record {
    let value = (1..depth).fold(json!(7), |inner, _| Value::Array(vec![inner]));
    with_attribute(note("a"), "deep", value)
}

async fn members_are_found(store: &impl RecordStore) {
    put(store, with_attribute(team("one"), "members", json!([ALICE, BOB]))).await;
    put(store, with_attribute(team("two"), "members", json!([BOB, 7, null]))).await;
    put(store, with_attribute(team("odd"), "members", json!({"am7://x": 1}))).await;
    put(store, with_attribute(note("note"), "members", json!([ALICE]))).await;
    assert_eq!(ids(store, &with_members(&[ALICE])).await, ["one"]);
    assert_eq!(ids(store, &with_members(&[BOB])).await, ["one", "two"]);
    assert_eq!(ids(store, &with_members(&[ALICE, "x"])).await, ["one"]);
    store.put(Put::any(with_attribute(team("one"), "members", json!([])))).await.expect("put");
    assert!(ids(store, &with_members(&[ALICE])).await.is_empty());
}

fn team(id: &str) -> Record {
    Record::new("auth.group", id).with_object_id(id)
}

fn with_members(members: &[&str]) -> RecordFilter {
    RecordFilter {
        members: members.iter().map(|one| (*one).to_owned()).collect(),
        ..RecordFilter::new("default")
    }
}

fn tag(id: &str) -> Record {
    Record::new("common.tag", id).with_object_id(id)
}

fn tagged(mut record: Record, tag: &Record) -> Record {
    record.tags.insert(uri(tag));
    record
}

fn with_tag(tag: &Record) -> RecordFilter {
    RecordFilter { tags: vec![uri(tag)], ..RecordFilter::new("default") }
}

async fn a_record_in_use_is_not_removed(store: &impl RecordStore) {
    // It refers to itself, which does not count.
    let used = put(store, tagged(tag("used"), &tag("used"))).await;
    let users = with_tag(&used);
    for id in ["a", "b"] {
        put(store, tagged(note(id), &used)).await;
    }
    put(store, tagged(note("c"), &used).with_organization("other")).await;
    for (left, id) in [(2, "a"), (1, "b")] {
        match store.delete_unless(&uri(&used), Some(1), Some(&users)).await.expect_err("used") {
            RecordStoreError::InUse { count } => assert_eq!(count, left),
            error => panic!("{error}"),
        }
        assert_eq!(get(store, &used).await, Some(used.clone()));
        store.delete(&uri(&note(id)), None).await.expect("delete");
    }
    let error = store.delete_unless(&uri(&used), Some(2), Some(&users)).await.expect_err("it is 1");
    assert!(error.is_conflict(), "{error}");
    let gone = store.delete_unless(&uri(&used), Some(1), Some(&users)).await.expect("delete");
    assert_eq!(gone, Some(used.clone()));
    assert_eq!(store.delete_unless(&uri(&used), None, Some(&users)).await.expect("gone"), None);
}

async fn needed_records_must_exist(store: &impl RecordStore) {
    let one = tag("one");
    let two = tag("two");
    put(store, one.clone()).await;
    store.put(requiring(note("a"), &[&one])).await.expect("put");
    let before = ids(store, &RecordFilter::new("default")).await;
    check_missing(store, vec![requiring(note("b"), &[&one, &two])], &two).await;
    check_missing(store, vec![requiring(note("a"), &[&two])], &two).await;
    check_missing(
        store,
        vec![requiring(note("b"), &[]), requiring(note("c"), &[&two]), Put::new(two.clone())],
        &two,
    )
    .await;
    assert_eq!(ids(store, &RecordFilter::new("default")).await, before);
    assert_eq!(get(store, &note("a")).await.map(|note| note.revision), Some(1));
    let both = vec![Put::new(two.clone()), requiring(note("b"), &[&one, &two])];
    store.put_all(both).await.expect("put");
}

fn requiring(record: Record, required: &[&Record]) -> Put {
    let required_uris = required.iter().map(|one| uri(one)).collect();
    Put { required_uris, ..Put::any(record) }
}

/// Checks that a batch is refused because it needs a record that is missing.
async fn check_missing(store: &impl RecordStore, puts: Vec<Put>, want: &Record) {
    match store.put_all(puts).await.expect_err("missing") {
        RecordStoreError::Missing(missing) => assert_eq!(missing, uri(want)),
        error => panic!("{error}"),
    }
}

async fn count_limits_are_enforced(store: &impl RecordStore) {
    let filter = RecordFilter {
        types: vec!["data.note".to_owned()],
        owners: vec![ALICE.to_owned()],
        ..RecordFilter::new("default")
    };
    let three = ["a", "b", "c"].map(|id| limited_to_two(owned_by(ALICE, note(id)), &filter));
    check_too_many(store, three.to_vec()).await;
    assert!(ids(store, &RecordFilter::new("default")).await.is_empty());
    store.put_all(three[..2].to_vec()).await.expect("put");
    check_too_many(store, vec![three[2].clone()]).await;
    // An existing record counts once; a record that does not pass the filter does not count.
    store.put(three[0].clone()).await.expect("put");
    store.put(limited_to_two(owned_by(BOB, note("c")), &filter)).await.expect("put");
    check_too_many(store, vec![three[2].clone()]).await;
    store.put(limited_to_two(owned_by(BOB, note("a")), &filter)).await.expect("put");
    store.put(three[2].clone()).await.expect("put");
    assert_eq!(ids(store, &filter).await, ["b", "c"]);
}

/// Returns a change after which at most two records may pass the filter.
fn limited_to_two(record: Record, filter: &RecordFilter) -> Put {
    let count_limit = Some(CountLimit { filter: filter.clone(), max: 2 });
    Put { count_limit, ..Put::any(record) }
}

async fn bytes_are_those_of_fields_and_contents(store: &impl RecordStore) {
    let filter = RecordFilter { owners: vec![ALICE.to_owned()], ..RecordFilter::new("default") };
    assert_eq!(store.bytes(&filter).await.expect("bytes"), 0);
    let record = put(store, owned_by(ALICE, note("é"))).await;
    let fields = serde_json::to_string(&record).expect("JSON").len() as u64;
    assert_eq!(store.bytes(&filter).await.expect("bytes"), fields);
    let content = vec![0; 100_000];
    store.put(Put::any(record.clone()).with_content(content)).await.expect("put");
    put(store, owned_by(BOB, note("other"))).await;
    assert_eq!(store.bytes(&filter).await.expect("bytes"), fields + 100_000);
    store.delete(&record.uri().expect("a URI"), None).await.expect("delete");
    assert_eq!(store.bytes(&filter).await.expect("bytes"), 0);
}

async fn check_too_many(store: &impl RecordStore, puts: Vec<Put>) {
    match store.put_all(puts).await.expect_err("too many") {
        RecordStoreError::TooMany { found, max } => assert_eq!((found, max), (3, 2)),
        error => panic!("{error}"),
    }
}

/// No record keeps a removed tag, even if the record gets the tag while the tag is being removed.
async fn a_removed_record_is_not_taken_by_a_concurrent_writer(store: Arc<impl RecordStore>) {
    for round in 0..24 {
        let tag = put(&*store, tag(&format!("t{round}"))).await;
        let taker = {
            let store = Arc::clone(&store);
            let tag = tag.clone();
            tokio::spawn(async move {
                let record = tagged(note(&format!("n{round}")), &tag);
                let required_uris = record.tags.clone();
                store.put(Put { required_uris, ..Put::new(record) }).await
            })
        };
        // The two operations take turns in starting first.
        if round % 2 == 0 {
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep(std::time::Duration::from_micros(100 * round)).await;
        }
        let removed = store.delete_unless(&uri(&tag), None, Some(&with_tag(&tag))).await;
        let taken = taker.await.expect("a taker");
        match (&taken, &removed) {
            (Ok(_), Err(RecordStoreError::InUse { count: 1 }))
            | (Err(RecordStoreError::Missing(_)), Ok(Some(_))) => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(get(&*store, &tag).await.is_some(), taken.is_ok());
        let having = ids(&*store, &with_tag(&tag)).await;
        assert_eq!(having.len(), usize::from(taken.is_ok()), "{having:?}");
    }
}

async fn writers_do_not_lose_each_other(store: Arc<impl RecordStore>) {
    put(&*store, note("a")).await;
    let writers: Vec<_> = (0..4)
        .map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let mut done = 0;
                while done < 10 {
                    let mut record =
                        store.get(&uri(&note("a"))).await.expect("get").expect("there");
                    let count = record.attributes.get("count").and_then(Value::as_u64).unwrap_or(0);
                    record.attributes.insert("count".to_owned(), json!(count + 1));
                    let revision = record.revision;
                    match store.put(Put::update(record, revision)).await {
                        Ok(_) => done += 1,
                        Err(error) => assert!(error.is_conflict(), "{error}"),
                    }
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("a writer");
    }
    let last = get(&*store, &note("a")).await.expect("there");
    assert_eq!((&last.attributes["count"], last.revision), (&json!(40), 41));
}

async fn one_of_many_concurrent_writers_gets_the_path(store: Arc<impl RecordStore>) {
    let makers: Vec<_> = (0..8)
        .map(|number| {
            let store = Arc::clone(&store);
            let batch = vec![
                Put::new(group(&format!("g{number}"), "/G")),
                Put::new(within(note(&format!("n{number}")), "/G")),
            ];
            tokio::spawn(async move { store.put_all(batch).await })
        })
        .collect();
    let mut made = 0;
    for maker in makers {
        match maker.await.expect("a maker") {
            Ok(_) => made += 1,
            Err(RecordStoreError::PathTaken { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(made, 1);
    assert_eq!(ids(&*store, &RecordFilter::new("default")).await.len(), 2);
}
