//! Artifacts in memory, gone with the process.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    ops::{Bound, Range},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use bytes::Bytes;

use super::{
    Artifact, ArtifactStore, Listing, NewArtifact, Page, Record, Scope, StoreError, Usage, Version,
    Versions, clamped,
    expired_names::{ExpiredNames, absent, key, key_of_parts},
    owners::OwnersByBytes,
};
use crate::name::ArtifactName;

/// Cost of an artifact beside its bytes, its record and its name: entries in two maps, reference
/// counts, and the allocator's share. `tests/memory.rs` measures this and the two below.
const ARTIFACT_BYTES: u64 = 768;
/// Cost of a scope beside its session's name: an entry in a map, and a map with room for some
/// artifacts.
const SCOPE_BYTES: u64 = 896;
/// Cost of an owner beside the names of application and user: entries in two maps, and two maps
/// with room for some entries.
const OWNER_BYTES: u64 = 1152;
/// Content up to this size is copied, so that a small part does not keep a large buffer alive.
const COPIED_BYTES: usize = 64 * 1024;

/// Limits of a [`MemoryStore`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryLimits {
    /// Bytes of all artifacts of all scopes: content, records, and the cost of keeping them.
    /// Default 256 MiB.
    pub max_total_bytes: u64,
}

impl MemoryLimits {
    /// Sets [`max_total_bytes`](Self::max_total_bytes).
    #[must_use]
    pub fn with_max_total_bytes(self, max_total_bytes: u64) -> Self {
        Self { max_total_bytes }
    }
}

impl Default for MemoryLimits {
    fn default() -> Self {
        Self { max_total_bytes: 256 * 1024 * 1024 }
    }
}

/// A store in memory. Clones share their artifacts.
///
/// A full store makes room by the rule of [`ArtifactStore`]. It remembers the names of the last
/// 8192 artifacts that it removed for that.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    limits: MemoryLimits,
    contents: Arc<Mutex<Contents>>,
}

#[derive(Debug, Default)]
struct Contents {
    bytes: u64,
    evicted: u64,
    /// Counts puts and reads: a logical clock.
    uses: u64,
    owners: HashMap<Owner, Holdings>,
    by_bytes: OwnersByBytes<Owner>,
    expired: ExpiredNames,
}

/// Application and user of a scope.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Owner(Arc<[String; 2]>);

/// The artifacts of one owner.
#[derive(Debug, Default)]
struct Holdings {
    /// Cost of sessions and artifacts.
    bytes: u64,
    /// No session is empty.
    sessions: HashMap<Arc<str>, Artifacts>,
    /// Artifacts by their last use, earliest first.
    by_use: BTreeMap<u64, (Arc<str>, ArtifactName, u64)>,
}

/// The artifacts of one scope, by name and version.
type Artifacts = BTreeMap<(ArtifactName, u64), Entry>;

#[derive(Clone, Debug)]
struct Entry {
    /// The record as JSON: a third of the size of the value, and a size that is known.
    record: Arc<[u8]>,
    content: Bytes,
    used: u64,
}

impl Entry {
    fn charge(&self, name: &ArtifactName) -> u64 {
        // The name is kept twice beside the record.
        ARTIFACT_BYTES + (2 * name.as_str().len() + self.record.len() + self.content.len()) as u64
    }

    fn read(&self) -> Result<Record, StoreError> {
        serde_json::from_slice(&self.record).map_err(|error| io::Error::from(error).into())
    }
}

impl Owner {
    fn of(scope: &Scope) -> Self {
        Self(Arc::new([scope.app().to_owned(), scope.user().to_owned()]))
    }

    fn charge(&self) -> u64 {
        OWNER_BYTES + self.0.iter().map(|part| part.len() as u64).sum::<u64>()
    }
}

fn charge_of_session(session: &str) -> u64 {
    SCOPE_BYTES + session.len() as u64
}

/// Returns the latest version of a name.
fn latest(artifacts: &Artifacts, name: &ArtifactName) -> Option<u64> {
    let versions = (name.clone(), 0)..=(name.clone(), u64::MAX);
    artifacts.range(versions).next_back().map(|((_, version), _)| *version)
}

impl Holdings {
    fn charge(&self, owner: &Owner) -> u64 {
        if self.sessions.is_empty() { 0 } else { self.bytes + owner.charge() }
    }

    fn latest(&self, session: &str, name: &ArtifactName) -> Option<u64> {
        latest(self.sessions.get(session)?, name)
    }

    fn insert(&mut self, session: &str, name: ArtifactName, version: u64, entry: Entry) {
        let session = if let Some((session, _)) = self.sessions.get_key_value(session) {
            Arc::clone(session)
        } else {
            self.bytes += charge_of_session(session);
            Arc::from(session)
        };
        self.bytes += entry.charge(&name);
        self.by_use.insert(entry.used, (Arc::clone(&session), name.clone(), version));
        self.sessions.entry(session).or_default().insert((name, version), entry);
    }

