//! Encodes diagram text into codes.

use std::fmt;

use crate::{alphabet, deflate, source::Source, wrapper};

/// Options of [`encode`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EncodeOptions {
    /// Encodes the whole text. By default, as in PlantUML's own encoder, a bare
    /// `@startuml`/`@enduml` wrapper is left out: servers restore it, and the code is shorter.
    pub verbatim: bool,
}

impl EncodeOptions {
    /// Returns the default options.
    pub const fn new() -> Self {
        Self { verbatim: false }
    }

    /// Sets [`verbatim`](Self::verbatim).
    #[must_use]
    pub const fn with_verbatim(self, verbatim: bool) -> Self {
        Self { verbatim }
    }
}

/// Encodes a diagram. Equal text and options give equal codes.
///
/// ```
/// use marquetry_plantuml::{EncodeOptions, Source, encode};
///
/// let source = Source::new("@startuml\nBob -> Alice : hello\n@enduml")?;
/// let code = encode(source, &EncodeOptions::default());
/// assert_eq!(code.as_str(), "SyfFKj2rKt3CoKnELR1Io4ZDoSa70000");
/// assert!(encode(source, &EncodeOptions::new().with_verbatim(true)).as_str().len() > code.as_str().len());
/// # Ok::<(), marquetry_plantuml::SourceError>(())
/// ```
pub fn encode(source: Source<'_>, options: &EncodeOptions) -> Code {
    let text = source.as_str();
    let text = if options.verbatim { text } else { wrapper::strip(text).unwrap_or(text) };
    Code(alphabet::encode(&deflate::deflate(text.as_bytes())))
}

/// The code of a diagram: a multiple of four characters of `0-9A-Za-z-_`, the first of which is not
/// `0`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Code(String);

impl Code {
    /// Returns the code. A URL may contain it without escapes.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the code as an owned string.
    pub fn into_string(self) -> String {
        self.0
    }
}

impl AsRef<str> for Code {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DecodeOptions, decode};

    /// The vectors of the specification, and the two halves of the wrapper rule.
    #[test]
    fn known_diagrams_have_known_codes() {
        check("A --> B", "SrJGrRLJS080");
        check("Bob -> Alice : hello", "SyfFKj2rKt3CoKnELR1Io4ZDoSa70000");
        check("@startuml\nA --> B\n@enduml", "SrJGrRLJS080");
        check("@startuml\nA --> B\n@enduml\n", "SrJGrRLJS080");
    }

    #[test]
    fn verbatim_keeps_the_wrapper() {
        let text = "@startuml\nA --> B\n@enduml";
        let code = encode(Source::new(text).unwrap(), &EncodeOptions { verbatim: true });
        assert_eq!(decode(code.as_str(), &DecodeOptions::default()).as_deref(), Ok(text));
    }

    #[test]
    fn a_wrapper_around_nothing_is_encoded_whole() {
        for text in ["@startuml\n@enduml", "@startuml\n \n@enduml"] {
            let source = Source::new(text).unwrap();
            let verbatim = encode(source, &EncodeOptions { verbatim: true });
            assert_eq!(encode(source, &EncodeOptions::default()), verbatim);
            assert!(!verbatim.as_str().starts_with('0'));
        }
    }

    #[track_caller]
    fn check(text: &str, code: &str) {
        let source = Source::new(text).unwrap();
        assert_eq!(encode(source, &EncodeOptions::default()).as_str(), code);
    }
}
