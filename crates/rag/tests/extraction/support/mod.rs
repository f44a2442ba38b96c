//! Documents made for a test.

#[cfg(feature = "docx")]
pub(crate) mod docx;
#[cfg(feature = "pdf")]
pub(crate) mod pdf;
