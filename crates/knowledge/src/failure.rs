//! Failures as clients see them.

use marquetry_protocol::RpcError;
use marquetry_rag::{
    ChunkError, DatabaseError, ExtractError, PipelineError, RecordError, RecordStoreError,
    StoreError,
};
use serde_json::json;

use crate::error::KnowledgeError;

/// Why a request failed: a code for programs, a message for people and models.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The kind of failure.
    pub code: ErrorCode,
    /// The failed operation, its object, and what to do.
    pub message: String,
}

/// The kind of a [`Failure`]; the names of seed 003.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCode {
    /// An argument is missing or not valid.
    InvalidParams,
    /// The record does not exist, or the caller may not read it.
    NotFound,
    /// The caller may not change the record.
    Forbidden,
    /// The record was changed meanwhile, or is in use.
    Conflict,
    /// A limit of size or time was exceeded.
    LimitExceeded,
    /// The work was not begun, since other work keeps the process busy.
    Busy,
    /// The database or a model cannot be used now; a later try may work.
    Unavailable,
    /// A fault of this program.
    Internal,
}

impl ErrorCode {
    /// All codes.
    pub const ALL: [Self; 8] = [
        Self::InvalidParams,
        Self::NotFound,
        Self::Forbidden,
        Self::Conflict,
        Self::LimitExceeded,
        Self::Busy,
        Self::Unavailable,
        Self::Internal,
    ];

    /// Returns the name in messages and `_meta`, such as `invalid_params`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidParams => "invalid_params",
            Self::NotFound => "not_found",
            Self::Forbidden => "forbidden",
            Self::Conflict => "conflict",
            Self::LimitExceeded => "limit_exceeded",
            Self::Busy => "busy",
            Self::Unavailable => "unavailable",
            Self::Internal => "internal",
        }
    }
}

/// Member of an error's data that holds the code of a failure of this crate. Errors of upstreams
/// have none.
const KIND: &str = "marquetry/failure";

impl Failure {
    /// Creates a failure of this kind.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// Creates a failure with [`ErrorCode::InvalidParams`].
    #[must_use]
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidParams, message)
    }

    /// Returns the same failure with a message that begins with what was done already.
    pub(crate) fn after(self, done: &str) -> Self {
        Self { message: format!("{done}: {}", self.message), ..self }
    }

    /// Returns the protocol's error for a request about the resource `uri`.
    #[must_use]
    pub fn of_resource(self, uri: &str) -> RpcError {
        match self.code {
            ErrorCode::NotFound => RpcError::resource_not_found(uri),
            _ => self.into(),
        }
    }
}

impl From<Failure> for RpcError {
    /// Converts a failure. Its data has the [`ErrorCode`], because JSON-RPC has fewer codes.
    fn from(Failure { code, message }: Failure) -> Self {
        let error = match code {
            ErrorCode::InvalidParams | ErrorCode::NotFound => Self::invalid_params(message),
            ErrorCode::Forbidden | ErrorCode::Conflict => Self::invalid_request(message),
            ErrorCode::LimitExceeded => Self::limit_exceeded(message),
            ErrorCode::Busy | ErrorCode::Unavailable | ErrorCode::Internal => {
                Self::internal(message)
            }
        };
        error.with_data(&json!({ KIND: code.as_str() }))
    }
}

impl From<RecordError> for Failure {
    fn from(error: RecordError) -> Self {
        let code = match &error {
            RecordError::NotFound(_) => ErrorCode::NotFound,
            RecordError::Forbidden { .. } => ErrorCode::Forbidden,
            RecordError::Conflict(_) | RecordError::InUse { .. } | RecordError::NotEmpty(_) => {
                ErrorCode::Conflict
            }
            RecordError::Limit { .. } => ErrorCode::LimitExceeded,
            RecordError::Store(RecordStoreError::ContentTooLarge { .. }) => {
                ErrorCode::LimitExceeded
            }
            RecordError::Store(RecordStoreError::Database(error)) => code_of_database(error),
            _ => ErrorCode::InvalidParams,
        };
        Self::new(code, error.to_string())
    }
}

impl From<RecordStoreError> for Failure {
    fn from(error: RecordStoreError) -> Self {
        RecordError::from(error).into()
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::new(code_of(&error), error.to_string())
    }
}

fn code_of(error: &StoreError) -> ErrorCode {
    match error {
        StoreError::QueryTooLong { .. } | StoreError::LimitTooLarge { .. } => {
            ErrorCode::LimitExceeded
        }
        StoreError::Fusion => ErrorCode::InvalidParams,
        StoreError::Database(error) => code_of_database(error),
        _ => ErrorCode::Internal,
    }
}

fn code_of_database(error: &DatabaseError) -> ErrorCode {
    match error {
        DatabaseError::Full
        | DatabaseError::Busy
        | DatabaseError::ReadOnly
        | DatabaseError::Closed
        | DatabaseError::Disconnected(_)
        | DatabaseError::NoConnection { .. }
        | DatabaseError::Timeout => ErrorCode::Unavailable,
        _ => ErrorCode::Internal,
    }
}

impl From<ChunkError> for Failure {
    fn from(error: ChunkError) -> Self {
        match error {
            ChunkError::Time(_) => Self::new(ErrorCode::LimitExceeded, format!("{error}{TIME}")),
            ChunkError::Stopped => Self::new(ErrorCode::Unavailable, error.to_string()),
            _ => Self::invalid(error.to_string()),
        }
    }
}

/// The setting for the time limit of work.
const TIME: &str = " (knowledge.max_work_ms)";

impl From<ExtractError> for Failure {
    fn from(error: ExtractError) -> Self {
        let code = match error {
            ExtractError::Time(_) => {
                return Self::new(ErrorCode::LimitExceeded, format!("{error}{TIME}"));
            }
            ExtractError::Limit { .. } => ErrorCode::LimitExceeded,
            // These errors are not caused by the document, so a later try may succeed.
            ExtractError::Busy(_) => ErrorCode::Busy,
            ExtractError::Stopped => ErrorCode::Unavailable,
            _ => ErrorCode::InvalidParams,
        };
        Self::new(code, error.to_string())
    }
}

impl From<PipelineError> for Failure {
    fn from(error: PipelineError) -> Self {
        match error {
            PipelineError::Chunk(error) => error.into(),
            PipelineError::Store(error) => error.into(),
            error => Self::new(ErrorCode::Unavailable, error.to_string()),
        }
    }
}

impl From<KnowledgeError> for Failure {
    fn from(error: KnowledgeError) -> Self {
        Self::new(ErrorCode::Unavailable, error.to_string())
    }
}
