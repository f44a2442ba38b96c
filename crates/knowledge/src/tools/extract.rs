//! The text of a document.

use std::{collections::BTreeMap, fmt::Write as _, num::NonZeroUsize, ops::Range};

use marquetry_protocol::{
    server::{Json, RequestContext, ToolOutput, Toolbox},
    types::{CallToolResult, Content},
};
use marquetry_rag::Extracted;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    EXTRACT, KnowledgeTools,
    size::{DEFAULT_TOKENS, largest, tokens_of},
};
use crate::failure::Failure;

/// Format of the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum ExtractFormat {
    #[default]
    Text,
    Markdown,
    Structured,
}

/// Arguments of `am7_extract_content`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ExtractArguments {
    /// Of a record; or of a passage that a search found: the text around it.
    uri: String,
    /// "structured" adds the places of pages and headings.
    #[serde(default)]
    format: ExtractFormat,
    /// Offset in bytes, such as the nextStart of an earlier answer.
    start: Option<usize>,
    /// Length in bytes; by default as much as 2,000 tokens hold.
    length: Option<NonZeroUsize>,
}

/// Answer of `am7_extract_content`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Extraction {
    /// The text.
    content: String,
    /// URI of its source.
    source_uri: String,
    /// MIME type of the document.
    mime_type: String,
    /// Number of pages, if it has pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    page_count: Option<u32>,
    /// Number of characters of the text.
    character_count: usize,
    /// Offset of the shown part, if it is not 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<usize>,
    /// Length of the whole text in bytes, if a part is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    byte_count: Option<usize>,
    /// Pass it as start to read on.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_start: Option<usize>,
    /// Title, encoding, author and the like, and losses of the extraction.
    extraction_metadata: BTreeMap<String, Value>,
    /// Pages in the text, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pages: Option<Vec<PageView>>,
    /// Headings in the text, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    headings: Option<Vec<HeadingView>>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
struct PageView {
    number: u32,
    start: usize,
    end: usize,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
struct HeadingView {
    level: u8,
    title: String,
    start: usize,
    end: usize,
}

/// The text for the model, and all data for programs.
struct ExtractAnswer(Result<Extraction, Failure>);

impl ToolOutput for ExtractAnswer {
    fn output_schema() -> Option<Value> {
        Json::<Extraction>::output_schema()
    }

    fn into_result(self) -> CallToolResult {
        match self.0 {
            Ok(extraction) if extraction.pages.is_none() => {
                CallToolResult {
                    content: std::iter::once(Content::text(extraction.content.clone()))
                        .chain(extraction.next_start.map(|next| {
                            Content::text(format!("(The text goes on: start = {next})"))
                        }))
                        .collect(),
                    structured_content: Some(json!(extraction)),
                    ..CallToolResult::default()
                }
            }
            Ok(extraction) => Json(extraction).into_result(),
            Err(failure) => failure.into(),
        }
    }
}

impl KnowledgeTools {
    pub(super) fn add_extract(&self, toolbox: Toolbox) -> Toolbox {
        self.add(toolbox, (EXTRACT, DESCRIPTION), |tools, arguments, cx| async move {
            ExtractAnswer(tools.extract(&arguments, &cx).await)
        })
    }

