//! Joins words that are broken at the end of a line.

use std::collections::HashMap;

/// First parts of English compound words that keep their hyphen.
const FIRST_PARTS: [&str; 4] = ["half", "non", "self", "well"];
/// Conjunctions after a hyphen that stands for a part of a word: "Vor- und Nachteile".
const CONJUNCTIONS: [&str; 9] = ["und", "oder", "bzw", "and", "or", "to", "en", "och", "og"];

/// Returns whether a character may stand at the end of a broken word.
pub(crate) fn is_hyphen(character: char) -> bool {
    matches!(character, '-' | '\u{2010}' | SOFT)
}

/// A hyphen that is only visible at the end of a line.
const SOFT: char = '\u{ad}';

/// Joins the words of a page that are broken at the end of a line.
///
/// The hyphen of a compound word stays, which the other words of the page tell: the whole word with
/// its hyphen, or both parts as words of their own.
pub(crate) fn without_hyphens(text: &str) -> String {
    if !text.contains(is_hyphen) {
        return text.to_owned();
    }
    let mut words: HashMap<&str, usize> = HashMap::new();
    for word in text.split(|at: char| !at.is_alphanumeric() && at != '-') {
        *words.entry(word).or_default() += 1;
        if word.contains('-') {
            word.split('-').for_each(|part| *words.entry(part).or_default() += 1);
        }
    }
    let mut joined = String::with_capacity(text.len());
    let mut lines = text.split('\n').peekable();
    while let Some(line) = lines.next() {
        joined.push_str(line);
        let Some(next) = lines.peek() else { break };
        match join(line, next, &words) {
            Join::Line => joined.push('\n'),
            Join::WithHyphen => {}
            Join::Word => joined.truncate(joined.trim_end_matches(is_hyphen).len()),
        }
    }
    joined.retain(|character| character != SOFT);
    joined
}

/// How a line continues with the next one.
enum Join {
    /// With another word.
    Line,
    /// With the second part of a compound word.
    WithHyphen,
    /// With the rest of a word.
    Word,
}

fn join(line: &str, next: &str, words: &HashMap<&str, usize>) -> Join {
    let Some(before) = line.strip_suffix(is_hyphen) else { return Join::Line };
    // Browsers draw a soft hyphen without a width, and a visible one beside it.
    let is_soft = line.ends_with(SOFT) || before.ends_with(SOFT);
    let before = if is_soft { before.trim_end_matches(is_hyphen) } else { before };
    if !before.ends_with(char::is_alphanumeric) || !next.starts_with(char::is_alphanumeric) {
        return Join::Line;
    }
    if is_soft {
        return Join::Word;
    }
    let first = before.rsplit(|at: char| !at.is_alphanumeric()).next().unwrap_or(before);
    let second = next.split(|at: char| !at.is_alphanumeric()).next().unwrap_or(next);
    if CONJUNCTIONS.contains(&second) {
        return Join::Line;
    }
    let may_be_broken =
        before.ends_with(char::is_alphabetic) && next.starts_with(char::is_lowercase);
    if !may_be_broken {
        return Join::WithHyphen;
    }
    if words.contains_key(format!("{first}{second}").as_str()) {
        return Join::Word;
    }
    let is_compound = FIRST_PARTS.contains(&first.to_lowercase().as_str())
        || words.contains_key(format!("{first}-{second}").as_str())
        || (is_word(first, words) && is_word(second, words));
    if is_compound { Join::WithHyphen } else { Join::Word }
}

/// Returns whether a part of a broken word is a word elsewhere. The part itself counts once.
fn is_word(part: &str, words: &HashMap<&str, usize>) -> bool {
    words.get(part).is_some_and(|count| *count > 1)
}

#[cfg(test)]
mod tests {
    use super::without_hyphens;

    #[test]
    fn broken_words_are_joined() {
        check("the cli-\nmate ex-\nplained", "the climate explained");
        check("Donau\u{2010}\ndampf\u{ad}\nschiff", "Donaudampfschiff");
        check("soft\u{ad}ware", "software");
        check(
            "Sonnen\u{ad}\u{2010}\nschein und Sand\u{2010}\u{ad}\nbank",
            "Sonnenschein und Sandbank",
        );
    }

    #[test]
    fn compound_words_keep_their_hyphens() {
        check("a well-\nknown Anglo-\nSaxon", "a well-known Anglo-Saxon");
        check("in 2019-\n2020 of COVID-\n19", "in 2019-2020 of COVID-19");
        check("a data-\nbase and the data-base", "a data-base and the data-base");
        check("wind power, solar wind-\npower power", "wind power, solar wind-power power");
        check("a data-\nbase and the database", "a database and the database");
    }

    #[test]
    fn other_hyphens_stay() {
        check("Vor-\nund Nachteile -\nalle", "Vor-\nund Nachteile -\nalle");
        check("list:\n- one\n- two", "list:\n- one\n- two");
        check("the end-\n\nnext", "the end-\n\nnext");
    }

    #[track_caller]
    fn check(text: &str, want: &str) {
        assert_eq!(without_hyphens(text), want);
    }
}
