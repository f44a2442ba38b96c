//! The figures in a libSQL file, which several processes may share.

use std::path::{Path, PathBuf};

use libsql::{Connection, params};
use marquetry_atomic_file::create_folder;
use marquetry_database::{
    DatabaseError,
    libsql::{Schema, Sql, Tables, TablesOptions, get, select, text, transaction},
};

use crate::{
    Day, MAX_DAYS,
    totals::{Key, MAX_ROWS, Sums},
};

const SCHEMA: Schema =
    Schema { settings: "savings_setting", version: 1, tables: TABLES, migrations: &[] };

const TABLES: &str = "
CREATE TABLE savings_setting (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
-- Names are blobs, since they may hold a NUL.
CREATE TABLE savings (
    day INTEGER NOT NULL,
    owner BLOB NOT NULL,
    tool BLOB NOT NULL,
    answers INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    PRIMARY KEY (day, owner, tool)
) WITHOUT ROWID;
";

pub(crate) struct SavingsFile {
    path: PathBuf,
    /// Opened by the first write, so that a server that saves nothing creates no file.
    tables: Option<Tables>,
}

impl SavingsFile {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), tables: None }
    }

    /// Reads all rows of the file, and opens it for writing, if it exists.
    pub(crate) async fn load(&mut self) -> Result<Vec<(Key, Sums)>, DatabaseError> {
        if self.path.exists() { self.tables().await?.read(rows).await } else { Ok(Vec::new()) }
    }

    /// Reads all rows of the file, and changes nothing.
    pub(crate) async fn read(&self) -> Result<Vec<(Key, Sums)>, DatabaseError> {
        let options = TablesOptions { read_only: true, ..TablesOptions::default() };
        let tables = Tables::open(&self.path, &SCHEMA, options, Ok).await?;
        tables.read(rows).await
    }

    /// Adds figures to those in the file, and removes old ones.
    pub(crate) async fn add(&mut self, rows: Vec<(Key, Sums)>) -> Result<(), DatabaseError> {
        let oldest = i64::from(Day::today().before(MAX_DAYS).0);
        let tables = self.tables().await?;
        tables
            .write(move |connection: &Connection| {
                transaction(connection, "BEGIN IMMEDIATE", || {
                    let sql = Sql::from(connection);
                    for (Key { day, owner, tool }, Sums { answers, bytes, tokens }) in rows {
                        let values = params![
                            i64::from(day.0),
                            owner.into_bytes(),
                            tool.into_bytes(),
                            number(answers),
                            number(bytes),
                            number(tokens)
                        ];
                        sql.execute(ADD, values)?;
                    }
                    sql.execute("DELETE FROM savings WHERE day < ?", params![oldest])?;
                    Ok::<_, DatabaseError>(())
                })
            })
            .await
    }

    async fn tables(&mut self) -> Result<&Tables, DatabaseError> {
        if self.tables.is_none() {
            // The user's data folder may be missing at the first start.
            if let Some(folder) = self.path.parent().filter(|it| !it.as_os_str().is_empty()) {
                create_folder(folder).map_err(|error| {
                    let problem = format!("{} cannot be created: {error}", folder.display());
                    DatabaseError::Unusable(problem)
                })?;
            }
            let options = TablesOptions::default();
            self.tables = Some(Tables::open(&self.path, &SCHEMA, options, Ok).await?);
        }
        Ok(self.tables.as_ref().expect("set above"))
    }
}

const ADD: &str = "
INSERT INTO savings (day, owner, tool, answers, bytes, tokens) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (day, owner, tool) DO UPDATE SET
    answers = answers + excluded.answers,
    bytes = bytes + excluded.bytes,
    tokens = tokens + excluded.tokens
";

fn rows(connection: &Connection) -> Result<Vec<(Key, Sums)>, DatabaseError> {
    let sql =
        "SELECT day, owner, tool, answers, bytes, tokens FROM savings ORDER BY day DESC LIMIT ?";
    select(connection, sql, params![number(MAX_ROWS as u64)], |row| {
        let key = Key {
            day: Day(u32::try_from(get::<i64>(row, 0)?).unwrap_or_default()),
            owner: text(row, 1)?,
            tool: text(row, 2)?,
        };
        let sums = Sums {
            answers: get::<i64>(row, 3)?.unsigned_abs(),
            bytes: get::<i64>(row, 4)?.unsigned_abs(),
            tokens: get::<i64>(row, 5)?.unsigned_abs(),
        };
        Ok((key, sums))
    })
}

fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
