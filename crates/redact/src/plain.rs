//! The plain form of a text, which is the same for all of its encodings.

/// A text without percent-encoding and without the escapes of JSON, however often it was encoded.
/// It knows where its bytes are in the original.
///
/// It may differ from what was encoded: all backslashes are left out, and a `+` is a space. A
/// secret is searched for in its own plain form, which differs in the same way.
pub(crate) struct Plain {
    pub(crate) text: Vec<u8>,
    decoded: OffsetMap,
    unescaped: OffsetMap,
}

impl Plain {
    pub(crate) fn of(original: &[u8]) -> Self {
        let (text, decoded) = percent_decoded(original);
        let (text, unescaped) = unescaped(&text);
        Self { text, decoded, unescaped }
    }

    /// Returns the place in the original.
    pub(crate) fn original(&self, at: usize) -> usize {
        self.decoded.before(self.unescaped.before(at))
    }
}

/// The map of a changed text in the text before: after each change, the place in both. Up to the
/// next change, both texts are the same.
#[derive(Default)]
struct OffsetMap(Vec<(usize, usize)>);

impl OffsetMap {
    fn before(&self, at: usize) -> usize {
        let changes = self.0.partition_point(|(here, _)| *here <= at);
        let (here, before) = changes.checked_sub(1).map_or((0, 0), |last| self.0[last]);
        before + (at - here)
    }
}

/// Decodes `%41`, also `%2541`, which was encoded twice.
fn percent_decoded(text: &[u8]) -> (Vec<u8>, OffsetMap) {
    let mut decoded = Vec::with_capacity(text.len());
    let mut map = OffsetMap::default();
    for (at, byte) in text.iter().enumerate() {
        decoded.push(*byte);
        // A decoded byte may end another code.
        while let Some([b'%', high, low]) = decoded.last_chunk::<3>()
            && let (Some(high), Some(low)) = (digit(*high), digit(*low))
        {
            decoded.truncate(decoded.len() - 3);
            // Changes within the code are a part of this one.
            while map.0.last().is_some_and(|(here, _)| *here > decoded.len()) {
                map.0.pop();
            }
            decoded.push(high << 4 | low);
            map.0.push((decoded.len(), at + 1));
        }
    }
    (decoded, map)
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Decodes the escapes of JSON. A text that was escaped several times has several backslashes.
fn unescaped(text: &[u8]) -> (Vec<u8>, OffsetMap) {
    let mut plain = Vec::with_capacity(text.len());
    let mut map = OffsetMap::default();
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        if *byte != b'\\' {
            plain.push(spaced(*byte));
            at += 1;
            continue;
        }
        at += backslashes(&text[at..]);
        let control = match text.get(at) {
            Some(b'n') => Some(b'\n'),
            Some(b'r') => Some(b'\r'),
            Some(b't') => Some(b'\t'),
            Some(b'b') => Some(8),
            Some(b'f') => Some(12),
            _ => None,
        };
        if let Some(control) = control {
            plain.push(control);
            at += 1;
        } else if let Some((one, length)) = unicode(&text[at..]) {
            match one {
                '\\' => {}
                '+' => plain.push(b' '),
                one => plain.extend_from_slice(one.encode_utf8(&mut [0; 4]).as_bytes()),
            }
            at += length;
        } else if let Some(byte) = text.get(at) {
            plain.push(spaced(*byte));
            at += 1;
        }
        map.0.push((plain.len(), at));
    }
    (plain, map)
}

/// Forms send spaces as `+`.
fn spaced(byte: u8) -> u8 {
    if byte == b'+' { b' ' } else { byte }
}

fn backslashes(text: &[u8]) -> usize {
    text.iter().take_while(|byte| **byte == b'\\').count()
}

/// Returns the character of `u00e4`, or of `ud83d\ude00`, and the length of its escape.
fn unicode(text: &[u8]) -> Option<(char, usize)> {
    let first = utf16_unit(text)?;
    let between = backslashes(&text[5..]);
    let second = text.get(5 + between..).filter(|_| between > 0).and_then(utf16_unit);
    let pair = char::decode_utf16(std::iter::once(first).chain(second)).next()?.ok()?;
    Some((pair, if pair.len_utf16() == 2 { 10 + between } else { 5 }))
}

/// Returns the unit of `u00e4`.
fn utf16_unit(text: &[u8]) -> Option<u16> {
    let digits = std::str::from_utf8(text.strip_prefix(b"u")?.get(..4)?).ok()?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: &str) {
        assert_eq!(String::from_utf8_lossy(&Plain::of(text.as_bytes()).text), want, "{text}");
    }

    #[test]
    fn encodings_of_a_text_have_one_plain_form() {
        for text in [
            "a\"b\nä😀",
            r#"a\"b\nä😀"#,
            r#"a\\\"b\\nä😀"#,
            r"a\u0022b\u000A\u00e4\ud83d\ude00",
            r"a\\u0022b\\n\\u00E4\\ud83d\\ude00",
            "a%22b%0A%c3%a4%F0%9F%98%80",
            "a%2522b%250a%25C3%25A4😀",
            "%61%5C%22b%5cn%C3%A4😀",
        ] {
            check(text, "a\"b\nä😀");
        }
        check("a+b%2Bc%20d", "a b c d");
        check(r"100% \u00g5 \ud83d \", "100% u00g5 ud83d ");
        check("%25%35C", "");
    }

    #[test]
    fn offsets_refer_to_the_original() {
        let text = r"ab%2541c\\\u00e4d";
        let plain = Plain::of(text.as_bytes());
        assert_eq!(plain.text, "abAcäd".as_bytes());
        let offsets: Vec<usize> = [0, 2, 3, 4, 6, 7].map(|at| plain.original(at)).to_vec();
        assert_eq!(offsets, [0, 2, 7, 8, 16, 17]);
    }
}
