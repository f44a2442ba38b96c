//! A database in one file, on libSQL.
//!
//! Connections and values are those of the crate `libsql`, which users of this module depend on, too.

mod engine;
mod file;
mod path;
mod prepared;
mod schema;

pub use self::{
    engine::{checkpoint, error, json, limit, map, number, select, text, transaction, wait},
    file::LibsqlFile,
    prepared::Prepared,
    schema::Schema,
};
