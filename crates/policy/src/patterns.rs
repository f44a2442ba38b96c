//! Lists of patterns, and what they allow of one kind of items.

use marquetry_glob::{Glob, GlobError};

use crate::{PolicyError, uri};

/// A list of patterns. It matches what any of them matches; an empty one matches nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patterns {
    globs: Vec<Glob>,
    /// Patterns for URIs with percent-encoding, as they match decoded URIs.
    decoded: Vec<Glob>,
}

impl Patterns {
    /// Maximum number of patterns of a list.
    pub const MAX: usize = 256;

    /// Parses patterns for names.
    ///
    /// # Errors
    /// Returns an error if one of them is not a pattern, or there are too many.
    pub fn names<T: Into<String>>(
        patterns: impl IntoIterator<Item = T>,
    ) -> Result<Self, PolicyError> {
        Self::parse(patterns, Glob::for_names)
    }

    /// Parses patterns for URIs. Scheme and host are compared without case.
    ///
    /// # Errors
    /// Returns an error if one of them is not a pattern, or there are too many.
    pub fn uris<T: Into<String>>(
        patterns: impl IntoIterator<Item = T>,
    ) -> Result<Self, PolicyError> {
        let mut parsed = Self::parse(patterns, |pattern: String| {
            if let Some(dots) = pattern.split('/').find(|segment| matches!(*segment, "." | "..")) {
                return Err(Problem::DotSegment(dots.to_owned()));
            }
            Glob::for_uris(uri::normal_pattern(&pattern)).map_err(Problem::Glob)
        })?;
        let decoded = parsed.globs.iter().filter_map(|glob| uri::decoded_pattern(glob.as_str()));
        parsed.decoded = decoded.filter_map(|pattern| Glob::for_uris(pattern).ok()).collect();
        Ok(parsed)
    }

    fn parse<T: Into<String>, E: Into<Problem>>(
        patterns: impl IntoIterator<Item = T>,
        parse: impl Fn(String) -> Result<Glob, E>,
    ) -> Result<Self, PolicyError> {
        let mut globs = Vec::new();
        for pattern in patterns {
            let pattern = pattern.into();
            if globs.len() == Self::MAX {
                return Err(PolicyError::TooManyPatterns);
            }
            let glob = parse(pattern.clone()).map_err(|problem| match problem.into() {
                Problem::Glob(problem) => PolicyError::Pattern { pattern, problem },
                Problem::DotSegment(segment) => PolicyError::DotSegment { pattern, segment },
            })?;
            globs.push(glob);
        }
        Ok(Self { globs, decoded: Vec::new() })
    }

    /// Returns whether any pattern matches the text.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        self.globs.iter().chain(&self.decoded).any(|pattern| pattern.matches(text))
    }

    /// Returns the patterns.
    pub fn iter(&self) -> impl Iterator<Item = &Glob> {
        self.globs.iter()
    }

    /// Returns whether it has no pattern.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.globs.is_empty()
    }
}

/// Why a text is not a pattern of a list.
enum Problem {
    Glob(GlobError),
    DotSegment(String),
}

impl From<GlobError> for Problem {
    fn from(error: GlobError) -> Self {
        Self::Glob(error)
    }
}

/// What a rule or a profile says about the items of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Access {
    /// The items that it allows. Absent, a rule allows none, and a profile all.
    pub allow: Option<Patterns>,
    /// The items that it denies, whatever else allows them.
    pub deny: Patterns,
}

impl Access {
    /// Creates one that says nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the items that are allowed.
    #[must_use]
    pub fn allow(self, patterns: Patterns) -> Self {
        Self { allow: Some(patterns), ..self }
    }

    /// Sets the items that are denied.
    #[must_use]
    pub fn deny(self, patterns: Patterns) -> Self {
        Self { deny: patterns, ..self }
    }
}
