//! What goes wrong with knowledge, as agents hear of it.

use marquetry_protocol::RpcError;
use marquetry_rag::{
    ChunkError, DatabaseError, ExtractError, PipelineError, RecordError, RecordStoreError,
    StoreError,
};

use serde_json::json;

use super::KnowledgeError;

/// Why something was not done: for programs, and for people and models.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failure {
    pub(crate) code: ErrorCode,
    pub(crate) message: String,
}

/// What kind of failure; the names of seed 003.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorCode {
    InvalidParams,
    NotFound,
    Forbidden,
    Conflict,
    LimitExceeded,
    /// It was not begun, since others keep the server busy; nothing is broken.
    Busy,
    /// It may work later.
    Unavailable,
    Internal,
}

impl ErrorCode {
    pub(crate) const ALL: [Self; 8] = [
        Self::InvalidParams,
        Self::NotFound,
        Self::Forbidden,
        Self::Conflict,
        Self::LimitExceeded,
        Self::Busy,
        Self::Unavailable,
        Self::Internal,
    ];

    pub(crate) fn as_str(self) -> &'static str {
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

/// Under which name the data of an error says what kind of failure of ours it is; what an upstream says is not.
const KIND: &str = "marquetry/failure";

impl Failure {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidParams, message)
    }

    /// The same after something was done already, which is said first.
    pub(crate) fn after(self, done: &str) -> Self {
        Self { message: format!("{done}: {}", self.message), ..self }
    }

    /// As an error of the protocol about the resource `uri`.
    pub(crate) fn of_resource(self, uri: &str) -> RpcError {
        match self.code {
            ErrorCode::NotFound => RpcError::resource_not_found(uri),
            _ => self.into(),
        }
    }
}

impl From<Failure> for RpcError {
    /// What kind of failure it is stands in the data, since there are more kinds than codes.
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

/// Which setting says how long work may take.
const TIME: &str = " (knowledge.max_work_ms)";

impl From<ExtractError> for Failure {
    fn from(error: ExtractError) -> Self {
        let code = match error {
            ExtractError::Time(_) => {
                return Self::new(ErrorCode::LimitExceeded, format!("{error}{TIME}"));
            }
            ExtractError::Limit { .. } => ErrorCode::LimitExceeded,
            // These say nothing about the document, which may be read the next time.
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
