//! Transfer encodings of MIME (RFC 2045, 6).

use std::borrow::Cow;

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

/// Decodes the body of a part.
pub(super) fn decoded<'a>(encoding: &str, bytes: &'a [u8]) -> Cow<'a, [u8]> {
    match encoding.trim().to_ascii_lowercase().as_str() {
        "base64" => base64(bytes).into(),
        "quoted-printable" => quoted_printable(bytes).into(),
        _ => bytes.into(),
    }
}

/// Decodes base64. Other characters are skipped, as RFC 2045 demands; a damaged end is left out.
pub(super) fn base64(bytes: &[u8]) -> Vec<u8> {
    const LENIENT: GeneralPurpose = GeneralPurpose::new(
        &alphabet::STANDARD,
        GeneralPurposeConfig::new()
            .with_decode_allow_trailing_bits(true)
            .with_decode_padding_mode(DecodePaddingMode::Indifferent),
    );
    let mut digits: Vec<u8> = bytes
        .iter()
        .copied()
        .filter(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
        .collect();
    if digits.len() % 4 == 1 {
        digits.pop();
    }
    LENIENT.decode(&digits).unwrap_or_default()
}

/// Decodes quoted-printable. What is no escape stays as it is.
pub(super) fn quoted_printable(bytes: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'=' {
            decoded.push(first);
        } else if let Some(byte) = hexadecimal(after) {
            decoded.push(byte);
            rest = &after[2..];
        } else if let Some(next_line) = after_soft_break(after) {
            rest = next_line;
        } else {
            decoded.push(first);
        }
    }
    decoded
}

/// Returns the byte that two hexadecimal digits at the start stand for.
pub(super) fn hexadecimal(bytes: &[u8]) -> Option<u8> {
    let digits = std::str::from_utf8(bytes.first_chunk::<2>()?).ok()?;
    u8::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))
}

/// Returns the text after a line break that was added for the transfer, with the white space that
/// some programs add before it.
fn after_soft_break(bytes: &[u8]) -> Option<&[u8]> {
    let blanks = bytes.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let rest = &bytes[blanks..];
    rest.strip_prefix(b"\r\n").or_else(|| rest.strip_prefix(b"\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_are_decoded() {
        assert_eq!(
            quoted_printable(b"Gr=C3=BC=\r\n=C3=9Fe =3D 1=ZZ = \nx="),
            "Grüße = 1=ZZ x=".as_bytes()
        );
        assert_eq!(base64(b"R3LD\r\n vMOf ZQ=="), "Grüße".as_bytes());
        assert_eq!(base64(b"R3LDvMOfZ"), "Grüß".as_bytes());
        assert_eq!(&*decoded(" Base64 ", b"QQ"), b"A");
        assert_eq!(&*decoded("8bit", b"QQ"), b"QQ");
    }
}
