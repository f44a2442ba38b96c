//! Converts results for older revisions.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use crate::{
    Feature, Revision, RpcError,
    object::{ObjectText, array_text, may_have},
    types::{Tool, meta_key},
};

/// Handlers use the latest revisions; [`for_session`] converts the only difference between them.
pub const UNSHAPED_SINCE: Revision = Revision::V2025_11_25;

/// Removes the parts of a result that clients in sessions do not know; [`None`] if there are none.
///
/// For a complete result of 2026-07-28 (`is_complete`) these are its type, its cache hints, and the
/// name of its server. Structured content that is not an object is removed, too (2025-11-25,
/// "Structured Content"): the text replaces it.
#[must_use]
pub fn for_session(method: &str, result: &RawValue, is_complete: bool) -> Option<String> {
    let may_have_data = method == "tools/call" && may_have(result, &[r#""structuredContent""#]);
    if !is_complete && !may_have_data {
        return None;
    }
    let mut object = ObjectText::of(result)?;
    let mut is_changed = false;
    if is_complete {
        for member in ["resultType", "ttlMs", "cacheScope"] {
            is_changed |= object.remove(member);
        }
        let meta = object.object("_meta").and_then(|mut meta| {
            meta.remove(meta_key::SERVER_INFO).then(|| (meta.is_empty(), meta.write()))
        });
        if let Some((is_empty, meta)) = meta {
            is_changed = true;
            if is_empty {
                _ = object.remove("_meta");
            } else {
                object.set("_meta", meta);
            }
        }
    }
    let data = object.get("structuredContent").filter(|_| method == "tools/call");
    if let Some(data) = data.filter(|data| !data.starts_with('{')) {
        let content = match data {
            "null" => None,
            data => content_with_text(object.get("content"), data),
        };
        object.remove("structuredContent");
        if let Some(content) = content {
            object.set("content", content);
        }
        is_changed = true;
    }
    is_changed.then(|| object.write())
}

/// Returns the items of a tool's answer with `data` as an additional text; [`None`] if there is a
/// text already.
fn content_with_text(content: Option<&str>, data: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Kind<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
    }
    let items: Vec<&RawValue> =
        content.and_then(|content| serde_json::from_str(content).ok()).unwrap_or_default();
    if items.iter().any(|item| {
        serde_json::from_str::<Kind<'_>>(item.get()).is_ok_and(|item| item.kind == "text")
    }) {
        return None;
    }
    let text = text(data.to_owned()).to_string();
    let items: Vec<&str> = items.iter().map(|item| item.get()).chain([text.as_str()]).collect();
    Some(format!("[{}]", items.join(",")))
}

/// Removes the `outputSchema` of tools if it is not one of objects, which clients in sessions do
/// not know.
pub fn keep_object_schemas(tools: &mut [Tool]) {
    for tool in tools {
        tool.output_schema.take_if(|schema| schema.get("type") != Some(&Value::from("object")));
    }
}

/// Converts the result of `method` for a client of `revision`. Parts that the revision lacks are
/// removed, with the nearest text in their place. All others, such as numbers of any length, stay
/// as they are written.
///
/// # Errors
/// Returns an error if a tool call has failed, in 2024-10-07.
pub fn shape(
    method: &str,
    revision: Revision,
    result: Box<RawValue>,
) -> Result<Box<RawValue>, RpcError> {
    if revision >= UNSHAPED_SINCE {
        return Ok(result);
    }
    let Some(mut object) = ObjectText::of(&result) else { return Ok(result) };
    match method {
        "initialize" => initialize(&mut object, revision),
        "tools/list" => list(&mut object, "tools", revision),
        "prompts/list" => list(&mut object, "prompts", revision),
        "resources/list" => list(&mut object, "resources", revision),
        "resources/templates/list" => list(&mut object, "resourceTemplates", revision),
        "tools/call" => return tool_answer(object, revision),
        "prompts/get" => object.edit_each("messages", |message| {
            if let Some(content) = message.get("content").map(|content| item(content, revision)) {
                message.set("content", content);
            }
        }),
        _ => return Ok(result),
    }
    raw(object.write())
}

fn raw(json: String) -> Result<Box<RawValue>, RpcError> {
    RawValue::from_string(json).map_err(|error| RpcError::internal(error.to_string()))
}

fn initialize(object: &mut ObjectText<'_>, revision: Revision) {
    object.edit("serverInfo", |info| {
        described(info, revision);
        if !revision.has(Feature::Icons) {
            info.remove("description");
        }
    });
    object.edit("capabilities", |capabilities| {
        if !revision.has(Feature::CompletionsCapability) {
            capabilities.remove("completions");
        }
        capabilities.remove("tasks");
    });
    if revision == Revision::V2024_10_07 {
        object.remove("instructions");
    }
}

fn list(object: &mut ObjectText<'_>, member: &'static str, revision: Revision) {
    object.edit_each(member, |entry| {
        described(entry, revision);
        if member == "prompts" && !revision.has(Feature::Titles) {
            entry.edit_each("arguments", |argument| _ = argument.remove("title"));
        }
        if member == "tools" {
            entry.remove("execution");
            if !revision.has(Feature::StructuredContent) {
                entry.remove("outputSchema");
            }
            if !revision.has(Feature::ToolAnnotations) {
                entry.remove("annotations");
            }
        }
    });
    if !revision.has(Feature::Pagination) {
        object.remove("nextCursor");
    }
}

/// Converts the descriptions of tools, prompts, resources and servers.
fn described(entry: &mut ObjectText<'_>, revision: Revision) {
    if !revision.has(Feature::Icons) {
        entry.remove("icons");
        entry.remove("websiteUrl");
    }
    if !revision.has(Feature::Titles) {
        entry.remove("title");
        let mut kept = ObjectText::default();
        let meta = entry.object("_meta").unwrap_or_default();
        for key in VIEW_KEYS {
            if let Some(value) = meta.get(key) {
                kept.set(key, value);
            }
        }
        let kept = (!kept.is_empty()).then(|| kept.write());
        match kept {
            Some(kept) => entry.set("_meta", kept),
            None => _ = entry.remove("_meta"),
        }
    }
}

/// The keys of `_meta` that MCP Apps define for every revision. A client that shows Views reads
/// them in each revision, and a server that gates Views sends them only to such clients.
const VIEW_KEYS: [&str; 2] = ["ui", "ui/resourceUri"];

fn tool_answer(mut object: ObjectText<'_>, revision: Revision) -> Result<Box<RawValue>, RpcError> {
    let structured = if revision.has(Feature::StructuredContent) {
        None
    } else {
        let data = object.get("structuredContent").map(str::to_owned);
        object.remove("structuredContent");
        data
    };
    let content = object.array("content").unwrap_or_default();
    let mut content: Vec<String> =
        content.into_iter().map(|content| item(content, revision)).collect();
    if content.is_empty() {
        content.extend(structured.map(|data| text(data).to_string()));
    }
    if revision.has(Feature::ContentList) {
        object.set("content", array_text(content));
        return raw(object.write());
    }
    let texts: Option<Vec<String>> = content.iter().map(|item| text_of(item)).collect();
    let texts = texts.map(|texts| texts.join("\n"));
    if object.get("isError") == Some("true") {
        return Err(RpcError::internal(texts.unwrap_or_else(|| array_text(content))));
    }
    let result = texts.map_or_else(|| array_text(content), |text| Value::from(text).to_string());
    raw(format!(r#"{{"toolResult":{result}}}"#))
}

fn text_of(item: &str) -> Option<String> {
    serde_json::from_str(ObjectText::of_valid(item)?.get("text")?).ok()
}

/// Converts one item of a tool answer or a prompt.
fn item(json: &str, revision: Revision) -> String {
    let Some(mut object) = ObjectText::of_valid(json) else { return json.to_owned() };
    let lacks = match object.get("type") {
        Some(r#""audio""#) => !revision.has(Feature::Audio),
        Some(r#""resource_link""#) => !revision.has(Feature::ResourceLinks),
        Some(r#""resource""#) => !revision.has(Feature::EmbeddedResources),
        _ => false,
    };
    if lacks {
        return text(instead_of(&serde_json::from_str(json).unwrap_or_default(), revision))
            .to_string();
    }
    if !revision.has(Feature::Titles) {
        object.remove("_meta");
    }
    if !revision.has(Feature::Icons) {
        object.remove("icons");
    }
    object.write()
}

/// Returns the text in place of an item that the revision lacks.
fn instead_of(content: &Value, revision: Revision) -> String {
    match content["type"].as_str().unwrap_or_default() {
        "audio" => {
            let mime_type = content["mimeType"].as_str().unwrap_or("of unknown type");
            format!("[sound, {mime_type}; revision {revision} of the protocol cannot carry it]")
        }
        "resource_link" => {
            let [name, uri, description] = ["name", "uri", "description"]
                .map(|member| content[member].as_str().unwrap_or_default());
            format!(
                "[resource {name} at {uri}{}]",
                if description.is_empty() { String::new() } else { format!(": {description}") }
            )
        }
        _ => {
            let resource = &content["resource"];
            match resource["text"].as_str() {
                Some(text) => text.to_owned(),
                None => format!("[resource at {}]", resource["uri"].as_str().unwrap_or_default()),
            }
        }
    }
}

fn text(text: String) -> Value {
    json!({ "type": "text", "text": text })
}

#[cfg(test)]
mod tests {
    use serde_json::value::to_raw_value;

    use super::*;

    #[test]
    fn numbers_stay_as_they_are_written() {
        let data =
            r#"{"wei":123456789012345678901234567890,"price":12345678901234567.89,"far":1e999}"#;
        let json = format!(r#"{{"content":[],"structuredContent":{data},"_meta":{{"n":1.50}}}}"#);
        let answer = RawValue::from_string(json.clone()).unwrap();
        let shaped = shape("tools/call", Revision::V2025_06_18, answer.clone()).unwrap();
        assert_eq!(shaped.get(), json);
        let shaped = shape("tools/call", Revision::V2024_11_05, answer).unwrap();
        let shaped: Value = serde_json::from_str(shaped.get()).unwrap();
        assert_eq!(shaped["content"][0]["text"], data);
        let json = r#"{"tools":[{"name":"t","inputSchema":{"maximum":18446744073709551616}}]}"#;
        let list = RawValue::from_string(json.to_owned()).unwrap();
        assert_eq!(shape("tools/list", Revision::V2024_11_05, list).unwrap().get(), json);
    }

    #[test]
    fn content_that_a_revision_lacks_becomes_text() {
        let answer = json!({
            "content": [
                { "type": "text", "text": "a", "_meta": { "x": 1 } },
                { "type": "audio", "data": "", "mimeType": "audio/wav" },
                { "type": "resource_link", "uri": "test://one", "name": "one", "description": "first" },
                { "type": "resource", "resource": { "uri": "test://two", "text": "2" } },
            ],
            "structuredContent": { "a": 1 },
        });
        check("tools/call", Revision::V2025_11_25, &answer, &answer);
        check("tools/call", Revision::V2025_06_18, &answer, &answer);
        let sound = "[sound, audio/wav; revision 2024-11-05 of the protocol cannot carry it]";
        let link = "[resource one at test://one: first]";
        let want = json!({ "content": [
            { "type": "text", "text": "a" },
            { "type": "audio", "data": "", "mimeType": "audio/wav" },
            text(link.to_owned()),
            { "type": "resource", "resource": { "uri": "test://two", "text": "2" } },
        ] });
        check("tools/call", Revision::V2025_03_26, &answer, &want);
        let mut older = want.clone();
        older["content"][1] = text(sound.to_owned());
        check("tools/call", Revision::V2024_11_05, &answer, &older);
        let sound = sound.replace("2024-11-05", "2024-10-07");
        let first = json!({ "toolResult": format!("a\n{sound}\n{link}\n2") });
        check("tools/call", Revision::V2024_10_07, &answer, &first);
    }

    #[test]
    fn data_alone_becomes_text_and_failures_errors() {
        let data = json!({ "content": [], "structuredContent": { "a": 1 } });
        check(
            "tools/call",
            Revision::V2024_11_05,
            &data,
            &json!({ "content": [text(r#"{"a":1}"#.to_owned())] }),
        );
        let picture =
            json!({ "content": [{ "type": "image", "data": "", "mimeType": "image/png" }] });
        check(
            "tools/call",
            Revision::V2024_10_07,
            &picture,
            &json!({ "toolResult": picture["content"] }),
        );
        let failed = to_raw_value(
            &json!({ "content": [{ "type": "text", "text": "no" }], "isError": true }),
        )
        .unwrap();
        let error = shape("tools/call", Revision::V2024_10_07, failed).unwrap_err();
        assert_eq!(error, RpcError::internal("no"));
    }

    #[test]
    fn entries_of_lists_lose_newer_members() {
        let tools = json!({ "nextCursor": "p1", "tools": [{
            "name": "t", "title": "T", "icons": [], "annotations": {}, "outputSchema": {}, "_meta": {}, "inputSchema": {},
        }] });
        check("tools/list", Revision::V2026_07_28, &tools, &tools);
        check(
            "tools/list",
            Revision::V2025_06_18,
            &tools,
            &json!({ "nextCursor": "p1", "tools": [{
                "name": "t", "title": "T", "annotations": {}, "outputSchema": {}, "_meta": {}, "inputSchema": {},
            }] }),
        );
        let plain = json!({ "nextCursor": "p1", "tools": [{ "name": "t", "annotations": {}, "inputSchema": {} }] });
        check("tools/list", Revision::V2025_03_26, &tools, &plain);
        let shown = json!({ "tools": [{ "name": "t", "_meta": { "ui": { "a": 1 }, "ui/resourceUri": "ui://a", "b": 1 } }] });
        let kept = json!({ "tools": [{ "name": "t", "_meta": { "ui": { "a": 1 }, "ui/resourceUri": "ui://a" } }] });
        check("tools/list", Revision::V2024_11_05, &shown, &kept);
        let mut plain =
            json!({ "nextCursor": "p1", "tools": [{ "name": "t", "inputSchema": {} }] });
        check("tools/list", Revision::V2024_11_05, &tools, &plain);
        plain.as_object_mut().unwrap().remove("nextCursor");
        check("tools/list", Revision::V2024_10_07, &tools, &plain);
    }

    #[test]
    fn sessions_get_no_members_of_2026_07_28_and_objects_alone_as_data() {
        let info = json!({ "name": "upstream" });
        let read =
            json!({ "contents": [], "resultType": "complete", "ttlMs": 1, "cacheScope": "public" });
        check_session("resources/read", read.clone(), true, Some(json!({ "contents": [] })));
        // These members of an older server have another meaning.
        check_session("resources/read", read, false, None);
        check_session(
            "tools/call",
            json!({ "content": [], "_meta": { meta_key::SERVER_INFO: info } }),
            true,
            Some(json!({ "content": [] })),
        );
        check_session(
            "tools/call",
            json!({ "content": [], "_meta": { "x": 1, meta_key::SERVER_INFO: info } }),
            true,
            Some(json!({ "content": [], "_meta": { "x": 1 } })),
        );
        check_session("tools/call", json!({ "content": [], "_meta": { "x": 1 } }), true, None);
        for is_complete in [true, false] {
            let picture = json!({ "type": "image", "data": "", "mimeType": "image/png" });
            let one = text("[1]".to_owned());
            check_session(
                "tools/call",
                json!({ "content": [one], "structuredContent": { "a": [1] } }),
                is_complete,
                None,
            );
            check_session(
                "tools/call",
                json!({ "content": [one], "structuredContent": [1] }),
                is_complete,
                Some(json!({ "content": [one] })),
            );
            check_session(
                "tools/call",
                json!({ "content": [picture], "structuredContent": [1] }),
                is_complete,
                Some(json!({ "content": [picture, one] })),
            );
            check_session(
                "tools/call",
                json!({ "content": [], "structuredContent": null }),
                is_complete,
                Some(json!({ "content": [] })),
            );
            check_session(
                "tools/call",
                json!({ "structuredContent": "a" }),
                is_complete,
                Some(json!({ "content": [text("\"a\"".to_owned())] })),
            );
        }
    }

    #[test]
    fn sessions_get_output_schemas_of_objects_alone() {
        for (schema, stays) in [
            (json!({ "type": "object" }), true),
            (json!({ "type": "array" }), false),
            (json!({ "type": ["object", "null"] }), false),
            (json!({}), false),
            (json!(true), false),
        ] {
            let mut tools = [Tool { output_schema: Some(schema.clone()), ..Tool::default() }];
            keep_object_schemas(&mut tools);
            assert_eq!(tools[0].output_schema.is_some(), stays, "{schema}");
        }
    }

    #[track_caller]
    fn check_session(method: &str, result: Value, is_complete: bool, want: Option<Value>) {
        let result = to_raw_value(&result).unwrap();
        let got = for_session(method, &result, is_complete);
        let got = got.map(|text| serde_json::from_str::<Value>(&text).unwrap());
        assert_eq!(got, want, "{method} {result}");
    }

    #[track_caller]
    fn check(method: &str, revision: Revision, result: &Value, want: &Value) {
        let shaped = shape(method, revision, to_raw_value(result).unwrap()).unwrap();
        let got: Value = serde_json::from_str(shaped.get()).unwrap();
        assert_eq!(got, *want, "{method} in {revision}");
    }
}
