//! Live progress: a line for each finished case and, on a terminal, the current step of the others.

use std::{
    io::{IsTerminal as _, Write as _},
    time::Duration,
};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use marquetry_judge::{Status, TestEvent, TestResult};

use crate::summary::one_line;

/// The progress of a run.
pub(crate) struct Progress {
    bars: MultiProgress,
    all: ProgressBar,
    /// Whether lines for finished cases are printed. They are not if a report goes to standard
    /// output.
    prints: bool,
}

/// The line of a running case.
#[derive(Clone)]
pub(crate) struct Line(ProgressBar);

impl Progress {
    pub(crate) fn new(total: usize, prints: bool) -> Self {
        let bars = MultiProgress::new();
        let is_terminal = std::io::stderr().is_terminal();
        let all = if is_terminal { ProgressBar::new(total as u64) } else { ProgressBar::hidden() };
        let all = bars.add(all);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed}") {
            all.set_style(style);
        }
        Self { bars, all, prints }
    }

    pub(crate) fn start(&self, name: &str) -> Line {
        let bar =
            if self.all.is_hidden() { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
        let bar = self.bars.insert_before(&self.all, bar);
        bar.set_prefix(one_line(name));
        if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix}: {wide_msg}") {
            bar.set_style(style);
        }
        Line(bar)
    }

    pub(crate) fn end(&self, line: &Line, result: &TestResult) {
        line.0.finish_and_clear();
        self.all.inc(1);
        if !self.prints {
            return;
        }
        let verdict = match result.status {
            Status::Passed => "ok",
            Status::Failed => "FAILED",
            Status::Error => "ERROR",
        };
        let counts = result.counts();
        let trials = match result.trials.len() {
            0 | 1 => String::new(),
            many => format!(", {} of {many} trials", counts.passed),
        };
        let name = one_line(&result.test_case.name);
        let text = format!("test {name} ... {verdict} ({} ms{trials})\n", result.duration);
        // The progress bars are hidden meanwhile. A closed pipe is not a failure.
        self.bars.suspend(|| _ = std::io::stdout().lock().write_all(text.as_bytes()));
    }

    /// Prints a warning on standard error, also if standard output is a report.
    pub(crate) fn warn(&self, text: &str) {
        self.bars.suspend(|| _ = writeln!(std::io::stderr().lock(), "{}", one_line(text)));
    }

    pub(crate) fn finish(&self) {
        self.all.finish_and_clear();
    }
}

/// Shows that long work is still running, until it is dropped.
pub(crate) struct Spinner(ProgressBar);

impl Spinner {
    pub(crate) fn new(message: String) -> Self {
        let bar = if std::io::stderr().is_terminal() {
            ProgressBar::new_spinner()
        } else {
            ProgressBar::hidden()
        };
        bar.set_message(message);
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

impl Line {
    pub(crate) fn show(&self, event: &TestEvent) {
        self.0.set_message(one_line(&described(event)));
    }
}

/// Describes the current step, as part of a sentence.
fn described(event: &TestEvent) -> String {
    match event {
        TestEvent::TrialStarted { trial, of: 1 } if *trial == 0 => {
            "starting its servers".to_owned()
        }
        TestEvent::TrialStarted { trial, of } => format!("trial {} of {of}", trial + 1),
        TestEvent::Connected { tools, .. } => format!("{tools} tools; the model works"),
        TestEvent::Turn { .. } | TestEvent::CallEnded { .. } => "the model works".to_owned(),
        TestEvent::CallStarted { tool_name, server_id, .. } => {
            format!("calling {server_id}/{tool_name}")
        }
        TestEvent::Vote { vote, .. } => format!("the judge has voted {} times", vote.index + 1),
        TestEvent::TrialEnded { trial, status, .. } => format!("trial {} {status}", trial + 1),
        _ => String::new(),
    }
}
