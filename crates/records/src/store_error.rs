//! Errors of stores of records.

use std::path::Path;

use marquetry_database::{DatabaseError, DatabaseStoreError};

/// An error of an operation of a store of records.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordStoreError {
    /// The record has another revision than expected.
    #[error("{}", conflict(uri, *expected, *found))]
    Conflict {
        /// URI of the record.
        uri: String,
        /// The expected revision; None if the record was expected not to exist.
        expected: Option<u64>,
        /// The revision found; None if the record does not exist.
        found: Option<u64>,
    },
    /// A group with this path exists already.
    #[error("the group {path} exists already")]
    PathTaken {
        /// Path of the group.
        path: String,
    },
    /// The group in which a record is to be stored does not exist.
    #[error("no group {path}")]
    NoGroup {
        /// The path of the group.
        path: String,
    },
    /// A group that is to be removed, renamed or moved still holds records.
    #[error("the group {path} is not empty")]
    NotEmpty {
        /// The path of the group.
        path: String,
    },
    /// Other records refer to a record that is to be removed.
    #[error("{count} other records need it")]
    InUse {
        /// Number of referring records.
        count: u64,
    },
    /// A record that another one refers to does not exist (any more).
    #[error("the required record {0} does not exist")]
    Missing(String),
    /// The number of records of some kind would exceed its maximum
    /// ([`Put::count_limit`](crate::Put::count_limit)).
    #[error("{found} records would exceed the limit of {max}")]
    TooMany {
        /// Number of records that there would be.
        found: u64,
        /// The maximum.
        max: u64,
    },
    /// The parts of a record form no URI.
    #[error(
        "a record needs an organisation, a type and an object id that are valid in a URI, not {organization:?}, {kind:?} and {object_id:?}"
    )]
    NoUri {
        /// The organisation.
        organization: String,
        /// The type.
        kind: String,
        /// The object id.
        object_id: String,
    },
    /// A record in a home (`~`) has no owner.
    #[error("{0} is in a home (~) but has no owner")]
    NoOwner(String),
    /// A text is not the path of a group.
    #[error("{0:?} is not a group path: it must begin with ~ or /, without empty names")]
    Path(String),
    /// The attributes of a record are nested too deeply.
    #[error("the attributes are nested deeper than {max} levels")]
    TooDeep {
        /// The maximum depth.
        max: usize,
    },
    /// The content of a record is larger than the store allows.
    #[error("the content has {bytes} bytes, more than max_content_bytes ({max})")]
    ContentTooLarge {
        /// Size of the content, in bytes.
        bytes: u64,
        /// Largest allowed size, in bytes.
        max: u64,
    },
    /// The database failed.
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

impl DatabaseStoreError for RecordStoreError {
    fn in_file(self, path: &Path) -> Self {
        match self {
            Self::Database(error) => error.in_file(path).into(),
            error => error,
        }
    }
}

impl RecordStoreError {
    /// Returns whether the record has another revision than expected.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict { .. })
    }
}

fn conflict(uri: &str, expected: Option<u64>, found: Option<u64>) -> String {
    match (expected, found) {
        (Some(expected), Some(found)) => {
            format!("{uri} was changed meanwhile: it has revision {found}, not {expected}")
        }
        (Some(_), None) => format!("{uri} was removed meanwhile"),
        (None, _) => format!("{uri} is there already"),
    }
}
