//! Checks, deduplication and budget of context.

use marquetry_context_blocks::parse;
use marquetry_rag::Caller;
use serde_json::{Value, json};

use super::*;

const NOW: u64 = 1_705_320_000_000;

fn owner() -> Owner {
    Owner::new(&Caller::new("default", "alice").unwrap(), Some("chat-1"))
}

fn items(items: Value) -> Vec<ContextItem> {
    serde_json::from_value(items).unwrap()
}

fn reminder(items: Value) -> Value {
    json!({"kind": "reminder", "schema": REMINDER_SCHEMA, "data": {"items": items}})
}

#[track_caller]
fn refused(item: Value, why: &str) {
    let failure = check_items(&items(json!([item])), &owner(), NOW).unwrap_err();
    assert!(failure.message.contains(why), "{failure}");
}

fn fact() -> Value {
    json!([{"key": "tone", "value": "formal"}])
}

fn reminder_with(member: &str, value: Value) -> Value {
    let mut item = reminder(fact());
    item[member] = value;
    item
}

fn keyframe(data: Value) -> Value {
    json!({"kind": "keyframe", "schema": KEYFRAME_SCHEMA, "data": data})
}

fn metrics(schema: &str) -> Value {
    json!({"kind": "metrics", "schema": schema, "data": {}})
}

#[test]
fn wrong_context_is_refused_with_its_member() {
    refused(
        reminder_with("uri", json!("am7://reminder/bob")),
        "context[0].uri: \"am7://reminder/bob\" is a reminder of another user",
    );
    refused(reminder_with("uri", json!("am7://default/reminder/bob")), "another user");
    refused(
        reminder_with("uri", json!("am7://other/reminder/alice")),
        "does not begin with am7://reminder/",
    );
    refused(reminder_with("uri", json!("am7://reminder/../alice")), "is not a URI of the form");
    refused(
        reminder_with("uri", json!("https://example.com/reminder/alice")),
        "does not begin with",
    );
    refused(reminder_with("uri", json!("am7://reminder/alice/more")), "is not a URI of the form");
    refused(
        reminder_with("expires", json!("2024-01-15T12:00:00Z")),
        "context[0].expires: it expired at 2024-01-15T12:00:00Z",
    );
    refused(reminder_with("expires", json!("soon")), "is not a time of RFC 3339");
    refused(reminder_with("schema", json!(KEYFRAME_SCHEMA)), "is not the schema of a reminder");
    refused(reminder(json!([])), "context[0].data: a reminder has a list \"items\"");
    refused(reminder(json!([{"key": 1, "value": 2}])), "a reminder has a list");
    refused(reminder(json!([{"key": "a"}])), "a reminder has a list");
    let late = json!({"items": fact(), "expires": "2024-01-15T13:00:00+01:00"});
    refused(reminder_with("data", late), "context[0].data.expires: it expired");
    refused(keyframe(json!({})), "a keyframe has an object \"state\"");
    refused(keyframe(json!({"state": {}, "timestamp": "noon"})), "context[0].data.timestamp");
    for schema in
        ["", "urn:", "http://x", "urn:a b", "urn:am7:vector:search-result", REMINDER_SCHEMA]
    {
        refused(metrics(schema), "context[0].schema");
    }
    refused(metrics(&format!("urn:{}", "x".repeat(300))), "more than 256");
    let many = items(Value::Array(vec![metrics("urn:x"); 65]));
    assert!(check_items(&many, &owner(), NOW).unwrap_err().message.contains("at most 64"));
    // Who says it is not the caller's to choose.
    let trusted = json!({"kind": "metrics", "schema": "urn:x", "data": {}, "trust": "server"});
    let error = serde_json::from_value::<ContextItem>(trusted).unwrap_err();
    assert!(error.to_string().contains("unknown field `trust`"), "{error}");
}

#[test]
fn context_has_default_uris_and_keeps_given_ones() {
    let given = items(json!([
        reminder(json!([{"key": "a", "value": null}])),
        {"kind": "keyframe", "schema": KEYFRAME_SCHEMA, "data": {"state": {}}},
        {"kind": "metrics", "schema": "urn:am7:biometric:face-analysis", "data": {}},
        {"kind": "metrics", "schema": "urn:x", "data": {}, "uri": "am7://metrics/pulse", "ephemeral": false},
    ]));
    let plan = plan(check_items(&given, &owner(), NOW).unwrap(), Vec::new(), 10_000);
    let uris: Vec<&str> = plan.sent.iter().map(|(_, uri)| uri.as_str()).collect();
    assert_eq!(
        uris,
        [
            "am7://reminder/alice",
            "am7://keyframe/chat-1",
            "am7://metrics/face-analysis",
            "am7://metrics/pulse"
        ]
    );
    let shown: Vec<bool> = parse(&plan.metrics)
        .blocks
        .iter()
        .map(marquetry_context_blocks::Block::is_ephemeral)
        .collect();
    assert_eq!(shown, [true, false]);
}

