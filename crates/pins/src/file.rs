//! The file of pins, as it is read and written.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, ErrorKind, Read as _},
    path::Path,
};

use marquetry_atomic_file::{Readers, create_folder, replace};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{Definition, DefinitionHash, Kind, PinError, error::MAX_FILE_BYTES};

/// The name of the format in the file.
const FORMAT: &str = "marquetry pins 1";

/// The pins of all servers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinFile {
    format: String,
    pub(crate) servers: BTreeMap<String, ServerPins>,
}

/// The pins of one server.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServerPins {
    /// `None`: it has not listed a tool yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tools: Option<Pins>,
    /// `None`: it has not listed a prompt yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) prompts: Option<Pins>,
    /// `None`: it has not introduced itself yet. A pin without a definition: it had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) instructions: Option<Pin>,
}

impl ServerPins {
    /// Returns all pins.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Pin> {
        let lists = self.tools.iter().chain(&self.prompts).flat_map(Pins::values);
        self.instructions.iter().chain(lists)
    }
}

/// Pins by the names of their tools or prompts.
pub(crate) type Pins = BTreeMap<String, Pin>;

/// The pin of one definition.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pin {
    /// The trusted definition. `None`: it is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) accepted: Option<StoredDefinition>,
    /// The last different one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) waiting: Option<StoredDefinition>,
}

/// A definition in the file of pins.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredDefinition {
    pub(crate) hash: DefinitionHash,
    /// Its canonical text. `None` if it is too long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) definition: Option<Box<RawValue>>,
}

impl StoredDefinition {
    /// Returns its hash.
    #[must_use]
    pub fn hash(&self) -> DefinitionHash {
        self.hash
    }

    /// Returns its canonical JSON; `None` if it was too long to be stored.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        self.definition.as_deref().map(RawValue::get)
    }

    fn is_whole(&self) -> bool {
        self.text().is_none_or(|text| DefinitionHash::of(text) == self.hash)
    }
}

/// A definition in the file of pins, with its pin.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PinnedItem<'a> {
    /// The server.
    pub server: &'a str,
    /// Its kind.
    pub kind: Kind,
    /// Its name; empty for instructions.
    pub name: &'a str,
    /// The trusted definition. `None`: it is new.
    pub accepted: Option<&'a StoredDefinition>,
    /// The definition that waits for somebody to accept it.
    pub waiting: Option<&'a StoredDefinition>,
}

/// A definition that somebody accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AcceptedPin {
    /// The server.
    pub server: String,
    /// Its kind.
    pub kind: Kind,
    /// Its name; empty for instructions.
    pub name: String,
    /// The hash of the definition that was shown.
    pub hash: DefinitionHash,
}

impl AcceptedPin {
    /// Creates the acceptance of what waits; `None` if nothing does.
    #[must_use]
    pub fn of(item: &PinnedItem<'_>) -> Option<Self> {
        Some(Self {
            server: item.server.to_owned(),
            kind: item.kind,
            name: item.name.to_owned(),
            hash: item.waiting?.hash,
        })
    }
}

impl Default for PinFile {
    fn default() -> Self {
        Self { format: FORMAT.to_owned(), servers: BTreeMap::new() }
    }
}

