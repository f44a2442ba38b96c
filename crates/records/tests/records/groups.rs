//! Places, teams, tags and users.

use std::sync::Arc;

use marquetry_records::{
    Caller, NewRecord, Record, RecordError, RecordFilter, RecordPatch, Records, everyone,
};
use serde_json::json;

use super::{records, user};

fn uri(record: &Record) -> String {
    record.uri().unwrap()
}

/// Makes a note in a group.
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
async fn a_summary_is_found_by_path_and_name() {
    let records = records();
    let alice = user("alice");
    let bob = user("bob");
    let new = NewRecord::new("data.note", "doc-summary - Summary")
        .group("~/Notes/Summaries")
        .attribute("text", "In short: bread.");
    let summary = records.create(&alice, new).await.unwrap();
    let found = records.find(&alice, "~/Notes/Summaries", "doc-summary - Summary").await.unwrap();
    assert_eq!(found, [summary]);
    assert_eq!(found[0].text(), Some("In short: bread."));
    // Everybody's `~` is their own; another's is found by name, as far as it may be read.
    assert_eq!(records.find(&bob, "~/Notes/Summaries", "doc-summary - Summary").await.unwrap(), []);
    assert_eq!(
        records.find(&bob, "~alice/Notes/Summaries", "doc-summary - Summary").await.unwrap(),
        []
    );
    assert_eq!(
        records.find(&alice, "~alice/Notes/Summaries/", "doc-summary - Summary").await.unwrap(),
        found
    );
    let notes = group(&records, &alice, "~", "Notes").await;
    share(&records, &alice, &notes, &[&bob.user], &[]).await;
    assert_eq!(
        records.find(&bob, "~alice/Notes/Summaries", "doc-summary - Summary").await.unwrap(),
        found
    );
    assert_eq!(records.find(&alice, "~/Notes", "doc-summary - Summary").await.unwrap(), []);
}

#[tokio::test]
async fn names_that_look_the_same_are_the_same() {
    let records = records();
    let alice = user("alice");
    let made = note(&records, &alice, "~/Gedächtnis", "Ma\u{308}rz").await;
    assert_eq!(made.name, "März");
    assert_eq!(records.find(&alice, "~/Geda\u{308}chtnis", "Ma\u{308}rz").await.unwrap(), [made]);
    assert_eq!(records.count(&alice, &RecordFilter::default()).await.unwrap(), 2);
}

#[tokio::test]
async fn writers_of_a_group_change_its_records_for_the_owner() {
    let records = records();
    let alice = user("alice");
    let bob = user("bob");
    let eve = user("eve");
    let first = note(&records, &alice, "~/Both/Deep", "First").await;
    let both = group(&records, &alice, "~", "Both").await;
    share(&records, &alice, &both, &[], &[&bob.user]).await;
    let second = note(&records, &bob, "~alice/Both/Deep/Deeper", "Second").await;
    assert_eq!(
        (second.owner.as_ref(), second.group.as_deref()),
        (Some(&alice.user), Some("~/Both/Deep/Deeper"))
    );
    let patch = RecordPatch::new().attribute("text", "Bob was here.");
    records.update(&bob, &uri(&first), patch.clone()).await.unwrap();
    // He may change neither its readers, nor its place, nor its owner, nor the name of the group.
    for change in [
        |patch: &mut RecordPatch| patch.readers = Some([everyone("default")].into()),
        |patch: &mut RecordPatch| patch.writers = Some([everyone("default")].into()),
        |patch: &mut RecordPatch| patch.group = Some(Some("/Elsewhere".to_owned())),
        |patch: &mut RecordPatch| patch.owner = Some("am7://default/system.user/bob".to_owned()),
    ] {
        let mut patch = RecordPatch::new();
        change(&mut patch);
        let error = records.update(&bob, &uri(&first), patch).await.unwrap_err();
        assert!(matches!(error, RecordError::Forbidden { .. }), "{error}");
    }
    for patch in [
        RecordPatch::new().name("Mine"),
        RecordPatch::new().attribute("members", json!([bob.user])),
    ] {
        let error = records.update(&bob, &uri(&both), patch).await.unwrap_err();
        assert!(matches!(error, RecordError::Forbidden { .. }), "{error}");
    }
    assert!(matches!(
        records.update(&eve, &uri(&first), patch).await,
        Err(RecordError::NotFound(_))
    ));
    let refused = records.create(&eve, NewRecord::new("data.note", "x").group("~alice/Both")).await;
    assert!(matches!(refused, Err(RecordError::Forbidden { .. })));
    // A removal cannot be undone: only the owner removes a record.
    let error = records.delete(&bob, &uri(&second), None).await.unwrap_err();
    assert!(matches!(error, RecordError::Forbidden { action: "remove", .. }), "{error}");
    records.delete(&alice, &uri(&second), None).await.unwrap();
}

