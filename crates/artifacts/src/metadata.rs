//! Facts about an artifact beside its bytes.

use marquetry_text_format::{
    Detected,
    structure::{Inspection, Node, inspect_json},
};
#[cfg(feature = "detection")]
use marquetry_text_format::{Table, structure::inspect_yaml};
pub use marquetry_text_format::{TextFormat, structure::Structure};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use crate::settings::Settings;

/// The largest JSON or CSV text that is summarised, in bytes.
pub(crate) const MAX_PARSED_BYTES: usize = 16 * 1024 * 1024;
/// The largest YAML text that is summarised, in bytes. Parsing YAML is some fifty times slower than
/// JSON.
const MAX_PARSED_YAML_BYTES: usize = 256 * 1024;
/// Columns that a schema lists.
#[cfg(feature = "detection")]
const MAX_COLUMNS: usize = 256;

/// Origin and content of an artifact.
///
/// Every member may be absent. Sizes are in bytes. Arguments are redacted before they are saved.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Metadata {
    /// Description in one line, for people and models.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Name of the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_tool_name: Option<String>,
    /// Arguments of the call: secrets replaced, long values cut, 2 KiB or less.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_tool_args: Option<Value>,
    /// Kind of item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<ContentType>,
    /// Position in the answer, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_index: Option<usize>,
    /// `raw_fallback` for an answer that was saved as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processing_type: Option<String>,
    /// The MIME type that the server declared, cut at 256 bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub original_mime_type: Option<String>,
    /// The MIME type detected from the bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sniffed_mime: Option<String>,
    /// Oddities of the item.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The detected format of text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detected_format: Option<TextFormat>,
    /// Confidence of the detected format, in per cent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detection_confidence: Option<u8>,
    /// Returns whether the whole text could be parsed in that format.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format_parse_success: Option<bool>,
    /// Summary of JSON, NDJSON, CSV or YAML.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parsed_data_summary: Option<Summary>,
    /// Inferred schema of JSON, NDJSON, CSV or YAML.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Schema>,
    /// Size of an image after decoding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_size_bytes: Option<u64>,
    /// Size of audio after decoding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audio_size_bytes: Option<u64>,
    /// Facts about a resource.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub resource: Option<ResourceMetadata>,
    /// The item's annotations as sent: audience, priority, last change. Left out beyond 1 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Value>,
    /// The item's `_meta` as sent. Left out beyond 1 KiB.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Value>,
}

/// Kind of item that an artifact was made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ContentType {
    /// A text item.
    Text,
    /// An image item.
    Image,
    /// An audio item.
    Audio,
    /// An embedded resource.
    Resource,
    /// A link to a resource.
    ResourceLink,
    /// The answer's `structuredContent`.
    StructuredContent,
    /// Several items of an answer, as a JSON array.
    Items,
    /// The answer as a whole.
    Raw,
}

/// Facts about an artifact of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ResourceMetadata {
    /// Its URI as sent, cut at 2 KiB.
    pub resource_uri: String,
    /// The resource had text.
    pub has_text_content: bool,
    /// The resource had base64.
    pub has_blob_content: bool,
    /// The artifact is text.
    pub is_text_based: bool,
    /// The resource had neither, and the artifact has only the URI.
    pub is_placeholder: bool,
    /// The artifact was decoded from base64.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub decoded_from_base64: bool,
    /// Length of the base64 text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original_size_bytes: Option<u64>,
    /// Length of the bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decoded_size_bytes: Option<u64>,
}

/// Summary of structured text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Summary {
    /// `json`, `ndjson`, `csv` or `yaml`.
    pub format: String,
    /// `object`, `array`, `table` or `lines`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The first 10 keys of an object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys: Option<Vec<String>>,
    /// Number of keys of an object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_count: Option<u64>,
    /// Number of elements of an array.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<u64>,
    /// The first 5 keys of the first element or line, when it is an object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_item_keys: Option<Vec<String>>,
    /// Number of rows of a table without its header, or of lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// Number of cells in a table's first row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub columns: Option<u64>,
    /// The first 5 cells of a table's first row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<Vec<String>>,
    /// The delimiter between cells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delimiter: Option<char>,
}

/// Schema of structured text, inferred from one document.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Schema {
    /// The artifact's MIME type.
    #[serde(rename = "type")]
    pub mime_type: String,
    /// Returns whether the text could be parsed.
    pub inferred: bool,
    /// The error, if it could not.
    pub error: Option<String>,
    /// The first row of a table. Above 256 cells, the last entry counts the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub columns: Option<Vec<String>>,
    /// Keys and types of JSON and YAML.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structure: Option<Structure>,
}

