//! The location of the database of records and passages.

use std::path::PathBuf;

/// The location of the database of records and passages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatabaseLocation {
    /// In memory, until the process ends.
    Memory,
    /// In a file, which is created when the first record is stored.
    File(PathBuf),
    /// In the PostgreSQL database with this URL.
    Postgres(String),
}

impl DatabaseLocation {
    /// Parses the setting `database`: a path, or a `postgres://` URL.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is empty, or if it is a URI of another kind.
    pub fn parse(database: &str) -> Result<Self, String> {
        let is_server =
            ["postgres://", "postgresql://"].iter().any(|scheme| database.starts_with(scheme));
        if is_server {
            return Ok(Self::Postgres(database.to_owned()));
        }
        if database.is_empty() {
            return Err("the name of the database is empty".to_owned());
        }
        if let Some(scheme) = scheme(database) {
            return Err(format!(
                "no database has the scheme {scheme:?}: give a path, which may begin with ./, or a postgres:// URL"
            ));
        }
        Ok(Self::File(database.into()))
    }

    /// Checks the URL of a PostgreSQL, without connecting to it.
    ///
    /// # Errors
    ///
    /// Returns an error if the URL is incomplete or wrong, a file that it names cannot be read, or
    /// if the program was built without PostgreSQL.
    pub fn check(&self) -> Result<(), String> {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(url) => {
                marquetry_rag::PostgresStore::check_url(url).map_err(|error| error.to_string())
            }
            #[cfg(not(feature = "postgres"))]
            Self::Postgres(_) => {
                Err("this program was built without PostgreSQL (feature `postgres`)".to_owned())
            }
            Self::Memory | Self::File(_) => Ok(()),
        }
    }
}

/// Returns the scheme of a URI (RFC 3986, section 3.1). A single letter is a drive.
fn scheme(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once(':')?;
    let is_scheme = scheme.len() > 1
        && scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.chars().all(|one| one.is_ascii_alphanumeric() || "+-.".contains(one));
    is_scheme.then_some(scheme)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str) -> DatabaseLocation {
        DatabaseLocation::File(path.into())
    }

    #[test]
    fn a_database_is_a_file_or_a_server() {
        assert_eq!(DatabaseLocation::parse("k.db"), Ok(file("k.db")));
        assert_eq!(DatabaseLocation::parse("./sqlite:k.db"), Ok(file("./sqlite:k.db")));
        assert_eq!(DatabaseLocation::parse("C:k.db"), Ok(file("C:k.db")));
        assert_eq!(DatabaseLocation::parse("").unwrap_err(), "the name of the database is empty");
        for database in ["sqlite:k.db", "file:k.db?mode=memory", "mysql+x://me:secret@host/k"] {
            let error = DatabaseLocation::parse(database).unwrap_err();
            let scheme = &database[..database.find(':').unwrap()];
            assert!(
                error.starts_with(&format!("no database has the scheme {scheme:?}: ")),
                "{error}"
            );
            assert!(!error.contains("secret"), "{error}");
        }
        let server = "postgres://me@127.0.0.1/k";
        assert_eq!(
            DatabaseLocation::parse(server),
            Ok(DatabaseLocation::Postgres(server.to_owned()))
        );
    }
}
