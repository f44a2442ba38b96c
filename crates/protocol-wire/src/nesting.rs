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

/// Returns the JSON with `null` in place of each array and object that is nested more than `max`
/// levels deep; [`None`] if none is.
#[must_use]
pub fn without_deep_values(json: &str, max: usize) -> Option<String> {
    let mut out = String::new();
    let mut copied = 0;
    let mut depth = 0_usize;
    let mut rest = json.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        let at = json.len() - rest.len();
        rest = after;
        match byte {
            b'"' => rest = after_string(after),
            b'{' | b'[' => {
                if depth == max {
                    out.push_str(json.get(copied..at)?);
                    out.push_str("null");
                }
                depth += 1;
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == max {
                    copied = at + 1;
                }
            }
            _ => {}
        }
    }
    (copied > 0).then(|| out + json.get(copied..).unwrap_or_default())
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

    #[test]
    fn deep_values_become_null() {
        for (json, max, want) in [
            (
                r#"{"a":[[1],2,[]],"b":{"c":"[{"}}"#,
                2,
                Some(r#"{"a":[null,2,null],"b":{"c":"[{"}}"#),
            ),
            (r#"{"a":[[1],2,[]],"b":{"c":"[{"}}"#, 1, Some(r#"{"a":null,"b":null}"#)),
            (r#"{"a":[[1],2,[]],"b":{"c":"[{"}}"#, 3, None),
            ("[]", 0, Some("null")),
            ("1", 0, None),
        ] {
            assert_eq!(without_deep_values(json, max).as_deref(), want, "{json} {max}");
        }
        // Text that is not JSON gives any result, without a panic.
        for broken in ["[[", "]]", "[[ä]ä", "\"[[", "[[]"] {
            _ = without_deep_values(broken, 1);
        }
    }

    #[track_caller]
    fn check(json: &str, depth: usize) {
        assert!(!nested_deeper_than(json.as_bytes(), depth));
        assert!(depth == 0 || nested_deeper_than(json.as_bytes(), depth - 1));
    }
}
