//! What the caller knows of a document, and what reading it may cost.

use crate::{Limits, Stop};

/// What the caller knows of a document besides its bytes, and what reading it may cost.
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
    /// Its name; the extension says what it is if the media type does not.
    pub file_name: Option<&'a str>,
    /// Its media type, with or without a charset.
    pub media_type: Option<&'a str>,
    /// Where it is from; handed on to [`Extracted::source_uri`](crate::Extracted::source_uri).
    pub source_uri: Option<&'a str>,
    /// How much it may cost.
    pub limits: Limits,
    /// Ends the reading early, for example when the caller has gone.
    pub stop: Option<&'a Stop>,
}

impl<'a> Hint<'a> {
    /// A file of this name.
    pub fn file(name: &'a str) -> Self {
        Self { file_name: Some(name), ..Self::default() }
    }

    /// A document of this media type.
    pub fn media_type(media_type: &'a str) -> Self {
        Self { media_type: Some(media_type), ..Self::default() }
    }
}
