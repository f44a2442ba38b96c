//! RTF 1.9: headers, text, text boxes, notes, comments and footers of a document.

mod fonts;
mod styles;
mod text;

use encoding_rs::{Encoding, WINDOWS_1252};

use self::{
    fonts::Fonts,
    styles::Styles,
    text::{Destination, Texts},
};
use crate::{ExtractError, Extracted, Extractor, Source};

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
        read(source)
    }
}

/// Reads the text of a document.
pub(crate) fn read(source: &Source<'_>) -> Result<Extracted, ExtractError> {
    let mut reader = Reader::new(source.bytes);
    reader.read(source)?;
    reader.finish(source)
}

/// Deepest nesting of groups; deeper groups share the state of this depth.
const MAX_DEPTH: usize = 1_024;

struct Reader<'a> {
    rest: &'a [u8],
    texts: Texts,
    fonts: Fonts,
    styles: Styles,
    /// Bytes in an encoding that were not decoded yet.
    pending: Vec<u8>,
    /// The first half of a character beyond U+FFFF.
    half: Option<u16>,
    /// The encoding of the document, for fonts without their own.
    encoding: &'static Encoding,
    groups: Vec<Group>,
    /// Number of open groups below the tracked depth.
    deeper: usize,
    state: Group,
    /// Number of replacement characters still to skip.
    skip: usize,
}

/// The state of a group, which ends with it.
#[derive(Clone, Copy)]
struct Group {
    destination: Destination,
    /// The destination of the text around an ignored one.
    around: Destination,
    is_hidden: bool,
    /// Number of replacement characters after a character that older readers do not support.
    instead: usize,
    font: Option<i64>,
    /// Level of the paragraph, if it is a heading.
    level: Option<u8>,
    /// Whether the paragraph is in a cell of a table.
    in_table: bool,
    /// Whether the group repeats a drawing for older programs.
    is_repeated: bool,
}

