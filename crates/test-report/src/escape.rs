/// Returns a text with the characters that XML and HTML reserve as entities, and with U+FFFD in
/// place of those that XML 1.0 forbids.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for one in text.chars() {
        match one {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\t' | '\n' => safe.push(one),
            _ if one.is_control() || matches!(one, '\u{fffe}' | '\u{ffff}') => {
                safe.push('\u{fffd}');
            }
            _ => safe.push(one),
        }
    }
    safe
}
