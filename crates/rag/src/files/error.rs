//! Errors that end indexing.

use marquetry_index::{DatabaseError, StoreError};
use marquetry_records::{RecordError, RecordStoreError};

/// An error that ends indexing. Earlier results stay stored. Problems of single files are in the
/// report instead.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The records failed.
    #[error(transparent)]
    Records(#[from] RecordError),
    /// The store of chunks failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl IndexError {
    /// Returns whether another process kept the database locked, so that the next run may succeed.
    pub fn is_busy(&self) -> bool {
        matches!(
            self,
            Self::Store(StoreError::Database(DatabaseError::Busy))
                | Self::Records(RecordError::Store(RecordStoreError::Database(
                    DatabaseError::Busy
                )))
        )
    }

    /// Returns whether a database failed; otherwise the request cannot be carried out.
    pub fn is_of_database(&self) -> bool {
        matches!(self, Self::Store(_) | Self::Records(RecordError::Store(_)))
    }
}
