//! The question of a search.

use std::io::{self, Read as _};

use marquetry_rag::SearchRequest;

use crate::LibraryCommandError;

/// Returns the question on the command line; `-` reads standard input.
pub(crate) fn question(words: &[String]) -> Result<String, LibraryCommandError> {
    /// Maximum number of bytes that are read: one byte over the limit shows that a question is too
    /// long.
    const MAX_READ: u64 = SearchRequest::MAX_TEXT_BYTES as u64 + 1;
    let question = if matches!(words, [word] if word == "-") {
        let mut bytes = Vec::new();
        io::stdin().lock().take(MAX_READ).read_to_end(&mut bytes).map_err(|error| {
            LibraryCommandError::new(format!("failed to read standard input: {error}"))
        })?;
        if bytes.len() > SearchRequest::MAX_TEXT_BYTES {
            // A text that ends within a character exceeds the limit in any case.
            String::from_utf8_lossy(&bytes).into_owned()
        } else {
            String::from_utf8(bytes).map_err(|_| {
                LibraryCommandError::usage("the question on standard input is not UTF-8 text")
            })?
        }
    } else {
        words.join(" ")
    };
    if question.len() > SearchRequest::MAX_TEXT_BYTES {
        let max = SearchRequest::MAX_TEXT_BYTES;
        return Err(LibraryCommandError::usage(format!(
            "the question has more than {max} bytes, the maximum"
        )));
    }
    if question.trim().is_empty() {
        return Err(LibraryCommandError::usage("the question is empty"));
    }
    Ok(question)
}
