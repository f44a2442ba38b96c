//! The file of decisions that count from now on.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::{self, ErrorKind, Read as _},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use marquetry_atomic_file::{Readers, create_folder, replace};
use serde::{Deserialize, Serialize};

use crate::CallToApprove;

const MAX_BYTES: u64 = 1 << 20;
const MAX_ENTRIES: usize = 10_000;

/// The file of decisions that count from now on: TOML, one table `[[allow]]` for each decision,
/// with `principal`, `upstream` and `tool`. A person may edit it; changes count at the next call.
#[derive(Debug)]
pub struct DecisionFile {
    path: PathBuf,
    cache: Mutex<Cache>,
}

/// Why the file of decisions cannot be used. It stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecisionFileError {
    /// The file cannot be read or written.
    #[error("the file of decisions {} {problem}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        problem: String,
    },
    /// The file is not one of decisions.
    #[error("the file of decisions {} is damaged, and was left as it is: {problem}; mend or remove it", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The reason, with its place.
        problem: String,
    },
    /// The file has as many decisions as it can have.
    #[error("the file of decisions {} is full ({MAX_ENTRIES} entries, {MAX_BYTES} bytes); remove some", path.display())]
    Full {
        /// The file.
        path: PathBuf,
    },
}

#[derive(Debug, Default)]
struct Cache {
    /// The state of the file that was read; `None` without a file.
    version: Option<FileVersion>,
    was_read: bool,
    allowed: HashSet<Entry>,
    problem: Option<DecisionFileError>,
}

/// The facts about a file that change when it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FileVersion {
    modified: Option<SystemTime>,
    len: u64,
    #[cfg(unix)]
    inode: u64,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    #[serde(default)]
    allow: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    principal: String,
    upstream: String,
    tool: String,
}

impl Entry {
    fn of(call: &CallToApprove) -> Self {
        Self {
            principal: call.principal().to_owned(),
            upstream: call.server.clone(),
            tool: call.tool.clone(),
        }
    }

    /// Returns the entry as the file has it.
    fn to_toml(&self) -> String {
        let content = Content { allow: vec![self.clone()] };
        toml::to_string(&content).unwrap_or_default()
    }
}

