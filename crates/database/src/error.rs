//! Errors of databases.

use std::path::Path;

/// Why an operation of a database failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatabaseError {
    /// A newer version of this program wrote the database.
    #[error(
        "the database has schema version {found}, this program supports versions up to {known}: use a newer program"
    )]
    NewerSchema {
        /// The version of the database.
        found: i64,
        /// The newest version that this program knows.
        known: i64,
    },
    /// An older version of this program wrote the database, in a form that is not read any more.
    #[error(
        "the database has schema version {found} from an older version of this program; this one needs {needed}"
    )]
    OlderSchema {
        /// The version of the database.
        found: i64,
        /// The version that this program reads.
        needed: i64,
    },
    /// The disk or the database is full; nothing was changed.
    #[error("the database or the disk is full; nothing was changed")]
    Full,
    /// The database can be read but not written; nothing was changed.
    #[error(
        "the database cannot be written: its file, its folder or its disk is read-only; nothing was changed"
    )]
    ReadOnly,
    /// Another process kept the database locked for too long; nothing was changed.
    #[error("the database is locked by another process; nothing was changed")]
    Busy,
    /// The database cannot be used at all.
    #[error("the database cannot be used: {0}")]
    Unusable(String),
    /// The connection failed or broke. Whether the last write succeeded is unknown.
    #[error("no connection to the database: {0}")]
    Disconnected(String),
    /// All connections of the pool are in use.
    #[error("all {connections} connections to the database are in use (max_connections)")]
    NoConnection {
        /// The size of the pool.
        connections: usize,
    },
    /// The database did not answer in time; nothing was changed.
    #[error("the database exceeded its time limit (statement_timeout); nothing was changed")]
    Timeout,
    /// The role of this program may not do that.
    #[error("the database failed: {0}")]
    Denied(String),
    /// The store is shutting down.
    #[error("the store is closed")]
    Closed,
    /// The database holds values that no version of this program writes.
    #[error("the database is damaged: {0}")]
    Damaged(String),
    /// The database engine failed.
    #[error("the database failed: {0}")]
    Engine(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl DatabaseError {
    /// Wraps another error as [`DatabaseError::Engine`].
    pub fn engine(error: impl Into<Box<dyn std::error::Error + Send + Sync + 'static>>) -> Self {
        Self::Engine(error.into())
    }

    /// Wraps another error as [`DatabaseError::Damaged`].
    pub fn damaged(what: impl std::fmt::Display) -> Self {
        Self::Damaged(what.to_string())
    }

    /// Adds the path of the database to an error that describes a problem of a file but does not
    /// name the file, and what to do about a damaged one.
    #[must_use]
    pub fn in_file(self, path: &Path) -> Self {
        let file = path.display();
        if self.to_string().contains(&file.to_string()) {
            return self;
        }
        match self {
            Self::Unusable(problem) => Self::Unusable(format!("{file}: {problem}")),
            Self::Damaged(problem) => Self::Damaged(format!(
                "{file}: {problem}; restore the file from a copy, or move it away together with {file}-wal and {file}-shm, \
                 and a new one is created"
            )),
            Self::Engine(error) => Self::engine(format!("{file}: {error}")),
            error => error,
        }
    }
}

/// An error of a store, which may be one of its database.
pub trait DatabaseStoreError: From<DatabaseError> {
    /// Names the file of the database as [`DatabaseError::in_file`] does.
    #[must_use]
    fn in_file(self, path: &Path) -> Self;
}

impl DatabaseStoreError for DatabaseError {
    fn in_file(self, path: &Path) -> Self {
        Self::in_file(self, path)
    }
}
