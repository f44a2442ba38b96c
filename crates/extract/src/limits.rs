//! How much of a document is worked off.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ExtractError;

/// How much one document may cost. What exceeds a limit is an error that names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of the document as it is given; 256 MiB by default.
    pub max_bytes: u64,
    /// Bytes of the text that comes out; 64 MiB by default.
    pub max_content_bytes: u64,
    /// Bytes that packed parts (of DOCX, spreadsheets, PDF) may have unpacked, all together; 256 MiB by default.
    pub max_unpacked_bytes: u64,
    /// Pages; 10,000 by default.
    pub max_pages: u32,
    /// Time for the document, by the clock; 60 seconds by default.
    pub max_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        const MIB: u64 = 1 << 20;
        Self {
            max_bytes: 256 * MIB,
            max_content_bytes: 64 * MIB,
            max_unpacked_bytes: 256 * MIB,
            max_pages: 10_000,
            max_time: Duration::from_secs(60),
        }
    }
}

impl Limits {
    /// Whether a document may have so many bytes: to be asked before it is read into memory.
    ///
    /// # Errors
    ///
    /// [`ExtractError::Limit`] if it may not.
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
