//! Formats of texts and types of binaries: a labelled corpus, and hostile texts.

use std::{
    collections::BTreeMap,
    fmt::Write,
    time::{Duration, Instant},
};

use expect_test::expect_file;
use marquetry_artifacts::mime::is_text;
use marquetry_text_format::{Detected, SAMPLE_BYTES, TextFormat, csv_delimiter, detect};
use proptest::prelude::*;

#[path = "detection/binaries.rs"]
mod binaries;

/// A text of the corpus.
struct Text {
    label: &'static str,
    name: &'static str,
    text: String,
}

/// Reads the corpus. A line `%%% LABEL: NAME` begins a text; `␀` and `␛` are control characters.
fn corpus() -> Vec<Text> {
    let texts = include_str!("detection/texts.txt").split("%%% ").skip(1);
    texts
        .map(|entry| {
            let (head, text) = entry.split_once('\n').unwrap();
            let (label, name) = head.split_once(": ").unwrap();
            Text { label, name, text: text.replace('␀', "\0").replace('␛', "\u{1b}") }
        })
        .collect()
}

/// A name, and how it changes a text.
type Form = (&'static str, fn(&str) -> String);

/// Forms in which servers send the same text. None of them changes its format.
const FORMS: [Form; 4] = [
    ("as it is", str::to_owned),
    ("CRLF", |text| text.replace('\n', "\r\n")),
    ("BOM", |text| format!("\u{feff}{text}")),
    ("no final line end", |text| text.trim_end_matches('\n').to_owned()),
];

fn format_name(format: TextFormat) -> String {
    serde_json::to_value(format).unwrap().as_str().unwrap().to_owned()
}

/// The confusion matrix of the corpus, and every text that is not detected as labelled.
///
/// Labels follow what a reader can do with the text: `plain` for near misses of all kinds, and for
/// what has no parser of ours (YAML of several documents, tables below a preamble).
#[test]
fn texts_are_detected_as_labelled() {
    let texts = corpus();
    assert!(texts.len() * FORMS.len() >= 1000, "{}", texts.len());
    let mut matrix = Matrix::default();
    for text in &texts {
        for (form, change) in FORMS {
            let found = detect(&change(&text.text));
            matrix.add(text.label, &format_name(found.format), || {
                format!("{} ({form}, {} %)", text.name, found.confidence)
            });
        }
    }
    let labels = ["json", "ndjson", "csv", "yaml", "markdown", "plain"];
    expect_file!["detection/texts-matrix.txt"].assert_eq(&matrix.table(&labels));
}

#[tokio::test]
async fn binaries_are_detected_as_labelled() {
    let mut matrix = Matrix::default();
    for (label, name, bytes) in binaries::corpus() {
        matrix.add(label, &binaries::detected(&bytes).await, || name.to_owned());
    }
    expect_file!["detection/binaries-matrix.txt"].assert_eq(&matrix.list());
}

/// Counts of labels and what was detected.
#[derive(Default)]
struct Matrix {
    counts: BTreeMap<(String, String), u32>,
    wrong: Vec<String>,
}

impl Matrix {
    fn add(&mut self, label: &str, found: &str, name: impl FnOnce() -> String) {
        *self.counts.entry((label.to_owned(), found.to_owned())).or_default() += 1;
        if label != found {
            self.wrong.push(format!("{label} as {found}: {}", name()));
        }
    }

    /// Writes a row for each label with the counts of what was detected.
    fn table(&self, labels: &[&str]) -> String {
        let mut table = format!("{:>10}", "");
        for label in labels {
            write!(table, "{label:>10}").unwrap();
        }
        for label in labels {
            write!(table, "\n{label:>10}").unwrap();
            for found in labels {
                let count = self.counts.get(&((*label).to_owned(), (*found).to_owned()));
                write!(table, "{:>10}", count.copied().unwrap_or(0)).unwrap();
            }
        }
        format!("{table}\n\n{}", self.summary())
    }

    /// Writes a line for each label and what was detected.
    fn list(&self) -> String {
        let mut list = String::new();
        for ((label, found), count) in &self.counts {
            writeln!(list, "{count:>4} {label} as {found}").unwrap();
        }
        format!("{list}\n{}", self.summary())
    }

    fn summary(&self) -> String {
        let all: u32 = self.counts.values().sum();
        let mut summary = format!("{} of {all} wrong\n", self.wrong.len());
        for wrong in &self.wrong {
            summary.push_str(wrong);
            summary.push('\n');
        }
        summary
    }
}

/// Each line is a format and a text, `\n` for a line break. These are the texts of the seed and
/// their neighbours, none of which may be wrong.
#[test]
fn texts_of_the_seed() {
    let cases = include_str!("detection/cases.txt").lines();
    for line in cases.filter(|line| !line.starts_with("--") && !line.is_empty()) {
        let (want, text) = line.split_once(": ").unwrap();
        let text = text.replace("\\n", "\n").replace("\\t", "\t");
        let found = detect(&text);
        assert_eq!(format_name(found.format), want, "{text}\n{found:?}");
    }
}

#[test]
fn types_of_text() {
    for mime_type in [
        "text/plain",
        "TEXT/csv; charset=utf-8",
        "application/json",
        "application/yaml",
        "application/x-yaml",
        "application/x-ndjson",
        "application/problem+json",
        "application/openapi+yaml",
        "application/xml",
        "application/x-sh",
        "application/sql",
        "application/graphql",
        "image/svg+xml",
    ] {
        assert!(is_text(mime_type), "{mime_type}");
    }
    for mime_type in [
        "image/png",
        "application/octet-stream",
        "application/pdf",
        "application/vnd.oasis.opendocument.text",
        "json",
        "application/",
        "",
    ] {
        assert!(!is_text(mime_type), "{mime_type}");
    }
}

fn delimiter(text: &str) -> Option<char> {
    detect(text).delimiter.map(char::from)
}

#[test]
fn delimiters() {
    for (text, want) in [
        ("a,b\n1,2\n", Some(',')),
        ("a;b\n1,5;2,5\n", Some(';')),
        ("a\tb\n1,5\t2\n", Some('\t')),
        ("a|b|c\n1|2|3\n", Some('|')),
        ("a|b|c\n---|---|---\n1|2|3\n", None),
        ("\"x,y\",b\r\n\"1\n2\",3\r\n", Some(',')),
        ("\"x,y,z\";b\n\"1,2,3\";4\n", Some(';')),
        ("a,b\n1,2\n\n3,4\n", Some(',')),
        ("a,b\n", None),
        ("a\nb\n", None),
        ("a,b\n1,2,3\n", None),
        ("id,name,end\n1,x,2020\n2,y\n", Some(',')),
        ("id,name,end\n1,x,2020\n2\n", None),
        ("First, I ate,then slept\n1,x,2020\n2,y\n", None),
        ("a,\nb,\n", None),
        ("a = b;\nc = d;\n", None),
        ("let a = f(b, c);\nlet d = f(e, g);\n", None),
        ("However, it is fine.\nMoreover, it works.\n", None),
        ("name: a, b\nother: c, d\n", None),
    ] {
        assert_eq!(delimiter(text), want, "{text}");
    }
    // A text that is said to be CSV has a delimiter, whatever it looks like.
    for (text, want) in
        [("a;b", ';'), ("", ','), ("a", ','), ("\"a;b;c\",d\n", ','), ("a;b,c", ',')]
    {
        assert_eq!(char::from(csv_delimiter(text)), want, "{text}");
    }
}

#[test]
fn a_cut_sample_forgives_its_last_row() {
    let row = "4,\"x\ny\",5\n";
    for shift in 0..20 {
        let text = format!("a{},b,c\n{}", "a".repeat(shift), row.repeat(SAMPLE_BYTES / 10 + 100));
        assert_eq!(delimiter(&text), Some(','), "{shift}");
    }
    assert_eq!(delimiter("a,b\n1,2\n4"), None);
}

#[test]
fn large_texts_are_judged_by_their_beginning() {
    for (row, want, confidence) in [
        ("1,2,3\n", TextFormat::Csv, 75),
        ("{\"a\": 1}\n", TextFormat::Ndjson, 90),
        ("This is a sentence with no marks at all.\n", TextFormat::Plain, 50),
        ("* see [the page](http://example.com) and **read** it\n", TextFormat::Markdown, 95),
    ] {
        let found = detect(&row.repeat(300_000));
        assert_eq!((found.format, found.confidence), (want, confidence), "{row}");
    }
    let yaml: String = (0..100_000).map(|n| format!("key{n}:\n  - value{n}\n")).collect();
    assert_eq!(detect(&yaml).format, TextFormat::Yaml);
    // Wherever the beginning ends: in a number, a string, an escape or a word.
    for shift in 0..40 {
        let value = "-1.5e-3,\"a\\u00e4 \\n\",true,null,{\"a\":[]},";
        let json = format!("[{}{}1]\n", " ".repeat(shift), value.repeat(10_000));
        let found = detect(&json);
        assert_eq!((found.format, found.confidence), (TextFormat::Json, 90), "{shift}");
    }
    let digits = format!("[{}]", "1".repeat(300_000));
    assert_eq!(detect(&digits).format, TextFormat::Json);
    // Without its last bracket, or with something else behind it.
    assert_eq!(detect(&digits[..200_000]).format, TextFormat::Plain);
    assert_eq!(detect(&format!("{digits} and more")).format, TextFormat::Plain);
    assert_eq!(detect(&format!("[1] {digits}")).format, TextFormat::Plain);
}

/// Returns the shortest time that the detection of a text takes in three runs.
fn time_of(text: &str) -> Duration {
    let times = (0..3).map(|_| {
        let begin = Instant::now();
        std::hint::black_box(detect(text));
        begin.elapsed()
    });
    times.min().unwrap()
}

/// Hostile texts, repeated to a size.
fn hostile(bytes: usize) -> Vec<(&'static str, String)> {
    let pieces: [(&str, &str); 26] = [
        ("deep arrays", "["),
        ("deep objects", "{\"a\":"),
        ("one line", "All work and no play. "),
        ("one line of base64", "iVBORw0KGgo"),
        ("columns", "x,"),
        ("rows of columns", "x,y,z\n"),
        ("stars", "*a "),
        ("strong", "**a_"),
        ("links", "[a]("),
        ("images", "!["),
        ("quotes", "> "),
        ("lists", "- "),
        ("backticks", "a`"),
        ("tags", "<a "),
        ("keys", "a:\n "),
        ("anchors", "&a "),
        ("aliases", "- &a [*a, *a]\n"),
        ("quotation marks", "\""),
        ("commas", ","),
        ("empty rows", ",\n"),
        ("bars", "|\n"),
        ("headings", "#"),
        ("NUL", "\0"),
        ("carriage returns", "\r"),
        ("definitions", "[^a]: b\n"),
        ("white space", " "),
    ];
    let mut texts: Vec<_> =
        pieces.into_iter().map(|(name, piece)| (name, piece.repeat(bytes / piece.len()))).collect();
    let columns = bytes / 10;
    texts.push(("a table of columns", format!("{0}a\n{0}1\n", "column,".repeat(columns))));
    texts.push(("an array in a line", format!("[{}1]", "1,".repeat(bytes / 2))));
    let deep = bytes / 2;
    texts.push(("closed arrays", format!("{}{}", "[".repeat(deep), "]".repeat(deep))));
    let levels = (1..bytes / 40).map(|n| format!("l{n}: &l{n} [*l{0}, *l{0}, *l{0}]\n", n - 1));
    texts.push(("alias bomb", format!("l0: &l0 [a, a]\n{}", levels.collect::<String>())));
    texts
}

/// Nothing behind the beginning is read, so a text of 50 MB takes no longer than its beginning.
#[test]
fn the_time_does_not_grow_with_the_text() {
    let mut long = hostile(5_000_000);
    for (_, text) in long.iter_mut().filter(|(name, _)| name.contains("line")) {
        *text = text.repeat(10);
    }
    for ((name, long), (_, short)) in long.iter().zip(hostile(2 * SAMPLE_BYTES)) {
        let of_long = time_of(long);
        let of_short = time_of(&short);
        // A debug build on a busy machine. Reading 5 MB takes 40 times as long.
        let allowed = of_short * 20 + Duration::from_millis(20);
        assert!(of_long <= allowed, "{name}: {of_long:?} after {of_short:?}");
        assert!(of_long.as_secs() < 5, "{name}: {of_long:?}");
    }
}

#[test]
fn deep_wide_and_aliased_texts_have_an_outcome() {
    let deep = format!("{}{}", "[".repeat(20_000), "]".repeat(20_000));
    assert_eq!(detect(&deep), detect("[]"));
    let objects = format!("{}1{}", "{\"a\":".repeat(20_000), "}".repeat(20_000));
    assert_eq!((detect(&objects).format, detect(&objects).confidence), (TextFormat::Json, 90));
    // The first row does not end in the part that is read.
    let wide = format!("{0}a\n{0}1\n", "column,".repeat(100_000));
    assert_eq!(detect(&wide).format, TextFormat::Plain);
    assert_eq!(csv_delimiter(&wide), b',');
    let bomb: String = (1..30).map(|n| format!("l{n}: &l{n} [*l{0}, *l{0}]\n", n - 1)).collect();
    assert_eq!(detect(&format!("l0: &l0 [a, a]\n{bomb}")).format, TextFormat::Plain);
}

/// Returns what a detection must satisfy, whatever the text.
fn is_consistent(text: &str, found: Detected) -> bool {
    let is_json = serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok();
    (1..=100).contains(&found.confidence)
        && found.delimiter.is_some() == (found.format == TextFormat::Csv)
        && (found.format != TextFormat::Json || is_json)
}

proptest! {
    #[test]
    fn never_panics(pieces in prop::collection::vec(prop_oneof![
        "\\PC{0,12}", "[\\[\\]{}:,\"'&*#|>!%@`\n \t-]{0,12}", "(- )?[a-z]{1,4}: [a-z ]{0,9}\n", "[a-z]{1,3}[,;|][0-9]{1,3}\n",
    ], 0..12)) {
        let text = pieces.concat();
        prop_assert!(is_consistent(&text, detect(&text)));
    }

    #[test]
    fn json_is_always_found(value in json()) {
        for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
            prop_assert_eq!(detect(&text).format, TextFormat::Json);
            prop_assert_eq!(detect(&format!("\u{feff}{text}\r\n")).format, TextFormat::Json);
            prop_assert_ne!(detect(&format!("{text}x")).format, TextFormat::Json);
        }
    }

    #[test]
    fn tables_are_always_found(delimiter in prop::sample::select(b",;\t|".to_vec()), columns in 3..8_usize, rows in 3..9_usize, cells in prop::collection::vec("[a-z]{1,6}|[0-9]{1,4}(\\.[0-9]{2})?", 72)) {
        let delimiter = char::from(delimiter).to_string();
        let header: Vec<_> = (0..columns).map(|column| format!("column_{column}")).collect();
        let mut lines = vec![header.join(&delimiter)];
        for row in 0..rows {
            lines.push(cells[row * columns % 64..][..columns].join(&delimiter));
        }
        let found = detect(&lines.join("\n"));
        prop_assert_eq!((found.format, found.delimiter), (TextFormat::Csv, Some(delimiter.as_bytes()[0])));
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
            prop::collection::vec(inner.clone(), 0..5).prop_map(serde_json::Value::from),
            prop::collection::hash_map(".*", inner, 0..5)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
    .prop_filter("a container", |value: &serde_json::Value| value.is_array() || value.is_object())
}
