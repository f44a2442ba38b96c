//! Removes keys that only this server writes from what upstreams send.
//!
//! A client reads from these keys of `_meta` whether an answer was shortened, where the rest of it
//! is, and which server failed. An upstream that wrote them could lead the client to believe a
//! notice of this server.

use indexmap::IndexMap;
use marquetry_artifacts::META_KEY as CAPTURE_KEY;
use marquetry_protocol::types::JsonObject;
use serde_json::value::{RawValue, to_raw_value};

use crate::{
    asker::UPSTREAM_KEY, listing::Listing, parked_calls::FAILURE_KIND,
    tool_names::ORIGINAL_NAME_KEY,
};

/// The keys that this server writes into the `_meta` of upstreams' answers and items, or into the
/// data of errors. Keys in answers of this server's own tools are not among them: if an upstream is
/// a Marquetry, too, its Views need them.
const OWN_KEYS: [&str; 6] = [
    CAPTURE_KEY,
    UPSTREAM_KEY,
    FAILURE_KIND,
    ORIGINAL_NAME_KEY,
    // The crate `server` writes these two.
    "marquetry/error",
    "marquetry/name",
];

/// Members of a result with objects that have `_meta`.
const NESTED: [&str; 4] = ["content", "contents", "messages", "resource"];
/// Levels of objects: result, message, content, resource.
const MAX_LEVELS: usize = 4;

type Members = IndexMap<String, Box<RawValue>>;

/// Returns a result without this server's keys in its `_meta` and in that of its content.
pub(crate) fn removed_from_result(result: Box<RawValue>) -> Box<RawValue> {
    if !may_have_own_key(result.get()) {
        return result;
    }
    without_own_keys(&result, MAX_LEVELS).unwrap_or(result)
}

/// Returns the data of an error without this server's keys.
pub(crate) fn removed_from_error(data: Box<RawValue>) -> Box<RawValue> {
    if !may_have_own_key(data.get()) {
        return data;
    }
    object_without_own_keys(&data).unwrap_or(data)
}

/// Removes this server's keys from the `_meta` of every item.
pub(crate) fn remove_from_listing(listing: &mut Listing) {
    let Listing { tools, prompts, resources, templates, .. } = listing;
    let metas = (tools.iter_mut().map(|it| &mut it.meta))
        .chain(prompts.iter_mut().map(|it| &mut it.meta))
        .chain(resources.iter_mut().map(|it| &mut it.meta))
        .chain(templates.iter_mut().map(|it| &mut it.meta));
    metas.flatten().for_each(remove_from_meta);
}

fn remove_from_meta(meta: &mut JsonObject) {
    meta.retain(|key, _| !OWN_KEYS.contains(&&**key));
}

/// Whether JSON may contain one of the keys. An escape may hide it: `"marquetry\/capture"`, or
/// `\u006d` for `m`.
fn may_have_own_key(json: &str) -> bool {
    json.contains("marquetry/") || json.contains("\\u00") || json.contains("\\/")
}

/// Returns a value without this server's keys; `None` if it has none.
fn without_own_keys(value: &RawValue, levels: usize) -> Option<Box<RawValue>> {
    if levels == 0 || !may_have_own_key(value.get()) {
        return None;
    }
    if value.get().starts_with('[') {
        let mut items: Vec<Box<RawValue>> = serde_json::from_str(value.get()).ok()?;
        let mut is_changed = false;
        for item in &mut items {
            if let Some(changed) = without_own_keys(item, levels) {
                *item = changed;
                is_changed = true;
            }
        }
        return is_changed.then(|| to_raw_value(&items).ok()).flatten();
    }
    let mut members: Members = serde_json::from_str(value.get()).ok()?;
    let mut is_changed = false;
    for (name, member) in &mut members {
        let changed = if name == "_meta" {
            object_without_own_keys(member)
        } else if NESTED.contains(&&**name) {
            without_own_keys(member, levels - 1)
        } else {
            None
        };
        if let Some(changed) = changed {
            *member = changed;
            is_changed = true;
        }
    }
    is_changed.then(|| to_raw_value(&members).ok()).flatten()
}

/// Returns an object without this server's keys; `None` if it has none.
fn object_without_own_keys(object: &RawValue) -> Option<Box<RawValue>> {
    let mut members: Members = serde_json::from_str(object.get()).ok()?;
    let before = members.len();
    members.retain(|key, _| !OWN_KEYS.contains(&&**key));
    (members.len() < before).then(|| to_raw_value(&members).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use marquetry_protocol::types::{Resource, Tool};
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(result: &str, want: &str) {
        let result = RawValue::from_string(result.to_owned()).unwrap();
        assert_eq!(removed_from_result(result).get(), want);
    }

    #[test]
    fn own_keys_are_removed_from_results_and_their_content() {
        check(
            r#"{"content":[],"_meta":{"marquetry/capture":{"status":"processed"},"a":1e400}}"#,
            r#"{"content":[],"_meta":{"a":1e400}}"#,
        );
        check(r#"{"_meta":{"marquetry\/capture":1}}"#, r#"{"_meta":{}}"#);
        check(r#"{"_m\u0065ta":{"\u006darquetry/upstream":1}}"#, r#"{"_meta":{}}"#);
        check(
            r#"{"messages":[{"content":[{"resource":{"_meta":{"marquetry/error":1},"uri":"a:b"}}]}]}"#,
            r#"{"messages":[{"content":[{"resource":{"_meta":{},"uri":"a:b"}}]}]}"#,
        );
    }

    #[test]
    fn all_else_stays_as_it_is_written() {
        for result in [
            r#"{"content": [{"type":"text","text":"marquetry/capture"}], "_meta": {"b": 1}}"#,
            r#"{"_meta": {"marquetry/found": 1, "x": {"marquetry/capture": 1}}}"#,
            r#"{"structuredContent": {"_meta": {"marquetry/capture": 1}}}"#,
            r#"{"_meta": null, "content": "marquetry/"}"#,
            r#""marquetry/""#,
        ] {
            check(result, result);
        }
    }

    #[test]
    fn own_keys_are_removed_from_lists_and_errors() {
        let meta = json!({ORIGINAL_NAME_KEY: "delete", "b": 1}).as_object().cloned();
        let mut listing = Listing::default();
        listing.tools.push(Tool { meta: meta.clone(), ..Tool::default() });
        listing.resources.push(Resource { meta, ..Resource::default() });
        remove_from_listing(&mut listing);
        let want = json!({"b": 1}).as_object().cloned();
        assert_eq!(listing.tools[0].meta, want);
        assert_eq!(listing.resources[0].meta, want);
        let data = RawValue::from_string(r#"{"marquetry/failure":"x","b":1}"#.to_owned()).unwrap();
        assert_eq!(removed_from_error(data).get(), r#"{"b":1}"#);
    }
}