impl Default for Group {
    fn default() -> Self {
        Self {
            destination: Destination::Text,
            around: Destination::Text,
            is_hidden: false,
            instead: 1,
            font: None,
            level: None,
            in_table: false,
            is_repeated: false,
        }
    }
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            texts: Texts::default(),
            fonts: Fonts::default(),
            styles: Styles::default(),
            pending: Vec::new(),
            half: None,
            encoding: WINDOWS_1252,
            groups: Vec::new(),
            deeper: 0,
            state: Group::default(),
            skip: 0,
        }
    }

    fn read(&mut self, source: &Source<'_>) -> Result<(), ExtractError> {
        let mut steps = 0_usize;
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
            steps += 1;
            if steps.is_multiple_of(256) || byte == b'{' {
                source.check(self.texts.len() + self.pending.len())?;
            }
        }
        self.flush();
        source.check(self.texts.len())
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
            if state.destination != self.state.destination {
                self.texts.end_line(self.state.destination);
            }
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
                b'*' => self.start(Destination::Ignored),
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
            // A cell may have several paragraphs.
            b"par" if self.state.in_table => self.push(" "),
            b"par" | b"sect" | b"row" | b"nestrow" => self.end_paragraph(),
            b"intbl" => self.state.in_table = true,
            b"line" => self.push("\n"),
            b"tab" => self.push("\t"),
            b"cell" | b"nestcell" => {
                self.flush();
                self.texts.end_cell(self.state.destination);
                self.push(" | ");
            }
            b"page" => {
                self.end_paragraph();
                if self.state.destination == Destination::Text {
                    self.texts.start_page(source.limits)?;
                }
            }
            b"pard" => {
                self.state.level = None;
                self.state.in_table = false;
            }
            b"outlinelevel" if self.state.destination == Destination::StyleSheet => {
                self.styles.set_outline(number);
            }
            b"outlinelevel" => self.state.level = styles::level(number),
            b"s" if self.state.destination == Destination::StyleSheet => self.styles.start(number),
            b"s" => self.state.level = number.and_then(|number| self.styles.level(number)),
            b"sbasedon" => self.styles.set_based_on(number),
            b"f" if self.state.destination == Destination::FontTable => self.fonts.start(number),
            b"f" => {
                self.flush();
                self.state.font = number;
            }
            b"deff" => self.fonts.default = number,
            b"fcharset" => self.fonts.set_charset(number),
            b"cpg" => self.fonts.set_code_page(number),
            b"emdash" => self.push("\u{2014}"),
            b"endash" => self.push("\u{2013}"),
            b"emspace" | b"enspace" | b"qmspace" => self.push(" "),
            b"bullet" => self.push("\u{2022}"),
            b"lquote" => self.push("\u{2018}"),
            b"rquote" => self.push("\u{2019}"),
            b"ldblquote" => self.push("\u{201C}"),
            b"rdblquote" => self.push("\u{201D}"),
            b"zwj" => self.push("\u{200D}"),
            b"zwnj" => self.push("\u{200C}"),
            b"uc" => {
                let instead = number.and_then(|number| usize::try_from(number).ok());
                self.state.instead = instead.unwrap_or(1);
            }
            b"u" => self.unicode(number.unwrap_or_default()),
            b"bin" => {
                let length = number.and_then(|number| usize::try_from(number).ok()).unwrap_or(0);
                self.rest = &self.rest[length.min(self.rest.len())..];
            }
            b"ansicpg" => {
                let encoding = fonts::of_code_page(number.unwrap_or(1252));
                self.encoding = encoding.unwrap_or(WINDOWS_1252);
            }
            b"mac" => self.encoding = encoding_rs::MACINTOSH,
            b"v" | b"deleted" => {
                self.flush();
                self.texts.hidden += usize::from(is_on && !self.state.is_hidden);
                self.state.is_hidden = is_on;
            }
            b"plain" => {
                self.flush();
                self.state.is_hidden = false;
                self.state.font = None;
            }
            _ => self.destination(word),
        }
        Ok(())
    }

    /// Begins the destination of a control word, if it is one.
    fn destination(&mut self, word: &[u8]) {
        if self.state.is_repeated {
            return;
        }
        self.state.is_repeated = matches!(word, b"shprslt" | b"nonshppict");
        let destination = match word {
            b"header" | b"headerl" | b"headerr" | b"headerf" => Destination::Header,
            b"footer" | b"footerl" | b"footerr" | b"footerf" => Destination::Footer,
            b"footnote" => Destination::Note,
            b"annotation" => Destination::Comment,
            b"atnauthor" => Destination::CommentAuthor,
            b"fonttbl" => Destination::FontTable,
            b"stylesheet" => Destination::StyleSheet,
            b"shptxt" | b"dptxbxtext" => match self.state.around {
                Destination::Text => Destination::Drawing,
                around => around,
            },
            // The picture of an object, and the Unicode form of a text, stand within an ignored
            // destination.
            b"result" | b"ud" => self.state.around,
            b"sn" => Destination::PropertyName,
            b"sv" => match self.texts.property_name.trim() {
                // The description of a picture, and the text of WordArt.
                "wzDescription" | "gtextUNICODE" => Destination::Drawing,
                _ => Destination::Ignored,
            },
            b"title" if self.state.destination == Destination::Ignored => Destination::Title,
            b"author" if self.state.destination == Destination::Ignored => Destination::Author,
            b"colortbl"
            | b"info"
            | b"pict"
            | b"object"
            | b"shprslt"
            | b"upr"
            | b"sp"
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
            | b"atnid"
            | b"bkmkstart"
            | b"bkmkend"
            | b"nonshppict" => Destination::Ignored,
            _ => return,
        };
        self.start(destination);
    }

    fn start(&mut self, destination: Destination) {
        self.flush();
        self.texts.start(destination);
        self.state.destination = destination;
        let has_text = matches!(
            destination,
            Destination::Header | Destination::Footer | Destination::Note | Destination::Comment
        );
        if has_text {
            self.state.around = destination;
        }
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
                let text = character.to_string();
                self.push(&self.fonts.with_symbols(self.state.font, &text));
            }
        }
    }

    fn push(&mut self, text: &str) {
        self.flush();
        self.write(text);
    }

    fn write(&mut self, text: &str) {
        if self.state.is_hidden {
            return;
        }
        match self.state.destination {
            Destination::FontTable => self.fonts.push_name(text),
            Destination::StyleSheet => self.styles.push_name(text),
            destination => self.texts.push(destination, text),
        }
    }

    /// Decodes the pending bytes.
    fn flush(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let text = self.fonts.decode(self.state.font, self.encoding, &self.pending);
        self.pending.clear();
        self.write(&text);
    }

    fn end_paragraph(&mut self) {
        self.flush();
        match self.state.destination {
            Destination::Text => self.texts.end_paragraph(self.state.level),
            destination => self.texts.end_line(destination),
        }
    }

    fn finish(mut self, source: &Source<'_>) -> Result<Extracted, ExtractError> {
        self.texts.end_paragraph(self.state.level);
        let extracted = self.texts.finish();
        source.check(extracted.content.len())?;
        Ok(extracted)
    }
}