/// Summary and schema of a text.
#[derive(Debug, Default)]
pub(crate) struct Outline {
    pub(crate) summary: Option<Summary>,
    pub(crate) schema: Option<Schema>,
}

/// Summarises a text of known format, within the settings and limits.
pub(crate) fn outline(
    text: &str,
    detected: Detected,
    mime_type: &str,
    settings: &Settings,
) -> Outline {
    if !settings.mcp_intelligent_processing.enable_content_parsing {
        return Outline::default();
    }
    let max =
        if detected.format == TextFormat::Yaml { MAX_PARSED_YAML_BYTES } else { MAX_PARSED_BYTES };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let keys = settings.schema_max_keys;
    let levels = settings.schema_inference_depth.levels();
    // The summary lists 10 keys, and keys one level down, whatever the limits of the schema.
    let max_keys = keys.max(10);
    let max_levels = levels.max(2);
    let found = if text.len() > max {
        Err(format!("text is {} bytes, more than the {max} that are looked into", text.len()))
    } else {
        match detected.format {
            TextFormat::Json => inspect_json(text, max_keys, max_levels)
                .map(|found| of_document(&found, "json", keys, levels)),
            #[cfg(feature = "detection")]
            TextFormat::Yaml => inspect_yaml(text, max_keys, max_levels)
                .map(|found| of_document(&found, "yaml", keys, levels)),
            TextFormat::Ndjson => {
                let mut lines = text.lines().filter(|line| !line.trim_ascii().is_empty());
                let first = inspect_json(lines.next().unwrap_or_default(), max_keys, max_levels);
                first.map(|found| of_lines(&found, 1 + lines.count() as u64, keys, levels))
            }
            #[cfg(feature = "detection")]
            TextFormat::Csv => {
                let delimiter = detected.delimiter.unwrap_or(b',');
                Table::read(text, delimiter, MAX_COLUMNS).map(|table| of_table(table, delimiter))
            }
            _ => return Outline::default(),
        }
    };
    let mime_type = mime_type.to_owned();
    match found {
        Ok((summary, schema)) => Outline {
            summary: Some(summary),
            schema: Some(Schema { mime_type, inferred: true, ..schema }),
        },
        Err(error) => Outline {
            summary: None,
            schema: Some(Schema { mime_type, error: Some(error), ..Schema::default() }),
        },
    }
}

fn of_document(found: &Inspection, format: &str, keys: usize, levels: usize) -> (Summary, Schema) {
    let mut summary = Summary { format: format.to_owned(), ..Summary::default() };
    match &found.root {
        Node::Object { members, count } => {
            "object".clone_into(&mut summary.kind);
            summary.keys = Some(first_keys(members, 10));
            summary.key_count = Some(*count);
        }
        Node::Array { first, length } => {
            "array".clone_into(&mut summary.kind);
            summary.length = Some(*length);
            if let Some(Node::Object { members, .. }) = first.as_deref()
                && format == "json"
            {
                summary.first_item_keys = Some(first_keys(members, 5));
            }
        }
        Node::Leaf(kind) => (*kind).clone_into(&mut summary.kind),
    }
    (summary, Schema { structure: Some(found.structure(keys, levels)), ..Schema::default() })
}

fn of_lines(first: &Inspection, rows: u64, keys: usize, levels: usize) -> (Summary, Schema) {
    let first_item_keys = match &first.root {
        Node::Object { members, .. } => Some(first_keys(members, 5)),
        _ => None,
    };
    let summary = Summary {
        format: "ndjson".to_owned(),
        kind: "lines".to_owned(),
        rows: Some(rows),
        first_item_keys,
        ..Summary::default()
    };
    let structure = Structure::Array(vec![first.structure(keys, levels)]);
    (summary, Schema { structure: Some(structure), ..Schema::default() })
}

#[cfg(feature = "detection")]
fn of_table(table: Table, delimiter: u8) -> (Summary, Schema) {
    let mut columns = table.headers;
    let headers = columns.iter().take(5).cloned().collect();
    let more = table.columns - columns.len() as u64;
    if more > 0 {
        columns.push(format!("... {more} more columns"));
    }
    let summary = Summary {
        format: "csv".to_owned(),
        kind: "table".to_owned(),
        rows: Some(table.rows),
        columns: Some(table.columns),
        headers: Some(headers),
        delimiter: Some(char::from(delimiter)),
        ..Summary::default()
    };
    (summary, Schema { columns: Some(columns), ..Schema::default() })
}

