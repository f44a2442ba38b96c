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

/// Returns whether a text is one JSON value. It does not recurse.
fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

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
