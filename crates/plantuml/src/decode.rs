//! Decodes codes and URLs into diagram text.

use std::ops::Range;

use crate::{
    alphabet,
    inflate::{Compression, InflateError, inflate},
    source::is_space,
    wrapper,
};

/// Options of [`decode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DecodeOptions {
    /// Largest text that is decoded, in bytes; [`DecodeOptions::DEFAULT_MAX_BYTES`] by default. It
    /// also bounds the memory in use.
    pub max_bytes: usize,
    /// Wraps text in `@startuml` and `@enduml` if none of its lines starts with `@start`, as a
    /// server does. The wrapper does not count towards `max_bytes`. Off by default.
    pub restore_wrapper: bool,
}

impl DecodeOptions {
    /// 1 MiB: twenty times the limit of [`Source`](crate::Source), since other encoders have other
    /// limits.
    pub const DEFAULT_MAX_BYTES: usize = 1 << 20;

    /// Returns the default options.
    pub const fn new() -> Self {
        Self { max_bytes: Self::DEFAULT_MAX_BYTES, restore_wrapper: false }
    }

    /// Sets [`max_bytes`](Self::max_bytes).
    #[must_use]
    pub const fn with_max_bytes(self, max_bytes: usize) -> Self {
        Self { max_bytes, ..self }
    }

    /// Sets [`restore_wrapper`](Self::restore_wrapper).
    #[must_use]
    pub const fn with_restored_wrapper(self, restore_wrapper: bool) -> Self {
        Self { restore_wrapper, ..self }
    }
}

impl Default for DecodeOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// Decodes the text of a diagram from its code, or from a URL that ends in its code.
///
/// Accepts what PlantUML servers accept: a bare code or one with the prefix `~0` (both DEFLATE),
/// `~1` (a zlib stream), `~g` (gzip) or `~h` (plain bytes in hexadecimal); a zlib stream without
/// its prefix, which old plug-ins write; and codes without padding, where missing characters count
/// as `0`. Data after the compressed stream is ignored. In a URL the code is the last segment of
/// the path, and its `~` may be escaped as `%7E`. Query, fragment and white space around the input
/// are ignored.
///
/// ```
/// use marquetry_plantuml::{DecodeError, DecodeOptions, decode};
///
/// let options = DecodeOptions::default();
/// assert_eq!(decode("SrJGrRLJS080", &options)?, "A --> B");
/// assert_eq!(decode("https://www.plantuml.com/plantuml/png/~h41", &options)?, "A");
/// assert_eq!(decode("SrJG+", &options), Err(DecodeError::InvalidCharacter { character: '+', position: 5 }));
/// # Ok::<(), DecodeError>(())
/// ```
///
/// # Errors
///
/// Returns an error if the input is not such a code. No input panics.
pub fn decode(input: &str, options: &DecodeOptions) -> Result<String, DecodeError> {
    let Range { mut start, end } = locate(input);
    let tilde = ["~", "%7E", "%7e"].into_iter().find(|tilde| input[start..end].starts_with(tilde));
    let mut form = Form::Bare;
    if let Some(tilde) = tilde {
        start += tilde.len();
        let prefix = input[start..end].chars().next().ok_or(DecodeError::Missing)?;
        start += prefix.len_utf8();
        form = match prefix {
            '0' => Form::Compressed(Compression::Deflate),
            '1' => Form::Compressed(Compression::Zlib),
            'g' => Form::Compressed(Compression::Gzip),
            'h' => Form::Hex,
            _ => return Err(DecodeError::UnknownPrefix { prefix }),
        };
    }
    if start == end {
        return Err(DecodeError::Missing);
    }

    let code = &input[start..end];
    let bytes = match form {
        Form::Hex => from_hex(input, start..end, options.max_bytes)?,
        Form::Bare | Form::Compressed(_) => {
            let packed = alphabet::decode(code).map_err(|index| {
                let (character, position) = character_at(input, start + index);
                DecodeError::InvalidCharacter { character, position }
            })?;
            let compression = match form {
                Form::Compressed(compression) => compression,
                _ if is_zlib(&packed) => Compression::Zlib,
                _ => Compression::Deflate,
            };
            inflate(compression, &packed, options.max_bytes).map_err(|error| match error {
                InflateError::Corrupt => DecodeError::Corrupt { compression },
                InflateError::Truncated => DecodeError::Truncated { compression },
                InflateError::TooLong => DecodeError::TooLong { max_bytes: options.max_bytes },
            })?
        }
    };
    let text = String::from_utf8(bytes)
        .map_err(|error| DecodeError::NotUtf8 { valid_up_to: error.utf8_error().valid_up_to() })?;
    Ok(if options.restore_wrapper { wrapper::restore(text) } else { text })
}