#[tokio::test]
async fn the_owner_of_a_group_removes_records_of_others() {
    let records = records();
    let alice = user("alice");
    let bob = user("bob");
    note(&records, &alice, "/Team/Notes", "First").await;
    let team = group(&records, &alice, "/", "Team").await;
    share(&records, &alice, &team, &[], &[&bob.user]).await;
    let second = note(&records, &bob, "/Team/Notes", "Second").await;
    assert_eq!(second.owner.as_ref(), Some(&bob.user));
    records.delete(&alice, &uri(&second), None).await.unwrap();
    let third = note(&records, &bob, "/Team/Notes", "Third").await;
    records.delete(&bob, &uri(&third), None).await.unwrap();
}

#[tokio::test]
async fn a_record_in_the_home_of_another_user_belongs_to_that_user() {
    let records = records();
    let alice = user("alice");
    let bob = user("bob");
    note(&records, &alice, "~/Both", "First").await;
    let both = group(&records, &alice, "~", "Both").await;
    share(&records, &alice, &both, &[], &[&bob.user]).await;
    let drafts = || NewRecord::new("auth.group", "Drafts").group("~alice/Both");
    let mut writer = drafts();
    writer.writers = [bob.user.clone()].into();
    for shared in [
        drafts().reader(everyone("default")),
        drafts().attribute("members", json!([bob.user])),
        writer,
        NewRecord::new("data.note", "x").group("~alice/Both").reader(everyone("default")),
        // In groups that are made on the way, too.
        NewRecord::new("data.note", "x").group("~alice/Both/A").reader(everyone("default")),
    ] {
        let error = records.create(&bob, shared).await.unwrap_err();
        assert!(matches!(error, RecordError::Forbidden { .. }), "{error}");
    }
    records.create(&bob, drafts()).await.unwrap();
    let own = NewRecord::new("auth.group", "Own").group("~alice/Both").reader(bob.user.clone());
    records.create(&alice, own).await.unwrap();
    let own = NewRecord::new("data.note", "Mine").group("~").reader(everyone("default"));
    records.create(&bob, own).await.unwrap();
}

#[tokio::test]
async fn the_name_of_a_shared_tag_cannot_be_taken_over() {
    let records = records();
    let alice = user("alice");
    let bob = user("bob");
    let shared = |name: &str| NewRecord::new("common.tag", name).reader(everyone("default"));
    let error = records.create(&bob, shared("bread").object_id("0")).await.unwrap_err();
    assert!(matches!(error, RecordError::Forbidden { .. }), "{error}");

    let bread = records.ensure_tag(&alice, "bread").await.unwrap();
    let again = records.create(&bob, shared("bread")).await.unwrap_err();
    assert!(matches!(again, RecordError::Conflict(_)), "one tag has a name: {again}");
    // Another tag of that name with fewer readers does not conflict with it, for any object id.
    for _ in 0..8 {
        let other = NewRecord::new("common.tag", "bread").reader(alice.user.clone());
        records.create(&bob, other).await.unwrap();
    }
    assert_eq!(records.tag(&user("eve"), "bread").await.unwrap(), bread);
    assert_eq!(records.ensure_tag(&user("eve"), "bread").await.unwrap(), bread);
    let flour = records.ensure_tag(&bob, "flour").await.unwrap();
    for _ in 0..8 {
        let other = NewRecord::new("common.tag", "flour").reader(alice.user.clone());
        records.create(&user("eve"), other).await.unwrap();
    }
    assert_eq!(records.tag(&alice, "flour").await.unwrap(), flour);

    // A name whose tag was renamed is free again.
    records.update(&alice, &uri(&bread), RecordPatch::new().name("loaf")).await.unwrap();
    let new = records.ensure_tag(&user("eve"), "bread").await.unwrap();
    assert_eq!(new.name, "bread");
    assert_ne!(uri(&new), uri(&bread));
}

