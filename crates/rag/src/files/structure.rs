//! Keeps the pages and headings of a file, whose record has only its text.

use marquetry_index::Document;
use serde::{Deserialize, Serialize};

use crate::{Extracted, Heading, Page};

/// The pages and headings of a text.
#[derive(Serialize, Deserialize)]
struct Structure {
    /// BLAKE3 hash of the text, in hexadecimal: the record may have another text by now.
    text: String,
    wrapped: bool,
    pages: Vec<Page>,
    headings: Vec<Heading>,
}

/// The key of the structure in the metadata of a document.
const STRUCTURE: &str = "structure";

/// Most pages and headings that are kept. Each search reads the metadata of its documents.
const MOST: usize = 20_000;

/// Adds the pages and headings of a file to the metadata of its document.
pub(super) fn keep(document: &mut Document, extracted: &Extracted) {
    let Extracted { content, wrapped, pages, headings, .. } = extracted;
    if !(1..=MOST).contains(&(pages.len() + headings.len())) {
        return;
    }
    let structure = Structure {
        text: hash(content),
        wrapped: *wrapped,
        pages: pages.clone(),
        headings: headings.clone(),
    };
    if let Ok(structure) = serde_json::to_value(structure) {
        document.metadata.insert(STRUCTURE.to_owned(), structure);
    }
}

/// Sets the pages and headings of the text of an indexed file to those of the file. `document` is the document of
/// the file's record. Does nothing if the record has another text by now.
pub fn restore_structure(document: &Document, extracted: &mut Extracted) {
    let Some(structure) = document.metadata.get(STRUCTURE) else { return };
    let Ok(structure) = Structure::deserialize(structure) else { return };
    if structure.text != hash(&extracted.content) {
        return;
    }
    let Structure { wrapped, pages, headings, .. } = structure;
    extracted.page_count = u32::try_from(pages.len()).ok().filter(|count| *count > 0);
    (extracted.wrapped, extracted.pages, extracted.headings) = (wrapped, pages, headings);
}

fn hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
}