/// Error of [`decode`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The input is blank, a URL without a code, or a prefix without a code.
    #[error("code is missing")]
    Missing,
    /// The code starts with `~` and an unknown character.
    #[error("code starts with the unknown prefix '~{}', known are ~0, ~1, ~g and ~h", .prefix.escape_debug())]
    UnknownPrefix {
        /// The character after `~`.
        prefix: char,
    },
    /// A character of the code is not in PlantUML's alphabet.
    #[error("character {position}, {character:?}, is not one of 0-9 A-Z a-z - _")]
    InvalidCharacter {
        /// The first such character.
        character: char,
        /// Position in the input, in characters, from 1.
        position: usize,
    },
    /// A character of a hexadecimal code is not a hexadecimal digit.
    #[error("character {position}, {character:?}, is not a hexadecimal digit")]
    InvalidHexDigit {
        /// The first such character.
        character: char,
        /// Position in the input, in characters, from 1.
        position: usize,
    },
    /// A hexadecimal code ends in the middle of a byte.
    #[error("hexadecimal code has {digits} digits, an odd number")]
    OddHex {
        /// The number of digits.
        digits: usize,
    },
    /// The decoded bytes are not compressed data.
    #[error("code does not hold {compression} data, or is damaged")]
    Corrupt {
        /// The format that the data was read as.
        compression: Compression,
    },
    /// The compressed data is incomplete.
    #[error("code is cut short: its {compression} data does not end")]
    Truncated {
        /// The format that the data was read as.
        compression: Compression,
    },
    /// The text is longer than [`DecodeOptions::max_bytes`].
    #[error("code decodes to more than {max_bytes} bytes")]
    TooLong {
        /// The limit.
        max_bytes: usize,
    },
    /// The decoded text is not UTF-8.
    #[error("code does not decode to UTF-8: byte {} is wrong", .valid_up_to + 1)]
    NotUtf8 {
        /// Number of valid bytes before the first invalid one.
        valid_up_to: usize,
    },
}

#[derive(Clone, Copy)]
enum Form {
    Bare,
    Compressed(Compression),
    Hex,
}

/// Finds the code in `input`.
fn locate(input: &str) -> Range<usize> {
    let end = input.trim_end_matches(is_space).len();
    let start = end - input[..end].trim_start_matches(is_space).len();
    let Some(scheme) = input[start..end].find("://") else { return start..end };
    let authority = start + scheme + "://".len();
    let end = input[authority..end].find(['?', '#']).map_or(end, |index| authority + index);
    let start = input[authority..end].rfind('/').map_or(end, |index| authority + index + 1);
    start..end
}

/// Returns whether the data has the header of zlib. Raw DEFLATE never begins so: it would be a
/// stored block with padding other than zero.
fn is_zlib(packed: &[u8]) -> bool {
    matches!(packed, [method, flags, ..] if method & 15 == 8 && u16::from_be_bytes([*method, *flags]) % 31 == 0)
}

fn from_hex(input: &str, code: Range<usize>, max_bytes: usize) -> Result<Vec<u8>, DecodeError> {
    let digits = input[code.clone()].as_bytes();
    if let Some(index) = digits.iter().position(|digit| !digit.is_ascii_hexdigit()) {
        let (character, position) = character_at(input, code.start + index);
        return Err(DecodeError::InvalidHexDigit { character, position });
    }
    if digits.len() % 2 == 1 {
        return Err(DecodeError::OddHex { digits: digits.len() });
    }
    if digits.len() / 2 > max_bytes {
        return Err(DecodeError::TooLong { max_bytes });
    }
    let pairs = digits.chunks_exact(2);
    Ok(pairs.map(|pair| value_of(pair[0]) << 4 | value_of(pair[1])).collect())
}

