//! The difference between two texts for people, in the unified format, without secrets.

use std::ops::Range;

use marquetry_redact::{is_secret_variable, looks_secret, without_secret_values};

/// Lines of context around a change.
const CONTEXT: usize = 3;

/// Above this product of changed lines, the lines between the first and the last change are shown
/// as removed and added as a whole.
const MAX_CELLS: usize = 4_000_000;

/// Returns the unified difference of two texts; empty if they are equal.
///
/// Values that look secret are shown as `…`: the lines around a change may belong to other servers.
#[must_use]
pub fn unified(name: &str, before: &str, after: &str) -> String {
    if before == after {
        return String::new();
    }
    let old: Vec<&str> = before.split_inclusive('\n').collect();
    let new: Vec<&str> = after.split_inclusive('\n').collect();
    let mut text = format!("--- {name}\n+++ {name}\n");
    for hunk in hunks(&steps(&old, &new)) {
        text.push_str(&hunk_text(&hunk, &old, &new));
    }
    text
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Same(usize, usize),
    Removed(usize),
    Added(usize),
}

fn steps(old: &[&str], new: &[&str]) -> Vec<Step> {
    let head = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let rest_old = &old[head..];
    let rest_new = &new[head..];
    let tail = rest_old.iter().rev().zip(rest_new.iter().rev()).take_while(|(a, b)| a == b).count();
    let old_changed = head..old.len() - tail;
    let new_changed = head..new.len() - tail;
    let mut steps: Vec<Step> = (0..head).map(|at| Step::Same(at, at)).collect();
    steps.extend(changed_steps(old, new, old_changed.clone(), new_changed.clone()));
    steps.extend((0..tail).map(|at| Step::Same(old_changed.end + at, new_changed.end + at)));
    steps
}

/// Returns the steps between two ranges of lines, by their longest common subsequence.
fn changed_steps(
    old: &[&str],
    new: &[&str],
    old_range: Range<usize>,
    new_range: Range<usize>,
) -> Vec<Step> {
    let rows = old_range.len();
    let columns = new_range.len();
    if rows.saturating_mul(columns) > MAX_CELLS {
        return old_range.map(Step::Removed).chain(new_range.map(Step::Added)).collect();
    }
    let width = columns + 1;
    let mut lengths = vec![0_u32; (rows + 1) * width];
    for row in (0..rows).rev() {
        for column in (0..columns).rev() {
            let is_same = old[old_range.start + row] == new[new_range.start + column];
            lengths[row * width + column] = if is_same {
                lengths[(row + 1) * width + column + 1] + 1
            } else {
                lengths[(row + 1) * width + column].max(lengths[row * width + column + 1])
            };
        }
    }
    let mut steps = Vec::new();
    let mut row = 0;
    let mut column = 0;
    while row < rows || column < columns {
        let at_old = old_range.start + row;
        let at_new = new_range.start + column;
        if row < rows && column < columns && old[at_old] == new[at_new] {
            steps.push(Step::Same(at_old, at_new));
            row += 1;
            column += 1;
        } else if column == columns
            || (row < rows
                && lengths[(row + 1) * width + column] >= lengths[row * width + column + 1])
        {
            steps.push(Step::Removed(at_old));
            row += 1;
        } else {
            steps.push(Step::Added(at_new));
            column += 1;
        }
    }
    steps
}

/// Returns the changes with the lines around them; changes that are close share a hunk.
fn hunks(steps: &[Step]) -> Vec<Vec<Step>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        if matches!(step, Step::Same(..)) {
            continue;
        }
        let range = at.saturating_sub(CONTEXT)..(at + CONTEXT + 1).min(steps.len());
        match ranges.last_mut() {
            Some(last) if range.start <= last.end => last.end = range.end,
            _ => ranges.push(range),
        }
    }
    ranges.into_iter().map(|range| steps[range].to_vec()).collect()
}

fn hunk_text(steps: &[Step], old: &[&str], new: &[&str]) -> String {
    let mut lines = String::new();
    let mut old_lines = Vec::new();
    let mut new_lines = Vec::new();
    for step in steps {
        let (mark, line) = match *step {
            Step::Same(at_old, at_new) => {
                old_lines.push(at_old);
                new_lines.push(at_new);
                (' ', old[at_old])
            }
            Step::Removed(at) => {
                old_lines.push(at);
                ('-', old[at])
            }
            Step::Added(at) => {
                new_lines.push(at);
                ('+', new[at])
            }
        };
        lines.push(mark);
        lines.push_str(&without_secret(line.trim_end_matches(['\n', '\r'])));
        lines.push('\n');
        if !line.ends_with('\n') {
            lines.push_str("\\ No newline at end of file\n");
        }
    }
    let header = format!("@@ -{} +{} @@\n", position(&old_lines), position(&new_lines));
    header + &lines
}

fn position(lines: &[usize]) -> String {
    match lines.first() {
        Some(first) => format!("{},{}", first + 1, lines.len()),
        None => "0,0".to_owned(),
    }
}

/// Stands for a secret, and for the rest of a long line.
const HIDDEN: &str = "…";

/// The most characters of a line that are shown. Some files are one line.
const MAX_LINE: usize = 600;

/// Replaces what looks secret in a line of JSON, TOML or YAML, and cuts a long line.
fn without_secret(line: &str) -> String {
    let quoted = without_quoted_secrets(line);
    let safe = without_plain_secret(&quoted);
    match safe.char_indices().nth(MAX_LINE) {
        Some((at, _)) => format!("{}{HIDDEN}", &safe[..at]),
        None => safe,
    }
}

