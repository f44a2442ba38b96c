//! Permissions on records.

use marquetry_records::{
    ModelType, NewRecord, RecordChange, RecordError, RecordFilter, RecordPatch, everyone,
};

use super::{records, user};

#[tokio::test]
async fn a_note_lives_from_creation_to_removal() {
    let records = records();
    let alice = user("alice");
    let bob = user("bob");
    let mut events = records.subscribe();
    let new =
        NewRecord::new("data.note", "Flour").group("~/Notes/Bread").attribute("text", "Type 550.");
    let note = records.create(&alice, new).await.unwrap();
    let uri = note.uri().unwrap();
    assert_eq!((note.group.as_deref(), note.revision), (Some("~/Notes/Bread"), 1));
    assert_eq!(note.owner.as_deref(), Some("am7://default/system.user/alice"));
    assert_eq!(records.get(&alice, &uri).await.unwrap(), note);

    // The record does not exist for other callers.
    assert!(matches!(records.get(&bob, &uri).await, Err(RecordError::NotFound(_))));
    let patch = RecordPatch::new().attribute("text", "Type 1050.");
    assert!(matches!(
        records.update(&bob, &uri, patch.clone()).await,
        Err(RecordError::NotFound(_))
    ));
    assert!(matches!(records.delete(&bob, &uri, None).await, Err(RecordError::NotFound(_))));
    assert_eq!(records.list(&bob, &RecordFilter::default()).await.unwrap().records, []);

    let found = records.find(&alice, "~/Notes/Bread", "Flour").await.unwrap();
    assert_eq!(found, std::slice::from_ref(&note));
    let changed = records.update(&alice, &uri, patch.clone().revision(1)).await.unwrap();
    assert_eq!((changed.text(), changed.revision), (Some("Type 1050."), 2));
    let late = records.update(&alice, &uri, patch.revision(1)).await.unwrap_err();
    assert_eq!(late.to_string(), format!("{uri} was changed meanwhile: it has revision 2, not 1"));
    records.delete(&alice, &uri, Some(2)).await.unwrap();
    assert!(matches!(records.get(&alice, &uri).await, Err(RecordError::NotFound(_))));

    let mut seen = Vec::new();
    while let Ok(event) = events.try_recv() {
        assert!(event.is_directly_for(&alice) && !event.is_directly_for(&bob));
        seen.push((event.change, event.kind));
    }
    let of = |change, kind: &str| (change, kind.to_owned());
    assert_eq!(
        seen,
        [
            of(RecordChange::Created, "auth.group"),
            of(RecordChange::Created, "auth.group"),
            of(RecordChange::Created, "data.note"),
            of(RecordChange::Updated, "data.note"),
            of(RecordChange::Deleted, "data.note"),
        ]
    );
}

#[tokio::test]
async fn readers_of_a_group_read_its_records() {
    let records = records();
    let alice = user("alice");
    let bob = user("bob");
    let new = NewRecord::new("data.note", "Plan").group("/Shared/Papers");
    let note = records.create(&alice, new).await.unwrap().uri().unwrap();
    let groups = records.list(&alice, &RecordFilter::default()).await.unwrap().records;
    let shared = groups.iter().find(|group| group.name == "Shared").unwrap().uri().unwrap();
    assert!(records.get(&bob, &note).await.is_err());

    let mut patch = RecordPatch::new();
    patch.readers = Some([everyone("default")].into());
    records.update(&alice, &shared, patch).await.unwrap();
    assert_eq!(records.get(&bob, &note).await.unwrap().name, "Plan");
    assert_eq!(records.list(&bob, &RecordFilter::default()).await.unwrap().records.len(), 3);
    let readers = records.get(&bob, &note).await.unwrap().readable_by();
    let principals = records.principals(&bob).await.unwrap();
    assert!(readers.iter().any(|reader| principals.contains(reader)));
    // Permission to read does not allow changes.
    let patch = RecordPatch::new().attribute("text", "x");
    let error = records.update(&bob, &note, patch).await.unwrap_err();
    assert_eq!(error.to_string(), format!("you may not change {note}"));
    let error = records.create(&bob, NewRecord::new("data.note", "x").group("/Shared/New")).await;
    assert_eq!(error.unwrap_err().to_string(), "you may not put anything into /Shared/New");
}

/// A refusal reveals the name of a top-level group, because all users share these paths, and no
/// other name.
#[tokio::test]
async fn refusals_reveal_no_groups_below_the_top() {
    let records = records();
    let alice = user("alice");
    let bob = user("bob");
    let put = async |caller, path: &str| {
        let made = records.create(caller, NewRecord::new("data.note", "x").group(path)).await;
        made.err().map(|error| error.to_string())
    };
    for path in ["/Shared/Secret/Deep", "~/Secret"] {
        assert_eq!(put(&alice, path).await, None);
    }
    for path in [
        "/Shared",
        "/Shared/Secret",
        "/Shared/No",
        "/Shared/Secret/Deep",
        "~alice/Secret",
        "~alice/No",
    ] {
        let want = format!("you may not put anything into {path}");
        assert_eq!(put(&bob, path).await, Some(want));
    }
    assert_eq!(put(&bob, "/Other").await, None);
}

#[test]
fn types_that_are_unknown_are_refused() {
    let check = |name: &str, want: &str| {
        assert_eq!(ModelType::of(name).unwrap_err().to_string(), want);
    };
    check("data.dat", "no type \"data.dat\"; did you mean data.data?");
    check("Data.Note", "no type \"Data.Note\"; did you mean data.note?");
    check("chatconfig", "no type \"chatconfig\"; did you mean olio.llm.chatConfig?");
    let far = ModelType::of("zzz").unwrap_err().to_string();
    assert!(far.starts_with("no type \"zzz\"; the types are system.user, auth.group, "), "{far}");
    assert!(ModelType::of(&"x".repeat(1 << 20)).unwrap_err().to_string().len() < 1_000);
}
