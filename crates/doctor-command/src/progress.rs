//! The progress line on a terminal: which servers have not answered yet.

use std::{
    io::IsTerminal as _,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};
use marquetry_printable::printable_line;

/// A line on standard error, if that is a terminal.
pub(crate) struct Progress {
    bar: ProgressBar,
    waiting: Mutex<Vec<String>>,
}

impl Progress {
    pub(crate) fn new(names: impl Iterator<Item = String>, is_shown: bool) -> Self {
        let waiting: Vec<String> = names.collect();
        let is_shown = is_shown && std::io::stderr().is_terminal();
        let bar =
            if is_shown { ProgressBar::new(waiting.len() as u64) } else { ProgressBar::hidden() };
        if let Ok(style) =
            ProgressStyle::with_template("{spinner} {pos}/{len} {elapsed} waiting for {wide_msg}")
        {
            bar.set_style(style);
        }
        if is_shown {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        let progress = Self { bar, waiting: Mutex::new(waiting) };
        progress.show();
        progress
    }

    /// Counts a server whose report is complete.
    pub(crate) fn done(&self, name: &str) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|other| other != name);
        drop(waiting);
        self.bar.inc(1);
        self.show();
    }

    fn show(&self) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        self.bar.set_message(printable_line(&waiting.join(", ")));
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
