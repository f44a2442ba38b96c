//! Ids in comments.

use std::sync::LazyLock;

use regex::Regex;

/// An id in a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) line: usize,
    /// The id, and text after it.
    pub(super) text: String,
    /// The name of the test that carries the id, or the problem.
    pub(super) test: Result<String, String>,
}

/// The problem with an id that no test carries.
pub(super) const NOT_ABOVE_A_TEST: &str = "the id is not directly above a test";

/// A comment with an id, anywhere in a line. A comment that cites an id as the source of a rule has
/// no colon.
static CLAIM: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?://[/!]?|#|\*)\s*seed: ?(\d{3}/.*)$").expect("a valid expression")
});

/// Returns whether a line has a comment with an id.
pub(super) fn is_claim(line: &str) -> bool {
    CLAIM.is_match(line)
}

/// Returns whether a line has nothing but a comment.
pub(super) fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

/// Returns the ids in comments; `test` finds the test of an id by the index of its line.
pub(super) fn in_comments(
    text: &str,
    test: impl Fn(usize) -> Result<String, String>,
) -> Vec<Claim> {
    text.lines()
        .enumerate()
        .filter_map(|(index, line)| {
            let claim = CLAIM.captures(line)?.get(1)?.as_str().trim_end();
            Some(Claim { line: index + 1, text: claim.to_owned(), test: test(index) })
        })
        .collect()
}
