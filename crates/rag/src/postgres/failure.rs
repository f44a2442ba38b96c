//! What can go wrong with a PostgreSQL.

use std::error::Error;

use deadpool_postgres::PoolError;
use tokio_postgres::error::SqlState;

use crate::store::StoreError;

/// Why the database did not do what it was asked; each store says it in its own words.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The URL or the server cannot serve us; this says why.
    Unusable(String),
    /// There is no connection, or none any more.
    Disconnected(String),
    /// All connections are in use, so many of them.
    NoConnection(usize),
    /// It took longer than it may.
    Timeout,
    /// Somebody else held a lock for too long.
    Busy,
    /// The disk is full.
    Full,
    /// What is in the database cannot be.
    Damaged(String),
    /// The role may not do that.
    Denied(String),
    /// Anything else.
    Engine(String),
}

impl Failure {
    pub(crate) fn of_pool(error: PoolError, connections: usize) -> Self {
        match error {
            PoolError::Backend(error) => match Self::from(error) {
                // Before there is a connection, everything is about getting one.
                Self::Engine(message) | Self::Denied(message) => Self::Disconnected(message),
                other => other,
            },
            PoolError::PostCreateHook(deadpool_postgres::HookError::Backend(error)) => error.into(),
            PoolError::Timeout(_) => Self::NoConnection(connections),
            other => Self::Engine(other.to_string()),
        }
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(code) = error.code() else {
            let message = chain(&error);
            let of_connection = error.is_closed()
                || error.source().is_some_and(|source| source.is::<std::io::Error>());
            return if of_connection { Self::Disconnected(message) } else { Self::Engine(message) };
        };
        // The message alone: details may quote what is in the database.
        let message = error.as_db_error().map_or_else(String::new, |error| {
            format!("{} (SQLSTATE {})", error.message(), error.code().code())
        });
        match code.code().get(..2) {
            // The server ends, or has not begun yet; the connection is broken.
            Some("08") => return Self::Disconnected(message),
            Some("57") if *code != SqlState::QUERY_CANCELED => return Self::Disconnected(message),
            // It has gone back to what it was, as two who write did not agree.
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
            _ => Self::Engine(message),
        }
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Unusable(why) => Self::Unusable(why),
            Failure::Disconnected(why) => Self::Disconnected(why),
            Failure::NoConnection(connections) => Self::NoConnection { connections },
            Failure::Timeout => Self::Timeout,
            Failure::Busy => Self::Busy,
            Failure::Full => Self::Full,
            Failure::Damaged(what) => Self::Damaged(what),
            Failure::Engine(message) | Failure::Denied(message) => Self::engine(message),
        }
    }
}

impl From<tokio_postgres::Error> for StoreError {
    fn from(error: tokio_postgres::Error) -> Self {
        Failure::from(error).into()
    }
}

/// An error with what caused it.
fn chain(error: &dyn Error) -> String {
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
