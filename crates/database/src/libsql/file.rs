//! A file that is open as a database.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use libsql::{Builder, Connection, Database, OpenFlags};

use super::{
    engine::{self, error, wait},
    path::{ready, to_read},
};
use crate::DatabaseError;

/// A database in one file, which several processes may use at once.
///
/// The file may be removed or replaced while it is open; writes would then be lost. So every access
/// first checks that the path still names the open file.
pub struct LibsqlFile {
    database: Database,
    path: PathBuf,
    identity: Identity,
    read_only: bool,
}

#[cfg(unix)]
type Identity = (u64, u64);
#[cfg(not(unix))]
type Identity = ();

impl LibsqlFile {
    /// Opens the database in a file, for reading and writing or read-only. For writing, a missing
    /// file is created that only its owner can access; the directory must exist. Nothing in the
    /// file is read yet.
    ///
    /// # Errors
    ///
    /// Returns an error if the path cannot be that of a database, such as a folder
    /// ([`DatabaseError::Unusable`]), or if the file has no write permission and `read_only` is not
    /// set ([`DatabaseError::ReadOnly`]).
    pub fn open(path: &Path, read_only: bool) -> Result<Self, DatabaseError> {
        let builder = if read_only {
            Builder::new_local(to_read(path)?).flags(OpenFlags::SQLITE_OPEN_READ_ONLY)
        } else {
            Builder::new_local(ready(path)?)
        };
        let database = wait(builder.build()).map_err(error)?;
        let path = std::path::absolute(path).map_err(DatabaseError::engine)?;
        let identity = identity(&path).map_err(DatabaseError::engine)?;
        Ok(Self { database, path, identity, read_only })
    }

    /// Returns a connection that is ready to be used: it waits for locks, and writes in WAL mode.
    ///
    /// # Errors
    ///
    /// Returns an error if [`Self::check_unchanged`] does, or if the engine fails.
    pub fn connect(&self) -> Result<Connection, DatabaseError> {
        // A further connection would go to another file.
        self.check_unchanged()?;
        let connection = self.database.connect().map_err(error)?;
        engine::prepare(&connection, self.read_only)?;
        Ok(connection)
    }

    /// Checks that the path still leads to the open file.
    ///
    /// # Errors
    ///
    /// Returns an error if the file was removed, or if another has its name.
    pub fn check_unchanged(&self) -> Result<(), DatabaseError> {
        if identity(&self.path).is_ok_and(|now| now == self.identity) {
            return Ok(());
        }
        Err(DatabaseError::Unusable(format!(
            "{} was removed or replaced while this program had it open: start the program again",
            self.path.display()
        )))
    }

    /// Checks that the database is new, or has one of these tables: a database with only other
    /// tables belongs to another program. Changes nothing.
    ///
    /// # Errors
    ///
    /// Returns an error if there are other tables; it names one of them.
    pub fn check_tables(&self, ours: &[&str]) -> Result<(), DatabaseError> {
        engine::check_tables(&self.database.connect().map_err(error)?, ours)
    }

    /// Returns the absolute path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl std::fmt::Debug for LibsqlFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LibsqlFile")
            .field("path", &self.path)
            .field("read_only", &self.read_only)
            .finish_non_exhaustive()
    }
}

fn identity(path: &Path) -> io::Result<Identity> {
    let found = fs::metadata(path)?;
    #[cfg(unix)]
    return Ok({
        use std::os::unix::fs::MetadataExt;
        (found.dev(), found.ino())
    });
    #[cfg(not(unix))]
    Ok(drop(found))
}