/// Replaces the strings in double or single quotes that look secret, or whose key does.
fn without_quoted_secrets(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find(['"', '\'']) {
        let quote = rest.as_bytes()[at];
        let inside = &rest[at + 1..];
        let end = end_of_string(inside, quote);
        out.push_str(&rest[..at]);
        let value = &inside[..end];
        let is_secret = is_secret_variable(key_before(&out)) || looks_secret(value);
        let is_reference = value.starts_with("${") || value.contains("://");
        let shown = if is_secret && !is_reference && !value.is_empty() { HIDDEN } else { value };
        out.push(char::from(quote));
        out.push_str(shown);
        // An unclosed string ends with the line.
        let after = (end + 1).min(inside.len());
        out.push_str(&inside[end..after]);
        rest = &inside[after..];
    }
    out.push_str(rest);
    out
}

fn end_of_string(inside: &str, quote: u8) -> usize {
    let bytes = inside.as_bytes();
    let mut at = 0;
    while at < bytes.len() && bytes[at] != quote {
        at += if bytes[at] == b'\\' && quote == b'"' { 2 } else { 1 };
    }
    // A backslash at the end of the line may have led beyond it, or into a character.
    inside.floor_char_boundary(at)
}

/// Returns the key before a value: the word before `:` or `=`.
fn key_before(text: &str) -> &str {
    let before = text.trim_end();
    let Some(key) = before.strip_suffix([':', '=']) else { return "" };
    let key = key.trim_end().trim_end_matches(['"', '\'']);
    let start = key.rfind(['"', '\'', '{', ',', ' ']).map_or(0, |found| found + 1);
    &key[start..]
}

/// Replaces a value without quotes, as YAML has it.
fn without_plain_secret(line: &str) -> String {
    let Some(at) = line.find(": ") else { return without_secret_values(line, HIDDEN).into_owned() };
    let name = line[..at].trim();
    let value = line[at + 2..].trim();
    let is_plain = !value.is_empty() && !value.starts_with(['"', '\'', '{', '[', '$', '…']);
    if is_plain && (is_secret_variable(name) || looks_secret(value)) && !value.contains("://") {
        return format!("{}: {HIDDEN}", &line[..at]);
    }
    without_secret_values(line, HIDDEN).into_owned()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn changes_have_lines_around_them() {
        let before = "1\n2\n3\n4\n5\n6\n7\n8\n8\n9\n10\n11\n12";
        let after = "1\n2\n3\n4\nnew\n6\n7\n8\n8\n9\n10\n11\n12\nend\n";
        expect![[r"
            --- f
            +++ f
            @@ -2,7 +2,7 @@
             2
             3
             4
            -5
            +new
             6
             7
             8
            @@ -10,4 +10,5 @@
             9
             10
             11
            -12
            \ No newline at end of file
            +12
            +end
        "]]
        .assert_eq(&unified("f", before, after));
        assert_eq!(unified("f", before, before), "");
    }

    #[test]
    fn secrets_are_hidden() {
        let before = "\"API_KEY\": \"sk-1234567890abcdef\",\nGITHUB_TOKEN = \"x\"\na: 1\n";
        let text = unified("f", before, &format!("{before}b: 2\n"));
        assert!(!text.contains("sk-1234") && !text.contains("\"x\""), "{text}");
        assert!(text.contains(" a: 1\n+b: 2\n"), "{text}");
        for (line, want) in [
            (
                r#"{"a": {"env": {"API_KEY": "hush", "REGION": "eu"}, "url": "https://a.example/1"}}"#,
                r#"{"a": {"env": {"API_KEY": "…", "REGION": "eu"}, "url": "https://a.example/1"}}"#,
            ),
            ("env = { API_KEY = \"hush\", A = '1' }", "env = { API_KEY = \"…\", A = '1' }"),
            ("  GITHUB_TOKEN: hush", "  GITHUB_TOKEN: …"),
            ("  token: '${TOKEN}'", "  token: '${TOKEN}'"),
            ("\"KEY\": \"a\\\\", "\"KEY\": \"…"),
            ("it's: ü\\", "it's: ü\\"),
        ] {
            assert_eq!(without_secret(line), want);
        }
        let long = without_secret(&"x ".repeat(MAX_LINE));
        assert_eq!(long.chars().count(), MAX_LINE + 1);
    }

    proptest::proptest! {
        #[test]
        fn any_line_is_shown(line in ".{0,40}", odd in "[\"'\\\\:=ü ]{0,12}") {
            without_secret(&line);
            without_secret(&odd);
        }

        #[test]
        fn the_new_lines_are_all_there(before in "[ab\n]{0,30}", after in "[ab\n]{0,30}") {
            let old: Vec<&str> = before.split_inclusive('\n').collect();
            let new: Vec<&str> = after.split_inclusive('\n').collect();
            let mut made_old = Vec::new();
            let mut made_new = Vec::new();
            for step in steps(&old, &new) {
                match step {
                    Step::Same(a, b) => {
                        proptest::prop_assert_eq!(old[a], new[b]);
                        made_old.push(old[a]);
                        made_new.push(new[b]);
                    }
                    Step::Removed(at) => made_old.push(old[at]),
                    Step::Added(at) => made_new.push(new[at]),
                }
            }
            proptest::prop_assert_eq!(made_old, old);
            proptest::prop_assert_eq!(made_new, new);
        }
    }
}
