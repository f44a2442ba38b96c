//! Artifacts in a directory.
//!
//! ```text
//! layout                                      the number of this layout
//! tmp/                                        versions that are being written or removed
//! expired                                     versions that were evicted
//! scopes/{scope}/owner                        application and user of the scope, as one name
//! scopes/{scope}/{name}/{version}/record.json the record
//!                                /content.png the bytes, with the name's extension; changed last when last read
//! ```
//!
//! A scope of an older version has no file `owner` until the next put to it. Until then it counts
//! as an owner of its own.
//!
//! A version is one directory. It is written under `tmp`, then renamed to its folder, which fails
//! when the number is taken: so a version is complete or absent, and no two writers share a number,
//! even in different processes. The directories of scopes and names end in a hash of the exact
//! text, so that names which differ in case or unusual characters never share a directory.

use std::{
    collections::{BTreeMap, HashMap},
    io::{self, ErrorKind, Read, Seek, SeekFrom, Write},
    ops::Range,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use bytes::Bytes;
use cap_std::{
    ambient_authority,
    fs::{Dir, DirBuilder, File},
};

use super::{
    Artifact, ArtifactStore, Listing, NewArtifact, Page, Record, Scope, StoreError, Usage, Version,
    Versions, clamped,
    expired_names::{Key, absent},
    files::{DirectoryOptions, SharedDirectory, is_absent, number_of, private_file, write_private},
    quota::{SCOPE_BYTES, Writer, charge, key_for},
};
use crate::name::ArtifactName;

/// Names the layout; every directory of a store has it.
const LAYOUT_FILE: &str = "layout";
const LAYOUT: &str = "marquetry artifacts 1\n";
/// Entries of `tmp` older than this were left by a process that died.
const LEFT_BEHIND: Duration = Duration::from_hours(1);
/// Attempts of a put to take the next number before it gives up.
const MAX_TRIES: u64 = 10_000;
/// Largest record, in bytes.
const MAX_RECORD_BYTES: u64 = 1024 * 1024;
/// Damaged versions that are logged.
const MAX_LOGGED_DAMAGES: usize = 1_000;
/// Names that are cached, so that lists need not read every record.
const MAX_KNOWN_NAMES: usize = 100_000;

/// A store in a directory, which any number of processes may use at the same time. Clones share it.
///
/// The store touches no file outside of the directory, not even through symbolic links. It does its
/// work on Tokio's blocking pool. A full store makes room by the rule of [`ArtifactStore`]: it
/// scans the whole directory, and frees a sixty-fourth more than it must. It remembers about the
/// last 10,000 evicted versions. A page of a list reads every name of its scope. It opens no
/// directory that holds other files already, and ignores files that others put there later.
#[derive(Clone, Debug)]
pub struct DirectoryStore(Arc<SharedDirectory>);

impl DirectoryStore {
    /// Opens the store in this directory. A missing directory is created. Only the owner of the
    /// process can read what the store holds, even if others may read the directory.
    ///
    /// This blocks: call it at the start of a program.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be created or opened, has another layout, or holds
    /// other files.
    pub fn open(path: impl AsRef<Path>, options: DirectoryOptions) -> io::Result<Self> {
        let path = path.as_ref();
        marquetry_atomic_file::create_folder(path)?;
        let root = Dir::open_ambient_dir(path, ambient_authority())?;
        match root.read_to_string(LAYOUT_FILE) {
            Ok(layout) if layout == LAYOUT => {}
            // A process that died here left only part of the line.
            Ok(layout) if LAYOUT.starts_with(&layout) => {
                write_private(&root, LAYOUT_FILE, LAYOUT.as_bytes())?;
            }
            Ok(_) => {
                return Err(io::Error::new(
                    ErrorKind::InvalidData,
                    "directory holds another layout of artifacts",
                ));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let entries = root.entries()?.map(|entry| Ok(entry?.file_name()));
                if let Some(name) = first_foreign(entries)? {
                    return Err(holds_other_files(&name));
                }
                write_private(&root, LAYOUT_FILE, LAYOUT.as_bytes())?;
            }
            Err(error) => return Err(error),
        }
        // The directory itself may be open to other users of the machine: only a missing one was
        // created above.
        let mut private = DirBuilder::new();
        private.recursive(true);
        #[cfg(unix)]
        cap_std::fs::DirBuilderExt::mode(&mut private, 0o700);
        root.create_dir_with("tmp", &private)?;
        root.create_dir_with("scopes", &private)?;
        let process = getrandom::u64().map_err(|error| io::Error::other(error.to_string()))?;
        let inner = SharedDirectory {
            root,
            path: path.to_owned(),
            options,
            quota: Mutex::default(),
            charged: AtomicU64::default(),
            has_passed_over: AtomicBool::default(),
            has_logged_removal: AtomicBool::default(),
            evicted: AtomicU64::default(),
            known: Mutex::default(),
            damaged: Mutex::default(),
            temporary: AtomicU64::default(),
            process,
            #[cfg(test)]
            stop_at: Mutex::default(),
        };
        inner.clear_left_behind()?;
        Ok(Self(Arc::new(inner)))
    }

    /// Checks whether [`open`](Self::open) would accept the directory, without creating or changing
    /// anything. A missing directory is accepted.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be read, or holds other files.
    pub fn check(path: impl AsRef<Path>) -> io::Result<()> {
        let path = path.as_ref();
        if path.join(LAYOUT_FILE).is_file() {
            return Ok(());
        }
        let entries = match std::fs::read_dir(path) {
            Ok(entries) => entries.map(|entry| Ok(entry?.file_name())),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        match first_foreign(entries)? {
            Some(name) => Err(holds_other_files(&name)),
            None => Ok(()),
        }
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&SharedDirectory) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let inner = Arc::clone(&self.0);
        match tokio::task::spawn_blocking(move || {
            work(&inner).map_err(|it| inner.with_removed_directory(it))
        })
        .await
        {
            Ok(result) => result,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(StoreError::Backend("the runtime is shutting down".to_owned())),
            },
        }
    }
}

