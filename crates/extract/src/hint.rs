//! Known facts about a document.

use crate::{Limits, Stop};

/// Known facts about a document besides its bytes, and the limits for reading it.
///
/// ```
/// use marquetry_extract::Hint;
///
/// let hint = Hint { media_type: Some("text/html; charset=iso-8859-1"), ..Hint::default() };
/// assert_eq!(Hint::file("notes.md").file_name, Some("notes.md"));
/// # let _ = hint;
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Hint<'a> {
    /// File name. Its extension determines the format if the media type does not.
    pub file_name: Option<&'a str>,
    /// Media type, with or without a charset.
    pub media_type: Option<&'a str>,
    /// URI, which is copied to [`Extracted::source_uri`](crate::Extracted::source_uri).
    pub source_uri: Option<&'a str>,
    /// Limits on the cost of reading.
    pub limits: Limits,
    /// Ends the reading early, for example when the caller has gone.
    pub stop: Option<&'a Stop>,
}

impl<'a> Hint<'a> {
    /// Returns the hint for a file of this name.
    pub fn file(name: &'a str) -> Self {
        Self { file_name: Some(name), ..Self::default() }
    }

    /// Returns the hint for a document of this media type.
    pub fn media_type(media_type: &'a str) -> Self {
        Self { media_type: Some(media_type), ..Self::default() }
    }
}
