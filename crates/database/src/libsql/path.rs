//! Paths of database files.

use std::{
    fs::{self, OpenOptions},
    io,
    path::{Path, PathBuf},
};

use crate::DatabaseError;

/// Returns the URI by which a file is opened read-only.
///
/// A file without a log (`-wal`) is complete and is opened as immutable: the engine then writes
/// nothing beside it. Writes that another process begins later are not seen.
pub(super) fn to_read(path: &Path) -> Result<PathBuf, DatabaseError> {
    let found = path
        .canonicalize()
        .map_err(|error| unusable(path, format_args!("cannot be read: {error}")))?;
    let name = found.to_str().ok_or_else(|| unusable(path, "has a name that is not UTF-8"))?;
    let log = fs::metadata(format!("{name}-wal"));
    let is_whole = log.is_err() || log.is_ok_and(|log| log.len() == 0);
    let mut uri = String::from("file://");
    for byte in name.bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'~' => uri.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => uri.push(char::from(byte)),
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri.push_str(if is_whole { "?immutable=1" } else { "?mode=ro" });
    Ok(uri.into())
}

/// Creates a missing file that only its owner can access: files beside it will get the same mode.
/// An existing file keeps its mode.
///
/// Returns an absolute path, which the engine cannot mistake for anything but a file.
///
/// # Errors
///
/// Returns an error if the path cannot be that of a database, such as a folder, or if the file
/// cannot be created ([`DatabaseError::Unusable`]), or if it has no write permission
/// ([`DatabaseError::ReadOnly`]).
pub(super) fn ready(path: &Path) -> Result<PathBuf, DatabaseError> {
    if path.as_os_str().is_empty() {
        return Err(DatabaseError::Unusable("its file has no name".to_owned()));
    }
    if fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) {
        // Somebody else may have put it there, so that the file behind it is changed.
        return Err(unusable(path, "is a link, which is not followed; name the file behind it"));
    }
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => return Err(unusable(path, "is a folder")),
        Ok(found) if !found.is_file() => return Err(unusable(path, "is not a regular file")),
        Ok(_) if !may(path, Access::Read) => {
            return Err(unusable(path, "cannot be opened: permission denied"));
        }
        Ok(_) if !may(path, Access::Write) => return Err(DatabaseError::ReadOnly),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // A new file would adopt the log of the old one, and both would be damaged. Another
            // process may have created the file just now.
            let log = beside(path, "-wal");
            if log.exists() && !path.exists() {
                return Err(unusable(
                    path,
                    format_args!(
                        "is gone, and its log {} is there: a program that is running may still have the old database open; \
                     end it, then remove {0} and {}",
                        log.display(),
                        beside(path, "-shm").display()
                    ),
                ));
            }
            let mut options = OpenOptions::new();
            options.write(true).create_new(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            match options.open(path) {
                // Another process was faster.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return ready(path),
                created => {
                    created.map_err(|error| {
                        unusable(path, format_args!("cannot be created: {error}"))
                    })?;
                }
            }
        }
        Err(error) => return Err(unusable(path, format_args!("cannot be read: {error}"))),
    }
    std::path::absolute(path).map_err(|error| unusable(path, error))
}

fn unusable(path: &Path, problem: impl std::fmt::Display) -> DatabaseError {
    DatabaseError::Unusable(format!("{} {problem}", path.display()))
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Returns whether an existing file can be read or written. It is not opened: closing it would
/// release the locks that this process holds on it.
#[cfg(unix)]
fn may(path: &Path, access: Access) -> bool {
    use rustix::{fs, io::Errno};
    let access = match access {
        Access::Read => fs::Access::READ_OK,
        Access::Write => fs::Access::WRITE_OK,
    };
    !matches!(fs::access(path, access), Err(Errno::ACCESS | Errno::PERM | Errno::ROFS))
}

#[cfg(not(unix))]
fn may(path: &Path, access: Access) -> bool {
    matches!(access, Access::Read)
        || !fs::metadata(path).is_ok_and(|found| found.permissions().readonly())
}

#[derive(Clone, Copy)]
enum Access {
    Read,
    Write,
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_followed_for_reading_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.db");
        ready(&file).unwrap();
        let link = folder.path().join("link.db");
        symlink(&file, &link).unwrap();
        to_read(&link).unwrap();
        assert!(ready(&link).unwrap_err().to_string().contains("link.db is a link"));
        // A link that leads nowhere makes no file elsewhere.
        let dangling = folder.path().join("dangling.db");
        let elsewhere = folder.path().join("elsewhere");
        symlink(&elsewhere, &dangling).unwrap();
        assert!(ready(&dangling).unwrap_err().to_string().contains("dangling.db is a link"));
        assert!(!elsewhere.exists());
    }
}
