//! Estimates the memory of a JSON text as a parsed value.

use crate::nesting::after_string;

/// Memory of one `serde_json::Value`, when maps keep their order.
const VALUE: usize = 72;

/// Smallest capacity of an array or an object that is not empty.
const MIN_CAPACITY: usize = 4;

/// Memory of an object's member: key, hash and value, and its place in the table.
const MEMBER: usize = VALUE + 24 + 8 + 16;

/// Memory of the table of an object that is not empty.
const TABLE: usize = 64;

/// Overhead of a text on the heap.
const TEXT: usize = 16;

/// Returns about how many bytes of memory `json` takes as a `serde_json::Value`: many times its
/// length for lists of small values. The estimate is rather too high than too low, as arrays and
/// objects grow by doubling.
///
/// For text that is not JSON the result is arbitrary, but there is no panic.
#[must_use]
pub fn parsed_size(json: &[u8]) -> usize {
    let mut size = VALUE;
    // Whether each open container is an object.
    let mut open: Vec<bool> = Vec::new();
    let mut rest = json;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'"' => {
                let end = after_string(after);
                size += after.len() - end.len() + TEXT;
                rest = end;
            }
            b'[' | b'{' => {
                rest = after.trim_ascii_start();
                let is_object = *byte == b'{';
                if !rest.first().is_some_and(|next| matches!(next, b']' | b'}')) {
                    let table = if is_object { TABLE } else { 0 };
                    size += MIN_CAPACITY * slot(is_object) + table + TEXT;
                }
                open.push(is_object);
            }
            b']' | b'}' => _ = open.pop(),
            b',' => size += 2 * slot(open.last().is_some_and(|is_object| *is_object)),
            _ => {}
        }
    }
    size
}

fn slot(is_object: bool) -> usize {
    if is_object { MEMBER } else { VALUE }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn lists_of_small_values_take_many_times_their_text() {
        for (item, at_least) in [("0", 70), ("[]", 45), ("{}", 45), (r#"{"a":0}"#, 70)] {
            let json = format!("[{}]", vec![item; 10_000].join(","));
            check(&json);
            let times = parsed_size(json.as_bytes()) / json.len();
            assert!(times >= at_least, "{item}: {times}");
        }
    }

    #[test]
    fn the_estimate_is_not_too_low() {
        for json in ["1", "[]", "{ }", r#"{"a":[[["x"]],{"b":null,"c":{}}],"":[ ]}"#, r#""\"[[[[""#]
        {
            check(json);
        }
        let text = format!(r#"["{}"]"#, "x,[".repeat(10_000));
        check(&text);
        assert!(parsed_size(text.as_bytes()) < text.len() + 1_000, "a text takes its length");
        assert_eq!(parsed_size(b"]]}}"), VALUE);
    }

    #[track_caller]
    fn check(json: &str) {
        let value: Value = serde_json::from_str(json).unwrap();
        let size = parsed_size(json.as_bytes());
        assert!(size >= VALUE + heap(&value), "{size} < {}", VALUE + heap(&value));
    }

    /// Returns the memory of a value on the heap, as far as its public interface tells it.
    fn heap(value: &Value) -> usize {
        match value {
            Value::String(text) => text.capacity(),
            Value::Array(items) => {
                items.capacity() * size_of::<Value>() + items.iter().map(heap).sum::<usize>()
            }
            Value::Object(members) => members
                .iter()
                .map(|(name, value)| name.capacity() + size_of::<(String, Value)>() + heap(value))
                .sum(),
            _ => 0,
        }
    }
}
