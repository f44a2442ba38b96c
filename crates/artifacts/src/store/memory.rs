//! Artifacts in memory, gone with the process.

use std::{
    collections::BTreeMap,
    ops::{Bound, Range},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use bytes::Bytes;

use super::{
    Artifact, ArtifactStore, Listing, NewArtifact, Page, Record, Scope, StoreError, Version,
    Versions, clamped,
};
use crate::name::ArtifactName;

/// What each artifact is taken to need beside its bytes: record, metadata and bookkeeping.
const OVERHEAD_BYTES: u64 = 4096;

/// How much a [`MemoryStore`] may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimits {
    /// Bytes of all artifacts of all scopes, 4 KiB for each artifact's record included. Default 256 MiB.
    pub max_total_bytes: u64,
}

impl Default for MemoryLimits {
    fn default() -> Self {
        Self { max_total_bytes: 256 * 1024 * 1024 }
    }
}

/// A store in memory. Clones share what it holds.
///
/// When it is full, [`put`](ArtifactStore::put) fails with [`StoreError::Full`]; nothing is thrown away to make room.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    limits: MemoryLimits,
    held: Arc<Mutex<Held>>,
}

#[derive(Debug, Default)]
struct Held {
    bytes: u64,
    scopes: BTreeMap<Scope, BTreeMap<ArtifactName, BTreeMap<u64, Artifact>>>,
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
    ) -> Result<Artifact, StoreError> {
        let held = self.held();
        let versions = held.scopes.get(scope).and_then(|names| names.get(name));
        let found = versions.and_then(|versions| match version {
            Version::Latest => versions.values().next_back(),
            Version::Number(number) => versions.get(&number),
        });
        found.cloned().ok_or_else(|| StoreError::not_found(name, version))
    }
}

#[async_trait]
impl ArtifactStore for MemoryStore {
    async fn put(&self, scope: &Scope, artifact: NewArtifact) -> Result<Record, StoreError> {
        let wanted = artifact.content.len() as u64 + OVERHEAD_BYTES;
        let mut held = self.held();
        let limit = self.limits.max_total_bytes;
        if held.bytes.saturating_add(wanted) > limit {
            return Err(StoreError::Full { held: held.bytes, wanted, limit });
        }
        held.bytes += wanted;
        let versions =
            held.scopes.entry(scope.clone()).or_default().entry(artifact.name.clone()).or_default();
        let version = versions.last_key_value().map_or(0, |(last, _)| last + 1);
        let record = Record::new(&artifact, version);
        versions.insert(version, Artifact::new(record.clone(), artifact.content));
        Ok(record)
    }

    async fn record(
        &self,
        scope: &Scope,
        name: &ArtifactName,
        version: Version,
    ) -> Result<Record, StoreError> {
        self.find(scope, name, version).map(|artifact| artifact.record)
    }

    async fn get(
        &self,
        scope: &Scope,
        name: &ArtifactName,
        version: Version,
    ) -> Result<Artifact, StoreError> {
        self.find(scope, name, version)
    }

    async fn read_range(
        &self,
        scope: &Scope,
        name: &ArtifactName,
        version: Version,
        range: Range<u64>,
    ) -> Result<Bytes, StoreError> {
        let content = self.find(scope, name, version)?.content;
        let range = clamped(&range, content.len() as u64);
        Ok(content.slice(range.start as usize..range.end as usize))
    }

    async fn list(&self, scope: &Scope, page: &Page) -> Result<Listing, StoreError> {
        let held = self.held();
        let Some(names) = held.scopes.get(scope) else { return Ok(Listing::default()) };
        let start = page.after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut latest = names
            .range::<ArtifactName, _>((start, Bound::Unbounded))
            .filter_map(|(_, versions)| versions.values().next_back());
        let records: Vec<_> = latest
            .by_ref()
            .take(page.bounded_limit())
            .map(|artifact| artifact.record.clone())
            .collect();
        let next = latest.next().and_then(|_| records.last()).map(|last| last.name.clone());
        Ok(Listing { records, next })
    }

    async fn versions(
        &self,
        scope: &Scope,
        name: &ArtifactName,
    ) -> Result<Vec<Record>, StoreError> {
        let held = self.held();
        let versions = held.scopes.get(scope).and_then(|names| names.get(name));
        let versions = versions.ok_or_else(|| StoreError::not_found(name, Version::Latest))?;
        Ok(versions.values().map(|artifact| artifact.record.clone()).collect())
    }

    async fn delete(
        &self,
        scope: &Scope,
        name: &ArtifactName,
        which: Versions,
    ) -> Result<u64, StoreError> {
        let mut held = self.held();
        let held = &mut *held;
        let not_found = |version| StoreError::not_found(name, version);
        let names = held.scopes.get_mut(scope).ok_or_else(|| not_found(Version::Latest))?;
        let versions = names.get_mut(name).ok_or_else(|| not_found(Version::Latest))?;
        let gone: Vec<Artifact> = match which {
            Versions::All => std::mem::take(versions).into_values().collect(),
            Versions::Number(number) => {
                vec![versions.remove(&number).ok_or_else(|| not_found(Version::Number(number)))?]
            }
        };
        if versions.is_empty() {
            names.remove(name);
        }
        if names.is_empty() {
            held.scopes.remove(scope);
        }
        held.bytes -=
            gone.iter().map(|artifact| artifact.record.size_bytes + OVERHEAD_BYTES).sum::<u64>();
        Ok(gone.len() as u64)
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
    }

    #[tokio::test]
    async fn a_full_store_says_so_and_has_room_again_after_a_delete() {
        let store = MemoryStore::new(MemoryLimits { max_total_bytes: 10_000 });
        let scope = Scope::local();
        let name = ArtifactName::parse("a.bin").unwrap();
        let artifact = NewArtifact::new(
            name.clone(),
            "x/y",
            SystemTime::UNIX_EPOCH,
            Bytes::from(vec![0; 5000]),
        );
        store.put(&scope, artifact.clone()).await.unwrap();
        let error = store.put(&scope, artifact.clone()).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "store is full: 9096 of 10000 bytes are held, 9096 more were wanted"
        );
        store.delete(&scope, &name, Versions::All).await.unwrap();
        assert_eq!(store.put(&scope, artifact).await.unwrap().version, 0);
    }
}
