//! Changes within a line, word by word.

use crate::difference::{Edit, difference};

/// The marks around removed and added words.
const MARKS: [&str; 4] = ["[-", "-]", "{+", "+}"];

/// Returns a line with the removed and the added words marked. `None` if the lines have too little
/// in common, or contain the marks.
pub(crate) fn marked_words(old: &str, new: &str) -> Option<String> {
    if MARKS.iter().any(|mark| old.contains(mark) || new.contains(mark)) {
        return None;
    }
    let words_of_old = words(old);
    let words_of_new = words(new);
    let edits = difference(&words_of_old, &words_of_new);
    let kept = edits.iter().map(|edit| match edit {
        Edit::Kept(word) if !word.trim().is_empty() => word.len(),
        _ => 0,
    });
    if kept.sum::<usize>() * 3 < old.len().min(new.len()) {
        return None;
    }
    let mut line = String::new();
    let mut removed = String::new();
    let mut added = String::new();
    for edit in edits {
        match edit {
            Edit::Removed(word) => removed.push_str(word),
            Edit::Added(word) => added.push_str(word),
            Edit::Kept(word) => {
                flush(&mut line, &mut removed, &mut added);
                line.push_str(word);
            }
        }
    }
    flush(&mut line, &mut removed, &mut added);
    Some(line)
}

fn flush(line: &mut String, removed: &mut String, added: &mut String) {
    if !removed.is_empty() {
        line.push_str(&format!("[-{removed}-]"));
    }
    if !added.is_empty() {
        line.push_str(&format!("{{+{added}+}}"));
    }
    removed.clear();
    added.clear();
}

/// Splits a line into words, runs of spaces, and single other characters.
fn words(line: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut start = 0;
    let mut last = None;
    for (at, character) in line.char_indices() {
        let class = if character.is_alphanumeric() {
            1
        } else if character == ' ' {
            2
        } else {
            3
        };
        if at > 0 && (last != Some(class) || class == 3) {
            words.push(&line[start..at]);
            start = at;
        }
        last = Some(class);
    }
    words.push(&line[start..]);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(old: &str, new: &str, want: Option<&str>) {
        assert_eq!(marked_words(old, new).as_deref(), want);
    }

    #[test]
    fn words_are_marked_where_lines_are_alike() {
        check("Adds two numbers.", "Adds two numbers.", Some("Adds two numbers."));
        check("Adds two numbers.", "Adds three numbers.", Some("Adds [-two-]{+three+} numbers."));
        check("Adds numbers.", "Adds numbers. Reads keys.", Some("Adds numbers.{+ Reads keys.+}"));
        check("Adds numbers.", "Deletes everything", None);
        check("a [-b-] c", "a [-b-] d", None);
        check("", "x", Some("{+x+}"));
    }
}
