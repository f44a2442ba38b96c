//! Resources and templates of a list.

use marquetry_protocol_wire::types::{Resource, ResourceTemplate};
use serde_json::Value;

use super::{Item, Members, timestamp::is_timestamp};

impl Item for Resource {
    fn repair(members: &mut Members<'_>) -> Result<(), String> {
        repair(members);
        members.remove_unless(Value::is_u64, "size", "a number of bytes");
        Ok(())
    }
}

impl Item for ResourceTemplate {
    fn repair(members: &mut Members<'_>) -> Result<(), String> {
        repair(members);
        Ok(())
    }
}

fn repair(members: &mut Members<'_>) {
    members.repair_common();
    members.strings(&["mimeType"]);
    if let Some(mut annotations) = members.object("annotations") {
        annotations.remove_unless(Value::is_array, "audience", "an array");
        annotations.remove_unless(is_priority, "priority", "a number from 0 to 1");
        annotations.remove_unless(is_time, "lastModified", "an ISO 8601 time with an offset");
    }
}

fn is_priority(value: &Value) -> bool {
    value.as_f64().is_some_and(|priority| (0.0..=1.0).contains(&priority))
}

fn is_time(value: &Value) -> bool {
    value.as_str().is_some_and(is_timestamp)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::list_item::test_support;

    #[track_caller]
    fn check(members: Value, want: Value, repairs: usize) {
        let resource = json!({ "name": "r", "uri": "test://r" });
        test_support::check::<Resource>(&resource, &members, &want, repairs);
        if members.get("size").is_none() {
            let template = json!({ "name": "r", "uriTemplate": "test://{r}" });
            test_support::check::<ResourceTemplate>(&template, &members, &want, repairs);
        }
    }

    #[test]
    fn valid_members_stay() {
        let members = json!({
            "title": "t", "description": "d", "mimeType": "text/plain", "size": 7, "_meta": { "x": 1 },
            "annotations": {
                "audience": ["user"], "priority": 0.5, "lastModified": "2025-01-12T15:00:58Z",
            },
        });
        check(members.clone(), members, 0);
    }

    #[test]
    fn invalid_members_are_removed() {
        check(json!({ "mimeType": 1, "size": "7", "_meta": 1 }), json!({}), 3);
        for size in [json!(-1), json!(1.5)] {
            check(json!({ "size": size }), json!({}), 1);
        }
        check(json!({ "size": null, "annotations": [], "_meta": [] }), json!({}), 0);
        check(json!({ "annotations": "x" }), json!({}), 1);
    }

    #[test]
    fn invalid_annotations_are_removed() {
        for (name, value) in [
            ("audience", json!("user")),
            ("priority", json!("high")),
            ("priority", json!(5)),
            ("lastModified", json!("2025-01-12")),
            ("lastModified", json!(1_736_694_058)),
        ] {
            let annotations = json!({ "annotations": { name: value } });
            check(annotations, json!({ "annotations": {} }), 1);
        }
    }
}
