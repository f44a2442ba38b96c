//! HTML: the text that a browser would show, with its headings.

mod flow;
mod open;

use std::{collections::BTreeMap, ops::Range};

use html5gum::{DefaultEmitter, StartTag, Token, Tokenizer};

use super::{
    ExtractError, Extracted, Extractor, Heading, Problem, Source,
    decode::{declared_after, decode},
    document::{PART_BYTES, readings_left_out},
};
use flow::{Break, Flow};
use open::OpenElements;

// `html5ever` 0.40 builds a tree, so that memory and recursion grow with the depth of an untrusted
// page, and would add nine crates, among them a second `phf`. `html5gum` has the same tokenizer of
// the standard without a tree.
/// Reads web pages. Elements are tracked only as far as needed to know whether text is hidden. No
/// tree is built, so deep nesting costs nothing.
pub(super) struct Html;

impl Extractor for Html {
    fn media_types(&self) -> &[&str] {
        &["text/html", "application/xhtml+xml"]
    }

    fn extensions(&self) -> &[(&str, &str)] {
        &[("htm", "text/html"), ("html", "text/html"), ("xhtml", "application/xhtml+xml")]
    }

    fn extract(&self, source: &Source<'_>) -> Result<Extracted, ExtractError> {
        let declared = source.charset.or_else(|| declared_after(source.bytes, "charset", 1024));
        let mut extracted = decode(source.bytes, declared).document()?;
        let html = std::mem::take(&mut extracted.content);
        let page = read(&html, source)?;
        if page.hidden > 0 {
            extracted.problems.push(Problem::Hidden { count: page.hidden });
        }
        if page.readings > 0 {
            extracted.problems.push(readings_left_out(page.readings));
        }
        extracted.content = page.content;
        extracted.headings = page.headings;
        extracted.title = page.title;
        extracted.metadata = page.metadata;
        extracted.wrapped = false;
        Ok(extracted)
    }
}

/// The text of a page.
pub(super) struct Read {
    pub(super) content: String,
    pub(super) headings: Vec<Heading>,
    pub(super) title: Option<String>,
    pub(super) metadata: BTreeMap<String, String>,
    /// Number of hidden passages.
    pub(super) hidden: usize,
    /// Number of readings above characters, which are left out.
    pub(super) readings: usize,
}

/// Reads the text of a page.
pub(super) fn read(html: &str, source: &Source<'_>) -> Result<Read, ExtractError> {
    let mut page = Page::default();
    for token in tokens(html) {
        page.token(token);
        source.check(page.flow.len() + page.open.depth() * PART_BYTES)?;
    }
    let (content, headings) = page.flow.finish();
    let title = page.title.split_whitespace().collect::<Vec<_>>().join(" ");
    let title = (!title.is_empty()).then_some(title);
    Ok(Read {
        content,
        headings,
        title,
        metadata: page.metadata,
        hidden: page.hidden,
        readings: page.readings,
    })
}

fn tokens(html: &str) -> impl Iterator<Item = Token<usize>> {
    let mut emitter = DefaultEmitter::<usize>::new_with_span();
    emitter.naively_switch_states(true);
    Tokenizer::new_with_emitter(html, emitter).map(|token| {
        let Ok(token) = token;
        token
    })
}

/// Finds hidden passages in the pieces of HTML in a Markdown text: comments, and elements that are
/// not shown. One value reads all pieces of a text in order.
#[derive(Default)]
pub(super) struct HiddenPassages {
    open: OpenElements,
    start: Option<usize>,
    passages: Vec<Range<usize>>,
}

impl HiddenPassages {
    /// Reads a piece that begins at this position.
    pub(super) fn read(&mut self, html: &str, at: usize) {
        for token in tokens(html) {
            match token {
                Token::StartTag(tag) => {
                    let start = at + tag.span.start;
                    let name = tag.name.to_vec();
                    self.open.start(&name, &attributes(&tag), tag.self_closing);
                    self.update(start, start);
                }
                Token::EndTag(tag) => {
                    self.open.end(&tag.name);
                    self.update(at + tag.span.start, at + tag.span.end);
                }
                Token::Comment(comment) if self.start.is_none() => {
                    self.passages.push(at + comment.span.start..at + comment.span.end);
                }
                _ => {}
            }
        }
    }

    /// Starts a paragraph of Markdown. Elements that are opened in it end with it.
    pub(super) fn start_paragraph(&mut self) {
        self.open.start(b"p", &BTreeMap::new(), false);
    }

    /// Ends a paragraph of Markdown.
    pub(super) fn end_paragraph(&mut self, at: usize) {
        self.open.end(b"p");
        self.update(at, at);
    }

