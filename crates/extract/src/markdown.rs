//! Markdown: the source text without hidden parts.

use pulldown_cmark::{Event, MetadataBlockKind, Options, Parser, Tag, TagEnd};

use crate::{
    ExtractError, Extracted, Extractor, Heading, Problem, Source, cut::cut_out, decode::decode,
    document::PART_BYTES, html::HiddenPassages,
};

/// Reads Markdown. The source text is readable, so it stays unchanged; comments and hidden elements
/// are removed, because a reader of the rendered page does not see them.
pub(crate) struct Markdown;

impl Extractor for Markdown {
    fn media_types(&self) -> &[&str] {
        &["text/markdown", "text/x-markdown"]
    }

    fn extensions(&self) -> &[(&str, &str)] {
        &[("md", "text/markdown"), ("markdown", "text/markdown"), ("mdx", "text/markdown")]
    }

    fn extract(&self, source: &Source<'_>) -> Result<Extracted, ExtractError> {
        read(decode(source.bytes, source.charset).document()?, source)
    }
}

/// Finds the headings of a Markdown text, and removes its hidden parts.
pub(crate) fn read(
    mut extracted: Extracted,
    source: &Source<'_>,
) -> Result<Extracted, ExtractError> {
    check_marks(&extracted.content)?;
    let options = Options::ENABLE_TABLES | Options::ENABLE_YAML_STYLE_METADATA_BLOCKS;
    let mut hidden = HiddenPassages::default();
    let mut heading: Option<Heading> = None;
    let mut in_front_matter = false;
    for (event, span) in Parser::new_ext(&extracted.content, options).into_offset_iter() {
        source.check(extracted.headings.len() * PART_BYTES)?;
        match event {
            Event::Start(Tag::Heading { level, .. }) => {
                let span = span.start..extracted.content[..span.end].trim_end().len();
                heading = Some(Heading { level: level as u8, title: String::new(), span });
            }
            Event::End(TagEnd::Heading(_)) => {
                extracted
                    .headings
                    .extend(heading.take().filter(|heading| !heading.title.is_empty()));
            }
            Event::Start(Tag::Paragraph) => hidden.start_paragraph(),
            Event::End(TagEnd::Paragraph) => hidden.end_paragraph(span.end),
            Event::Start(Tag::HtmlBlock) | Event::InlineHtml(_) => {
                hidden.read(&extracted.content[span.clone()], span.start);
            }
            Event::Start(Tag::MetadataBlock(MetadataBlockKind::YamlStyle)) => {
                in_front_matter = true;
            }
            Event::End(TagEnd::MetadataBlock(_)) => in_front_matter = false,
            Event::Text(text) if in_front_matter => extracted.title = title(&text),
            Event::Text(text) | Event::Code(text) => {
                if let Some(heading) = &mut heading {
                    heading.title.push_str(&text);
                }
            }
            Event::SoftBreak | Event::HardBreak => {
                if let Some(heading) = &mut heading {
                    heading.title.push(' ');
                }
            }
            _ => {}
        }
    }
    let hidden = hidden.finish(extracted.content.len());
    if !hidden.is_empty() {
        cut_out(&mut extracted, &hidden);
        extracted.problems.push(Problem::Hidden { count: hidden.len() });
    }
    let first = extracted.headings.iter().find(|heading| heading.level == 1);
    extracted.title = extracted.title.or_else(|| first.map(|heading| heading.title.clone()));
    Ok(extracted)
}

/// Checks that the parser's tree of a text is not too large for the memory. Lines and characters
/// that may be markup become nodes of more than a hundred bytes.
fn check_marks(text: &str) -> Result<(), ExtractError> {
    /// A text has one in 20 bytes.
    const MAX_MARKS: u64 = 2 << 20;
    const MARKS: &[u8] = b"\n*_`[]!<>&|\\~";
    let found = text
        .bytes()
        .zip(text.bytes().skip(1).chain([b'\n']))
        .filter(|&(byte, next)| {
            // A list within a list may begin anywhere in a line: `- 1. + a`.
            let is_item = matches!(byte, b'-' | b'+' | b'.' | b')') && next == b' ';
            is_item || MARKS.contains(&byte)
        })
        .count() as u64;
    if found > MAX_MARKS {
        let limit = "for lines and marks of Markdown";
        return Err(ExtractError::Limit { limit, allowed: MAX_MARKS, found });
    }
    Ok(())
}

/// Returns the title in the front matter.
fn title(front_matter: &str) -> Option<String> {
    let title = front_matter
        .lines()
        .find_map(|line| line.strip_prefix("title:"))?
        .trim()
        .trim_matches(['"', '\'']);
    (!title.is_empty()).then(|| title.to_owned())
}
