//! Reads secrets, and remembers their values for redactors.

use std::{
    collections::BTreeMap,
    fmt, fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use crate::{
    keyring,
    problem::{MAX_BYTES, SecretError, SecretProblem},
    process::{self, ProcessError},
    reference::Reference,
};

/// Time that a program has to print a secret.
const COMMAND_TIME: Duration = Duration::from_secs(5);

/// Whether `${command:…}` may start programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Commands {
    /// Programs are started. The caller has checked that no other user can write the text.
    Allowed,
    /// Programs are not started, since it is not known who can write the text.
    #[default]
    Refused,
    /// Programs are not started, for this reason.
    RefusedBecause(String),
}

/// Reads the secrets of one configuration.
#[derive(Default)]
pub struct Secrets {
    folder: Option<PathBuf>,
    home: Option<PathBuf>,
    commands: Commands,
    /// The values that were read, by their references. A reference that failed is not read again,
    /// either: each may take seconds.
    read: Mutex<BTreeMap<String, Result<String, SecretError>>>,
}

impl Secrets {
    /// Creates a reader that starts no programs. Paths of files are relative to the current
    /// directory.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the paths of files relative to `folder`, such as that of the configuration.
    #[must_use]
    pub fn with_folder(self, folder: &Path) -> Self {
        Self { folder: Some(folder.to_owned()), ..self }
    }

    /// Replaces `~/` at the start of a path by this folder.
    #[must_use]
    pub fn with_home(self, home: Option<PathBuf>) -> Self {
        Self { home, ..self }
    }

    /// Sets whether programs may be started.
    #[must_use]
    pub fn with_commands(self, commands: Commands) -> Self {
        Self { commands, ..self }
    }

    /// Returns the values that were read so far, for a redactor.
    #[must_use]
    pub fn values(&self) -> Vec<String> {
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        read.values().filter_map(|value| value.clone().ok()).collect()
    }

    /// Reads the secret of a reference, the text between `${` and `}`. `None` if it is no reference
    /// to a secret. The value of a reference is read once.
    ///
    /// # Errors
    ///
    /// Returns an error if the secret cannot be read. It names the reference and no value.
    pub fn resolve(&self, inside: &str) -> Option<Result<String, SecretError>> {
        let reference = match Reference::parse(inside)? {
            Ok(reference) => reference,
            Err(problem) => {
                let reference = format!("${{{inside}}}");
                return Some(Err(SecretError { reference, problem: problem.into() }));
            }
        };
        // Held while the secret is read, so that the same one is not read twice at a time.
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let value = read.entry(inside.to_owned()).or_insert_with(|| {
            self.read(&reference)
                .and_then(text)
                .map_err(|problem| SecretError { reference: reference.to_string(), problem })
        });
        Some(value.clone())
    }

    fn read(&self, reference: &Reference) -> Result<Vec<u8>, SecretProblem> {
        match reference {
            Reference::File(path) => read_file(&self.path(path)),
            Reference::Keyring { service, name } => keyring::read(service, name),
            Reference::Command(words) => {
                match &self.commands {
                    Commands::Allowed => {}
                    Commands::Refused => {
                        let why = "programs are run only from a configuration file that others cannot write";
                        return Err(SecretProblem::Refused(why.to_owned()));
                    }
                    Commands::RefusedBecause(why) => {
                        return Err(SecretProblem::Refused(why.clone()));
                    }
                }
                process::output(&words[0], &words[1..], MAX_BYTES, COMMAND_TIME).map_err(|error| {
                    match error {
                        ProcessError::NotStarted(error)
                            if error.kind() == io::ErrorKind::NotFound =>
                        {
                            // VS Code writes its own commands in this form.
                            let why = "there is no such program; a command of an editor has no value here";
                            SecretProblem::NotStarted(why.to_owned())
                        }
                        ProcessError::NotStarted(error) => {
                            SecretProblem::NotStarted(error.to_string())
                        }
                        ProcessError::Failed(status) => SecretProblem::Failed(status.to_string()),
                        ProcessError::TooSlow => SecretProblem::TooSlow(COMMAND_TIME),
                        ProcessError::TooLong => SecretProblem::TooLong,
                    }
                })
            }
        }
    }

    /// Returns the path of a file as it is opened.
    fn path(&self, path: &str) -> PathBuf {
        if let (Some(below), Some(home)) = (path.strip_prefix("~/"), &self.home) {
            return home.join(below);
        }
        self.folder.as_ref().map_or_else(|| path.into(), |folder| folder.join(path))
    }
}

