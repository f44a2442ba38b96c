//! The resources that the suite reads.

use marquetry_protocol::{
    RpcError,
    types::{ReadResourceResult, Resource, ResourceContents, ResourceTemplate},
};

use crate::fixtures::PNG;

const STATIC: [(&str, &str, &str); 3] = [
    ("test://static-text", "A text", "text/plain"),
    ("test://static-binary", "A picture", "image/png"),
    ("test://watched-resource", "A text that may change", "text/plain"),
];

pub(crate) fn list() -> Vec<Resource> {
    STATIC
        .iter()
        .map(|(uri, description, mime_type)| Resource {
            uri: (*uri).to_owned(),
            name: uri.trim_start_matches("test://").to_owned(),
            description: Some((*description).to_owned()),
            mime_type: Some((*mime_type).to_owned()),
            ..Resource::default()
        })
        .collect()
}

pub(crate) fn templates() -> Vec<ResourceTemplate> {
    vec![ResourceTemplate {
        uri_template: "test://template/{id}/data".to_owned(),
        name: "template".to_owned(),
        description: Some("Data by its id".to_owned()),
        mime_type: Some("application/json".to_owned()),
        ..ResourceTemplate::default()
    }]
}

pub(crate) fn find(uri: &str) -> Result<&'static str, RpcError> {
    STATIC
        .iter()
        .find_map(|(known, _, mime_type)| (*known == uri).then_some(*mime_type))
        .ok_or_else(|| RpcError::resource_not_found(uri))
}

pub(crate) fn read(uri: &str) -> Result<ReadResourceResult, RpcError> {
    if let Some(contents) = crate::skills::contents(uri) {
        return Ok(ReadResourceResult { contents: vec![contents], meta: None });
    }
    let mut contents = ResourceContents { uri: uri.to_owned(), ..ResourceContents::default() };
    let id = uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"));
    if let Some(id) = id {
        let data = serde_json::json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
        contents.mime_type = Some("application/json".to_owned());
        contents.text = Some(data.to_string());
    } else {
        contents.mime_type = Some(find(uri)?.to_owned());
        match uri {
            "test://static-binary" => contents.blob = Some(PNG.to_owned()),
            "test://static-text" => {
                contents.text = Some("This is the content of the static text resource.".to_owned());
            }
            _ => contents.text = Some("This may change.".to_owned()),
        }
    }
    Ok(ReadResourceResult { contents: vec![contents], meta: None })
}
