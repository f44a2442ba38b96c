//! Parses references. It does not check that they exist.

use marquetry_context_blocks::Am7Uri;
use serde_json::Value;

/// Longest reference that is parsed; a URI has at most [`Am7Uri::MAX_BYTES`].
const MAX_BYTES: usize = 4 * Am7Uri::MAX_BYTES;

/// The target of a reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reference {
    /// A record, by its URI.
    Record(String),
    /// A document of the store without a record.
    Document(String),
}

/// The reason why a reference was not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReferenceProblem {
    /// The reference is empty or `null`.
    #[error("the reference is empty")]
    Empty,
    /// The reference is neither a URI nor a serialised reference.
    #[error("the reference is neither a URI nor an object with \"schema\" and \"objectId\": {0}")]
    Malformed(String),
    /// The target does not exist, or the caller may not read it.
    #[error("not found")]
    NotFound,
    /// There are more references than
    /// [`CitationLimits::max_references`](super::CitationLimits::max_references).
    #[error("more references than max_references ({0})")]
    TooMany(usize),
    /// The target holds no text that could be cited.
    #[error("it cannot be cited: it has neither text nor chunks; am7_vectorize creates chunks")]
    NoText,
}

impl Reference {
    /// Parses an `am7://` URI, the URI of a document, or a serialised reference: `{"schema":
    /// "data.data", "objectId": "…", "organizationPath": "/default"}`. Without `organizationPath`,
    /// the organisation is the caller's.
    pub(super) fn read(text: &str, organization: &str) -> Result<Self, ReferenceProblem> {
        let text = text.trim();
        if text.is_empty() || text == "null" {
            return Err(ReferenceProblem::Empty);
        }
        if text.len() > MAX_BYTES {
            return Err(malformed("it is too long"));
        }
        if text.starts_with('{') {
            return Self::of_json(text, organization);
        }
        if text.starts_with("am7:") {
            let uri = match Am7Uri::parse(text) {
                Ok(uri) => uri,
                Err(error) => return Err(malformed(&error.to_string())),
            };
            let (Some(kind), Some(id)) = (uri.object_type(), uri.id()) else {
                return Err(malformed("a search cannot be cited"));
            };
            return Self::of_parts(uri.organization(), kind, id);
        }
        if text.contains(':') {
            return Ok(Self::Document(text.to_owned()));
        }
        Err(malformed("it has no scheme"))
    }

    fn of_json(text: &str, organization: &str) -> Result<Self, ReferenceProblem> {
        let value: Value =
            serde_json::from_str(text).map_err(|error| malformed(&error.to_string()))?;
        if let Some(uri) = value["uri"].as_str().filter(|uri| uri.starts_with("am7:")) {
            return Self::read(uri, organization);
        }
        let kind = non_empty(&value, "schema")
            .or_else(|| non_empty(&value, "type"))
            .ok_or_else(|| malformed("it has no schema"))?;
        let id = non_empty(&value, "objectId").ok_or_else(|| malformed("it has no objectId"))?;
        // AccountManager7 writes organisations as paths.
        let path = non_empty(&value, "organizationPath").map(|path| path.trim_matches('/'));
        Self::of_parts(path.filter(|path| !path.is_empty()).unwrap_or(organization), kind, id)
    }

    /// Returns the reference in the spelling of records: no query, and the record instead of its
    /// content.
    fn of_parts(organization: &str, kind: &str, id: &str) -> Result<Self, ReferenceProblem> {
        let uri = Am7Uri::builder().organization(organization).object_type(kind).id(id).build();
        uri.map(|uri| Self::Record(uri.to_string()))
            .map_err(|error| ReferenceProblem::Malformed(error.to_string()))
    }
}

fn malformed(why: &str) -> ReferenceProblem {
    ReferenceProblem::Malformed(why.to_owned())
}

/// Returns a member of an object, trimmed, if it is a text that is not empty.
fn non_empty<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object[name].as_str().map(str::trim).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: Result<Reference, &str>) {
        let read = Reference::read(text, "default").map_err(|error| error.to_string());
        assert_eq!(
            read.as_ref().map_err(std::string::String::as_str),
            want.as_ref().map_err(|error| *error)
        );
    }

    fn record(uri: &str) -> Reference {
        Reference::Record(uri.to_owned())
    }

    #[test]
    fn both_forms_are_read() {
        check("am7://default/data.data/doc-1", Ok(record("am7://default/data.data/doc-1")));
        check(
            " am7://default/media/data.data/doc-1?size=256 ",
            Ok(record("am7://default/data.data/doc-1")),
        );
        check(
            r#"{"schema":"data.data","objectId":"doc-1"}"#,
            Ok(record("am7://default/data.data/doc-1")),
        );
        check(
            r#"{"schema":"common.tag","objectId":"t","organizationPath":"/Development"}"#,
            Ok(record("am7://Development/common.tag/t")),
        );
        check(
            r#"{"schema":"data.data","objectId":"d","organizationPath":"/","id":7}"#,
            Ok(record("am7://default/data.data/d")),
        );
        check(r#"{"uri":"am7://default/data.note/n"}"#, Ok(record("am7://default/data.note/n")));
        check("file:///notes/a.md", Ok(Reference::Document("file:///notes/a.md".to_owned())));
    }

    #[track_caller]
    fn check_malformed(text: &str, why: &str) {
        let malformed =
            "the reference is neither a URI nor an object with \"schema\" and \"objectId\": ";
        check(text, Err(&format!("{malformed}{why}")));
    }

    #[test]
    fn an_invalid_reference_is_reported() {
        check("", Err("the reference is empty"));
        check(" null ", Err("the reference is empty"));
        check_malformed("{invalid json}", "key must be a string at line 1 column 2");
        check_malformed(r#"{"schema":"data.data"}"#, "it has no objectId");
        check_malformed(r#"{"objectId":"x"}"#, "it has no schema");
        check_malformed("doc-1", "it has no scheme");
        check_malformed("am7://default/vector/search?q=x", "a search cannot be cited");
        check_malformed(&"x".repeat(MAX_BYTES + 1), "it is too long");
        for hostile in [
            "am7://default/../data.data/x",
            "am7://default/data.data/%2e%2e",
            "am7://default/data.data/'; drop table",
            r#"{"schema":"data.data","objectId":"../../etc/passwd"}"#,
            r#"{"schema":"data.data","objectId":{"$ne":1}}"#,
        ] {
            assert!(
                matches!(Reference::read(hostile, "default"), Err(ReferenceProblem::Malformed(_))),
                "{hostile}"
            );
        }
    }
}
