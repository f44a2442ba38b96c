//! Decodes bytes: detects the character encoding, and converts to UTF-8.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};

use crate::{ExtractError, Extracted, Problem};

/// Decoded text, and how it was decoded.
pub(crate) struct Decoded {
    pub(crate) text: String,
    encoding: &'static str,
    invalid: usize,
    /// Number of NULs in holes, which are removed.
    nuls: usize,
    /// Whether the encoding is a guess: there is no byte order mark and no declaration, and the
    /// bytes are not valid UTF-8.
    guessed: bool,
}

/// Number of bytes that are examined to decide whether a document is text.
const SAMPLE: usize = 64 << 10;
/// Number of invalid characters that still counts as damage, however short the text is.
const DAMAGE: usize = 40;

impl Decoded {
    /// Returns the text as a document, with its encoding and problems.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are not text.
    pub(crate) fn document(self) -> Result<Extracted, ExtractError> {
        if self.is_junk() {
            return Err(ExtractError::NoText);
        }
        Ok(self.into_extracted())
    }

    /// Returns the text, even if the bytes are hardly text.
    #[cfg(any(feature = "docx", feature = "pdf", feature = "spreadsheet"))]
    pub(crate) fn into_text(self) -> String {
        self.text
    }

    /// Returns whether the bytes are not text: more than a tenth of the characters are invalid, or
    /// the encoding is a guess and there are NULs.
    fn is_junk(&self) -> bool {
        let start = &self.text[..self.text.floor_char_boundary(SAMPLE)];
        if self.guessed && start.contains('\0') {
            return true;
        }
        let odd = start.chars().filter(|character| is_odd(*character)).count();
        odd > DAMAGE && odd * 10 > start.chars().count()
    }

    fn into_extracted(self) -> Extracted {
        let mut extracted = Extracted { content: self.text, wrapped: true, ..Extracted::default() };
        extracted.encoding = Some(self.encoding.to_owned());
        if self.nuls > 0 {
            extracted.problems.push(Problem::Nul { count: self.nuls });
        }
        if self.invalid > 0 {
            let encoding = self.encoding.to_owned();
            extracted.problems.push(Problem::InvalidBytes { count: self.invalid, encoding });
        }
        extracted
    }
}

/// Returns whether a character is invalid, or a control character other than white space and
/// escape.
fn is_odd(character: char) -> bool {
    let is_layout = matches!(character, '\t' | '\n' | '\r' | '\u{C}' | '\u{1B}' | '\u{85}');
    character == char::REPLACEMENT_CHARACTER || (character.is_control() && !is_layout)
}

/// Decodes bytes. The encoding comes from the byte order mark, else from the declaration, else from
/// detection.
pub(crate) fn decode(bytes: &[u8], declared: Option<&str>) -> Decoded {
    if let Some(decoded) = utf_32(bytes) {
        return decoded;
    }
    if let Some((encoding, length)) = Encoding::for_bom(bytes) {
        return with(encoding, &bytes[length..]);
    }
    let declared = declared.and_then(|label| Encoding::for_label(label.as_bytes()));
    match declared {
        // Programs often declare UTF-8 without checking.
        Some(encoding) if encoding != UTF_8 => with(encoding, bytes),
        _ => {
            let encoding = guess(bytes);
            let guessed = ![UTF_8, UTF_16LE, UTF_16BE].contains(&encoding);
            Decoded { guessed, ..with(encoding, bytes) }
        }
    }
}

