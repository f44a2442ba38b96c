//! Text of endpoints, made safe to show.

use marquetry_printable::changes_layout;

/// Maximum characters of a text that are shown.
const MAX_CHARS: usize = 400;

/// Returns a text on one line, without control characters and marks of writing direction, with
/// `secret` replaced by `…`, cut to 400 characters. An empty `secret` replaces nothing.
///
/// The secret is replaced after invisible characters are removed, because they could hide it, and
/// before the cut, because the cut could leave a part of it.
pub fn displayable(text: &str, secret: &str) -> String {
    let shown: String = text.chars().filter(|one| is_shown(*one)).collect();
    let mut text = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    if !secret.is_empty() {
        text = text.replace(secret, "…");
    }
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None if text.is_empty() => "no reason given".to_owned(),
        None => text,
    }
}

/// Leaves out control characters and marks that change the direction of writing.
fn is_shown(one: char) -> bool {
    one.is_whitespace() || !(one.is_control() || changes_layout(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_one_short_line_of_visible_characters() {
        for (text, want) in [
            ("", "no reason given"),
            (" \r\n", "no reason given"),
            ("\u{1b}[31mred\u{7}\u{202e}\r\nbad\u{2066}", "[31mred bad"),
        ] {
            assert_eq!(displayable(text, ""), want);
        }
        assert_eq!(displayable(&"ä".repeat(1000), "").chars().count(), 401);
    }
}