/// Returns the value of a hexadecimal digit.
fn value_of(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

/// Returns the character at a byte index, which must be a boundary, and its position from 1.
fn character_at(input: &str, index: usize) -> (char, usize) {
    let position = input[..index].chars().count() + 1;
    (input[index..].chars().next().unwrap_or_default(), position)
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    #[test]
    fn every_form_of_a_code_is_read() {
        for code in [
            "SrJGrRLJS080",
            "~0SrJGrRLJS080",
            "%7E0SrJGrRLJS080",
            "%7e0SrJGrRLJS080",
            // Without padding, and with data after the stream.
            "SrJGrRLJS08",
            "SrJGrRLJS080zzzz",
            "  SrJGrRLJS080\n",
            "\u{feff}SrJGrRLJS080",
            // zlib with and without its prefix, gzip, plain bytes.
            "~1UDfpLD3LjLDm0W05Nm5S",
            "UDfpLD3LjLDm0W05Nm5S",
            "~g7ui8000000020tDKqDMrKt0205Vq5Z070000",
            "~h41202d2d3e2042",
            "~h41202D2D3E2042",
            // Stored, which other encoders write and servers read.
            "0GS0-Fz182qjFY12",
        ] {
            assert_eq!(decode(code, &DecodeOptions::default()).as_deref(), Ok("A --> B"), "{code}");
        }
    }

    #[test]
    fn the_code_is_found_in_a_url() {
        for url in [
            "https://www.plantuml.com/plantuml/svg/SrJGrRLJS080",
            "http://localhost:8080/png/2/SrJGrRLJS080",
            "https://example.org/uml/SrJGrRLJS080?theme=a/b#c",
            "https://example.org/SrJGrRLJS080#/x",
            "HTTPS://example.org/plantuml/txt/~0SrJGrRLJS080",
            " https://example.org/é/%7E0SrJGrRLJS080\n",
        ] {
            assert_eq!(decode(url, &DecodeOptions::default()).as_deref(), Ok("A --> B"), "{url}");
        }
    }

    #[test]
    fn the_wrapper_is_restored_when_asked() {
        let restore = DecodeOptions { restore_wrapper: true, ..DecodeOptions::default() };
        assert_eq!(decode("SrJGrRLJS080", &restore).unwrap(), "@startuml\nA --> B\n@enduml");
        assert_eq!(
            decode("SoWkIImgAStDuN9KqDMrKt3YSaZDIm7o0G00", &restore).unwrap(),
            "@startuml\nA --> B\n@enduml"
        );
    }

    #[test]
    fn the_limit_holds_for_every_form() {
        fn limited(code: &str, max_bytes: usize) -> Result<String, DecodeError> {
            decode(code, &DecodeOptions { max_bytes, ..DecodeOptions::default() })
        }
        for code in [
            "SrJGrRLJS080",
            "UDfpLD3LjLDm0W05Nm5S",
            "~g7ui8000000020tDKqDMrKt0205Vq5Z070000",
            "~h41202d2d3e2042",
        ] {
            assert_eq!(limited(code, 7).as_deref(), Ok("A --> B"));
            assert_eq!(limited(code, 6), Err(DecodeError::TooLong { max_bytes: 6 }));
            assert_eq!(limited(code, 0), Err(DecodeError::TooLong { max_bytes: 0 }));
        }
    }

    #[test]
    fn errors_read_well() {
        assert_snapshot!(error(""), @"code is missing");
        assert_snapshot!(error(" \n"), @"code is missing");
        assert_snapshot!(error("~"), @"code is missing");
        assert_snapshot!(error("~h"), @"code is missing");
        assert_snapshot!(error("https://www.plantuml.com"), @"code is missing");
        assert_snapshot!(error("https://www.plantuml.com/plantuml/svg/"), @"code is missing");
        assert_snapshot!(error("https://www.plantuml.com/?a/b"), @"code is missing");

        assert_snapshot!(error("~2SrJG"), @"code starts with the unknown prefix '~2', known are ~0, ~1, ~g and ~h");
        assert_snapshot!(error("~\nSrJG"), @r"code starts with the unknown prefix '~\n', known are ~0, ~1, ~g and ~h");

        assert_snapshot!(error("SrJGrRLJ+080"), @"character 9, '+', is not one of 0-9 A-Z a-z - _");
        assert_snapshot!(error("SrJG rRLJ"), @"character 5, ' ', is not one of 0-9 A-Z a-z - _");
        assert_snapshot!(error("SrJ~"), @"character 4, '~', is not one of 0-9 A-Z a-z - _");
        assert_snapshot!(error(" ~0Sr漢"), @"character 6, '漢', is not one of 0-9 A-Z a-z - _");
        assert_snapshot!(error("https://example.org/é/SrJG%20"), @"character 27, '%', is not one of 0-9 A-Z a-z - _");
        assert_snapshot!(error("www.plantuml.com/plantuml/svg/SrJGrRLJS080"), @"character 4, '.', is not one of 0-9 A-Z a-z - _");

        assert_snapshot!(error("~h4x"), @"character 4, 'x', is not a hexadecimal digit");
        assert_snapshot!(error("~h41é"), @"character 5, 'é', is not a hexadecimal digit");
        assert_snapshot!(error("~h412"), @"hexadecimal code has 3 digits, an odd number");

        assert_snapshot!(error("____"), @"code does not hold deflate data, or is damaged");
        assert_snapshot!(error("~1____"), @"code does not hold zlib data, or is damaged");
        assert_snapshot!(error("~g____"), @"code does not hold gzip data, or is damaged");
        assert_snapshot!(error("SrJG"), @"code is cut short: its deflate data does not end");
        assert_snapshot!(error("~1UDfp"), @"code is cut short: its zlib data does not end");
        assert_snapshot!(error("~g7ui80000"), @"code is cut short: its gzip data does not end");

        assert_snapshot!(error("~h41ff"), @"code does not decode to UTF-8: byte 2 is wrong");
        assert_snapshot!(error("IqnA_lyF0000"), @"code does not decode to UTF-8: byte 4 is wrong");
        let limit = DecodeOptions { max_bytes: 5, ..DecodeOptions::default() };
        assert_snapshot!(decode("SrJGrRLJS080", &limit).unwrap_err(), @"code decodes to more than 5 bytes");
    }

    #[track_caller]
    fn error(input: &str) -> DecodeError {
        decode(input, &DecodeOptions::default()).unwrap_err()
    }
}
