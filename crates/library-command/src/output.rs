//! Writes to standard output.

use std::io::{self, Write as _};

use marquetry_printable::printable_json;

use crate::LibraryCommandError;

/// Writes bytes to standard output. A closed pipe is not a failure.
///
/// # Errors
/// Returns an error if they cannot be written.
pub fn write_to_stdout(bytes: &[u8]) -> Result<(), LibraryCommandError> {
    match io::stdout().lock().write_all(bytes) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(LibraryCommandError::new(format!("failed to write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes text.
pub(crate) fn print(text: &str) -> Result<(), LibraryCommandError> {
    write_to_stdout(text.as_bytes())
}

/// Writes JSON for programs, one value on each line.
pub(crate) fn print_json(value: &serde_json::Value) -> Result<(), LibraryCommandError> {
    print(&format!("{}\n", printable_json(&value.to_string())))
}
