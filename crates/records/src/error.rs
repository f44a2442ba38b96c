//! Why something was not done with records.

use marquetry_context_blocks::{Am7Uri, Am7UriError};

use crate::{RecordStoreError, model::TAG, types};

/// Why [`Records`](super::Records) did not do what they were asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// There is no such record for the caller, who may not even know whether there is one for somebody else.
    #[error("there is no record {0}")]
    NotFound(String),
    /// The caller may read it, but not do this.
    #[error("you may not {action} {target}")]
    Forbidden {
        /// What was to be done.
        action: &'static str,
        /// With what: a URI, or the path of a group.
        target: String,
    },
    /// It is not what it was when the caller saw it, or is there already.
    #[error(transparent)]
    Conflict(RecordStoreError),
    /// Something else still needs it.
    #[error("{target} cannot be removed: {}{by}", count.map(|count| format!("{count} ")).unwrap_or_default())]
    InUse {
        /// Its URI.
        target: String,
        /// How many; only administrators are told.
        count: Option<u64>,
        /// What needs it, so that it fits after the number.
        by: &'static str,
    },
    /// A group in which something lies cannot be removed, renamed, moved or given away.
    #[error("the group {0} is not empty: move or remove what lies in it first")]
    NotEmpty(String),
    /// There is no such type.
    #[error("there is no type {name:?}{}", types::did_you_mean(*nearest))]
    UnknownType {
        /// The name, shortened if it is very long.
        name: String,
        /// The known name that is nearest.
        nearest: Option<&'static str>,
    },
    /// An attribute is not what its type says, or is missing.
    #[error("the attribute {attribute:?} of {model} is {wanted}, {}", types::found(*found))]
    Attribute {
        /// The type of the record.
        model: &'static str,
        /// The attribute.
        attribute: &'static str,
        /// What it holds.
        wanted: &'static str,
        /// What was given; None if nothing was.
        found: Option<&'static str>,
    },
    /// A part of a record cannot be so.
    #[error("{field} {problem}")]
    Invalid {
        /// Which part.
        field: &'static str,
        /// What is wrong with it, so that it fits after the name of the part.
        problem: String,
    },
    /// A URI does not read.
    #[error("{uri:?} is no URI of a record: {source}")]
    Uri {
        /// The URI, shortened if it is very long.
        uri: String,
        /// Why.
        source: Am7UriError,
    },
    /// There is no tag with this name or URI for the caller.
    #[error("there is no tag {0:?}; create it first")]
    UnknownTag(String),
    /// Something is more than one of the [`RecordLimits`](super::RecordLimits).
    #[error("{field} has {got} {unit}, more than {limit} ({max})")]
    Limit {
        /// Which part.
        field: &'static str,
        /// The name of the limit.
        limit: &'static str,
        /// How many there are, or at least that many.
        got: usize,
        /// Of what.
        unit: &'static str,
        /// How many there may be.
        max: usize,
    },
    /// The store could not do it.
    #[error(transparent)]
    Store(RecordStoreError),
}

impl From<RecordStoreError> for RecordError {
    fn from(error: RecordStoreError) -> Self {
        match error {
            RecordStoreError::Conflict { .. } | RecordStoreError::PathTaken { .. } => {
                Self::Conflict(error)
            }
            RecordStoreError::NotEmpty { path } => Self::NotEmpty(path),
            RecordStoreError::Missing(uri) if is_tag(&uri) => Self::UnknownTag(uri),
            RecordStoreError::Missing(uri) => Self::NotFound(uri),
            error => Self::Store(error),
        }
    }
}

fn is_tag(uri: &str) -> bool {
    Am7Uri::parse(uri).is_ok_and(|uri| uri.object_type() == Some(TAG))
}

impl RecordError {
    pub(crate) fn invalid(field: &'static str, problem: impl Into<String>) -> Self {
        Self::Invalid { field, problem: problem.into() }
    }
}