#[test]
fn a_uri_cannot_claim_another_kind() {
    for (kind, schema, uri, is_good) in [
        ("metrics", "urn:x", "am7://metrics/citations/x", false),
        ("keyframe", KEYFRAME_SCHEMA, "am7://keyframe/vector/x", false),
        ("keyframe", KEYFRAME_SCHEMA, "am7://keyframe/scene/3", true),
        ("keyframe", KEYFRAME_SCHEMA, "am7://keyframe/scene", true),
    ] {
        let given =
            items(json!([{"kind": kind, "schema": schema, "data": {"state": {}}, "uri": uri}]));
        assert_eq!(check_items(&given, &owner(), NOW).is_ok(), is_good, "{uri}");
    }
}

#[test]
fn context_that_must_fit_names_the_block_that_does_not() {
    let given = items(json!([
        {"kind": "metrics", "schema": "urn:x", "data": {"pulse": "6".repeat(300)}},
        {"kind": "keyframe", "schema": KEYFRAME_SCHEMA, "data": {"state": {}, "timestamp": "2024-01-15T10:00:00Z"}},
        {"kind": "keyframe", "schema": KEYFRAME_SCHEMA, "data": {"state": {}, "timestamp": "2024-01-15T11:00:00Z"}},
    ]));
    let given = check_items(&given, &owner(), NOW).unwrap();
    let failure = plan_whole(given.clone(), 300).unwrap_err();
    assert!(failure.message.starts_with("context am7://metrics/x: its "), "{failure}");
    assert_eq!(plan_whole(given, 10_000).unwrap().left_out.len(), 1, "the older keyframe");
}

#[test]
fn the_budget_goes_to_metrics_then_reminders_then_the_keyframe() {
    let given = items(json!([
        {"kind": "keyframe", "schema": KEYFRAME_SCHEMA, "data": {"state": {"at": "office"}}},
        reminder(json!([{"key": "tone", "value": "formal"}])),
        {"kind": "metrics", "schema": "urn:x", "data": {"pulse": 60}},
        {"kind": "metrics", "schema": "urn:x", "data": {"pulse": 60}},
    ]));
    let given = check_items(&given, &owner(), NOW).unwrap();
    let whole = plan(given.clone(), Vec::new(), 10_000);
    assert_eq!((whole.left_out.len(), whole.sent.len()), (0, 3), "equal metrics are put once");
    let used = 10_000 - whole.room;
    assert_eq!(used, whole.before_history.len() + whole.metrics.len());
    for (missing, kinds) in [
        (1, vec![ContextKind::Reminder, ContextKind::Metrics]),
        (used - whole.metrics.len(), vec![ContextKind::Metrics]),
        (used, vec![]),
    ] {
        let plan = plan(given.clone(), Vec::new(), used - missing);
        let sent: Vec<ContextKind> = plan.sent.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(sent, kinds);
        assert_eq!(plan.left_out.len(), 3 - kinds.len(), "{plan:?}");
        assert!(plan.left_out[0].reason.contains("max_context_bytes"), "{plan:?}");
    }
}

#[test]
fn a_key_counts_once_and_only_the_newest_keyframe_is_put() {
    let given = items(json!([
        reminder(json!([{"key": "tone", "value": "formal"}, {"key": "tone", "value": "rude"}])),
        {"kind": "keyframe", "schema": KEYFRAME_SCHEMA, "data": {"state": {"n": 1}, "timestamp": "2024-01-15T10:00:00Z"}},
        {"kind": "keyframe", "schema": KEYFRAME_SCHEMA, "data": {"state": {"n": 2}, "timestamp": "2024-01-15T11:00:00Z"}},
    ]));
    let given = check_items(&given, &owner(), NOW).unwrap();
    let stored = items(json!([
        reminder(json!([{"key": "tone", "value": "casual"}, {"key": "name", "value": "Ann"}])),
        reminder(json!([{"key": "name", "value": "Bob"}])),
        {"kind": "keyframe", "schema": KEYFRAME_SCHEMA, "data": {"state": {"n": 0}, "timestamp": "2024-01-15T09:00:00Z"}},
    ]));
    let stored = check_items(&stored, &owner(), NOW).unwrap();
    let plan = plan(given, stored, 10_000);
    let values: Vec<Value> =
        parse(&plan.before_history).blocks.iter().map(|block| block.payload().data).collect();
    assert_eq!(
        values,
        [
            json!({"items": [{"key": "name", "value": "Ann"}]}),
            json!({"items": [{"key": "tone", "value": "formal"}]}),
            json!({"state": {"n": 2}, "timestamp": "2024-01-15T11:00:00Z"}),
        ]
    );
    let reasons: Vec<&str> = plan.left_out.iter().map(|left| left.reason.as_str()).collect();
    assert_eq!(
        reasons,
        [
            "each of its keys is in a reminder that takes precedence",
            "am7://keyframe/chat-1 is a newer keyframe"
        ]
    );
}
