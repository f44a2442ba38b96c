//! Tests of shortened structured content.

use serde_json::json;

use super::*;

/// Returns the shortened value, after a validator has confirmed that it satisfies the schema as
/// the original did.
#[track_caller]
fn check(schema: &Value, value: &Value, room: usize) -> Value {
    let validator = jsonschema::validator_for(schema).unwrap();
    assert!(validator.is_valid(value), "the example itself");
    assert!(is_shortenable(schema), "{schema}");
    let raw = RawValue::from_string(value.to_string()).unwrap();
    let short = shorten(&raw, schema, room).unwrap().json;
    assert!(short.len() <= room, "{} bytes: {short}", short.len());
    let short: Value = serde_json::from_str(&short).unwrap();
    assert!(validator.is_valid(&short), "{short}");
    short
}

#[test]
fn lists_strings_and_maps_get_shorter() {
    let schema = json!({
        "type": "object",
        "properties": {
            "total": {"type": "integer"},
            "kind": {"enum": ["list", "tree"]},
            "rows": {"type": "array", "items": {"$ref": "#/$defs/Row"}, "minItems": 1},
            "note": {"anyOf": [{"type": "string", "minLength": 3}, {"type": "null"}]},
            "by_name": {"type": "object", "additionalProperties": {"type": "string", "maxLength": 9000}},
        },
        "required": ["total", "kind", "rows"],
        "additionalProperties": false,
        "$defs": {"Row": {
            "type": "object",
            "properties": {"id": {"type": "integer"}, "at": {"type": "string", "format": "date-time"},
                "text": {"type": "string"}, "more": {}},
            "required": ["id", "at"],
        }},
    });
    let rows: Vec<_> = (0..1000)
        .map(|id| json!({"id": id, "at": "2026-01-01T00:00:00Z", "text": "t".repeat(300), "more": [1, {"a": "b"}]}))
        .collect();
    let names: Map<_, _> = (0..500).map(|n| (format!("k{n}"), json!("v".repeat(100)))).collect();
    let value = json!({
        "total": 1000, "kind": "tree", "rows": rows,
        "note": "ä".repeat(3000), "by_name": names,
    });
    let short = check(&schema, &value, 20_000);
    assert_eq!((&short["total"], &short["kind"]), (&json!(1000), &json!("tree")));
    assert_eq!(short["rows"][0]["id"], 0);
    assert!(short["rows"].as_array().unwrap().len() > 3, "{short}");
    assert!(short["note"].as_str().unwrap().ends_with('…'));
    // With less room, less remains; required members stay.
    let short = check(&schema, &value, 150);
    assert_eq!(
        short,
        json!({"total": 1000, "kind": "tree", "rows": [{"id": 0, "at": "2026-01-01T00:00:00Z"}]})
    );
}

#[test]
fn schemas_of_python_and_typescript_are_understood() {
    let long = "x".repeat(10_000);
    // FastMCP wraps values that are not objects; Zod forbids additional members.
    for (schema, value) in [
        (
            json!({"type": "object", "properties": {"result": {"type": "string", "title": "Result"}}, "required": ["result"],
            "title": "tOutput", "x-fastmcp-wrap-result": true}),
            json!({"result": long}),
        ),
        (
            json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {"content": {"type": "string"}},
            "required": ["content"], "additionalProperties": false}),
            json!({"content": long}),
        ),
        (json!({"type": "array", "items": {"type": "string"}}), json!([long, long])),
        (json!({"type": ["object", "null"], "properties": {}}), json!({"a": long})),
        (json!({"anyOf": [{"type": "string"}, {"type": "integer"}]}), json!(long)),
        (
            json!({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2}),
            json!([7, long]),
        ),
        (json!(true), json!({"a": [long]})),
    ] {
        check(&schema, &value, 100);
    }
}

#[test]
fn an_unknown_schema_is_not_shortenable() {
    for schema in [
        json!({"type": "object", "minProperties": 3}),
        json!({"type": "object", "patternProperties": {"^a": {}}}),
        json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "^x*$"}}, "required": ["a"]}),
        json!({"type": "object", "properties": {"a": {"type": "string", "format": "uri"}}, "required": ["a"]}),
        json!({"type": "array", "minItems": 5000}),
        json!({"oneOf": [{"type": "object"}, {"type": "array"}]}),
        json!({"$ref": "https://example.com/schema"}),
        json!({"$ref": "#"}),
        json!({"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}),
        json!({"not": {"type": "string"}}),
        json!(false),
        json!(7),
    ] {
        assert!(!is_shortenable(&schema), "{schema}");
    }
    // Optional members may have any schema.
    assert!(is_shortenable(
        &json!({"type": "object", "properties": {"a": {"minProperties": 3}, "b": {"$ref": "#"}}})
    ));
}

#[test]
fn deep_values_end() {
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let raw = RawValue::from_string(deep).unwrap();
    let schema = json!({"type": "array"});
    assert_eq!(shorten(&raw, &schema, 100).unwrap().json, "[]");
}

#[test]
fn closed_schemas_get_room_for_the_notice() {
    let closed = json!({
        "type": "object", "additionalProperties": false, "required": ["rows"],
        "properties": {"rows": {"type": "array", "items": {"type": "integer"}}},
    });
    let opened = with_room_for_notice(&closed).unwrap();
    let rows: Vec<_> = (0..5_000).collect();
    let value = RawValue::from_string(json!({ "rows": rows }).to_string()).unwrap();
    let shortened = shorten(&value, &opened, 2_000).unwrap().with_notice("rows are missing");
    let shortened: Value = serde_json::from_str(&shortened).unwrap();
    assert_eq!(shortened["marquetry/notice"], "rows are missing");
    assert!(jsonschema::is_valid(&opened, &shortened));
    // The upstream's own answers stay valid.
    assert!(jsonschema::is_valid(&opened, &json!({"rows": [1]})));
    assert!(!jsonschema::is_valid(&opened, &json!({"rows": [1], "more": 1})));
    for schema in [
        json!({"type": "object", "additionalProperties": false, "maxProperties": 1}),
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object", "additionalProperties": false}}}),
        json!({"type": "object", "additionalProperties": false, "properties": {"marquetry/notice": {"type": "integer"}}}),
    ] {
        assert_eq!(with_room_for_notice(&schema), None, "{schema}");
    }
}
