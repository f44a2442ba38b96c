//! A user with very many groups.

use std::sync::Arc;

use marquetry_records::{
    Caller, MemoryRecords, NewRecord, Put, Record, RecordFilter, RecordLimits, RecordPatch,
    RecordStore, Records, everyone,
};
use serde_json::json;

use super::{intercepted::Intercepted, user};

/// Returns the notes that a caller sees, in all and in one group, with the number of records read
/// for each.
async fn seen(
    store: &Intercepted,
    records: &Records,
    id: &str,
) -> (Caller, Vec<Record>, usize, Vec<Record>, usize) {
    store.take_listed();
    let caller = records.caller("default", id, false).await.unwrap();
    let mut filter = RecordFilter::default();
    filter.types = vec!["data.note".to_owned()];
    let notes = records.list(&caller, &filter).await.unwrap().records;
    let all = store.take_listed();
    let found = records.find(&caller, "/Alice/Deep", "Shared").await.unwrap();
    (caller, notes, all, found, store.take_listed())
}

#[tokio::test(flavor = "multi_thread")]
async fn many_groups_of_one_owner_do_not_hide_records_of_others() {
    let store = Arc::new(Intercepted::default());
    let records = Records::new(Arc::clone(&store) as _);
    let alice = user("alice");
    let bob = user("bob");
    let group = NewRecord::new("auth.group", "Alice").group("/").reader(everyone("default"));
    records.create(&alice, group).await.unwrap();
    let note = NewRecord::new("data.note", "Shared").group("/Alice/Deep");
    let shared = records.create(&alice, note).await.unwrap();
    let team = NewRecord::new("auth.group", "Team").attribute("members", json!([bob.user]));
    let team = records.create(&alice, team).await.unwrap().uri().unwrap();
    let note = NewRecord::new("data.note", "For the team").reader(team.clone());
    let for_team = records.create(&alice, note).await.unwrap();
    let (_, before, read_before, _, read_in_one_before) = seen(&store, &records, "bob").await;
    assert_eq!(before.len(), 2);

    // The groups are put directly into the store, which has no such limit.
    let mallory = user("mallory").user;
    let groups = (0..10_000).map(|number| {
        let mut group = Record::new("auth.group", format!("G{number}"));
        // In the order of URIs, before and after the groups of others.
        group = group.with_object_id(format!("{}{number}", ["0", "z"][number % 2]));
        group.owner = Some(mallory.clone());
        group.group = Some("/".to_owned());
        group.readers = [everyone("default"), bob.user.clone()].into();
        group.attributes.insert("members".to_owned(), json!([bob.user, everyone("default")]));
        Put::new(group)
    });
    store.put_all(groups.collect()).await.unwrap();
    let (caller, notes, read, found, read_in_one) = seen(&store, &records, "bob").await;
    assert!(caller.groups.contains(&team));
    let mut want = vec![shared.clone(), for_team];
    want.sort_by_key(Record::uri);
    assert_eq!(notes, want, "what alice shares is there");
    let max = records.limits().max_groups_per_owner;
    assert!(caller.groups.len() <= 1 + 2 * max, "{}", caller.groups.len());
    // One read by members and one by readers, each with the rest of a page.
    assert!(read <= read_before + 2 * (2 * max + 500), "{read} records were read");
    // A search in one group reads none of these groups.
    assert_eq!((found, read_in_one), (vec![shared], read_in_one_before));
}

/// Each group is a member of the next.
#[tokio::test]
async fn nested_groups_have_an_end() {
    let store = Arc::new(Intercepted::default());
    let records = Records::new(Arc::clone(&store) as _);
    let uri = |number: usize| format!("am7://default/auth.group/g{number:03}");
    let groups = (0..200).map(|number| {
        let mut group = Record::new("auth.group", "G").with_object_id(format!("g{number:03}"));
        group.owner = Some(user("mallory").user);
        let members: Vec<_> = (0..number).map(uri).chain([user("bob").user]).collect();
        let members = if number == 0 { members } else { members[number - 1..number].to_vec() };
        group.attributes.insert("members".to_owned(), json!(members));
        Put::new(group)
    });
    store.put_all(groups.collect()).await.unwrap();
    let caller = records.caller("default", "bob", false).await.unwrap();
    assert_eq!(caller.groups.len(), records.limits().max_group_nesting);
    assert!(caller.groups.contains(&uri(31)) && !caller.groups.contains(&uri(32)));
}