/// Returns the encoding that a document declares in its first bytes: the value after a name and an
/// equals sign, as in `<meta charset="…">` and `<?xml … encoding="…"?>`.
pub(crate) fn declared_after<'a>(bytes: &'a [u8], name: &str, within: usize) -> Option<&'a str> {
    // A declaration that is readable in ASCII is in an encoding that extends ASCII.
    let start = &bytes[..bytes.len().min(within)];
    let start = start.utf8_chunks().next()?.valid();
    let value = start.match_indices(name).find_map(|(at, name)| {
        let rest = start[at + name.len()..].trim_start().strip_prefix('=')?.trim_start();
        let rest = rest.trim_start_matches(['"', '\'']);
        let mut names = rest.split(|character: char| {
            !(character.is_ascii_alphanumeric() || "-_:.".contains(character))
        });
        Some(names.next().unwrap_or(rest))
    })?;
    // A document with a declaration in ASCII is not in UTF-16 (HTML, "prescan a byte stream").
    Some(if value.to_ascii_lowercase().starts_with("utf-16") { "utf-8" } else { value })
}

/// Returns whether the bytes are not text: many of them are not characters in any encoding. Holes
/// of NULs say nothing, unless there is nothing else.
pub(crate) fn looks_binary(bytes: &[u8]) -> bool {
    if Encoding::for_bom(bytes).is_some() || utf_16(bytes).is_some() {
        return false;
    }
    let start = without_holes(bytes, 8192);
    has_many_controls(&start) || (start.is_empty() && !bytes.is_empty())
}

/// Returns whether the first bytes are not characters in any encoding. Archives and disk images
/// have holes as well as text, so holes count.
pub(crate) fn begins_binary(bytes: &[u8]) -> bool {
    let start = &bytes[..bytes.len().min(8192)];
    Encoding::for_bom(start).is_none() && utf_16(start).is_none() && has_many_controls(start)
}

fn has_many_controls(start: &[u8]) -> bool {
    let controls = start
        .iter()
        .filter(|byte| matches!(byte, 0..=7 | 0x0B | 0x0E..=0x1A | 0x1C..=0x1F | 0x7F))
        .count();
    controls * 20 > start.len()
}

/// Shortest run of NULs that is a hole in a text file: a part that was never written.
/// `logrotate` leaves one at the start of a log (`copytruncate`), a crash at its end.
const HOLE: usize = 32;

/// Returns the first bytes of a file, without holes. Each hole has an even length, so that units of
/// UTF-16 stay aligned.
fn without_holes(bytes: &[u8], max: usize) -> Vec<u8> {
    let mut start = Vec::new();
    let mut at = 0;
    while at < bytes.len() && start.len() < max {
        let nuls = bytes[at..].iter().take_while(|byte| **byte == 0).count();
        let hole = if nuls >= HOLE { nuls & !1 } else { 0 };
        at += hole;
        let rest = &bytes[at..];
        let length =
            rest.iter().skip(1).position(|byte| *byte == 0).map_or(rest.len(), |at| at + 1);
        start.extend_from_slice(&rest[..length.min(max - start.len())]);
        at += length;
    }
    start
}

/// Replaces each hole in a text by a line break; returns the number of removed NULs.
fn close_holes(text: &mut String) -> usize {
    let hole = "\0".repeat(HOLE);
    if !text.contains(&hole) {
        return 0;
    }
    let mut nuls = 0;
    let mut closed = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(start) = rest.find(&hole) {
        closed.push_str(&rest[..start]);
        let after = rest[start..].trim_start_matches('\0');
        nuls += rest.len() - start - after.len();
        if !closed.is_empty() && !after.is_empty() {
            closed.push('\n');
        }
        rest = after;
    }
    closed.push_str(rest);
    *text = closed;
    nuls
}

fn with(encoding: &'static Encoding, bytes: &[u8]) -> Decoded {
    let (text, has_invalid) = encoding.decode_without_bom_handling(bytes);
    let invalid = if has_invalid { text.matches('\u{FFFD}').count() } else { 0 };
    let mut text = text.into_owned();
    let nuls = close_holes(&mut text);
    Decoded { text, encoding: encoding.name(), invalid, nuls, guessed: false }
}

