#![doc = include_str!("../README.md")]

#[cfg(feature = "sql")]
mod cells;
#[cfg(all(any(test, fuzzing), feature = "jq", feature = "sql"))]
#[doc(hidden)]
pub mod fuzz;
#[cfg(feature = "jq")]
mod jq;
#[cfg(any(feature = "jq", feature = "sql"))]
mod json;
mod limits;
mod matcher;
mod search;
#[cfg(feature = "sql")]
mod sql;
#[cfg(feature = "sql")]
mod table;

#[cfg(feature = "jq")]
pub use crate::jq::{JqError, JqOutput, jq, jq_holding};
pub use crate::{
    limits::{Cancel, CancelOnDrop, QueryLimits},
    search::{Pattern, SearchError, SearchMatch, SearchOutput, SearchRequest, search},
};
#[cfg(feature = "sql")]
pub use crate::{
    sql::{SqlError, SqlOutput, sql},
    table::{Table, TableError},
};

/// Problems that a result lists; further ones are counted.
#[cfg(any(feature = "jq", feature = "sql"))]
const MAX_PROBLEMS: usize = 5;
