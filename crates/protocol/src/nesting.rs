//! How deep a JSON text is nested, found without parsing it.

/// Whether arrays and objects in `json` lie more than `most` deep.
///
/// Parsers that recurse need the answer before they start. Text that is not JSON gets some answer, and no panic.
#[must_use]
pub fn nested_deeper_than(json: &[u8], most: usize) -> bool {
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => in_string = !in_string,
            b'\\' if in_string => _ = bytes.next(),
            b'{' | b'[' if !in_string => {
                depth += 1;
                if depth > most {
                    return true;
                }
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
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
        check("1", 0);
    }

    #[track_caller]
    fn check(json: &str, depth: usize) {
        assert!(!nested_deeper_than(json.as_bytes(), depth));
        assert!(depth == 0 || nested_deeper_than(json.as_bytes(), depth - 1));
    }
}
