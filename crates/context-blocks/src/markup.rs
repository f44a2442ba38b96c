//! The little markup that blocks are written in: where a tag begins, where it ends, what its attributes are.
//!
//! Everything here goes through its input once: an attribute value holds no `<` (as in XML), so that a tag that is
//! never closed is given up at the next one, and a text full of them still costs one pass.

use std::borrow::Cow;

/// Where the next `<mcp:` begins, at `from` or after it.
pub(crate) fn find_opening(text: &str, from: usize) -> Option<usize> {
    find::<4>(text.as_bytes(), from, b"<mcp:")
}

/// Where the next `</mcp:` begins, at `from` or after it.
pub(crate) fn find_any_closing(text: &str, from: usize) -> Option<usize> {
    find::<5>(text.as_bytes(), from, b"</mcp:")
}

/// Where the next `</mcp:NAME>` is, at `from` or after it: its start and its end. `name` is lower-case.
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

/// Where `needle` (a `<`, letters in any case, a `:` at `GAP`) occurs at `from` or after it.
///
/// Text without any block must cost next to nothing. The two bytes that have no case and the one after the `<` are
/// compared for 64 places at a time, which the compiler turns into vector instructions; only where they fit are the
/// letters between looked at. Without the third, `</a>:` would fit, and such text would cost twenty times as much.
fn find<const GAP: usize>(text: &[u8], from: usize, needle: &[u8]) -> Option<usize> {
    const LANES: usize = 64;
    let is_here = |at: usize| {
        text[at] == b'<'
            && text.get(at..=at + GAP).is_some_and(|found| found.eq_ignore_ascii_case(needle))
    };
    let mut at = from;
    // Sets the bit by which small letters differ from large ones; a `/` has it.
    let lower = |byte: u8| byte | 0x20;
    while let (Some(first), Some(second), Some(last)) = (
        text.get(at..at + LANES),
        text.get(at + 1..at + 1 + LANES),
        text.get(at + GAP..at + GAP + LANES),
    ) {
        let mut any = 0;
        for lane in 0..LANES {
            any |= u8::from(first[lane] == b'<')
                & u8::from(lower(second[lane]) == needle[1])
                & u8::from(last[lane] == b':');
        }
        if any != 0
            && let Some(found) = (at..at + LANES).find(|&place| is_here(place))
        {
            return Some(found);
        }
        at += LANES;
    }
    (at..text.len().saturating_sub(GAP)).find(|&place| is_here(place))
}

/// A start tag, `<mcp:NAME …>` or `<mcp:NAME …/>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StartTag<'a> {
    /// What stands between `<mcp:` and the white space, `/` or `>` after it.
    pub(crate) name: &'a str,
    /// What stands between the name and the end of the tag.
    pub(crate) attributes: Attributes<'a>,
    /// Whether it ends in `/>`.
    pub(crate) closed: bool,
    /// The first byte after the tag.
    pub(crate) end: usize,
}

impl<'a> StartTag<'a> {
    /// Reads the tag whose `<mcp:` begins at `start`; [`None`] if it never ends, or not before another tag begins.
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

/// The attributes of a tag, read as far as they are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attributes<'a>(&'a str);

impl<'a> Attributes<'a> {
    /// The value of the first attribute of this name (in any ASCII case), with entities replaced.
    pub(crate) fn get(self, name: &str) -> Option<Cow<'a, str>> {
        self.iter()
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| unescape(value))
    }

    /// Names and raw values, in order.
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
    /// An attribute's name and raw value, and what follows it.
    Attribute((&'a str, &'a str), &'a str),
    /// The tag ends: `>` or `/>`, with white space before it.
    End { closed: bool, length: usize },
}

/// The next attribute of a tag or its end; [`None`] if it is no tag.
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

/// What follows white space and stray slashes, which separate attributes as in HTML.
fn skip_separators(text: &str) -> &str {
    let is_separator = |(at, byte): (usize, u8)| {
        byte.is_ascii_whitespace() || (byte == b'/' && text.as_bytes().get(at + 1) != Some(&b'>'))
    };
    let separators = text.bytes().enumerate().take_while(|&place| is_separator(place)).count();
    &text[separators..]
}

/// The attribute that the text begins with.
fn attribute(text: &str) -> Option<Step<'_>> {
    let ends_name =
        |at: char| at.is_ascii_whitespace() || matches!(at, '=' | '/' | '>' | '<' | '"' | '\'');
    let name_length = text.find(ends_name).unwrap_or(text.len());
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

/// How long a value without quotes is; [`None`] if it holds what only a quoted one may.
fn unquoted_length(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let ends = |(at, byte): (usize, &u8)| {
        byte.is_ascii_whitespace()
            || matches!(byte, b'>' | b'<' | b'"' | b'\'')
            || (*byte == b'/' && bytes.get(at + 1) == Some(&b'>'))
    };
    let length =
        bytes.iter().enumerate().position(|(at, byte)| ends((at, byte))).unwrap_or(bytes.len());
    (length > 0 && !matches!(bytes.get(length), Some(b'<' | b'"' | b'\''))).then_some(length)
}

/// The text with the entities of XML and numeric ones replaced; what is no entity stays.
pub(crate) fn unescape(text: &str) -> Cow<'_, str> {
    let Some(first) = text.find('&') else { return Cow::Borrowed(text) };
    let mut plain = String::with_capacity(text.len());
    plain.push_str(&text[..first]);
    let mut rest = &text[first..];
    while let Some(at) = rest.find('&') {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        match entity(rest) {
            Some((character, length)) => {
                plain.push(character);
                rest = &rest[length..];
            }
            None => {
                plain.push('&');
                rest = &rest[1..];
            }
        }
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

/// The character that the entity at the start of `text` stands for, and the entity's length.
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
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16),
                None => number.parse(),
            };
            char::from_u32(code.ok()?)?
        }
    };
    Some((character, end + 1))
}

/// Writes text so that it can stand in an attribute or in HTML.
pub(crate) fn escape_into(text: &str, out: &mut String) {
    for character in text.chars() {
        match character {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // A line break in an attribute would come back as one, but breaks the line that a person reads.
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
