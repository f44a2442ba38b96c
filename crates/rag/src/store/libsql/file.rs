//! The file before it is opened as a database.

use std::{
    fs::{self, OpenOptions},
    io,
    path::{Path, PathBuf},
};

use crate::store::StoreError;

/// Makes the file if it is not there, for its owner alone: what lies beside it later gets the same mode. One that is
/// there keeps its mode.
///
/// The path that this gives is absolute, which no engine takes for anything else than a file.
///
/// # Errors
///
/// [`StoreError::Unusable`] for what cannot be a database, such as a folder, and what cannot be made.
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
