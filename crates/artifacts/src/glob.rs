//! Patterns for names.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A pattern for a name: `*` is any text, `?` is one character, all others are themselves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Glob(String);

impl Glob {
    /// Creates a pattern. Every text is one.
    pub fn new(pattern: impl Into<String>) -> Self {
        Self(pattern.into())
    }

    /// Returns the pattern as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether the pattern matches the whole name.
    pub fn matches(&self, name: &str) -> bool {
        matches(&self.0, name, |one, char| one == '?' || one == char)
    }

    /// Returns whether the pattern matches every name that the other one matches.
    pub fn covers(&self, other: &Self) -> bool {
        // The other pattern's `*` stands for any text, so only our `*` takes it.
        matches(&self.0, &other.0, |one, char| char != '*' && (one == '?' || one == char))
    }
}

impl Default for Glob {
    /// Returns the pattern that matches every name.
    fn default() -> Self {
        Self::new("*")
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Matches a pattern in linear memory and at most quadratic time. `is_one` compares a character of
/// the pattern, other than `*`, with one of the text.
fn matches(pattern: &str, text: &str, is_one: fn(char, char) -> bool) -> bool {
    let mut rest = pattern.chars();
    let mut left = text.chars();
    // Where to go on if the last `*` has to take one more character.
    let mut retry = None;
    loop {
        let mut after = rest.clone();
        match after.next() {
            Some('*') => {
                rest = after;
                retry = Some((rest.clone(), left.clone()));
                continue;
            }
            Some(one) => {
                let mut further = left.clone();
                if further.next().is_some_and(|char| is_one(one, char)) {
                    rest = after;
                    left = further;
                    continue;
                }
            }
            None if left.as_str().is_empty() => return true,
            None => {}
        }
        let Some((pattern, mut skipped)) = retry else { return false };
        if skipped.next().is_none() {
            return false;
        }
        rest = pattern.clone();
        left = skipped.clone();
        retry = Some((pattern, skipped));
    }
}