/// Shows no value.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").field("commands", &self.commands).finish_non_exhaustive()
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, SecretProblem> {
    let unreadable = |error: io::Error| SecretProblem::File(error.to_string());
    // A pipe without a writer would block.
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(SecretProblem::NotAFile);
    }
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(unreadable)?;
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(SecretProblem::TooLong);
    }
    Ok(bytes)
}

/// Returns a value without the line ends at its end, as `$(…)` of a shell does.
fn text(bytes: Vec<u8>) -> Result<String, SecretProblem> {
    let mut text = String::from_utf8(bytes).map_err(|_| SecretProblem::NotText)?;
    text.truncate(text.trim_end_matches(['\n', '\r']).len());
    if text.contains('\0') {
        return Err(SecretProblem::NotText);
    }
    if text.is_empty() { Err(SecretProblem::Empty) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(secrets: &Secrets, inside: &str) -> String {
        match secrets.resolve(inside) {
            None => "none".to_owned(),
            Some(Ok(value)) => value,
            Some(Err(error)) => format!("error: {error}"),
        }
    }

    #[test]
    fn files_are_found_from_the_folder_and_the_home() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("token"), "hush\r\n\n").unwrap();
        let secrets =
            Secrets::new().with_folder(folder.path()).with_home(Some(folder.path().to_owned()));
        let whole = folder.path().join("token").display().to_string();
        for path in ["token", "./token", "~/token", &whole] {
            assert_eq!(shown(&secrets, &format!("file:{path}")), "hush", "{path}");
        }
        assert_eq!(shown(&secrets, "HOME"), "none");
        assert_eq!(secrets.values(), ["hush"; 4]);
        assert!(!format!("{secrets:?}").contains("hush"));
    }

    #[test]
    fn values_that_cannot_be_used_are_errors_without_the_value() {
        let folder = tempfile::tempdir().unwrap();
        let long = vec![b'h'; MAX_BYTES as usize + 1];
        for (name, bytes) in [
            ("empty", &b"\n\n"[..]),
            ("nul", b"hu\0sh"),
            ("latin", b"h\xfcsh"),
            ("long", &long),
            ("most", &long[1..]),
        ] {
            fs::write(folder.path().join(name), bytes).unwrap();
        }
        let secrets = Secrets::new().with_folder(folder.path());
        for (name, want) in [
            ("empty", "has an empty value"),
            ("nul", "has a value that is not text"),
            ("latin", "has a value that is not text"),
            ("long", "has a value of more than 64 KiB"),
            (".", "is not a regular file"),
            ("none", "cannot be read: No such file or directory (os error 2)"),
        ] {
            let want = format!("error: ${{file:{name}}} {want}");
            assert_eq!(shown(&secrets, &format!("file:{name}")), want);
        }
        assert_eq!(shown(&secrets, "file:most").len() as u64, MAX_BYTES);
    }

    #[test]
    fn a_reference_is_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        fs::write(&path, "one").unwrap();
        let secrets = Secrets::new().with_folder(folder.path());
        assert_eq!(shown(&secrets, "file:token"), "one");
        fs::write(&path, "two").unwrap();
        assert_eq!(shown(&secrets, "file:token"), "one");
        let again = Secrets::new().with_folder(folder.path());
        assert_eq!(shown(&again, "file:token"), "two");
    }

    #[cfg(unix)]
    #[test]
    fn programs_run_only_where_they_are_allowed() {
        let refused = "error: ${command:echo …} is not run: programs are run only from a configuration file that others cannot write";
        assert_eq!(shown(&Secrets::new(), "command:echo hush"), refused);
        let because = Commands::RefusedBecause("others may write it".to_owned());
        let secrets = Secrets::new().with_commands(because);
        let refused = "error: ${command:echo …} is not run: others may write it";
        assert_eq!(shown(&secrets, "command:echo hush"), refused);
        let secrets = Secrets::new().with_commands(Commands::Allowed);
        assert_eq!(shown(&secrets, "command:echo '$HOME; hush'"), "$HOME; hush");
        let failed =
            "error: ${command:sh …} failed with exit status: 3; run it in a terminal to see why";
        assert_eq!(shown(&secrets, "command:sh -c 'echo hush; echo hush >&2; exit 3'"), failed);
        let missing = "error: ${command:no-such-program-1} cannot be run: there is no such program; a command of an editor has no value here";
        assert_eq!(shown(&secrets, "command:no-such-program-1"), missing);
        let long = "error: ${command:head …} has a value of more than 64 KiB";
        assert_eq!(shown(&secrets, "command:head -c 65537 /dev/zero"), long);
    }
}
