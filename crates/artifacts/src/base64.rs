//! Decodes base64 as servers send it. No character is ignored: an unknown one is an error.

use std::{borrow::Cow, fmt};

use base64::{
    Engine,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig, general_purpose},
};

/// Decoded bytes, and the deviation of the text from the standard.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Decoded {
    pub(crate) bytes: Vec<u8>,
    pub(crate) form: Form,
    /// The MIME type of a `data:` prefix.
    pub(crate) mime_type: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// RFC 4648, section 4, with padding.
    Strict,
    /// Base64 with white space, the URL-safe alphabet, or missing padding.
    Tolerant,
    /// Base64 with more padding than the length needs.
    SurplusPadding,
    /// After a `data:` prefix.
    DataUri,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DecodeError {
    #[error("data is empty")]
    Empty,
    #[error("data decodes to {bytes} bytes, more than the limit of {limit}")]
    TooLarge { bytes: u64, limit: u64 },
    #[error("data is not valid base64: {}", DecodeProblem(.0))]
    Invalid(base64::DecodeError),
    #[error("data begins with \"data:\" but is not a base64 data URI")]
    DataUri,
}

/// Describes the library's error as the end of a sentence. Offsets do not count white space.
struct DecodeProblem<'a>(&'a base64::DecodeError);

impl fmt::Display for DecodeProblem<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            base64::DecodeError::InvalidByte(offset, byte) => {
                write!(out, "byte {byte:#04x} at offset {offset} is out of place")
            }
            base64::DecodeError::InvalidLength(length) => {
                write!(out, "{length} digits make no whole bytes")
            }
            base64::DecodeError::InvalidLastSymbol { offset, .. } => {
                write!(out, "the last digit, at offset {offset}, has bits that belong nowhere")
            }
            base64::DecodeError::InvalidPadding => out.write_str("the padding is wrong"),
        }
    }
}

/// Encodes bytes in the standard form.
pub(crate) fn encode(bytes: &[u8]) -> String {
    general_purpose::STANDARD.encode(bytes)
}

/// Decodes strictly, else leniently, else after a `data:` prefix. The limit is checked before
/// decoding.
pub(crate) fn decode(text: &str, limit: u64) -> Result<Decoded, DecodeError> {
    if let Some(rest) = text.trim_ascii_start().strip_prefix("data:") {
        let (head, data) = rest.split_once(',').ok_or(DecodeError::DataUri)?;
        let mime_type = head.strip_suffix(";base64").ok_or(DecodeError::DataUri)?;
        let (bytes, _) = decode_plain(data, limit)?;
        let mime_type =
            Some(mime_type).filter(|mime_type| !mime_type.is_empty()).map(str::to_owned);
        return Ok(Decoded { bytes, form: Form::DataUri, mime_type });
    }
    let (bytes, form) = decode_plain(text, limit)?;
    Ok(Decoded { bytes, form, mime_type: None })
}

fn decode_plain(text: &str, limit: u64) -> Result<(Vec<u8>, Form), DecodeError> {
    let clean = without_white_space(text);
    let digits = clean.trim_end_matches('=').len() as u64;
    if digits == 0 && clean.is_empty() {
        return Err(DecodeError::Empty);
    }
    let bytes = digits / 4 * 3 + (digits % 4).saturating_sub(1);
    if bytes > limit {
        return Err(DecodeError::TooLarge { bytes, limit });
    }
    if let Cow::Borrowed(text) = clean
        && let Ok(bytes) = general_purpose::STANDARD.decode(text)
    {
        return Ok((bytes, Form::Strict));
    }
    let standard = if clean.contains(['-', '_']) {
        clean.replace('-', "+").replace('_', "/").into()
    } else {
        clean
    };
    match TOLERANT.decode(standard.as_bytes()) {
        Ok(bytes) => Ok((bytes, Form::Tolerant)),
        Err(error) => {
            // Some servers add padding that is not needed, or add it twice.
            let digits = standard.trim_end_matches('=');
            let padding = standard.len() - digits.len();
            if digits.is_empty() || !(1..=MAX_PADDING).contains(&padding) {
                return Err(DecodeError::Invalid(error));
            }
            let bytes = TOLERANT.decode(digits).map_err(|_| DecodeError::Invalid(error))?;
            Ok((bytes, Form::SurplusPadding))
        }
    }
}

