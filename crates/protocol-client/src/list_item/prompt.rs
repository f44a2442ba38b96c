//! Prompts of a list.

use marquetry_protocol_wire::types::Prompt;
use serde_json::Value;

use super::{Item, Members};

impl Item for Prompt {
    fn repair(members: &mut Members<'_>) -> Result<(), String> {
        members.repair_common();
        members.objects("arguments", "name", |argument| {
            argument.strings(&["title", "description"]);
            argument.remove_unless(Value::is_boolean, "required", "a boolean");
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::list_item::test_support;

    #[track_caller]
    fn check(members: Value, want: Value, repairs: usize) {
        test_support::check::<Prompt>(&json!({ "name": "p" }), &members, &want, repairs);
    }

    #[test]
    fn invalid_arguments_are_repaired_or_removed() {
        let valid = json!({ "name": "a", "description": "d", "required": true });
        check(with_argument(valid.clone()), with_argument(valid), 0);
        let plain = with_argument(json!({ "name": "a", "required": false }));
        check(with_argument(json!({ "name": "a", "required": null })), plain.clone(), 0);
        check(with_argument(json!({ "name": "a", "required": "no", "title": 1 })), plain, 2);
        check(with_argument(json!("a")), json!({}), 1);
        check(json!({ "arguments": [{ "name": 1 }, {}] }), json!({}), 2);
        check(json!({ "arguments": null }), json!({}), 0);
        check(json!({ "arguments": {} }), json!({}), 0);
        check(json!({ "arguments": { "a": "string" } }), json!({}), 1);
    }

    #[test]
    fn invalid_texts_and_metadata_are_removed() {
        check(json!({ "title": 5, "description": ["d"], "_meta": "m" }), json!({}), 3);
        check(json!({ "title": null, "description": null, "_meta": [] }), json!({}), 0);
    }

    #[test]
    fn invalid_members_of_icons_are_removed() {
        let plain = with_icon(json!({ "src": "https://a.example/i.png" }));
        for (members, repairs) in [
            (json!({ "theme": "auto" }), 1),
            (json!({ "sizes": "48x48" }), 1),
            (json!({ "sizes": null, "mimeType": null, "theme": null }), 0),
            (json!({ "sizes": [48], "mimeType": 1 }), 2),
        ] {
            let mut odd = json!({ "src": "https://a.example/i.png" });
            odd.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
            check(with_icon(odd), plain.clone(), repairs);
        }
        check(with_icon(json!({})), json!({}), 1);
        check(json!({ "icons": "https://a.example/i.png" }), json!({}), 1);
        check(json!({ "icons": {} }), json!({}), 0);
    }

    fn with_argument(argument: Value) -> Value {
        json!({ "arguments": [argument] })
    }

    fn with_icon(icon: Value) -> Value {
        json!({ "icons": [icon] })
    }
}
