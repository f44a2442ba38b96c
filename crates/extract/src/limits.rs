//! Limits on the cost of reading a document.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ExtractError;

/// Limits on the cost of reading a document. A document over a limit causes an error that names the
/// limit, unless its description says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Limits {
    /// Largest document, in bytes; 256 MiB by default.
    pub max_bytes: u64,
    /// Longest text of a document, in bytes of UTF-8; 64 MiB by default.
    pub max_content_bytes: u64,
    /// Largest total size of the compressed parts of a document (DOCX, EPUB, ODT, PPTX,
    /// spreadsheets, PDF) after unpacking, in bytes; 256 MiB by default. The texts that the sheets
    /// of an XLSX share count twice.
    pub max_unpacked_bytes: u64,
    /// Largest total size after unpacking of all documents that this process reads at the same
    /// time, in bytes; 512 MiB by default. A document that does not fit waits; a larger one is read
    /// alone. The wait does not count for [`Self::max_time`].
    pub max_unpacked_bytes_at_once: u64,
    /// Maximum pages; 10,000 by default.
    pub max_pages: u32,
    /// Time limit for one document, in wall time; 60 seconds by default.
    pub max_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        const MIB: u64 = 1 << 20;
        Self {
            max_bytes: 256 * MIB,
            max_content_bytes: 64 * MIB,
            max_unpacked_bytes: 256 * MIB,
            max_unpacked_bytes_at_once: 512 * MIB,
            max_pages: 10_000,
            max_time: Duration::from_mins(1),
        }
    }
}

impl Limits {
    /// Checks the size of a document, in bytes, before it is read into memory.
    ///
    /// # Errors
    ///
    /// Returns an error if it exceeds [`Self::max_bytes`].
    pub fn check_bytes(&self, bytes: u64) -> Result<(), ExtractError> {
        check("max_bytes", self.max_bytes, bytes)
    }

    pub(crate) fn check_content(&self, bytes: usize) -> Result<(), ExtractError> {
        check("max_content_bytes", self.max_content_bytes, bytes as u64)
    }

    #[cfg(any(feature = "docx", feature = "pdf", feature = "spreadsheet"))]
    pub(crate) fn check_unpacked(&self, bytes: u64) -> Result<(), ExtractError> {
        check("max_unpacked_bytes", self.max_unpacked_bytes, bytes)
    }

    pub(crate) fn check_pages(&self, pages: usize) -> Result<(), ExtractError> {
        check("max_pages", u64::from(self.max_pages), pages as u64)
    }
}

fn check(limit: &'static str, allowed: u64, found: u64) -> Result<(), ExtractError> {
    if found > allowed {
        return Err(ExtractError::Limit { limit, allowed, found });
    }
    Ok(())
}
