//! Finds and parses the tags of blocks.
//!
//! Every function here makes one pass over its input. An attribute value has no `<` (as in XML), so
//! an unclosed tag ends at the next one, and a text full of unclosed tags still costs one pass.

use std::borrow::Cow;

/// Finds the next `<mcp:` at or after `from`.
pub(crate) fn find_opening(text: &str, from: usize) -> Option<usize> {
    find::<4>(text.as_bytes(), from, b"<mcp:")
}

/// Finds the next `</mcp:` at or after `from`.
pub(crate) fn find_any_closing(text: &str, from: usize) -> Option<usize> {
    find::<5>(text.as_bytes(), from, b"</mcp:")
}

/// Finds the next `</mcp:NAME>` at or after `from`. Returns its start and its end. `name` is in
/// lower case.
pub(crate) fn find_closing(text: &str, mut from: usize, name: &str) -> Option<(usize, usize)> {
    while let Some(start) = find_any_closing(text, from) {
        from = start + b"</mcp:".len();
        let rest = &text.as_bytes()[from..];
        if let Some(found) = rest.get(..name.len())
            && found.eq_ignore_ascii_case(name.as_bytes())
        {
            let spaces =
                rest[name.len()..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            if rest.get(name.len() + spaces) == Some(&b'>') {
                return Some((start, from + name.len() + spaces + 1));
            }
        }
    }
    None
}

/// Finds `needle` (a `<`, letters in any case, a `:` at `GAP`) at or after `from`.
///
/// Text without blocks must cost next to nothing. Three bytes (`<`, the next one, and `:`) are
/// compared at 64 positions at a time, which compiles to vector instructions; the other letters are
/// compared only where these three match. With two bytes alone, `</a>:` would match, and such text
/// would cost twenty times as much.
fn find<const GAP: usize>(text: &[u8], from: usize, needle: &[u8]) -> Option<usize> {
    const LANES: usize = 64;
    /// The bit that tells lower from upper case; a `/` has it.
    const LOWER_CASE: u8 = 0x20;
    let mut at = from;
    while let (Some(first), Some(second), Some(last)) = (
        text.get(at..at + LANES),
        text.get(at + 1..at + 1 + LANES),
        text.get(at + GAP..at + GAP + LANES),
    ) {
        let mut any = 0;
        for lane in 0..LANES {
            any |= u8::from(first[lane] == b'<')
                & u8::from(second[lane] | LOWER_CASE == needle[1])
                & u8::from(last[lane] == b':');
        }
        if any != 0
            && let Some(found) = (at..at + LANES).find(|&place| is_at::<GAP>(text, place, needle))
        {
            return Some(found);
        }
        at += LANES;
    }
    (at..text.len().saturating_sub(GAP)).find(|&place| is_at::<GAP>(text, place, needle))
}

fn is_at<const GAP: usize>(text: &[u8], at: usize, needle: &[u8]) -> bool {
    text[at] == b'<'
        && text.get(at..=at + GAP).is_some_and(|found| found.eq_ignore_ascii_case(needle))
}

/// A start tag, `<mcp:NAME …>` or `<mcp:NAME …/>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StartTag<'a> {
    /// The text between `<mcp:` and the next white space, `/` or `>`.
    pub(crate) name: &'a str,
    /// The text between the name and the end of the tag.
    pub(crate) attributes: Attributes<'a>,
    /// The tag ends in `/>`.
    pub(crate) closed: bool,
    /// The first byte after the tag.
    pub(crate) end: usize,
}

impl<'a> StartTag<'a> {
    /// Parses the tag whose `<mcp:` begins at `start`; [`None`] if it does not end before the next
    /// tag begins.
    pub(crate) fn read(text: &'a str, start: usize) -> Option<Self> {
        let name_start = start + b"<mcp:".len();
        let name_length = text[name_start..]
            .bytes()
            .position(|byte| byte.is_ascii_whitespace() || matches!(byte, b'/' | b'>' | b'<'))?;
        let attributes_start = name_start + name_length;
        let mut rest = &text[attributes_start..];
        loop {
            match step(rest)? {
                Step::Attribute(_, after) => rest = after,
                Step::End { closed, length } => {
                    let attributes_end = text.len() - rest.len();
                    return Some(Self {
                        name: &text[name_start..attributes_start],
                        attributes: Attributes(&text[attributes_start..attributes_end]),
                        closed,
                        end: attributes_end + length,
                    });
                }
            }
        }
    }
}

/// The attributes of a tag, parsed on demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attributes<'a>(&'a str);

impl<'a> Attributes<'a> {
    /// Returns the value of the first attribute of this name (in any ASCII case), with entities
    /// replaced.
    pub(crate) fn get(self, name: &str) -> Option<Cow<'a, str>> {
        self.iter()
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| unescape(value))
    }

    /// Returns names and raw values in order.
    pub(crate) fn iter(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let Some(Step::Attribute(found, after)) = attribute(skip_separators(rest)) else {
                return None;
            };
            rest = after;
            Some(found)
        })
    }
}

