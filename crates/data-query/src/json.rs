//! Tells JSON from NDJSON.

use serde::de::IgnoredAny;

/// Lines of a text that are looked at to find one that is JSON.
const MAX_PROBED_LINES: usize = 20;

/// Returns the text without a byte order mark.
pub(crate) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Returns whether each line of a text is JSON of its own. Some lines may be broken.
pub(crate) fn is_ndjson(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let (Some(first), Some(second)) = (lines.next(), lines.next()) else { return false };
    if is_json(first) {
        return true;
    }
    // A line of JSON in several lines may be JSON, too.
    let probed = [second].into_iter().chain(lines).take(MAX_PROBED_LINES);
    let mut probed = probed.filter(|line| line.starts_with(['{', '[']));
    probed.any(is_json) && !is_json(text)
}

/// What decides how much a parser needs for a JSON text: the deepest nesting of its brackets, and
/// the length of its longest number. Nothing in strings counts.
#[cfg(feature = "jq")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct JsonExtent {
    pub(crate) depth: usize,
    pub(crate) number_bytes: usize,
}

#[cfg(feature = "jq")]
impl JsonExtent {
    pub(crate) fn of(json: &[u8]) -> Self {
        let mut extent = Self::default();
        let mut depth = 0_usize;
        let mut number_bytes = 0;
        let mut bytes = json.iter();
        while let Some(byte) = bytes.next() {
            if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'+') {
                number_bytes += 1;
                extent.number_bytes = extent.number_bytes.max(number_bytes);
                continue;
            }
            number_bytes = 0;
            match byte {
                b'"' => skip_string(&mut bytes),
                b'[' | b'{' => {
                    depth += 1;
                    extent.depth = extent.depth.max(depth);
                }
                b']' | b'}' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        extent
    }
}

/// Goes to the end of a string whose first quote has passed.
#[cfg(feature = "jq")]
fn skip_string(bytes: &mut std::slice::Iter<'_, u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => drop(bytes.next()),
            _ => {}
        }
    }
}

/// Returns whether a text is one JSON value. It does not recurse.
fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "jq")]
    #[test]
    fn nesting_and_numbers_of_json_are_measured() {
        for (text, depth, number_bytes) in [
            (r#"{"a": [-12.5e3, {}]}"#, 3, 7),
            (r#"["[[[ 123456", "\"[[", 1]"#, 1, 1),
            ("]][[", 2, 0),
            ("\"[[", 0, 0),
        ] {
            let extent = JsonExtent::of(text.as_bytes());
            assert_eq!(extent, JsonExtent { depth, number_bytes }, "{text}");
        }
    }

    #[test]
    fn ndjson_is_told_from_json() {
        for (text, want) in [
            ("{\"a\":1}\n{\"a\":2}\n", true),
            ("\n1\n\n2\n", true),
            ("{\"a\":\n{\"a\":2}\n", true),
            ("# comment\n{\"a\":1}\n{\"a\":2}\n", true),
            ("{\"a\":1}\n", false),
            ("{\n\"a\": 1\n}\n", false),
            ("[\n[1],\n[2]\n]", false),
            ("[\n[1]\n]", false),
            ("a,b\n1,2\n", false),
            ("", false),
        ] {
            assert_eq!(is_ndjson(text), want, "{text}");
        }
    }
}