    /// Removes a version, and says whether it was there.
    fn remove(&mut self, session: &str, name: &ArtifactName, version: u64) -> bool {
        let Some(artifacts) = self.sessions.get_mut(session) else { return false };
        let Some(entry) = artifacts.remove(&(name.clone(), version)) else { return false };
        self.by_use.remove(&entry.used);
        self.bytes -= entry.charge(name);
        if artifacts.is_empty() {
            self.sessions.remove(session);
            self.bytes -= charge_of_session(session);
        }
        true
    }

    /// Removes the least recently used version.
    fn remove_earliest(&mut self) -> Option<(Arc<str>, ArtifactName, u64)> {
        let (session, name, version) = self.by_use.first_key_value()?.1.clone();
        self.remove(&session, &name, version);
        Some((session, name, version))
    }
}

impl Contents {
    /// Returns the entry. With `is_read`, this counts as a use.
    fn find(
        &mut self,
        scope: &Scope,
        name: &ArtifactName,
        version: Version,
        is_read: bool,
    ) -> Result<(u64, Entry), StoreError> {
        let found = self.owners.get_mut(&Owner::of(scope)).and_then(|holdings| {
            let artifacts = holdings.sessions.get_mut(scope.session())?;
            let number = match version {
                Version::Latest => latest(artifacts, name)?,
                Version::Number(number) => number,
            };
            let entry = artifacts.get_mut(&(name.clone(), number))?;
            if is_read {
                self.uses += 1;
                if let Some(artifact) = holdings.by_use.remove(&entry.used) {
                    holdings.by_use.insert(self.uses, artifact);
                }
                entry.used = self.uses;
            }
            Some((number, entry.clone()))
        });
        found.ok_or_else(|| absent(name, version, self.expired.highest(&key(scope, name))))
    }

    /// Changes the holdings of an owner, and the sums with them.
    fn change<T>(&mut self, owner: &Owner, change: impl FnOnce(&mut Holdings) -> T) -> T {
        let holdings = self.owners.entry(owner.clone()).or_default();
        let before = holdings.charge(owner);
        let changed = change(holdings);
        let after = holdings.charge(owner);
        if holdings.sessions.is_empty() {
            self.owners.remove(owner);
        }
        self.bytes = self.bytes - before + after;
        self.by_bytes.change(owner, before, after);
        changed
    }

    /// Removes artifacts by the rule of [`ArtifactStore`] until an artifact of `artifact` bytes
    /// fits.
    fn make_room(&mut self, writer: &Owner, session: &str, artifact: u64, limit: u64) {
        loop {
            let holdings = self.owners.get(writer);
            let held = holdings.map_or(0, |holdings| holdings.charge(writer));
            let has_session = holdings.is_some_and(|held| held.sessions.contains_key(session));
            let owner = if holdings.is_some() { 0 } else { writer.charge() };
            let session = if has_session { 0 } else { charge_of_session(session) };
            let wanted = artifact + session + owner;
            if self.bytes.saturating_add(wanted) <= limit {
                return;
            }
            let Some(owner) = self.by_bytes.largest(writer, held, wanted).cloned() else { return };
            let removed = self.change(&owner, Holdings::remove_earliest);
            let Some((session, name, version)) = removed else { return };
            self.evicted += 1;
            let [app, user] = &*owner.0;
            self.expired.remember(key_of_parts([app, user, &session, name.as_str()]), version);
        }
    }
}

