//! A database on libSQL: one file, or a server.
//!
//! Connections and values are types of the crate `libsql`; users of this module depend on it, too.

#[cfg(feature = "damage")]
mod damage;
mod engine;
mod file;
mod path;
mod prepared;
#[cfg(feature = "remote")]
mod remote;
mod row;
mod schema;
mod sql;
mod tables;

#[cfg(feature = "damage")]
pub use self::damage::damages;
#[cfg(feature = "remote")]
pub use self::remote::{RemoteLibsql, Session};
pub use self::{
    engine::{checkpoint, error, get, json, limit, map, number, select, text, transaction, wait},
    file::LibsqlFile,
    prepared::Prepared,
    row::{Column, Row},
    schema::Schema,
    sql::Sql,
    tables::{Tables, TablesOptions},
};
