//! What the parser finds: a block, its attributes, its payload.

use std::{borrow::Cow, ops::Range};

use serde_json::{Map, Value};

use crate::{datamark, markup};

/// Which of the two elements a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// `<mcp:context type="…">body</mcp:context>`: context that something put before a model.
    Context,
    /// `<mcp:resource uri="…"/>`: a resource shown in line, mostly an image.
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

/// A block in a text. It borrows from the text; attributes and body are read when they are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block<'a> {
    pub(crate) element: Element,
    pub(crate) attributes: markup::Attributes<'a>,
    pub(crate) body: &'a str,
    pub(crate) raw: &'a str,
    pub(crate) start: usize,
}

impl<'a> Block<'a> {
    /// Which element it is.
    pub fn element(&self) -> Element {
        self.element
    }

    /// What it holds: the `type` of a context block (`resource`, `reasoning`, …; empty without one), and always
    /// `resource` for an element `mcp:resource`.
    pub fn kind(&self) -> Cow<'a, str> {
        match self.element {
            Element::Context => self.attribute("type").unwrap_or_default(),
            Element::Resource => Cow::Borrowed("resource"),
        }
    }

    /// What its content is about or from. An opaque string: see [`Am7Uri::parse`](crate::Am7Uri::parse).
    pub fn uri(&self) -> Option<Cow<'a, str>> {
        self.attribute("uri")
    }

    /// Its own id, if it has one.
    pub fn id(&self) -> Option<Cow<'a, str>> {
        self.attribute("id")
    }

    /// Whether it is meant for the model alone and is not shown (`ephemeral="true"`).
    pub fn is_ephemeral(&self) -> bool {
        self.attribute("ephemeral").is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    /// Whether its content comes from a source that must not be obeyed (`trust="untrusted"`).
    pub fn is_untrusted(&self) -> bool {
        self.attribute("trust").is_some_and(|value| value.eq_ignore_ascii_case("untrusted"))
    }

    /// Whether it stands in line with the text, as an `mcp:resource` does.
    pub fn is_inline(&self) -> bool {
        self.element == Element::Resource
    }

    /// Whether a resource still has to be found by its tags (`resolve="true"`).
    pub fn is_pending(&self) -> bool {
        self.attribute("resolve").is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    /// The media type of an `mcp:resource`, for example `image/png`.
    pub fn media_type(&self) -> Option<Cow<'a, str>> {
        if self.is_inline() { self.attribute("type") } else { None }
    }

    /// The tags of an `mcp:resource`: of its `tags` attribute, or of its `<mcp:tags>` child. Blank ones are left out.
    pub fn tags(&self) -> Vec<String> {
        let tags = self.attribute("tags").or_else(|| self.child("tags")).unwrap_or_default();
        tags.split(',').map(str::trim).filter(|tag| !tag.is_empty()).map(str::to_owned).collect()
    }

    /// The URI of a small picture of the resource: of its `thumbnail` attribute, or of its `<mcp:thumbnail>` child.
    pub fn thumbnail(&self) -> Option<Cow<'a, str>> {
        self.attribute("thumbnail").or_else(|| self.child("thumbnail"))
    }

    /// The value of any attribute, by its name in any ASCII case; of several the first.
    pub fn attribute(&self, name: &str) -> Option<Cow<'a, str>> {
        self.attributes.get(name)
    }

    /// What stands between the tags, without white space at the ends; empty for `<mcp:context …/>`.
    pub fn body(&self) -> &'a str {
        self.body
    }

    /// The whole block as it stands in the text.
    pub fn raw(&self) -> &'a str {
        self.raw
    }

    /// Where it stands in the text, in bytes.
    pub fn span(&self) -> Range<usize> {
        self.start..self.start + self.raw.len()
    }

    /// The body as JSON; what is no JSON is `{"raw": body}` (seed 003, `McpContextParser.js`).
    pub fn json(&self) -> Value {
        let mut body = serde_json::from_str(self.body).unwrap_or_else(|_| {
            Value::Object(Map::from_iter([("raw".to_owned(), Value::from(self.body))]))
        });
        if let Some(mark) = self.datamark() {
            datamark::remove(&mut body, mark);
        }
        body
    }

    /// The schema and the data that the block carries, in either of the forms that are in use: `{"schema", "data"}`,
    /// which the [`Builder`](crate::Builder) writes, or the data's own fields beside `schema`.
    pub fn payload(&self) -> Payload {
        let mut fields = match self.json() {
            Value::Object(fields) => fields,
            data => return Payload { schema: None, data },
        };
        let Some(schema) = fields.get("schema").and_then(Value::as_str).map(str::to_owned) else {
            return Payload { schema: None, data: Value::Object(fields) };
        };
        // `shift_remove` keeps the order of the others.
        fields.shift_remove("schema");
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

    /// The text of the first child `<mcp:NAME>`.
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

/// What a block carries.
#[derive(Clone, Debug, PartialEq)]
pub struct Payload {
    /// What the data is, for example `urn:am7:vector:search-result`.
    pub schema: Option<String>,
    /// The data.
    pub data: Value,
}
