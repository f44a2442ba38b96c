//! The chain of lines: their numbers and hashes.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Bytes that an event may have.
pub(crate) const MAX_EVENT_BYTES: usize = 256 << 10;

/// The SHA-256 of a line, without its end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LineHash(pub(crate) [u8; 32]);

impl LineHash {
    /// The hash in the first line of a log.
    pub(crate) const NONE: Self = Self([0; 32]);

    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Parses 64 hexadecimal digits in lower case.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return None;
        }
        let mut hash = [0; 32];
        for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Self(hash))
    }
}

fn digit(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

impl fmt::Display for LineHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; 64];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        f.write_str(str::from_utf8(&text).expect("digits are UTF-8"))
    }
}

impl fmt::Debug for LineHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The end of a chain, to which the next line is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChainEnd {
    /// The number of the last line; 0 before the first.
    pub(crate) seq: u64,
    /// The hash of the last line.
    pub(crate) hash: LineHash,
}

impl ChainEnd {
    /// The end of a chain without lines.
    pub(crate) const START: Self = Self { seq: 0, hash: LineHash::NONE };

    /// Adds a line to `lines`, with its end. `event` is a JSON object.
    pub(crate) fn add(&mut self, time: &str, event: &[u8], lines: &mut Vec<u8>) {
        let start = lines.len();
        let seq = self.seq.wrapping_add(1);
        let head = format!(r#"{{"seq":{seq},"prev":"{}","time":"{time}""#, self.hash);
        lines.extend_from_slice(head.as_bytes());
        match event.strip_prefix(b"{").unwrap_or(b"}") {
            b"}" => {}
            _ => lines.push(b','),
        }
        lines.extend_from_slice(event.strip_prefix(b"{").unwrap_or(b"}"));
        *self = Self { seq, hash: LineHash::of(&lines[start..]) };
        lines.push(b'\n');
    }
}

/// The beginning of a whole line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineHead {
    pub(crate) seq: u64,
    pub(crate) prev: LineHash,
}

impl LineHead {
    /// Parses the beginning of a line, and checks that the line is complete. It does not check that
    /// the rest is JSON.
    pub(crate) fn of(line: &[u8]) -> Option<Self> {
        let rest = line.strip_prefix(br#"{"seq":"#)?;
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (number, rest) = rest.split_at(digits);
        let number = str::from_utf8(number).ok()?;
        if number.starts_with('0') {
            return None;
        }
        let seq = number.parse().ok()?;
        let (prev, rest) = rest.strip_prefix(br#","prev":""#)?.split_at_checked(64)?;
        let prev = LineHash::from_hex(str::from_utf8(prev).ok()?)?;
        rest.strip_prefix(br#"","time":""#)?;
        is_one_object(line).then_some(Self { seq, prev })
    }
}

/// The beginning of an event that the log itself writes. Callers cannot write such events.
pub(crate) const OWN_EVENT: &[u8] = br#"{"event":"log_"#;

/// An event that the log itself writes. A struct, because `event` must be its first member.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct OwnEvent {
    pub(crate) event: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pid: Option<u32>,
    /// Bytes before this line that are no line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) torn_bytes: Option<u64>,
    /// Their hash.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) torn_sha256: Option<String>,
    /// Events that are missing, because the queue was full.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) dropped: Option<u64>,
    /// Events that are missing, because they could not be written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lost: Option<u64>,
    /// Why they could not be written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<String>,
}

impl OwnEvent {
    pub(crate) fn new(event: &str) -> Self {
        Self { event: event.to_owned(), ..Self::default() }
    }

    /// Returns the event of a whole line, if the log itself has written it.
    pub(crate) fn of_line(line: &[u8]) -> Option<Self> {
        const TIME: &[u8] = br#","time":""#;
        // The number has at most 20 digits, the hash 64.
        let time = line.windows(TIME.len()).take(128).position(|part| part == TIME)?;
        let rest = &line[time + TIME.len()..];
        let event = &rest[rest.iter().position(|byte| *byte == b'"')? + 1..];
        let is_own = event.strip_prefix(b",").is_some_and(|it| it.starts_with(&OWN_EVENT[1..]));
        if is_own { serde_json::from_slice(line).ok() } else { None }
    }
}

/// Returns whether the text opens one object that ends with the text. A part of a line never does.
/// It takes any depth, unlike a parser.
fn is_one_object(text: &[u8]) -> bool {
    let mut depth = 0_u32;
    let mut is_string = false;
    let mut is_escaped = false;
    for (at, byte) in text.iter().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_string => is_escaped = true,
            b'"' => is_string = !is_string,
            _ if is_string => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => match depth.checked_sub(1) {
                Some(0) => return at + 1 == text.len(),
                Some(less) => depth = less,
                None => return false,
            },
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(event: &str) -> String {
        let mut lines = Vec::new();
        let mut end = ChainEnd::START;
        end.add("T", event.as_bytes(), &mut lines);
        String::from_utf8(lines).unwrap()
    }

    #[test]
    fn a_line_is_an_object_with_number_and_hash_first() {
        let zeros = "0".repeat(64);
        assert_eq!(line("{}"), format!("{{\"seq\":1,\"prev\":\"{zeros}\",\"time\":\"T\"}}\n"));
        let want = format!("{{\"seq\":1,\"prev\":\"{zeros}\",\"time\":\"T\",\"a\":1}}\n");
        assert_eq!(line(r#"{"a":1}"#), want);
    }

    #[test]
    fn only_a_whole_line_has_a_head() {
        let text = line(r#"{"a":{"b":"}\"]","c":[1,{"d":"\\"}]}}"#);
        let line = text.trim_end().as_bytes();
        assert_eq!(LineHead::of(line), Some(LineHead { seq: 1, prev: LineHash::NONE }));
        for end in 0..line.len() {
            assert_eq!(LineHead::of(&line[..end]), None, "{end}");
        }
        for wrong in [" ", "}", "{}", "\0"] {
            assert_eq!(LineHead::of(format!("{}{wrong}", text.trim_end()).as_bytes()), None);
        }
        assert_eq!(LineHead::of(text.replace(":1,", ":01,").trim_end().as_bytes()), None);
    }

    #[test]
    fn hashes_are_those_of_sha256sum() {
        let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(LineHash::of(b"abc").to_string(), hash);
        assert_eq!(LineHash::from_hex(hash), Some(LineHash::of(b"abc")));
        for wrong in ["", "ab", &hash.to_uppercase(), &hash.replace('b', "g")] {
            assert_eq!(LineHash::from_hex(wrong), None);
        }
    }
}
