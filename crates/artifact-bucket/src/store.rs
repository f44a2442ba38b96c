//! The store.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{
    StreamExt as _, TryStreamExt as _,
    future::{join_all, try_join_all},
};
use marquetry_artifacts::{
    Artifact, ArtifactName, ArtifactStore, NewArtifact, Record, Scope, StoreError, Version,
    store::{Listing, Page, Usage, Versions},
};
use object_store::{
    Error, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, PutPayload, path::Path,
};

use crate::{
    address::BucketAddress,
    content::{ReadError, is_about_bucket, piece_hashes, random_id},
    keys::{
        Entries, Entry, NameFolder, end_of_name, key_of, name_of, parse_version, path_of,
        scope_folder,
    },
    problem::{Action, problem},
    shared::{BucketOptions, CONCURRENCY, LastUse, Shared, StoredRecord},
};

/// Names the layout; the prefix of every store has it.
const LAYOUT: &str = "marquetry artifacts in a bucket 1\n";
/// Attempts of a put to take a number before it gives up.
const MAX_TRIES: u32 = 1000;
/// Attempts of a put whose outcome stays unknown.
const MAX_UNKNOWN: u32 = 3;
/// The first bytes of a store that is only checked.
const PROBE: &[u8] = b"probe";
/// Time after which a version in use gets its mark in the bucket again.
const MARK_AGAIN: Duration = Duration::from_mins(1);
/// Versions whose last use this process remembers.
const MAX_USES: usize = 100_000;

/// A store in a bucket, which any number of servers may use at the same time. Clones share it.
///
/// A version exists if its record does. The record is the last object that a put writes, with
/// `If-None-Match: *`, so no two writers share a number, and a version is complete or absent. Equal
/// bytes of an owner are stored once. A full store makes room by the rule of [`ArtifactStore`]: it
/// reads all records once, and later lists their keys.
#[derive(Clone, Debug)]
pub struct BucketStore(Arc<Shared>);

impl BucketStore {
    /// Opens the store of a prefix of this bucket, after a [check](Self::check).
    ///
    /// # Errors
    /// Returns an error if the check fails.
    pub async fn open(
        bucket: Arc<dyn ObjectStore>,
        address: &BucketAddress,
        options: BucketOptions,
    ) -> Result<Self, StoreError> {
        let store = Self::new(bucket, address, options);
        store.check().await?;
        let layout = path_of(&store.0.root, "layout");
        let created = store.0.create(&layout, LAYOUT.as_bytes()).await;
        created.map_err(|error| problem(Action::Write, &error))?;
        Ok(store)
    }

    /// Creates the store of a prefix of this bucket, to [check](Self::check) it. Nothing is sent.
    /// [`open`](Self::open) refuses a prefix that has artifacts, but was never opened.
    pub fn new(
        bucket: Arc<dyn ObjectStore>,
        address: &BucketAddress,
        options: BucketOptions,
    ) -> Self {
        let root = Path::from(address.prefix());
        Self(Arc::new(Shared {
            bucket,
            root,
            options,
            quota: tokio::sync::Mutex::default(),
            charged: AtomicU64::default(),
            pending: AtomicU64::default(),
            evicted: AtomicU64::default(),
            is_counting: AtomicBool::default(),
            summaries: Mutex::default(),
            uses: Mutex::default(),
        }))
    }

    /// Checks whether the bucket can hold artifacts: whether objects can be listed, written, read
    /// and deleted, and whether the server keeps an existing object when it is created again. The
    /// prefix must be empty, or that of a store. Leaves no object.
    ///
    /// # Errors
    /// Returns an error that says what is missing: the bucket, a right, or the condition.
    pub async fn check(&self) -> Result<(), StoreError> {
        self.0.check_layout().await?;
        let probe = path_of(&self.0.root, &format!("probe/{}", random_id()?));
        let first = self.0.create(&probe, PROBE).await;
        if !first.map_err(|error| problem(Action::Write, &error))? {
            // Another attempt of the same request was first.
            tracing::debug!("the probe of the artifact bucket was there already");
        }
        let again = self.0.create(&probe, b"again").await;
        let read = self.0.read(&probe).await;
        let deleted = self.0.bucket.delete(&probe).await;
        let is_replaced = again.map_err(|error| problem(Action::Write, &error))?;
        let bytes = read.map_err(|error| problem(Action::Read, &error))?;
        deleted.map_err(|error| problem(Action::Delete, &error))?;
        if is_replaced || bytes != PROBE {
            return Err(StoreError::Backend("the server of the artifact bucket replaces objects although the request has `If-None-Match: *`; several writers would overwrite each other".to_owned()));
        }
        Ok(())
    }
}