    async fn extract(
        &self,
        arguments: &ExtractArguments,
        cx: &RequestContext,
    ) -> Result<Extraction, Failure> {
        let access = self.read(cx, &arguments.uri).await?;
        let passage = access.passage_position(&arguments.uri).await?;
        let uri = passage.as_ref().map_or(&arguments.uri, |passage| &passage.document);
        let record = access.knowledge.records.get(&access.caller, uri).await?;
        let uri = record.uri().unwrap_or_default();
        // The memory is held until the part that is shown is cut out.
        let (_knowledge, extracted) = access.document(&record, None).await?;
        let around = passage.map(|passage| passage.span).filter(|_| arguments.start.is_none());
        let whole = Extraction::of(extracted, uri, arguments.format);
        let start = match around {
            // The passage is in the first half of what is shown.
            Some(span) => {
                whole.start_before(span.start, arguments.length.map_or(PART_BYTES, usize::from))
            }
            None => arguments.start.unwrap_or(0),
        };
        let length = whole.content.len();
        if start > length || !whole.content.is_char_boundary(start) {
            let message = format!(
                "start is {start}, which is not a nextStart of this text of {length} bytes"
            );
            return Err(Failure::invalid(message));
        }
        Ok(match arguments.length {
            Some(wanted) => {
                // An answer has the text twice: as data, and as text.
                whole.part_of_bytes(start, wanted.get().min(self.limits.max_answer_bytes.get() / 2))
            }
            None => whole.part_of_tokens(start),
        })
    }
}

/// Bytes of a text that an answer of the default size shows, roughly.
const PART_BYTES: usize = 3_000;

impl Extraction {
    /// Returns the offset from which a part of `length` bytes begins with the text before
    /// `position` and has about as much after it, at the end of a line or word if there is one.
    fn start_before(&self, position: usize, length: usize) -> usize {
        let text = &self.content;
        let position = text.floor_char_boundary(position);
        let earliest = text.floor_char_boundary(position.saturating_sub(length / 3));
        if earliest == 0 {
            return 0;
        }
        let before = &text[earliest..position];
        let border = before.find('\n').or_else(|| before.find(' '));
        border.map_or(earliest, |border| earliest + border + 1)
    }

    /// Returns as much of the text from `start` on as an answer of the default size has.
    fn part_of_tokens(&self, start: usize) -> Self {
        /// Bytes for each token, in texts that have few tokens, such as lines of dashes.
        const MAX_BYTES_PER_TOKEN: usize = 8;
        let max_tokens = usize::try_from(DEFAULT_TOKENS).unwrap_or(usize::MAX);
        let most = (self.content.len() - start).min(max_tokens * MAX_BYTES_PER_TOKEN / 2);
        let length = largest(0, most, |length| {
            let part = self.part(start, self.content.floor_char_boundary(start + length));
            tokens_of(&ExtractAnswer(Ok(part)).into_result()) <= DEFAULT_TOKENS
        });
        // A part always has some text, whatever its metadata.
        let end = self.content.floor_char_boundary(start + length.max(64));
        self.part(start, self.border_before(start, end))
    }

    /// Returns `end`, or the end of a line or word shortly before it.
    fn border_before(&self, start: usize, end: usize) -> usize {
        if end >= self.content.len() {
            return end;
        }
        let from = self.content.ceil_char_boundary(start + (end - start) * 3 / 4);
        let last = &self.content[from..end];
        let border = last.rfind('\n').or_else(|| last.rfind(' '));
        border.map_or(end, |border| from + border + 1)
    }

    /// Returns at most `max` bytes of the text from `start` on, with the pages and headings in it.
    fn part_of_bytes(&self, start: usize, max: usize) -> Self {
        let most = (self.content.len() - start).min(max.max(4));
        let length = largest(0, most, |length| {
            let part = self.part(start, self.content.floor_char_boundary(start + length));
            // The places of pages and headings count, too.
            let places = part.pages.as_ref().map_or(0, json_size)
                + part.headings.as_ref().map_or(0, json_size);
            places + length <= max.max(64)
        });
        let least = most.min(64);
        self.part(start, self.content.floor_char_boundary(start + length.max(least)))
    }

    /// Returns the text in a range of bytes, with the pages and headings in it.
    fn part(&self, start: usize, end: usize) -> Self {
        let length = self.content.len();
        let shown = start..end;
        let is_whole = start == 0 && end >= length;
        let pages = self.pages.as_ref().map(|pages| {
            pages.iter().filter(|it| is_shown(it.start, it.end, &shown)).cloned().collect()
        });
        let headings = self.headings.as_ref().map(|headings| {
            headings.iter().filter(|it| is_shown(it.start, it.end, &shown)).cloned().collect()
        });
        Self {
            content: self.content[shown].to_owned(),
            source_uri: self.source_uri.clone(),
            mime_type: self.mime_type.clone(),
            page_count: self.page_count,
            character_count: self.character_count,
            start: Some(start).filter(|start| *start > 0),
            byte_count: (!is_whole).then_some(length),
            next_start: (end < length).then_some(end),
            extraction_metadata: self.extraction_metadata.clone(),
            pages,
            headings,
        }
    }