#[async_trait]
impl ArtifactStore for DirectoryStore {
    async fn put(&self, scope: &Scope, artifact: NewArtifact) -> Result<Record, StoreError> {
        let writer = Writer { scope: folder_of_scope(scope), owner: folder_of_owner(scope) };
        self.blocking(move |store| store.put(&writer, &artifact)).await
    }

    async fn record(
        &self,
        scope: &Scope,
        name: &ArtifactName,
        version: Version,
    ) -> Result<Record, StoreError> {
        let folder = folder_of(scope, name);
        let name = name.clone();
        self.blocking(move |store| store.find(&folder, &name, version).map(|(record, _)| record))
            .await
    }

    async fn get(
        &self,
        scope: &Scope,
        name: &ArtifactName,
        version: Version,
    ) -> Result<Artifact, StoreError> {
        let folder = folder_of(scope, name);
        let name = name.clone();
        self.blocking(move |store| {
            let (record, mut file) = store.content(&folder, &name, version)?;
            let mut content = Vec::with_capacity(record.size_bytes as usize);
            file.read_to_end(&mut content)?;
            mark_as_used(file);
            Artifact::verified(record, Bytes::from(content))
        })
        .await
    }

    async fn read_range(
        &self,
        scope: &Scope,
        name: &ArtifactName,
        version: Version,
        range: Range<u64>,
    ) -> Result<Bytes, StoreError> {
        let folder = folder_of(scope, name);
        let name = name.clone();
        self.blocking(move |store| {
            let (record, mut file) = store.content(&folder, &name, version)?;
            let range = clamped(&range, record.size_bytes);
            let mut bytes = vec![0; (range.end - range.start) as usize];
            file.seek(SeekFrom::Start(range.start))?;
            file.read_exact(&mut bytes)?;
            mark_as_used(file);
            Ok(Bytes::from(bytes))
        })
        .await
    }

    async fn list(&self, scope: &Scope, page: &Page) -> Result<Listing, StoreError> {
        let scope = folder_of_scope(scope);
        let page = page.clone();
        self.blocking(move |store| store.list(&scope, &page)).await
    }

    async fn versions(
        &self,
        scope: &Scope,
        name: &ArtifactName,
    ) -> Result<Vec<Record>, StoreError> {
        let folder = folder_of(scope, name);
        let name = name.clone();
        self.blocking(move |store| {
            let mut records = Vec::new();
            for number in store.numbers(&folder)? {
                // Another process may have removed it since. Damaged versions are not listed.
                records.extend(store.read_record(&folder, number)?.ok());
            }
            if records.is_empty() {
                return Err(store.absent(&folder, &name, Version::Latest));
            }
            Ok(records)
        })
        .await
    }

    async fn delete(
        &self,
        scope: &Scope,
        name: &ArtifactName,
        which: Versions,
    ) -> Result<u64, StoreError> {
        let folder = folder_of(scope, name);
        let name = name.clone();
        self.blocking(move |store| store.delete(&folder, &name, which)).await
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.blocking(|store| {
            let probe = store.temporary();
            write_private(&store.root, &probe, b"probe")?;
            Ok(store.root.remove_file(&probe)?)
        })
        .await
    }

    fn usage(&self) -> Usage {
        Usage {
            bytes: self.0.charged(),
            limit: Some(self.0.options.max_total_bytes),
            evicted: self.0.evicted.load(Ordering::Relaxed),
        }
    }
}

impl SharedDirectory {
    /// Replaces an error of the file system that comes from a removed directory. The path is only
    /// in the log: callers may be users of other machines.
    fn with_removed_directory(&self, error: StoreError) -> StoreError {
        match error {
            // A new directory with the same path is another one than `root`.
            StoreError::Io(error) if is_absent(&error) && !self.root.exists(LAYOUT_FILE) => {
                if !self.has_logged_removal.swap(true, Ordering::Relaxed) {
                    let directory = self.path.display();
                    tracing::error!(%directory, "the directory was removed; a restart creates it again");
                }
                StoreError::DirectoryRemoved
            }
            error => error,
        }
    }

    fn put(&self, writer: &Writer, artifact: &NewArtifact) -> Result<Record, StoreError> {
        let bytes = artifact.content().len() as u64;
        let limit = self.options.max_artifact_bytes;
        if bytes > limit {
            return Err(StoreError::TooLarge { bytes, limit });
        }
        // The version in the file is not read: the name of the directory has it.
        let record =
            serde_json::to_vec_pretty(&Record::new(artifact, 0)).map_err(io::Error::from)?;
        let charge = charge(bytes, record.len() as u64);
        if charge + SCOPE_BYTES > self.options.max_total_bytes {
            return Err(StoreError::TooLarge { bytes, limit: self.options.max_total_bytes });
        }
        self.make_scope(writer)?;
        if let Err(error) = self.reserve(writer, charge) {
            self.release(self.remove_empty_scope(&writer.scope));
            return Err(error);
        }
        let temporary = self.temporary();
        let put = self
            .write(&temporary, artifact, &record)
            .and_then(|()| self.publish(&temporary, writer, artifact));
        if put.is_err() && !self.is_stopped() {
            // Files that cannot be removed now are removed when the store is opened again.
            let _ = self.remove(&temporary);
            let _ = self.root.remove_dir(folder_in(&writer.scope, &artifact.name));
            self.release(charge + self.remove_empty_scope(&writer.scope));
        }
        put
    }

    /// Writes the version under `tmp`.
    fn write(
        &self,
        temporary: &str,
        artifact: &NewArtifact,
        record: &[u8],
    ) -> Result<(), StoreError> {
        self.root.create_dir(temporary)?;
        self.step("made")?;
        let directory = self.root.open_dir(temporary)?;
        self.write_file(&directory, &content_file(&artifact.name), artifact.content())?;
        self.step("content")?;
        self.write_file(&directory, "record.json", record)?;
        self.step("record")?;
        self.sync(temporary)?;
        Ok(())
    }

