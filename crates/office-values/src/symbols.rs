//! Fonts of symbols: the characters that their glyphs show. Their codes are not those of Unicode,
//! and stand in the private use area from U+F000 on, or in one byte.

/// Returns the character that a code shows in a font; `None` if the font is no known font of
/// symbols, or has no known symbol there.
#[must_use]
pub fn symbol(font: &str, code: u32) -> Option<char> {
    let code = match code {
        0x20..=0xFF => code as u8,
        0xF020..=0xF0FF => (code - 0xF000) as u8,
        _ => return None,
    };
    match font.trim().to_ascii_lowercase().as_str() {
        "symbol" | "standard symbols l" | "standard symbols ps" | "symbol neu" => greek(code),
        "wingdings" => in_table(WINGDINGS, code),
        "wingdings 2" => in_table(WINGDINGS_2, code),
        "wingdings 3" => in_table(WINGDINGS_3, code),
        "webdings" => in_table(WEBDINGS, code),
        "zapf dingbats" | "zapfdingbats" | "itc zapf dingbats" => dingbat(code),
        _ => None,
    }
}

/// Returns whether a font is a font of symbols.
#[must_use]
pub fn is_symbol_font(font: &str) -> bool {
    // Each of them has this symbol.
    symbol(font, 0x21).is_some() || symbol(font, 0x61).is_some()
}

/// Returns a text in a font with its symbols as characters of Unicode. Characters outside of the
/// private use area are what they are: Word writes symbols only there.
#[must_use]
pub fn with_symbols(font: &str, text: &str) -> String {
    let converted = text.chars().map(|character| match character {
        '\u{F020}'..='\u{F0FF}' => symbol(font, u32::from(character)).unwrap_or(character),
        _ => character,
    });
    converted.collect()
}

/// The encoding of the font Symbol (Adobe, "Symbol Set"), from 0x20 and from 0xA1 on.
fn greek(code: u8) -> Option<char> {
    const LOW: &str = " !∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_\
        \u{203E}αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼";
    const HIGH: &str = "ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…⏐⎯↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊〈®©™∑\
        ⎛⎜⎝⎡⎢⎣⎧⎨⎩⎪\u{FFFD}〉∫⌠⎮⌡⎞⎟⎠⎤⎥⎦⎫⎬⎭";
    let found = match code {
        0x20..=0x7E => LOW.chars().nth(usize::from(code - 0x20)),
        0xA0 => Some('€'),
        0xA1..=0xFE => HIGH.chars().nth(usize::from(code - 0xA1)),
        _ => None,
    };
    found.filter(|character| *character != char::REPLACEMENT_CHARACTER)
}

/// The encoding of Zapf Dingbats, which has the order of the Unicode block that is named after it.
fn dingbat(code: u8) -> Option<char> {
    match code {
        b' ' => Some(' '),
        0x21..=0x7E => char::from_u32(0x2700 + u32::from(code) - 0x20),
        0xA1..=0xEF | 0xF1..=0xFE => char::from_u32(0x2760 + u32::from(code) - 0xA0),
        _ => None,
    }
}

fn in_table(table: &[(u8, char)], code: u8) -> Option<char> {
    table.iter().find(|(known, _)| *known == code).map(|(_, character)| *character)
}

