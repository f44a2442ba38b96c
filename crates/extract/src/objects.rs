//! Objects in OpenDocument documents: charts and formulas, each a document in a folder of the
//! package.

use std::collections::HashMap;

use quick_xml::events::BytesStart;

use crate::{
    ExtractError, Source,
    gather::{TextElements, end_line, gather},
    package::Package,
};

/// Name of the format in errors.
const FORMAT: &str = "OpenDocument";

/// The texts of objects by their folders.
pub(crate) type Objects = HashMap<String, String>;

/// Reads all objects of a document.
pub(crate) fn objects(
    package: &mut Package<'_>,
    source: &Source<'_>,
) -> Result<Objects, ExtractError> {
    let mut objects = Objects::new();
    let mut length = 0;
    for part in package.named("content.xml") {
        let Some(folder) = part.strip_suffix("/content.xml") else { continue };
        let mut object = Object::default();
        gather(FORMAT, &part, &package.optional(&part)?, source, length, &mut object)?;
        length += object.text.len();
        objects.insert(folder.to_owned(), object.text);
    }
    Ok(objects)
}

/// Returns the folder of the object that an element shows.
pub(crate) fn folder(reference: &str) -> String {
    reference.trim_start_matches("./").trim_end_matches('/').to_lowercase()
}

/// Collects the text of an object: titles and the table of a chart, or the symbols of a formula.
#[derive(Default)]
struct Object {
    text: String,
    /// Number of open paragraphs and formulas.
    open: usize,
    /// Number of open annotations, which repeat a formula in another language.
    annotations: usize,
    in_row: bool,
}

impl TextElements for Object {
    fn start(&mut self, element: &BytesStart<'_>) {
        match element.local_name().as_ref() {
            "p" | "math" => self.open += 1,
            "annotation" => self.annotations += 1,
            "table-row" => self.in_row = true,
            _ => {}
        }
    }

    fn end(&mut self, name: &str) {
        match name {
            "p" | "math" => {
                self.open = self.open.saturating_sub(1);
                if self.in_row {
                    self.push(" ");
                } else {
                    end_line(&mut self.text);
                }
            }
            "annotation" => self.annotations = self.annotations.saturating_sub(1),
            "table-row" => {
                self.in_row = false;
                end_line(&mut self.text);
            }
            _ => {}
        }
    }

    fn push(&mut self, text: &str) {
        if !text.trim().is_empty() || !(self.text.is_empty() || self.text.ends_with(['\n', ' '])) {
            self.text.push_str(if text.trim().is_empty() { " " } else { text });
        }
    }

    fn is_in_text(&self) -> bool {
        self.open > 0 && self.annotations == 0
    }

    fn len(&self) -> usize {
        self.text.len()
    }
}
