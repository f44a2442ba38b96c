//! The file before it is opened as a database.

use std::{
    fs::{self, OpenOptions},
    io,
    path::{Path, PathBuf},
};

use libsql::{Builder, Database, OpenFlags};

use super::schema::error;
use crate::store::StoreError;

/// Opens the database in a file, to be written as well or only to be read.
///
/// # Errors
///
/// Those of [`ready`], and whatever the engine says.
pub(crate) async fn open(path: &Path, read_only: bool) -> Result<Database, StoreError> {
    let builder = match read_only {
        false => Builder::new_local(ready(path)?),
        true => Builder::new_local(to_read(path)?).flags(OpenFlags::SQLITE_OPEN_READ_ONLY),
    };
    builder.build().await.map_err(error)
}

/// The name by which a file is opened that is only to be read.
///
/// A file beside which there is no log (`-wal`) has everything, and is read as it is: the engine then wants nothing to
/// be written beside it. Whoever begins to write meanwhile is not noticed.
fn to_read(path: &Path) -> Result<PathBuf, StoreError> {
    let unusable = |problem: &dyn std::fmt::Display| {
        StoreError::Unusable(format!("{} {problem}", path.display()))
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
/// [`StoreError::Unusable`] for what cannot be a database, such as a folder, and what cannot be made;
/// [`StoreError::ReadOnly`] for what cannot be written.
pub(crate) fn ready(path: &Path) -> Result<PathBuf, StoreError> {
    let unusable = |problem: &dyn std::fmt::Display| {
        StoreError::Unusable(format!("{} {problem}", path.display()))
    };
    if path.as_os_str().is_empty() {
        return Err(StoreError::Unusable("its file has no name".to_owned()));
    }
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => return Err(unusable(&"is a folder")),
        Ok(found) if !found.is_file() => return Err(unusable(&"is no regular file")),
        Ok(_) if is_closed(path) => return Err(StoreError::ReadOnly),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
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

/// Whether a file that is there cannot be written. It is not opened for that: closing it would end the locks that this
/// process has on it.
#[cfg(unix)]
fn is_closed(path: &Path) -> bool {
    use rustix::{fs, io::Errno};
    let access = fs::access(path, fs::Access::WRITE_OK);
    matches!(access, Err(Errno::ACCESS | Errno::PERM | Errno::ROFS))
}

#[cfg(not(unix))]
fn is_closed(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.permissions().readonly())
}
