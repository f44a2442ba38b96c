//! Reads and replaces the files of clients.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use marquetry_atomic_file::{Readers, create_folder, replace};

/// The most bytes of a file. Claude Code keeps its history beside its servers, so files may be
/// large.
pub const MAX_BYTES: u64 = 64 << 20;

/// The file of a client, as it was read.
#[derive(Clone, Debug)]
pub struct ConfigFile {
    /// The path that was asked for.
    path: PathBuf,
    /// The file behind it: the same, unless the path is a link.
    target: PathBuf,
    /// The text; [`None`] if there is no file.
    text: Option<String>,
}

/// Why a file was not read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file cannot be read.
    #[error("{path} cannot be read: {error}")]
    Read {
        /// The file.
        path: String,
        /// The system's error.
        error: io::Error,
    },
    /// The file cannot be written.
    #[error("{path} cannot be written: {error}")]
    Write {
        /// The file.
        path: String,
        /// The system's error.
        error: io::Error,
    },
    /// The file is a link that leaves the home folder.
    #[error("{path} is a link to {target}, outside of your home; name that file with --file")]
    LinkOutside {
        /// The link.
        path: String,
        /// The file behind it.
        target: String,
    },
    /// The path is a folder, a device or the like.
    #[error("{path} is not a file")]
    NotAFile {
        /// The path.
        path: String,
    },
    /// The file is too large.
    #[error("{path} has more than {} MiB", MAX_BYTES >> 20)]
    TooLarge {
        /// The file.
        path: String,
    },
    /// The file is not text.
    #[error("{path} is not UTF-8")]
    NotText {
        /// The file.
        path: String,
    },
    /// The file is marked as read-only.
    #[error("{path} is read-only; allow writing to it, and run this again")]
    ReadOnly {
        /// The file.
        path: String,
    },
    /// The file was changed since it was read.
    #[error("{path} was changed by another program meanwhile; nothing was written, run this again")]
    Changed {
        /// The file.
        path: String,
    },
}

impl ConfigFile {
    /// Reads a file. A link is followed if it stays within `home`, or if there is no home.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read, is not UTF-8, is too large, or is a link that
    /// leaves the home. A missing file is not an error.
    pub fn read(path: &Path, home: Option<&Path>) -> Result<Self, FileError> {
        let name = path.display().to_string();
        let target = target_of(path, home)?;
        let found = match fs::metadata(&target) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Self { path: path.to_owned(), target, text: None });
            }
            Err(error) => return Err(FileError::Read { path: name, error }),
            Ok(found) => found,
        };
        if !found.is_file() {
            return Err(FileError::NotAFile { path: name });
        }
        if found.len() > MAX_BYTES {
            return Err(FileError::TooLarge { path: name });
        }
        let bytes =
            fs::read(&target).map_err(|error| FileError::Read { path: name.clone(), error })?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(FileError::TooLarge { path: name });
        }
        let text = String::from_utf8(bytes).map_err(|_| FileError::NotText { path: name })?;
        Ok(Self { path: path.to_owned(), target, text: Some(text) })
    }

    /// Returns the path that was asked for.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the file behind the path, if that is a link.
    #[must_use]
    pub fn link_target(&self) -> Option<&Path> {
        (self.path != self.target).then_some(&*self.target)
    }

    /// Returns the text; empty if there is no file.
    #[must_use]
    pub fn text(&self) -> &str {
        self.text.as_deref().unwrap_or_default()
    }

    /// Returns whether there was a file.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.text.is_some()
    }

    /// Replaces the text, unless the file was changed since it was read. The mode stays; a new file
    /// is for its owner alone.
    ///
    /// # Errors
    ///
    /// Returns an error if the file was changed or cannot be written; it is then unchanged.
    pub fn write(&self, text: &str) -> Result<(), FileError> {
        self.check_writable()?;
        if let Some(folder) = self.target.parent().filter(|it| !it.as_os_str().is_empty()) {
            create_folder(folder).map_err(|error| write_error(&self.path, error))?;
        }
        let permissions = fs::metadata(&self.target).ok().map(|found| found.permissions());
        replace(&self.target, text.as_bytes(), Readers::Owner)
            .map_err(|error| write_error(&self.path, error))?;
        if let Some(permissions) = permissions {
            fs::set_permissions(&self.target, permissions)
                .map_err(|error| write_error(&self.path, error))?;
        }
        Ok(())
    }

    /// Removes the file, unless it was changed since it was read.
    ///
    /// # Errors
    ///
    /// Returns an error if the file was changed or cannot be removed.
    pub fn remove(&self) -> Result<(), FileError> {
        self.check_writable()?;
        let path = self.path.display().to_string();
        fs::remove_file(&self.target).map_err(|error| FileError::Write { path, error })
    }

    /// Checks that the file is as it was read, and may be written.
    ///
    /// # Errors
    ///
    /// Returns an error if it was changed, or is read-only.
    pub fn check_writable(&self) -> Result<(), FileError> {
        let path = self.path.display().to_string();
        let now = match fs::read(&self.target) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(FileError::Read { path, error }),
        };
        if now.as_deref() != self.text.as_deref().map(str::as_bytes) {
            return Err(FileError::Changed { path });
        }
        let is_read_only =
            fs::metadata(&self.target).is_ok_and(|found| found.permissions().readonly());
        if is_read_only { Err(FileError::ReadOnly { path }) } else { Ok(()) }
    }
}

