//! Documents into text.

#[cfg(feature = "docx")]
mod books;
mod corpus;
#[cfg(feature = "docx")]
mod docx;
#[cfg(feature = "docx")]
mod docx_parts;
mod formats;
mod hostile;
mod mail;
#[cfg(feature = "docx")]
mod open_document;
#[cfg(feature = "pdf")]
mod pdf;
#[cfg(feature = "pdf")]
mod pdf_corpus;
mod properties;
mod rtf;
mod seed;
#[cfg(feature = "docx")]
mod slides;
#[cfg(feature = "spreadsheet")]
mod spreadsheet;
mod support;

use marquetry_extract::{ExtractError, Extracted, Hint};

#[track_caller]
fn extract(bytes: impl AsRef<[u8]>, hint: &Hint<'_>) -> Extracted {
    marquetry_extract::extract(bytes.as_ref(), hint).unwrap()
}

#[track_caller]
fn file(name: &str, bytes: impl AsRef<[u8]>) -> Extracted {
    extract(bytes, &Hint::file(name))
}

#[track_caller]
fn refusal(bytes: impl AsRef<[u8]>, hint: &Hint<'_>) -> ExtractError {
    marquetry_extract::extract(bytes.as_ref(), hint).unwrap_err()
}
