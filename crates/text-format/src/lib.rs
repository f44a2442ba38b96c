#![doc = include_str!("../README.md")]

#[cfg(feature = "detection")]
mod csv;
mod encoded;
#[cfg(feature = "detection")]
mod markdown;
pub mod structure;
#[cfg(feature = "detection")]
mod yaml;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

#[cfg(feature = "detection")]
pub use self::csv::Table;
pub use self::encoded::encoded_passages;

/// Beginning of a text that is read, in bytes.
pub const SAMPLE_BYTES: usize = 64 * 1024;
/// End of a text in which its last bracket is looked for, in bytes.
const END_BYTES: usize = 1024;
/// Sample for Markdown and YAML, which are slow to parse, in bytes.
#[cfg(feature = "detection")]
const PROSE_SAMPLE_BYTES: usize = 32 * 1024;

/// The format of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum TextFormat {
    /// One JSON object or array.
    Json,
    /// Lines that are each a JSON object or array.
    Ndjson,
    /// Rows of cells separated by commas, semicolons, tabs or bars.
    Csv,
    /// One YAML mapping or sequence.
    Yaml,
    /// Markdown.
    Markdown,
    /// None of these formats.
    Plain,
}

/// A detected format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Detected {
    /// The format.
    pub format: TextFormat,
    /// Confidence in per cent.
    pub confidence: u8,
    /// The delimiter of CSV.
    pub delimiter: Option<u8>,
}

impl Detected {
    /// No other format was found.
    pub const PLAIN: Self = Self::new(TextFormat::Plain, 50);

    /// Creates the detection of a format without a delimiter.
    #[must_use]
    pub const fn new(format: TextFormat, confidence: u8) -> Self {
        Self { format, confidence, delimiter: None }
    }

    /// Sets the delimiter of CSV.
    #[must_use]
    pub const fn with_delimiter(mut self, delimiter: u8) -> Self {
        self.delimiter = Some(delimiter);
        self
    }
}

/// Detects the format of a text by its beginning.
///
/// Formats are tried from the least to the most ambiguous: JSON, NDJSON, CSV, Markdown, YAML,
/// plain. At most [`SAMPLE_BYTES`] are read, so the time does not grow with the text. A JSON text
/// that is longer counts as JSON until the parser that summarises it finds an error.
///
/// ```
/// use marquetry_text_format::{TextFormat, detect};
///
/// let found = detect("name;price\nscrew;1,25\nnut;0,75\n");
/// assert_eq!((found.format, found.delimiter), (TextFormat::Csv, Some(b';')));
/// assert_eq!(detect("Yes, it is.\nNo, it is not.\n").format, TextFormat::Plain);
/// ```
#[must_use]
pub fn detect(text: &str) -> Detected {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let sample = sample(text, SAMPLE_BYTES);
    if let Some(confidence) = json_confidence(text) {
        return Detected::new(TextFormat::Json, confidence);
    }
    if let Some(confidence) = ndjson_confidence(&sample) {
        return Detected::new(TextFormat::Ndjson, confidence);
    }
    guess(text, &sample)
}

/// Returns the delimiter of a text that is CSV: the detected one, else the one that is most
/// frequent in the first row.
///
/// ```
/// use marquetry_text_format::csv_delimiter;
///
/// assert_eq!(csv_delimiter("\"a,b,c\";d\n1;2\n"), b';');
/// ```
#[must_use]
pub fn csv_delimiter(text: &str) -> u8 {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    #[cfg(feature = "detection")]
    if let Some(found) = csv::judge(&sample(text, SAMPLE_BYTES)) {
        return found.delimiter;
    }
    let mut counts = [(b',', 0), (b';', 0), (b'\t', 0), (b'|', 0)];
    let mut is_quoted = false;
    for byte in text.bytes().take(SAMPLE_BYTES) {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b'\n' if !is_quoted => break,
            _ if is_quoted => {}
            _ => {
                for (delimiter, count) in &mut counts {
                    *count += u32::from(*delimiter == byte);
                }
            }
        }
    }
    // Of equal ones `max_by_key` takes the last, and the comma is the most likely.
    let most = counts.into_iter().rev().max_by_key(|(_, count)| *count);
    most.map_or(b',', |(delimiter, _)| delimiter)
}

/// Detects nothing but JSON without the feature.
#[cfg(not(feature = "detection"))]
fn guess(_: &str, _: &Sample<'_>) -> Detected {
    Detected::PLAIN
}

