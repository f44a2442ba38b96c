//! XML: one line for each element with its name, unless the element is within text.

use std::fmt::Write as _;

use quick_xml::{
    Reader, XmlVersion,
    events::{BytesStart, Event},
};

use crate::{
    ExtractError, Extracted, Extractor, Problem, Source,
    decode::{declared_after, decode},
};

/// Reads elements, attributes and text. Entities that a document declares are never expanded.
pub(crate) struct Xml;

impl Extractor for Xml {
    fn media_types(&self) -> &[&str] {
        &["application/xml", "text/xml", "*+xml"]
    }

    fn extensions(&self) -> &[(&str, &str)] {
        &[
            ("atom", "application/atom+xml"),
            ("rss", "application/rss+xml"),
            ("svg", "image/svg+xml"),
            ("xml", "application/xml"),
            ("xsd", "application/xml"),
            ("xsl", "application/xml"),
        ]
    }

    fn extract(&self, source: &Source<'_>) -> Result<Extracted, ExtractError> {
        let declared = source.charset.or_else(|| declared_after(source.bytes, "encoding", 256));
        let mut extracted = decode(source.bytes, declared).document()?;
        extracted.wrapped = false;
        let mut lines = Lines::default();
        let mut reader = Reader::from_str(&extracted.content);
        let done = loop {
            match reader.read_event() {
                Ok(Event::Eof) if lines.open.is_empty() => break Ok(()),
                Ok(Event::Eof) => break Err("the document ends inside of an element".to_owned()),
                Ok(event) => lines.event(event),
                Err(error) => break Err(format!("byte {}: {error}", reader.error_position())),
            }
            source.check(lines.text.len() + lines.line.len())?;
        };
        match done {
            Ok(()) => {
                lines.flush();
                extracted.content = lines.text;
                if lines.entities > 0 {
                    let reason = format!("{} entities are not expanded", lines.entities);
                    extracted.problems.push(Problem::Other { reason });
                }
            }
            Err(reason) => extracted.problems.push(Problem::TakenAsText { reason }),
        }
        Ok(extracted)
    }
}

#[derive(Default)]
struct Lines {
    text: String,
    /// Text of the current line.
    line: String,
    /// Name of the line's element.
    name: String,
    attributes: String,
    open: Vec<Open>,
    /// Number of unknown entities.
    entities: usize,
}

struct Open {
    has_text: bool,
    /// The element is within a line of text, which continues after it.
    is_inline: bool,
}

impl Lines {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(element) => self.start(&element),
            Event::Empty(element) => {
                self.start(&element);
                self.end();
            }
            Event::End(_) => self.end(),
            Event::Text(text) => self.push(&text),
            Event::CData(text) => self.push(&text),
            Event::GeneralRef(reference) => {
                if let Ok(Some(character)) = reference.resolve_char_ref() {
                    self.push(character.encode_utf8(&mut [0; 4]));
                } else if let Some(text) = quick_xml::escape::resolve_xml_entity(&reference) {
                    self.push(text);
                } else {
                    self.entities += 1;
                    self.push(&format!("&{};", &*reference));
                }
            }
            // Comments are not displayed, and a DTD has no content.
            _ => {}
        }
    }

    fn start(&mut self, element: &BytesStart<'_>) {
        let is_inline = self.open.last().is_some_and(|parent| parent.has_text);
        self.open.push(Open { has_text: false, is_inline });
        if is_inline {
            return;
        }
        self.flush();
        self.name.push_str(element.local_name().as_ref());
        for attribute in element.attributes().with_checks(false).flatten() {
            let name: &str = attribute.key.as_ref();
            if name == "xmlns" || name.starts_with("xmlns:") {
                continue;
            }
            let value = attribute.normalized_value(XmlVersion::Implicit1_0);
            let value = value.as_deref().unwrap_or(&attribute.value);
            let comma = if self.attributes.is_empty() { "" } else { ", " };
            let name: &str = attribute.key.local_name().into_inner();
            let _ = write!(self.attributes, "{comma}{name}={}", value.trim());
        }
    }

    fn end(&mut self) {
        if self.open.pop().is_some_and(|element| !element.is_inline) {
            self.flush();
        }
    }

    fn push(&mut self, text: &str) {
        if let Some(element) = self.open.last_mut() {
            element.has_text |= !text.trim().is_empty();
        }
        for piece in text.split_inclusive(char::is_whitespace) {
            let word = piece.trim_end();
            self.line.push_str(word);
            if word.len() < piece.len() && !self.line.is_empty() && !self.line.ends_with(' ') {
                self.line.push(' ');
            }
        }
    }

    fn flush(&mut self) {
        let Self { text, line, name, attributes, .. } = self;
        let content = line.trim_end();
        if content.is_empty() && attributes.is_empty() {
            name.clear();
            line.clear();
            return;
        }
        text.push_str(name);
        if !name.is_empty() {
            text.push_str(if content.is_empty() || attributes.is_empty() { ": " } else { " (" });
        }
        text.push_str(attributes);
        if !content.is_empty() && !attributes.is_empty() {
            text.push_str("): ");
        }
        text.push_str(content);
        text.push('\n');
        name.clear();
        attributes.clear();
        line.clear();
    }
}