impl PinFile {
    /// Reads a file. A missing file has no pins.
    ///
    /// # Errors
    /// Returns an error that names the file if it cannot be read, is damaged or too large, or (on
    /// Unix) can be written by other users.
    pub fn read(path: &Path) -> Result<Self, PinError> {
        // Opening a pipe would wait for a writer.
        if std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
            return Err(damaged(path, "it is not a file"));
        }
        let file = match File::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            file => file.map_err(|source| io_error(path, source))?,
        };
        let metadata = file.metadata().map_err(|source| io_error(path, source))?;
        if !metadata.is_file() {
            return Err(damaged(path, "it is not a file"));
        }
        #[cfg(unix)]
        if std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o022 != 0 {
            return Err(PinError::WritableByOthers { path: path.to_owned() });
        }
        let mut bytes = Vec::new();
        let limit = MAX_FILE_BYTES as u64 + 1;
        let read = file.take(limit).read_to_end(&mut bytes);
        read.map_err(|source| io_error(path, source))?;
        if bytes.len() > MAX_FILE_BYTES {
            return Err(damaged(path, "it is too large"));
        }
        Self::parse(&bytes).map_err(|problem| damaged(path, &problem))
    }

    /// Reads the bytes of a file.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let file: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if file.format != FORMAT {
            return Err(format!("its format is not {FORMAT:?}"));
        }
        for item in file.items() {
            let mut stored = item.accepted.into_iter().chain(item.waiting);
            if !stored.all(StoredDefinition::is_whole) {
                let PinnedItem { server, kind, name, .. } = item;
                let problem = format!(
                    "the hash of the {kind} {name:?} of {server:?} is not that of its text"
                );
                return Err(problem);
            }
        }
        Ok(file)
    }

    /// Returns the bytes of a file.
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>, String> {
        let mut bytes = serde_json::to_vec(self).map_err(|error| error.to_string())?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// Writes the file for its owner alone.
    pub(crate) fn write(&self, path: &Path) -> Result<(), PinError> {
        let bytes = self.to_bytes().map_err(|problem| damaged(path, &problem))?;
        if bytes.len() > MAX_FILE_BYTES {
            return Err(PinError::Full { path: path.to_owned() });
        }
        replace(path, &bytes, Readers::Owner).map_err(|source| io_error(path, source))
    }

    /// Returns the names of the servers with pins.
    pub fn servers(&self) -> impl Iterator<Item = &str> {
        self.servers.keys().map(String::as_str)
    }

    /// Returns everything that is pinned or waits, by server: instructions, tools, prompts.
    pub fn items(&self) -> impl Iterator<Item = PinnedItem<'_>> {
        self.servers.iter().flat_map(|(server, pins)| {
            let instructions = pins.instructions.iter().map(|pin| (Kind::Instructions, "", pin));
            let tools = pins.tools.iter().flatten();
            let tools = tools.map(|(name, pin)| (Kind::Tool, name.as_str(), pin));
            let prompts = pins.prompts.iter().flatten();
            let prompts = prompts.map(|(name, pin)| (Kind::Prompt, name.as_str(), pin));
            instructions.chain(tools).chain(prompts).map(|(kind, name, pin)| PinnedItem {
                server,
                kind,
                name,
                accepted: pin.accepted.as_ref(),
                waiting: pin.waiting.as_ref(),
            })
        })
    }

    pub(crate) fn pin_mut(&mut self, server: &str, kind: Kind, name: &str) -> Option<&mut Pin> {
        let pins = self.servers.get_mut(server)?;
        match kind {
            Kind::Instructions => pins.instructions.as_mut(),
            Kind::Tool => pins.tools.as_mut()?.get_mut(name),
            Kind::Prompt => pins.prompts.as_mut()?.get_mut(name),
        }
    }
}

/// Creates the folder of a file.
pub(crate) fn create_folder_of(path: &Path) -> Result<(), PinError> {
    let Some(folder) = path.parent().filter(|it| !it.as_os_str().is_empty()) else { return Ok(()) };
    create_folder(folder).map_err(|source| io_error(folder, source))
}

fn io_error(path: &Path, source: io::Error) -> PinError {
    PinError::Io { path: path.to_owned(), source }
}

fn damaged(path: &Path, problem: &str) -> PinError {
    PinError::Damaged { path: path.to_owned(), problem: problem.to_owned() }
}

impl From<&Definition> for StoredDefinition {
    fn from(definition: &Definition) -> Self {
        Self { hash: definition.hash, definition: Some(definition.text.clone()) }
    }
}
