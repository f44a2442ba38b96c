//! Writes to standard output.

use std::io::{self, Write as _};

use crate::Failed;

/// Writes bytes. A closed pipe is not a failure.
pub(crate) fn write(bytes: &[u8]) -> Result<(), Failed> {
    match io::stdout().lock().write_all(bytes) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failed::new(format!("failed to write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes text.
pub(crate) fn print(text: &str) -> Result<(), Failed> {
    write(text.as_bytes())
}

/// Writes JSON for programs, one value on each line.
pub(crate) fn print_json(value: &serde_json::Value) -> Result<(), Failed> {
    print(&format!("{value}\n"))
}
