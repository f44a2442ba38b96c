//! Files that a View asks the host to save.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use marquetry_protocol::{RpcError, types::JsonObject};
use serde_json::Value;

use super::link::check_link;

/// A file that a View asks the host to save.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DownloadFile {
    /// File name without folders, from the last segment of the URI.
    pub name: String,
    /// MIME type, if the View sends a well-formed one.
    pub mime_type: Option<String>,
    /// The contents, or a link to them.
    pub content: DownloadContent,
}

/// The contents of a [`DownloadFile`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DownloadContent {
    /// The bytes of the file.
    Bytes(Vec<u8>),
    /// An `http:` or `https:` URL. The host decides whether to fetch it.
    Link(String),
}

impl DownloadFile {
    /// Parses the parameters of `ui/download-file`: embedded resources and links.
    pub(super) fn parse(params: &JsonObject, max_files: usize) -> Result<Vec<Self>, RpcError> {
        let Some(items) = params.get("contents").and_then(Value::as_array) else {
            return Err(RpcError::invalid_params("contents is not an array"));
        };
        if items.is_empty() {
            return Err(RpcError::invalid_params("contents is empty"));
        }
        if items.len() > max_files {
            let message =
                format!("{} files are too many; this host takes at most {max_files}", items.len());
            return Err(RpcError::new(crate::types::DENIED, message));
        }
        let files = items.iter().enumerate().map(|(index, item)| {
            Self::parse_one(item)
                .map_err(|why| RpcError::invalid_params(format!("contents[{index}]: {why}")))
        });
        files.collect()
    }

    fn parse_one(item: &Value) -> Result<Self, &'static str> {
        let (resource, is_link) = match item.get("type").and_then(Value::as_str) {
            Some("resource") => (item.get("resource").ok_or("resource is missing")?, false),
            Some("resource_link") => (item, true),
            _ => return Err("type must be \"resource\" or \"resource_link\""),
        };
        fn member<'a>(resource: &'a Value, name: &str) -> Option<&'a str> {
            resource.get(name).and_then(Value::as_str)
        }
        let uri = member(resource, "uri").ok_or("uri is missing")?;
        let content = match (is_link, member(resource, "text"), member(resource, "blob")) {
            (true, ..) if !is_web(uri) => return Err("the uri of a link must be http: or https:"),
            (true, ..) => DownloadContent::Link(uri.to_owned()),
            (false, Some(text), None) => DownloadContent::Bytes(text.as_bytes().to_owned()),
            (false, None, Some(blob)) => {
                DownloadContent::Bytes(STANDARD.decode(blob).map_err(|_| "blob is not base64")?)
            }
            _ => return Err("there must be either text or blob"),
        };
        let mime_type =
            member(resource, "mimeType").filter(|it| is_mime_type(it)).map(ToOwned::to_owned);
        Ok(Self { name: file_name(uri), mime_type, content })
    }
}

/// Whether a link leads to the web. Others would be read with the rights of the user, from this
/// machine.
fn is_web(uri: &str) -> bool {
    check_link(uri).is_ok() && uri.get(..4).is_some_and(|it| it.eq_ignore_ascii_case("http"))
}

/// Longest file name, in bytes.
const MAX_NAME: usize = 120;

/// Returns the last segment of a URI as a file name that is valid on every system.
fn file_name(uri: &str) -> String {
    let path = uri.split(['?', '#']).next().unwrap_or_default();
    let segment = path.rsplit(['/', '\\', ':']).find(|it| !it.is_empty()).unwrap_or_default();
    let plain: String = segment
        .chars()
        .map(|it| match it {
            '.' | '-' | '_' | ' ' | '(' | ')' => it,
            _ if it.is_alphanumeric() => it,
            _ => '_',
        })
        .collect();
    let name = plain.trim_matches([' ', '.']);
    let name = &name[..name.floor_char_boundary(MAX_NAME)];
    if name.is_empty() { "download".to_owned() } else { name.to_owned() }
}

fn is_mime_type(text: &str) -> bool {
    fn is_token(it: &str) -> bool {
        !it.is_empty()
            && it.len() <= 100
            && it.bytes().all(|it| it.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&it))
    }
    text.split_once('/').is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(contents: Value) -> Result<Vec<DownloadFile>, String> {
        let params = json!({ "contents": contents });
        DownloadFile::parse(params.as_object().unwrap(), 3).map_err(|error| error.message)
    }

    #[test]
    fn files_are_read() {
        let files = parse(json!([
            { "type": "resource", "resource": { "uri": "file:///a/b.csv", "mimeType": "text/csv", "text": "é" } },
            { "type": "resource", "resource": { "uri": "c.bin", "mimeType": "x", "blob": "AQI=" } },
            { "type": "resource_link", "uri": "https://a/d.pdf?e=/f", "name": "d" },
        ]))
        .unwrap();
        let shown: Vec<_> = files.iter().map(|it| (&*it.name, it.mime_type.as_deref())).collect();
        assert_eq!(shown, [("b.csv", Some("text/csv")), ("c.bin", None), ("d.pdf", None)]);
        assert_eq!(files[0].content, DownloadContent::Bytes("é".into()));
        assert_eq!(files[1].content, DownloadContent::Bytes(vec![1, 2]));
        assert_eq!(files[2].content, DownloadContent::Link("https://a/d.pdf?e=/f".into()));
    }

    #[test]
    fn names_are_plain() {
        for (uri, name) in [
            ("file:///../../etc/passwd", "passwd"),
            ("a/..", "download"),
            ("..\\..\\x.exe", "x.exe"),
            ("C:evil", "evil"),
            ("a/b\"; rm -rf\n.txt", "b__ rm -rf_.txt"),
            ("https://a/%2e%2e%2fx", "_2e_2e_2fx"),
            ("", "download"),
            ("data:/", "data"),
        ] {
            assert_eq!(file_name(uri), name, "{uri:?}");
        }
        assert_eq!(file_name(&"é".repeat(500)).len(), MAX_NAME);
    }

    #[test]
    fn other_requests_are_refused() {
        fn resource(resource: Value) -> Value {
            json!([{ "type": "resource", "resource": resource }])
        }
        for (contents, error) in [
            (json!({}), "contents is not an array"),
            (json!([]), "contents is empty"),
            (json!([1, 2, 3, 4]), "4 files are too many; this host takes at most 3"),
            (
                json!([{ "type": "text" }]),
                "contents[0]: type must be \"resource\" or \"resource_link\"",
            ),
            (resource(json!({ "text": "" })), "contents[0]: uri is missing"),
            (resource(json!({ "uri": "a" })), "contents[0]: there must be either text or blob"),
            (resource(json!({ "uri": "a", "blob": "?" })), "contents[0]: blob is not base64"),
            (
                json!([{ "type": "resource_link", "uri": "file:///etc/passwd", "name": "a" }]),
                "contents[0]: the uri of a link must be http: or https:",
            ),
            (
                json!([{ "type": "resource_link", "uri": "mailto:a@b", "name": "a" }]),
                "contents[0]: the uri of a link must be http: or https:",
            ),
        ] {
            assert_eq!(parse(contents).unwrap_err(), error);
        }
    }
}