    /// Returns the hidden passages of a text with this length.
    pub(super) fn finish(mut self, length: usize) -> Vec<Range<usize>> {
        self.passages.extend(self.start.map(|start| start..length));
        self.passages
    }

    fn update(&mut self, tag_start: usize, tag_end: usize) {
        match self.start {
            None if self.open.is_hidden() => self.start = Some(tag_start),
            Some(start) if !self.open.is_hidden() => {
                self.passages.push(start..tag_end);
                self.start = None;
            }
            _ => {}
        }
    }
}

/// The attributes of an element, by name.
type Attributes = BTreeMap<String, String>;

fn attributes(tag: &StartTag<usize>) -> Attributes {
    tag.attributes
        .iter()
        .map(|(name, value)| {
            let value = String::from_utf8_lossy(&value.value).into_owned();
            (String::from_utf8_lossy(name).into_owned(), value)
        })
        .collect()
}

#[derive(Default)]
struct Page {
    open: OpenElements,
    flow: Flow,
    title: String,
    in_title: bool,
    metadata: BTreeMap<String, String>,
    hidden: usize,
    readings: usize,
}

impl Page {
    fn token(&mut self, token: Token<usize>) {
        match token {
            Token::StartTag(tag) => self.start(&tag),
            Token::EndTag(tag) => self.end(&tag.name),
            Token::String(text) => {
                let text = String::from_utf8_lossy(&text.value);
                if self.in_title {
                    self.title.push_str(&text);
                } else if !self.open.is_hidden() {
                    self.flow.text(&text);
                }
            }
            _ => {}
        }
    }

    fn start(&mut self, tag: &StartTag<usize>) {
        let attributes = attributes(tag);
        let was_hidden = self.open.is_hidden();
        self.open.start(&tag.name, &attributes, tag.self_closing);
        self.follow_headings();
        match tag.name.as_slice() {
            b"title" if self.title.is_empty() && !self.open.in_foreign() => self.in_title = true,
            b"html" => {
                if let Some(language) = attributes.get("lang") {
                    self.metadata.insert("language".to_owned(), language.clone());
                }
            }
            b"meta" => self.meta(&attributes),
            _ => {}
        }
        if self.open.is_hidden() {
            let name = tag.name.as_slice();
            let is_reading = matches!(name, b"rt" | b"rtc");
            let says_nothing =
                is_reading || matches!(name, b"rp" | b"script" | b"style" | b"template" | b"title");
            self.readings += usize::from(!was_hidden && is_reading);
            self.hidden += usize::from(!was_hidden && !says_nothing);
            return;
        }
        match tag.name.as_slice() {
            b"br" => self.flow.set_break(Break::Line),
            // What a browser shows in place of a picture.
            b"img" | b"area" => {
                if let Some(text) = attributes.get("alt")
                    && !open::hides(&tag.name, &attributes)
                {
                    self.flow.text(&format!(" {text} "));
                }
            }
            b"li" => self.flow.set_mark("- "),
            b"tr" => self.flow.set_break(Break::Line),
            b"td" | b"th" => self.flow.set_mark_in_line("| "),
            b"pre" | b"textarea" => self.flow.set_break(Break::Block),
            name if open::is_block(name) => self.flow.set_break(Break::Block),
            _ => {}
        }
        self.flow.set_preformatted(self.open.is_preformatted());
        if let [b'h', level @ b'1'..=b'6'] = *tag.name.as_slice() {
            self.flow.start_heading(level - b'0');
        }
    }

    fn end(&mut self, name: &[u8]) {
        if name == b"title" {
            self.in_title = false;
        }
        let was_hidden = self.open.is_hidden();
        self.open.end(name);
        self.follow_headings();
        self.flow.set_preformatted(self.open.is_preformatted());
        if was_hidden {
            return;
        }
        match name {
            b"li" | b"tr" | b"td" | b"th" => {}
            name if open::is_block(name) => self.flow.set_break(Break::Block),
            _ => {}
        }
    }

    /// Ends the open heading if its element was closed in any way.
    fn follow_headings(&mut self) {
        if !self.open.in_heading() {
            self.flow.end_heading();
        }
    }

    fn meta(&mut self, attributes: &Attributes) {
        let (Some(name), Some(content)) = (attributes.get("name"), attributes.get("content"))
        else {
            return;
        };
        let name = name.to_ascii_lowercase();
        // Only known names are used, because a document may contain any number of others.
        if ["author", "date", "description", "generator", "keywords"].contains(&name.as_str()) {
            self.metadata.entry(name).or_insert_with(|| content.trim().to_owned());
        }
    }
}
