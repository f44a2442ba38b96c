//! Reports of failed cases, for people.

use std::fmt::Write as _;

use crate::language::Mismatch;

/// A failure: its place in the scenario, and the differences.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failure {
    /// The step's number from 1, its line and its name; `None` before the first and after the last
    /// step.
    pub(crate) step: Option<(usize, u64, String)>,
    /// Error message of a failure that is not a difference.
    pub(crate) message: Option<String>,
    pub(crate) mismatches: Vec<Mismatch>,
    /// The whole outcome of the step, which shows the context of a difference.
    pub(crate) actual: Option<String>,
    /// Health report of the server, if it is not healthy.
    pub(crate) health: Option<String>,
}

impl Failure {
    pub(crate) fn text(message: impl Into<String>) -> Self {
        Self { message: Some(message.into()), ..Self::default() }
    }

    /// Formats the report without the case's name, `width` characters wide. `file` is the path of
    /// the scenario.
    pub(crate) fn report(&self, file: &str, rerun: &str, width: usize) -> String {
        let mut text = match &self.step {
            Some((number, line, name)) => format!("{file}:{line}: step {number}, {name}\n"),
            None => format!("{file}\n"),
        };
        if let Some(message) = &self.message {
            let _ = writeln!(text, "\n  {}", message.replace('\n', "\n  "));
        }
        for mismatch in &self.mismatches {
            let _ = writeln!(text, "\n  at {}", mismatch.at);
            text.push_str(&side_by_side(&mismatch.expected, &mismatch.actual, width));
        }
        if let Some(actual) = &self.actual {
            let _ =
                writeln!(text, "\n  the whole outcome:\n    {}", actual.replace('\n', "\n    "));
        }
        if let Some(health) = &self.health {
            let _ = writeln!(text, "\n  the server is unhealthy: {health}");
        }
        let _ = writeln!(text, "\n  rerun: {rerun}");
        text
    }
}

/// Formats two columns, `expected` and `actual`.
fn side_by_side(expected: &str, actual: &str, width: usize) -> String {
    let column = (width.saturating_sub(7) / 2).max(20);
    let expected_lines = wrap(expected, column);
    let actual_lines = wrap(actual, column);
    let mut text = format!("    {:column$} │ actual\n", "expected");
    for index in 0..expected_lines.len().max(actual_lines.len()) {
        let left = expected_lines.get(index).map_or("", String::as_str);
        let right = actual_lines.get(index).map_or("", String::as_str);
        let _ = writeln!(text, "    {left:column$} │ {right}");
    }
    text
}

/// Breaks text into lines of at most `column` characters. The middle of long text is left out.
fn wrap(text: &str, column: usize) -> Vec<String> {
    const MAX: usize = 24;
    let mut lines = Vec::new();
    for line in text.lines() {
        let chars: Vec<char> = line.chars().collect();
        lines.extend(chars.chunks(column).map(|chunk| chunk.iter().collect::<String>()));
        if line.is_empty() {
            lines.push(String::new());
        }
    }
    if lines.len() > MAX {
        let cut = lines.len() - MAX;
        lines.splice(MAX / 2..MAX / 2 + cut, [format!("… {cut} lines …")]);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_shown_side_by_side() {
        let failure = Failure {
            step: Some((2, 31, "call docs__fetch".into())),
            mismatches: vec![Mismatch {
                at: "capture/status".into(),
                expected: "\"processed_and_saved\"".into(),
                actual: "\"processed\"".into(),
            }],
            ..Failure::default()
        };
        let want = "\
s/a.yaml:31: step 2, call docs__fetch

  at capture/status
    expected             │ actual
    \"processed_and_saved │ \"processed\"
    \"                    │ 

  rerun: cargo xtask test-scenarios --exact a
";
        let report = failure.report("s/a.yaml", "cargo xtask test-scenarios --exact a", 47);
        assert_eq!(report, want);
    }

    #[test]
    fn long_values_are_cut_in_the_middle() {
        let lines = wrap(&"x".repeat(1000), 10);
        assert_eq!(lines.len(), 25);
        assert_eq!(lines[12], "… 76 lines …");
    }
}
