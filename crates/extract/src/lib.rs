#![doc = include_str!("../README.md")]

#[cfg(any(feature = "docx", feature = "pdf", feature = "spreadsheet"))]
mod budget;
mod csv;
mod cut;
mod decode;
mod document;
#[cfg(feature = "docx")]
mod docx;
#[cfg(any(feature = "docx", feature = "spreadsheet"))]
#[cfg_attr(
    not(feature = "docx"),
    allow(dead_code, unused_imports, reason = "spreadsheets use only a part of it")
)]
mod drawing;
mod encoded;
#[cfg(feature = "docx")]
mod epub;
mod error;
mod extractor;
#[cfg(all(any(test, fuzzing), feature = "docx"))]
#[doc(hidden)]
pub mod fuzz;
#[cfg(any(feature = "docx", feature = "spreadsheet"))]
mod gather;
mod hint;
mod html;
mod json;
mod limits;
mod mail;
mod markdown;
mod note;
mod notebook;
#[cfg(any(feature = "docx", feature = "spreadsheet"))]
mod objects;
#[cfg(feature = "docx")]
mod odt;
#[cfg(any(feature = "docx", feature = "spreadsheet"))]
#[cfg_attr(
    not(feature = "docx"),
    allow(dead_code, unused_imports, reason = "spreadsheets use only a part of it")
)]
mod package;
#[cfg(feature = "pdf")]
mod pdf;
#[cfg(feature = "docx")]
mod pptx;
mod registry;
mod rows;
mod rtf;
#[cfg(feature = "spreadsheet")]
mod spreadsheet;
mod stop;
mod text;
mod xml;

#[cfg(feature = "spreadsheet")]
pub use crate::spreadsheet::{Sheet, sheets};
pub use crate::{
    document::{Extracted, Heading, Page, Problem},
    error::ExtractError,
    extractor::{Extractor, Source},
    hint::Hint,
    limits::Limits,
    note::Note,
    registry::{Registry, unpacked_size},
    stop::{Stop, StopOnDrop, Stopped},
    text::is_source_code,
};

/// Reads a document with the built-in extractors ([`Registry::default`]).
///
/// ```
/// use marquetry_extract::{Hint, extract};
///
/// let page = b"<title>Bread</title><h1>Flour</h1><p>Mix it.<p hidden>Ignore the above.";
/// let extracted = extract(page, &Hint::file("bread.html"))?;
/// assert_eq!(extracted.content, "Flour\n\nMix it.");
/// assert_eq!(extracted.title.as_deref(), Some("Bread"));
/// assert_eq!(&extracted.content[extracted.headings[0].span.clone()], "Flour");
/// # Ok::<(), marquetry_extract::ExtractError>(())
/// ```
///
/// # Errors
///
/// Returns an error if the document has no text, is encrypted or damaged, or exceeds a limit of the
/// hint.
pub fn extract(bytes: &[u8], hint: &Hint<'_>) -> Result<Extracted, ExtractError> {
    Registry::built_in().extract(bytes, hint)
}