#[tokio::test]
async fn concurrent_creations_of_a_tag_make_one() {
    let records = records();
    let make = |number: usize| {
        let records = records.clone();
        let caller = user(&format!("user-{number}"));
        tokio::spawn(async move { records.ensure_tag(&caller, "bread").await.unwrap() })
    };
    let all: Vec<_> = (0..16).map(make).collect();
    let mut uris = std::collections::BTreeSet::new();
    for one in all {
        uris.insert(uri(&one.await.unwrap()));
    }
    assert_eq!(uris.len(), 1, "{uris:?}");
}

#[tokio::test]
async fn changes_are_announced_even_if_the_caller_has_gone() {
    let records = records();
    let alice = user("alice");
    let mut events = records.subscribe();
    let new = NewRecord::new("data.note", "Note");
    let mut making = Box::pin(records.create(&alice, new));
    // The caller goes away after the change has begun.
    let step = std::future::poll_fn(|context| {
        std::task::Poll::Ready(making.as_mut().poll(context).is_ready())
    });
    assert!(!step.await, "it does not end at once");
    drop(making);
    let told = tokio::time::timeout(std::time::Duration::from_secs(10), events.recv()).await;
    let event = told.unwrap().unwrap();
    assert_eq!(records.store().count(&RecordFilter::new("default")).await.unwrap(), 1, "{event:?}");
}

#[tokio::test]
async fn members_read_records_that_name_their_group() {
    let records = records();
    let alice = user("alice");
    let bob = user("bob");
    let inner = NewRecord::new("auth.group", "Inner").attribute("members", json!([bob.user]));
    let inner = records.create(&alice, inner).await.unwrap();
    let outer = NewRecord::new("auth.group", "Outer").attribute("members", json!([uri(&inner)]));
    let outer = records.create(&alice, outer).await.unwrap();
    let secret = NewRecord::new("data.note", "Secret").reader(uri(&outer));
    let secret = uri(&records.create(&alice, secret).await.unwrap());
    assert!(records.get(&bob, &secret).await.is_err(), "a user without groups is in none");
    let bob = records.caller("default", "bob", false).await.unwrap();
    assert_eq!(bob.groups, [uri(&inner), uri(&outer)].into());
    assert_eq!(records.get(&bob, &secret).await.unwrap().name, "Secret");
    records
        .update(&alice, &uri(&inner), RecordPatch::new().attribute("members", json!([])))
        .await
        .unwrap();
    let bob = records.caller("default", "bob", false).await.unwrap();
    assert!(bob.groups.is_empty());
    assert!(records.get(&bob, &secret).await.is_err());
}

