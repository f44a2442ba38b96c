//! Mail: messages (`.eml`, RFC 5322 and MIME), mailboxes (`.mbox`) and saved web pages (`.mhtml`).

mod body;
mod headers;
mod transfer;

use self::{
    body::{Message, readable},
    headers::Headers,
};
use crate::{
    ExtractError, Extracted, Extractor, Heading, Problem, Source,
    document::{PART_BYTES, readings_left_out},
};

/// Reads messages: subject, names, date, the text that a mail program shows, and the names of
/// attachments.
pub(crate) struct Mail;

const MESSAGE: &str = "message/rfc822";
const MAILBOX: &str = "application/mbox";

impl Extractor for Mail {
    fn media_types(&self) -> &[&str] {
        &[
            MESSAGE,
            MAILBOX,
            "application/x-mimearchive",
            "message/global",
            "multipart/related",
            "application/vnd.ms-word.document.mht",
        ]
    }

    fn extensions(&self) -> &[(&str, &str)] {
        &[
            ("eml", MESSAGE),
            ("emlx", MESSAGE),
            ("mbox", MAILBOX),
            ("mht", MESSAGE),
            ("mhtml", MESSAGE),
        ]
    }

    fn recognize(&self, bytes: &[u8]) -> Option<&'static str> {
        let start = &bytes[..bytes.len().min(16 << 10)];
        if headers::is_separator(headers::first_line(start)) {
            return Some(MAILBOX);
        }
        Headers::split(start).0.is_message().then_some(MESSAGE)
    }

    fn extract(&self, source: &Source<'_>) -> Result<Extracted, ExtractError> {
        let mut document = Document::new(*source);
        let bytes = without_length(source.bytes);
        if headers::is_separator(headers::first_line(bytes)) {
            for message in headers::messages(bytes) {
                document.add(&message)?;
            }
        } else {
            document.add(bytes)?;
        }
        Ok(document.finish())
    }
}

/// Returns the message of a file of Apple Mail, which begins with the message's length.
fn without_length(bytes: &[u8]) -> &[u8] {
    let line = headers::first_line(bytes);
    let number = std::str::from_utf8(line).ok().and_then(|line| line.trim().parse::<usize>().ok());
    let after = bytes.get(line.len() + 1..).unwrap_or_default();
    match number {
        Some(length) => &after[..length.min(after.len())],
        None => bytes,
    }
}

/// Collects messages.
struct Document<'a> {
    source: Source<'a>,
    extracted: Extracted,
    messages: usize,
    hidden: usize,
    readings: usize,
    /// Number of attachments, whose content is not read.
    attachments: usize,
}

impl<'a> Document<'a> {
    fn new(source: Source<'a>) -> Self {
        let extracted = Extracted { wrapped: true, ..Extracted::default() };
        Self { source, extracted, messages: 0, hidden: 0, readings: 0, attachments: 0 }
    }

    /// Adds a message: its subject as a heading, the lines that a reader sees above its text, and
    /// the text.
    fn add(&mut self, message: &[u8]) -> Result<(), ExtractError> {
        let (headers, body) = Headers::split(message);
        self.messages += 1;
        let subject = headers.text("subject");
        let content = &mut self.extracted.content;
        content.truncate(content.trim_end().len());
        if !content.is_empty() {
            content.push_str("\n\n");
        }
        if !subject.is_empty() {
            let start = content.len();
            content.push_str(&subject);
            let span = start..content.len();
            self.extracted.headings.push(Heading::new(1, subject.clone(), span));
            content.push('\n');
        }
        for name in ["From", "To", "Cc", "Date"] {
            let value = headers.text(&name.to_ascii_lowercase());
            if !value.is_empty() {
                content.push_str(&format!("{name}: {value}\n"));
            }
        }
        if self.messages == 1 {
            self.extracted.title = Some(subject).filter(|subject| !subject.is_empty());
            let author = headers.text("from");
            if !author.is_empty() {
                self.extracted.metadata.insert("author".to_owned(), author);
            }
        } else {
            // The title of a mailbox is not the subject of its first message.
            self.extracted.title = None;
        }
        let message = readable(&headers, body, &self.source)?;
        self.push(message);
        let Extracted { content, headings, problems, .. } = &self.extracted;
        self.source.check(content.len() + (headings.len() + problems.len()) * PART_BYTES)
    }

    fn push(&mut self, message: Message) {
        let content = &mut self.extracted.content;
        for text in &message.texts {
            if !content.is_empty() {
                content.push('\n');
            }
            let start = content.len();
            content.push_str(text.content.trim_end());
            content.push('\n');
            let end = content.len();
            let headings = text.headings.iter().map(|heading| Heading {
                // The subject is above them.
                level: heading.level.saturating_add(1),
                span: start + heading.span.start..start + heading.span.end,
                ..heading.clone()
            });
            self.extracted.headings.extend(headings.filter(|heading| heading.span.end <= end));
        }
        if !message.attachments.is_empty() {
            content.push('\n');
        }
        for name in &message.attachments {
            content.push_str(&format!("Attachment: {name}\n"));
        }
        self.attachments += message.attachments.len();
        self.hidden += message.hidden;
        self.readings += message.readings;
        for problem in message.problems {
            if !self.extracted.problems.contains(&problem) {
                self.extracted.problems.push(problem);
            }
        }
    }

    fn finish(self) -> Extracted {
        let mut extracted = self.extracted;
        extracted.content.truncate(extracted.content.trim_end().len());
        if self.attachments > 0 {
            let reason = format!("{} attachments are not read", self.attachments);
            extracted.problems.push(Problem::Other { reason });
        }
        if self.hidden > 0 {
            extracted.problems.push(Problem::Hidden { count: self.hidden });
        }
        if self.readings > 0 {
            extracted.problems.push(readings_left_out(self.readings));
        }
        extracted
    }
}