enum Step<'a> {
    /// An attribute's name and raw value, and the rest of the text.
    Attribute((&'a str, &'a str), &'a str),
    /// The end of the tag: `>` or `/>`, with the white space before it.
    End { closed: bool, length: usize },
}

/// Parses the next attribute of a tag or its end; [`None`] if the tag is malformed.
fn step(text: &str) -> Option<Step<'_>> {
    let inner = skip_separators(text);
    let spaces = text.len() - inner.len();
    if inner.starts_with("/>") {
        return Some(Step::End { closed: true, length: spaces + 2 });
    }
    if inner.starts_with('>') {
        return Some(Step::End { closed: false, length: spaces + 1 });
    }
    attribute(inner)
}

/// Skips white space and stray slashes, which separate attributes as in HTML.
fn skip_separators(text: &str) -> &str {
    let bytes = text.as_bytes();
    let separators = bytes.iter().enumerate().take_while(|(at, byte)| {
        byte.is_ascii_whitespace() || (**byte == b'/' && bytes.get(at + 1) != Some(&b'>'))
    });
    &text[separators.count()..]
}

/// Parses the attribute at the start of the text.
fn attribute(text: &str) -> Option<Step<'_>> {
    let name_length = text
        .find(|at: char| {
            at.is_ascii_whitespace() || matches!(at, '=' | '/' | '>' | '<' | '"' | '\'')
        })
        .unwrap_or(text.len());
    if name_length == 0 {
        return None;
    }
    let (name, after_name) = text.split_at(name_length);
    let Some(value) = after_name.trim_ascii_start().strip_prefix('=') else {
        return Some(Step::Attribute((name, ""), after_name));
    };
    let value = value.trim_ascii_start();
    let quote = value.chars().next().filter(|first| matches!(first, '"' | '\''));
    let Some(quote) = quote else {
        let length = unquoted_length(value)?;
        return Some(Step::Attribute((name, &value[..length]), &value[length..]));
    };
    let value = &value[1..];
    let length = value.find([quote, '<'])?;
    let after = value[length..].strip_prefix(quote)?;
    Some(Step::Attribute((name, &value[..length]), after))
}

/// Returns the length of a value without quotes; [`None`] if it is empty or contains a character
/// that needs quotes.
fn unquoted_length(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let end = bytes.iter().enumerate().position(|(at, byte)| {
        byte.is_ascii_whitespace()
            || matches!(byte, b'>' | b'<' | b'"' | b'\'')
            || (*byte == b'/' && bytes.get(at + 1) == Some(&b'>'))
    });
    let length = end.unwrap_or(bytes.len());
    (length > 0 && !matches!(bytes.get(length), Some(b'<' | b'"' | b'\''))).then_some(length)
}

/// Replaces numeric entities and those of XML. Other text stays.
pub(crate) fn unescape(text: &str) -> Cow<'_, str> {
    let Some(first) = text.find('&') else { return Cow::Borrowed(text) };
    let mut plain = String::with_capacity(text.len());
    plain.push_str(&text[..first]);
    let mut rest = &text[first..];
    while let Some(at) = rest.find('&') {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some((character, length)) = entity(rest) {
            plain.push(character);
            rest = &rest[length..];
        } else {
            plain.push('&');
            rest = &rest[1..];
        }
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

/// Decodes the entity at the start of `text`. Returns its length as well.
fn entity(text: &str) -> Option<(char, usize)> {
    // `&#x10FFFF;` is the longest.
    let end = text.bytes().take(10).position(|byte| byte == b';')?;
    let name = &text[1..end];
    let character = match name {
        "lt" => '<',
        "gt" => '>',
        "amp" => '&',
        "quot" => '"',
        "apos" => '\'',
        _ => {
            let number = name.strip_prefix('#')?;
            let (digits, radix) = match number.strip_prefix(['x', 'X']) {
                Some(digits) => (digits, 16),
                None => (number, 10),
            };
            // `from_str_radix` would also read `+65`.
            if !digits.bytes().all(|byte| char::from(byte).is_digit(radix)) {
                return None;
            }
            char::from_u32(u32::from_str_radix(digits, radix).ok()?)?
        }
    };
    Some((character, end + 1))
}

/// Writes text with escapes, for an attribute or for HTML.
pub(crate) fn escape_into(text: &str, out: &mut String) {
    for character in text.chars() {
        match character {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // A parser would read a line break as one, but it breaks the line that people read.
            '\n' => out.push_str("&#10;"),
            '\r' => out.push_str("&#13;"),
            '\u{2028}' => out.push_str("&#x2028;"),
            '\u{2029}' => out.push_str("&#x2029;"),
            _ => out.push(character),
        }
    }
}

/// Writes ` name="value"`.
pub(crate) fn attribute_into(name: &str, value: &str, out: &mut String) {
    out.push(' ');
    out.push_str(name);
    out.push_str("=\"");
    escape_into(value, out);
    out.push('"');
}
