//! Records of changes, each with a copy of the file before it, so that they can be undone.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use marquetry_atomic_file::{Readers, create, create_folder};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    client::{Client, MCP_JSON},
    edit::{EditError, Section, with_listed, without_listed},
    files::{ConfigFile, FileError},
};

/// The most records; older ones are removed with their copies.
pub const MAX_OPERATIONS: usize = 200;

/// A folder of records.
#[derive(Clone, Debug)]
pub struct Journal {
    folder: PathBuf,
}

/// A change of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Operation {
    /// The command that made it, such as `connect`.
    pub command: String,
    /// The client whose file it is; `marquetry` for Marquetry's own `mcp.json`.
    pub client: String,
    /// The file.
    pub path: PathBuf,
    /// Whether the file existed before.
    pub existed: bool,
    /// BLAKE3 of the text after the change.
    pub after: String,
    /// The changes, in their order.
    pub changes: Vec<Change>,
    /// The files that were created beside it, such as those of secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub created: Vec<CreatedFile>,
}

/// A file that was created with a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CreatedFile {
    /// The file.
    pub path: PathBuf,
    /// BLAKE3 of its content.
    pub hash: String,
}

/// What has become of a created file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreatedFileState {
    /// It is as it was created.
    Unchanged,
    /// It has other content, or cannot be read.
    Changed,
    /// It is gone.
    Gone,
}

/// A change of one server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
#[non_exhaustive]
pub enum Change {
    /// An entry was added or replaced.
    #[serde(rename_all = "camelCase")]
    Set {
        /// The name of the server.
        name: String,
        /// The entry before.
        previous: Option<Value>,
        /// Whether the section was added with it.
        created_section: bool,
    },
    /// An entry was removed.
    Removed {
        /// The name of the server.
        name: String,
        /// The entry.
        entry: Value,
    },
    /// A name was added to a list.
    Listed {
        /// The path of the list.
        path: Vec<String>,
        /// The name.
        name: String,
    },
}

/// Why a record could not be written, read or undone.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The folder of records cannot be used.
    #[error("the record {path} cannot be used: {error}")]
    Record {
        /// The file or folder.
        path: String,
        /// The system's error.
        error: io::Error,
    },
    /// The client's file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The client's file cannot be edited.
    #[error("{path}: {error}")]
    Edit {
        /// The file.
        path: String,
        /// The problem.
        error: EditError,
    },
}

/// A record that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// Its number, for [`Journal::forget`].
    pub number: u64,
    /// The copy of the file before the change.
    pub copy: PathBuf,
}

/// A planned undo: what becomes of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Undo {
    /// The file gets back every byte.
    Restore(String),
    /// The file was made by the change, and is removed.
    Remove,
    /// The file was edited since. The recorded entries are taken back, and the rest stays.
    Edit(String),
    /// The file is as it was before, or is gone.
    Nothing,
}

impl Operation {
    /// Creates a record of changes that make `after` of a file.
    #[must_use]
    pub fn new(
        command: &str,
        client: Option<Client>,
        file: &ConfigFile,
        after: &str,
        changes: Vec<Change>,
    ) -> Self {
        Self {
            command: command.to_owned(),
            client: client.map_or("marquetry", Client::id).to_owned(),
            path: std::path::absolute(file.path()).unwrap_or_else(|_| file.path().to_owned()),
            existed: file.exists(),
            after: hash(after),
            changes,
            created: Vec::new(),
        }
    }

    /// Sets [`Self::created`].
    #[must_use]
    pub fn with_created(self, created: Vec<CreatedFile>) -> Self {
        Self { created, ..self }
    }

    fn section(&self) -> Section {
        Client::parse(&self.client).map_or(MCP_JSON, Client::section)
    }

