//! Shows progress while the cases run.

use std::{io::IsTerminal as _, sync::Arc, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};

use super::{
    case::Case,
    report::{FinishedCase, Status, say},
};

/// A line for each finished case on standard output, and on a terminal one line that moves.
#[derive(Clone)]
pub(crate) struct Progress {
    bar: Arc<ProgressBar>,
    prints: bool,
}

impl Progress {
    /// Creates the progress of a run. `prints` says whether standard output is for people.
    pub(crate) fn new(cases: usize, prints: bool) -> Self {
        let bar = if std::io::stderr().is_terminal() {
            let bar = ProgressBar::new(cases as u64);
            let style = "{bar:30} {pos}/{len} {elapsed} {msg}";
            bar.set_style(
                ProgressStyle::with_template(style)
                    .unwrap_or_else(|_| ProgressStyle::default_bar()),
            );
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        } else {
            ProgressBar::hidden()
        };
        if prints {
            say(&format!("\nrunning {cases} tests\n"));
        }
        Self { bar: Arc::new(bar), prints }
    }

    pub(crate) fn start(&self, case: &Case) {
        self.bar.set_message(case.to_string());
    }

    pub(crate) fn finish(&self, finished: &FinishedCase) {
        if self.prints {
            let outcome = match &finished.status {
                Status::Passed => "ok".into(),
                Status::Failed(_) => "FAILED".into(),
                Status::Error(_) => "ERROR".into(),
                Status::Skipped(why) => format!("ignored, {why}"),
            };
            self.bar.suspend(|| say(&format!("test {} ... {outcome}\n", finished.case)));
        }
        self.bar.inc(1);
    }

    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }
}