impl DecisionFile {
    /// Names the file, which may be missing. It is read when a call needs it.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), cache: Mutex::default() }
    }

    /// Returns its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file.
    ///
    /// # Errors
    /// Returns an error if it is damaged or cannot be read.
    pub fn check(&self) -> Result<(), DecisionFileError> {
        let mut cache = self.lock();
        self.refresh(&mut cache)
    }

    /// Returns whether the file allows the tool of a call to its principal.
    ///
    /// # Errors
    /// Returns an error if the file is damaged or cannot be read.
    pub(crate) fn allows(&self, call: &CallToApprove) -> Result<bool, DecisionFileError> {
        let mut cache = self.lock();
        self.refresh(&mut cache)?;
        Ok(!cache.allowed.is_empty() && cache.allowed.contains(&Entry::of(call)))
    }

    /// Adds the tool of a call. Everything else in the file stays as a person has written it.
    ///
    /// # Errors
    /// Returns an error if the file is damaged, full, or cannot be written.
    pub(crate) fn allow(&self, call: &CallToApprove) -> Result<(), DecisionFileError> {
        let entry = Entry::of(call);
        let mut cache = self.lock();
        let text = self.read()?.unwrap_or_default();
        let old = self.parse(&text)?;
        if old.allow.contains(&entry) {
            return Ok(());
        }
        let break_before = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        let blank = if text.is_empty() { "" } else { "\n" };
        let new = format!("{text}{break_before}{blank}{}", entry.to_toml());
        if old.allow.len() >= MAX_ENTRIES || new.len() as u64 > MAX_BYTES {
            return Err(DecisionFileError::Full { path: self.path.clone() });
        }
        // Not every file takes another table at its end, such as one with `allow = []`.
        self.parse(&new)?;
        if let Some(folder) = self.path.parent().filter(|it| !it.as_os_str().is_empty()) {
            create_folder(folder).map_err(|error| self.io(&error))?;
        }
        replace(&self.path, new.as_bytes(), Readers::Owner).map_err(|error| self.io(&error))?;
        *cache = Cache::default();
        Ok(())
    }

    /// Returns the entry that would allow a call, as the file has it.
    pub(crate) fn entry_for(call: &CallToApprove) -> String {
        Entry::of(call).to_toml()
    }

    /// Reads the file if it has changed since it was read last.
    fn refresh(&self, cache: &mut Cache) -> Result<(), DecisionFileError> {
        let version = FileVersion::of(&self.path).map_err(|error| self.io(&error))?;
        if !cache.was_read || version != cache.version {
            *cache = Cache { version, was_read: true, ..Cache::default() };
            match self.read().and_then(|text| self.parse(&text.unwrap_or_default())) {
                Ok(content) => cache.allowed = content.allow.into_iter().collect(),
                Err(problem) => cache.problem = Some(problem),
            }
        }
        cache.problem.clone().map_or(Ok(()), Err)
    }

    fn read(&self) -> Result<Option<String>, DecisionFileError> {
        let mut text = String::new();
        let file = match File::open(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file.map_err(|error| self.io(&error))?,
        };
        file.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(|error| self.io(&error))?;
        if text.len() as u64 > MAX_BYTES {
            return Err(DecisionFileError::Full { path: self.path.clone() });
        }
        Ok(Some(text))
    }

    fn parse(&self, text: &str) -> Result<Content, DecisionFileError> {
        toml::from_str(text).map_err(|error| {
            // The rest of a message of several lines quotes the file.
            let place = error.span().map(|span| {
                let before = &text[..text.floor_char_boundary(span.start)];
                format!("line {}: ", before.matches('\n').count() + 1)
            });
            let problem = format!("{}{}", place.unwrap_or_default(), error.message());
            DecisionFileError::Damaged { path: self.path.clone(), problem }
        })
    }

    fn io(&self, error: &io::Error) -> DecisionFileError {
        DecisionFileError::Io { path: self.path.clone(), problem: error.to_string() }
    }

    fn lock(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FileVersion {
    fn of(path: &Path) -> io::Result<Option<Self>> {
        match fs::metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
            Ok(found) => Ok(Some(Self {
                modified: found.modified().ok(),
                len: found.len(),
                #[cfg(unix)]
                inode: std::os::unix::fs::MetadataExt::ino(&found),
            })),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(tool: &str) -> CallToApprove {
        CallToApprove::new("files", tool, None)
    }

    #[test]
    fn a_decision_is_added_and_the_rest_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/decisions.toml");
        let file = DecisionFile::new(&path);
        file.check().unwrap();
        assert!(!file.allows(&call("move")).unwrap());
        file.allow(&call("move")).unwrap();
        file.allow(&call("move")).unwrap();
        assert!(file.allows(&call("move")).unwrap());
        assert!(!file.allows(&call("move").of_principal(Some("- anna".to_owned()))).unwrap());
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(
            text,
            "[[allow]]\nprincipal = \"local\"\nupstream = \"files\"\ntool = \"move\"\n"
        );
        let commented = format!("# mine\n{}", text.trim_end());
        fs::write(&path, &commented).unwrap();
        file.allow(&call("a \"quoted\"\n\u{202e}tool")).unwrap();
        let added = fs::read_to_string(&path).unwrap();
        assert!(added.starts_with(&commented), "{added}");
        assert!(file.allows(&call("a \"quoted\"\n\u{202e}tool")).unwrap());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn a_change_of_the_file_counts_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("decisions.toml");
        let file = DecisionFile::new(&path);
        file.allow(&call("move")).unwrap();
        assert!(file.allows(&call("move")).unwrap());
        fs::write(&path, "").unwrap();
        assert!(!file.allows(&call("move")).unwrap());
        fs::remove_file(&path).unwrap();
        assert!(!file.allows(&call("move")).unwrap());
    }

    #[test]
    fn a_damaged_file_is_named_and_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("decisions.toml");
        let file = DecisionFile::new(&path);
        for (damaged, problem) in [
            ("[[allow]]\nprincipal = ", "line 2"),
            ("[[allow]]\nprincipal = 'local'\nupstream = 'a'\n", "missing field `tool`"),
            ("[[alow]]\n", "unknown field"),
            ("allow = []\n", ""),
        ] {
            fs::write(&path, damaged).unwrap();
            if !problem.is_empty() {
                let error = file.allows(&call("move")).unwrap_err().to_string();
                assert!(error.contains("decisions.toml is damaged"), "{error}");
                assert!(error.contains(problem), "{error}");
            }
            let error = file.allow(&call("move")).unwrap_err().to_string();
            assert!(error.contains("was left as it is"), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), damaged);
        }
        fs::write(&path, [0xff, 0xfe]).unwrap();
        assert!(matches!(file.check(), Err(DecisionFileError::Io { .. })));
    }

    #[test]
    fn a_full_file_takes_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("decisions.toml");
        fs::write(&path, format!("# {}\n", "x".repeat(1 << 20))).unwrap();
        let file = DecisionFile::new(&path);
        let error = file.allow(&call("move")).unwrap_err();
        assert!(matches!(&error, DecisionFileError::Full { .. }), "{error}");
    }
}
