//! Statements that are prepared once.

use libsql::{Connection, Rows, Statement, params::IntoParams};

use super::engine::{error, get, wait};
use crate::DatabaseError;

/// A prepared statement.
pub struct Prepared(Statement);

impl Prepared {
    /// Prepares a statement.
    ///
    /// # Errors
    ///
    /// Returns an error if the engine fails.
    pub fn new(connection: &Connection, sql: &str) -> Result<Self, DatabaseError> {
        wait(connection.prepare(sql)).map(Self).map_err(error)
    }

    /// Resets the statement. A statement that was not read to its end keeps its transaction open.
    pub fn reset(&self) {
        self.0.reset();
    }

    /// Runs the statement.
    ///
    /// # Errors
    ///
    /// Returns an error if the engine fails.
    pub fn execute(&self, params: impl IntoParams) -> Result<(), DatabaseError> {
        self.0.reset();
        wait(self.0.execute(params)).map(drop).map_err(error)
    }

    /// Runs the statement, and returns its rows.
    ///
    /// # Errors
    ///
    /// Returns an error if the engine fails.
    pub fn query(&self, params: impl IntoParams) -> Result<Rows, DatabaseError> {
        self.0.reset();
        wait(self.0.query(params)).map_err(error)
    }

    /// Runs the statement, and returns the first column of the first row as a number.
    ///
    /// # Errors
    ///
    /// Returns an error if the engine fails.
    pub fn number(&self, params: impl IntoParams) -> Result<Option<i64>, DatabaseError> {
        let row = wait(self.query(params)?.next()).map_err(error)?;
        let number = row.map(|row| get(&row, 0)).transpose();
        // A statement that was not read to its end keeps its transaction open.
        self.0.reset();
        number
    }
}
