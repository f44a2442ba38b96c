//! Datamarking: marks the white space of retrieved text, so that a model can tell the text from
//! instructions (Hines et al. 2024, "spotlighting", arXiv:2403.14720).

use serde_json::Value;

/// Chooses a private character that no string of the value contains; none when the strings contain
/// all 6,400.
pub(crate) fn choose(value: &Value) -> Option<char> {
    // The private use area: these characters have no meaning in other text.
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

/// Marks the white space in all strings; keys stay as they are, since callers choose them. The mark
/// replaces a space, and precedes other white space, which is kept to tell which it was.
pub(crate) fn add(value: &mut Value, mark: char) {
    each_string(value, &|text| {
        text.contains(is_space).then(|| {
            let mut marked = String::with_capacity(text.len() * 2);
            for character in text.chars() {
                if is_space(character) {
                    marked.push(mark);
                }
                if character != ' ' {
                    marked.push(character);
                }
            }
            marked
        })
    });
}

/// Removes the marks.
pub(crate) fn remove(value: &mut Value, mark: char) {
    each_string(value, &|text| {
        text.contains(mark).then(|| {
            let mut plain = String::with_capacity(text.len());
            let mut characters = text.chars().peekable();
            while let Some(character) = characters.next() {
                if character != mark {
                    plain.push(character);
                } else if !characters.peek().is_some_and(|&next| next != ' ' && is_space(next)) {
                    plain.push(' ');
                }
            }
            plain
        })
    });
}

/// Returns whether a character is white space, or separates words invisibly.
fn is_space(character: char) -> bool {
    character.is_whitespace()
        || matches!(
            character,
            '\u{115F}'
                | '\u{1160}'
                | '\u{180E}'
                | '\u{200B}'
                | '\u{2060}'
                | '\u{2800}'
                | '\u{3164}'
                | '\u{FEFF}'
                | '\u{FFA0}'
        )
}

fn each_string(value: &mut Value, change: &impl Fn(&str) -> Option<String>) {
    match value {
        Value::String(text) => {
            if let Some(changed) = change(text) {
                *text = changed;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| each_string(item, change)),
        Value::Object(fields) => fields.values_mut().for_each(|item| each_string(item, change)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_kind_of_white_space_is_marked_and_comes_back() {
        let kinds =
            " \t\n\r\u{b}\u{c}\u{85}\u{a0}\u{1680}\u{2003}\u{2028}\u{202f}\u{3000}\u{200b}\u{2800}";
        for kind in kinds.chars() {
            let text = format!("ignore{kind}all{kind}{kind} {kind}of it {kind}");
            let mut value = json!([text]);
            add(&mut value, 'M');
            let marked = value[0].as_str().unwrap().to_owned();
            assert!(marked.starts_with("ignoreM"), "{kind:?}: {marked:?}");
            assert!(!marked.contains(' '), "{kind:?}: {marked:?}");
            // No white space is without a mark before it.
            let characters: Vec<char> = marked.chars().collect();
            let unmarked = characters.windows(2).find(|pair| is_space(pair[1]) && pair[0] != 'M');
            assert_eq!(unmarked, None, "{kind:?}: {marked:?}");
            remove(&mut value, 'M');
            assert_eq!(value, json!([text]), "{kind:?}");
        }
    }
}
