//! Attempts of hostile callers.

use std::collections::BTreeSet;

use marquetry_records::{
    ContentChange, NewRecord, RecordError, RecordFilter, RecordPatch, administrators, everyone,
};
use serde_json::{Value, json};

use super::{records, user};

/// Checks that such a record can neither be created nor be made by a change, and the error.
#[track_caller]
fn refused(new: NewRecord, want: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let error = runtime.block_on(async {
        let records = records();
        let alice = user("alice");
        let before = NewRecord::new(new.kind.clone(), "Before").group("~/There");
        let before = records.create(&alice, before).await.unwrap();
        let mut patch = RecordPatch::new();
        patch.name = Some(new.name.clone());
        patch.group = new.group.clone().map(Some);
        patch.tags = Some(new.tags.clone());
        patch.readers = Some(new.readers.clone());
        patch.writers = Some(new.writers.clone());
        patch.media_type = Some(new.media_type.clone());
        patch.attributes = new.attributes.clone();
        patch.owner.clone_from(&new.owner);
        if let Some(content) = &new.content {
            patch.content = ContentChange::Set(content.clone());
        }
        let by_id = new.object_id.is_some();
        let created = records.create(&alice, new).await.unwrap_err().to_string();
        if !by_id {
            let updated = records
                .update(&alice, &before.uri().unwrap(), patch)
                .await
                .unwrap_err()
                .to_string();
            assert!(
                created == updated || created.starts_with("you may not"),
                "{created}\n{updated}"
            );
        }
        // Nothing was created, also no group of the path.
        let left = records.list(&alice, &RecordFilter::default()).await.unwrap().records;
        assert_eq!(left.len(), 2, "{left:?}");
        assert_eq!(left.iter().filter(|one| **one == before).count(), 1);
        created
    });
    let error: String = error.chars().take(300).collect();
    assert_eq!(error, want);
}

fn note() -> NewRecord {
    NewRecord::new("data.note", "Note")
}

#[test]
fn invisible_names_are_refused() {
    let named = |name: &str| NewRecord::new("data.note", name).group("~/New");
    refused(named("a\u{0}b"), "the name holds the character U+0000");
    refused(named("a\nb"), "the name holds the character U+000A");
    refused(named("a\u{202E}b"), "the name holds the character U+202E");
    refused(named("a\u{200B}b"), "the name holds the character U+200B");
    refused(named("a\u{FEFF}b"), "the name holds the character U+FEFF");
    refused(named("a\u{AD}b"), "the name holds the character U+00AD");
    refused(named("a\u{E0041}b"), "the name holds the character U+E0041");
    refused(named("\u{2028}"), "the name is empty");
    refused(named(""), "the name is empty");
    refused(named(" \t"), "the name is empty");
    refused(named(".."), "the name is \"..\", which is not allowed");
    refused(
        named(&"x".repeat(1 << 20)),
        "the name has 1048576 bytes, more than max_name_bytes (512)",
    );
    refused(NewRecord::new("auth.group", "a/b").group("~/New"), "the name of a group holds a /");
}

#[test]
fn paths_that_lead_elsewhere_are_refused() {
    let at = |path: &str| note().group(path);
    refused(at("~/../bob"), "the group path is \"..\", which is not allowed");
    refused(at("/a/./b"), "the group path is \".\", which is not allowed");
    refused(at("/a//b"), "the group path is empty");
    refused(at("//"), "the group path is empty");
    refused(at("Notes"), "the group path begins with neither ~ nor /: \"Notes\"");
    refused(at(""), "the group path begins with neither ~ nor /: \"\"");
    refused(at("~/a\u{1B}[2J"), "the group path holds the character U+001B");
    refused(at(&"/x".repeat(33)), "the group path has 33 groups, more than max_path_depth (32)");
    refused(
        at(&"/x".repeat(1 << 20)),
        "the group path has 2097152 bytes, more than max_path_bytes (1024)",
    );
    refused(
        at("~../x"),
        "\"..\" is not a record URI: a segment of the URI is \"..\"; `.` and `..` are not allowed",
    );
    refused(at("~bob"), "you may not put anything into ~bob");
    refused(at("~bob/Notes/"), "you may not put anything into ~bob/Notes");
}

