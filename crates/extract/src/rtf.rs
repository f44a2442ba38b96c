//! RTF 1.9: the text of a document, without its metadata.

use encoding_rs::{Encoding, WINDOWS_1252};

use crate::{ExtractError, Extracted, Extractor, Heading, Page, Problem, Source};

/// Reads rich text.
pub(crate) struct Rtf;

/// Name of the format in errors.
const FORMAT: &str = "RTF";

impl Extractor for Rtf {
    fn media_types(&self) -> &[&str] {
        &["application/rtf", "text/rtf", "application/x-rtf", "text/richtext"]
    }

    fn extensions(&self) -> &[(&str, &str)] {
        &[("rtf", "application/rtf")]
    }

    fn recognize(&self, bytes: &[u8]) -> Option<&'static str> {
        bytes.starts_with(b"{\\rtf").then_some("application/rtf")
    }

    fn extract(&self, source: &Source<'_>) -> Result<Extracted, ExtractError> {
        if !source.bytes.trim_ascii_start().starts_with(b"{\\rtf") {
            let reason = "it does not begin with {\\rtf".to_owned();
            return Err(ExtractError::Malformed { format: FORMAT, reason });
        }
        let mut reader = Reader::new(source.bytes);
        reader.read(source)?;
        reader.finish(source)
    }
}

/// Deepest nesting of groups; deeper groups share the state of this depth.
const MAX_DEPTH: usize = 1_024;

struct Reader<'a> {
    rest: &'a [u8],
    text: String,
    /// Bytes in the document's encoding that were not decoded yet.
    pending: Vec<u8>,
    /// The first half of a character beyond U+FFFF.
    half: Option<u16>,
    encoding: &'static Encoding,
    groups: Vec<Group>,
    /// Number of open groups below the tracked depth.
    deeper: usize,
    state: Group,
    /// Number of replacement characters still to skip.
    skip: usize,
    headings: Vec<Heading>,
    /// Start of the paragraph, and its level if it is a heading.
    paragraph: usize,
    level: Option<u8>,
    page_starts: Vec<usize>,
    title: String,
    author: String,
    hidden: usize,
}

/// The state of a group, which ends with it.
#[derive(Clone, Copy)]
struct Group {
    destination: Destination,
    is_hidden: bool,
    /// Number of replacement characters after a character that older readers do not support.
    instead: usize,
}

