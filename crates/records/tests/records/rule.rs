//! Permissions follow their rule for random records and callers.

use std::{cell::Cell, collections::BTreeSet, sync::Arc};

use marquetry_records::{
    Caller, ContentChange, MemoryRecords, Put, Record, RecordError, RecordFilter, RecordPatch,
    RecordStore, Records, everyone,
};
use proptest::{prelude::*, test_runner::TestRunner};
use serde_json::json;

const ORGANIZATIONS: [&str; 2] = ["default", "other"];
const USERS: [&str; 3] = ["a", "b", "c"];
/// Folders that may contain records; each folder comes after its parent.
const FOLDERS: [&str; 6] = ["/F", "/F/G", "/F/G/H", "~/P", "~/P/Q", "/O"];

fn uri(organization: &str, kind: &str, id: &str) -> String {
    format!("am7://{organization}/{kind}/{id}")
}

/// The random part of a record: owner, readers, writers by number, and its group.
#[derive(Clone, Debug)]
struct Sketch {
    owner: usize,
    readers: BTreeSet<usize>,
    writers: BTreeSet<usize>,
    place: usize,
}

fn sketch() -> impl Strategy<Value = Sketch> {
    let names = || prop::collection::btree_set(0..7_usize, 0..2);
    (0..3_usize, names(), names(), 0..9_usize).prop_map(|(owner, readers, writers, place)| Sketch {
        owner,
        readers,
        writers,
        place,
    })
}

/// One organisation: teams by their members, folders, notes.
#[derive(Clone, Debug)]
struct World {
    teams: Vec<BTreeSet<usize>>,
    folders: Vec<Sketch>,
    notes: Vec<Sketch>,
}

fn world() -> impl Strategy<Value = World> {
    // Members are users, teams (also in circles) and everyone.
    let teams = prop::collection::vec(prop::collection::btree_set(0..7_usize, 0..3), 3);
    let folders = prop::collection::vec(sketch(), FOLDERS.len());
    (teams, folders, prop::collection::vec(sketch(), 1..12))
        .prop_map(|(teams, folders, notes)| World { teams, folders, notes })
}

/// Three users, three teams, and everyone.
fn name(organization: &str, number: usize) -> String {
    match number {
        0..3 => uri(organization, "system.user", USERS[number]),
        3..6 => uri(organization, "auth.group", &format!("team{}", number - 3)),
        _ => everyone(organization),
    }
}

impl World {
    fn records(&self, organization: &str) -> Vec<Record> {
        let names = |numbers: &BTreeSet<usize>| {
            numbers.iter().map(|number| name(organization, *number)).collect()
        };
        let mut all = Vec::new();
        for (number, members) in self.teams.iter().enumerate() {
            let mut team =
                Record::new("auth.group", "Team").with_object_id(format!("team{number}"));
            let members: BTreeSet<String> = names(members);
            team.attributes.insert("members".to_owned(), json!(members));
            team.owner = Some(name(organization, 0));
            all.push(team);
        }
        // Each home has its own folders, all with the same readers.
        for (path, sketch) in FOLDERS.iter().zip(&self.folders) {
            let (parent, folder) = path.rsplit_once('/').unwrap();
            let owners = if path.starts_with('~') { 0..3 } else { sketch.owner..sketch.owner + 1 };
            for owner in owners {
                let id = format!("folder-{}-{owner}", path.replace(['/', '~'], "_"));
                let mut group = Record::new("auth.group", folder).with_object_id(id);
                group.group = Some(if parent.is_empty() { "/" } else { parent }.to_owned());
                group.owner = Some(name(organization, owner));
                (group.readers, group.writers) = (names(&sketch.readers), names(&sketch.writers));
                all.push(group);
            }
        }
        for (number, sketch) in self.notes.iter().enumerate() {
            let mut note = Record::new("data.note", "Note").with_object_id(format!("note{number}"));
            let places = FOLDERS.iter().copied().chain(["/", "~"]);
            note.group = places.into_iter().nth(sketch.place).map(str::to_owned);
            note.owner = Some(name(organization, sketch.owner));
            (note.readers, note.writers) = (names(&sketch.readers), names(&sketch.writers));
            all.push(note);
        }
        all.into_iter().map(|record| record.with_organization(organization)).collect()
    }
}

