//! A database in one file, on libSQL.
//!
//! Connections and values are types of the crate `libsql`; users of this module depend on it, too.

mod engine;
mod file;
mod path;
mod prepared;
mod schema;
mod tables;

pub use self::{
    engine::{checkpoint, error, json, limit, map, number, select, text, transaction, wait},
    file::LibsqlFile,
    prepared::Prepared,
    schema::Schema,
    tables::{Tables, TablesOptions},
};