#[test]
fn attributes_are_bounded() {
    let with = |value: Value| note().group("~/New").attribute("x", value);
    let long = Value::Array(vec![Value::Null; 100_000]);
    refused(
        with(long),
        "the list of attributes has 100001 values, more than max_attributes (20000)",
    );
    let large = Value::String("x".repeat(2 << 20));
    refused(
        with(large),
        "the list of attributes has 2097153 bytes, more than max_attribute_bytes (1048576)",
    );
    let name = NewRecord::new("data.note", "Note").attribute("x".repeat(2 << 20), 1);
    refused(
        name,
        "the list of attributes has 2097152 bytes, more than max_attribute_bytes (1048576)",
    );
    refused(
        note().attribute("text", 7),
        "the attribute \"text\" of data.note is a text, not a number",
    );
    let group = NewRecord::new("auth.group", "Team");
    refused(
        group.clone().attribute("members", json!(["alice"])),
        "the attribute \"members\" of auth.group is a list of am7:// URIs, not a list",
    );
    refused(
        group.clone().attribute("members", json!(["am7://other/system.user/bob"])),
        "the list of members names \"am7://other/system.user/bob\", which is not a system.user or auth.group of default",
    );
    let many: Vec<_> =
        (0..10_001).map(|number| format!("am7://default/system.user/{number}")).collect();
    refused(
        group.attribute("members", json!(many)),
        "the list of members has 10001 names, more than max_members (10000)",
    );
}

#[tokio::test]
async fn depth_is_refused_before_anything_descends() {
    let records = records();
    let alice = user("alice");
    let deep = || (0..10_000).fold(Value::Null, |inner, _| Value::Array(vec![inner]));
    let want = "the list of attributes has 33 levels, more than max_attribute_depth (32)";
    let error = records.create(&alice, note().attribute("x", deep())).await.unwrap_err();
    assert_eq!(error.to_string(), want);
    let made = records.create(&alice, note()).await.unwrap().uri().unwrap();
    let error =
        records.update(&alice, &made, RecordPatch::new().attribute("x", deep())).await.unwrap_err();
    assert_eq!(error.to_string(), want);
}

#[test]
fn tags_and_readers_are_bounded() {
    let many = |count: usize| {
        (0..count).map(|number| format!("am7://default/common.tag/{number}")).collect()
    };
    let mut new = note();
    new.tags = many(200_000);
    refused(new, "the list of tags has 200000 tags, more than max_tags (256)");
    let mut new = note();
    new.readers = many(257);
    refused(new, "the list of readers has 257 names, more than max_readers (256)");
    refused(note().tag("nothing"), "no tag \"nothing\"; create it first");
    refused(
        note().tag("am7://default/common.tag/x"),
        "no tag \"am7://default/common.tag/x\"; create it first",
    );
    refused(
        note().tag("am7://other/common.tag/x"),
        "no tag \"am7://other/common.tag/x\"; create it first",
    );
    refused(
        note().reader("bob"),
        "\"bob\" is not a record URI: the URI does not begin with am7://",
    );
    let not = |uri: &str| {
        format!(
            "the list of writers names {uri:?}, which is not a system.user or auth.group of default"
        )
    };
    for uri in [
        "am7://other/system.user/bob",
        "am7://default/data.data/bob",
        "am7://default/media/system.user/bob",
        "am7://default/system.user/bob?group=/Shared",
        "am7://default/vector/search?q=x",
    ] {
        refused(note().writer(uri), &not(uri));
    }
}

#[test]
fn media_types_and_contents_are_looked_at() {
    for media_type in [
        "",
        "text",
        "text/",
        "text/html\r\nX: y",
        "é/x",
        "a b/c",
        "image/png;x,text/html",
        "audio/ogg;a=b,text/html",
        "audio/ogg;a=\"b,text/html\"",
    ] {
        let want = format!("the media type does not read: {media_type:?}");
        refused(note().content(media_type, "x"), &want);
    }
    let large = vec![0; (64 << 20) + 1];
    refused(
        note().content("text/plain", large),
        "the content has 67108865 bytes, more than max_content_bytes (67108864)",
    );
}

