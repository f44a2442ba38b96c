//! Header fields (RFC 5322, 2.2), their encoded words (RFC 2047) and parameters (RFC 2231), and the
//! separators of messages in a mailbox (RFC 4155).

use std::borrow::Cow;

use super::transfer;
use crate::decode::decode;

/// The header fields of a message or part.
pub(super) struct Headers {
    /// The fields with their names in lower case, and with their lines joined.
    fields: Vec<(String, String)>,
}

/// Maximum bytes of the header fields of one message.
const MAX_BYTES: usize = 256 << 10;

impl Headers {
    /// Splits a message or part into its header fields and its body. A message that does not begin
    /// with a field has only a body.
    pub(super) fn split(bytes: &[u8]) -> (Self, &[u8]) {
        let mut headers = Self { fields: Vec::new() };
        let mut rest = bytes;
        while bytes.len() - rest.len() < MAX_BYTES {
            let line = first_line(rest);
            let after = rest.get(line.len() + 1..).unwrap_or_default();
            let line = line.trim_ascii_end();
            if line.is_empty() {
                return (headers, after);
            }
            if !headers.add(line) {
                break;
            }
            rest = after;
        }
        (headers, rest)
    }

    /// Adds a line; returns whether it belongs to the header fields.
    fn add(&mut self, line: &[u8]) -> bool {
        let text = decode(line, None).text;
        if line.starts_with(b" ") || line.starts_with(b"\t") {
            let Some((_, value)) = self.fields.last_mut() else { return false };
            value.push(' ');
            value.push_str(text.trim());
            return true;
        }
        let Some((name, value)) = text.split_once(':') else { return false };
        let name = name.trim_end();
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
            return false;
        }
        self.fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        true
    }

    /// Returns whether these are the fields of a message, which is sure only if a mail program
    /// wrote some of them.
    pub(super) fn is_message(&self) -> bool {
        self.has_any(&["mime-version", "message-id", "received", "return-path"])
            && self.has_any(&["from", "subject", "content-type"])
    }

    fn has_any(&self, names: &[&str]) -> bool {
        self.fields.iter().any(|(field, _)| names.contains(&field.as_str()))
    }

    /// Returns the value of a field as it was written.
    pub(super) fn raw(&self, name: &str) -> &str {
        let field = self.fields.iter().find(|(field, _)| field == name);
        field.map(|(_, value)| value.as_str()).unwrap_or_default()
    }

    /// Returns the value of a field for people.
    pub(super) fn text(&self, name: &str) -> String {
        with_words(self.raw(name)).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Returns the media type of a part, in lower case; `text/plain` if none is declared.
    pub(super) fn media_type(&self) -> String {
        let value = self.raw("content-type").split(';').next().unwrap_or_default().trim();
        if value.contains('/') { value.to_ascii_lowercase() } else { "text/plain".to_owned() }
    }

    /// Returns a parameter of a field.
    pub(super) fn parameter(&self, field: &str, name: &str) -> Option<String> {
        let parameters = parameters(self.raw(field));
        let plain = parameters.iter().find(|(found, _)| found == name);
        if let Some((_, value)) = plain {
            return Some(with_words(value));
        }
        // The pieces of a long value, and a value with its encoding: `name*0*=utf-8''…`.
        let mut pieces: Vec<(usize, bool, &str)> = parameters
            .iter()
            .filter_map(|(found, value)| {
                let rest = found.strip_prefix(name)?.strip_prefix('*')?;
                let number = rest.trim_end_matches('*');
                let is_encoded = rest.is_empty() || rest.ends_with('*');
                Some((number.parse().unwrap_or_default(), is_encoded, value.as_str()))
            })
            .collect();
        pieces.sort_by_key(|(number, ..)| *number);
        pieces.first()?;
        let mut charset = "";
        let mut bytes = Vec::new();
        for (number, is_encoded, value) in &pieces {
            let value = match value.splitn(3, '\'').collect::<Vec<_>>()[..] {
                [declared, _, value] if *number == 0 && *is_encoded => {
                    charset = declared;
                    value
                }
                _ => value,
            };
            bytes.extend(if *is_encoded { percent_decoded(value) } else { value.into() });
        }
        Some(decode(&bytes, Some(charset)).text)
    }
}

