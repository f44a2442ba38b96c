#![doc = include_str!("../README.md")]

mod escape;
mod html;
mod junit;
mod tap;

use std::{fmt, time::Duration};

pub use self::{escape::escape, html::html, junit::junit, tap::tap};

/// Tests that ran together.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Suite {
    /// Name of the suite, such as `scenarios`.
    pub name: String,
    /// The tests, in the order of the report.
    pub tests: Vec<Test>,
    /// Time from the start of the first test to the end of the last one.
    pub elapsed: Duration,
    /// Panics of the process that ran the tests. They are errors that belong to no single test.
    pub panics: usize,
}

impl Suite {
    /// Returns a suite without tests.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), tests: Vec::new(), elapsed: Duration::ZERO, panics: 0 }
    }

    /// Returns the number of tests with this status.
    pub fn count(&self, status: Status) -> usize {
        self.tests.iter().filter(|test| test.status == status).count()
    }
}

/// A test and its outcome.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Test {
    /// Name of the test, without that of its group.
    pub name: String,
    /// Group of the test, which JUnit calls its class.
    pub group: Option<String>,
    /// File that describes the test.
    pub file: Option<String>,
    /// What the test is about, in a sentence.
    pub about: String,
    /// How the test ended.
    pub status: Status,
    /// Time that the test took.
    pub elapsed: Duration,
    /// When the test began, as RFC 3339 writes it.
    pub timestamp: Option<String>,
    /// Why the test did not pass, or was left out. The first line is the summary.
    pub reason: Option<String>,
    /// How the trials of a repeated test ended, in words.
    pub trials: Option<String>,
    /// The course of the test as HTML, for its page. The text in it went through [`escape`].
    pub details: String,
}

impl Test {
    /// Returns a test without group, reason and details.
    pub fn new(name: impl Into<String>, status: Status, elapsed: Duration) -> Self {
        Self {
            name: name.into(),
            group: None,
            file: None,
            about: String::new(),
            status,
            elapsed,
            timestamp: None,
            reason: None,
            trials: None,
            details: String::new(),
        }
    }

    /// Returns the name after that of the group.
    fn full_name(&self) -> String {
        match &self.group {
            Some(group) => format!("{group}/{}", self.name),
            None => self.name.clone(),
        }
    }

    /// Returns the first line of the reason.
    fn summary(&self) -> &str {
        self.reason.as_deref().and_then(|reason| reason.lines().next()).unwrap_or_default()
    }
}

/// How a test ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The test passed.
    Passed,
    /// The tested program is at fault.
    Failed,
    /// The test could not be run or judged.
    Error,
    /// The test was left out.
    Skipped,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Error => "error",
            Self::Skipped => "skipped",
        })
    }
}

/// Returns seconds with three decimals.
fn seconds(elapsed: Duration) -> String {
    format!("{:.3}", elapsed.as_secs_f64())
}

#[cfg(test)]
mod tests;
