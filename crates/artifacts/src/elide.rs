//! Leaves out the middle of a JSON text, so that what is shown is JSON still.

use serde::de::IgnoredAny;

/// A JSON text whose middle is left out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Elided {
    pub(crate) shown: String,
    /// Bytes of the text before the gap.
    pub(crate) head: usize,
    /// Bytes of the text after the gap.
    pub(crate) tail: usize,
}

/// Leaves out the elements or members between the first `head` and the last `tail` bytes of a JSON
/// text, of the innermost array or object that has both places, or the middle of a string. An
/// element or a member in their place has their number.
///
/// Returns none if the text is not JSON, or if half of the beginning would not be shown.
pub(crate) fn without_middle(text: &str, head: usize, tail: usize) -> Option<Elided> {
    let is_json = text.trim_start().starts_with(['{', '[']) && head + tail < text.len();
    if !is_json || serde_json::from_str::<IgnoredAny>(text).is_err() {
        return None;
    }
    let Gap { start, end, mark } = find_gap(text.as_bytes(), head, text.len() - tail)?;
    if start < head / 2 {
        return None;
    }
    let shown = format!("{}{mark}{}", &text[..start], &text[end..]);
    Some(Elided { shown, head: start, tail: text.len() - end })
}

struct Gap {
    start: usize,
    end: usize,
    mark: String,
}

/// An array or object around a place of a text.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Container {
    start: usize,
    is_object: bool,
    /// Commas before the place, and the last one.
    commas: usize,
    last_comma: usize,
}

/// Finds the gap around the places `from` and `to` of a valid JSON text.
fn find_gap(text: &[u8], from: usize, to: usize) -> Option<Gap> {
    let mut scan = Scan { text, at: 0, containers: Vec::new(), string: None, plain: 0 };
    scan.advance(from);
    let head = scan.containers.clone();
    let head_string = scan.string.map(|string| (string, scan.plain));
    scan.advance(to);
    if let Some((string, start)) = head_string
        && scan.string == Some(string)
    {
        let end = scan.next_plain()?;
        let mark = format!("[… {} bytes are left out here …]", end.checked_sub(start)?);
        return Some(Gap { start, end, mark });
    }
    let pairs = head.iter().zip(&scan.containers).enumerate();
    let (depth, before) = pairs.take_while(|(_, (a, b))| a.start == b.start).last()?;
    let before = *before.0;
    // On to the next element of that container, or to its end.
    let (end, commas, is_last) = loop {
        let container = *scan.containers.get(depth)?;
        let is_here = scan.containers.len() == depth + 1 && scan.string.is_none();
        match text.get(scan.at)? {
            b',' if is_here => break (scan.at + 1, container.commas + 1, false),
            b']' | b'}' if is_here => break (scan.at, container.commas + 1, true),
            _ => scan.step(),
        }
    };
    let is_first = before.commas == 0;
    let count = commas - before.commas;
    let plural = if count == 1 { "" } else { "s" };
    let mark = if before.is_object {
        format!("\"…\":\"{count} more member{plural}\"")
    } else {
        format!("\"… {count} more item{plural} …\"")
    };
    let left = if is_first { "" } else { "," };
    let right = if is_last { "" } else { "," };
    let start = if is_first { before.start + 1 } else { before.last_comma };
    Some(Gap { start, end, mark: format!("{left}{mark}{right}") })
}

/// A place in a valid JSON text.
struct Scan<'a> {
    text: &'a [u8],
    at: usize,
    containers: Vec<Container>,
    /// Start of the string around the place.
    string: Option<usize>,
    /// The latest place in the string before a character that is not escaped.
    plain: usize,
}

impl Scan<'_> {
    fn advance(&mut self, to: usize) {
        while self.at < to {
            self.step();
        }
    }

    /// Moves behind the next byte, or behind the next escape in a string.
    fn step(&mut self) {
        let Some(&byte) = self.text.get(self.at) else {
            self.at += 1;
            return;
        };
        let start = self.at;
        self.at += 1;
        match (self.string, byte) {
            (Some(_), b'"') => self.string = None,
            (Some(_), b'\\') => {
                self.at += if self.text.get(self.at) == Some(&b'u') { 5 } else { 1 }
            }
            // Only the first byte of a character is a border.
            (Some(_), 0x80..=0xbf) => {}
            (Some(_), _) => self.plain = start,
            (None, b'"') => {
                self.string = Some(start);
                self.plain = self.at;
            }
            (None, b'[' | b'{') => {
                let is_object = byte == b'{';
                self.containers.push(Container { start, is_object, commas: 0, last_comma: 0 });
            }
            (None, b']' | b'}') => _ = self.containers.pop(),
            (None, b',') => {
                if let Some(container) = self.containers.last_mut() {
                    container.commas += 1;
                    container.last_comma = start;
                }
            }
            (None, _) => {}
        }
    }

    /// Returns the next place in the string before a character that is not escaped.
    fn next_plain(&mut self) -> Option<usize> {
        loop {
            match self.text.get(self.at)? {
                b'\\' | 0x80..=0xbf => self.step(),
                _ => return Some(self.at),
            }
        }
    }
}

#[cfg(test)]
#[path = "../tests/unit/elide.rs"]
mod tests;
