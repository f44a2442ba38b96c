//! Documents made for a test.

#[cfg(feature = "docx")]
pub(crate) mod docx;
#[cfg(any(feature = "docx", feature = "spreadsheet"))]
pub(crate) mod package;
#[cfg(feature = "pdf")]
pub(crate) mod pdf;
#[cfg(feature = "spreadsheet")]
pub(crate) mod spreadsheet;
