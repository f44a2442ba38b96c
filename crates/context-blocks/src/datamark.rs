//! Datamarking: a mark in the place of every space of retrieved text, so that a model can tell it from instructions
//! (Hines et al. 2024, "spotlighting", arXiv:2403.14720).

use serde_json::Value;

/// A character that occurs in no string of the value; none only if all 6,400 private ones do.
pub(crate) fn choose(value: &Value) -> Option<char> {
    // The private use area: no other text gives these a meaning.
    ('\u{E000}'..='\u{F8FF}').find(|&mark| !occurs(value, mark))
}

fn occurs(value: &Value, mark: char) -> bool {
    match value {
        Value::String(text) => text.contains(mark),
        Value::Array(items) => items.iter().any(|item| occurs(item, mark)),
        Value::Object(fields) => fields.values().any(|item| occurs(item, mark)),
        _ => false,
    }
}

/// Replaces the spaces in all strings (keys are the caller's own and stay).
pub(crate) fn add(value: &mut Value, mark: char) {
    replace(value, ' ', mark);
}

/// Takes the marks out again.
pub(crate) fn remove(value: &mut Value, mark: char) {
    replace(value, mark, ' ');
}

fn replace(value: &mut Value, from: char, to: char) {
    match value {
        Value::String(text) if text.contains(from) => {
            *text = text.replace(from, to.encode_utf8(&mut [0; 4]))
        }
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, from, to)),
        Value::Object(fields) => fields.values_mut().for_each(|item| replace(item, from, to)),
        _ => {}
    }
}
