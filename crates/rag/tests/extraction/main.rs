//! Documents into text.
#![cfg(feature = "extract")]

mod formats;
mod hostile;
mod places;
mod properties;
mod seed;

use marquetry_rag::{ExtractError, Extracted, Hint};

#[track_caller]
fn extract(bytes: impl AsRef<[u8]>, hint: &Hint<'_>) -> Extracted {
    marquetry_rag::extract(bytes.as_ref(), hint).unwrap()
}

#[track_caller]
fn file(name: &str, bytes: impl AsRef<[u8]>) -> Extracted {
    extract(bytes, &Hint::file(name))
}

#[track_caller]
fn refusal(bytes: impl AsRef<[u8]>, hint: &Hint<'_>) -> ExtractError {
    marquetry_rag::extract(bytes.as_ref(), hint).unwrap_err()
}