    fn of(extracted: Extracted, source_uri: String, format: ExtractFormat) -> Self {
        let mut metadata: BTreeMap<String, Value> = extracted
            .metadata
            .iter()
            .take(MAX_METADATA)
            .map(|(name, value)| (shortened(name), json!(shortened(value))))
            .collect();
        let known = [("title", &extracted.title), ("encoding", &extracted.encoding)];
        for (name, value) in known {
            if let Some(value) = value {
                metadata.insert(name.to_owned(), json!(shortened(value)));
            }
        }
        if !extracted.problems.is_empty() {
            let all = extracted.problems.iter().map(|it| shortened(&it.to_string()));
            let mut problems: Vec<String> = all.take(MAX_PROBLEMS).collect();
            if let Some(more) = extracted.problems.len().checked_sub(MAX_PROBLEMS + 1) {
                problems.push(format!("and {} more", more + 1));
            }
            metadata.insert("problems".to_owned(), json!(problems));
        }
        let is_structured = format == ExtractFormat::Structured;
        let pages = extracted.pages.iter().map(|page| PageView {
            number: page.number,
            start: page.span.start,
            end: page.span.end,
        });
        let headings = extracted.headings.iter().map(|heading| HeadingView {
            level: heading.level,
            title: heading.title.clone(),
            start: heading.span.start,
            end: heading.span.end,
        });
        let pages = is_structured.then(|| pages.collect());
        let headings = is_structured.then(|| headings.collect());
        let content = match format {
            ExtractFormat::Markdown => markdown(&extracted),
            _ => extracted.content,
        };
        Self {
            character_count: content.chars().count(),
            content,
            source_uri,
            mime_type: extracted.mime_type,
            page_count: extracted.page_count,
            start: None,
            byte_count: None,
            next_start: None,
            extraction_metadata: metadata,
            pages,
            headings,
        }
    }
}

/// Metadata that an answer has: enough for the members that formats define.
const MAX_METADATA: usize = 12;

/// Problems of the extraction that an answer lists.
const MAX_PROBLEMS: usize = 5;

fn json_size(value: &impl Serialize) -> usize {
    serde_json::to_vec(value).map_or(0, |json| json.len())
}

/// Cuts one value of the metadata.
fn shortened(text: &str) -> String {
    const MAX_BYTES: usize = 200;
    if text.len() <= MAX_BYTES {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(MAX_BYTES)])
}

/// Returns the text with Markdown headings.
fn markdown(extracted: &Extracted) -> String {
    let mut text = String::with_capacity(extracted.content.len() + 8 * extracted.headings.len());
    let mut from = 0;
    for heading in &extracted.headings {
        // A heading inside of another one, or with a mark already, stays as it is.
        let is_marked = extracted.content[heading.span.clone()].starts_with('#');
        if heading.span.start < from || is_marked {
            continue;
        }
        text.push_str(&extracted.content[from..heading.span.start]);
        let level = usize::from(heading.level.clamp(1, 6));
        _ = write!(text, "{} ", "#".repeat(level));
        from = heading.span.start;
    }
    text.push_str(&extracted.content[from..]);
    text
}

const DESCRIPTION: &str =
    "Returns the text of a document in parts, as a reader sees it, or the text around a passage.";

/// Returns whether a page or heading is in the shown part of the text.
fn is_shown(from: usize, to: usize, shown: &Range<usize>) -> bool {
    from < shown.end && (to > shown.start || shown.start == 0)
}

#[cfg(test)]
mod tests {
    use marquetry_rag::{Hint, extract};

    use super::*;

    #[test]
    fn headings_are_marked_once() {
        let html =
            extract(b"<h1>Bread</h1><p>Flour.</p><h2>Water</h2>", &Hint::file("a.html")).unwrap();
        let marked = markdown(&html);
        assert!(marked.starts_with("# Bread"), "{marked}");
        assert!(marked.contains("\n## Water"), "{marked}");
        let text = "# Bread\n\nFlour.";
        let known = extract(text.as_bytes(), &Hint::file("a.md")).unwrap();
        assert_eq!(markdown(&known), text);
    }
}
