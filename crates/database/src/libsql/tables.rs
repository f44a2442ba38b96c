//! The tables of one store in a file.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use libsql::Connection;

use super::{LibsqlFile, Schema, limit};
use crate::{DatabaseError, DatabaseStoreError, blocking};

/// Maximum idle connections for reading.
const MAX_IDLE: usize = 4;

/// The tables of one store in a libSQL file: many read at once, and writes of this process wait for
/// each other rather than for the lock of the file. `W` has the connection for writing.
pub struct Tables<W = Connection> {
    file: Arc<LibsqlFile>,
    /// Idle connections for reading.
    idle: Arc<Mutex<Vec<Connection>>>,
    writer: Arc<tokio::sync::Mutex<W>>,
}

/// Options for opening the tables of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TablesOptions {
    /// Largest size of the database in bytes, for writes of this store; beyond it they fail with
    /// [`DatabaseError::Full`]. No limit by default.
    pub max_bytes: Option<u64>,
    /// Opens the file for reading only: nothing is created or changed in the file or beside it.
    pub read_only: bool,
}

impl<W: Send + 'static> Tables<W> {
    /// Opens the tables of `schema` in the file, and creates missing ones. `writer` gets the
    /// connection for writing.
    ///
    /// # Errors
    ///
    /// Returns an error if [`LibsqlFile::open`] or [`Schema::open`] does, with the path of the
    /// file.
    pub async fn open(
        path: &Path,
        schema: &'static Schema,
        options: TablesOptions,
        writer: impl FnOnce(Connection) -> Result<W, DatabaseError> + Send + 'static,
    ) -> Result<Self, DatabaseError> {
        let in_file = path.to_owned();
        let opened = blocking(move || {
            let file = LibsqlFile::open(&in_file, options.read_only)?;
            let connection = file.connect()?;
            schema.open(&connection, options.read_only)?;
            if let Some(bytes) = options.max_bytes {
                limit(&connection, bytes)?;
            }
            let writer = Arc::new(tokio::sync::Mutex::new(writer(connection)?));
            Ok::<_, DatabaseError>(Self { file: Arc::new(file), idle: Arc::default(), writer })
        });
        opened.await.map_err(|error| error.in_file(path))
    }

    /// Reads on Tokio's blocking threads, with a connection that is reused.
    ///
    /// # Errors
    ///
    /// Returns an error if [`LibsqlFile::connect`] does, or if the work fails. It names the file.
    pub async fn read<T: Send + 'static, E: DatabaseStoreError + Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E> {
        let file = Arc::clone(&self.file);
        let idle = Arc::clone(&self.idle);
        let read = blocking::<T, E>(move || {
            file.check_unchanged()?;
            let reused = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let connection = match reused {
                Some(connection) => connection,
                None => file.connect()?,
            };
            // A connection whose work failed is closed: a statement of it that was not read to its
            // end would keep showing later readers the database as it was.
            let done = work(&connection)?;
            let mut idle = idle.lock().unwrap_or_else(PoisonError::into_inner);
            if idle.len() < MAX_IDLE {
                idle.push(connection);
            }
            Ok(done)
        });
        read.await.map_err(|error: E| error.in_file(self.file.path()))
    }

    /// Writes on Tokio's blocking threads; one write runs at a time.
    ///
    /// # Errors
    ///
    /// Returns an error if [`LibsqlFile::check_unchanged`] does, or if the work fails. It names the
    /// file.
    pub async fn write<T: Send + 'static, E: DatabaseStoreError + Send + 'static>(
        &self,
        work: impl FnOnce(&W) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E> {
        let file = Arc::clone(&self.file);
        let writer = Arc::clone(&self.writer).lock_owned().await;
        let written = blocking::<T, E>(move || {
            file.check_unchanged()?;
            work(&writer)
        });
        written.await.map_err(|error: E| error.in_file(self.file.path()))
    }
}

impl<W> std::fmt::Debug for Tables<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tables").field("file", &self.file).finish_non_exhaustive()
    }
}
