//! Decodes filters around compressed data, and computes the length of LZW data.

use std::borrow::Cow;

/// Returns the data without encodings as text around it (ISO 32000-2, 7.4.2 and 7.4.3). Data that
/// looks encoded is decoded, so call this only for data that may be encoded.
pub(super) fn without_text_encodings(data: &[u8]) -> Cow<'_, [u8]> {
    const MAX_LAYERS: usize = 4;
    let mut data = Cow::Borrowed(data);
    for _ in 0..MAX_LAYERS {
        let Some(inner) = hexadecimal(&data).or_else(|| base_85(&data)) else { break };
        data = Cow::Owned(inner);
    }
    data
}

/// Returns whether the start of the data consists of such bytes, ignoring white space.
fn is_made_of(data: &[u8], is_digit: fn(u8) -> bool) -> bool {
    const ENOUGH: usize = 64;
    let mut bytes = data.iter().filter(|byte| !byte.is_ascii_whitespace()).take(ENOUGH).peekable();
    bytes.peek().is_some()
        && bytes.all(|byte| is_digit(*byte) || matches!(byte, b'<' | b'~' | b'>'))
}

fn hexadecimal(data: &[u8]) -> Option<Vec<u8>> {
    if !is_made_of(data, |byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let digits = data
        .iter()
        .take_while(|byte| **byte != b'>')
        .filter_map(|byte| (*byte as char).to_digit(16));
    let digits: Vec<u32> = digits.collect();
    Some(digits.chunks(2).map(|pair| (pair[0] * 16 + pair.get(1).unwrap_or(&0)) as u8).collect())
}

fn base_85(data: &[u8]) -> Option<Vec<u8>> {
    if !is_made_of(data, |byte| matches!(byte, b'!'..=b'u' | b'z')) {
        return None;
    }
    let data = data.trim_ascii_start();
    let data = data.strip_prefix(b"<~").unwrap_or(data);
    let mut decoded = Vec::new();
    let mut group = 0_u32;
    let mut length = 0;
    for byte in data {
        match byte {
            b'z' if length == 0 => decoded.extend([0; 4]),
            b'!'..=b'u' => {
                group = group.wrapping_mul(85).wrapping_add(u32::from(byte - b'!'));
                length += 1;
            }
            b'~' => break,
            _ => {}
        }
        if length == 5 {
            decoded.extend(group.to_be_bytes());
            group = 0;
            length = 0;
        }
    }
    if length > 1 {
        for _ in length..5 {
            group = group.wrapping_mul(85).wrapping_add(84);
        }
        decoded.extend(&group.to_be_bytes()[..length - 1]);
    }
    Some(decoded)
}

/// Returns the number of bytes that LZW data unpacks to, up to slightly more than `allowed` (ISO
/// 32000-2, 7.4.4), and the number of bytes read. Other data soon has an impossible code, which
/// ends the count.
pub(super) fn lzw_length(data: &[u8], allowed: u64) -> (u64, usize) {
    let early = lzw_length_if(data, allowed, 1);
    let late = lzw_length_if(data, allowed, 0);
    (early.0.max(late.0), early.1 + late.1)
}

/// Counts for one variant of LZW; `early` is the number of codes by which the code length grows
/// earlier.
fn lzw_length_if(data: &[u8], allowed: u64, early: usize) -> (u64, usize) {
    const CLEAR: usize = 256;
    const END: usize = 257;
    const FIRST: usize = 258;
    let mut lengths: Vec<u64> = Vec::new();
    let mut last: Option<u64> = None;
    let mut bits = 0_usize;
    let mut held = 0;
    let mut total = 0;
    let mut bytes = data.iter();
    while total <= allowed {
        let width = match FIRST + lengths.len() + early {
            ..512 => 9,
            512..1024 => 10,
            1024..2048 => 11,
            _ => 12,
        };
        while held < width {
            let Some(byte) = bytes.next() else { return (total, data.len()) };
            bits = (bits << 8 | usize::from(*byte)) & 0xFF_FFFF;
            held += 8;
        }
        held -= width;
        let code = bits >> held & ((1 << width) - 1);
        let length = match code {
            CLEAR => {
                lengths.clear();
                last = None;
                continue;
            }
            END => return (total, data.len() - bytes.len()),
            0..CLEAR => 1,
            _ => match (lengths.get(code - FIRST), last) {
                (Some(length), _) => *length,
                (None, Some(last)) if code - FIRST == lengths.len() => last + 1,
                _ => return (total, data.len() - bytes.len()),
            },
        };
        if let Some(last) = last
            && FIRST + lengths.len() < 4096
        {
            lengths.push(last + 1);
        }
        last = Some(length);
        total += length;
    }
    (total, data.len() - bytes.len())
}

#[cfg(test)]
mod tests {
    use super::{lzw_length, without_text_encodings};

    #[test]
    fn text_encodings_are_turned_back() {
        assert_eq!(*without_text_encodings(b"Gand9!rr~>"), *b"x\x9C\x01\x02\x03\0");
        assert_eq!(*without_text_encodings(b"48 65 6C6c 6F F>"), *b"Hello\xF0");
        assert_eq!(*without_text_encodings(b"78 9c>"), *b"\x78\x9C");
        assert_eq!(*without_text_encodings(b"\x78\x9C"), *b"\x78\x9C");
        assert_eq!(*without_text_encodings(b""), *b"");
    }

    #[test]
    fn lzw_is_counted() {
        // The example of the standard: 45 45 45 45 45 65 45 45 45 66.
        let example = [0x80, 0x0B, 0x60, 0x50, 0x22, 0x0C, 0x0C, 0x85, 0x01];
        assert_eq!(lzw_length(&example, 100).0, 10);
        // One letter, and then repeatedly the code that is being defined: each string is longer
        // than the previous one.
        let mut bits = format!("{:09b}{:09b}", 256, 65);
        for code in 258..4096_usize {
            let width = match code + 1 {
                ..512 => 9,
                512..1024 => 10,
                1024..2048 => 11,
                _ => 12,
            };
            bits += &format!("{code:0width$b}");
        }
        let bytes: Vec<u8> = bits
            .as_bytes()
            .chunks(8)
            .filter(|byte| byte.len() == 8)
            .map(|byte| u8::from_str_radix(std::str::from_utf8(byte).unwrap(), 2).unwrap())
            .collect();
        assert!(bytes.len() < 6000 && lzw_length(&bytes, 1 << 30).0 > 7_000_000);
        assert!(lzw_length(&bytes, 1000).0 < 10_000);
        assert!(lzw_length(&[0xFF; 1000], 1 << 30).0 < 1000);
    }
}
