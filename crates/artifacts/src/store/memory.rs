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
    expired::{Expired, absent, key},
};
use crate::name::ArtifactName;

/// What each artifact needs beside its bytes, its record and its name: places in two maps, reference counts, and what
/// the allocator adds. A test measures it.
const OVERHEAD_BYTES: u64 = 768;
/// Up to this size the bytes are copied, so that a small part does not keep a large buffer alive.
const COPIED_BYTES: usize = 64 * 1024;

/// How much a [`MemoryStore`] may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimits {
    /// Bytes of all artifacts of all scopes: content, records, and what it takes to keep them. Default 256 MiB.
    pub max_total_bytes: u64,
}

impl Default for MemoryLimits {
    fn default() -> Self {
        Self { max_total_bytes: 256 * 1024 * 1024 }
    }
}

/// A store in memory. Clones share what it holds.
///
/// When it is full, it makes room as [`ArtifactStore`] says. The names of the last 8192 artifacts that it removed so are
/// remembered.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    limits: MemoryLimits,
    held: Arc<Mutex<Held>>,
}

#[derive(Debug, Default)]
struct Held {
    bytes: u64,
    evicted: u64,
    /// Counts puts and reads: an order of time.
    uses: u64,
    scopes: HashMap<Scope, HeldOfScope>,
    expired: Expired,
}

/// The artifacts of one scope. It is never empty.
#[derive(Debug, Default)]
struct HeldOfScope {
    bytes: u64,
    /// By name and version.
    artifacts: BTreeMap<(ArtifactName, u64), Entry>,
    /// By last use, the earliest first.
    by_use: BTreeMap<u64, (ArtifactName, u64)>,
}

#[derive(Clone, Debug)]
struct Entry {
    /// The record as JSON: a third of what it takes as a value, and a size that is known.
    record: Arc<[u8]>,
    content: Bytes,
    used: u64,
}

impl Entry {
    fn charge(&self, name: &ArtifactName) -> u64 {
        charge(name, self.record.len(), self.content.len())
    }

    fn read(&self) -> Result<Record, StoreError> {
        serde_json::from_slice(&self.record).map_err(|error| io::Error::from(error).into())
    }
}

/// What an artifact is charged. Its name is kept twice beside its record.
fn charge(name: &ArtifactName, record: usize, content: usize) -> u64 {
    OVERHEAD_BYTES + (2 * name.as_str().len() + record + content) as u64
}

impl HeldOfScope {
    fn latest(&self, name: &ArtifactName) -> Option<u64> {
        let versions = (name.clone(), 0)..=(name.clone(), u64::MAX);
        self.artifacts.range(versions).next_back().map(|((_, version), _)| *version)
    }

    fn remove(&mut self, name: &ArtifactName, version: u64) -> Option<Entry> {
        let entry = self.artifacts.remove(&(name.clone(), version))?;
        self.by_use.remove(&entry.used);
        self.bytes -= entry.charge(name);
        Some(entry)
    }
}

impl Held {
    /// The entry, which counts as used now if it is to be read.
    fn find(
        &mut self,
        scope: &Scope,
        name: &ArtifactName,
        version: Version,
        is_read: bool,
    ) -> Result<(u64, Entry), StoreError> {
        let found = self.scopes.get_mut(scope).and_then(|held| {
            let number = match version {
                Version::Latest => held.latest(name)?,
                Version::Number(number) => number,
            };
            let entry = held.artifacts.get_mut(&(name.clone(), number))?;
            if is_read {
                self.uses += 1;
                if let Some(place) = held.by_use.remove(&entry.used) {
                    held.by_use.insert(self.uses, place);
                }
                entry.used = self.uses;
            }
            Some((number, entry.clone()))
        });
        found.ok_or_else(|| absent(name, version, self.expired.highest(&key(scope, name))))
    }

    /// Removes what was used the longest ago, of the scope that holds the most, until `wanted` bytes of `scope` fit.
    fn make_room(&mut self, scope: &Scope, wanted: u64, limit: u64) {
        while self.bytes.saturating_add(wanted) > limit {
            let largest = self
                .scopes
                .iter_mut()
                .max_by_key(|(other, held)| held.bytes + if *other == scope { wanted } else { 0 });
            let Some((owner, held)) = largest else { return };
            let Some((_, (name, version))) = held.by_use.pop_first() else { return };
            let before = held.bytes;
            held.remove(&name, version);
            self.bytes -= before - held.bytes;
            self.evicted += 1;
            self.expired.remember(key(owner, &name), version);
            if held.artifacts.is_empty() {
                let owner = owner.clone();
                self.scopes.remove(&owner);
            }
        }
    }
}

