//! Standard error of an upstream: decides at which level each line is logged, and keeps the last
//! lines for health and errors.

use std::{
    collections::{HashSet, VecDeque, hash_map::DefaultHasher},
    hash::{Hash as _, Hasher as _},
    sync::{Mutex, MutexGuard, PoisonError},
};

use tracing::Level;

/// Last lines of one run, and hashes of the lines that were logged before.
#[derive(Default)]
pub(crate) struct StderrLog {
    state: Mutex<LineHistory>,
}

#[derive(Default)]
struct LineHistory {
    /// The last lines of this run.
    tail: VecDeque<String>,
    /// Hashes of the lines of earlier runs, and of tracebacks.
    known: HashSet<u64>,
    /// Hashes of this run's lines, which become known when it ends.
    current: HashSet<u64>,
    in_traceback: bool,
}

impl StderrLog {
    /// Lines that are kept of a run.
    const TAIL_LINES: usize = 20;
    /// Bytes that are kept of a line.
    const LINE_BYTES: usize = 400;
    /// Maximum number of lines that are recognized as repeated. When there are more, all are
    /// forgotten, and logged again when they are repeated.
    const KNOWN_LINES: usize = 2_000;

    /// Begins a new run. Lines of earlier runs count as repeated.
    pub(super) fn begin_run(&self) {
        let state = &mut *self.lock();
        state.tail.clear();
        state.in_traceback = false;
        let current = std::mem::take(&mut state.current);
        state.known.extend(current);
    }

    /// Keeps a line and returns its log level: `DEBUG` if an earlier run or traceback had the same
    /// line, otherwise `INFO`.
    pub(super) fn take(&self, line: &str) -> Level {
        let state = &mut *self.lock();
        if state.tail.len() >= Self::TAIL_LINES {
            state.tail.pop_front();
        }
        state.tail.push_back(line[..line.floor_char_boundary(Self::LINE_BYTES)].to_owned());

        let hash = hash_of(line);
        let is_known = state.known.contains(&hash);
        if state.known.len() + state.current.len() >= Self::KNOWN_LINES {
            state.known.clear();
            state.current.clear();
        }
        if state.is_traceback(line) {
            state.known.insert(hash)
        } else {
            state.current.insert(hash)
        };
        if is_known { Level::DEBUG } else { Level::INFO }
    }

    /// Returns the last lines of this run, oldest first.
    pub(crate) fn tail(&self) -> Vec<String> {
        self.lock().tail.iter().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, LineHistory> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LineHistory {
    /// Returns whether a line belongs to a traceback. A traceback ends with the first line that is
    /// not indented: the error.
    fn is_traceback(&mut self, line: &str) -> bool {
        let is_indented = line.starts_with([' ', '\t']);
        let is_head = line.contains("Traceback (most recent call last)")
            || line.starts_with("thread '") && line.contains(" panicked at ");
        let was_in = self.in_traceback;
        self.in_traceback = is_head || was_in && is_indented;
        // The frames of a JavaScript error come after its message, and have no head.
        is_head || was_in || is_indented && line.trim_start().starts_with("at ")
    }
}

/// Returns the hash of a line without its numbers. Times, process ids and addresses differ between
/// repeated lines.
fn hash_of(line: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    let words = line.split(|c: char| !c.is_alphanumeric());
    words.filter(|word| !word.contains(|c: char| c.is_ascii_digit())).for_each(|word| {
        word.hash(&mut hasher);
    });
    hasher.finish()
}

/// Returns the last lines as text to follow a description of the failure; empty if there are none.
pub(super) fn last_lines(lines: &[String]) -> String {
    const LINES: usize = 5;
    const BYTES: usize = 600;
    let last = &lines[lines.len().saturating_sub(LINES)..];
    if last.is_empty() {
        return String::new();
    }
    let text = last.join("\n");
    let text = &text[text.ceil_char_boundary(text.len().saturating_sub(BYTES))..];
    format!("; it last wrote to standard error:\n{text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_an_earlier_run_are_logged_for_debugging() {
        let log = StderrLog::default();
        for (run, want) in [(1, Level::INFO), (2, Level::DEBUG), (3, Level::DEBUG)] {
            log.begin_run();
            for line in ["12:00:01 starting", "fatal: no key"] {
                let line = line.replace("12:00:01", &format!("12:00:0{run}"));
                assert_eq!(log.take(&line), want, "{run}: {line}");
            }
        }
        assert_eq!(log.take("something else"), Level::INFO);
        assert_eq!(
            log.take("something else"),
            Level::INFO,
            "within one run it is logged each time"
        );
    }

    #[test]
    fn a_repeated_traceback_is_logged_for_debugging() {
        let traceback = [
            "Traceback (most recent call last):",
            "  File \"server.py\", line 7, in call",
            "    raise ValueError(path)",
            "ValueError: no such path",
        ];
        let log = StderrLog::default();
        for want in [Level::INFO, Level::DEBUG] {
            assert_eq!(log.take("a call"), Level::INFO);
            for line in traceback {
                assert_eq!(log.take(line), want, "{line}");
            }
            for line in ["Error: lost", "    at call (server.js:7:3)"] {
                let want = if line.starts_with("Error") { Level::INFO } else { want };
                assert_eq!(log.take(line), want, "{line}");
            }
        }
    }

    #[test]
    fn the_tail_is_bounded() {
        let log = StderrLog::default();
        for number in 0..50 {
            log.take(&format!("{number} {}", "é".repeat(1_000)));
        }
        let tail = log.tail();
        assert_eq!(tail.len(), StderrLog::TAIL_LINES);
        assert!(tail[0].starts_with("30 é") && tail[0].len() <= StderrLog::LINE_BYTES);
        assert!(last_lines(&tail).len() < 700);
        assert_eq!(last_lines(&[]), "");
        log.begin_run();
        assert_eq!(log.tail(), [""; 0]);
    }
}
