//! Why a text is not edited.

/// Why a text was not edited.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// The text is not valid.
    #[error("line {line}, column {column}: {problem}; correct it, and run this again")]
    Syntax {
        /// The line, from 1.
        line: usize,
        /// The column in characters, from 1.
        column: usize,
        /// The problem.
        problem: String,
    },
    /// A value above the servers is not an object.
    #[error("{path:?} is not an object by name")]
    NotAnObject {
        /// The path of the key.
        path: String,
    },
    /// A key is given twice, and clients differ in which counts.
    #[error("the key {key:?} is given twice; remove one of them")]
    Duplicate {
        /// The key.
        key: String,
    },
    /// The servers are written in a way that is not edited here.
    #[error("{section:?} is written {how}, which is not edited; change it by hand")]
    Unsupported {
        /// The key of the servers.
        section: String,
        /// How it is written.
        how: &'static str,
    },
    /// The edit would have changed something else.
    #[error("the edit would change more than the server; change the file by hand")]
    Unsafe,
}

impl EditError {
    pub(crate) fn syntax(text: &str, offset: usize, problem: &str) -> Self {
        let before = &text[..text.floor_char_boundary(offset)];
        let line = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self::Syntax {
            line: before.matches('\n').count() + 1,
            column: before[line..].chars().count() + 1,
            problem: problem.to_owned(),
        }
    }
}
