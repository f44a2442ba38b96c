//! The parts of a message that a mail program shows (RFC 2046).

use super::{
    headers::{Headers, first_line},
    transfer,
};
use crate::{
    ExtractError, Heading, Problem, Source,
    decode::{declared_after, decode},
    document::PART_BYTES,
    html, rtf,
};

/// What a message shows.
#[derive(Default)]
pub(super) struct Message {
    pub(super) texts: Vec<Text>,
    /// Names of the attachments.
    pub(super) attachments: Vec<String>,
    pub(super) hidden: usize,
    pub(super) readings: usize,
    pub(super) problems: Vec<Problem>,
    /// The bytes that are held.
    length: usize,
}

/// The text of a part.
pub(super) struct Text {
    pub(super) content: String,
    pub(super) headings: Vec<Heading>,
}

/// Deepest nesting of parts; deeper parts are left out.
const MAX_DEPTH: usize = 32;

/// Returns the parts of a message that a mail program shows.
pub(super) fn readable(
    headers: &Headers,
    body: &[u8],
    source: &Source<'_>,
) -> Result<Message, ExtractError> {
    let mut message = Message::default();
    message.part(headers, body, source, 0)?;
    Ok(message)
}

impl Message {
    fn part(
        &mut self,
        headers: &Headers,
        body: &[u8],
        source: &Source<'_>,
        depth: usize,
    ) -> Result<(), ExtractError> {
        self.length += PART_BYTES;
        source.check(self.length)?;
        if depth > MAX_DEPTH {
            let reason = format!("parts nested deeper than {MAX_DEPTH} are left out");
            self.problems.push(Problem::Other { reason });
            return Ok(());
        }
        let media_type = headers.media_type();
        if let Some(kind) = media_type.strip_prefix("multipart/") {
            let boundary = headers.parameter("content-type", "boundary").unwrap_or_default();
            let parts = parts(body, boundary.as_bytes());
            if !parts.is_empty() {
                return self.parts(kind, &parts, source, depth + 1);
            }
        }
        let decoded = transfer::decoded(headers.raw("content-transfer-encoding"), body);
        let is_attachment = headers
            .raw("content-disposition")
            .get(.."attachment".len())
            .is_some_and(|start| start.eq_ignore_ascii_case("attachment"));
        let name = headers
            .parameter("content-disposition", "filename")
            .or_else(|| headers.parameter("content-type", "name"));
        match media_type.as_str() {
            "message/rfc822" | "message/global" => self.forwarded(&decoded, source, depth),
            "text/calendar" | "text/css" | "text/javascript" if name.is_none() => Ok(()),
            text if !is_attachment
                && (text.starts_with("text/")
                    || text.starts_with("multipart/")
                    || text == "message/delivery-status") =>
            {
                self.text(text, headers, &decoded, source)
            }
            // Pictures within the text, and signatures.
            other => {
                let is_named = name.is_some() || is_attachment;
                let is_within = !headers.raw("content-id").is_empty() && !is_attachment;
                if is_named && !is_within && !other.ends_with("-signature") {
                    self.attachments.push(one_line(&name.unwrap_or_else(|| other.to_owned())));
                } else if other == "application/pkcs7-mime" || other == "application/octet-stream" {
                    let reason = format!("a part of the type {other} is left out");
                    self.problems.push(Problem::Other { reason });
                }
                Ok(())
            }
        }
    }

    fn parts(
        &mut self,
        kind: &str,
        parts: &[&[u8]],
        source: &Source<'_>,
        depth: usize,
    ) -> Result<(), ExtractError> {
        match kind {
            // The last alternative is the richest one; a mail program shows the last that it can.
            "alternative" => {
                let mut last = Self::default();
                for part in parts {
                    let (headers, body) = Headers::split(part);
                    let mut shown = Self::default();
                    shown.part(&headers, body, source, depth)?;
                    let has_text = shown.texts.iter().any(|it| !it.content.trim().is_empty());
                    if has_text {
                        shown.attachments.splice(..0, std::mem::take(&mut last.attachments));
                        last = shown;
                    } else {
                        last.attachments.append(&mut shown.attachments);
                    }
                }
                self.append(last);
            }
            "encrypted" => {
                let reason = "the message is encrypted".to_owned();
                self.problems.push(Problem::Other { reason });
            }
            // A part of a web page, such as a frame or a style, is no text of its own.
            "related" => {
                for part in parts {
                    let (headers, body) = Headers::split(part);
                    let media_type = headers.media_type();
                    let is_page =
                        media_type == "text/html" || media_type == "application/xhtml+xml";
                    if self.texts.is_empty() || is_page || !media_type.starts_with("text/") {
                        self.part(&headers, body, source, depth)?;
                    }
                }
            }
            "digest" => {
                for part in parts {
                    let (headers, body) = Headers::split(part);
                    let is_message = headers.raw("content-type").is_empty();
                    if is_message {
                        self.forwarded(body, source, depth)?;
                    } else {
                        self.part(&headers, body, source, depth)?;
                    }
                }
            }
            _ => {
                for part in parts {
                    let (headers, body) = Headers::split(part);
                    self.part(&headers, body, source, depth)?;
                }
            }
        }
        Ok(())
    }

