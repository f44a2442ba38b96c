//! The machine and the user that the commands work with.

use std::{
    ffi::OsStr,
    fmt::Display,
    io::{self, Write},
    path::{Path, PathBuf},
};

use marquetry_client_config::{Home, Journal, Platform, place::NoHome};
use marquetry_printable::{printable, printable_line};

/// Questions to the user.
pub trait Dialog {
    /// Returns the answer of a question, without line end; [`None`] if the user ended the input.
    fn ask(&mut self, question: &str) -> Option<String>;

    /// Returns the answer of a question, which is not shown while it is typed.
    fn ask_hidden(&mut self, question: &str) -> Option<String>;
}

/// A dialog on standard error and standard input.
pub struct TerminalDialog {
    /// Reads a line without echo.
    pub read_hidden: fn() -> Option<String>,
}

impl Dialog for TerminalDialog {
    fn ask(&mut self, question: &str) -> Option<String> {
        eprint!("{} ", printable_line(question));
        _ = io::stderr().flush();
        let mut line = String::new();
        let bytes = io::stdin().read_line(&mut line).ok()?;
        (bytes > 0).then(|| line.trim().to_owned())
    }

    fn ask_hidden(&mut self, question: &str) -> Option<String> {
        eprint!("{} ", printable_line(question));
        _ = io::stderr().flush();
        (self.read_hidden)()
    }
}

/// The machine that a command works on.
pub struct Machine<'a> {
    pub(crate) program: String,
    pub(crate) variable: &'a dyn Fn(&str) -> Option<String>,
    pub(crate) platform: Platform,
    pub(crate) output: &'a mut dyn Write,
    pub(crate) dialog: Option<&'a mut dyn Dialog>,
}

/// Why a command failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectCommandError {
    /// The exit code.
    pub code: u8,
    /// The message, for people.
    pub message: String,
}

impl ConnectCommandError {
    pub(crate) fn new(problem: impl Display) -> Self {
        Self { code: 1, message: problem.to_string() }
    }

    pub(crate) fn usage(problem: impl Display) -> Self {
        Self { code: 2, message: problem.to_string() }
    }
}

impl From<NoHome> for ConnectCommandError {
    fn from(error: NoHome) -> Self {
        Self::usage(error)
    }
}

impl<'a> Machine<'a> {
    /// Creates a machine without a dialog. `program` is the path that clients start.
    pub fn new(
        program: impl Into<String>,
        variable: &'a dyn Fn(&str) -> Option<String>,
        output: &'a mut dyn Write,
    ) -> Self {
        Self {
            program: program.into(),
            variable,
            platform: Platform::current(),
            output,
            dialog: None,
        }
    }

    /// Adds a dialog with the user.
    #[must_use]
    pub fn with_dialog(self, dialog: &'a mut dyn Dialog) -> Self {
        Self { dialog: Some(dialog), ..self }
    }

    pub(crate) fn home(&self) -> Home<'a> {
        Home::new(self.platform, self.variable)
    }

    /// Returns the home folder, which links must not leave.
    pub(crate) fn home_folder(&self) -> Option<PathBuf> {
        self.home().folder().ok()
    }

    pub(crate) fn journal(&self) -> Result<Journal, ConnectCommandError> {
        Ok(Journal::new(self.home().journal()?))
    }

    /// Returns the file of Marquetry's servers.
    pub(crate) fn servers_file(
        &self,
        named: Option<&Path>,
    ) -> Result<PathBuf, ConnectCommandError> {
        let path = match named {
            Some(path) => path.to_owned(),
            None => self.home().settings()?.join("mcp.json"),
        };
        std::path::absolute(&path).map_err(ConnectCommandError::new)
    }

    /// Prints lines. A closed pipe is not a failure.
    pub(crate) fn print(&mut self, text: &str) {
        _ = writeln!(self.output, "{}", printable(text));
    }

    /// Asks a question whose answer is yes or no; an ended input is no. Without a dialog, the
    /// question is an error that ends with `flag`.
    pub(crate) fn confirm(
        &mut self,
        question: &str,
        flag: &str,
    ) -> Result<bool, ConnectCommandError> {
        let Some(dialog) = &mut self.dialog else {
            return Err(ConnectCommandError::usage(format!(
                "{question} This is not a terminal: {flag}"
            )));
        };
        for _ in 0..3 {
            let answer = dialog.ask(&format!("{question} [y/N]"));
            match answer.unwrap_or_default().to_ascii_lowercase().as_str() {
                "y" | "yes" => return Ok(true),
                "" | "n" | "no" => return Ok(false),
                _ => {}
            }
        }
        Ok(false)
    }
}

/// Returns the name under which the user's shell finds this program, if that is the same file: it
/// stays when the program is updated. Otherwise it returns `here`, the file itself.
#[must_use]
pub fn program_on_path(here: &Path, path: &OsStr) -> PathBuf {
    let (Some(name), Ok(own)) = (here.file_name(), here.canonicalize()) else {
        return here.to_owned();
    };
    std::env::split_paths(path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|found| found.canonicalize().is_ok_and(|found| found == own))
        .unwrap_or_else(|| here.to_owned())
}

/// Returns whether a path exists, even as a link that leads nowhere.
pub(crate) fn exists(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_link_on_the_path_is_preferred_to_the_file_behind_it() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path().join("v1/marquetry");
        let bin = folder.path().join("bin");
        for path in [here.parent().unwrap(), &bin] {
            std::fs::create_dir_all(path).unwrap();
        }
        std::fs::write(&here, "").unwrap();
        std::os::unix::fs::symlink(&here, bin.join("marquetry")).unwrap();
        let path = std::env::join_paths([folder.path().join("other"), bin.clone()]).unwrap();
        assert_eq!(program_on_path(&here, &path), bin.join("marquetry"));
        assert_eq!(program_on_path(&here, OsStr::new("bin")), here);
    }
}
