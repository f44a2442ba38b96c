//! Errors of [`Records`](crate::Records).

use marquetry_context_blocks::{Am7Uri, Am7UriError};

use crate::{RecordStoreError, model::TAG, types::ModelType};

/// An error of an operation of [`Records`](super::Records).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The record does not exist, or the caller may not read it: the caller cannot tell which.
    #[error("no record {0}")]
    NotFound(String),
    /// The caller may read the record, but may not do this action.
    #[error("you may not {action} {target}")]
    Forbidden {
        /// The action.
        action: &'static str,
        /// The URI of a record, or the path of a group.
        target: String,
    },
    /// The record has changed since the caller read it, or exists already.
    #[error(transparent)]
    Conflict(RecordStoreError),
    /// Other records refer to the record.
    #[error("{target} cannot be removed: {}{by}", count.map(|count| format!("{count} ")).unwrap_or_default())]
    InUse {
        /// URI of the record.
        target: String,
        /// Number of referring records; only for administrators.
        count: Option<u64>,
        /// The referring records, as text that fits after the number.
        by: &'static str,
    },
    /// A group that holds records cannot be removed, renamed, moved or given away.
    #[error("the group {0} is not empty: move or remove its records first")]
    NotEmpty(String),
    /// No type has this name.
    #[error("no type {name:?}{}", did_you_mean(*nearest))]
    UnknownType {
        /// The name, shortened if it is very long.
        name: String,
        /// The most similar name of a type.
        nearest: Option<&'static str>,
    },
    /// An attribute is missing, or its value has another kind than the table of types requires.
    #[error("the attribute {attribute:?} of {model} is {wanted}, {}", describe_found(*found))]
    Attribute {
        /// The type of the record.
        model: &'static str,
        /// The attribute.
        attribute: &'static str,
        /// The required kind.
        wanted: &'static str,
        /// Kind of the given value; `None` if it is missing.
        found: Option<&'static str>,
    },
    /// A part of a record is invalid.
    #[error("{field} {problem}")]
    Invalid {
        /// The part.
        field: &'static str,
        /// The problem, so that it fits after the name of the part.
        problem: String,
    },
    /// A text is not the URI of a record.
    #[error("{uri:?} is not a record URI: {source}")]
    Uri {
        /// The URI, shortened if it is very long.
        uri: String,
        /// The reason.
        source: Am7UriError,
    },
    /// The caller can read no tag with this name or URI.
    #[error("no tag {0:?}; create it first")]
    UnknownTag(String),
    /// One of the [`RecordLimits`](super::RecordLimits) is exceeded.
    #[error("{field} has {got} {unit}, more than {limit} ({max})")]
    Limit {
        /// The part that exceeds the limit.
        field: &'static str,
        /// The name of the limit.
        limit: &'static str,
        /// The number found, or at least that many.
        got: usize,
        /// The unit.
        unit: &'static str,
        /// The maximum.
        max: usize,
    },
    /// The store failed.
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

fn did_you_mean(nearest: Option<&str>) -> String {
    if let Some(nearest) = nearest {
        format!("; did you mean {nearest}?")
    } else {
        let names: Vec<_> = ModelType::ALL.iter().map(|model| model.name).collect();
        format!("; the types are {}", names.join(", "))
    }
}

fn describe_found(found: Option<&str>) -> String {
    found.map_or_else(|| "and is missing".to_owned(), |found| format!("not {found}"))
}
