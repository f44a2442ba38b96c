//! Text strings of PDF (ISO 32000-2, 7.9.2.2).

use crate::decode::decode;

/// Returns a text string without NUL characters.
pub(super) fn text(bytes: &[u8]) -> String {
    // PDFDocEncoding differs from Windows-1252 only in rare characters; a byte order mark takes
    // precedence.
    let text = match bytes {
        // Short texts of UTF-16 look binary to the detection of encodings.
        [0xFE, 0xFF, units @ ..] => utf16(units, u16::from_be_bytes),
        [0xFF, 0xFE, units @ ..] => utf16(units, u16::from_le_bytes),
        _ => decode(bytes, Some("windows-1252")).into_text(),
    };
    text.replace('\0', "")
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> String {
    let units: Vec<u16> = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).collect();
    String::from_utf16_lossy(&units)
}