    /// Returns what an undo makes of the file as it is now.
    ///
    /// # Errors
    ///
    /// Returns an error if the file was edited since, and cannot be edited now.
    pub fn undo(&self, now: &ConfigFile, before: &str) -> Result<Undo, EditError> {
        if !now.exists() {
            return Ok(Undo::Nothing);
        }
        if hash(now.text()) == self.after {
            return Ok(if self.existed { Undo::Restore(before.to_owned()) } else { Undo::Remove });
        }
        if self.existed && now.text() == before {
            return Ok(Undo::Nothing);
        }
        let section = self.section();
        let mut text = now.text().to_owned();
        for change in self.changes.iter().rev() {
            text = match change {
                Change::Set { name, previous: Some(entry), .. } => {
                    section.with_server(&text, name, entry)?
                }
                Change::Set { name, previous: None, created_section } => {
                    let without = section.without_server(&text, name)?;
                    if *created_section {
                        section.without_empty_section(&without)?
                    } else {
                        without
                    }
                }
                // A server of this name that was added since stays.
                Change::Removed { name, .. } if section.server(&text, name)?.is_some() => text,
                Change::Removed { name, entry } => section.with_server(&text, name, entry)?,
                Change::Listed { path, name } => {
                    let path: Vec<&str> = path.iter().map(String::as_str).collect();
                    without_listed(&text, &path, name)?
                }
            };
        }
        if text == now.text() { Ok(Undo::Nothing) } else { Ok(Undo::Edit(text)) }
    }
}

impl CreatedFile {
    /// Describes a file that was created with this content.
    #[must_use]
    pub fn new(path: PathBuf, content: &str) -> Self {
        let path = std::path::absolute(&path).unwrap_or(path);
        Self { path, hash: hash(content) }
    }

    /// Returns what has become of the file.
    #[must_use]
    pub fn state(&self) -> CreatedFileState {
        // A link may lead to a file of another use.
        match fs::symlink_metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => CreatedFileState::Gone,
            Ok(found) if found.is_file() => match fs::read_to_string(&self.path) {
                Ok(text) if hash(&text) == self.hash => CreatedFileState::Unchanged,
                _ => CreatedFileState::Changed,
            },
            _ => CreatedFileState::Changed,
        }
    }
}

impl Change {
    /// Applies a change that adds a name to a list, or none if the list lacks nothing.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not valid.
    pub fn list(
        text: &str,
        path: &[&str],
        name: &str,
    ) -> Result<Option<(String, Self)>, EditError> {
        let edited = with_listed(text, path, name)?;
        let path = path.iter().map(|&key| key.to_owned()).collect();
        let change = Self::Listed { path, name: name.to_owned() };
        Ok((edited != text).then_some((edited, change)))
    }
}

impl Journal {
    /// Opens a folder of records, which need not exist.
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Records a change before it is made.
    ///
    /// # Errors
    ///
    /// Returns an error if the record cannot be written.
    pub fn record(&self, operation: &Operation, before: &str) -> Result<Record, JournalError> {
        create_folder(&self.folder).map_err(|error| record_error(&self.folder, error))?;
        let numbers = self.numbers()?;
        let mut number = numbers.last().map_or(1, |last| last + 1);
        let text = serde_json::to_string_pretty(operation)
            .map_err(|error| record_error(&self.folder, error.into()))?;
        // Another process may take the same number.
        let copy = loop {
            let copy = self.copy(number);
            match create(&copy, before.as_bytes(), Readers::Owner) {
                Ok(()) => break copy,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(record_error(&copy, error)),
            }
        };
        let path = self.path(number);
        create(&path, text.as_bytes(), Readers::Owner)
            .map_err(|error| record_error(&path, error))?;
        for old in numbers.iter().rev().skip(MAX_OPERATIONS - 1) {
            self.forget(*old);
        }
        Ok(Record { number, copy })
    }

    /// Returns the records by number, the newest first. Files that are not records are skipped.
    ///
    /// # Errors
    ///
    /// Returns an error if the folder cannot be read.
    pub fn operations(&self) -> Result<Vec<(u64, Operation)>, JournalError> {
        let mut operations = Vec::new();
        for number in self.numbers()?.into_iter().rev() {
            let path = self.path(number);
            let text = fs::read_to_string(&path).map_err(|error| record_error(&path, error))?;
            let operation =
                serde_json::from_str(&text).map_err(|error| record_error(&path, error.into()))?;
            operations.push((number, operation));
        }
        Ok(operations)
    }

    /// Returns the text of the file before a change.
    ///
    /// # Errors
    ///
    /// Returns an error if the copy cannot be read.
    pub fn before(&self, number: u64) -> Result<String, JournalError> {
        let path = self.copy(number);
        fs::read_to_string(&path).map_err(|error| record_error(&path, error))
    }

    /// Removes a record.
    pub fn forget(&self, number: u64) {
        // One that stays is undone again, which changes nothing.
        _ = fs::remove_file(self.path(number));
        _ = fs::remove_file(self.copy(number));
    }

