//! Measures the nesting of a JSON text without parsing it.

/// Returns whether arrays and objects in `json` are nested more than `max` levels deep.
///
/// Recursive parsers must know this before they start. For text that is not JSON the result is
/// arbitrary, but there is no panic.
#[must_use]
pub fn nested_deeper_than(json: &[u8], max: usize) -> bool {
    if json.len() <= max {
        return false;
    }
    let mut depth = 0_usize;
    let mut rest = json;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'"' => rest = after_string(after),
            b'{' | b'[' => {
                depth += 1;
                if depth > max {
                    return true;
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

/// Returns the text after a string. `json` begins after the opening quote of the string.
pub(crate) fn after_string(json: &[u8]) -> &[u8] {
    let mut rest = json;
    loop {
        let Some(at) = memchr::memchr2(b'"', b'\\', rest) else { return &[] };
        if rest[at] == b'"' {
            return &rest[at + 1..];
        }
        // A character after a backslash does not end the string.
        rest = rest.get(at + 2..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_only_brackets_outside_of_strings() {
        check("[]", 1);
        check("[[],[[]]]", 3);
        check(r#"{"a":"[[[[","b":["\"[",{}]}"#, 3);
        check(r#""[[[[\\""#, 0);
        check(&format!(r#"["{}\"[[","{}"]"#, "x".repeat(70), "[".repeat(40)), 1);
        check(r#"["[[[["#, 1);
        check(r#"["[\"#, 1);
        check("1", 0);
    }

    #[track_caller]
    fn check(json: &str, depth: usize) {
        assert!(!nested_deeper_than(json.as_bytes(), depth));
        assert!(depth == 0 || nested_deeper_than(json.as_bytes(), depth - 1));
    }
}