/// A destination of text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Destination {
    Text,
    Title,
    Author,
    Ignored,
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            text: String::new(),
            pending: Vec::new(),
            half: None,
            encoding: WINDOWS_1252,
            groups: Vec::new(),
            deeper: 0,
            state: Group { destination: Destination::Text, is_hidden: false, instead: 1 },
            skip: 0,
            headings: Vec::new(),
            paragraph: 0,
            level: None,
            page_starts: vec![0],
            title: String::new(),
            author: String::new(),
            hidden: 0,
        }
    }

    fn read(&mut self, source: &Source<'_>) -> Result<(), ExtractError> {
        while let Some((&byte, rest)) = self.rest.split_first() {
            self.rest = rest;
            match byte {
                b'{' => self.open(),
                b'}' => {
                    self.close();
                    if self.groups.is_empty() && self.deeper == 0 {
                        break;
                    }
                }
                b'\\' => self.control(source)?,
                b'\r' | b'\n' | 0 => {}
                byte => self.byte(byte),
            }
            if self.text.len() & 0xFF == 0 || byte == b'{' {
                source.check(self.text.len() + self.pending.len())?;
            }
        }
        self.flush();
        source.check(self.text.len())
    }

    fn open(&mut self) {
        self.flush();
        self.skip = 0;
        if self.groups.len() == MAX_DEPTH {
            self.deeper += 1;
        } else {
            self.groups.push(self.state);
        }
    }

    fn close(&mut self) {
        self.flush();
        self.skip = 0;
        if self.deeper > 0 {
            self.deeper -= 1;
        } else if let Some(state) = self.groups.pop() {
            self.state = state;
        }
    }

    /// Reads a control word with its number, or a control symbol.
    fn control(&mut self, source: &Source<'_>) -> Result<(), ExtractError> {
        let length = self.rest.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        if length == 0 {
            let Some((&sign, rest)) = self.rest.split_first() else { return Ok(()) };
            self.rest = rest;
            match sign {
                b'\'' => {
                    let digits = self
                        .rest
                        .first_chunk::<2>()
                        .and_then(|digits| std::str::from_utf8(digits).ok());
                    if let Some(byte) =
                        digits.and_then(|digits| u8::from_str_radix(digits, 16).ok())
                    {
                        self.rest = &self.rest[2..];
                        self.byte(byte);
                    }
                }
                b'\\' | b'{' | b'}' => self.byte(sign),
                b'~' => self.push("\u{A0}"),
                b'_' => self.push("-"),
                b'\r' | b'\n' => self.end_paragraph(),
                // Readers ignore such a destination if they do not know it.
                b'*' => self.state.destination = Destination::Ignored,
                _ => {}
            }
            return Ok(());
        }
        // Longer control words are undefined.
        let (word, rest) = self.rest.split_at(length);
        let signs = usize::from(rest.first() == Some(&b'-'));
        let digits = rest[signs..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number_length = if digits > 0 { signs + digits } else { 0 };
        let (number, rest) = rest.split_at(number_length);
        self.rest = rest.strip_prefix(b" ").unwrap_or(rest);
        let number = std::str::from_utf8(number).ok().and_then(|number| number.parse().ok());
        self.word(word, number, source)
    }

    fn word(
        &mut self,
        word: &[u8],
        number: Option<i64>,
        source: &Source<'_>,
    ) -> Result<(), ExtractError> {
        let is_on = number != Some(0);
        match word {
            b"par" | b"sect" => self.end_paragraph(),
            b"line" => self.push("\n"),
            b"tab" => self.push("\t"),
            b"cell" | b"nestcell" => self.push(" | "),
            b"row" | b"nestrow" => self.end_paragraph(),
            b"page" => {
                self.end_paragraph();
                if self.state.destination == Destination::Text {
                    source.limits.check_pages(self.page_starts.len() + 1)?;
                    self.page_starts.push(self.text.len());
                }
            }
            b"pard" => self.level = None,
            b"outlinelevel" => {
                let level = number.and_then(|number| u8::try_from(number).ok());
                self.level = level.filter(|level| *level < 9).map(|level| level + 1);
            }
            b"emdash" => self.push("\u{2014}"),
            b"endash" => self.push("\u{2013}"),
            b"bullet" => self.push("\u{2022}"),
            b"lquote" => self.push("\u{2018}"),
            b"rquote" => self.push("\u{2019}"),
            b"ldblquote" => self.push("\u{201C}"),
            b"rdblquote" => self.push("\u{201D}"),
            b"uc" => {
                let instead = number.and_then(|number| usize::try_from(number).ok());
                self.state.instead = instead.unwrap_or(1).min(16);
            }
            b"u" => self.unicode(number.unwrap_or(0)),
            b"bin" => {
                let length = number.and_then(|number| usize::try_from(number).ok()).unwrap_or(0);
                self.rest = &self.rest[length.min(self.rest.len())..];
            }
            b"ansicpg" => {
                let label = match number.unwrap_or(1252) {
                    932 => "shift_jis".to_owned(),
                    936 => "gbk".to_owned(),
                    949 => "euc-kr".to_owned(),
                    950 => "big5".to_owned(),
                    10000 => "macintosh".to_owned(),
                    65001 => "utf-8".to_owned(),
                    page => format!("windows-{page}"),
                };
                self.encoding = Encoding::for_label(label.as_bytes()).unwrap_or(WINDOWS_1252);
            }
            b"mac" => self.encoding = encoding_rs::MACINTOSH,
            b"v" | b"deleted" => {
                self.flush();
                self.hidden += usize::from(is_on && !self.state.is_hidden);
                self.state.is_hidden = is_on;
            }
            b"plain" => {
                self.flush();
                self.state.is_hidden = false;
            }
            b"title" if self.state.destination == Destination::Ignored => {
                self.state.destination = Destination::Title;
            }
            b"author" if self.state.destination == Destination::Ignored => {
                self.state.destination = Destination::Author;
            }
            b"fonttbl"
            | b"colortbl"
            | b"stylesheet"
            | b"info"
            | b"pict"
            | b"object"
            | b"header"
            | b"headerl"
            | b"headerr"
            | b"headerf"
            | b"footer"
            | b"footerl"
            | b"footerr"
            | b"footerf"
            | b"fldinst"
            | b"listtable"
            | b"listoverridetable"
            | b"revtbl"
            | b"rsidtbl"
            | b"generator"
            | b"themedata"
            | b"colorschememapping"
            | b"datastore"
            | b"latentstyles"
            | b"xmlnstbl"
            | b"annotation"
            | b"atnid"
            | b"atnauthor"
            | b"bkmkstart"
            | b"bkmkend"
            | b"nonshppict" => self.state.destination = Destination::Ignored,
            _ => {}
        }
        Ok(())
    }

    /// Adds a character in the document's encoding, or a part of one.
    fn byte(&mut self, byte: u8) {
        if self.skip > 0 {
            self.skip -= 1;
            return;
        }
        if self.state.destination != Destination::Ignored && !self.state.is_hidden {
            self.pending.push(byte);
        }
    }

    /// Adds a unit of UTF-16, which has a sign in older files.
    fn unicode(&mut self, number: i64) {
        self.skip = self.state.instead;
        // Units are from -32,768 to 65,535.
        let unit = (number & 0xFFFF) as u16;
        match (self.half.take(), unit) {
            (_, 0xD800..=0xDBFF) => self.half = Some(unit),
            (Some(first), 0xDC00..=0xDFFF) => {
                let character = char::decode_utf16([first, unit]).next();
                if let Some(Ok(character)) = character {
                    self.push(character.encode_utf8(&mut [0; 4]));
                }
            }
            _ => {
                let character = char::from_u32(u32::from(unit)).unwrap_or('\u{FFFD}');
                self.push(character.encode_utf8(&mut [0; 4]));
            }
        }
    }

    fn push(&mut self, text: &str) {
        self.flush();
        if self.state.is_hidden {
            return;
        }
        /// Longest title, in bytes. Longer paragraphs are not titles.
        const MAX_TITLE_BYTES: usize = 1_024;
        match self.state.destination {
            Destination::Text => self.text.push_str(text),
            Destination::Title if self.title.len() < MAX_TITLE_BYTES => self.title.push_str(text),
            Destination::Author if self.author.len() < MAX_TITLE_BYTES => {
                self.author.push_str(text);
            }
            _ => {}
        }
    }

    /// Decodes the pending bytes.
    fn flush(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let pending = std::mem::take(&mut self.pending);
        let (text, _) = self.encoding.decode_without_bom_handling(&pending);
        self.push(&text);
        self.pending = pending;
        self.pending.clear();
    }

    fn end_paragraph(&mut self) {
        self.flush();
        if self.state.destination != Destination::Text {
            return;
        }
        let written = &self.text[self.paragraph..];
        let skipped = written.len() - written.trim_start().len();
        let length = written.trim().len();
        if let Some(level) = self.level.filter(|_| length > 0) {
            let title = written.split_whitespace().collect::<Vec<_>>().join(" ");
            let start = self.paragraph + skipped;
            self.headings.push(Heading { level, title, span: start..start + length });
        }
        if length > 0 {
            self.text.push_str("\n\n");
        }
        self.paragraph = self.text.len();
    }

    fn finish(mut self, source: &Source<'_>) -> Result<Extracted, ExtractError> {
        self.state = Group { destination: Destination::Text, is_hidden: false, instead: 1 };
        self.end_paragraph();
        self.text.truncate(self.text.trim_end().len());
        let length = self.text.len();
        self.headings.retain(|heading| heading.span.end <= length);
        let mut extracted = Extracted { headings: self.headings, ..Extracted::new(self.text) };
        if self.page_starts.len() > 1 {
            let starts = self.page_starts.iter().map(|start| (*start).min(length));
            let ends = starts.clone().skip(1).chain([length]);
            let pages = (1..).zip(starts.zip(ends));
            extracted.pages =
                pages.map(|(number, (start, end))| Page { number, span: start..end }).collect();
            extracted.page_count = u32::try_from(extracted.pages.len()).ok();
        }
        extracted.title = Some(with_single_spaces(&self.title)).filter(|title| !title.is_empty());
        let author = with_single_spaces(&self.author);
        if !author.is_empty() {
            extracted.metadata.insert("author".to_owned(), author);
        }
        if self.hidden > 0 {
            extracted.problems.push(Problem::Hidden { count: self.hidden });
        }
        source.check(extracted.content.len())?;
        Ok(extracted)
    }
}

fn with_single_spaces(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