    fn write_file(&self, directory: &Dir, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut file = directory.open_with(name, private_file().write(true).create_new(true))?;
        file.write_all(bytes)?;
        if self.options.durable {
            file.sync_all()?;
        }
        mark_as_used(file);
        Ok(())
    }

    /// Moves the version to the first free number.
    fn publish(
        &self,
        temporary: &str,
        writer: &Writer,
        artifact: &NewArtifact,
    ) -> Result<Record, StoreError> {
        let scope = format!("scopes/{}", writer.scope);
        let folder = folder_in(&writer.scope, &artifact.name);
        let expired = self.highest_expired(&key_of(&folder))?;
        for _ in 0..MAX_TRIES {
            if let Some(number) = self.try_publish(temporary, &folder, expired)? {
                // A delete of the last other artifact may have removed the file since. Without it,
                // the scope counts as an owner of its own until the next put.
                let _ = self.write_owner(writer);
                let lasting = self.make_lasting(&[&folder, &scope, "scopes"]);
                return match lasting {
                    // A put that reports an error must leave nothing; one that cannot be undone is
                    // reported as a success.
                    Err(error)
                        if self.is_stopped() || self.take_back(&folder, number, temporary) =>
                    {
                        Err(error)
                    }
                    _ => Ok(Record::new(artifact, number)),
                };
            }
        }
        Err(StoreError::Contended { name: artifact.name.clone() })
    }

    /// Waits until the published version is on the disk.
    fn make_lasting(&self, directories: &[&str]) -> Result<(), StoreError> {
        self.step("renamed")?;
        for directory in directories {
            self.sync(directory)?;
        }
        Ok(())
    }

    /// Moves a published version back to `tmp`, if possible.
    fn take_back(&self, folder: &str, number: u64, temporary: &str) -> bool {
        self.root.rename(format!("{folder}/{number}"), &self.root, temporary).is_ok()
    }

    /// Moves the version to the next free number; none when another writer took it at the same
    /// time.
    fn try_publish(
        &self,
        temporary: &str,
        folder: &str,
        expired: Option<u64>,
    ) -> Result<Option<u64>, StoreError> {
        let moved = self.root.create_dir_all(folder).and_then(|()| {
            // Every entry with the name of a number takes it, even if it is not a version.
            let taken = self.entries(folder)?.iter().filter_map(|entry| number_of(entry)).max();
            let number = taken.max(expired).map_or(0, |last| last + 1);
            let target = format!("{folder}/{number}");
            match self.root.rename(temporary, &self.root, &target) {
                // Some systems report another error when the number is taken.
                Err(_) if self.root.exists(&target) => Err(ErrorKind::AlreadyExists.into()),
                renamed => renamed.map(|()| number),
            }
        });
        match moved {
            Ok(number) => Ok(Some(number)),
            Err(error) => match error.kind() {
                // The number was taken, or is free again since.
                ErrorKind::AlreadyExists | ErrorKind::DirectoryNotEmpty => Ok(None),
                // The last version was removed, and the empty directory with it.
                ErrorKind::NotFound if self.root.exists(temporary) => Ok(None),
                _ => Err(error.into()),
            },
        }
    }

    /// Waits until the entries of this directory are on the disk.
    fn sync(&self, directory: &str) -> io::Result<()> {
        // Other systems cannot open a directory for this, and do not need it.
        if !cfg!(unix) || !self.options.durable {
            return Ok(());
        }
        match self.root.open(directory).and_then(|directory| directory.sync_all()) {
            // Another writer has deleted it since.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            synced => synced,
        }
    }

    /// Returns the version numbers in a name's directory, in order; none without a directory.
    fn numbers(&self, folder: &str) -> io::Result<Vec<u64>> {
        let directories = self.directories(folder)?;
        let mut numbers: Vec<_> = directories.iter().filter_map(|name| number_of(name)).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Returns the record of one version. The outer error is the file system's, the inner one
    /// damage of the version.
    fn read_record(&self, folder: &str, number: u64) -> io::Result<Result<Record, Damage>> {
        let path = format!("{folder}/{number}/record.json");
        if self.root.symlink_metadata(&path).is_ok_and(|found| !found.is_file()) {
            return Ok(Err(Damage("its record is not a file")));
        }
        let file = match self.root.open(path) {
            Ok(file) => file,
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Ok(Err(Damage(if self.root.exists(format!("{folder}/{number}")) {
                    "its record is missing"
                } else {
                    ""
                })));
            }
            Err(error) => return Err(error),
        };
        let mut json = Vec::new();
        file.take(MAX_RECORD_BYTES).read_to_end(&mut json)?;
        let Ok(record) = serde_json::from_slice::<Record>(&json) else {
            return Ok(Err(Damage("its record cannot be read")));
        };
        Ok(Ok(Record { version: number, ..record }))
    }

    fn find(
        &self,
        folder: &str,
        name: &ArtifactName,
        version: Version,
    ) -> Result<(Record, String), StoreError> {
        let number = match version {
            Version::Number(number) => Some(number),
            Version::Latest => self.numbers(folder)?.last().copied(),
        };
        let number = number.ok_or_else(|| self.absent(folder, name, version))?;
        match self.read_record(folder, number)? {
            Ok(record) => Ok((record, format!("{folder}/{number}"))),
            Err(Damage("")) => Err(self.absent(folder, name, version)),
            Err(Damage(reason)) => Err(corrupt(name, number, reason)),
        }
    }

