//! Where the command writes, and whom it asks.

use std::io::{self, IsTerminal as _, Write as _};

/// Output and questions of the command.
pub(crate) trait Terminal {
    /// Prints a text.
    fn print(&mut self, text: &str);

    /// Returns the answer to a question; `None` if nobody can be asked.
    fn ask(&mut self, question: &str) -> Option<bool>;
}

/// Standard input and output.
pub(crate) struct StandardTerminal;

impl Terminal for StandardTerminal {
    fn print(&mut self, text: &str) {
        // A closed pipe is not a failure.
        _ = io::stdout().write_all(text.as_bytes());
    }

    fn ask(&mut self, question: &str) -> Option<bool> {
        if !io::stdin().is_terminal() {
            return None;
        }
        _ = io::stdout().flush();
        eprint!("{question} [y/N] ");
        _ = io::stderr().flush();
        let mut answer = String::new();
        io::stdin().read_line(&mut answer).ok()?;
        Some(matches!(answer.trim(), "y" | "Y" | "yes" | "Yes"))
    }
}