/// Groups that are found again in each round do not hide other groups of the same owner.
#[tokio::test]
async fn a_group_counts_once_however_often_it_is_found() {
    let store = Arc::new(MemoryRecords::new());
    let mut limits = RecordLimits::default();
    (limits.max_groups_per_owner, limits.max_groups) = (30, 30);
    let records = Records::with_limits(Arc::clone(&store) as _, limits);
    let uri = |number: usize| format!("am7://default/auth.group/z{number:03}");
    let bob = user("bob").user;
    let nested = (0..20).map(|number| match number {
        0 => ("z000".to_owned(), vec![bob.clone()]),
        _ => (format!("z{number:03}"), vec![uri(number - 1)]),
    });
    let all: Vec<_> = (0..20).map(uri).collect();
    let wide = (0..10).map(|number| (format!("a{number}"), all.clone()));
    let groups = nested.chain(wide).map(|(id, members)| {
        let mut group = Record::new("auth.group", "G").with_object_id(id);
        group.owner = Some(user("alice").user);
        group.attributes.insert("members".to_owned(), json!(members));
        Put::new(group)
    });
    store.put_all(groups.collect()).await.unwrap();
    let caller = records.caller("default", "bob", false).await.unwrap();
    assert_eq!(caller.groups.len(), 30);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_has_so_many_groups_and_no_more() {
    let mut limits = RecordLimits::default();
    limits.max_groups_per_owner = 5;
    let records = Arc::new(Records::with_limits(Arc::new(MemoryRecords::new()), limits));
    let alice = user("alice");
    let bob = user("bob");
    let too_many = "the owner has 6 groups, more than max_groups_per_owner (5)";
    let makers: Vec<_> = (0..20)
        .map(|number| {
            let records = Arc::clone(&records);
            let alice = alice.clone();
            let new = NewRecord::new("auth.group", format!("G{number}")).group("~");
            tokio::spawn(async move { records.create(&alice, new).await })
        })
        .collect();
    let mut made = Vec::new();
    for maker in makers {
        match maker.await.unwrap() {
            Ok(group) => made.push(group.uri().unwrap()),
            Err(error) => assert_eq!(error.to_string(), too_many),
        }
    }
    assert_eq!(made.len(), 5);
    // Groups that are created for the path of a record count, too, and a group that is given away
    // counts for its new owner.
    let note = NewRecord::new("data.note", "N").group("~/New");
    let error = records.create(&alice, note.clone()).await.unwrap_err();
    assert_eq!(error.to_string(), too_many);
    let deep = NewRecord::new("data.note", "N").group("~/1/2/3/4/5/6");
    let error = records.create(&bob, deep).await.unwrap_err();
    assert_eq!(error.to_string(), too_many);
    let gift = records.create(&bob, NewRecord::new("auth.group", "Gift")).await.unwrap();
    let mut give = RecordPatch::new();
    give.owner = Some(alice.user.clone());
    let root = user("root").admin();
    let gift = gift.uri().unwrap();
    let error = records.update(&root, &gift, give.clone()).await.unwrap_err();
    assert_eq!(error.to_string(), too_many);
    // Existing groups can be changed, and a removed group makes room for another.
    let mut rename = RecordPatch::new();
    rename.name = Some("Renamed".to_owned());
    records.update(&alice, &made[0], rename).await.unwrap();
    records.delete(&alice, &made[0], None).await.unwrap();
    records.update(&root, &gift, give).await.unwrap();
    records.delete(&alice, &made[1], None).await.unwrap();
    records.create(&alice, note).await.unwrap();
}