    fn path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{number:06}.json"))
    }

    fn copy(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{number:06}.backup"))
    }

    fn numbers(&self) -> Result<Vec<u64>, JournalError> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(record_error(&self.folder, error)),
        };
        let mut numbers: Vec<u64> = entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".json")?.parse().ok())
            .collect();
        numbers.sort_unstable();
        Ok(numbers)
    }
}

fn record_error(path: &Path, error: io::Error) -> JournalError {
    JournalError::Record { path: path.display().to_string(), error }
}

fn hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Made {
        folder: tempfile::TempDir,
        file: PathBuf,
        journal: Journal,
    }

    /// Writes a file of Cursor and adds a server to it.
    fn connected(before: Option<&str>) -> Made {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mcp.json");
        if let Some(text) = before {
            fs::write(&file, text).unwrap();
        }
        let journal = Journal::new(folder.path().join("journal"));
        let read = ConfigFile::read(&file, None).unwrap();
        let section = Client::Cursor.section();
        let created_section = !section.exists(read.text()).unwrap();
        let after = section.with_server(read.text(), "m", &json!({"command": "x"})).unwrap();
        let change = Change::Set { name: "m".to_owned(), previous: None, created_section };
        let operation =
            Operation::new("connect", Some(Client::Cursor), &read, &after, vec![change]);
        let record = journal.record(&operation, read.text()).unwrap();
        assert_eq!(fs::read_to_string(record.copy).unwrap(), before.unwrap_or_default());
        read.write(&after).unwrap();
        Made { folder, file, journal }
    }

    impl Made {
        fn undo(&self) -> Undo {
            let (number, operation) = self.journal.operations().unwrap().remove(0);
            let now = ConfigFile::read(&self.file, None).unwrap();
            operation.undo(&now, &self.journal.before(number).unwrap()).unwrap()
        }

        fn edit(&self, from: &str, to: &str) {
            let text = fs::read_to_string(&self.file).unwrap();
            assert!(text.contains(from), "{text}");
            fs::write(&self.file, text.replace(from, to)).unwrap();
        }
    }

    #[test]
    fn an_undo_restores_every_byte() {
        for before in ["{ }", "\u{feff}{\"mcpServers\":{\r\n}}", "", "{\n  // c\n  \"a\": [],\n}"] {
            let made = connected(Some(before));
            assert_eq!(made.undo(), Undo::Restore(before.to_owned()));
        }
        assert_eq!(connected(None).undo(), Undo::Remove);
    }

    #[test]
    fn after_further_edits_only_our_entry_goes() {
        let made = connected(Some("{\n  \"a\": 1 // c\n}\n"));
        made.edit("\"a\": 1", "\"a\": 2");
        assert_eq!(made.undo(), Undo::Edit("{\n  \"a\": 2 // c\n}\n".to_owned()));
        let made = connected(Some("{\n  \"mcpServers\": {\"b\": 1}\n}\n"));
        made.edit("\"b\": 1", "\"b\": 2");
        assert_eq!(made.undo(), Undo::Edit("{\n  \"mcpServers\": {\"b\": 2}\n}\n".to_owned()));
    }

    #[test]
    fn nothing_is_left_to_undo_after_others_did_it() {
        let made = connected(Some("{}"));
        fs::write(&made.file, "{}").unwrap();
        assert_eq!(made.undo(), Undo::Nothing);
        fs::remove_file(&made.file).unwrap();
        assert_eq!(made.undo(), Undo::Nothing);
        fs::write(&made.file, "{").unwrap();
        let (_, operation) = made.journal.operations().unwrap().remove(0);
        let now = ConfigFile::read(&made.file, None).unwrap();
        assert!(operation.undo(&now, "{}").is_err());
    }

    #[test]
    fn old_records_are_removed() {
        let made = connected(Some("{}"));
        let (_, operation) = made.journal.operations().unwrap().remove(0);
        for _ in 0..MAX_OPERATIONS + 3 {
            made.journal.record(&operation, "{}").unwrap();
        }
        let numbers = made.journal.numbers().unwrap();
        assert_eq!((numbers.len(), numbers.first()), (MAX_OPERATIONS, Some(&5)));
        let files = fs::read_dir(made.folder.path().join("journal")).unwrap().count();
        assert_eq!(files, 2 * MAX_OPERATIONS);
    }
}