fn without_white_space(text: &str) -> Cow<'_, str> {
    if !text.bytes().any(|byte| byte.is_ascii_whitespace()) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().filter(|char| !char.is_ascii_whitespace()).collect())
}

/// More `=` than this are an error.
const MAX_PADDING: usize = 4;

const TOLERANT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn forms() {
        for (text, bytes, form) in [
            ("aGk/Pg==", "hi?>", Form::Strict),
            ("aGk/Pg", "hi?>", Form::Tolerant),
            ("aGk_Pg==", "hi?>", Form::Tolerant),
            ("aG k/\r\n\tPg==\n", "hi?>", Form::Tolerant),
            ("aGk/Pg===", "hi?>", Form::SurplusPadding),
            ("aGk/=", "hi?", Form::SurplusPadding),
            ("aGk/====", "hi?", Form::SurplusPadding),
            ("aGk==", "hi", Form::SurplusPadding),
            ("data:text/plain;base64,aGk/Pg==", "hi?>", Form::DataUri),
        ] {
            let decoded = decode(text, 100).unwrap();
            assert_eq!(
                (decoded.bytes.as_slice(), decoded.form),
                (bytes.as_bytes(), form),
                "{text}"
            );
        }
        assert_eq!(decode("data:;base64,aGk=", 9).unwrap().mime_type, None);
        assert_eq!(
            decode("data:image/png;base64,aGk=", 9).unwrap().mime_type.as_deref(),
            Some("image/png")
        );
    }

    #[test]
    fn the_limit_is_exact() {
        for length in 0..20_u64 {
            let text = general_purpose::STANDARD.encode(vec![7; length as usize + 1]);
            assert!(
                matches!(decode(&text, length), Err(DecodeError::TooLarge { bytes, .. }) if bytes == length + 1)
            );
            assert!(decode(&text, length + 1).is_ok());
        }
    }

    proptest! {
        #[test]
        fn encoded_bytes_decode_to_themselves(bytes: Vec<u8>, spaces in "[ \n\r\t]{0,4}", at: prop::sample::Index) {
            prop_assume!(!bytes.is_empty());
            let text = general_purpose::STANDARD.encode(&bytes);
            let strict = decode(&text, u64::MAX).unwrap();
            prop_assert_eq!((&strict.bytes, strict.form), (&bytes, Form::Strict));

            let url_safe = general_purpose::URL_SAFE_NO_PAD.encode(&bytes);
            prop_assert_eq!(&decode(&url_safe, u64::MAX).unwrap().bytes, &bytes);
            let mut spaced = text.clone();
            spaced.insert_str(at.index(text.len() + 1), &spaces);
            prop_assert_eq!(&decode(&spaced, u64::MAX).unwrap().bytes, &bytes);
            prop_assert_eq!(&decode(&format!("data:a/b;base64,{text}"), u64::MAX).unwrap().bytes, &bytes);
        }

        #[test]
        fn tolerant_decoding_agrees_with_strict_decoding(text in "[A-Za-z0-9+/=]{1,12}") {
            if let Ok(bytes) = general_purpose::STANDARD.decode(&text) {
                prop_assert_eq!(decode(&text, 100).unwrap(), Decoded { bytes, form: Form::Strict, mime_type: None });
            }
        }

        #[test]
        fn no_character_is_dropped(text in "\\PC{1,40}") {
            if let Ok(decoded) = decode(&text, 100) && matches!(decoded.form, Form::Tolerant | Form::SurplusPadding) {
                let digits: String = text.chars().filter(|char| !char.is_ascii_whitespace() && *char != '=').collect();
                let again = general_purpose::STANDARD_NO_PAD.encode(&decoded.bytes);
                prop_assert_eq!(digits.replace('-', "+").replace('_', "/"), again);
            }
        }
    }
}