impl MemoryStore {
    /// Creates an empty store.
    pub fn new(limits: MemoryLimits) -> Self {
        Self { limits, contents: Arc::default() }
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        // Nothing under the lock can leave the maps half changed.
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl ArtifactStore for MemoryStore {
    async fn put(&self, scope: &Scope, artifact: NewArtifact) -> Result<Record, StoreError> {
        let name = artifact.name.clone();
        let mut record = Record::new(&artifact, 0);
        let json = serde_json::to_vec(&record).map_err(io::Error::from)?;
        let content = if artifact.content.len() <= COPIED_BYTES {
            Bytes::copy_from_slice(&artifact.content)
        } else {
            artifact.content
        };
        let owner = Owner::of(scope);
        let mut entry = Entry { record: json.into(), content, used: 0 };
        let wanted = entry.charge(&name);
        let limit = self.limits.max_total_bytes;
        if wanted + charge_of_session(scope.session()) + owner.charge() > limit {
            return Err(StoreError::TooLarge { bytes: entry.content.len() as u64, limit });
        }

        let mut contents = self.contents();
        contents.make_room(&owner, scope.session(), wanted, limit);
        let expired = contents.expired.highest(&key(scope, &name));
        contents.uses += 1;
        entry.used = contents.uses;
        contents.change(&owner, |holdings| {
            // The version in the JSON is not read: the key of the map has it.
            let latest = holdings.latest(scope.session(), &name).max(expired);
            record.version = latest.map_or(0, |latest| latest + 1);
            holdings.insert(scope.session(), name, record.version, entry);
        });
        Ok(record)
    }

    async fn record(
        &self,
        scope: &Scope,
        name: &ArtifactName,
        version: Version,
    ) -> Result<Record, StoreError> {
        let (version, entry) = self.contents().find(scope, name, version, false)?;
        Ok(Record { version, ..entry.read()? })
    }

    async fn get(
        &self,
        scope: &Scope,
        name: &ArtifactName,
        version: Version,
    ) -> Result<Artifact, StoreError> {
        let (version, entry) = self.contents().find(scope, name, version, true)?;
        Ok(Artifact::new(Record { version, ..entry.read()? }, entry.content))
    }

    async fn read_range(
        &self,
        scope: &Scope,
        name: &ArtifactName,
        version: Version,
        range: Range<u64>,
    ) -> Result<Bytes, StoreError> {
        let (_, Entry { content, .. }) = self.contents().find(scope, name, version, true)?;
        let range = clamped(&range, content.len() as u64);
        Ok(content.slice(range.start as usize..range.end as usize))
    }

    async fn list(&self, scope: &Scope, page: &Page) -> Result<Listing, StoreError> {
        let limit = page.bounded_limit();
        let mut found: Vec<(u64, Entry)> = Vec::new();
        let mut last: Option<ArtifactName> = page.after.clone();
        let mut next = None;
        let contents = self.contents();
        let holdings = contents.owners.get(&Owner::of(scope));
        if let Some(artifacts) = holdings.and_then(|held| held.sessions.get(scope.session())) {
            loop {
                let start =
                    last.take().map_or(Bound::Unbounded, |name| Bound::Excluded((name, u64::MAX)));
                let first = artifacts.range((start.clone(), Bound::Unbounded)).next();
                let Some(((name, _), _)) = first else { break };
                if found.len() == limit {
                    if let Bound::Excluded((name, _)) = start {
                        next = Some(name);
                    }
                    break;
                }
                let Some(version) = latest(artifacts, name) else { break };
                found.push((version, artifacts[&(name.clone(), version)].clone()));
                last = Some(name.clone());
            }
        }
        // JSON is parsed outside of the lock.
        drop(contents);
        let records = found
            .into_iter()
            .map(|(version, entry)| Ok(Record { version, ..entry.read()? }))
            .collect::<Result<_, StoreError>>()?;
        Ok(Listing::new(records, next))
    }

    async fn versions(
        &self,
        scope: &Scope,
        name: &ArtifactName,
    ) -> Result<Vec<Record>, StoreError> {
        let mut found: Vec<(u64, Entry)> = Vec::new();
        {
            let contents = self.contents();
            let holdings = contents.owners.get(&Owner::of(scope));
            if let Some(artifacts) = holdings.and_then(|held| held.sessions.get(scope.session())) {
                let versions = (name.clone(), 0)..=(name.clone(), u64::MAX);
                let versions = artifacts.range(versions);
                found.extend(versions.map(|((_, version), entry)| (*version, entry.clone())));
            }
            if found.is_empty() {
                let highest = contents.expired.highest(&key(scope, name));
                return Err(absent(name, Version::Latest, highest));
            }
        }
        found.into_iter().map(|(version, entry)| Ok(Record { version, ..entry.read()? })).collect()
    }

    async fn delete(
        &self,
        scope: &Scope,
        name: &ArtifactName,
        which: Versions,
    ) -> Result<u64, StoreError> {
        let mut contents = self.contents();
        let session = scope.session();
        let (removed, asked) = contents.change(&Owner::of(scope), |holdings| match which {
            Versions::All => {
                let mut removed = 0;
                while let Some(version) = holdings.latest(session, name) {
                    removed += u64::from(holdings.remove(session, name, version));
                }
                (removed, Version::Latest)
            }
            Versions::Number(number) => {
                (u64::from(holdings.remove(session, name, number)), Version::Number(number))
            }
        });
        let key = key(scope, name);
        if removed == 0 {
            return Err(absent(name, asked, contents.expired.highest(&key)));
        }
        if which == Versions::All {
            contents.expired.remove(&key);
        }
        Ok(removed)
    }

    fn usage(&self) -> Usage {
        let Contents { bytes, evicted, .. } = *self.contents();
        Usage { bytes, limit: Some(self.limits.max_total_bytes), evicted }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::store::conformance;

    #[tokio::test]
    async fn conforms() {
        conformance::check(async || MemoryStore::default()).await;
        conformance::check_limit(async |max_total_bytes| {
            MemoryStore::new(MemoryLimits { max_total_bytes })
        })
        .await;
    }

    #[tokio::test]
    async fn a_charge_is_given_back() {
        let store = MemoryStore::default();
        let scope = Scope::local();
        let name = ArtifactName::parse("a.bin").unwrap();
        for _ in 0..3 {
            let content = Bytes::from(vec![0; 5000]);
            let artifact = NewArtifact::new(name.clone(), "x/y", SystemTime::UNIX_EPOCH, content);
            store.put(&scope, artifact).await.unwrap();
        }
        assert!(store.usage().bytes > 15_000);
        store.delete(&scope, &name, Versions::Number(1)).await.unwrap();
        store.delete(&scope, &name, Versions::All).await.unwrap();
        assert_eq!(store.usage().bytes, 0);
        assert!(store.contents().owners.is_empty());
    }
}
