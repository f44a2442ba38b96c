//! Errors of the file of pins.

use std::{io, path::PathBuf};

use crate::Kind;

/// Largest file of pins in bytes.
pub const MAX_FILE_BYTES: usize = 16 << 20;

/// A failure of the file of pins. The file stays as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PinError {
    /// The file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file is no file of pins, or was changed by another program.
    #[error(
        "{} is damaged: {problem}; restore it from a backup, or remove it to trust every server anew",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The damage.
        problem: String,
    },
    /// Other users can write the file.
    #[error("{} can be changed by other users; make it yours alone with chmod 600", path.display())]
    WritableByOthers {
        /// The file.
        path: PathBuf,
    },
    /// The pins would need more room than the file may have.
    #[error(
        "{} would be larger than {MAX_FILE_BYTES} bytes; remove servers that you no longer use with `marquetry pins forget`",
        path.display()
    )]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// Another program holds the lock of the file.
    #[error("{} is locked by another program; try again", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// A definition has changed since it was shown.
    #[error(
        "the {kind} {name:?} of {server:?} has changed meanwhile; look at the difference again"
    )]
    ChangedMeanwhile {
        /// The server.
        server: String,
        /// The kind of the definition.
        kind: Kind,
        /// Its name.
        name: String,
    },
    /// No server with this name has pins.
    #[error("no server with pins is called {server:?}")]
    UnknownServer {
        /// The name.
        server: String,
    },
}
