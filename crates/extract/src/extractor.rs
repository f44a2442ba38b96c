//! What reads the documents of a format, and the document that it gets.

use crate::{ExtractError, Extracted, Limits, Stop};

/// Reads documents of some formats.
pub trait Extractor: Send + Sync {
    /// The media types that it reads, in lower case: whole ones (`text/html`), or with a star at the end (`text/*`) or in
    /// the front (`*+json`). Whole ones go before those with stars.
    fn media_types(&self) -> &[&str];

    /// The extensions of file names that it reads, in lower case and without the dot, each with its media type.
    fn extensions(&self) -> &[(&str, &str)];

    /// The media type of a document, if its first bytes leave no doubt that it is one for this extractor.
    fn recognize(&self, _bytes: &[u8]) -> Option<&'static str> {
        None
    }

    /// Reads a document. The caller sets the source, the media type and the count of characters in what comes back, and
    /// holds the content to its limit.
    ///
    /// # Errors
    ///
    /// [`ExtractError`] if it gives no text. Bad input is never a panic.
    fn extract(&self, source: &Source<'_>) -> Result<Extracted, ExtractError>;
}

/// A document for an [`Extractor`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Source<'a> {
    /// What it is made of.
    pub bytes: &'a [u8],
    /// Its media type, in lower case and without parameters.
    pub media_type: &'a str,
    /// The encoding that the media type declares.
    pub charset: Option<&'a str>,
    /// How much it may cost.
    pub limits: &'a Limits,
    /// What ends the reading: its deadline, or a caller that has gone.
    pub stop: &'a Stop,
}

impl Source<'_> {
    /// Whether a reader may go on that has written so many bytes of text; to be asked for each element.
    ///
    /// # Errors
    ///
    /// The text is longer than the limit, or the reading is to end.
    pub fn check(&self, content: usize) -> Result<(), ExtractError> {
        self.stop.check()?;
        self.limits.check_content(content)
    }
}