    /// Returns the record of one version, and the file of its bytes after a check of its length.
    fn content(
        &self,
        folder: &str,
        name: &ArtifactName,
        version: Version,
    ) -> Result<(Record, File), StoreError> {
        let (record, directory) = self.find(folder, name, version)?;
        let path = format!("{directory}/{}", content_file(name));
        // Opening a pipe would wait for its other end for ever.
        if self.root.symlink_metadata(&path).is_ok_and(|found| !found.is_file()) {
            return Err(corrupt(name, record.version, "its bytes are not in a file"));
        }
        let file = match self.root.open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(corrupt(name, record.version, "its bytes are missing"));
            }
            Err(error) => return Err(error.into()),
        };
        if file.metadata()?.len() != record.size_bytes {
            return Err(corrupt(
                name,
                record.version,
                "its bytes do not have the length that was recorded",
            ));
        }
        Ok((record, file))
    }

    fn list(&self, scope: &str, page: &Page) -> Result<Listing, StoreError> {
        let scope = format!("scopes/{scope}");
        let mut folders = BTreeMap::new();
        let mut damaged = 0;
        for entry in self.directories(&scope)? {
            let folder = format!("{scope}/{entry}");
            // An unreadable directory does not hide the others.
            match self.name_of(&entry, &folder) {
                Ok(Named::As(name)) if page.after.as_ref().is_none_or(|after| *after < name) => {
                    folders.insert(name, folder);
                }
                // Without a name it has no place in the order, so the first page counts it.
                Ok(Named::Damaged) if page.after.is_none() => damaged += 1,
                _ => {}
            }
        }
        let mut records: Vec<Record> = Vec::new();
        for folder in folders.values() {
            let latest = self.latest(folder).unwrap_or_default();
            if latest.record.is_some() && records.len() == page.bounded_limit() {
                let next = records.last().map(|last| last.name.clone());
                return Ok(Listing { records, next, damaged });
            }
            damaged += usize::from(latest.is_damaged);
            records.extend(latest.record);
        }
        Ok(Listing { records, next: None, damaged })
    }

    /// Returns the latest readable version. Logs each damaged version once.
    fn latest(&self, folder: &str) -> io::Result<Latest> {
        let mut latest = Latest::default();
        for number in self.numbers(folder)?.into_iter().rev() {
            match self.read_record(folder, number)? {
                Ok(record) => {
                    latest.record = Some(record);
                    break;
                }
                // Another process has removed it since.
                Err(Damage("")) => {}
                Err(Damage(reason)) => {
                    latest.is_damaged = true;
                    self.log_damage(&format!("{folder}/{number}"), reason);
                }
            }
        }
        Ok(latest)
    }

    fn log_damage(&self, version: &str, reason: &str) {
        let mut logged = self.damaged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.len() < MAX_LOGGED_DAMAGES && logged.insert(version.to_owned()) {
            tracing::warn!(
                version,
                reason,
                "an artifact in the directory is damaged; it is not listed, and its files are left as they are"
            );
        }
    }

    /// Returns the name of the artifacts in this directory.
    fn name_of(&self, entry: &str, folder: &str) -> io::Result<Named> {
        if let Some(name) = self.known().get(entry) {
            return Ok(Named::As(name.clone()));
        }
        let latest = self.latest(folder)?;
        let Some(record) = latest.record else {
            return Ok(if latest.is_damaged { Named::Damaged } else { Named::Nothing });
        };
        if folder_of_name(&record.name) != entry {
            return Ok(Named::Nothing);
        }
        let mut known = self.known();
        if known.len() >= MAX_KNOWN_NAMES {
            known.clear();
        }
        known.insert(entry.to_owned(), record.name.clone());
        Ok(Named::As(record.name))
    }

    /// Returns the error for a missing version: not found, or expired.
    fn absent(&self, folder: &str, name: &ArtifactName, version: Version) -> StoreError {
        match self.highest_expired(&key_of(folder)) {
            Ok(highest) => absent(name, version, highest),
            Err(error) => error.into(),
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, ArtifactName>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves the versions to `tmp` in one step, and removes them there.
    fn delete(
        &self,
        folder: &str,
        name: &ArtifactName,
        which: Versions,
    ) -> Result<u64, StoreError> {
        let (path, version) = match which {
            Versions::All => (folder.to_owned(), Version::Latest),
            Versions::Number(number) => (format!("{folder}/{number}"), Version::Number(number)),
        };
        let temporary = self.temporary();
        match self.root.rename(&path, &self.root, &temporary) {
            Ok(()) => {}
            Err(error) if is_absent(&error) => return Err(self.absent(folder, name, version)),
            Err(error) => return Err(error.into()),
        }
        let mut charge = 0;
        let gone = match which {
            Versions::All => {
                let numbers = self.numbers(&temporary)?;
                for number in &numbers {
                    charge += self.charge_of_version(&format!("{temporary}/{number}"))?;
                }
                let key = key_of(folder);
                if self.highest_expired(&key)?.is_some() {
                    self.remember_expired(&key, None)?;
                }
                numbers.len() as u64
            }
            Versions::Number(_) => {
                charge = self.charge_of_version(&temporary)?;
                1
            }
        };
        self.remove(&temporary)?;
        // This removes only an empty directory. A put in between creates it again.
        let _ = self.root.remove_dir(folder);
        if let Some(scope) = folder.split('/').nth(1) {
            charge += self.remove_empty_scope(scope);
        }
        self.release(charge);
        if gone == 0 { Err(StoreError::not_found(name, version)) } else { Ok(gone) }
    }

    fn clear_left_behind(&self) -> io::Result<()> {
        for entry in self.root.read_dir("tmp")? {
            let entry = entry?;
            let age = entry
                .metadata()
                .and_then(|metadata| metadata.modified())
                .map(|modified| modified.into_std().elapsed());
            if let Ok(Ok(age)) = age
                && age > LEFT_BEHIND
            {
                // Another process may be removing it, too.
                let path = Path::new("tmp").join(entry.file_name());
                if self.root.remove_dir_all(&path).is_err() {
                    let _ = self.root.remove_file(path);
                }
            }
        }
        Ok(())
    }
}

/// Returns the first name that is not hidden and not `lost+found`, which a new file system has.
fn first_foreign(
    entries: impl Iterator<Item = io::Result<std::ffi::OsString>>,
) -> io::Result<Option<String>> {
    for name in entries {
        let name = name?.to_string_lossy().into_owned();
        if !name.starts_with('.') && name != "lost+found" {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

fn holds_other_files(name: &str) -> io::Error {
    let message = format!(
        "directory holds other files, such as {name:?}; name an empty directory, or one that does not exist yet"
    );
    io::Error::new(ErrorKind::AlreadyExists, message)
}

/// The latest version of a name.
#[derive(Default)]
struct Latest {
    record: Option<Record>,
    /// A later version, or each version, is damaged.
    is_damaged: bool,
}

/// The name of the artifacts in a directory.
enum Named {
    As(ArtifactName),
    /// Each version is damaged.
    Damaged,
    /// The directory holds no versions, or those of another name.
    Nothing,
}

/// Damage of a version; empty when the version does not exist.
struct Damage(&'static str);

fn corrupt(name: &ArtifactName, version: u64, reason: &str) -> StoreError {
    StoreError::Corrupt { name: name.clone(), version, reason: reason.to_owned() }
}

/// Marks a file as used now. If that fails, its artifact may be evicted too early.
fn mark_as_used(file: File) {
    let _ = file.into_std().set_modified(SystemTime::now());
}

/// Returns the key of the name of this directory.
fn key_of(folder: &str) -> Key {
    let mut parts = folder.rsplit('/');
    let name = parts.next().unwrap_or_default();
    let scope = parts.next().unwrap_or_default();
    key_for(scope, name)
}

fn content_file(name: &ArtifactName) -> String {
    name.extension().map_or_else(
        || "content".to_owned(),
        |extension| format!("content.{}", extension.to_ascii_lowercase()),
    )
}

fn folder_of(scope: &Scope, name: &ArtifactName) -> String {
    folder_in(&folder_of_scope(scope), name)
}

/// Returns the directory of a name within a scope.
fn folder_in(scope: &str, name: &ArtifactName) -> String {
    format!("scopes/{scope}/{}", folder_of_name(name))
}

fn folder_of_scope(scope: &Scope) -> String {
    folder(&[scope.app(), scope.user(), scope.session()])
}

/// Returns the name of the owner of a scope.
fn folder_of_owner(scope: &Scope) -> String {
    folder(&[scope.app(), scope.user()])
}

fn folder_of_name(name: &ArtifactName) -> String {
    folder(&[name.as_str()])
}

/// Returns a readable directory name that is unique for its texts on every file system.
fn folder(parts: &[&str]) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
    }
    let hash = hasher.finalize().to_hex();
    let start = parts.join("-");
    let readable: String = start
        .chars()
        .take(48)
        .map(|char| if char.is_ascii_alphanumeric() { char.to_ascii_lowercase() } else { '_' })
        .collect();
    format!("{readable}-{}", &hash[..32])
}

#[cfg(test)]
mod tests {
    use std::{fs, time::SystemTime};

    use super::*;
    use crate::store::{conformance, files::Stop};

    const QUICK: DirectoryOptions =
        DirectoryOptions { durable: false, max_artifact_bytes: 1 << 20, max_total_bytes: 1 << 30 };

    fn artifact(text: &str) -> NewArtifact {
        let content = Bytes::copy_from_slice(text.as_bytes());
        NewArtifact::new(
            ArtifactName::parse("a.txt").unwrap(),
            "text/plain",
            SystemTime::UNIX_EPOCH,
            content,
        )
    }

    #[cfg(unix)]
    #[test]
    fn other_users_of_the_machine_read_no_artifact() {
        use std::os::unix::fs::PermissionsExt as _;
        let root = tempfile::tempdir().unwrap();
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
        DirectoryStore::open(root.path(), QUICK).unwrap();
        for name in ["tmp", "scopes"] {
            let mode = fs::metadata(root.path().join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700, "{name}");
        }
    }

    #[tokio::test]
    async fn a_removed_directory_is_an_error_of_its_own() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("artifacts");
        let store = DirectoryStore::open(&directory, QUICK).unwrap();
        fs::remove_dir_all(&directory).unwrap();
        for _ in 0..2 {
            let outcome = store.put(&Scope::local(), artifact("x")).await;
            assert!(matches!(outcome, Err(StoreError::DirectoryRemoved)), "{outcome:?}");
            // The second time, another directory has its path.
            fs::create_dir_all(&directory).unwrap();
        }
        let store = DirectoryStore::open(&directory, QUICK).unwrap();
        store.put(&Scope::local(), artifact("x")).await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn conforms() {
        let root = tempfile::tempdir().unwrap();
        let count = AtomicU64::default();
        for durable in [false, true] {
            conformance::check(async || {
                let path = root.path().join(count.fetch_add(1, Ordering::Relaxed).to_string());
                DirectoryStore::open(path, DirectoryOptions { durable, ..QUICK }).unwrap()
            })
            .await;
        }
        conformance::check_limit(async |max_total_bytes| {
            let path = root.path().join(count.fetch_add(1, Ordering::Relaxed).to_string());
            DirectoryStore::open(path, DirectoryOptions { max_total_bytes, ..QUICK }).unwrap()
        })
        .await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn files_of_other_programs_are_passed_over() {
        let root = tempfile::tempdir().unwrap();
        let store = DirectoryStore::open(root.path(), QUICK).unwrap();
        let scope = Scope::local();
        store.put(&scope, artifact("one")).await.unwrap();
        let scopes = root.path().join("scopes");
        let of_scope = scopes.join(folder_of_scope(&scope));
        let of_name = of_scope.join(folder_of_name(&artifact("").name));
        for folder in [&scopes, &of_scope, &of_name, &of_name.join("0")] {
            fs::write(folder.join(".DS_Store"), "x").unwrap();
        }
        fs::write(of_name.join("7"), "a file that looks like a version").unwrap();
        // A new store has no names in its cache.
        let store = DirectoryStore::open(root.path(), QUICK).unwrap();
        let listed = store.list(&scope, &Page::default()).await.unwrap();
        assert_eq!(listed.records.len(), 1);
        let name = artifact("").name;
        let latest = store.get(&scope, &name, Version::Latest).await.unwrap();
        assert_eq!((latest.record.version, &latest.content[..]), (0, &b"one"[..]));
        assert_eq!(store.versions(&scope, &name).await.unwrap().len(), 1);
        assert_eq!(store.put(&scope, artifact("two")).await.unwrap().version, 8);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn artifacts_of_other_processes_count_and_expire() {
        let root = tempfile::tempdir().unwrap();
        let options = DirectoryOptions { max_total_bytes: 110_000, ..QUICK };
        let first = DirectoryStore::open(root.path(), options).unwrap();
        let scope = Scope::local();
        let name = artifact("").name;
        for _ in 0..3 {
            first.put(&scope, artifact("x")).await.unwrap();
        }
        // The scope takes 8 KiB, and each version 16 KiB: content, record and two directories.
        assert_eq!(first.usage().bytes, (8 + 3 * 16) * 1024);
        let second = DirectoryStore::open(root.path(), options).unwrap();
        for _ in 0..5 {
            second.put(&scope, artifact("y")).await.unwrap();
        }
        assert!(second.usage().bytes <= 110_000);
        let versions = first.versions(&scope, &name).await.unwrap();
        assert!(versions.len() <= 6 && versions.last().unwrap().version == 7, "{versions:?}");
        let expired = first.get(&scope, &name, Version::Number(0)).await.unwrap_err();
        assert!(matches!(expired, StoreError::Expired { .. }), "{expired}");
        let unknown = first.get(&scope, &name, Version::Number(99)).await.unwrap_err();
        assert!(matches!(unknown, StoreError::NotFound { .. }), "{unknown}");
    }

    #[tokio::test]
    async fn empty_scopes_are_removed_and_scopes_without_owner_adopted() {
        let root = tempfile::tempdir().unwrap();
        let store = DirectoryStore::open(root.path(), QUICK).unwrap();
        let scopes = root.path().join("scopes");
        fn entries(folder: &Path) -> usize {
            fs::read_dir(folder).unwrap().count()
        }
        fn session(number: u32) -> Scope {
            Scope::new("app", "user", format!("session {number}")).unwrap()
        }
        for number in 0..3 {
            store.put(&session(number), artifact("x")).await.unwrap();
        }
        assert_eq!(entries(&scopes), 3);
        assert_eq!(store.usage().bytes, 3 * (8 + 16) * 1024);
        let name = artifact("").name;
        store.delete(&session(0), &name, Versions::All).await.unwrap();
        store.delete(&session(1), &name, Versions::Number(0)).await.unwrap();
        assert_eq!((entries(&scopes), store.usage().bytes), (1, (8 + 16) * 1024));

        // A scope of an older version has no owner.
        let owner = scopes.join(folder_of_scope(&session(2))).join("owner");
        let before = fs::read_to_string(&owner).unwrap();
        fs::remove_file(&owner).unwrap();
        store.put(&session(2), artifact("y")).await.unwrap();
        assert_eq!(fs::read_to_string(&owner).unwrap(), before);
        assert_eq!(before, folder_of_owner(&session(0)));

        *store.0.stop_at.lock().unwrap() = Some(Stop::Fails("content"));
        store.put(&session(7), artifact("x")).await.unwrap_err();
        assert_eq!((entries(&scopes), store.usage().bytes), (1, (8 + 32) * 1024));
        assert_eq!(fs::read_dir(root.path().join("tmp")).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn usage_does_not_wait_while_room_is_made() {
        let root = tempfile::tempdir().unwrap();
        let store = DirectoryStore::open(root.path(), QUICK).unwrap();
        store.put(&Scope::local(), artifact("x")).await.unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let quota = store.0.quota();
        let asked = store.clone();
        std::thread::spawn(move || tell.send(asked.usage().bytes));
        let bytes = told.recv_timeout(Duration::from_secs(2));
        drop(quota);
        assert_eq!(bytes, Ok(24 * 1024));
    }

    #[tokio::test]
    async fn an_unreadable_path_does_not_stop_the_store() {
        let root = tempfile::tempdir().unwrap();
        // Six versions fit.
        let options = DirectoryOptions { max_total_bytes: 110_000, ..QUICK };
        let store = DirectoryStore::open(root.path(), options).unwrap();
        let scope = Scope::local();
        for _ in 0..6 {
            store.put(&scope, artifact("x")).await.unwrap();
        }
        *store.0.stop_at.lock().unwrap() = Some(Stop::Fails("expire"));
        for _ in 0..2 {
            let full = store.put(&scope, artifact("x")).await.unwrap_err();
            assert!(matches!(full, StoreError::Full { limit: 110_000, .. }), "{full}");
        }
        assert_eq!((store.usage().bytes, store.usage().evicted), ((8 + 6 * 16) * 1024, 0));
        *store.0.stop_at.lock().unwrap() = Some(Stop::Fails("look"));
        store.put(&scope, artifact("x")).await.unwrap();
        *store.0.stop_at.lock().unwrap() = None;
        // The directory is scanned again after a sixteenth of the limit was written.
        store.put(&scope, artifact("x")).await.unwrap();
        assert!(store.usage().bytes <= 110_000 && store.usage().evicted > 0);
    }

    #[test]
    fn the_list_of_expired_artifacts_stays_short() {
        let root = tempfile::tempdir().unwrap();
        let store = DirectoryStore::open(root.path(), QUICK).unwrap();
        let line = format!("{} 1\n", "0".repeat(32));
        fs::write(root.path().join("expired"), line.repeat(30_000)).unwrap();
        let key = key_for("scope", "name");
        store.0.remember_expired(&key, Some(7)).unwrap();
        store.0.remember_expired(&key, Some(5)).unwrap();
        assert!(fs::metadata(root.path().join("expired")).unwrap().len() < 600_000);
        assert_eq!(store.0.highest_expired(&key).unwrap(), Some(7));
        store.0.remember_expired(&key, None).unwrap();
        assert_eq!(store.0.highest_expired(&key).unwrap(), None);
    }

    #[cfg(unix)]
    #[tokio::test(flavor = "multi_thread")]
    async fn files_of_other_programs_do_not_stop_the_store() {
        let root = tempfile::tempdir().unwrap();
        let store = DirectoryStore::open(root.path(), QUICK).unwrap();
        let scope = Scope::local();
        store.put(&scope, artifact("one")).await.unwrap();
        let version = walk(root.path(), "record.json").unwrap();
        let folder = version.parent().unwrap();
        fs::create_dir(folder.join(u64::MAX.to_string())).unwrap();
        assert_eq!(store.put(&scope, artifact("two")).await.unwrap().version, 1);

        let content = file_beside(&folder.join("1"));
        fs::remove_file(&content).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&content).status().unwrap().success());
        let name = ArtifactName::parse("a.txt").unwrap();
        let error = store.get(&scope, &name, Version::Latest).await.unwrap_err();
        assert!(error.to_string().contains("its bytes are not in a file"), "{error}");
    }

    #[cfg(unix)]
    #[tokio::test(flavor = "multi_thread")]
    async fn other_users_cannot_read_artifacts_in_a_directory_that_they_can_read() {
        use std::os::unix::fs::PermissionsExt as _;
        let root = tempfile::tempdir().unwrap();
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let store = DirectoryStore::open(root.path(), QUICK).unwrap();
        store.put(&Scope::local(), artifact("one")).await.unwrap();
        let version = walk(root.path(), "record.json").unwrap();
        for file in [version.join("record.json"), file_beside(&version)] {
            let mode = fs::metadata(&file).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{}", file.display());
        }
        let key = key_of(&folder_in("s", &ArtifactName::parse("a.txt").unwrap()));
        store.0.remember_expired(&key, Some(1)).unwrap();
        for entry in fs::read_dir(root.path()).unwrap() {
            let mode = entry.as_ref().unwrap().metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{entry:?}");
        }
    }

    /// Finds the directory below `root` with a file of that name.
    #[cfg(unix)]
    fn walk(root: &Path, file: &str) -> Option<std::path::PathBuf> {
        if root.join(file).is_file() {
            return Some(root.to_owned());
        }
        let entries = fs::read_dir(root).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
        entries.filter(|path| path.is_dir()).find_map(|path| walk(&path, file))
    }

    /// Returns the content file of a version.
    #[cfg(unix)]
    fn file_beside(version: &Path) -> std::path::PathBuf {
        let entries = fs::read_dir(version).unwrap().map(|entry| entry.unwrap().path());
        entries.into_iter().find(|path| !path.ends_with("record.json")).unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn two_stores_on_one_directory_never_share_a_version() {
        let root = tempfile::tempdir().unwrap();
        let stores: Vec<_> =
            (0..4).map(|_| DirectoryStore::open(root.path(), QUICK).unwrap()).collect();
        let mut tasks = Vec::new();
        for number in 0..80 {
            let store = stores[number % stores.len()].clone();
            tasks.push(tokio::spawn(async move {
                store.put(&Scope::local(), artifact(&number.to_string())).await
            }));
        }
        let mut versions = Vec::new();
        for task in tasks {
            versions.push(task.await.unwrap().unwrap().version);
        }
        versions.sort_unstable();
        assert_eq!(versions, (0..80).collect::<Vec<_>>());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn puts_and_deletes_at_once_end_well() {
        let root = tempfile::tempdir().unwrap();
        let store = DirectoryStore::open(root.path(), QUICK).unwrap();
        let name = artifact("").name;
        let mut tasks = Vec::new();
        for number in 0..60 {
            let store = store.clone();
            let name = name.clone();
            tasks.push(tokio::spawn(async move {
                if number % 3 == 0 {
                    let deleted = store.delete(&Scope::local(), &name, Versions::All).await;
                    assert!(
                        matches!(deleted, Ok(_) | Err(StoreError::NotFound { .. })),
                        "{deleted:?}"
                    );
                } else {
                    store.put(&Scope::local(), artifact(&number.to_string())).await.unwrap();
                }
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(std::fs::read_dir(root.path().join("tmp")).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn a_put_that_dies_leaves_the_whole_artifact_or_none() {
        for step in ["made", "content", "record", "renamed"] {
            let root = tempfile::tempdir().unwrap();
            let store = DirectoryStore::open(root.path(), QUICK).unwrap();
            store.put(&Scope::local(), artifact("first")).await.unwrap();
            *store.0.stop_at.lock().unwrap() = Some(Stop::Dies(step));
            assert!(store.put(&Scope::local(), artifact("second")).await.is_err());

            let again = DirectoryStore::open(root.path(), QUICK).unwrap();
            let listing = again.list(&Scope::local(), &Page::default()).await.unwrap();
            assert_eq!(listing.records.len(), 1);
            let name = artifact("").name;
            let latest = again.get(&Scope::local(), &name, Version::Latest).await.unwrap();
            let (version, content) = if step == "renamed" { (1, "second") } else { (0, "first") };
            assert_eq!(
                (latest.record.version, &latest.content[..]),
                (version, content.as_bytes()),
                "{step}"
            );
            assert_eq!(
                again.versions(&Scope::local(), &name).await.unwrap().len() as u64,
                version + 1
            );
            assert_eq!(
                again.put(&Scope::local(), artifact("third")).await.unwrap().version,
                version + 1
            );
        }
    }

    #[tokio::test]
    async fn a_put_that_fails_leaves_nothing() {
        for step in ["made", "content", "record", "renamed"] {
            let root = tempfile::tempdir().unwrap();
            let store = DirectoryStore::open(root.path(), QUICK).unwrap();
            *store.0.stop_at.lock().unwrap() = Some(Stop::Fails(step));
            store.put(&Scope::local(), artifact("first")).await.unwrap_err();
            *store.0.stop_at.lock().unwrap() = None;

            let name = artifact("").name;
            let found = store.get(&Scope::local(), &name, Version::Latest).await;
            assert!(matches!(found, Err(StoreError::NotFound { .. })), "{step}: {found:?}");
            assert_eq!(std::fs::read_dir(root.path().join("tmp")).unwrap().count(), 0, "{step}");
            assert_eq!(store.put(&Scope::local(), artifact("second")).await.unwrap().version, 0);
        }
    }

    #[tokio::test]
    async fn a_damaged_version_is_reported_and_not_listed() {
        let root = tempfile::tempdir().unwrap();
        let store = DirectoryStore::open(root.path(), QUICK).unwrap();
        let scope = Scope::local();
        let name = artifact("").name;
        for text in ["zero", "one"] {
            store.put(&scope, artifact(text)).await.unwrap();
        }
        let version = root.path().join(folder_of(&scope, &name)).join("1");
        for (file, bytes, want) in [
            ("content.txt", "eno", "its bytes do not have the hash that was recorded"),
            ("content.txt", "longer", "its bytes do not have the length that was recorded"),
            ("record.json", "{", "its record cannot be read"),
        ] {
            std::fs::write(version.join(file), bytes).unwrap();
            let error = store.get(&scope, &name, Version::Number(1)).await.unwrap_err().to_string();
            assert_eq!(error, format!("artifact \"a.txt\" version 1 is damaged: {want}"));
        }
        std::fs::remove_file(version.join("record.json")).unwrap();
        let error = store.get(&scope, &name, Version::Number(1)).await.unwrap_err().to_string();
        assert!(error.ends_with("its record is missing"), "{error}");
        let listing = store.list(&scope, &Page::default()).await.unwrap();
        assert_eq!((listing.records[0].version, listing.damaged), (0, 1));
        assert_eq!(store.put(&scope, artifact("two")).await.unwrap().version, 2);
        let listing = store.list(&scope, &Page::default()).await.unwrap();
        assert_eq!((listing.records[0].version, listing.damaged), (2, 0));
    }

    #[tokio::test]
    async fn an_artifact_without_a_readable_record_is_counted_and_logged_once() {
        let root = tempfile::tempdir().unwrap();
        let scope = Scope::local();
        let store = DirectoryStore::open(root.path(), QUICK).unwrap();
        store.put(&scope, artifact("zero")).await.unwrap();
        let folder = root.path().join(folder_of(&scope, &artifact("").name));
        std::fs::write(folder.join("0/record.json"), "{").unwrap();
        // Another process knows no name of it.
        for store in [store, DirectoryStore::open(root.path(), QUICK).unwrap()] {
            for _ in 0..3 {
                let listing = store.list(&scope, &Page::default()).await.unwrap();
                assert_eq!((listing.records.len(), listing.damaged), (0, 1));
            }
            assert_eq!(store.0.damaged.lock().unwrap().len(), 1);
        }
        assert!(folder.join("0/content.txt").exists());
    }

    #[test]
    fn a_directory_with_other_files_is_refused_and_left_alone() {
        for entry in ["thesis.txt", "tmp", "scopes"] {
            let root = tempfile::tempdir().unwrap();
            std::fs::create_dir(root.path().join(entry)).unwrap();
            let checked = DirectoryStore::check(root.path()).unwrap_err().to_string();
            let opened = DirectoryStore::open(root.path(), QUICK).unwrap_err().to_string();
            let want = format!(
                "directory holds other files, such as {entry:?}; name an empty directory, or one that does not exist yet"
            );
            assert_eq!([&checked, &opened], [&want, &want]);
            let entries: Vec<_> = std::fs::read_dir(root.path()).unwrap().collect();
            assert_eq!(entries.len(), 1);
        }
        let root = tempfile::tempdir().unwrap();
        for entry in [".DS_Store", "lost+found"] {
            std::fs::write(root.path().join(entry), "").unwrap();
        }
        for path in [root.path().to_owned(), root.path().join("new")] {
            DirectoryStore::check(&path).unwrap();
            DirectoryStore::open(&path, QUICK).unwrap();
            DirectoryStore::check(&path).unwrap();
            // Files that come later are ignored.
            std::fs::write(path.join("notes.txt"), "").unwrap();
            DirectoryStore::open(&path, QUICK).unwrap();
        }
    }

    #[tokio::test]
    async fn an_artifact_that_is_too_large_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let options = DirectoryOptions { max_artifact_bytes: 3, ..QUICK };
        let store = DirectoryStore::open(root.path(), options).unwrap();
        let error = store.put(&Scope::local(), artifact("1234")).await.unwrap_err();
        assert_eq!(error.to_string(), "artifact is 4 bytes, more than 3");
        assert!(store.put(&Scope::local(), artifact("123")).await.is_ok());
    }

    #[test]
    fn another_layout_is_refused_and_half_a_layout_completed() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("layout"), "marq").unwrap();
        DirectoryStore::open(root.path(), QUICK).unwrap();
        assert_eq!(std::fs::read_to_string(root.path().join("layout")).unwrap(), LAYOUT);
        std::fs::write(root.path().join("layout"), "marquetry artifacts 2\n").unwrap();
        assert!(DirectoryStore::open(root.path(), QUICK).is_err());
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn links_lead_nowhere() {
        let root = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let store = DirectoryStore::open(root.path(), QUICK).unwrap();
        let scope = root.path().join("scopes").join(folder_of_scope(&Scope::local()));
        std::os::unix::fs::symlink(outside.path(), scope).unwrap();
        assert!(store.put(&Scope::local(), artifact("x")).await.is_err());
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    }
}
