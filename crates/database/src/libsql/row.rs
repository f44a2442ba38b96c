//! Rows and the types of their columns.

use std::fmt::Display;

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
    /// Returns an error if its value has another type ([`DatabaseError::Damaged`]).
    pub fn get<T: Column>(&self, column: usize) -> Result<T, DatabaseError> {
        let value =
            self.0.get(column).cloned().ok_or_else(|| {
                DatabaseError::damaged(format_args!("a row has no column {column}"))
            })?;
        converted(value, column)
    }

    /// Returns a column that holds JSON.
    ///
    /// # Errors
    ///
    /// Returns an error if it does not parse ([`DatabaseError::Damaged`]).
    pub fn json<T: DeserializeOwned>(&self, column: usize) -> Result<T, DatabaseError> {
        serde_json::from_str(&self.get::<String>(column)?).map_err(DatabaseError::damaged)
    }
}

/// Converts the value of a column, which errors name.
pub(super) fn converted<T: Column>(value: Value, column: impl Display) -> Result<T, DatabaseError> {
    let kind = match value {
        Value::Null => "no value",
        Value::Integer(_) => "an integer",
        Value::Real(_) => "a real number",
        Value::Text(_) => "a text",
        Value::Blob(_) => "a blob",
    };
    T::of(value)
        .ok_or_else(|| DatabaseError::damaged(format_args!("column {column} of a row has {kind}")))
}

/// A type of columns.
pub trait Column: Sized {
    /// Returns the value as this type; None if it has another one.
    fn of(value: Value) -> Option<Self>;
}

impl Column for String {
    fn of(value: Value) -> Option<Self> {
        match value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl Column for Vec<u8> {
    fn of(value: Value) -> Option<Self> {
        match value {
            Value::Blob(bytes) => Some(bytes),
            _ => None,
        }
    }
}

impl Column for i64 {
    fn of(value: Value) -> Option<Self> {
        match value {
            Value::Integer(number) => Some(number),
            _ => None,
        }
    }
}

impl Column for u64 {
    fn of(value: Value) -> Option<Self> {
        i64::of(value)?.try_into().ok()
    }
}

impl Column for u32 {
    fn of(value: Value) -> Option<Self> {
        i64::of(value)?.try_into().ok()
    }
}

impl Column for bool {
    fn of(value: Value) -> Option<Self> {
        i64::of(value).map(|number| number != 0)
    }
}

impl Column for f64 {
    #[expect(clippy::cast_precision_loss, reason = "as SQLite converts a number to REAL")]
    fn of(value: Value) -> Option<Self> {
        match value {
            Value::Real(number) => Some(number),
            Value::Integer(number) => Some(number as Self),
            _ => None,
        }
    }
}

impl<T: Column> Column for Option<T> {
    fn of(value: Value) -> Option<Self> {
        match value {
            Value::Null => Some(None),
            value => T::of(value).map(Some),
        }
    }
}
