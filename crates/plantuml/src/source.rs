//! Checks diagram text before it is encoded.

/// Diagram text that can be encoded: not blank, and at most [`Source::MAX_BYTES`] of UTF-8.
///
/// ```
/// use marquetry_plantuml::{Source, SourceError};
///
/// assert_eq!(Source::new("A -> B")?.as_str(), "A -> B");
/// assert_eq!(Source::new(" \u{feff}\n"), Err(SourceError::Blank));
/// # Ok::<(), SourceError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Source<'a>(&'a str);

impl<'a> Source<'a> {
    /// The longest diagram, in bytes of UTF-8, including white space around it (seed 002, scenario
    /// 6: 50 KB).
    pub const MAX_BYTES: usize = 51_200;

    /// Checks `text`. It is not trimmed.
    ///
    /// # Errors
    ///
    /// Returns an error if JavaScript's `trim` would leave nothing of `text`, whatever its length,
    /// or `text` is longer than [`Source::MAX_BYTES`].
    pub fn new(text: &'a str) -> Result<Self, SourceError> {
        if is_blank(text) {
            return Err(SourceError::Blank);
        }
        if text.len() > Self::MAX_BYTES {
            return Err(SourceError::TooLong { bytes: text.len() });
        }
        Ok(Self(text))
    }

    /// Returns the text.
    pub fn as_str(self) -> &'a str {
        self.0
    }
}

/// Error of [`Source::new`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The text is empty or white space.
    #[error("diagram is blank")]
    Blank,
    /// The text is longer than [`Source::MAX_BYTES`].
    #[error("diagram is {bytes} bytes, more than {}", Source::MAX_BYTES)]
    TooLong {
        /// The length of the text in bytes of UTF-8.
        bytes: usize,
    },
}

pub(crate) fn is_blank(text: &str) -> bool {
    text.chars().all(is_space)
}

/// Returns whether JavaScript's `trim` removes a character: Unicode's white space, with U+FEFF and
/// without U+0085 (ECMA-262, `WhiteSpace` and `LineTerminator`).
pub(crate) fn is_space(c: char) -> bool {
    c == '\u{feff}' || (c.is_whitespace() && c != '\u{85}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_space_of_javascript_is_blank() {
        let spaces = "\t\u{b}\u{c} \u{a0}\u{feff}\n\r\u{2028}\u{2029}\u{1680}\u{2000}\u{2001}\u{2002}\u{2003}\
                      \u{2004}\u{2005}\u{2006}\u{2007}\u{2008}\u{2009}\u{200a}\u{202f}\u{205f}\u{3000}";
        for space in spaces.chars() {
            assert_eq!(Source::new(&space.to_string()), Err(SourceError::Blank), "{space:?}");
        }
        assert_eq!(Source::new(spaces), Err(SourceError::Blank));
        assert_eq!(Source::new(""), Err(SourceError::Blank));
    }

    #[test]
    fn other_invisible_characters_are_text() {
        for text in ["\u{85}", "\u{180e}", "\u{200b}", "\u{2060}", "\0", " x "] {
            assert_eq!(Source::new(text).map(Source::as_str), Ok(text));
        }
    }

    #[test]
    fn the_limit_counts_bytes_of_untrimmed_text() {
        #[track_caller]
        fn check(text: &str, want: Result<usize, SourceError>) {
            assert_eq!(Source::new(text).map(|source| source.as_str().len()), want);
        }
        check(&"x".repeat(51_200), Ok(51_200));
        check(&"x".repeat(51_201), Err(SourceError::TooLong { bytes: 51_201 }));
        check(&"é".repeat(25_600), Ok(51_200));
        check(&format!("x{}", " ".repeat(51_200)), Err(SourceError::TooLong { bytes: 51_201 }));
        // Blank text is reported as blank at any length, not as too long.
        check(&" ".repeat(51_201), Err(SourceError::Blank));
    }

    #[test]
    fn errors_read_well() {
        insta::assert_snapshot!(Source::new("").unwrap_err(), @"diagram is blank");
        insta::assert_snapshot!(Source::new(&"x".repeat(60_000)).unwrap_err(), @"diagram is 60000 bytes, more than 51200");
    }
}
