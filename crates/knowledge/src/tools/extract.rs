//! The text of a document.

use std::{collections::BTreeMap, fmt::Write as _, ops::Range};

use marquetry_protocol::{
    server::{Json, RequestContext, ToolOutput, Toolbox},
    types::{CallToolResult, Content},
};
use marquetry_rag::Extracted;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{EXTRACT, KnowledgeTools};
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
    uri: String,
    /// "structured" adds the places of pages and headings.
    #[serde(default)]
    format: ExtractFormat,
    /// The nextStart of an earlier answer.
    #[serde(default)]
    start: usize,
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
    /// Pass it as start to read on (limits.max_own_answer_bytes).
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
        let record = access.knowledge.records.get(&access.caller, &arguments.uri).await?;
        let uri = record.uri().unwrap_or_default();
        let content = access.knowledge.records.content(&access.caller, &uri).await?;
        let extracted = access.knowledge.text_of(&record, content).await?;
        let mut extraction = Extraction::of(extracted, uri, arguments.format);
        // An answer has the text twice: as data, and as text.
        extraction.cut(arguments.start, self.limits.max_answer_bytes.get() / 2)?;
        Ok(extraction)
    }
}

impl Extraction {
    /// Cuts the text to at most `max` bytes from `start` on, with their pages and headings.
    fn cut(&mut self, start: usize, max: usize) -> Result<(), Failure> {
        let length = self.content.len();
        if start > length || !self.content.is_char_boundary(start) {
            let message = format!("start is {start}, which is not a nextStart of this text");
            return Err(Failure::invalid(message));
        }
        let mut end = self.content.floor_char_boundary(start.saturating_add(max.max(4)));
        // The places of pages and headings count, too.
        let mut pages = self.pages.take();
        let mut headings = self.headings.take();
        loop {
            if let Some(pages) = &mut pages {
                pages.retain(|page| is_shown(page.start, page.end, &(start..end)));
            }
            if let Some(headings) = &mut headings {
                headings.retain(|heading| is_shown(heading.start, heading.end, &(start..end)));
            }
            let places = serde_json::to_vec(&(&pages, &headings)).map_or(0, |json| json.len());
            let text = end - start;
            if places + text <= max.max(64) || text <= 64 {
                break;
            }
            // Shortens the text by the excess, or by half of it.
            let less = (places + text).saturating_sub(max).min(text / 2).max(1);
            end = self.content.floor_char_boundary(end - less);
        }
        if end < length {
            self.next_start = Some(end);
        }
        if start > 0 || end < length {
            self.content = self.content[start..end].to_owned();
        }
        self.pages = pages;
        self.headings = headings;
        Ok(())
    }

    fn of(extracted: Extracted, source_uri: String, format: ExtractFormat) -> Self {
        let mut metadata: BTreeMap<String, Value> =
            extracted.metadata.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        let known = [("title", &extracted.title), ("encoding", &extracted.encoding)];
        for (name, value) in known {
            if let Some(value) = value {
                metadata.insert(name.to_owned(), json!(value));
            }
        }
        if !extracted.problems.is_empty() {
            let problems: Vec<String> =
                extracted.problems.iter().map(ToString::to_string).collect();
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
            next_start: None,
            extraction_metadata: metadata,
            pages,
            headings,
        }
    }
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

const DESCRIPTION: &str = "Returns the text of a document, as a reader sees it.";

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