fn guess(bytes: &[u8]) -> &'static Encoding {
    if let Some(encoding) = utf_16(bytes) {
        return encoding;
    }
    let mut valid = 0;
    let mut invalid = 0;
    for chunk in bytes.utf8_chunks() {
        valid += chunk.valid().bytes().filter(|byte| *byte >= 0xC0).count();
        invalid += usize::from(!chunk.invalid().is_empty());
    }
    // Valid characters of several bytes do not occur by chance: this is damaged UTF-8.
    if invalid == 0 || valid > 2 * invalid {
        return UTF_8;
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Allow);
    detector.feed(bytes, true);
    detector.guess(None, Utf8Detection::Deny)
}

/// Detects UTF-16 without a byte order mark by the positions of NUL bytes, which most characters
/// contain.
fn utf_16(bytes: &[u8]) -> Option<&'static Encoding> {
    let start = without_holes(bytes, 4096);
    let even = nuls_from(&start, 0);
    let odd = nuls_from(&start, 1);
    let pairs = start.len() / 2;
    if pairs < 4 {
        return None;
    }
    let many = pairs / 3;
    let few = pairs / 20;
    match (even, odd) {
        _ if odd > many && even <= few => Some(UTF_16LE),
        _ if even > many && odd <= few => Some(UTF_16BE),
        _ => None,
    }
}

/// Returns the number of NULs in every second byte from this one on.
fn nuls_from(bytes: &[u8], first: usize) -> usize {
    bytes.iter().skip(first).step_by(2).filter(|byte| **byte == 0).count()
}

/// Decodes UTF-32 with a byte order mark, which the Encoding Standard does not include.
fn utf_32(bytes: &[u8]) -> Option<Decoded> {
    let (encoding, number): (_, fn([u8; 4]) -> u32) = match bytes {
        [0xFF, 0xFE, 0, 0, ..] if bytes.len().is_multiple_of(4) => ("UTF-32LE", u32::from_le_bytes),
        [0, 0, 0xFE, 0xFF, ..] => ("UTF-32BE", u32::from_be_bytes),
        _ => return None,
    };
    let mut invalid = 0;
    let (units, rest) = bytes[4..].as_chunks::<4>();
    let mut text: String = units
        .iter()
        .map(|unit| {
            char::from_u32(number(*unit)).unwrap_or_else(|| {
                invalid += 1;
                char::REPLACEMENT_CHARACTER
            })
        })
        .collect();
    if !rest.is_empty() {
        invalid += 1;
        text.push(char::REPLACEMENT_CHARACTER);
    }
    let nuls = close_holes(&mut text);
    Some(Decoded { text, encoding, invalid, nuls, guessed: false })
}

#[cfg(test)]
mod tests {
    use super::{ExtractError, HOLE, Problem, decode, looks_binary};

    #[track_caller]
    fn check(bytes: &[u8], declared: Option<&str>, encoding: &str, text: &str) {
        let decoded = decode(bytes, declared);
        assert_eq!((decoded.encoding, decoded.text.as_str()), (encoding, text));
    }

    fn units(text: &str, unit: impl Fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(unit).collect()
    }

    #[test]
    fn encodings_are_found() {
        let text = "Grüße aus Köln, schöne Straße";
        check(text.as_bytes(), None, "UTF-8", text);
        check(&[b"\xEF\xBB\xBF", text.as_bytes()].concat(), Some("ascii"), "UTF-8", text);
        check(&units(text, u16::to_le_bytes), None, "UTF-16LE", text);
        check(&units(text, u16::to_be_bytes), None, "UTF-16BE", text);
        check(&units(&format!("\u{FEFF}{text}"), u16::to_be_bytes), None, "UTF-16BE", text);
        let western = encoding_rs::WINDOWS_1252.encode(text).0;
        check(&western, None, "windows-1252", text);
        check(&western, Some("utf-8"), "windows-1252", text);
        check(b"\xCF\xF0\xE8\xE2\xE5\xF2", Some("windows-1251"), "windows-1251", "Привет");
        let japanese = "日本語のテキストを書きます。";
        check(&encoding_rs::SHIFT_JIS.encode(japanese).0, None, "Shift_JIS", japanese);
        check(&encoding_rs::EUC_JP.encode(japanese).0, None, "EUC-JP", japanese);
        check(b"\xFF\xFE\0\0A\0\0\0\x00\xF6\x01\0", None, "UTF-32LE", "A\u{1F600}");
        check(b"\0\0\xFE\xFF\0\0\0A\0", None, "UTF-32BE", "A\u{FFFD}");
        check(b"", None, "UTF-8", "");
    }