impl MemoryStore {
    /// An empty store.
    pub fn new(limits: MemoryLimits) -> Self {
        Self { limits, held: Arc::default() }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        // Nothing under the lock can leave the maps half changed.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(
        &self,
        scope: &Scope,
        name: &ArtifactName,
        version: Version,
    ) -> Result<(u64, Entry), StoreError> {
        self.held().find(scope, name, version, true)
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
        let wanted = charge(&name, json.len(), content.len());
        let limit = self.limits.max_total_bytes;
        if wanted > limit {
            return Err(StoreError::TooLarge { bytes: content.len() as u64, limit });
        }

        let mut held = self.held();
        held.make_room(scope, wanted, limit);
        let expired = held.expired.highest(&key(scope, &name));
        held.uses += 1;
        held.bytes += wanted;
        let used = held.uses;
        let scope = held.scopes.entry(scope.clone()).or_default();
        // The number in the text says nothing: the map's key is what counts.
        record.version = scope.latest(&name).max(expired).map_or(0, |last| last + 1);
        scope.bytes += wanted;
        scope.by_use.insert(used, (name.clone(), record.version));
        scope
            .artifacts
            .insert((name, record.version), Entry { record: json.into(), content, used });
        Ok(record)
    }

    async fn record(
        &self,
        scope: &Scope,
        name: &ArtifactName,
        version: Version,
    ) -> Result<Record, StoreError> {
        let (version, entry) = self.held().find(scope, name, version, false)?;
        Ok(Record { version, ..entry.read()? })
    }

    async fn get(
        &self,
        scope: &Scope,
        name: &ArtifactName,
        version: Version,
    ) -> Result<Artifact, StoreError> {
        let (version, entry) = self.find(scope, name, version)?;
        Ok(Artifact::new(Record { version, ..entry.read()? }, entry.content))
    }

    async fn read_range(
        &self,
        scope: &Scope,
        name: &ArtifactName,
        version: Version,
        range: Range<u64>,
    ) -> Result<Bytes, StoreError> {
        let (_, Entry { content, .. }) = self.find(scope, name, version)?;
        let range = clamped(&range, content.len() as u64);
        Ok(content.slice(range.start as usize..range.end as usize))
    }

    async fn list(&self, scope: &Scope, page: &Page) -> Result<Listing, StoreError> {
        let limit = page.bounded_limit();
        let mut found: Vec<(u64, Entry)> = Vec::new();
        let mut last: Option<ArtifactName> = page.after.clone();
        let mut next = None;
        if let Some(held) = self.held().scopes.get(scope) {
            loop {
                let start =
                    last.take().map_or(Bound::Unbounded, |name| Bound::Excluded((name, u64::MAX)));
                let first = held.artifacts.range((start.clone(), Bound::Unbounded)).next();
                let Some(((name, _), _)) = first else { break };
                if found.len() == limit {
                    if let Bound::Excluded((name, _)) = start {
                        next = Some(name);
                    }
                    break;
                }
                let Some(version) = held.latest(name) else { break };
                found.push((version, held.artifacts[&(name.clone(), version)].clone()));
                last = Some(name.clone());
            }
        }
        let records = found
            .into_iter()
            .map(|(version, entry)| Ok(Record { version, ..entry.read()? }))
            .collect::<Result<_, StoreError>>()?;
        Ok(Listing { records, next })
    }

    async fn versions(
        &self,
        scope: &Scope,
        name: &ArtifactName,
    ) -> Result<Vec<Record>, StoreError> {
        let mut found: Vec<(u64, Entry)> = Vec::new();
        {
            let held = self.held();
            if let Some(held) = held.scopes.get(scope) {
                let versions = (name.clone(), 0)..=(name.clone(), u64::MAX);
                let versions = held.artifacts.range(versions);
                found.extend(versions.map(|((_, version), entry)| (*version, entry.clone())));
            }
            if found.is_empty() {
                return Err(absent(name, Version::Latest, held.expired.highest(&key(scope, name))));
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
        let mut held = self.held();
        let held = &mut *held;
        let key = key(scope, name);
        let highest = held.expired.highest(&key);
        let Some(of_scope) = held.scopes.get_mut(scope) else {
            return Err(absent(name, Version::Latest, highest));
        };
        let before = of_scope.bytes;
        let mut gone = 0;
        let asked = match which {
            Versions::All => {
                while let Some(version) = of_scope.latest(name) {
                    of_scope.remove(name, version);
                    gone += 1;
                }
                Version::Latest
            }
            Versions::Number(number) => {
                gone = u64::from(of_scope.remove(name, number).is_some());
                Version::Number(number)
            }
        };
        held.bytes -= before - of_scope.bytes;
        if of_scope.artifacts.is_empty() {
            held.scopes.remove(scope);
        }
        if gone == 0 {
            return Err(absent(name, asked, highest));
        }
        if which == Versions::All {
            held.expired.forget(&key);
        }
        Ok(gone)
    }

    fn usage(&self) -> Usage {
        let held = self.held();
        Usage { bytes: held.bytes, limit: Some(self.limits.max_total_bytes), evicted: held.evicted }
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
        assert!(store.held().scopes.is_empty());
    }
}