/// The rule in its simplest form.
fn may(all: &[Record], caller: &Caller, record: &Record, write: bool) -> bool {
    if record.organization != caller.organization {
        return false;
    }
    if caller.is_admin || record.owner.as_ref() == Some(&caller.user) {
        return true;
    }
    let mut names = BTreeSet::from([caller.user.clone(), everyone(&caller.organization)]);
    // Once for each team, so that indirect membership is complete at the end.
    for _ in 0..all.len() {
        for team in all.iter().filter(|team| team.organization == caller.organization) {
            let members = team.attributes.get("members").and_then(|members| members.as_array());
            let is_in = |member: &serde_json::Value| names.contains(member.as_str().unwrap());
            if members.is_some_and(|members| members.iter().any(is_in)) {
                names.insert(team.uri().unwrap());
            }
        }
    }
    if record.writers.iter().any(|writer| names.contains(writer)) {
        return true;
    }
    if !write && record.readers.iter().any(|reader| names.contains(reader)) {
        return true;
    }
    let Some(path) = &record.group else { return false };
    let around = all.iter().find(|group| {
        group.organization == record.organization
            && group.path().as_ref() == Some(path)
            && (!path.starts_with('~') || group.owner == record.owner)
    });
    around.is_some_and(|group| may(all, caller, group, write))
}

#[test]
fn list_and_get_agree_with_the_rule() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let seen = Cell::new(0);
    let hidden = Cell::new(0);
    let forbidden = Cell::new(0);
    let mut runner = TestRunner::new(ProptestConfig { cases: 96, ..ProptestConfig::default() });
    let ran = runner.run(&[world(), world()], |worlds| {
        runtime.block_on(async {
            let store = Arc::new(MemoryRecords::new());
            let records = Records::new(store.clone());
            let mut all = Vec::new();
            for (world, organization) in worlds.iter().zip(ORGANIZATIONS) {
                let puts = world.records(organization).into_iter().map(Put::new).collect();
                all.extend(store.put_all(puts).await.unwrap());
            }
            for organization in ORGANIZATIONS {
                for (user, is_admin) in
                    [("a", false), ("b", false), ("c", false), ("stranger", false), ("c", true)]
                {
                    let caller = records.caller(organization, user, is_admin).await.unwrap();
                    let principals = records.principals(&caller).await.unwrap();
                    let mut filter = RecordFilter::new("other");
                    filter.limit = Some(5);
                    let mut listed = Vec::new();
                    loop {
                        let page = records.list(&caller, &filter).await.unwrap();
                        listed.extend(page.records);
                        filter.after = page.next;
                        if filter.after.is_none() {
                            break;
                        }
                    }
                    assert_eq!(records.count(&caller, &filter).await.unwrap(), listed.len() as u64);
                    assert!(listed.iter().all(|record| record.organization == organization));
                    for record in &all {
                        let uri = record.uri().unwrap();
                        let may_read = may(&all, &caller, record, false);
                        let why = || format!("{caller:?} {record:?}");
                        assert_eq!(listed.contains(record), may_read, "list: {}", why());
                        let got = records.get(&caller, &uri).await;
                        assert_eq!(got.is_ok(), may_read, "get: {}", why());
                        // A search that filters by readers finds the same.
                        let readers = record.readable_by();
                        let finds = readers.iter().any(|reader| principals.contains(reader));
                        assert_eq!(finds, may_read, "search: {} {principals:?}", why());
                        let mut patch = RecordPatch::new();
                        patch.content = ContentChange::Keep;
                        match records.update(&caller, &uri, patch).await {
                            Ok(after) => {
                                assert!(may(&all, &caller, record, true), "update: {}", why());
                                // Restores the record for the other callers.
                                store.put(Put::any(record.clone())).await.unwrap();
                                assert_eq!(after.name, record.name);
                                seen.update(|count| count + 1);
                            }
                            Err(RecordError::Forbidden { .. }) => {
                                assert!(
                                    may_read && !may(&all, &caller, record, true),
                                    "forbidden: {}",
                                    why()
                                );
                                forbidden.update(|count| count + 1);
                            }
                            Err(RecordError::NotFound(_)) => {
                                assert!(!may_read, "not found: {}", why());
                                hidden.update(|count| count + 1);
                            }
                            Err(error) => panic!("{error} {}", why()),
                        }
                    }
                    all = refreshed(&*store, &all).await;
                }
            }
        });
        Ok(())
    });
    ran.unwrap();
    assert!(
        seen.get() > 1_000 && hidden.get() > 1_000 && forbidden.get() > 100,
        "{seen:?} {hidden:?} {forbidden:?}"
    );
}

async fn refreshed(store: &dyn RecordStore, all: &[Record]) -> Vec<Record> {
    let mut fresh = Vec::new();
    for record in all {
        fresh.push(store.get(&record.uri().unwrap()).await.unwrap().unwrap());
    }
    fresh
}