fn write_error(path: &Path, error: io::Error) -> FileError {
    FileError::Write { path: path.display().to_string(), error }
}

/// Returns the file behind a path. Only the last part counts: folders may be links.
fn target_of(path: &Path, home: Option<&Path>) -> Result<PathBuf, FileError> {
    let is_link = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_symlink());
    if !is_link {
        return Ok(path.to_owned());
    }
    let name = path.display().to_string();
    let target = fs::canonicalize(path).map_err(|error| FileError::Read {
        path: name.clone(),
        error: io::Error::new(error.kind(), format!("the link leads nowhere ({error})")),
    })?;
    let home = home.and_then(|home| fs::canonicalize(home).ok());
    match home {
        Some(home) if !target.starts_with(&home) => {
            Err(FileError::LinkOutside { path: name, target: target.display().to_string() })
        }
        _ => Ok(target),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_whole_and_a_new_one_gets_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b.json");
        let file = ConfigFile::read(&path, None).unwrap();
        assert!(!file.exists() && file.text().is_empty());
        file.write("{}").unwrap();
        let file = ConfigFile::read(&path, None).unwrap();
        assert_eq!(file.text(), "{}");
        file.remove().unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn a_change_of_another_program_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b.json");
        let missing = ConfigFile::read(&path, None).unwrap();
        fs::write(&path, "1").unwrap();
        assert!(matches!(missing.write("x"), Err(FileError::Changed { .. })));
        let file = ConfigFile::read(&path, None).unwrap();
        fs::write(&path, "2").unwrap();
        assert!(matches!(file.write("x"), Err(FileError::Changed { .. })));
        assert!(matches!(file.remove(), Err(FileError::Changed { .. })));
        assert_eq!(fs::read(&path).unwrap(), b"2");
    }

    #[test]
    fn what_is_not_a_text_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b.json");
        fs::write(&path, b"\xff").unwrap();
        assert!(matches!(ConfigFile::read(&path, None), Err(FileError::NotText { .. })));
        assert!(matches!(ConfigFile::read(folder.path(), None), Err(FileError::NotAFile { .. })));
        let large = folder.path().join("large");
        fs::File::create(&large).unwrap().set_len(MAX_BYTES + 1).unwrap();
        assert!(matches!(ConfigFile::read(&large, None), Err(FileError::TooLarge { .. })));
    }

    #[cfg(unix)]
    #[test]
    fn the_mode_stays_and_read_only_is_respected() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b.json");
        fs::write(&path, "1").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        ConfigFile::read(&path, None).unwrap().write("2").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o440)).unwrap();
        let error = ConfigFile::read(&path, None).unwrap().write("3").unwrap_err();
        assert!(matches!(error, FileError::ReadOnly { .. }), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"2");
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_followed_within_the_home_alone() {
        use std::os::unix::fs::symlink;
        let home = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        let inside = home.path().join("dotfiles.json");
        let outside = other.path().join("theirs.json");
        fs::write(&inside, "1").unwrap();
        fs::write(&outside, "1").unwrap();
        let link = home.path().join("link");
        symlink(&inside, &link).unwrap();
        let file = ConfigFile::read(&link, Some(home.path())).unwrap();
        assert!(file.link_target().is_some());
        file.write("2").unwrap();
        assert_eq!(fs::read(&inside).unwrap(), b"2");
        assert!(fs::symlink_metadata(&link).unwrap().file_type().is_symlink());
        fs::remove_file(&link).unwrap();
        symlink(&outside, &link).unwrap();
        let error = ConfigFile::read(&link, Some(home.path())).unwrap_err();
        assert!(matches!(error, FileError::LinkOutside { .. }), "{error}");
        fs::remove_file(&link).unwrap();
        symlink(home.path().join("missing"), &link).unwrap();
        let error = ConfigFile::read(&link, Some(home.path())).unwrap_err().to_string();
        assert!(error.contains("leads nowhere"), "{error}");
    }
}