    #[test]
    fn damaged_utf_8_stays_utf_8() {
        let decoded = decode(
            "Grüße aus Köln und \u{1F600} für\u{E4}".as_bytes().split_last().unwrap().1,
            None,
        );
        assert_eq!((decoded.encoding, decoded.invalid), ("UTF-8", 1));
        assert!(decoded.text.ends_with("für\u{FFFD}"));
    }

    #[test]
    fn junk_is_no_document() {
        // A linear congruential generator, so that each run uses the same bytes.
        let mut random = 1_u64;
        for length in [2_000, 5_000, 20_000, 200_000] {
            let junk: Vec<u8> = (0..length)
                .map(|_| {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (random >> 40) as u8
                })
                .collect();
            assert_eq!(decode(&junk, None).document(), Err(ExtractError::NoText), "{length}");
            let declared = decode(&junk, Some("utf-8")).document();
            assert_eq!(declared, Err(ExtractError::NoText), "{length}");
        }
        // With zeros, as in records of a database.
        assert!(decode(&b"id\x01\xe9\0\0name\0".repeat(50), None).document().is_err());
        // A log with an unwritten end, a log with colours, and damaged text.
        let log =
            ["A line of a log, with nothing else.\n".repeat(400), "\0".repeat(1_000)].concat();
        assert!(decode(log.as_bytes(), None).document().is_ok());
        let colours = "\u{1b}[1mx\u{1b}[0m".repeat(100);
        assert!(decode(colours.as_bytes(), None).document().is_ok());
        assert!(decode(b"\xC3\x28 \xF0\x9F", None).document().is_ok());
        for text in ["Größe", "日本語のテキスト"] {
            assert!(decode(&units(text, u16::to_le_bytes), Some("utf-16le")).document().is_ok());
        }
    }

    #[test]
    fn binaries_are_distinguished_from_text() {
        assert!(looks_binary(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0"));
        assert!(!looks_binary(b"\x1b[1mbold\x1b[0m text\r\n\x0cnext page"));
        assert!(!looks_binary(&units("plain", u16::to_le_bytes)));
        assert!(!looks_binary(b""));
        assert!(looks_binary(&[0; 100_000]));
    }

    #[test]
    fn holes_in_text_are_closed() {
        let line = "2026-01-01 ERROR disk full: Größe\n";
        for hole in [HOLE, 333, 70_000] {
            let nuls = "\0".repeat(hole);
            for (text, expected) in [
                (format!("{nuls}{line}"), line.to_owned()),
                (format!("{line}{nuls}"), line.to_owned()),
                (format!("{line}{nuls}{line}"), format!("{line}\n{line}")),
            ] {
                for bytes in [
                    text.as_bytes().to_vec(),
                    units(&text, u16::to_le_bytes),
                    units(&text, u16::to_be_bytes),
                    encoding_rs::WINDOWS_1252.encode(&text).0.into_owned(),
                ] {
                    assert!(!looks_binary(&bytes));
                    let document = decode(&bytes, None).document().unwrap();
                    assert_eq!(document.content, expected, "{hole} {:?}", document.encoding);
                    assert!(document.problems.contains(&Problem::Nul { count: hole }));
                }
            }
        }
    }
}