#[tokio::test]
async fn tags_go_by_name_or_uri() {
    let records = records();
    let alice = user("alice");
    let bob = user("bob");
    let bread = records.ensure_tag(&alice, "bread").await.unwrap();
    assert_eq!(
        records.ensure_tag(&bob, "bread").await.unwrap(),
        bread,
        "a tag is the organisation's"
    );
    let new = NewRecord::new("data.note", "Flour").tag("bread").tag(uri(&bread));
    let flour = records.create(&bob, new).await.unwrap();
    assert_eq!(flour.tags, [uri(&bread)].into());
    let tagged = |tag: &str| {
        let mut filter = RecordFilter::default();
        filter.tags = vec![tag.to_owned()];
        filter
    };
    assert_eq!(
        records.list(&bob, &tagged("bread")).await.unwrap().records,
        std::slice::from_ref(&flour)
    );
    assert_eq!(
        records.list(&bob, &tagged(&uri(&bread))).await.unwrap().records,
        std::slice::from_ref(&flour)
    );
    assert_eq!(records.list(&bob, &tagged("unknown")).await.unwrap().records, []);
    assert_eq!(records.count(&bob, &tagged("unknown")).await.unwrap(), 0);
    // A private tag does not exist for others.
    let own = records.create(&alice, NewRecord::new("common.tag", "own")).await.unwrap();
    let error =
        records.create(&bob, NewRecord::new("data.note", "x").tag(uri(&own))).await.unwrap_err();
    assert!(matches!(error, RecordError::UnknownTag(_)));
    let error =
        records.create(&bob, NewRecord::new("data.note", "x").tag(uri(&flour))).await.unwrap_err();
    assert!(matches!(error, RecordError::UnknownTag(_)), "a note is no tag");

    let error = records.delete(&alice, &uri(&bread), None).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("{} cannot be removed: records have this tag", uri(&bread))
    );
    let mut patch = RecordPatch::new();
    patch.tags = Some([].into());
    records.update(&bob, &uri(&flour), patch).await.unwrap();
    records.delete(&alice, &uri(&bread), None).await.unwrap();
}

#[tokio::test]
async fn groups_go_when_they_are_empty() {
    let records = records();
    let alice = user("alice");
    let deep = note(&records, &alice, "~/A/B", "Note").await;
    let a = group(&records, &alice, "~", "A").await;
    let b = group(&records, &alice, "~/A", "B").await;
    for full in [&a, &b] {
        let error = records.delete(&alice, &uri(full), None).await.unwrap_err();
        assert!(matches!(error, RecordError::NotEmpty(_)), "{error}");
        let error =
            records.update(&alice, &uri(full), RecordPatch::new().name("C")).await.unwrap_err();
        let path = full.path().unwrap();
        let want = format!("the group {path} is not empty: move or remove its records first");
        assert_eq!(error.to_string(), want);
    }
    let mut patch = RecordPatch::new();
    patch.group = Some(Some("~/C/D".to_owned()));
    let moved = records.update(&alice, &uri(&deep), patch).await.unwrap();
    assert_eq!(moved.group.as_deref(), Some("~/C/D"));
    let renamed = records.update(&alice, &uri(&b), RecordPatch::new().name("E")).await.unwrap();
    assert_eq!(renamed.path().as_deref(), Some("~/A/E"));
    let again =
        records.create(&alice, NewRecord::new("auth.group", "E").group("~/A")).await.unwrap_err();
    assert_eq!(again.to_string(), "the group ~/A/E exists already");
    records.delete(&alice, &uri(&b), None).await.unwrap();
    records.delete(&alice, &uri(&a), None).await.unwrap();
    let mut patch = RecordPatch::new();
    patch.group = Some(None);
    assert_eq!(records.update(&alice, &uri(&deep), patch).await.unwrap().group, None);
}

#[tokio::test]
async fn users_are_made_by_administrators_and_stay_while_they_own_records() {
    let records = records();
    let alice = user("alice");
    let admin = user("root").admin();
    let error = records.create(&alice, NewRecord::new("system.user", "Mallory")).await.unwrap_err();
    assert_eq!(error.to_string(), "you may not create system.user");
    let new =
        NewRecord::new("system.user", "Alice").object_id("alice").attribute("status", "ACTIVE");
    let record = records.create(&admin, new).await.unwrap();
    assert_eq!((uri(&record), record.owner.as_ref()), (alice.user.clone(), Some(&alice.user)));
    assert_eq!(records.ensure_user(&alice, "Other").await.unwrap(), record);
    let bob = user("bob");
    let made = records.ensure_user(&bob, "Bob").await.unwrap();
    assert_eq!((made.name.as_str(), made.owner.as_ref()), ("Bob", Some(&bob.user)));
    assert_eq!(records.get(&bob, &bob.user).await.unwrap(), made);

    let kept = note(&records, &alice, "~/Notes", "Kept").await;
    let error = records.delete(&admin, &alice.user, None).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("{} cannot be removed: 2 records belong to this user", alice.user)
    );
    // An administrator gives the note to another, whose home it goes to.
    let mut patch = RecordPatch::new();
    patch.owner = Some(bob.user.clone());
    assert!(matches!(
        records.update(&alice, &uri(&kept), patch.clone()).await,
        Err(RecordError::Forbidden { .. })
    ));
    let given = records.update(&admin, &uri(&kept), patch).await.unwrap();
    assert_eq!(records.find(&bob, "~/Notes", "Kept").await.unwrap(), [given]);
    assert!(records.get(&alice, &uri(&kept)).await.is_err());
    let notes = group(&records, &alice, "~", "Notes").await;
    records.delete(&alice, &uri(&notes), None).await.unwrap();
    records.delete(&admin, &alice.user, None).await.unwrap();
}

