//! A skill, served by the extension `io.modelcontextprotocol/skills` (SEP-2640): `skills/list`,
//! `skills/get` and `resources/directory/read`, which the crate does not implement.

use std::time::Duration;

use marquetry_protocol::{
    RpcError,
    server::{Reply, Server, page},
    types::{CacheHint, JsonObject, Resource, ResourceContents},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json, value::RawValue};
use sha2::{Digest, Sha256};

pub(crate) const EXTENSION: &str = "io.modelcontextprotocol/skills";

const NAME: &str = "tea-making";
const DESCRIPTION: &str = "Makes a pot of tea.";
const ROOT: &str = "skill://tea-making";
const DIRECTORY: &str = "inode/directory";

/// The files of the skill, by their paths.
const FILES: [(&str, &str); 2] = [
    (
        "SKILL.md",
        "---\nname: tea-making\ndescription: Makes a pot of tea.\n---\nSee references/kinds.md, then boil water.\n",
    ),
    ("references/kinds.md", "Green tea wants 80 °C, black tea 95 °C.\n"),
];

pub(crate) fn settings() -> Value {
    json!({ "directoryRead": true })
}

pub(crate) fn serve(server: Server) -> Server {
    let added = server
        .with_method("skills/list", async |params, _| {
            let Cursor { cursor } = read(params)?;
            let (range, next_cursor) = page(1, cursor.as_deref(), 1)?;
            let skills: Vec<Value> = range.map(|_| skill()).collect();
            cached(&json!({ "skills": skills }), next_cursor)
        })
        .and_then(|server| {
            server.with_method("skills/get", async |params, _| {
                let Named { uri, .. } = read(params)?;
                if uri != uri_of("SKILL.md") {
                    return Err(RpcError::invalid_params(format!("there is no skill at {uri}")));
                }
                cached(&json!({ "skill": skill() }), None)
            })
        })
        .and_then(|server| {
            server.with_method("resources/directory/read", async |params, _| {
                let Named { uri, cursor } = read(params)?;
                let children = children(&uri)?;
                let (range, next_cursor) = page(children.len(), cursor.as_deref(), 1)?;
                cached(&json!({ "resources": children[range] }), next_cursor)
            })
        });
    added.expect("the protocol has no methods of these names")
}

#[derive(Default, Deserialize)]
struct Cursor {
    cursor: Option<String>,
}

#[derive(Deserialize)]
struct Named {
    uri: String,
    cursor: Option<String>,
}

/// The files as `resources/list` shows them.
pub(crate) fn resources() -> impl Iterator<Item = Resource> {
    FILES.iter().map(|(path, _)| file(path))
}

/// A file as `resources/read` gives it.
pub(crate) fn contents(uri: &str) -> Option<ResourceContents> {
    let (_, text) = FILES.iter().find(|(path, _)| uri_of(path) == uri)?;
    Some(ResourceContents {
        uri: uri.to_owned(),
        mime_type: Some("text/markdown".to_owned()),
        text: Some((*text).to_owned()),
        ..ResourceContents::default()
    })
}

fn uri_of(path: &str) -> String {
    format!("{ROOT}/{path}")
}

fn file(path: &str) -> Resource {
    let (name, description) = match path {
        "SKILL.md" => (NAME, Some(DESCRIPTION.to_owned())),
        path => (path, None),
    };
    Resource {
        uri: uri_of(path),
        name: name.to_owned(),
        description,
        mime_type: Some("text/markdown".to_owned()),
        ..Resource::default()
    }
}

fn skill() -> Value {
    let resources: Vec<Value> = FILES
        .iter()
        .map(|(path, text)| {
            let digest = Sha256::digest(text.as_bytes());
            let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            json!({ "uri": uri_of(path), "digest": format!("sha256:{digest}"), "size": text.len() })
        })
        .collect();
    json!({
        "uri": uri_of("SKILL.md"),
        "frontmatter": { "name": NAME, "description": DESCRIPTION },
        "resources": resources,
    })
}

/// Returns the direct children of a directory.
fn children(uri: &str) -> Result<Vec<Resource>, RpcError> {
    let uri = uri.trim_end_matches('/');
    let directory = |name: &str| Resource {
        uri: uri_of(name),
        name: name.to_owned(),
        mime_type: Some(DIRECTORY.to_owned()),
        ..Resource::default()
    };
    if uri == ROOT {
        return Ok(vec![directory("references"), file("SKILL.md")]);
    }
    if uri == uri_of("references") {
        return Ok(vec![file("references/kinds.md")]);
    }
    Err(RpcError::invalid_params(format!("{uri} is no directory")))
}

fn read<T: DeserializeOwned>(params: Option<Box<RawValue>>) -> Result<T, RpcError> {
    let params = params.as_deref().map_or("{}", RawValue::get);
    serde_json::from_str(params).map_err(|error| RpcError::invalid_params(error.to_string()))
}

fn cached(result: &Value, next_cursor: Option<String>) -> Result<Reply, RpcError> {
    let mut members: JsonObject = result.as_object().cloned().unwrap_or_default();
    if let Some(cursor) = next_cursor {
        members.insert("nextCursor".to_owned(), cursor.into());
    }
    Ok(Reply::json(&members)?.cached(CacheHint::public(Duration::from_mins(1))))
}