    /// Reads a message within the message.
    fn forwarded(
        &mut self,
        message: &[u8],
        source: &Source<'_>,
        depth: usize,
    ) -> Result<(), ExtractError> {
        let (headers, body) = Headers::split(message);
        let mut lines = String::new();
        for name in ["Subject", "From", "To", "Date"] {
            let value = headers.text(&name.to_ascii_lowercase());
            if !value.is_empty() {
                lines.push_str(&format!("{name}: {value}\n"));
            }
        }
        self.length += lines.len();
        self.texts.push(Text { content: lines, headings: Vec::new() });
        self.part(&headers, body, source, depth + 1)
    }

    fn text(
        &mut self,
        media_type: &str,
        headers: &Headers,
        bytes: &[u8],
        source: &Source<'_>,
    ) -> Result<(), ExtractError> {
        let charset = headers.parameter("content-type", "charset");
        let (content, headings) = match media_type {
            "text/html" => {
                let declared =
                    charset.as_deref().or_else(|| declared_after(bytes, "charset", 1024));
                let page = html::read(&decode(bytes, declared).text, source)?;
                self.hidden += page.hidden;
                self.readings += page.readings;
                (page.content, page.headings)
            }
            "text/rtf" | "text/richtext" if bytes.starts_with(b"{\\rtf") => {
                let read = rtf::read(&Source { bytes, ..*source })?;
                (read.content, read.headings)
            }
            _ => {
                let text = decode(bytes, charset.as_deref()).text.replace("\r\n", "\n");
                let format = headers.parameter("content-type", "format").unwrap_or_default();
                let is_flowed = format.eq_ignore_ascii_case("flowed");
                let text = text.trim_start_matches('\n');
                (if is_flowed { flowed(text) } else { text.to_owned() }, Vec::new())
            }
        };
        if !content.trim().is_empty() {
            self.length += content.len() + headings.len() * PART_BYTES;
            self.texts.push(Text { content, headings });
        }
        Ok(())
    }

    fn append(&mut self, mut other: Self) {
        self.length += other.length;
        self.texts.append(&mut other.texts);
        self.attachments.append(&mut other.attachments);
        self.problems.append(&mut other.problems);
        self.hidden += other.hidden;
        self.readings += other.readings;
    }
}

/// Returns the parts between the lines of a boundary.
fn parts<'a>(body: &'a [u8], boundary: &[u8]) -> Vec<&'a [u8]> {
    let mut parts = Vec::new();
    if boundary.is_empty() {
        return parts;
    }
    let mut start = None;
    let mut at = 0;
    while at < body.len() {
        let line = first_line(&body[at..]);
        let next = (at + line.len() + 1).min(body.len());
        let mark = line.strip_prefix(b"--").and_then(|rest| rest.strip_prefix(boundary));
        if let Some(rest) = mark.map(<[u8]>::trim_ascii_end)
            && (rest.is_empty() || rest == b"--")
        {
            if let Some(start) = start {
                parts.push(&body[start..at]);
            }
            start = rest.is_empty().then_some(next);
            if start.is_none() {
                return parts;
            }
        }
        at = next;
    }
    // A message may have been cut off.
    parts.extend(start.map(|start| &body[start..]));
    parts
}

/// Joins the lines of a paragraph, which end in a space (RFC 3676).
fn flowed(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let content = line.trim_end_matches('\n');
        // A space before the text protects it, and `-- ` begins a signature.
        let content = content.strip_prefix(' ').unwrap_or(content);
        let is_soft = content.ends_with(' ') && content != "-- " && !content.starts_with('>');
        joined.push_str(content);
        if !is_soft && line.ends_with('\n') {
            joined.push('\n');
        }
    }
    joined
}

fn one_line(name: &str) -> String {
    name.split_whitespace().collect::<Vec<_>>().join(" ")
}