impl Shared {
    /// Returns an error if the prefix holds other objects, or another layout.
    async fn check_layout(&self) -> Result<(), StoreError> {
        let layout = path_of(&self.root, "layout");
        match self.read(&layout).await {
            Ok(text) if text == LAYOUT.as_bytes() => return Ok(()),
            Ok(_) => {
                return Err(StoreError::Backend(
                    "the artifact bucket holds another layout of artifacts below its prefix"
                        .to_owned(),
                ));
            }
            Err(error @ Error::NotFound { .. }) if !is_about_bucket(&error) => {}
            Err(error) => return Err(problem(Action::Read, &error)),
        }
        let root = (!self.root.as_ref().is_empty()).then_some(&self.root);
        let first = self.bucket.list(root).next().await.transpose();
        let first = first.map_err(|error| problem(Action::List, &error))?;
        let foreign = first.filter(|object| {
            let key = key_of(&self.root, &object.location);
            !key.is_some_and(|key| key == "layout" || key.starts_with("probe/"))
        });
        if let Some(object) = foreign {
            return Err(StoreError::Backend(format!(
                "the artifact bucket holds other objects below its prefix, such as {:?}; name an empty prefix",
                object.location.as_ref()
            )));
        }
        Ok(())
    }

    pub(crate) async fn read(&self, path: &Path) -> Result<Bytes, Error> {
        self.bucket.get(path).await?.bytes().await
    }

