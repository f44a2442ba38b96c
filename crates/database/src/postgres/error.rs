//! Converts errors of PostgreSQL.

use std::error::Error;

use deadpool_postgres::{HookError, PoolError};
use tokio_postgres::error::SqlState;

use crate::DatabaseError;

/// Converts an error of a pool with this number of connections.
pub(super) fn from_pool_error(error: PoolError, connections: usize) -> DatabaseError {
    match error {
        PoolError::Backend(error) => match DatabaseError::from(error) {
            // Before a connection exists, every error is a connection error.
            DatabaseError::Engine(error) => DatabaseError::Disconnected(error.to_string()),
            DatabaseError::Denied(message) => DatabaseError::Disconnected(message),
            other => other,
        },
        PoolError::PostCreateHook(HookError::Backend(error)) => error.into(),
        PoolError::Timeout(_) => DatabaseError::NoConnection { connections },
        other => DatabaseError::engine(other.to_string()),
    }
}

impl From<tokio_postgres::Error> for DatabaseError {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(code) = error.code() else {
            let message = with_causes(&error);
            let is_connection_error = error.is_closed()
                || error
                    .source()
                    .is_some_and(<dyn std::error::Error + 'static>::is::<std::io::Error>);
            return if is_connection_error {
                Self::Disconnected(message)
            } else {
                Self::engine(message)
            };
        };
        // Only the message is used: details may quote stored values.
        let message = error.as_db_error().map_or_else(String::new, |error| {
            format!("{} (SQLSTATE {})", error.message(), error.code().code())
        });
        // The classes of SQLSTATE (PostgreSQL, appendix A).
        match code.code().get(..2) {
            // Connection exception.
            Some("08") => return Self::Disconnected(message),
            // Operator intervention: the server shuts down or starts.
            Some("57") if *code != SqlState::QUERY_CANCELED => return Self::Disconnected(message),
            // Transaction rollback: two writers conflicted.
            Some("40") => return Self::Busy,
            _ => {}
        }
        match *code {
            SqlState::QUERY_CANCELED | SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT => {
                Self::Timeout
            }
            SqlState::LOCK_NOT_AVAILABLE => Self::Busy,
            SqlState::INSUFFICIENT_PRIVILEGE => Self::Denied(message),
            SqlState::DISK_FULL => Self::Full,
            SqlState::DATA_CORRUPTED | SqlState::INDEX_CORRUPTED => Self::Damaged(message),
            SqlState::TOO_MANY_CONNECTIONS => Self::Disconnected(message),
            _ => Self::engine(message),
        }
    }
}

/// Returns the messages of an error and of its causes.
fn with_causes(error: &dyn Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !message.ends_with(&text) {
            message = format!("{message}: {text}");
        }
        cause = error.source();
    }
    message
}
