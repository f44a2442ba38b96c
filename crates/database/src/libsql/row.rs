//! Rows and the types of their columns.

use libsql::Value;
use serde::de::DeserializeOwned;

use crate::DatabaseError;

/// A row of a result.
#[derive(Clone, Debug, PartialEq)]
pub struct Row(pub(super) Vec<Value>);

impl Row {
    /// Returns a column, counted from 0.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Damaged`] if its value has another type.
    pub fn get<T: Column>(&self, column: usize) -> Result<T, DatabaseError> {
        let value = self.0.get(column);
        let found = value.and_then(T::of);
        found.ok_or_else(|| {
            DatabaseError::damaged(format_args!("column {column} of a row has the value {value:?}"))
        })
    }

    /// Returns a column that holds JSON.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Damaged`] if it does not parse.
    pub fn json<T: DeserializeOwned>(&self, column: usize) -> Result<T, DatabaseError> {
        serde_json::from_str(&self.get::<String>(column)?).map_err(DatabaseError::damaged)
    }
}

/// A type of columns.
pub trait Column: Sized {
    /// Returns the value as this type; None if it has another one.
    fn of(value: &Value) -> Option<Self>;
}

impl Column for String {
    fn of(value: &Value) -> Option<Self> {
        value.as_text().cloned()
    }
}

impl Column for i64 {
    fn of(value: &Value) -> Option<Self> {
        value.as_integer().copied()
    }
}

impl Column for u64 {
    fn of(value: &Value) -> Option<Self> {
        i64::of(value)?.try_into().ok()
    }
}

impl Column for u32 {
    fn of(value: &Value) -> Option<Self> {
        i64::of(value)?.try_into().ok()
    }
}

impl Column for bool {
    fn of(value: &Value) -> Option<Self> {
        i64::of(value).map(|number| number != 0)
    }
}

impl Column for f64 {
    #[expect(clippy::cast_precision_loss, reason = "as SQLite converts a number to REAL")]
    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Real(number) => Some(*number),
            Value::Integer(number) => Some(*number as Self),
            _ => None,
        }
    }
}

impl<T: Column> Column for Option<T> {
    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Null => Some(None),
            value => T::of(value).map(Some),
        }
    }
}
