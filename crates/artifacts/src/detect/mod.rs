//! Detects the format of a text.
//!
//! Formats are tried from the least to the most ambiguous: JSON, NDJSON, CSV, Markdown, YAML,
//! plain. JSON is parsed whole, which takes one pass without allocation. The others are judged by a
//! sample from the start.

#[cfg(feature = "detection")]
mod csv;
#[cfg(feature = "detection")]
mod markdown;
#[cfg(feature = "detection")]
mod yaml;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

#[cfg(feature = "detection")]
pub(crate) use self::csv::Table;
#[cfg(feature = "detection")]
pub use self::csv::csv_delimiter;

/// Sample for CSV and NDJSON, in bytes.
const TABLE_SAMPLE_BYTES: usize = 256 * 1024;
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
pub(crate) struct Detected {
    pub(crate) format: TextFormat,
    /// Confidence in per cent.
    pub(crate) confidence: u8,
    /// The delimiter of CSV.
    pub(crate) delimiter: Option<u8>,
}

impl Detected {
    pub(crate) const PLAIN: Self =
        Self { format: TextFormat::Plain, confidence: 50, delimiter: None };

    fn new(format: TextFormat, confidence: u8) -> Self {
        Self { format, confidence, delimiter: None }
    }
}

/// Detects the format of a text.
pub(crate) fn detect(text: &str) -> Detected {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if is_json(text) {
        return Detected::new(TextFormat::Json, 100);
    }
    let table = sample(text, TABLE_SAMPLE_BYTES);
    if is_ndjson(table.lines) {
        return Detected::new(TextFormat::Ndjson, 95);
    }
    guess(text, &table)
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
    #[cfg_attr(not(feature = "detection"), expect(dead_code, reason = "JSON is read whole"))]
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

/// Returns whether the text is an object or an array. Scalars do not count, since every number
/// would be JSON.
fn is_json(text: &str) -> bool {
    text.trim_ascii_start().starts_with(['{', '['])
        && serde_json::from_str::<&RawValue>(text).is_ok()
}

fn is_ndjson(lines: &str) -> bool {
    let mut lines = lines.lines().filter(|line| !line.trim_ascii().is_empty()).peekable();
    let mut rows = 0;
    while let Some(line) = lines.next() {
        rows += 1;
        if !is_json(line) || (rows == 1 && lines.peek().is_none()) {
            return false;
        }
    }
    rows > 1
}

#[cfg(all(test, feature = "detection"))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Each line is a format and a text, `\n` for a line break.
    #[test]
    fn texts() {
        for line in include_str!("cases.txt")
            .lines()
            .filter(|line| !line.starts_with("--") && !line.is_empty())
        {
            let (want, text) = line.split_once(": ").unwrap();
            let text = text.replace("\\n", "\n").replace("\\t", "\t");
            let found = detect(&text);
            let name = serde_json::to_value(found.format).unwrap();
            assert_eq!(name, want, "{text}\n{found:?}");
        }
    }

    #[test]
    fn a_sample_ends_with_a_whole_line() {
        assert_eq!(sample("ab\ncd\nef", 7).lines, "ab\ncd\n");
        assert_eq!(sample("ab\ncd", 5).lines, "ab\ncd");
        assert_eq!(sample("äöü", 3).lines, "");
    }

    #[test]
    fn large_texts_are_judged_by_their_beginning() {
        for (row, want) in [
            ("1,2,3\n", TextFormat::Csv),
            ("{\"a\": 1}\n", TextFormat::Ndjson),
            ("This is a sentence with no marks at all.\n", TextFormat::Plain),
            ("* see [the page](http://example.com) and **read** it\n", TextFormat::Markdown),
        ] {
            assert_eq!(detect(&row.repeat(300_000)).format, want, "{row}");
        }
        let yaml: String = (0..100_000).map(|n| format!("key{n}:\n  - value{n}\n")).collect();
        assert_eq!(detect(&yaml).format, TextFormat::Yaml);
        let json = format!("[{}1]", "1,".repeat(1_000_000));
        assert_eq!(detect(&json).format, TextFormat::Json);
    }

    #[test]
    fn hostile_texts_end_soon() {
        let n = 300_000;
        for text in [
            "[".repeat(n),
            "{\"a\":".repeat(n),
            "*a ".repeat(n),
            "**a_".repeat(n),
            "[a](".repeat(n),
            "![".repeat(n),
            "> ".repeat(n),
            "- ".repeat(n),
            "`".repeat(n),
            "a`".repeat(n),
            "<a ".repeat(n),
            "a:\n ".repeat(n),
            "&a ".repeat(n),
            "\"".repeat(n),
            ",".repeat(n),
            ",\n".repeat(n),
            "|\n".repeat(n),
            "#".repeat(n),
            "\u{0}".repeat(n),
            "\r".repeat(n),
            format!("a,{}\n1,2\n", "b,".repeat(n)),
            (0..5000).map(|n| format!("{}k{n}:\n", " ".repeat(n))).collect(),
            format!("{}\n", "|".repeat(1000)).repeat(60),
            "[^a]: b\n".repeat(n / 8),
            "[a]: <b\n".repeat(n / 8),
        ] {
            let begin = std::time::Instant::now();
            detect(&text);
            // Generous for a debug build on a busy machine: quadratic work would take minutes.
            assert!(begin.elapsed().as_secs() < 20, "{:?} took {:?}", &text[..20], begin.elapsed());
        }
    }

    proptest! {
        #[test]
        fn never_panics(pieces in proptest::collection::vec(prop_oneof![
            "\\PC{0,12}", "[\\[\\]{}:,\"'&*#|>!%@`\n \t-]{0,12}", "(- )?[a-z]{1,4}: [a-z ]{0,9}\n", "[a-z]{1,3}[,;|][0-9]{1,3}\n",
        ], 0..12)) {
            detect(&pieces.concat());
        }

        #[test]
        fn json_is_always_found(value in json()) {
            prop_assert_eq!(detect(&value.to_string()).format, TextFormat::Json);
            prop_assert_eq!(detect(&serde_json::to_string_pretty(&value).unwrap()).format, TextFormat::Json);
        }
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            ".*".prop_map(Into::into)
        ];
        leaf.prop_recursive(3, 20, 5, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(serde_json::Value::from),
                proptest::collection::hash_map(".*", inner, 0..5)
                    .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
            ]
        })
        .prop_filter("a container", |value: &serde_json::Value| {
            value.is_array() || value.is_object()
        })
    }
}