/// Detects CSV, Markdown and YAML, whose detection is a guess.
#[cfg(feature = "detection")]
fn guess(text: &str, table: &Sample<'_>) -> Detected {
    if let Some(found) = csv::judge(table) {
        let delimiter = Some(found.delimiter);
        return Detected { format: TextFormat::Csv, confidence: found.confidence, delimiter };
    }
    let prose = sample(text, PROSE_SAMPLE_BYTES);
    let markdown = markdown::judge(prose.lines);
    // A comment above a list of keys looks like a heading above a list, so only marks that YAML
    // cannot have decide here.
    if markdown.is_certain() {
        return Detected::new(TextFormat::Markdown, markdown.confidence());
    }
    match yaml::judge(&prose) {
        Some(yaml) if !(markdown.is_likely() && yaml == yaml::Shape::List) => {
            Detected::new(TextFormat::Yaml, 80)
        }
        _ if markdown.is_likely() => Detected::new(TextFormat::Markdown, markdown.confidence()),
        _ => Detected::PLAIN,
    }
}

/// Whole lines from the start of a text.
struct Sample<'a> {
    lines: &'a str,
    is_whole: bool,
}

fn sample(text: &str, bytes: usize) -> Sample<'_> {
    let end = text.floor_char_boundary(bytes);
    if end == text.len() {
        return Sample { lines: text, is_whole: true };
    }
    Sample {
        lines: &text[..text[..end].rfind('\n').map_or(0, |newline| newline + 1)],
        is_whole: false,
    }
}

/// Returns the confidence that a text is an object or an array. Scalars do not count, since every
/// number would be JSON. The beginning of a longer text is parsed, and its last bracket compared
/// with the first.
fn json_confidence(text: &str) -> Option<u8> {
    let beginning = &text[..text.floor_char_boundary(SAMPLE_BYTES)];
    let close = match beginning.trim_ascii_start().bytes().next()? {
        b'{' => b'}',
        b'[' => b']',
        _ => return None,
    };
    if beginning.len() == text.len() {
        return is_json(text).then_some(100);
    }
    let end = &text.as_bytes()[text.len() - END_BYTES..];
    if end.trim_ascii_end().last() != Some(&close) {
        return None;
    }
    // The parser says of a number that ends in a sign or a point that it is wrong, not that it is
    // cut.
    let beginning = beginning.trim_end_matches(|last: char| {
        last.is_ascii_digit() || matches!(last, '-' | '+' | '.' | 'e' | 'E')
    });
    let error = serde_json::from_str::<&RawValue>(beginning).err()?;
    error.is_eof().then_some(90)
}

/// Returns whether a line or a short text is an object or an array.
fn is_json(text: &str) -> bool {
    text.trim_ascii_start().starts_with(['{', '['])
        && serde_json::from_str::<&RawValue>(text).is_ok()
}

/// Returns the confidence that lines are each an object or an array. A few may be broken, as the
/// last line of a log that is being written.
fn ndjson_confidence(sample: &Sample<'_>) -> Option<u8> {
    let mut rows = 0;
    let mut broken = 0;
    let mut other = 0;
    for line in sample.lines.lines().filter(|line| !line.trim_ascii().is_empty()) {
        rows += 1;
        if !is_json(line) {
            broken += 1;
            other += usize::from(!line.trim_ascii_start().starts_with(['{', '[']));
        }
        // Most texts are decided by their first line.
        if broken == rows {
            return None;
        }
    }
    if rows < 2 || (broken > 0 && (rows < 3 || broken * 3 > rows || other * 10 > rows)) {
        return None;
    }
    Some(match (broken, sample.is_whole) {
        (0, true) => 95,
        (0, false) => 90,
        _ => 70,
    })
}

/// Cuts a long text to this many bytes, and adds an ellipsis.
#[must_use]
pub fn shortened(text: &str, bytes: usize) -> String {
    match text.floor_char_boundary(bytes) {
        end if end == text.len() => text.to_owned(),
        end => format!("{}…", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_ends_with_a_whole_line() {
        assert_eq!(sample("ab\ncd\nef", 7).lines, "ab\ncd\n");
        assert_eq!(sample("ab\ncd", 5).lines, "ab\ncd");
        assert_eq!(sample("äöü", 3).lines, "");
    }
}
