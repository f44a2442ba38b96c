#![doc = include_str!("../README.md")]

use std::fmt;

/// A pattern for a whole name or URI.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Glob {
    text: String,
    tokens: Vec<Token>,
}

/// A part of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Token {
    Char(char),
    /// One character; with `true` not `/`.
    One {
        in_segment: bool,
    },
    /// Any text; with `true` without `/`.
    Any {
        in_segment: bool,
    },
}

/// Why a text is not a pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GlobError {
    /// The pattern is empty.
    #[error("the pattern is empty; \"*\" matches every name, and \"**\" every URI")]
    Empty,
    /// The pattern is too long.
    #[error("the pattern has more than {} characters", Glob::MAX_CHARS)]
    TooLong,
    /// The pattern has more than two `*` in a row.
    #[error("'***' has no meaning; write '*' or '**'")]
    Stars,
    /// The pattern has a character that other kinds of patterns use for alternatives or classes.
    #[error("'{0}' is not supported; write one pattern for each alternative")]
    Unsupported(char),
    /// The pattern has a control character.
    #[error("the pattern has a control character, which no name has")]
    Control,
}

impl Glob {
    /// Maximum number of characters of a pattern.
    pub const MAX_CHARS: usize = 512;

    /// Parses a pattern for names: `*` matches any text.
    ///
    /// # Errors
    /// Returns an error if the text is not a pattern.
    pub fn for_names(text: impl Into<String>) -> Result<Self, GlobError> {
        let text = text.into();
        match text.chars().find(|char| "{}[]".contains(*char)) {
            Some(char) => Err(GlobError::Unsupported(char)),
            None => Self::new(text, false),
        }
    }

    /// Parses a pattern for URIs: `*` matches any text without `/`, `**` any text.
    ///
    /// # Errors
    /// Returns an error if the text is not a pattern.
    pub fn for_uris(text: impl Into<String>) -> Result<Self, GlobError> {
        Self::new(text.into(), true)
    }

    fn new(text: String, has_segments: bool) -> Result<Self, GlobError> {
        if text.is_empty() {
            return Err(GlobError::Empty);
        }
        if text.chars().nth(Self::MAX_CHARS).is_some() {
            return Err(GlobError::TooLong);
        }
        if text.contains("***") {
            return Err(GlobError::Stars);
        }
        if text.contains(char::is_control) {
            return Err(GlobError::Control);
        }
        let mut tokens = Vec::new();
        let mut chars = text.chars().peekable();
        while let Some(char) = chars.next() {
            tokens.push(match char {
                '*' => {
                    let is_double = chars.next_if_eq(&'*').is_some();
                    Token::Any { in_segment: has_segments && !is_double }
                }
                '?' => Token::One { in_segment: has_segments },
                char => Token::Char(char),
            });
        }
        Ok(Self { text, tokens })
    }

    /// Returns the pattern as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns whether the pattern matches the whole text.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        // The characters before the first wildcard decide most matches.
        let mut rest = text.chars();
        let literals = self.tokens.iter().take_while(|token| matches!(token, Token::Char(_)));
        let mut before = 0;
        for token in literals {
            if !rest.next().is_some_and(|char| token.takes(char)) {
                return false;
            }
            before += 1;
        }
        let tokens = &self.tokens[before..];
        // All positions in the pattern that the text so far can have reached: no pattern makes
        // the match try one part of the text again.
        let mut reached = vec![false; tokens.len() + 1];
        reached[0] = true;
        skip_empty(tokens, &mut reached);
        for char in rest {
            let mut next = vec![false; tokens.len() + 1];
            for (at, token) in tokens.iter().enumerate().filter(|(at, _)| reached[*at]) {
                if token.takes(char) {
                    next[if token.is_any() { at } else { at + 1 }] = true;
                }
            }
            skip_empty(tokens, &mut next);
            if !next.contains(&true) {
                return false;
            }
            reached = next;
        }
        reached[tokens.len()]
    }

    /// Returns whether the pattern matches every text that the other one matches. It may return
    /// false for some patterns that do.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let mut reached = vec![false; self.tokens.len() + 1];
        reached[0] = true;
        skip_empty(&self.tokens, &mut reached);
        for theirs in &other.tokens {
            let mut next = vec![false; self.tokens.len() + 1];
            for (at, ours) in self.tokens.iter().enumerate().filter(|(at, _)| reached[*at]) {
                if ours.covers(*theirs) {
                    next[if ours.is_any() { at } else { at + 1 }] = true;
                }
            }
            skip_empty(&self.tokens, &mut next);
            reached = next;
        }
        reached[self.tokens.len()]
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Token {
    fn takes(self, char: char) -> bool {
        match self {
            Self::Char(own) => own == char,
            Self::One { in_segment } | Self::Any { in_segment } => !in_segment || char != '/',
        }
    }

    fn is_any(self) -> bool {
        matches!(self, Self::Any { .. })
    }

    /// Returns whether this token takes each text of the other one.
    fn covers(self, other: Self) -> bool {
        match (self, other) {
            (Self::Char(_) | Self::One { .. } | Self::Any { .. }, Self::Char(char)) => {
                self.takes(char)
            }
            (
                Self::One { in_segment: ours } | Self::Any { in_segment: ours },
                Self::One { in_segment: theirs },
            )
            | (Self::Any { in_segment: ours }, Self::Any { in_segment: theirs }) => !ours || theirs,
            _ => false,
        }
    }
}