#[test]
fn no_caller_can_pass_for_another() {
    let mut new = note();
    new.owner = Some("am7://default/system.user/bob".to_owned());
    refused(new, "you may not create records for am7://default/system.user/bob");
    refused(
        NewRecord::new("auth.group", "Team").object_id("team"),
        "you may not choose the object id of a group",
    );
    for id in ["..", "a/b", "", "a\u{0}", "'; DROP TABLE record_item; --"] {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let error =
            runtime.block_on(records().create(&user("alice"), note().object_id(id))).unwrap_err();
        assert!(matches!(error, RecordError::Uri { .. }), "{error}");
    }
}

#[tokio::test]
async fn shared_groups_have_no_owner() {
    let records = records();
    let admin = user("root").admin();
    for id in ["everyone", "administrators"] {
        let new = NewRecord::new("auth.group", "Mine").object_id(id);
        let error = records.create(&admin, new).await.unwrap_err();
        assert_eq!(error.to_string(), format!("the object id {id} is reserved"));
    }
    // A caller who claims membership in the group of administrators is no administrator.
    let note = records.create(&user("alice"), note()).await.unwrap();
    let mut bob = user("bob");
    bob.groups = [administrators("default"), everyone("default")].into();
    assert!(records.get(&bob, &note.uri().unwrap()).await.is_err());
    assert!(!records.principals(&bob).await.unwrap().contains(&administrators("default")));
    assert!(records.principals(&admin).await.unwrap().contains(&administrators("default")));
}

#[tokio::test]
async fn questions_are_bounded_too() {
    let records = records();
    let alice = user("alice");
    let filter = |change: &dyn Fn(&mut RecordFilter)| {
        let mut filter = RecordFilter::default();
        change(&mut filter);
        filter
    };
    let many = filter(&|filter| filter.tags = vec!["x".to_owned(); 1_000_000]);
    let error = records.list(&alice, &many).await.unwrap_err();
    assert_eq!(error.to_string(), "the list of tags has 1000000 tags, more than max_tags (256)");
    let long = filter(&|filter| filter.name = Some("x".repeat(1 << 20)));
    assert!(matches!(
        records.list(&alice, &long).await,
        Err(RecordError::Limit { limit: "max_name_bytes", .. })
    ));
    let up = filter(&|filter| filter.group = Some("~/../bob".to_owned()));
    assert!(matches!(records.list(&alice, &up).await, Err(RecordError::Invalid { .. })));
    for uri in ["", "x", "am7://default/data.note/..", &"am7://".repeat(1 << 16)] {
        let error = records.get(&alice, uri).await.unwrap_err();
        assert!(matches!(error, RecordError::Uri { .. }), "{error}");
        assert!(error.to_string().len() < 500);
    }
    for uri in ["am7://default/vector/search?q=x", "am7://other/data.note/x", "am7://default/a.b/c"]
    {
        let error = records.get(&alice, uri).await.unwrap_err();
        assert!(matches!(error, RecordError::NotFound(_)), "{error}");
    }
    // Readers and organisation in the filter of a caller are ignored.
    let bobs = records.create(&user("bob"), note()).await.unwrap();
    let mut greedy = RecordFilter::new("default");
    greedy.readers = Some(BTreeSet::from(["am7://default/system.user/bob".to_owned()]));
    greedy.owners = vec!["am7://default/system.user/bob".to_owned()];
    assert_eq!(records.list(&alice, &greedy).await.unwrap().records, []);
    greedy.group = Some("~bob".to_owned());
    greedy.limit = Some(usize::MAX);
    assert_eq!(records.list(&alice, &greedy).await.unwrap().records, []);
    greedy.group = None;
    assert_eq!(records.list(&user("bob"), &greedy).await.unwrap().records, [bobs]);
}