// The symbols of Microsoft's fonts that texts use, by the names of the glyphs in Unicode
// (L2/11-149, "Wingdings and Webdings symbols").
const WINGDINGS: &[(u8, char)] = &[
    (0x20, ' '),
    (0x21, '🖉'),
    (0x22, '✂'),
    (0x23, '✁'),
    (0x26, '🕮'),
    (0x28, '☎'),
    (0x29, '✆'),
    (0x2A, '🖂'),
    (0x2D, '📬'),
    (0x36, '⌛'),
    (0x37, '⌨'),
    (0x38, '🖰'),
    (0x3A, '🖳'),
    (0x3E, '✇'),
    (0x3F, '✍'),
    (0x41, '✌'),
    (0x43, '👍'),
    (0x44, '👎'),
    (0x45, '☜'),
    (0x46, '☞'),
    (0x47, '☝'),
    (0x48, '☟'),
    (0x4A, '☺'),
    (0x4B, '😐'),
    (0x4C, '☹'),
    (0x4D, '💣'),
    (0x4E, '☠'),
    (0x51, '✈'),
    (0x52, '☼'),
    (0x54, '❄'),
    (0x58, '✠'),
    (0x59, '✡'),
    (0x61, '♋'),
    (0x6C, '●'),
    (0x6D, '❍'),
    (0x6E, '■'),
    (0x6F, '□'),
    (0x70, '🞐'),
    (0x71, '❑'),
    (0x72, '❒'),
    (0x73, '⬧'),
    (0x74, '⧫'),
    (0x75, '◆'),
    (0x76, '❖'),
    (0x77, '⬥'),
    (0x78, '⌧'),
    (0x7B, '❀'),
    (0x7C, '✿'),
    (0x7D, '❝'),
    (0x7E, '❞'),
    (0x80, '⓪'),
    (0x81, '①'),
    (0x82, '②'),
    (0x83, '③'),
    (0x84, '④'),
    (0x85, '⑤'),
    (0x86, '⑥'),
    (0x87, '⑦'),
    (0x88, '⑧'),
    (0x89, '⑨'),
    (0x8A, '⑩'),
    (0x8B, '⓿'),
    (0x8C, '❶'),
    (0x8D, '❷'),
    (0x8E, '❸'),
    (0x8F, '❹'),
    (0x90, '❺'),
    (0x91, '❻'),
    (0x92, '❼'),
    (0x93, '❽'),
    (0x94, '❾'),
    (0x95, '❿'),
    (0x9E, '·'),
    (0x9F, '•'),
    (0xA0, '▪'),
    (0xA1, '⚪'),
    (0xA4, '◉'),
    (0xA5, '◎'),
    (0xA7, '▪'),
    (0xA8, '◻'),
    (0xAB, '★'),
    (0xB5, '⌖'),
    (0xD5, '⌫'),
    (0xD6, '⌦'),
    (0xD8, '➢'),
    (0xDC, '➲'),
    (0xDF, '🡠'),
    (0xE0, '→'),
    (0xE1, '🡡'),
    (0xE2, '🡣'),
    (0xE8, '➔'),
    (0xEF, '⇦'),
    (0xF0, '⇨'),
    (0xF1, '⇧'),
    (0xF2, '⇩'),
    (0xF3, '⬄'),
    (0xF4, '⇳'),
    (0xFB, '✗'),
    (0xFC, '✓'),
    (0xFD, '☒'),
    (0xFE, '☑'),
];

const WINGDINGS_2: &[(u8, char)] = &[
    (0x20, ' '),
    (0x21, '🖊'),
    (0x4F, '✗'),
    (0x50, '✓'),
    (0x51, '☒'),
    (0x52, '☑'),
    (0x53, '☒'),
    (0x54, '☒'),
    (0x97, '●'),
    (0xA2, '■'),
    (0xA3, '□'),
];

const WINGDINGS_3: &[(u8, char)] = &[
    (0x20, ' '),
    (0x21, '→'),
    (0x22, '↑'),
    (0x23, '↓'),
    (0x66, '←'),
    (0x67, '→'),
    (0x68, '↑'),
    (0x69, '↓'),
    (0x70, '▲'),
    (0x71, '▼'),
    (0x74, '◀'),
    (0x75, '▶'),
    (0x7D, '▶'),
];

const WEBDINGS: &[(u8, char)] = &[
    (0x20, ' '),
    (0x33, '⏴'),
    (0x34, '⏵'),
    (0x35, '⏶'),
    (0x36, '⏷'),
    (0x61, '✓'),
    (0x63, '□'),
    (0x67, '■'),
    (0x69, 'ℹ'),
    (0x6E, '●'),
    (0x72, '✗'),
    (0x78, '✗'),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_characters() {
        for (font, code, expected) in [
            ("Symbol", 0xF061, Some('α')),
            ("Symbol", 0x44, Some('Δ')),
            ("Symbol", 0x57, Some('Ω')),
            ("Symbol", 0x7E, Some('∼')),
            ("Symbol", 0xF0B7, Some('•')),
            ("Symbol", 0xF0A3, Some('≤')),
            ("Symbol", 0xF0D0, Some('∠')),
            ("Symbol", 0xF0D7, Some('⋅')),
            ("Symbol", 0xF0E5, Some('∑')),
            ("Symbol", 0xF0F2, Some('∫')),
            ("Symbol", 0xF0FE, Some('⎭')),
            ("Symbol", 0xF0F0, None),
            ("Wingdings", 0xF0FC, Some('✓')),
            ("ZapfDingbats", 0x34, Some('✔')),
            ("Arial", 0x41, None),
            ("Symbol", 0x3B1, None),
        ] {
            assert_eq!(symbol(font, code), expected, "{font} {code:x}");
        }
        assert_eq!(with_symbols("Symbol", "x \u{F0A3} a"), "x ≤ a");
        assert!(is_symbol_font("Wingdings") && !is_symbol_font("Times"));
    }
}
