//! Proposes the call that finds something in an artifact.

use marquetry_text_format::structure::Structure;
use serde_json::{Value, json};

use crate::{
    metadata::{ContentType, Schema},
    mime,
    name::ArtifactName,
    report::SavedArtifact,
};

/// A smaller artifact is read, in bytes.
const MIN_BYTES: u64 = 4096;
/// Levels of members that a proposed jq program steps into.
const MAX_LEVELS: usize = 3;
/// Longest key in a proposed query, in bytes.
const MAX_KEY_BYTES: usize = 40;
/// An object with more keys is a map, whose keys are data.
const MAX_FIELDS: usize = 10;
/// Keys that identify a record.
const ID_KEYS: [&str; 6] = ["id", "key", "uuid", "name", "code", "title"];

/// Names of the tools that find something in an artifact. An empty name is not mentioned.
#[derive(Clone, Copy)]
pub(crate) struct FindTools<'a> {
    pub(crate) search: &'a str,
    pub(crate) query: &'a str,
}

/// Returns a call as a model can make it, the tool and its arguments. None for an artifact that is
/// small, or that no tool can look into.
pub(crate) fn proposal(artifact: &SavedArtifact, tools: FindTools<'_>) -> Option<String> {
    let SavedArtifact { name, mime_type, size_bytes, metadata, .. } = artifact;
    if *size_bytes < MIN_BYTES {
        return None;
    }
    let essence = mime::essence(mime_type)?;
    let is_json = essence.ends_with("json") && metadata.content_type != Some(ContentType::Raw);
    let schema = metadata.schema.as_ref().filter(|_| is_json);
    let is_table = matches!(&*essence, "text/csv" | "text/tab-separated-values")
        || mime::is_spreadsheet(&essence);
    let (tool, arguments) = if let Some(jq) = schema.and_then(|it| jq_arguments(name, it)) {
        (tools.query, jq)
    } else if is_table {
        (tools.query, json!({"name": name, "sql": "SELECT count(*) FROM data"}))
    } else if mime::is_text(&essence) || mime::is_document(&essence) {
        (tools.search, json!({"name": name, "pattern": "error"}))
    } else {
        return None;
    };
    (!tool.is_empty()).then(|| format!("'{tool}' {arguments}"))
}

/// Returns arguments that find one record with jq. They work as they are and find the first one;
/// the comparison in them is what a model changes.
fn jq_arguments(name: &ArtifactName, schema: &Schema) -> Option<Value> {
    let root = schema.structure.as_ref()?;
    if schema.mime_type.contains("ndjson") {
        // Each line is an input of the program.
        let Structure::Array(lines) = root else { return None };
        let condition = lines.first().and_then(condition)?;
        return Some(json!({"name": name, "jq": format!("select({condition})"), "max_rows": 1}));
    }
    let program = record(root, ".", MAX_LEVELS).unwrap_or_else(|| "keys".to_owned());
    Some(json!({"name": name, "jq": program}))
}

/// Returns a program for the first record in the value at a path.
fn record(value: &Structure, path: &str, levels: usize) -> Option<String> {
    match value {
        Structure::Array(elements) => Some(match elements.first().and_then(condition) {
            Some(condition) => format!("first({path}[] | select({condition}))"),
            None => format!("{path}[0]"),
        }),
        Structure::Object(members) if is_map(members) => {
            let (key, _) = members.first().filter(|(key, _)| is_plain(key))?;
            Some(format!("{path}[\"{key}\"]"))
        }
        Structure::Object(members) if levels > 0 => {
            let dot = path.strip_suffix('.').map_or(path, |_| "");
            let mut fields = members.iter().filter(|(key, _)| is_identifier(key));
            fields.find_map(|(key, value)| record(value, &format!("{dot}.{key}"), levels - 1))
        }
        _ => None,
    }
}

/// Returns whether the keys of an object are data: there are many, of values of one type.
fn is_map(members: &[(String, Structure)]) -> bool {
    let first = members.first().map(|(_, value)| std::mem::discriminant(value));
    let values = members.iter().take(MAX_FIELDS).map(|(_, value)| std::mem::discriminant(value));
    members.len() > MAX_FIELDS
        && !matches!(members[0].1, Structure::Type(_))
        && values.into_iter().all(|value| Some(value) == first)
}

/// Returns a condition on a record that the first one fulfils.
fn condition(record: &Structure) -> Option<String> {
    let Structure::Object(members) = record else { return None };
    let scalars = members.iter().filter_map(|(key, value)| match value {
        Structure::Type(name) if is_identifier(key) => match name.as_str() {
            "str" => Some((key, "\"\"")),
            "int" | "float" => Some((key, "0")),
            _ => None,
        },
        _ => None,
    });
    let scalars: Vec<_> = scalars.collect();
    let named = ID_KEYS.iter().find_map(|name| scalars.iter().find(|(key, _)| key == name));
    let (key, least) = named.or_else(|| scalars.first())?;
    Some(format!(".{key} >= {least}"))
}

/// Returns whether jq reads a key after a dot.
fn is_identifier(key: &str) -> bool {
    is_plain(key)
        && !key.starts_with(|first: char| first.is_ascii_digit())
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Returns whether a key can stand in the notice: it says nothing to a model.
fn is_plain(key: &str) -> bool {
    (1..=MAX_KEY_BYTES).contains(&key.len())
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.:/@".contains(&byte))
}