    /// Creates an object; false if there is one.
    async fn create(&self, path: &Path, bytes: &[u8]) -> Result<bool, Error> {
        let payload = PutPayload::from_bytes(Bytes::copy_from_slice(bytes));
        match self.bucket.put_opts(path, payload, PutOptions::from(PutMode::Create)).await {
            Ok(_) => Ok(true),
            Err(Error::AlreadyExists { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Lists the entries of a name.
    async fn entries(&self, folder: &NameFolder) -> Result<Entries, StoreError> {
        let mut entries = Entries::default();
        let mut objects = self.bucket.list(Some(&folder.path(&self.root)));
        while let Some(object) =
            objects.try_next().await.map_err(|error| problem(Action::List, &error))?
        {
            if let Some((_, entry)) = parse_version(&self.root, &object.location) {
                entries.add(entry, object);
            }
        }
        Ok(entries)
    }

    /// Reads a record; none if there is no such version.
    pub(crate) async fn stored(
        &self,
        name: &ArtifactName,
        number: u64,
        path: &Path,
    ) -> Result<Option<StoredRecord>, StoreError> {
        let json = match self.read(path).await {
            Ok(json) => json,
            Err(error @ Error::NotFound { .. }) if !is_about_bucket(&error) => return Ok(None),
            Err(error) => return Err(problem(Action::Read, &error)),
        };
        let stored = serde_json::from_slice::<StoredRecord>(&json).ok();
        let Some(mut stored) = stored.filter(|stored| stored.record.name == *name) else {
            return Err(corrupt(name, number, "its record cannot be read"));
        };
        stored.record.version = number;
        Ok(Some(stored))
    }

    /// Returns the record of one version.
    async fn find(
        &self,
        folder: &NameFolder,
        name: &ArtifactName,
        version: Version,
    ) -> Result<StoredRecord, StoreError> {
        let number = match version {
            Version::Number(number) => number,
            Version::Latest => {
                let entries = self.entries(folder).await?;
                match entries.records.last_key_value() {
                    Some((number, _)) => *number,
                    None => return Err(absent(&entries, name, version)),
                }
            }
        };
        let path = folder.entry(&self.root, Entry::Record(number));
        match self.stored(name, number, &path).await? {
            Some(stored) => Ok(stored),
            None => Err(absent(&self.entries(folder).await?, name, version)),
        }
    }

    /// Returns the latest readable version of a name, and whether a later one is damaged.
    async fn latest(
        &self,
        name: &ArtifactName,
        records: &BTreeMap<u64, Path>,
    ) -> Result<(Option<Record>, bool), StoreError> {
        let mut is_damaged = false;
        for (number, path) in records.iter().rev() {
            match self.stored(name, *number, path).await {
                Ok(Some(stored)) => return Ok((Some(stored.record), is_damaged)),
                // Another server has removed it since.
                Ok(None) => {}
                Err(StoreError::Corrupt { reason, .. }) => {
                    is_damaged = true;
                    tracing::warn!(key = %path, reason, "an artifact in the bucket is damaged; it is not listed");
                }
                Err(error) => return Err(error),
            }
        }
        Ok((None, is_damaged))
    }

    /// Writes the record under the next free number.
    async fn publish(
        &self,
        folder: &NameFolder,
        artifact: &NewArtifact,
        mut stored: StoredRecord,
        mut number: u64,
    ) -> Result<Record, StoreError> {
        let mut lease = self.lease_content(&folder.owner, artifact).await?;
        let mut unknown = 0;
        for _ in 0..MAX_TRIES {
            if !self.is_valid_lease(&lease) {
                lease = self.lease_content(&folder.owner, artifact).await?;
            }
            stored.generation.clone_from(&lease.key.generation);
            let path = folder.entry(&self.root, Entry::Record(number));
            let json = json_of(&stored)?;
            let created = self.create(&path, &json).await;
            if let Ok(true) = created {
                self.remember_use(&path);
                return Ok(Record::new(artifact, number));
            }
            // An earlier attempt of this request may have arrived although its answer was lost.
            let found = match self.stored(&artifact.name, number, &path).await {
                Ok(found) => found.map(|found| found.put == stored.put),
                Err(StoreError::Corrupt { .. }) => Some(false),
                Err(error) => return Err(error),
            };
            match (created, found) {
                (_, Some(true)) => {
                    self.remember_use(&path);
                    return Ok(Record::new(artifact, number));
                }
                (_, Some(false)) => number = number.saturating_add(1),
                // The number is free again, or two writers met at a server that refuses both.
                (Ok(_), None) => tokio::time::sleep(Duration::from_millis(20)).await,
                (Err(error), None) => {
                    unknown += 1;
                    let is_final = matches!(
                        error,
                        Error::PermissionDenied { .. }
                            | Error::Unauthenticated { .. }
                            | Error::NotFound { .. }
                    );
                    if is_final || unknown == MAX_UNKNOWN {
                        return Err(problem(Action::Write, &error));
                    }
                }
            }
        }
        Err(StoreError::Contended { name: artifact.name.clone() })
    }

    /// Removes versions: their records, then the marks beside them.
    async fn delete(
        &self,
        folder: &NameFolder,
        name: &ArtifactName,
        which: Versions,
    ) -> Result<u64, StoreError> {
        let mut entries = self.entries(folder).await?;
        match which {
            Versions::All if entries.records.is_empty() => {
                return Err(absent(&entries, name, Version::Latest));
            }
            Versions::Number(number) => {
                if !entries.records.contains_key(&number) {
                    return Err(absent(&entries, name, Version::Number(number)));
                }
                entries.records.retain(|at, _| *at == number);
                entries.used.retain(|at, _| *at == number);
                entries.expired.clear();
            }
            Versions::All => {}
        }
        let mut freed: u64 = 0;
        for (number, object) in &entries.records {
            freed += self.charge_of(folder, name, *number, object).await?;
        }
        let removed = entries.records.len() as u64;
        let records = entries.records.into_values();
        let marks = entries.used.into_values().chain(entries.expired.into_values());
        let paths: Vec<_> = records.chain(marks).map(|object| object.location).collect();
        self.remove(&paths).await?;
        let _ = self.charged.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| {
            Some(held.saturating_sub(freed))
        });
        Ok(removed)
    }

    /// Reads bytes with `read` after the record; describes their damage.
    async fn content_error(
        &self,
        folder: &NameFolder,
        stored: &StoredRecord,
        error: ReadError,
    ) -> StoreError {
        let Record { name, version, .. } = &stored.record;
        let reason = match error {
            ReadError::Failed(error) => return error,
            ReadError::Damaged(reason) => reason,
        };
        // Another server may have removed the version between its record and its bytes.
        let path = folder.entry(&self.root, Entry::Record(*version));
        match self.stored(name, *version, &path).await {
            Ok(Some(now)) if now.put == stored.put => {
                // The next put of equal bytes must not rely on these.
                let _ = self.mark_garbage(&stored.content(&folder.owner)).await;
                corrupt(name, *version, reason)
            }
            Ok(Some(_)) => StoreError::Backend(
                "the artifact was replaced while it was read; try again".to_owned(),
            ),
            Ok(None) => match self.entries(folder).await {
                Ok(entries) => absent(&entries, name, Version::Number(*version)),
                Err(error) => error,
            },
            Err(error) => error,
        }
    }

    fn uses(&self) -> MutexGuard<'_, HashMap<Path, LastUse>> {
        self.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the last use of a version by this process.
    pub(crate) fn last_use(&self, path: &Path) -> Option<SystemTime> {
        self.uses().get(path).map(|it| it.at)
    }

    /// Records a use of a version, and returns whether its mark in the bucket must be renewed.
    fn remember_use(&self, path: &Path) -> bool {
        let at = SystemTime::now();
        let marked = Instant::now();
        let mut uses = self.uses();
        if uses.len() >= MAX_USES {
            uses.clear();
        }
        let last = uses.entry(path.clone()).or_insert(LastUse { at, marked });
        last.at = at;
        let must_mark = last.marked.elapsed() >= MARK_AGAIN;
        if must_mark {
            last.marked = marked;
        }
        must_mark
    }
}

impl BucketStore {
    #[cfg(test)]
    pub(crate) fn shared(&self) -> &Shared {
        &self.0
    }

    /// Records that a version was read. Marks it in the bucket, for other servers, at most once in
    /// [`MARK_AGAIN`].
    fn mark_used(&self, folder: &NameFolder, number: u64) {
        let path = folder.entry(&self.0.root, Entry::Record(number));
        if !self.0.remember_use(&path) {
            return;
        }
        let shared = Arc::clone(&self.0);
        let mark = folder.entry(&self.0.root, Entry::Used(number));
        tokio::spawn(async move {
            if let Err(error) = shared.bucket.put(&mark, PutPayload::new()).await {
                // The version may be evicted too early.
                let _ = problem(Action::Write, &error);
            }
        });
    }
}

#[async_trait]
impl ArtifactStore for BucketStore {
    async fn put(&self, scope: &Scope, artifact: NewArtifact) -> Result<Record, StoreError> {
        let options = &self.0.options;
        let bytes = artifact.content().len() as u64;
        if bytes > options.max_artifact_bytes {
            return Err(StoreError::TooLarge { bytes, limit: options.max_artifact_bytes });
        }
        let content = artifact.content().clone();
        let pieces = blocking(move || piece_hashes(&content)).await?;
        let record = Record::new(&artifact, 0);
        let put = random_id()?;
        // Any generation has this length.
        let stored = StoredRecord { generation: put.clone(), put, pieces, record };
        let charge = stored.charge(json_of(&stored)?.len() as u64);
        if charge > options.max_total_bytes {
            return Err(StoreError::TooLarge { bytes, limit: options.max_total_bytes });
        }
        let folder = NameFolder::new(scope, &artifact.name);
        let reservation = self.0.reserve(&folder.owner, charge).await?;
        let next = self.0.entries(&folder).await?.next();
        let record = self.0.publish(&folder, &artifact, stored, next).await?;
        reservation.keep();
        Ok(record)
    }

    async fn record(
        &self,
        scope: &Scope,
        name: &ArtifactName,
        version: Version,
    ) -> Result<Record, StoreError> {
        let folder = NameFolder::new(scope, name);
        Ok(self.0.find(&folder, name, version).await?.record)
    }

    async fn get(
        &self,
        scope: &Scope,
        name: &ArtifactName,
        version: Version,
    ) -> Result<Artifact, StoreError> {
        let folder = NameFolder::new(scope, name);
        let stored = self.0.find(&folder, name, version).await?;
        let read = self.0.read_all(&stored.content(&folder.owner), stored.record.size_bytes).await;
        let content = match read {
            Ok(content) => content,
            Err(error) => return Err(self.0.content_error(&folder, &stored, error).await),
        };
        self.mark_used(&folder, stored.record.version);
        let record = stored.record.clone();
        let verified = blocking(move || Artifact::verified(record, content)).await?;
        if let Err(StoreError::Corrupt { .. }) = &verified {
            let _ = self.0.mark_garbage(&stored.content(&folder.owner)).await;
        }
        verified
    }

    async fn read_range(
        &self,
        scope: &Scope,
        name: &ArtifactName,
        version: Version,
        range: Range<u64>,
    ) -> Result<Bytes, StoreError> {
        let folder = NameFolder::new(scope, name);
        let stored = self.0.find(&folder, name, version).await?;
        self.mark_used(&folder, stored.record.version);
        let size = stored.record.size_bytes;
        let start = range.start.min(size);
        let range = start..range.end.clamp(start, size);
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let read =
            self.0.read_range(&stored.content(&folder.owner), &stored.pieces, size, range).await;
        match read {
            Ok(bytes) => Ok(bytes),
            Err(error) => Err(self.0.content_error(&folder, &stored, error).await),
        }
    }

    async fn list(&self, scope: &Scope, page: &Page) -> Result<Listing, StoreError> {
        let root = &self.0.root;
        let folder = scope_folder(root, scope);
        let mut objects = match &page.after {
            Some(after) => {
                self.0.bucket.list_with_offset(Some(&folder), &end_of_name(root, scope, after))
            }
            None => self.0.bucket.list(Some(&folder)),
        };
        let mut names: BTreeMap<ArtifactName, BTreeMap<u64, Path>> = BTreeMap::new();
        while let Some(object) =
            objects.try_next().await.map_err(|error| problem(Action::List, &error))?
        {
            let Some((folder, Entry::Record(number))) = parse_version(root, &object.location)
            else {
                continue;
            };
            if let Some(name) = name_of(&folder) {
                names.entry(name).or_default().insert(number, object.location);
            }
        }
        let names: Vec<_> = names.into_iter().collect();
        let mut records: Vec<Record> = Vec::new();
        let mut damaged = 0;
        for group in names.chunks(CONCURRENCY) {
            let mut reads = Vec::new();
            for (name, numbers) in group {
                reads.push(self.0.latest(name, numbers));
            }
            for (record, is_damaged) in try_join_all(reads).await? {
                if record.is_some() && records.len() == page.bounded_limit() {
                    let next = records.last().map(|last| last.name.clone());
                    return Ok(Listing::new(records, next).with_damaged(damaged));
                }
                damaged += usize::from(is_damaged);
                records.extend(record);
            }
        }
        Ok(Listing::new(records, None).with_damaged(damaged))
    }

    async fn versions(
        &self,
        scope: &Scope,
        name: &ArtifactName,
    ) -> Result<Vec<Record>, StoreError> {
        let folder = NameFolder::new(scope, name);
        let entries = self.0.entries(&folder).await?;
        let versions: Vec<_> = entries.records.iter().collect();
        let mut records = Vec::new();
        for group in versions.chunks(CONCURRENCY) {
            let mut reads = Vec::new();
            for (number, object) in group {
                reads.push(self.0.stored(name, **number, &object.location));
            }
            for stored in join_all(reads).await {
                match stored {
                    Ok(stored) => records.extend(stored.map(|stored| stored.record)),
                    // Damaged versions are not listed.
                    Err(StoreError::Corrupt { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        if records.is_empty() { Err(absent(&entries, name, Version::Latest)) } else { Ok(records) }
    }

    async fn delete(
        &self,
        scope: &Scope,
        name: &ArtifactName,
        which: Versions,
    ) -> Result<u64, StoreError> {
        self.0.delete(&NameFolder::new(scope, name), name, which).await
    }

    async fn check(&self) -> Result<(), StoreError> {
        Self::check(self).await
    }

    fn usage(&self) -> Usage {
        let pending = self.0.pending.load(Ordering::Relaxed);
        let mut usage = Usage::default();
        usage.bytes = self.0.charged.load(Ordering::Relaxed).saturating_add(pending);
        usage.limit = Some(self.0.options.max_total_bytes);
        usage.evicted = self.0.evicted.load(Ordering::Relaxed);
        usage
    }
}

/// Returns the error for a missing version: not found, or expired.
fn absent(entries: &Entries, name: &ArtifactName, version: Version) -> StoreError {
    let is_expired = match (version, entries.expired.last_key_value()) {
        (_, None) => false,
        (Version::Latest, Some(_)) => true,
        (Version::Number(number), Some((highest, _))) => number <= *highest,
    };
    if is_expired {
        StoreError::expired(name, version)
    } else {
        StoreError::not_found(name, version)
    }
}

fn corrupt(name: &ArtifactName, version: u64, reason: &str) -> StoreError {
    StoreError::Corrupt { name: name.clone(), version, reason: reason.to_owned() }
}

fn json_of(stored: &StoredRecord) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(stored).map_err(|error| StoreError::Backend(error.to_string()))
}

/// Runs work that hashes many bytes.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Ok(done),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(StoreError::Backend("the runtime is shutting down".to_owned())),
        },
    }
}
