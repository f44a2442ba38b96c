//! The first and the last lines that a server writes to standard error during its start.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use marquetry_gateway::{Observed, Observer, Origin};
use marquetry_protocol::server::RequestContext;

/// Lines that are kept of the beginning, and as many of the end.
const LINES: usize = 100;
/// Bytes that are kept of a line.
const LINE_BYTES: usize = 400;

/// Keeps lines. The gateway keeps the last 20, and the error of a long stack comes before them.
#[derive(Debug, Default)]
pub(crate) struct Transcript(Mutex<TranscriptLines>);

#[derive(Debug, Default)]
struct TranscriptLines {
    first: Vec<String>,
    last: VecDeque<String>,
}

impl Transcript {
    pub(crate) fn lines(&self) -> Vec<String> {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.first.iter().chain(&lines.last).cloned().collect()
    }

    fn push(&self, line: &str) {
        let line = line[..line.floor_char_boundary(LINE_BYTES)].to_owned();
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.first.len() < LINES {
            lines.first.push(line);
            return;
        }
        if lines.last.len() >= LINES {
            lines.last.pop_front();
        }
        lines.last.push_back(line);
    }
}

impl Observer for Transcript {
    fn is_watching(&self) -> bool {
        true
    }

    fn origin(&self, _: &RequestContext) -> Origin {
        Origin::default()
    }

    fn observe(&self, _: &str, _: Option<&Origin>, observed: &Observed<'_>) {
        if let Observed::Stderr(line) = observed {
            self.push(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_and_the_end_are_kept() {
        let transcript = Transcript::default();
        for number in 0..1_000 {
            transcript.push(&format!("{number} {}", "é".repeat(1_000)));
        }
        let lines = transcript.lines();
        assert_eq!(lines.len(), 2 * LINES);
        assert!(lines[99].starts_with("99 é") && lines[100].starts_with("900 é"));
        assert!(lines.iter().all(|line| line.len() <= LINE_BYTES));
    }
}
