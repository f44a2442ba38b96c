//! Bounds the nesting of what is recorded.

use serde_json::Value;

/// Levels of nesting that arguments and results may have. Readers of JSON stop at 128 levels, and
/// stores and reports add some.
pub(crate) const MAX_LEVELS: usize = 64;

/// Returns whether a value has more levels of arrays and objects than [`MAX_LEVELS`].
pub(crate) fn is_deep(value: &Value) -> bool {
    is_deeper(value, MAX_LEVELS)
}

fn is_deeper(value: &Value, levels: usize) -> bool {
    let mut items: Box<dyn Iterator<Item = &Value>> = match value {
        Value::Array(items) => Box::new(items.iter()),
        Value::Object(members) => Box::new(members.values()),
        _ => return false,
    };
    levels == 0 || items.any(|item| is_deeper(item, levels - 1))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns a value with twice as many levels as `pairs`.
    fn nested(pairs: usize) -> Value {
        (0..pairs).fold(json!(1), |inner, _| json!({"a": [inner]}))
    }

    #[test]
    fn levels_are_counted() {
        assert!(!is_deep(&nested(MAX_LEVELS / 2)));
        assert!(is_deep(&nested(MAX_LEVELS / 2 + 1)));
        assert!(is_deep(&json!([{}, nested(MAX_LEVELS)])));
        assert!(!is_deep(&json!("text")));
    }
}
