//! Measures the size of an answer.

use crate::settings::SizeMeasure;

/// Measures valid JSON text in bytes, without allocation.
pub(crate) fn size(json: &str, measure: SizeMeasure) -> u64 {
    let bytes = json.as_bytes();
    let mut size = 0;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => {}
            b'"' => {
                let (inside, end) = string(json, at, measure);
                size += inside + 2;
                at = end;
            }
            b',' | b':' if measure == SizeMeasure::SamCompatible => size += 2,
            _ => size += 1,
        }
    }
    size
}

/// Measures the string whose content begins at `at`. Returns the position after the string as well.
fn string(json: &str, mut at: usize, measure: SizeMeasure) -> (u64, usize) {
    let bytes = json.as_bytes();
    let mut size = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => return (size, at + 1),
            b'\\' => {
                let (unit, end) = escape(json, at);
                // Half a surrogate pair has no length in UTF-8: the four bytes of a pair are
                // counted at its low half.
                let low = match unit {
                    Some(0xd800..=0xdbff) => escape(json, end),
                    _ => (None, end),
                };
                (size, at) = match low {
                    (Some(0xdc00..=0xdfff), end) => (size + pair(measure), end),
                    _ => (size + unit.map_or(2, |unit| escaped(unit, measure)), end),
                };
            }
            0x7f.. if measure == SizeMeasure::SamCompatible => {
                let char = json.get(at..).and_then(|rest| rest.chars().next()).unwrap_or('\u{7f}');
                size += 6 * char.len_utf16() as u64;
                at += char.len_utf8();
            }
            _ => {
                size += 1;
                at += 1;
            }
        }
    }
    (size, bytes.len())
}

/// Parses the escape sequence at `at`. Returns the code unit of `\uXXXX` or `\/`, none for other
/// short ones, and its end.
fn escape(json: &str, at: usize) -> (Option<u16>, usize) {
    match json.as_bytes().get(at..at + 2) {
        Some(b"\\u") => {
            let unit =
                json.get(at + 2..at + 6).and_then(|digits| u16::from_str_radix(digits, 16).ok());
            (unit, (at + 6).min(json.len()))
        }
        Some(b"\\/") => (Some(u16::from(b'/')), at + 2),
        _ => (None, (at + 2).min(json.len())),
    }
}

fn escaped(unit: u16, measure: SizeMeasure) -> u64 {
    match unit {
        0x08 | 0x09 | 0x0a | 0x0c | 0x0d | 0x22 | 0x5c => 2,
        0x00..=0x1f => 6,
        0x20..=0x7e => 1,
        _ if measure == SizeMeasure::SamCompatible => 6,
        0x7f => 1,
        0x80..=0x7ff => 2,
        0x800.. => 3,
    }
}

fn pair(measure: SizeMeasure) -> u64 {
    match measure {
        SizeMeasure::Compact => 4,
        SizeMeasure::SamCompatible => 12,
    }
}

#[cfg(test)]
#[path = "../tests/unit/measure.rs"]
mod tests;