/// Returns the parameters after the value of a field, with their names in lower case.
fn parameters(field: &str) -> Vec<(String, String)> {
    let mut parameters = Vec::new();
    let mut rest = field.split_once(';').map_or("", |(_, rest)| rest);
    while let Some((name, after)) = rest.split_once('=') {
        let name = name.trim_matches([';', ' ', '\t']).to_ascii_lowercase();
        let after = after.trim_start();
        let (value, next) = if let Some(quoted) = after.strip_prefix('"') {
            quoted_string(quoted)
        } else {
            let (value, next) = after.split_once(';').unwrap_or((after, ""));
            (value.trim().to_owned(), next)
        };
        parameters.push((name, value));
        rest = next;
    }
    parameters
}

/// Returns a quoted string, and what comes after it.
fn quoted_string(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, &text[at + 1..]),
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            _ => value.push(character),
        }
    }
    (value, "")
}

fn percent_decoded(value: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = value.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        match transfer::hexadecimal(after).filter(|_| first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => bytes.push(first),
        }
    }
    bytes
}

/// Decodes the encoded words of a value: `=?utf-8?Q?Gr=C3=BC=C3=9Fe?=`. A character may be split
/// between two words of one encoding, which are decoded together.
fn with_words(value: &str) -> String {
    let mut text = String::new();
    let mut rest = value;
    let mut pending: Option<(&str, Vec<u8>)> = None;
    while let Some(start) = rest.find("=?") {
        let before = &rest[..start];
        let Some((charset, bytes, after)) = encoded_word(&rest[start..]) else {
            flush(&mut pending, &mut text);
            text.push_str(&rest[..start + 2]);
            rest = &rest[start + 2..];
            continue;
        };
        // White space between two encoded words is not displayed.
        let is_next = pending.is_some() && before.trim().is_empty();
        if !is_next {
            flush(&mut pending, &mut text);
            text.push_str(before);
        }
        match &mut pending {
            Some((open, collected)) if open.eq_ignore_ascii_case(charset) => {
                collected.extend(bytes);
            }
            _ => {
                flush(&mut pending, &mut text);
                pending = Some((charset, bytes));
            }
        }
        rest = after;
    }
    flush(&mut pending, &mut text);
    text.push_str(rest);
    text
}

fn flush(pending: &mut Option<(&str, Vec<u8>)>, text: &mut String) {
    if let Some((charset, bytes)) = pending.take() {
        text.push_str(&decode(&bytes, Some(charset)).text);
    }
}

/// Returns the charset and the bytes of an encoded word, and what comes after it.
fn encoded_word(text: &str) -> Option<(&str, Vec<u8>, &str)> {
    let (charset, rest) = text.strip_prefix("=?")?.split_once('?')?;
    let (encoding, rest) = rest.split_once('?')?;
    let (content, after) = rest.split_once("?=")?;
    let bytes = match encoding {
        "b" | "B" => transfer::base64(content.as_bytes()),
        "q" | "Q" => transfer::quoted_printable(content.replace('_', " ").as_bytes()),
        _ => return None,
    };
    // RFC 2231 allows a language after the charset.
    let charset = charset.split('*').next().unwrap_or(charset);
    Some((charset, bytes, after))
}

/// Returns the bytes before the first line feed.
pub(super) fn first_line(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    &bytes[..end]
}

/// Returns whether a line separates messages: `From ada@example.org Sat Nov 28 17:00:00 2026`.
pub(super) fn is_separator(line: &[u8]) -> bool {
    let Some(rest) = line.strip_prefix(b"From ") else { return false };
    rest.len() < 512 && rest.split(u8::is_ascii_whitespace).any(is_time_of_day)
}