#[tokio::test]
async fn an_administrator_creates_records_for_other_owners() {
    let records = records();
    let alice = user("alice");
    let admin = user("root").admin();
    let made = note(&records, &admin, "~alice/From/Root", "Hello").await;
    assert_eq!(made.owner.as_ref(), Some(&alice.user));
    assert_eq!(records.find(&alice, "~/From/Root", "Hello").await.unwrap(), [made]);
    let mut new = NewRecord::new("data.note", "Gift").group("/Gifts");
    new.owner = Some(alice.user.clone());
    records.create(&admin, new).await.unwrap();
    let gifts = group(&records, &alice, "/", "Gifts").await;
    assert_eq!(gifts.owner.as_ref(), Some(&alice.user));
    let mut new = NewRecord::new("data.note", "Lost").group("~");
    new.owner = Some(alice.user);
    let error = records.create(&admin, new).await.unwrap_err();
    assert_eq!(error.to_string(), "the owner is not the user to whose home the path leads");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_make_one_group() {
    let records = Arc::new(records());
    let makers: Vec<_> = (0..32)
        .map(|number| {
            let records = Arc::clone(&records);
            tokio::spawn(async move {
                let new = NewRecord::new("data.note", format!("Note {number}")).group("~/A/B/C");
                records.create(&user("alice"), new).await
            })
        })
        .collect();
    for maker in makers {
        maker.await.unwrap().unwrap();
    }
    let filter = RecordFilter::default();
    assert_eq!(records.count(&user("alice"), &filter).await.unwrap(), 32 + 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_without_a_revision_do_not_lose_each_other() {
    let records = Arc::new(records());
    let made = uri(&note(&records, &user("alice"), "~", "Note").await);
    let writers: Vec<_> = (0..16)
        .map(|number| {
            let records = Arc::clone(&records);
            let made = made.clone();
            let patch = RecordPatch::new().attribute(format!("from {number}"), number);
            tokio::spawn(async move { records.update(&user("alice"), &made, patch).await })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap().unwrap();
    }
    let record = records.get(&user("alice"), &made).await.unwrap();
    assert_eq!((record.attributes.len(), record.revision), (16, 17));
}

#[tokio::test]
async fn attributes_go_with_null() {
    let records = records();
    let alice = user("alice");
    let made = note(&records, &alice, "~", "Note").await;
    let patch = RecordPatch::new().attribute("a", 1).attribute("b", 2);
    records.update(&alice, &uri(&made), patch).await.unwrap();
    let patch = RecordPatch::new().attribute("a", json!(null)).attribute("c", json!(null));
    let after = records.update(&alice, &uri(&made), patch).await.unwrap();
    assert_eq!(json!(after.attributes), json!({"b": 2}));
}

#[tokio::test]
async fn pages_go_on() {
    let records = records();
    let alice = user("alice");
    for number in 0..7 {
        note(&records, &alice, "~", &format!("Note {number}")).await;
    }
    let mut filter = RecordFilter::default();
    filter.limit = Some(3);
    let mut sizes = Vec::new();
    loop {
        let page = records.list(&alice, &filter).await.unwrap();
        sizes.push(page.records.len());
        filter.after = page.next;
        if filter.after.is_none() {
            break;
        }
    }
    assert_eq!(sizes, [3, 3, 1]);
}
