//! Problems of `[knowledge]`.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
};

use marquetry_knowledge::DatabaseLocation;

use marquetry_config::Config;

/// Returns a warning for a chat setting that is valid but dangerous.
pub(in crate::cli) fn warning(config: &Config) -> Option<String> {
    config.knowledge.chat.warning().filter(|_| config.knowledge.enabled)
}

/// Returns the problem that opening the database would have.
pub(super) fn problem(config: &Config) -> Option<String> {
    let Ok(DatabaseLocation::File(path)) = config.knowledge_database() else { return None };
    let problem = check_database(&path).err().filter(|_| config.knowledge.enabled)?;
    Some(format!("knowledge.database: {} {problem}", path.display()))
}

/// Checks by the first bytes that a file is a database. A missing or empty file can become one.
fn check_database(path: &Path) -> Result<(), String> {
    const HEADER: &[u8] = b"SQLite format 3\0";
    let mut head = Vec::new();
    let file =
        File::open(path).and_then(|file| file.take(HEADER.len() as u64).read_to_end(&mut head));
    match file {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(format!("cannot be read: {error}")),
        Ok(_) if head.is_empty() || head == HEADER => Ok(()),
        Ok(_) => Err("is not a database".to_owned()),
    }
}
