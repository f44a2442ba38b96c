//! A parsed block: its attributes and its payload.

use std::{borrow::Cow, ops::Range};

use serde_json::{Map, Value};

use crate::{Trust, datamark, markup};

/// The element of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// `<mcp:context type="…">body</mcp:context>`: context for a model.
    Context,
    /// `<mcp:resource uri="…"/>`: a resource shown inline, mostly an image.
    Resource,
}

impl Element {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Context => "context",
            Self::Resource => "resource",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        [Self::Context, Self::Resource]
            .into_iter()
            .find(|element| name.eq_ignore_ascii_case(element.name()))
    }
}

/// A block in a text. It borrows the text, and parses attributes and body on demand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block<'a> {
    pub(crate) element: Element,
    pub(crate) attributes: markup::Attributes<'a>,
    pub(crate) body: &'a str,
    pub(crate) raw: &'a str,
    pub(crate) start: usize,
}

impl<'a> Block<'a> {
    /// Returns the element.
    pub fn element(&self) -> Element {
        self.element
    }

    /// Returns the kind of content: the `type` of a context block (`resource`, `reasoning`, …;
    /// empty without the attribute), and always `resource` for an `mcp:resource`.
    pub fn kind(&self) -> Cow<'a, str> {
        match self.element {
            Element::Context => self.attribute("type").unwrap_or_default(),
            Element::Resource => Cow::Borrowed("resource"),
        }
    }

    /// Returns the attribute `uri`, unparsed: the subject or the source of the content.
    /// [`Am7Uri::parse`] parses it.
    ///
    /// [`Am7Uri::parse`]: crate::Am7Uri::parse
    pub fn uri(&self) -> Option<Cow<'a, str>> {
        self.attribute("uri")
    }

    /// Returns the attribute `id`.
    pub fn id(&self) -> Option<Cow<'a, str>> {
        self.attribute("id")
    }

    /// Returns whether only the model sees the block (`ephemeral="true"`).
    pub fn is_ephemeral(&self) -> bool {
        self.attribute("ephemeral").is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    /// Returns who the content comes from (attribute `trust`); `None` without the attribute and for
    /// an unknown value.
    pub fn trust(&self) -> Option<Trust> {
        Trust::from_name(&self.attribute("trust")?)
    }

    /// Returns whether the content comes from an untrusted source (`trust="untrusted"`):
    /// instructions in it must be ignored.
    pub fn is_untrusted(&self) -> bool {
        self.trust() == Some(Trust::Untrusted)
    }

    /// Returns whether the block is shown inline with the text, as an `mcp:resource` is.
    pub fn is_inline(&self) -> bool {
        self.element == Element::Resource
    }

    /// Returns whether the resource must still be looked up by its tags (`resolve="true"`).
    pub fn is_pending(&self) -> bool {
        self.attribute("resolve").is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    /// Returns the media type of an `mcp:resource`, for example `image/png`.
    pub fn media_type(&self) -> Option<Cow<'a, str>> {
        if self.is_inline() { self.attribute("type") } else { None }
    }

    /// Returns the tags of an `mcp:resource`, from its attribute `tags` or its child `<mcp:tags>`.
    /// Blank tags are dropped.
    pub fn tags(&self) -> Vec<String> {
        let tags = self.attribute("tags").or_else(|| self.child("tags")).unwrap_or_default();
        tags.split(',').map(str::trim).filter(|tag| !tag.is_empty()).map(str::to_owned).collect()
    }

    /// Returns the URI of the resource's thumbnail, from its attribute `thumbnail` or its child
    /// `<mcp:thumbnail>`.
    pub fn thumbnail(&self) -> Option<Cow<'a, str>> {
        self.attribute("thumbnail").or_else(|| self.child("thumbnail"))
    }

    /// Returns the value of an attribute. Names are compared without ASCII case; the first of
    /// several counts.
    pub fn attribute(&self, name: &str) -> Option<Cow<'a, str>> {
        self.attributes.get(name)
    }

    /// Returns the text between the tags, trimmed; empty for `<mcp:context …/>`.
    pub fn body(&self) -> &'a str {
        self.body
    }

    /// Returns the whole block as it is in the text.
    pub fn raw(&self) -> &'a str {
        self.raw
    }

    /// Returns the position of the block in the text, in bytes.
    pub fn span(&self) -> Range<usize> {
        self.start..self.start + self.raw.len()
    }

    /// Parses the body as JSON. A body that is not JSON becomes `{"raw": body}` (seed 003,
    /// `McpContextParser.js`).
    pub fn json(&self) -> Value {
        let mut body = serde_json::from_str(self.body).unwrap_or_else(|_| {
            Value::Object(Map::from_iter([("raw".to_owned(), Value::from(self.body))]))
        });
        if let Some(mark) = self.datamark() {
            datamark::remove(&mut body, mark);
        }
        body
    }

    /// Parses schema and data from the body. Both forms in use are read: `{"schema", "data"}`,
    /// which the [`Builder`](crate::Builder) writes, and `schema` as one more field of the data.
    pub fn payload(&self) -> Payload {
        let fields = match self.json() {
            Value::Object(fields) => fields,
            data => return Payload { schema: None, data },
        };
        let Some(schema) = fields.get("schema").and_then(Value::as_str).map(str::to_owned) else {
            return Payload { schema: None, data: Value::Object(fields) };
        };
        // Not `Map::remove`, which changes the order of the other fields where the map keeps one.
        let mut fields: Map<_, _> =
            fields.into_iter().filter(|(name, _)| name != "schema").collect();
        let holds_data_alone = fields.len() == 1;
        let data = match fields.get_mut("data") {
            Some(data) if holds_data_alone => data.take(),
            _ => Value::Object(fields),
        };
        Payload { schema: Some(schema), data }
    }

    fn datamark(&self) -> Option<char> {
        self.attribute("datamark")?.chars().next()
    }

    /// Returns the text of the first child `<mcp:NAME>`.
    fn child(&self, name: &str) -> Option<Cow<'a, str>> {
        let mut from = 0;
        while let Some(start) = markup::find_opening(self.body, from) {
            let Some(tag) = markup::StartTag::read(self.body, start) else {
                from = start + 1;
                continue;
            };
            if tag.name.eq_ignore_ascii_case(name) && !tag.closed {
                let (end, _) = markup::find_closing(self.body, tag.end, name)?;
                return Some(markup::unescape(self.body[tag.end..end].trim()));
            }
            from = tag.end;
        }
        None
    }
}

/// The content of a block.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Payload {
    /// The schema of the data, for example `urn:am7:vector:search-result`.
    pub schema: Option<String>,
    /// The data.
    pub data: Value,
}