fn first_keys(members: &[(String, Node)], count: usize) -> Vec<String> {
    members.iter().take(count).map(|(key, _)| key.clone()).collect()
}

/// Keeps a small value, and drops a large one.
pub(crate) fn small(raw: Option<&RawValue>) -> Option<Value> {
    let raw = raw.filter(|raw| raw.get().len() <= 1024 && raw.get() != "null")?;
    serde_json::from_str(raw.get()).ok()
}

#[cfg(all(test, feature = "detection"))]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use marquetry_text_format::detect;

    #[test]
    fn outlines() {
        check(
            r#"{"b": 1, "a": [true]}"#,
            expect![[r#"
            {"format":"json","type":"object","keys":["b","a"],"key_count":2}
            {"type":"x/y","inferred":true,"error":null,"structure":{"b":"int","a":["bool"]}}"#]],
        );
        check(
            r#"[{"id": 1, "tags": []}, {}]"#,
            expect![[r#"
            {"format":"json","type":"array","length":2,"first_item_keys":["id","tags"]}
            {"type":"x/y","inferred":true,"error":null,"structure":[{"id":"int","tags":[]}]}"#]],
        );
        check(
            "name,age\nAnn,3\nBob,4\n",
            expect![[r#"
            {"format":"csv","type":"table","rows":2,"columns":2,"headers":["name","age"],"delimiter":","}
            {"type":"x/y","inferred":true,"error":null,"columns":["name","age"]}"#]],
        );
        check(
            "a: 1\nb:\n  c: x\n",
            expect![[r#"
            {"format":"yaml","type":"object","keys":["a","b"],"key_count":2}
            {"type":"x/y","inferred":true,"error":null,"structure":{"a":"int","b":{"c":"str"}}}"#]],
        );
        check(
            "- a: 1\n- a: 2\n",
            expect![[r#"
            {"format":"yaml","type":"array","length":2}
            {"type":"x/y","inferred":true,"error":null,"structure":[{"a":"int"}]}"#]],
        );
        check(
            "{\"a\":1}\n{\"a\":2}\n\n",
            expect![[r#"
            {"format":"ndjson","type":"lines","first_item_keys":["a"],"rows":2}
            {"type":"x/y","inferred":true,"error":null,"structure":[{"a":"int"}]}"#]],
        );
        check(
            "plain",
            expect![[r"
            null
            null"]],
        );
        let wide = (0..300).map(|n| format!("c{n}")).collect::<Vec<_>>().join(",");
        let outline = of(&format!("{wide}\n{wide}\n"));
        assert_eq!(outline.schema.unwrap().columns.unwrap().last().unwrap(), "... 44 more columns");
    }

    #[test]
    fn a_value_that_is_too_large_is_reported() {
        let yaml = (0..60_000).map(|n| format!("k{n}: v\n")).collect::<String>();
        let schema = of(&yaml).schema.unwrap();
        assert!(!schema.inferred);
        expect!["text is 588890 bytes, more than the 262144 that are looked into"]
            .assert_eq(&schema.error.unwrap());
    }

    #[test]
    fn metadata_survives_being_stored() {
        let metadata = Metadata {
            description: "x".to_owned(),
            resource: Some(ResourceMetadata {
                resource_uri: "a:b".to_owned(),
                ..ResourceMetadata::default()
            }),
            schema: of(r#"{"b": {"z": 1, "a": 2}}"#).schema,
            ..Metadata::default()
        };
        let json = serde_json::to_string(&metadata).unwrap();
        let again: Metadata = serde_json::from_str(&json).unwrap();
        assert_eq!(serde_json::to_string(&again).unwrap(), json);
        assert!(again.resource.is_some());
        assert!(serde_json::from_str::<Metadata>("{}").unwrap().resource.is_none());
    }

    fn of(text: &str) -> Outline {
        outline(text, detect(text), "x/y", &Settings::default())
    }

    #[track_caller]
    fn check(text: &str, want: Expect) {
        let Outline { summary, schema } = of(text);
        let shown =
            [serde_json::to_string(&summary).unwrap(), serde_json::to_string(&schema).unwrap()];
        want.assert_eq(&shown.join("\n"));
    }
}
