//! A common interface to a libSQL database in a file or on a server.

use libsql::{Connection, params::IntoParams};
#[cfg(feature = "remote")]
use libsql::{Value, params::Params};

#[cfg(feature = "remote")]
use super::remote::Session;
use super::{Row, engine, error, wait};
use crate::DatabaseError;

/// A database during one piece of work. The work blocks.
#[derive(Clone, Copy)]
pub enum Sql<'a> {
    /// A connection to a file.
    File(&'a Connection),
    /// A session with a server.
    #[cfg(feature = "remote")]
    Server(&'a Session),
}

impl<'a> From<&'a Connection> for Sql<'a> {
    fn from(connection: &'a Connection) -> Self {
        Self::File(connection)
    }
}

#[cfg(feature = "remote")]
impl<'a> From<&'a Session> for Sql<'a> {
    fn from(session: &'a Session) -> Self {
        Self::Server(session)
    }
}

impl Sql<'_> {
    /// Returns all rows of a query, each converted by `read`.
    ///
    /// # Errors
    ///
    /// Returns an error if the database or `read` fails.
    pub fn select<T, E: From<DatabaseError>>(
        self,
        sql: &str,
        params: impl IntoParams,
        read: impl Fn(&Row) -> Result<T, E>,
    ) -> Result<Vec<T>, E> {
        match self {
            Self::File(connection) => engine::select(connection, sql, params, |row| {
                let values = (0..row.column_count()).map(|column| engine::value(row, column));
                read(&Row(values.collect::<Result<_, _>>()?))
            }),
            #[cfg(feature = "remote")]
            Self::Server(session) => {
                session.select(sql, positional(params)?)?.iter().map(read).collect()
            }
        }
    }

    /// Returns the first column of the first row as a number; None without rows.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails.
    pub fn number(self, sql: &str) -> Result<Option<i64>, DatabaseError> {
        match self {
            Self::File(connection) => engine::number(connection, sql),
            #[cfg(feature = "remote")]
            Self::Server(session) => {
                let rows = session.select(sql, Vec::new())?;
                rows.first().map(|row| row.get(0)).transpose()
            }
        }
    }

    /// Runs a statement without rows. In a transaction with a server it may be sent later: with the
    /// next query, or at the end of the transaction, which then has its error.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails.
    pub fn execute(self, sql: &str, params: impl IntoParams) -> Result<(), DatabaseError> {
        match self {
            Self::File(connection) => {
                wait(connection.execute(sql, params)).map(drop).map_err(error)
            }
            #[cfg(feature = "remote")]
            Self::Server(session) => session.execute(sql, positional(params)?),
        }
    }

    /// Runs several statements without parameters.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails.
    pub fn batch(self, statements: &str) -> Result<(), DatabaseError> {
        match self {
            Self::File(connection) => {
                wait(connection.execute_batch(statements)).map(drop).map_err(error)
            }
            #[cfg(feature = "remote")]
            Self::Server(session) => session.sequence(statements),
        }
    }

    /// Runs work in a transaction that begins with the statement `begin`; an error rolls it back.
    ///
    /// # Errors
    ///
    /// Returns an error if the database or the work fails.
    pub fn transaction<T, E: From<DatabaseError>>(
        self,
        begin: &str,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        match self {
            Self::File(connection) => engine::transaction(connection, begin, work),
            #[cfg(feature = "remote")]
            Self::Server(session) => session.transaction(begin, work),
        }
    }
}

/// Returns the values of parameters without names.
#[cfg(feature = "remote")]
fn positional(params: impl IntoParams) -> Result<Vec<Value>, DatabaseError> {
    match params.into_params().map_err(error)? {
        Params::None => Ok(Vec::new()),
        Params::Positional(values) => Ok(values),
        Params::Named(_) => Err(DatabaseError::engine("parameters have no names here")),
    }
}
