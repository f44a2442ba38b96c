//! The trait of extractors, and their input.

use crate::{ExtractError, Extracted, Limits, Stop};

/// Reads documents of one or several formats.
pub trait Extractor: Send + Sync {
    /// Returns the media types that this extractor reads, in lower case: exact types (`text/html`),
    /// or patterns with a star at the end (`text/*`) or the beginning (`*+json`). Exact types take
    /// precedence.
    fn media_types(&self) -> &[&str];

    /// Returns the file extensions that this extractor reads, in lower case and without the dot,
    /// each with its media type.
    fn extensions(&self) -> &[(&str, &str)];

    /// Returns the media type of a document if its first bytes clearly identify a format of this
    /// extractor.
    fn recognize(&self, _bytes: &[u8]) -> Option<&'static str> {
        None
    }

    /// Returns whether the formats of this extractor are zip archives. A file with such a name or
    /// media type that looks like another archive is then read by this extractor, which says what
    /// is wrong.
    fn is_zip_archive(&self) -> bool {
        false
    }

    /// Reads a document. [`Registry::extract`](crate::Registry::extract) adds the source URI, the
    /// media type and the number of characters to the result, and checks the length of the content.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no text. Invalid input must not panic.
    fn extract(&self, source: &Source<'_>) -> Result<Extracted, ExtractError>;
}

/// The input of an [`Extractor`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Source<'a> {
    /// The bytes of the document.
    pub bytes: &'a [u8],
    /// Media type, in lower case and without parameters.
    pub media_type: &'a str,
    /// The character encoding that the media type declares.
    pub charset: Option<&'a str>,
    /// Limits on the cost of reading.
    pub limits: &'a Limits,
    /// Ends the reading at its deadline, or when the caller has gone.
    pub stop: &'a Stop,
    /// Number of documents around this one.
    #[cfg_attr(
        not(any(feature = "docx", feature = "spreadsheet")),
        allow(dead_code, reason = "only packages contain documents")
    )]
    pub(crate) depth: u8,
}

impl Source<'_> {
    /// Checks whether a reader that has written `content` bytes of text may continue. Readers call
    /// this for each element.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is longer than its limit, or if the reading must end.
    pub fn check(&self, content: usize) -> Result<(), ExtractError> {
        self.stop.check()?;
        self.limits.check_content(content)
    }
}
