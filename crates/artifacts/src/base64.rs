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
#[path = "../tests/unit/base64.rs"]
mod tests;
