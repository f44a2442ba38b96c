#![doc = include_str!("../README.md")]

#[cfg(feature = "jq")]
mod jq;
mod limits;
mod search;
#[cfg(feature = "sql")]
mod sql;
#[cfg(feature = "sql")]
mod table;

#[cfg(feature = "jq")]
pub use crate::jq::{JqError, JqOutput, jq};
pub use crate::{
    limits::QueryLimits,
    search::{Pattern, SearchError, SearchMatch, SearchOutput, SearchRequest, search},
};
#[cfg(feature = "sql")]
pub use crate::{
    sql::{SqlError, SqlOutput, sql},
    table::{Table, TableError},
};
