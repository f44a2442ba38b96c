//! Notebooks of Jupyter (nbformat 3 and 4): text, code and printed results, without pictures.

use serde::{Deserialize, Deserializer};

use crate::{ExtractError, Extracted, Extractor, Problem, Source, decode::decode, markdown};

/// Reads notebooks as the Markdown that they contain. Code and its results are fenced.
pub(crate) struct Notebook;

const MEDIA_TYPE: &str = "application/x-ipynb+json";

impl Extractor for Notebook {
    fn media_types(&self) -> &[&str] {
        &[MEDIA_TYPE]
    }

    fn extensions(&self) -> &[(&str, &str)] {
        &[("ipynb", MEDIA_TYPE)]
    }

    fn extract(&self, source: &Source<'_>) -> Result<Extracted, ExtractError> {
        let decoded = decode(source.bytes, source.charset).document()?;
        let notebook: File = match serde_json::from_str(&decoded.content) {
            Ok(notebook) => notebook,
            Err(error) => {
                let reason = error.to_string();
                let problems = vec![Problem::TakenAsText { reason }];
                return Ok(Extracted { problems, wrapped: false, ..decoded });
            }
        };
        let language = notebook.metadata.language();
        let mut text = String::new();
        let mut pictures = 0;
        let cells = notebook.worksheets.iter().flat_map(|sheet| &sheet.cells);
        for cell in notebook.cells.iter().chain(cells) {
            cell.write(&language, &mut text, &mut pictures);
            source.check(text.len())?;
        }
        let mut extracted = markdown::read(Extracted { content: text, ..decoded }, source)?;
        if pictures > 0 {
            let reason = format!("{pictures} pictures in results are left out");
            extracted.problems.push(Problem::NotText { reason });
        }
        Ok(extracted)
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct File {
    cells: Vec<Cell>,
    /// The cells of version 3 are in these.
    worksheets: Vec<Worksheet>,
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Worksheet {
    cells: Vec<Cell>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    language_info: Option<LanguageInfo>,
}

#[derive(Deserialize)]
struct LanguageInfo {
    #[serde(default)]
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Cell {
    cell_type: String,
    source: Lines,
    /// The code of version 3.
    input: Lines,
    /// Level of a heading of version 3.
    level: Option<u8>,
    outputs: Vec<Output>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Output {
    text: Lines,
    data: Option<Data>,
    ename: Option<String>,
    evalue: Option<String>,
}

/// A result in several formats.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Data {
    #[serde(rename = "text/plain")]
    plain: Lines,
    #[serde(rename = "text/markdown")]
    markdown: Lines,
    #[serde(rename = "text/latex")]
    latex: Lines,
    #[serde(flatten)]
    others: Others,
}

/// Whether there is a picture.
#[derive(Default)]
struct Others {
    has_picture: bool,
}

/// A text, or the list of its lines.
#[derive(Default)]
struct Lines(String);

impl Metadata {
    /// Returns the language of the code, by its name in Markdown.
    fn language(&self) -> String {
        let name = self.language_info.as_ref().map(|language| language.name.as_str());
        let name = name.unwrap_or("python").to_ascii_lowercase();
        name.chars().filter(char::is_ascii_alphanumeric).collect()
    }
}

impl Cell {
    fn write(&self, language: &str, text: &mut String, pictures: &mut usize) {
        match self.cell_type.as_str() {
            "code" => {
                write_fenced(language, &self.source.0, text);
                write_fenced(language, &self.input.0, text);
                for output in &self.outputs {
                    output.write(text, pictures);
                }
            }
            "heading" => {
                let marks = "#".repeat(usize::from(self.level.unwrap_or(1)).clamp(1, 6));
                write_block(&format!("{marks} {}", self.source.0.trim()), text);
            }
            _ => write_block(&self.source.0, text),
        }
    }
}

impl Output {
    fn write(&self, text: &mut String, pictures: &mut usize) {
        write_fenced("text", &self.text.0, text);
        if let Some(data) = &self.data {
            *pictures += usize::from(data.others.has_picture);
            if data.markdown.0.trim().is_empty() {
                let plain = &data.plain.0;
                write_fenced("text", if plain.is_empty() { &data.latex.0 } else { plain }, text);
            } else {
                write_block(&data.markdown.0, text);
            }
        }
        if let Some(name) = &self.ename {
            let value = self.evalue.as_deref().unwrap_or_default();
            write_fenced("text", &format!("{name}: {value}"), text);
        }
    }
}

fn write_block(block: &str, text: &mut String) {
    if block.trim().is_empty() {
        return;
    }
    if !text.is_empty() {
        text.push_str("\n\n");
    }
    text.push_str(block.trim_end());
}

/// Writes code within fences that are longer than any in it.
fn write_fenced(language: &str, code: &str, text: &mut String) {
    if code.trim().is_empty() {
        return;
    }
    let longest = code.split(|it| it != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    let code = without_colours(code.trim_end());
    write_block(&format!("{fence}{language}\n{code}\n{fence}"), text);
}

/// Removes the escape sequences by which terminals show colours.
fn without_colours(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\u{1B}[") {
        plain.push_str(before);
        let length = after.find(|end: char| end.is_ascii_alphabetic()).map_or(0, |end| end + 1);
        rest = &after[length..];
    }
    plain + rest
}

impl<'de> Deserialize<'de> for Lines {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            One(String),
            Many(Vec<String>),
            /// A plotting library may give an object.
            Other(serde::de::IgnoredAny),
        }
        Ok(Self(match Either::deserialize(deserializer)? {
            Either::One(text) => text,
            Either::Many(lines) => lines.concat(),
            Either::Other(_) => String::new(),
        }))
    }
}

impl<'de> Deserialize<'de> for Others {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let names: std::collections::BTreeMap<String, serde::de::IgnoredAny> =
            Deserialize::deserialize(deserializer)?;
        Ok(Self { has_picture: names.keys().any(|name| name.starts_with("image/")) })
    }
}
