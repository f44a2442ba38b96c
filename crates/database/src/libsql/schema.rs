//! Versions of the tables of one kind of data.

use libsql::params;

use super::Sql;
use crate::DatabaseError;

/// The tables of one kind of data, which may share a database with others.
#[derive(Clone, Copy, Debug)]
pub struct Schema {
    /// A table with the columns `name` and `value`, whose row `schema` has the version.
    pub settings: &'static str,
    /// The current version.
    pub version: i64,
    /// The statements that create all tables of the current version.
    pub tables: &'static str,
    /// Statements that migrate the tables of a version to the next one.
    pub migrations: &'static [(i64, &'static str)],
}

impl Schema {
    /// Creates missing tables, migrates older versions, and checks the version. Changes nothing if
    /// the database is read-only.
    ///
    /// # Errors
    ///
    /// Returns an error if [`Self::check`] does, or if there are no tables and none may be created
    /// ([`DatabaseError::ReadOnly`]).
    pub fn open<'a>(
        &self,
        database: impl Into<Sql<'a>>,
        read_only: bool,
    ) -> Result<(), DatabaseError> {
        let sql = database.into();
        let begin = if read_only { "BEGIN" } else { "BEGIN IMMEDIATE" };
        sql.transaction(begin, || {
            if self.exists(sql)? {
                if !read_only {
                    self.migrate(sql)?;
                }
            } else if read_only {
                return Err(DatabaseError::ReadOnly);
            } else {
                self.create(sql)?;
            }
            self.check(sql)
        })
    }

    /// Returns whether the tables exist, in any version.
    ///
    /// # Errors
    ///
    /// Returns an error if the engine fails.
    pub fn exists<'a>(&self, database: impl Into<Sql<'a>>) -> Result<bool, DatabaseError> {
        let count = format!("SELECT count(*) FROM sqlite_schema WHERE name = '{}'", self.settings);
        Ok(database.into().number(&count)? != Some(0))
    }

    /// Creates the tables.
    ///
    /// # Errors
    ///
    /// Returns an error if the engine fails, for example because the tables exist.
    pub fn create<'a>(&self, database: impl Into<Sql<'a>>) -> Result<(), DatabaseError> {
        let sql = database.into();
        sql.batch(self.tables)?;
        let set = format!("INSERT INTO {} (name, value) VALUES ('schema', ?)", self.settings);
        sql.execute(&set, params![self.version])
    }

    /// Checks that the tables have the current version.
    ///
    /// # Errors
    ///
    /// Returns an error if the version is another one ([`DatabaseError::NewerSchema`],
    /// [`DatabaseError::OlderSchema`]), or if the tables have none ([`DatabaseError::Damaged`]).
    pub fn check<'a>(&self, database: impl Into<Sql<'a>>) -> Result<(), DatabaseError> {
        match self.found(database.into())? {
            Some(found) if found == self.version => Ok(()),
            Some(found) if found > self.version => {
                Err(DatabaseError::NewerSchema { found, known: self.version })
            }
            Some(found) if found > 0 => {
                Err(DatabaseError::OlderSchema { found, needed: self.version })
            }
            _ => Err(DatabaseError::damaged(format_args!(
                "{} has no known schema version",
                self.settings
            ))),
        }
    }

    fn found(&self, sql: Sql<'_>) -> Result<Option<i64>, DatabaseError> {
        sql.number(&format!("SELECT value FROM {} WHERE name = 'schema'", self.settings))
    }

    /// Migrates tables of an older version, as far as there are migrations.
    ///
    /// # Errors
    ///
    /// Returns an error if the engine fails.
    pub fn migrate<'a>(&self, database: impl Into<Sql<'a>>) -> Result<(), DatabaseError> {
        let sql = database.into();
        while let Some(found) = self.found(sql)?
            && let Some((_, statements)) = self.migrations.iter().find(|(from, _)| *from == found)
        {
            sql.batch(statements)?;
            let set = format!("UPDATE {} SET value = ? WHERE name = 'schema'", self.settings);
            sql.execute(&set, params![found + 1])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::libsql::{LibsqlFile, number};

    const OLD: Schema = Schema {
        settings: "note_setting",
        version: 1,
        tables: "CREATE TABLE note_setting (name TEXT PRIMARY KEY, value); CREATE TABLE note (text TEXT);",
        migrations: &[],
    };

    #[test]
    fn tables_are_created_migrated_and_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = LibsqlFile::open(&folder.path().join("a.db"), false).unwrap();
        let connection = file.connect().unwrap();
        assert!(matches!(OLD.open(&connection, true), Err(DatabaseError::ReadOnly)));
        OLD.open(&connection, false).unwrap();
        OLD.open(&connection, true).unwrap();

        let stranded = Schema { version: 2, ..OLD };
        let error = stranded.open(&connection, false).unwrap_err();
        assert!(matches!(error, DatabaseError::OlderSchema { found: 1, needed: 2 }), "{error}");
        let new = Schema {
            version: 3,
            migrations: &[
                (1, "ALTER TABLE note ADD COLUMN title TEXT;"),
                (2, "ALTER TABLE note RENAME TO page;"),
            ],
            ..OLD
        };
        let error = new.open(&connection, true).unwrap_err();
        assert!(matches!(error, DatabaseError::OlderSchema { found: 1, needed: 3 }), "{error}");
        new.open(&connection, false).unwrap();
        assert_eq!(number(&connection, "SELECT count(title) FROM page").unwrap(), Some(0));
        let error = OLD.open(&connection, false).unwrap_err();
        assert!(matches!(error, DatabaseError::NewerSchema { found: 3, known: 1 }), "{error}");

        file.check_tables(&["note_setting"]).unwrap();
        let error = file.check_tables(&["other"]).unwrap_err().to_string();
        assert!(error.contains("a database of another program"), "{error}");
        std::fs::remove_file(folder.path().join("a.db")).unwrap();
        assert!(file.connect().unwrap_err().to_string().contains("was removed or replaced"));
    }
}
