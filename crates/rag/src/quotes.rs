//! Replaces typographic quotes, because people type straight quotes in searches.

use std::borrow::Cow;

/// Replaces typographic quotes by straight ones (seed 003, `replaceSmartQuotes`).
///
/// ```
/// assert_eq!(marquetry_rag::straighten_quotes("“Hello” and ‘World’"), "\"Hello\" and 'World'");
/// ```
pub fn straighten_quotes(text: &str) -> Cow<'_, str> {
    if !text.contains(|character| straight(character).is_some()) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|character| straight(character).unwrap_or(character)).collect())
}

fn straight(character: char) -> Option<char> {
    match character {
        '\u{2018}'..='\u{201B}' => Some('\''),
        '\u{201C}'..='\u{201F}' => Some('"'),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// seed: 003/DocumentUtilExtractionTest.testSmartQuoteNormalization
    #[test]
    fn quotes_are_straightened() {
        assert_eq!(
            straighten_quotes("\u{201C}Hello\u{201D} and \u{2018}World\u{2019}"),
            "\"Hello\" and 'World'"
        );
    }
}
