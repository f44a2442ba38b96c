//! The fonts of a document, which determine the encodings of its characters.

use std::collections::{HashMap, HashSet};

use encoding_rs::{Encoding, WINDOWS_1252};

use marquetry_office_values::{is_symbol_font, symbol, with_symbols};

/// The font table.
#[derive(Default)]
pub(super) struct Fonts {
    fonts: HashMap<i64, Font>,
    /// The encodings that the fonts declare.
    declared: HashSet<&'static Encoding>,
    /// Number of the font that is being read.
    open: Option<i64>,
    /// Number of the default font.
    pub(super) default: Option<i64>,
}

#[derive(Default)]
struct Font {
    name: String,
    charset: Option<i64>,
    code_page: Option<i64>,
}

impl Fonts {
    /// Begins the entry of a font.
    pub(super) fn start(&mut self, number: Option<i64>) {
        self.open = number;
        self.fonts.extend(number.map(|number| (number, Font::default())));
    }

    pub(super) fn set_charset(&mut self, charset: Option<i64>) {
        if let Some(font) = self.open_font() {
            font.charset = charset;
            self.declared.extend(charset.and_then(of_charset));
        }
    }

    pub(super) fn set_code_page(&mut self, code_page: Option<i64>) {
        if let Some(font) = self.open_font() {
            font.code_page = code_page;
        }
    }

    /// Adds to the name of the open font.
    pub(super) fn push_name(&mut self, text: &str) {
        /// Longest name that matters.
        const MAX_NAME: usize = 64;
        if let Some(font) = self.open_font().filter(|font| font.name.len() < MAX_NAME) {
            font.name.push_str(text.trim_end_matches(';'));
        }
    }

    fn open_font(&mut self) -> Option<&mut Font> {
        self.fonts.get_mut(&self.open?)
    }

    /// Decodes bytes in a font; `document` is the encoding of the document.
    pub(super) fn decode(
        &self,
        font: Option<i64>,
        document: &'static Encoding,
        bytes: &[u8],
    ) -> String {
        let font = font.or(self.default).and_then(|number| self.fonts.get(&number));
        if let Some(name) = font.and_then(Font::symbols) {
            let symbols = bytes.iter().map(|byte| match symbol(name, u32::from(*byte)) {
                Some(character) => character,
                None => char::from(*byte),
            });
            return symbols.collect();
        }
        let of_font = font.and_then(|font| self.encoding(font, document));
        of_font.unwrap_or(document).decode_without_bom_handling(bytes).0.into_owned()
    }

    /// Returns a text in a font, with symbols as characters of Unicode.
    pub(super) fn with_symbols(&self, font: Option<i64>, text: &str) -> String {
        let font = font.or(self.default).and_then(|number| self.fonts.get(&number));
        match font.and_then(Font::symbols) {
            Some(name) => with_symbols(name, text),
            None => text.to_owned(),
        }
    }

    fn encoding(&self, font: &Font, document: &'static Encoding) -> Option<&'static Encoding> {
        if let Some(encoding) = font.code_page.and_then(of_code_page) {
            return Some(encoding);
        }
        // Word means Western Europe by "ANSI", and declares the other fonts. Programs that do not
        // know of character sets mean the document's own.
        if font.charset == Some(0) {
            return self.declared.contains(document).then_some(WINDOWS_1252);
        }
        font.charset.and_then(of_charset)
    }
}

impl Font {
    /// Returns the name of a font of symbols.
    fn symbols(&self) -> Option<&str> {
        let name = self.name.trim();
        is_symbol_font(name).then_some(name)
    }
}

/// Returns the encoding of a code page of Windows or the Mac.
pub(super) fn of_code_page(page: i64) -> Option<&'static Encoding> {
    let label = match page {
        932 => "shift_jis".to_owned(),
        936 => "gbk".to_owned(),
        949 | 1361 => "euc-kr".to_owned(),
        950 => "big5".to_owned(),
        866 => "ibm866".to_owned(),
        874 => "windows-874".to_owned(),
        10000 => "macintosh".to_owned(),
        10007 => "x-mac-cyrillic".to_owned(),
        54936 => "gb18030".to_owned(),
        65001 => "utf-8".to_owned(),
        page => format!("windows-{page}"),
    };
    Encoding::for_label(label.as_bytes())
}

/// Returns the encoding of a character set of Windows (RTF 1.9.1, `\fcharset`).
fn of_charset(charset: i64) -> Option<&'static Encoding> {
    of_code_page(match charset {
        77 => 10000,
        78 | 128 => 932,
        79 | 129 => 949,
        80 | 134 => 936,
        81 | 136 => 950,
        161 => 1253,
        162 => 1254,
        163 => 1258,
        177 => 1255,
        178..=180 => 1256,
        186 => 1257,
        204 => 1251,
        222 => 874,
        238 => 1250,
        _ => return None,
    })
}