/// Returns whether a word is a time such as `17:00` or `17:00:00`.
fn is_time_of_day(word: &[u8]) -> bool {
    matches!(word, [h1, h2, b':', m1, m2] | [h1, h2, b':', m1, m2, b':', _, _]
        if [h1, h2, m1, m2].into_iter().all(u8::is_ascii_digit))
}

/// Returns the messages of a mailbox, without the marks before lines that look like separators.
pub(super) fn messages(bytes: &[u8]) -> impl Iterator<Item = Cow<'_, [u8]>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let separator = first_line(rest).len() + 1;
        rest = rest.get(separator..).unwrap_or_default();
        let length = length_of_message(rest);
        let (message, next) = rest.split_at(length);
        rest = next;
        Some(unquoted(message))
    })
}

/// Returns the length of the message at the start, up to the next separator.
fn length_of_message(bytes: &[u8]) -> usize {
    let mut at = 0;
    let mut is_after_empty_line = true;
    while at < bytes.len() {
        let line = first_line(&bytes[at..]);
        if is_after_empty_line && is_separator(line) {
            return at;
        }
        is_after_empty_line = line.trim_ascii().is_empty();
        at = (at + line.len() + 1).min(bytes.len());
    }
    bytes.len()
}

/// Removes a `>` from each line that begins with `>From `, `>>From ` and so on.
fn unquoted(message: &[u8]) -> Cow<'_, [u8]> {
    if !message.split(|byte| *byte == b'\n').any(is_quoted) {
        return message.into();
    }
    let lines = message.split_inclusive(|byte| *byte == b'\n');
    let lines = lines.map(|line| if is_quoted(line) { &line[1..] } else { line });
    lines.collect::<Vec<_>>().concat().into()
}

/// Returns whether a line begins with `>From `, `>>From ` and so on.
fn is_quoted(line: &[u8]) -> bool {
    let marks = line.iter().take_while(|byte| **byte == b'>').count();
    marks > 0 && line[marks..].starts_with(b"From ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_decoded() {
        for (value, expected) in [
            ("=?utf-8?Q?Gr=C3=BC=C3=9Fe_aus?= K", "Grüße aus K"),
            ("=?UTF-8?B?R3LD?=\t=?utf-8?B?vMOfZQ==?=", "Grüße"),
            ("=?iso-8859-1?q?a=E9?= =?utf-8?q?b?=", "aéb"),
            ("=?koi8-r*ru?B?8NLJ18XU?=", "Привет"),
            ("a =?b c", "a =?b c"),
            ("=?utf-8?X?a?=", "=?utf-8?X?a?="),
        ] {
            assert_eq!(with_words(value), expected, "{value}");
        }
    }

    #[test]
    fn parameters_are_read() {
        for (field, expected) in [
            ("a/b; name=x.pdf", "x.pdf"),
            ("a/b; x=y; Name=\"a;\\\"b.pdf\"", "a;\"b.pdf"),
            ("a/b; name*=utf-8''Gr%C3%BC%C3%9Fe.pdf", "Grüße.pdf"),
            ("a/b; name*0*=utf-8''Gr%C3; name*1*=%BC; name*2=\"n.pdf\"", "Grün.pdf"),
            ("a/b; name=\"=?utf-8?Q?Gr=C3=BCn?=\"", "Grün"),
        ] {
            let (headers, _) = Headers::split(format!("Content-Type: {field}\n\n").as_bytes());
            let value = headers.parameter("content-type", "name");
            assert_eq!(value.as_deref(), Some(expected), "{field}");
        }
    }

    #[test]
    fn separators_have_a_time() {
        assert!(is_separator(b"From ada@example.org Sat Nov 28 17:00:00 2026\r"));
        assert!(is_separator(b"From - Sat Nov  8 07:00 2026"));
        assert!(!is_separator(b"From here on we walk."));
        assert!(!is_separator(b"From: ada@example.org"));
    }
}
