//! A thousand documents: the documentation of the packages that `install` fetches (Markdown, JSON,
//! JavaScript, TypeScript), this project's own sources, scenarios and documents, and texts from all
//! of them as HTML, PDF and DOCX.

#[path = "../../crates/extract/tests/extraction/support/docx.rs"]
mod docx;
#[expect(dead_code, reason = "this test writes no spreadsheets")]
#[path = "../../crates/extract/tests/extraction/support/package.rs"]
mod package;
#[expect(dead_code, reason = "this test uses a part of it")]
#[path = "../../crates/extract/tests/extraction/support/pdf.rs"]
mod pdf;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use crate::programs::here;

pub(crate) const COUNT: usize = 1_000;
/// Number of documents with texts of others, for each of the three formats.
const MADE: usize = 60;
/// Maximum number of documents of each other kind; the last kind fills up to the total.
const EACH: usize = 150;

/// Writes the documents into a folder, and returns questions, each with the document that answers
/// it.
pub(crate) fn make(folder: &Path) -> Vec<(String, PathBuf)> {
    let mut kinds: BTreeMap<&str, Vec<PathBuf>> = BTreeMap::new();
    let kinds_of = ["md", "json", "rs", "ts", "yaml", "js"];
    let root = here().join("../..");
    for from in [
        here().join("node_modules"),
        root.join("crates"),
        root.join("tests/scenarios"),
        root.join("docs"),
    ] {
        find(&from, &mut |path| {
            let extension = path.extension().and_then(|extension| extension.to_str());
            if let Some(kind) = kinds_of.iter().find(|kind| Some(**kind) == extension) {
                kinds.entry(kind).or_default().push(path);
            }
        });
    }
    let mut texts = Vec::new();
    let mut count = 0;
    for kind in kinds_of {
        let mut paths = kinds.remove(kind).unwrap_or_default();
        // The paths differ between machines only in their first parts.
        paths.sort();
        let max = if kind == "js" { COUNT - 3 * MADE } else { count + EACH };
        for path in paths {
            let Ok(text) = fs::read_to_string(&path) else { continue };
            if count == max {
                break;
            }
            if (200..20_000).contains(&text.len()) {
                // A neutral file name, because the original one may suggest another format.
                write(folder, &format!("{kind}/{}/{count}.{kind}", count % 10), text.as_bytes());
                let readable = matches!(kind, "md" | "rs" | "ts");
                texts.push((
                    text,
                    readable.then(|| folder.join(format!("{kind}/{}/{count}.{kind}", count % 10))),
                ));
                count += 1;
            }
        }
    }
    assert_eq!(count, COUNT - 3 * MADE, "node_modules has fewer documents than it had");

    let mut questions = Vec::new();
    for (text, path) in texts.iter().step_by(texts.len() / 40) {
        if let (Some(path), Some(question)) = (path, question(text)) {
            questions.push((question, path.clone()));
        }
    }
    let sources: Vec<&String> = texts.iter().map(|(text, _)| text).collect();
    for number in 0..MADE {
        let lines: Vec<&str> =
            sources[number * 3].lines().filter(|line| line.len() > 20).take(60).collect();
        let fact = format!(
            "The {} of building B{number}X weighs {} kilograms.",
            THINGS[number % THINGS.len()],
            1_000 + number * 7
        );
        for (place, (kind, make)) in FORMATS.into_iter().enumerate() {
            // Each fact is in one format only, and the questions cover all formats.
            let is_chosen = number % FORMATS.len() == place;
            let bytes = make(&lines, if is_chosen { &fact } else { "" });
            let path = write(folder, &format!("made/{kind}/{number}.{kind}"), &bytes);
            if is_chosen {
                let question = format!(
                    "How much does the {} of building B{number}X weigh in kilograms?",
                    THINGS[number % THINGS.len()]
                );
                questions.push((question, path));
            }
        }
    }
    questions
}

type Maker = fn(&[&str], &str) -> Vec<u8>;
const FORMATS: [(&str, Maker); 3] = [("html", as_html), ("pdf", as_pdf), ("docx", as_docx)];
const THINGS: [&str; 6] = ["staircase", "bell", "chandelier", "weathervane", "portal", "fountain"];

fn find(folder: &Path, see: &mut impl FnMut(PathBuf)) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => find(&entry.path(), see),
            Ok(kind) if kind.is_file() => see(entry.path()),
            _ => {}
        }
    }
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, bytes).unwrap();
    path
}

/// Returns a line of prose from the middle of a text.
fn question(text: &str) -> Option<String> {
    let prose = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let letters =
            line.chars().filter(|character| character.is_alphabetic() || *character == ' ').count();
        words.len() >= 9 && letters * 10 >= line.chars().count() * 9
    };
    let lines: Vec<&str> = text.lines().filter(prose).collect();
    Some(
        lines
            .get(lines.len() / 2)?
            .trim_matches(|character: char| !character.is_alphanumeric())
            .to_owned(),
    )
}

fn as_html(lines: &[&str], fact: &str) -> Vec<u8> {
    let escape = |line: &str| line.replace('&', "&amp;").replace('<', "&lt;");
    let paragraphs: String =
        lines.iter().map(|line| format!("<p>{}</p>\n", escape(line))).collect();
    format!("<!doctype html><title>A page</title><h1>A page</h1>\n{paragraphs}<p>{fact}</p>")
        .into_bytes()
}

fn as_pdf(lines: &[&str], fact: &str) -> Vec<u8> {
    // The font that the writer uses has only ASCII.
    let ascii: Vec<String> =
        lines.iter().map(|line| line.chars().filter(char::is_ascii).take(90).collect()).collect();
    let mut pages: Vec<Vec<&str>> =
        ascii.chunks(25).map(|page| page.iter().map(String::as_str).collect()).collect();
    pages.push(vec!["The last page.", fact]);
    let pages: Vec<&[&str]> = pages.iter().map(Vec::as_slice).collect();
    pdf::pages(&pages)
}

fn as_docx(lines: &[&str], fact: &str) -> Vec<u8> {
    let escape = |line: &str| {
        let line = line.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        line.chars().filter(|character| !character.is_control()).collect::<String>()
    };
    let paragraphs = ["A document."]
        .into_iter()
        .chain(lines.iter().copied())
        .chain([fact])
        .map(|line| docx::paragraph(&escape(line)));
    docx::body(&paragraphs.collect::<String>())
}
