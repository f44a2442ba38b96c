//! Repairs JSON with halves of surrogate pairs, which are valid JSON but no text.

use memchr::memmem;

/// Returns the JSON with `\ufffd` in place of each unpaired surrogate; `None` if it has none.
///
/// Servers write them for strings that were cut in the middle of an emoji: Python's `json.dumps`
/// and, before ES2019, `JSON.stringify`. `serde_json` refuses them.
#[must_use]
pub fn without_unpaired_surrogates(json: &str) -> Option<String> {
    // Texts have many backslashes, but few have surrogates.
    if ["\\ud", "\\uD"]
        .iter()
        .all(|start| memmem::find(json.as_bytes(), start.as_bytes()).is_none())
    {
        return None;
    }
    let mut repaired: Option<String> = None;
    let mut copied = 0;
    let mut at = 0;
    // Backslashes stand only in strings.
    while let Some(found) = memchr::memchr(b'\\', &json.as_bytes()[at..]) {
        let escape = at + found;
        at = match (code_at(json, escape), code_at(json, escape + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => escape + 12,
            (Some(0xd800..=0xdfff), _) => {
                let out = repaired.get_or_insert_default();
                out.push_str(&json[copied..escape]);
                out.push_str("\\ufffd");
                copied = escape + 6;
                copied
            }
            (Some(_), _) => escape + 6,
            // The character after the backslash may be another backslash.
            (None, _) => json.len().min(escape + 2),
        };
        at = json.ceil_char_boundary(at);
    }
    let mut repaired = repaired?;
    repaired.push_str(&json[copied..]);
    Some(repaired)
}

/// Returns the code of the escape `\uXXXX` at this position.
fn code_at(json: &str, at: usize) -> Option<u16> {
    let digits = json.get(at..at + 6)?.strip_prefix("\\u")?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn only_halves_are_replaced() {
        for (json, want) in [
            (r#""a\udfffb""#, Some("a\u{fffd}b")),
            (r#""\ud83d""#, Some("\u{fffd}")),
            (r#""\ud83d\ud83d\ude00""#, Some("\u{fffd}\u{1f600}")),
            (r#""\ud83d\ude00 \\udfff \u00e9 ä""#, None),
            ("\"\\", None),
        ] {
            let repaired = without_unpaired_surrogates(json);
            let text = repaired.map(|json| serde_json::from_str::<String>(&json).unwrap());
            assert_eq!(text.as_deref(), want, "{json}");
        }
    }

    proptest! {
        #[test]
        fn any_escapes_become_readable(codes in prop::collection::vec(0xd7f0_u16..0xe010, 0..8)) {
            let escapes: String = codes.iter().map(|code| format!("\\u{code:04x}")).collect();
            let json = format!("[\"{escapes}\"]");
            let repaired = without_unpaired_surrogates(&json).unwrap_or_else(|| json.clone());
            prop_assert!(serde_json::from_str::<Value>(&repaired).is_ok(), "{repaired}");
            prop_assert_eq!(serde_json::from_str::<Value>(&json).is_ok(), repaired == json);
        }

        #[test]
        fn any_text_is_read(text in ".{0,40}|(\\\\u?d?[89c-f]?[0-9a-f]?ä?){0,9}") {
            let _ = without_unpaired_surrogates(&text);
        }
    }
}
