//! Notebooks of Jupyter (nbformat 3 and 4): text, code and printed results, without pictures.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};

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
        /// Maximum number of cells, results and other objects: each takes some hundred bytes of
        /// memory.
        const MAX_OBJECTS: u64 = 1 << 20;
        let decoded = decode(source.bytes, source.charset).document()?;
        let found = decoded.content.bytes().filter(|byte| *byte == b'{').count() as u64;
        if found > MAX_OBJECTS {
            let limit = "for objects of a notebook";
            return Err(ExtractError::Limit { limit, allowed: MAX_OBJECTS, found });
        }
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
#[derive(Default)]
struct Data {
    plain: Lines,
    markdown: Lines,
    latex: Lines,
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
            *pictures += usize::from(data.has_picture);
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

// `#[serde(untagged)]` and `#[serde(flatten)]` would collect all values of a text or a result in
// memory first, in ten times their size.
impl<'de> Deserialize<'de> for Lines {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut text = String::new();
        PushText { text: &mut text, may_be_list: true }.deserialize(deserializer)?;
        Ok(Self(text))
    }
}

/// Appends a text, or the lines of a list. Other values, such as the object of a plotting library,
/// are ignored.
struct PushText<'a> {
    text: &'a mut String,
    may_be_list: bool,
}

impl<'de> DeserializeSeed<'de> for PushText<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for PushText<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a text or a list of lines")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.text.push_str(text);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut lines: A) -> Result<(), A::Error> {
        if !self.may_be_list {
            while lines.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(());
        }
        while lines.next_element_seed(PushText { text: self.text, may_be_list: false })?.is_some() {
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Data {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Formats;
        impl<'de> Visitor<'de> for Formats {
            type Value = Data;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a result in several formats")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut formats: A) -> Result<Data, A::Error> {
                let mut data = Data::default();
                while let Some(name) = formats.next_key::<String>()? {
                    match name.as_str() {
                        "text/plain" => data.plain = formats.next_value()?,
                        "text/markdown" => data.markdown = formats.next_value()?,
                        "text/latex" => data.latex = formats.next_value()?,
                        name => {
                            data.has_picture |= name.starts_with("image/");
                            formats.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(data)
            }
        }
        deserializer.deserialize_map(Formats)
    }
}
