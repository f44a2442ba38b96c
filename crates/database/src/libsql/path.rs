//! The path of a file before it is opened as a database.

use std::{
    fs::{self, OpenOptions},
    io,
    path::{Path, PathBuf},
};

use crate::DatabaseError;

/// The name by which a file is opened that is only to be read.
///
/// A file beside which there is no log (`-wal`) has everything, and is read as it is: the engine then wants nothing to
/// be written beside it. Whoever begins to write meanwhile is not noticed.
pub(super) fn to_read(path: &Path) -> Result<PathBuf, DatabaseError> {
    let unusable = |problem: &dyn std::fmt::Display| {
        DatabaseError::Unusable(format!("{} {problem}", path.display()))
    };
    let found = path.canonicalize();
    let found = found.map_err(|error| unusable(&format_args!("cannot be read: {error}")))?;
    let name = found.to_str().ok_or_else(|| unusable(&"has a name that is not UTF-8"))?;
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

/// Makes the file if it is not there, for its owner alone: what lies beside it later gets the same mode. One that is
/// there keeps its mode.
///
/// The path that this gives is absolute, which no engine takes for anything else than a file.
///
/// # Errors
///
/// [`DatabaseError::Unusable`] for what cannot be a database, such as a folder, and what cannot be made;
/// [`DatabaseError::ReadOnly`] for what cannot be written.
pub(super) fn ready(path: &Path) -> Result<PathBuf, DatabaseError> {
    let unusable = |problem: &dyn std::fmt::Display| {
        DatabaseError::Unusable(format!("{} {problem}", path.display()))
    };
    if path.as_os_str().is_empty() {
        return Err(DatabaseError::Unusable("its file has no name".to_owned()));
    }
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => return Err(unusable(&"is a folder")),
        Ok(found) if !found.is_file() => return Err(unusable(&"is no regular file")),
        Ok(_) if !may(path, Access::Read) => {
            return Err(unusable(&"cannot be opened: permission denied"));
        }
        Ok(_) if !may(path, Access::Write) => return Err(DatabaseError::ReadOnly),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // A new file would take over what belongs to the old one, and both would be damaged. Another may have
            // made it just now.
            let log = beside(path, "-wal");
            if log.exists() && !path.exists() {
                return Err(unusable(&format_args!(
                    "is gone, and its log {} is there: a program that is running may still have the old database open; \
                     end it, then remove {0} and {}",
                    log.display(),
                    beside(path, "-shm").display()
                )));
            }
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(false);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            let made = options.open(path);
            made.map_err(|error| unusable(&format_args!("cannot be made: {error}")))?;
        }
        Err(error) => return Err(unusable(&format_args!("cannot be read: {error}"))),
    }
    std::path::absolute(path).map_err(|error| unusable(&error))
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Whether a file that is there can be read or written. It is not opened for that: closing it would end the locks that
/// this process has on it.
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
    let is_read_only = || fs::metadata(path).is_ok_and(|found| found.permissions().readonly());
    matches!(access, Access::Read) || !is_read_only()
}

#[derive(Clone, Copy)]
enum Access {
    Read,
    Write,
}
