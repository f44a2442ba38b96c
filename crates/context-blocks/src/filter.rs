//! Removes blocks from text for people, and groups them by subject.

use std::borrow::Cow;

use crate::{
    block::Block,
    markup::attribute_into,
    parse::blocks,
    splice::{self, push_between},
    uri::Am7Uri,
};

/// Removes from a text the blocks that people should not see, and renders inline resources.
///
/// ```
/// use marquetry_context_blocks::Filter;
///
/// let text = r#"Hello <mcp:context type="resource" uri="am7://reminder/u1" ephemeral="true">{}</mcp:context>World"#;
/// let filtered = Filter::default().apply(text);
/// assert_eq!(filtered.content, "Hello World");
/// assert_eq!(filtered.contexts.reminders.len(), 1);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Filter {
    /// Keeps ephemeral blocks; off by default.
    pub show_ephemeral: bool,
    /// Keeps reasoning; off by default.
    pub show_reasoning: bool,
    /// Renders inline media resources as HTML images; on by default.
    pub render_resources: bool,
    /// Prefix of `/media/ORGANISATION/TYPE/ID` in the source of an image; empty by default.
    pub media_base: String,
}

impl Default for Filter {
    fn default() -> Self {
        Self {
            show_ephemeral: false,
            show_reasoning: false,
            render_resources: true,
            media_base: String::new(),
        }
    }
}

impl Filter {
    /// Filters a text. A text without tags of blocks is only trimmed, without allocation.
    ///
    /// The result contains exactly the kept blocks: no unmatched tag remains, and text that comes
    /// together where a block was removed never forms a new one.
    pub fn apply<'a>(&self, text: &'a str) -> Filtered<'a> {
        let mut contexts = Contexts::default();
        if splice::tags(text).next().is_none() {
            return Filtered { content: Cow::Borrowed(text.trim()), contexts };
        }
        let mut content = String::with_capacity(text.len());
        let mut from = 0;
        for block in blocks(text) {
            let span = block.span();
            push_between(&text[from..span.start], &mut content);
            from = span.end;
            if !self.hides(&block) {
                self.show(&block, &mut content);
            }
            contexts.add(block);
        }
        push_between(&text[from..], &mut content);
        content.truncate(content.trim_end().len());
        content.drain(..content.len() - content.trim_start().len());
        Filtered { content: Cow::Owned(content), contexts }
    }

    fn hides(&self, block: &Block<'_>) -> bool {
        (block.is_ephemeral() && !self.show_ephemeral)
            || (block.kind() == "reasoning" && !self.show_reasoning)
    }

    fn show(&self, block: &Block<'_>, out: &mut String) {
        if self.render_resources && block.is_inline() && is_media(block) {
            self.render(block, out);
        } else {
            out.push_str(block.raw());
        }
    }

    /// Writes an image. It has a source only if the URI names media; a pending resource has none.
    fn render(&self, block: &Block<'_>, out: &mut String) {
        let uri = block.uri().unwrap_or_default();
        out.push_str("<img");
        if let Ok(medium) = Am7Uri::parse(&uri)
            && medium.is_media()
            && let (Some(kind), Some(id)) = (medium.object_type(), medium.id())
        {
            let mut source = format!("{}/media", self.media_base);
            for segment in medium.organization().split('/').chain([kind, id]) {
                source.push('/');
                crate::uri::encode_segment(segment, &mut source);
            }
            attribute_into("src", &source, out);
        }
        let tags = block.tags();
        attribute_into("alt", &tags.join(", "), out);
        attribute_into("data-mcp-uri", &uri, out);
        attribute_into("data-mcp-tags", &tags.join(","), out);
        out.push_str(" />");
    }
}

/// The result of [`Filter::apply`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Filtered<'a> {
    /// The text to show, trimmed.
    pub content: Cow<'a, str>,
    /// All blocks of the text, kept or removed.
    pub contexts: Contexts<'a>,
}

/// Blocks by subject, in the order of the text. The first rule that fits decides; a block that fits
/// none is in no list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contexts<'a> {
    /// The URI contains `/citations/` or `/vector/`.
    pub citations: Vec<Block<'a>>,
    /// The URI contains `/reminder/`.
    pub reminders: Vec<Block<'a>>,
    /// The URI contains `/keyframe/`.
    pub keyframes: Vec<Block<'a>>,
    /// The URI contains `/metrics/`.
    pub metrics: Vec<Block<'a>>,
    /// The type is `reasoning`.
    pub reasoning: Vec<Block<'a>>,
    /// The URI contains `/media/`.
    pub resources: Vec<Block<'a>>,
}

impl<'a> Contexts<'a> {
    fn add(&mut self, block: Block<'a>) {
        let uri = block.uri().unwrap_or_default();
        let list = if uri.contains("/citations/") || uri.contains("/vector/") {
            &mut self.citations
        } else if uri.contains("/reminder/") {
            &mut self.reminders
        } else if uri.contains("/keyframe/") {
            &mut self.keyframes
        } else if uri.contains("/metrics/") {
            &mut self.metrics
        } else if is_media(&block) {
            &mut self.resources
        } else if block.kind() == "reasoning" {
            &mut self.reasoning
        } else {
            return;
        };
        list.push(block);
    }
}

fn is_media(block: &Block<'_>) -> bool {
    block.uri().is_some_and(|uri| uri.contains("/media/"))
}
