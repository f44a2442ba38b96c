//! Finds chapters by numbered headings and by Markdown headings.

use std::{ops::Range, sync::LazyLock};

use marquetry_index::Chapter;
use regex::Regex;

/// `Chapter 3: Title`, `PART IV`, `Chapter One. Title`.
static NUMBERED: LazyLock<Regex> = LazyLock::new(|| {
    let words = "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|\
        seventeen|eighteen|nineteen|twenty|thirty|forty|fifty";
    let pattern = format!(
        r"(?i)^\s*(?:chapter|part)\s+(?:\d+|[ivxlcdm]+|(?:{words})(?:[- ](?:{words}))?)\b\s*[.:—–-]?\s*(.*?)\s*$"
    );
    Regex::new(&pattern).expect("the pattern is fixed")
});

/// Longest heading, in bytes. A longer line is a sentence that begins like a heading.
const LONGEST_HEADING: usize = 120;

/// A heading and its lines.
pub(crate) struct Heading {
    pub(crate) line: Range<usize>,
    pub(crate) title: String,
}

/// Returns the parts of a text with their chapters. The part before the first heading has no
/// chapter; a text without headings is one part.
pub(crate) fn sections(text: &str) -> Vec<(Range<usize>, Option<Chapter>)> {
    divide(text, &without_contents(text, headings(text)))
}

/// Divides a text at the given headings.
pub(crate) fn divide(text: &str, headings: &[Heading]) -> Vec<(Range<usize>, Option<Chapter>)> {
    let starts = headings.iter().map(|heading| heading.line.start);
    let ends = starts.clone().chain([text.len()]);
    let before = (0..ends.clone().next().unwrap_or(text.len()), None);
    let chapters = headings.iter().enumerate().zip(starts.zip(ends.skip(1))).map(
        |((index, heading), (start, end))| {
            (start..end, Some(Chapter::new(index + 1, &heading.title)))
        },
    );
    std::iter::once(before)
        .chain(chapters)
        .filter(|(part, _)| !text[part.clone()].trim().is_empty())
        .collect()
}

fn headings(text: &str) -> Vec<Heading> {
    let mut headings = Vec::new();
    let mut start = 0;
    let mut in_fence = false;
    for line in text.split_inclusive('\n') {
        let span = start..start + line.len();
        start = span.end;
        let line = line.trim();
        if line.starts_with("```") || line.starts_with("~~~") {
            in_fence = !in_fence;
        }
        if in_fence || line.len() > LONGEST_HEADING {
            continue;
        }
        if let Some(title) = numbered(line).or_else(|| markdown(line)) {
            headings.push(Heading { line: span, title: title.to_owned() });
        }
    }
    headings
}

/// Returns the title of a heading, without the number of its chapter.
pub(crate) fn title(heading: &str) -> &str {
    numbered(heading).unwrap_or(heading)
}

fn numbered(line: &str) -> Option<&str> {
    let title = NUMBERED.captures(line)?.get(1)?.as_str();
    // "Part 2 of the plan failed." is a sentence.
    if title.ends_with(['.', ',', ';']) {
        return None;
    }
    Some(if title.is_empty() { line } else { title })
}

/// Returns the title of a Markdown heading, without its number.
fn markdown(line: &str) -> Option<&str> {
    let after_hashes = line.trim_start_matches('#');
    let level = line.len() - after_hashes.len();
    if !(1..=6).contains(&level) {
        return None;
    }
    // Hashes may also follow the title.
    let text = after_hashes.strip_prefix([' ', '\t'])?.trim().trim_end_matches('#').trim_end();
    let title = numbered(text).unwrap_or(text);
    (!title.is_empty()).then_some(title)
}

/// Removes a table of contents: three or more headings without text between them.
fn without_contents(text: &str, headings: Vec<Heading>) -> Vec<Heading> {
    const CONTENTS: usize = 3;
    let mut is_contents = vec![false; headings.len()];
    let mut first = 0;
    for index in 0..headings.len() {
        let goes_on = headings
            .get(index + 1)
            .is_some_and(|next| text[headings[index].line.end..next.line.start].trim().is_empty());
        if goes_on {
            continue;
        }
        // The last heading may belong to the first chapter itself, if text follows it.
        let text_follows = !text[headings[index].line.end..].trim_start().is_empty();
        let after = if text_follows { index } else { index + 1 };
        if after - first >= CONTENTS {
            is_contents[first..after].fill(true);
        }
        first = index + 1;
    }
    headings
        .into_iter()
        .zip(is_contents)
        .filter(|(_, contents)| !contents)
        .map(|(heading, _)| heading)
        .collect()
}
