//! The tests of the seed for records and their URIs.

use marquetry_context_blocks::Am7Uri;
use marquetry_records::{ModelType, Record, ResourceView};
use serde_json::{Map, Value, json};

fn fields(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

/// seed: 003/ResourceAdapterTest.testUserToMcpResource
#[test]
fn a_user_is_a_resource() {
    let mut user = Record::new("system.user", "testuser").with_object_id("user-123");
    user.created = 1_700_000_000_000;
    let view = ResourceView::of(&user).unwrap();
    assert_eq!(view.uri, "am7://default/system.user/user-123");
    assert_eq!(view.name, "testuser");
    assert_eq!(view.mime_type, "application/json");
    assert_eq!(view.contents["name"], "testuser");
    assert_eq!(view.contents["created"], 1_700_000_000_000_u64);
    assert_eq!(view.record("system.user").unwrap(), user);
}

/// seed: 003/ResourceAdapterTest.testGroupToMcpResource
#[test]
fn a_group_is_a_resource() {
    let mut group = Record::new("auth.group", "TestGroup").with_object_id("group-456");
    group.attributes.insert("members".to_owned(), json!(["am7://default/system.user/user-123"]));
    let view = ResourceView::of(&group).unwrap();
    assert_eq!(view.uri, "am7://default/auth.group/group-456");
    assert_eq!(view.name, "TestGroup");
    assert_eq!(view.contents["members"][0], "am7://default/system.user/user-123");
    assert_eq!(view.record("auth.group").unwrap(), group);
}

/// seed: 003/ResourceAdapterTest.testMcpResourceToBaseRecord
#[test]
fn a_resource_becomes_a_record() {
    let contents = fields(json!({"name": "newuser", "status": "ACTIVE", "groupPath": "~/People"}));
    let view = ResourceView::new("am7://default/system.user/new-user", contents.clone());
    let record = view.record("system.user").unwrap();
    assert_eq!(record.name, "newuser");
    assert_eq!(record.attributes["status"], "ACTIVE");
    assert_eq!(record.group.as_deref(), Some("~/People"));
    assert_eq!((record.object_id.as_str(), record.organization.as_str()), ("new-user", "default"));

    // The URI takes precedence over the contents.
    let contents =
        fields(json!({"objectId": "other", "organizationPath": "other", "type": "data.data"}));
    let record =
        ResourceView::new("am7://default/system.user/new-user", contents).record("system.user");
    assert_eq!(record.unwrap().uri().as_deref(), Some("am7://default/system.user/new-user"));

    let error = ResourceView::new("am7://default/data.data/x", Map::new()).record("system.user");
    assert_eq!(
        error.unwrap_err().to_string(),
        "the URI is not of the type system.user: am7://default/data.data/x"
    );
    let contents = fields(json!({"name": 7}));
    let error = ResourceView::new("am7://default/system.user/x", contents).record("system.user");
    assert_eq!(error.unwrap_err().to_string(), "name must be a text");
}

/// seed: 003/ResourceAdapterTest.testMediaResourceConversion
#[test]
fn a_medium_is_read_under_its_own_uri() {
    let mut media = Record::new("data.data", "test.png").with_object_id("img-789");
    media.media_type = Some("image/png".to_owned());
    let view = ResourceView::of(&media).unwrap();
    assert_eq!(view.mime_type, "image/png");
    assert_eq!(view.uri, "am7://default/media/data.data/img-789");
    assert_eq!(view.record("data.data").unwrap(), media);

    // Text is not a medium, and neither is a record that is not a document.
    for media_type in ["text/plain; charset=utf-8", "application/json", "Application/LD+JSON"] {
        media.media_type = Some(media_type.to_owned());
        assert_eq!(media.resource_uri().as_deref(), Some("am7://default/data.data/img-789"));
    }
    media.media_type = Some("image/png".to_owned());
    media.kind = "data.note".to_owned();
    assert_eq!(media.resource_uri().as_deref(), Some("am7://default/data.note/img-789"));
}

/// seed: 003/Am7UriRoundTripTest.testBaseRecordToUriAndBack
#[test]
fn a_record_has_a_uri_that_reads_back() {
    let user = Record::new("system.user", "alice").with_object_id("user-abc-123");
    let uri = user.uri().unwrap();
    assert_eq!(uri, "am7://default/system.user/user-abc-123");
    let parsed = Am7Uri::parse(&uri).unwrap();
    assert_eq!(parsed.object_type(), Some("system.user"));
    assert_eq!(parsed.id(), Some("user-abc-123"));
    assert_eq!(parsed.organization(), "default");
}

/// seed: 003/Am7UriRoundTripTest.testChatConfigToUri
#[test]
fn a_chat_configuration_has_a_uri() {
    let config = Record::new("olio.llm.chatConfig", "chat").with_object_id("chat-789");
    assert_eq!(config.uri().as_deref(), Some("am7://default/olio.llm.chatConfig/chat-789"));
}

/// seed: 003/Am7UriRoundTripTest.testVectorStoreRecordToUri
#[test]
fn a_chunk_has_a_uri() {
    let chunk = Record::new("common.vectorModelStore", "chunk").with_object_id("vec-001");
    assert_eq!(chunk.uri().as_deref(), Some("am7://default/common.vectorModelStore/vec-001"));
}

/// seed: 003/Am7UriRoundTripTest.testNullObjectIdReturnsNull
#[test]
fn without_an_object_id_there_is_no_uri() {
    let user = Record::new("system.user", "alice");
    assert_eq!((user.uri(), user.media_uri(), user.resource_uri()), (None, None, None));
    assert_eq!(ResourceView::of(&user), None);
    // Nor is there a URI that leads outside or reads back as another one.
    for (kind, id) in [("system.user", ".."), ("system.user", "a/b"), ("", "x"), ("media", "x")] {
        let record = Record::new(kind, "x").with_organization("a/b").with_object_id(id);
        assert_eq!(record.uri(), None, "{kind} {id}");
    }
    let record = Record::new("x.y", "x").with_organization("a/media").with_object_id("id");
    assert_eq!(record.uri(), None);
}

/// seed: 003/Am7UriRoundTripTest.testAllModelTypesProduceValidUris
#[test]
fn every_type_has_uris_that_read_back() {
    assert!(ModelType::ALL.len() >= 12);
    for model in ModelType::ALL {
        let record =
            Record::new(model.name, "x").with_object_id(format!("test-{}", model.name.len()));
        let uri = record.uri().unwrap();
        assert!(uri.starts_with("am7://"), "{uri}");
        let parsed = Am7Uri::parse(&uri).unwrap();
        assert_eq!(parsed.object_type(), Some(model.name));
        assert_eq!(parsed.id(), Some(record.object_id.as_str()));
        assert_eq!(ModelType::of(model.name).unwrap(), model);
    }
}
