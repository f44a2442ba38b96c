//! Why a program cannot be started.

use std::path::PathBuf;

/// Why a program cannot be started.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// No directory of `PATH` has it.
    #[error("program {program:?} not found in PATH{}", advice(.program))]
    NotInPath {
        /// The program.
        program: String,
    },
    /// The path does not exist.
    #[error("program {program:?} not found{}", advice(.program))]
    NoSuchFile {
        /// The program.
        program: String,
    },
    /// The path is a folder, or a file that may not be executed.
    #[error("program {program:?} is not an executable file")]
    NotExecutable {
        /// The program.
        program: String,
    },
    /// The working directory does not exist, or is not a directory.
    #[error("working directory {} is not a directory", .0.display())]
    WorkingDirectory(PathBuf),
}

/// Returns a hint at the usual mistakes: a whole command line, or a path for a shell.
fn advice(program: &str) -> &'static str {
    if program.starts_with("~/") {
        "; no shell expands ~ here: write ${userHome} instead"
    } else if program.trim().contains(' ') {
        "; \"command\" is the program alone, its arguments belong in \"args\""
    } else {
        ""
    }
}
