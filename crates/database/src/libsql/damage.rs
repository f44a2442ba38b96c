//! Damage for tests of stores.

use libsql::Connection;

use super::engine::{get, select};
use crate::DatabaseError;

/// Returns statements each of which gives one column of one table a value of a type that it should
/// not have. A store has to answer with errors afterwards; it must not panic.
///
/// # Errors
///
/// Returns an error if the engine fails.
pub fn damages(connection: &Connection) -> Result<Vec<String>, DatabaseError> {
    let columns = "SELECT t.name, c.name FROM sqlite_schema t JOIN pragma_table_info(t.name) c \
        WHERE t.type = 'table' AND t.sql NOT LIKE 'CREATE VIRTUAL%' ORDER BY 1, 2";
    let columns = select(connection, columns, (), |row| {
        Ok::<_, DatabaseError>((get::<String>(row, 0)?, get::<String>(row, 1)?))
    })?;
    let values =
        ["NULL", "-1", "9223372036854775807", "1.5", "'{'", "x'ff'", "CAST(x'ff' AS TEXT)"];
    let statements = columns.iter().flat_map(|(table, column)| {
        values.map(|value| format!("UPDATE OR IGNORE \"{table}\" SET \"{column}\" = {value}"))
    });
    Ok(statements.collect())
}