/// Adds the positions after wildcards that match the empty text.
fn skip_empty(tokens: &[Token], reached: &mut [bool]) {
    for (at, token) in tokens.iter().enumerate() {
        if reached[at] && token.is_any() {
            reached[at + 1] = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_match_whole_texts() {
        for (pattern, text, in_name, in_uri) in [
            ("*", "", true, true),
            ("*", "a/b", true, false),
            ("**", "a/b", true, true),
            ("?", "/", true, false),
            ("get_*", "get_", true, true),
            ("get_*", "forget_x", false, false),
            ("*secret*", "my_secret", true, true),
            ("a", "A", false, false),
            ("ä?", "äö", true, true),
            ("a://b/**", "a://b/c/d", true, true),
            ("a://b/**", "a://b", false, false),
            ("a://*/d", "a://b/c/d", true, false),
            ("a**b*c", "a/x/b/yc", true, false),
        ] {
            let name = Glob::for_names(pattern).unwrap();
            let uri = Glob::for_uris(pattern).unwrap();
            assert_eq!(
                (name.matches(text), uri.matches(text)),
                (in_name, in_uri),
                "{pattern} {text}"
            );
            assert_eq!(name.to_string(), pattern);
        }
    }

    #[test]
    fn a_hard_pattern_takes_linear_time() {
        assert!(
            !Glob::for_names(format!("{}b", "a*".repeat(200)))
                .unwrap()
                .matches(&"a".repeat(20_000))
        );
    }

    #[test]
    fn errors_say_what_to_write() {
        for (pattern, want) in [
            ("", GlobError::Empty),
            ("a***", GlobError::Stars),
            ("[ab]", GlobError::Unsupported('[')),
            ("a\n", GlobError::Control),
            (&"a".repeat(513), GlobError::TooLong),
        ] {
            assert_eq!(Glob::for_names(pattern), Err(want), "{pattern}");
        }
        assert!(Glob::for_uris("a://[::1]/{x}").is_ok());
        assert!(Glob::for_names("é".repeat(512)).is_ok());
    }

    #[test]
    fn a_pattern_covers_narrower_ones() {
        for (wide, narrow, want) in [
            ("*", "get_*", true),
            ("get_*", "*", false),
            ("get_*", "get_a?", true),
            ("*secret*", "get_secret", true),
            ("?", "*", false),
            ("**", "*", true),
        ] {
            let wide = Glob::for_uris(wide).unwrap();
            assert_eq!(wide.covers(&Glob::for_uris(narrow).unwrap()), want, "{wide} {narrow}");
        }
        assert!(!Glob::for_uris("*").unwrap().covers(&Glob::for_uris("**").unwrap()));
    }

    /// Matches by trying everything.
    fn naive(tokens: &[Token], text: &[char]) -> bool {
        match tokens.split_first() {
            None => text.is_empty(),
            Some((token, rest)) if token.is_any() => {
                naive(rest, text)
                    || text
                        .split_first()
                        .is_some_and(|(first, left)| token.takes(*first) && naive(tokens, left))
            }
            Some((token, rest)) => text
                .split_first()
                .is_some_and(|(first, left)| token.takes(*first) && naive(rest, left)),
        }
    }

    proptest! {
        #[test]
        fn matches_as_a_naive_matcher(pattern in "[ab/*?]{1,8}", text in "[ab/]{0,8}", uri: bool) {
            let glob = if uri { Glob::for_uris(pattern) } else { Glob::for_names(pattern) };
            if let Ok(glob) = glob {
                let chars: Vec<char> = text.chars().collect();
                prop_assert_eq!(glob.matches(&text), naive(&glob.tokens, &chars));
            }
        }

        #[test]
        fn a_covering_pattern_matches_what_the_other_matches(
            wide in "[ab/*?]{1,6}", narrow in "[ab/*?]{1,6}", text in "[ab/]{0,6}",
        ) {
            if let (Ok(wide), Ok(narrow)) = (Glob::for_uris(wide), Glob::for_uris(narrow))
                && wide.covers(&narrow) && narrow.matches(&text)
            {
                prop_assert!(wide.matches(&text), "{wide} {narrow} {text}");
            }
        }

        #[test]
        fn no_text_panics(pattern in ".*", text in ".*") {
            for glob in [Glob::for_names(pattern.clone()), Glob::for_uris(pattern)].into_iter().flatten() {
                _ = glob.matches(&text);
            }
        }
    }
}
