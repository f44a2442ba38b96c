//! The quota: counts what the bucket holds, evicts versions when it is full, and deletes bytes that
//! no version names.
//!
//! No request of a bucket deletes an object on a condition. So bytes are deleted in two steps: they
//! are marked as garbage, after which no put relies on them; an hour later every put that relied on
//! them before has written its record, and bytes that no record names are deleted.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, PoisonError, atomic::Ordering},
    time::{Duration, Instant, SystemTime},
};

use futures_util::{TryStreamExt as _, future::try_join_all};
use marquetry_artifacts::{ArtifactName, StoreError};
use object_store::{Error, ObjectMeta, ObjectStoreExt as _, PutPayload, path::Path};

use crate::{
    keys::{
        ContentKey, Entries, Entry, NameFolder, name_of, parse_content, parse_version, path_of,
    },
    problem::{Action, problem},
    shared::{CONCURRENCY, Quota, RecordSummary, Reservation, Shared, Tag},
};

/// Time after which the next put counts again, in the background.
const COUNT_AGAIN: Duration = Duration::from_hours(1);
/// Records that this process keeps in short.
const MAX_SUMMARIES: usize = 200_000;
/// Names whose evicted versions are remembered.
const MAX_EXPIRED_NAMES: usize = 8192;

fn tag(object: &ObjectMeta) -> Tag {
    (object.last_modified.to_rfc3339(), object.e_tag.clone())
}

/// A version that may be evicted.
struct Candidate {
    used: SystemTime,
    folder: NameFolder,
    number: u64,
    charge: u64,
}

impl Shared {
    /// Reserves room for `wanted` bytes of an owner. Waits for a count when the limit is near, or
    /// other servers may have reached it.
    pub(crate) async fn reserve(
        self: &Arc<Self>,
        owner: &str,
        wanted: u64,
    ) -> Result<Reservation, StoreError> {
        let limit = self.options.max_total_bytes;
        let mut quota = self.quota.lock().await;
        quota.written = quota.written.saturating_add(wanted);
        if quota.written > limit / 16 || self.held().saturating_add(wanted) > limit {
            self.count(Some((owner, wanted))).await?;
            *quota = Quota { counted: Some(Instant::now()), written: 0 };
        } else if quota.counted.is_none_or(|counted| counted.elapsed() > COUNT_AGAIN)
            && !self.is_counting.swap(true, Ordering::Relaxed)
        {
            let shared = Arc::clone(self);
            tokio::spawn(async move {
                if shared.count(None).await.is_ok() {
                    shared.quota.lock().await.counted = Some(Instant::now());
                }
                shared.is_counting.store(false, Ordering::Relaxed);
            });
        }
        let held = self.held();
        if held.saturating_add(wanted) > limit {
            return Err(StoreError::Full { held, wanted, limit });
        }
        Ok(Reservation::new(self, wanted))
    }

    fn held(&self) -> u64 {
        let pending = self.pending.load(Ordering::Relaxed);
        self.charged.load(Ordering::Relaxed).saturating_add(pending)
    }

    /// Counts all versions, evicts some if bytes are wanted and do not fit, and deletes garbage.
    async fn count(&self, wanted: Option<(&str, u64)>) -> Result<(), StoreError> {
        // A put that ends during the count may be counted twice, until the next count.
        let pending = self.pending.load(Ordering::Relaxed);
        let before = self.charged.load(Ordering::Relaxed);
        let now = self.bucket_time().await?;
        // Bytes first: a record that is written later names no bytes that were marked by now.
        let contents = self.contents().await?;
        let names = self.names().await?;
        let mut named = HashSet::new();
        let mut candidates: HashMap<String, Vec<Candidate>> = HashMap::new();
        let mut total: u64 = 0;
        let mut useless = Vec::new();
        let mut versions = Vec::new();
        for (folder, entries) in &names {
            let Some(name) = name_of(folder) else { continue };
            let numbers = entries.records.iter();
            versions
                .extend(numbers.map(|(number, object)| (folder, name.clone(), *number, object)));
        }
        for group in versions.chunks(CONCURRENCY) {
            let mut reads = Vec::new();
            for (folder, name, number, object) in group {
                reads.push(self.summary_of(folder, name, *number, object));
            }
            for ((folder, _, number, object), summary) in
                group.iter().zip(try_join_all(reads).await?)
            {
                // An unreadable record is charged, and evicted like others.
                let charge = summary.as_ref().map_or(object.size, |summary| summary.charge);
                named.extend(summary.map(|summary| summary.content));
                total += charge;
                let mark = names.get(folder).and_then(|entries| entries.used.get(number));
                let own = self.last_use(&object.location);
                let written = own.unwrap_or_else(|| object.last_modified.into());
                let used = mark.map_or(written, |mark| written.max(mark.last_modified.into()));
                let candidate =
                    Candidate { used, folder: (*folder).clone(), number: *number, charge };
                candidates.entry(folder.owner.clone()).or_default().push(candidate);
            }
        }
        for entries in names.values() {
            let orphans =
                entries.used.iter().filter(|(number, _)| !entries.records.contains_key(number));
            useless.extend(orphans.map(|(_, mark)| mark.clone()));
        }
        if let Some((owner, bytes)) = wanted {
            let aim = self.options.max_total_bytes.saturating_sub(pending);
            if total.saturating_add(bytes) > aim {
                // A little more than needed, so that not every put counts.
                let aim = aim.saturating_sub(self.options.max_total_bytes / 64);
                let chosen = choose(candidates, owner, bytes, &mut total, aim);
                self.evict(&chosen).await?;
            }
        }
        useless.extend(superfluous_marks(&names));
        let useless: Vec<_> = useless.into_iter().map(|object| object.location).collect();
        self.remove(&useless).await?;
        self.collect_garbage(&contents, &named, now).await?;
        let _ = self.charged.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| {
            Some(total.saturating_add(now.saturating_sub(before)))
        });
        Ok(())
    }

    /// Returns the time of the bucket's server.
    async fn bucket_time(&self) -> Result<SystemTime, StoreError> {
        let clock = path_of(&self.root, "clock");
        self.bucket
            .put(&clock, PutPayload::new())
            .await
            .map_err(|error| problem(Action::Write, &error))?;
        let object = self.bucket.head(&clock).await;
        Ok(object.map_err(|error| problem(Action::Read, &error))?.last_modified.into())
    }

    async fn contents(&self) -> Result<Vec<(ContentKey, bool, ObjectMeta)>, StoreError> {
        let mut contents = Vec::new();
        let mut objects = self.bucket.list(Some(&path_of(&self.root, "content")));
        while let Some(object) =
            objects.try_next().await.map_err(|error| problem(Action::List, &error))?
        {
            let key = parse_content(&self.root, &object.location);
            contents.extend(key.map(|(key, is_mark)| (key, is_mark, object)));
        }
        Ok(contents)
    }

    async fn names(&self) -> Result<HashMap<NameFolder, Entries>, StoreError> {
        let mut names: HashMap<NameFolder, Entries> = HashMap::new();
        let mut objects = self.bucket.list(Some(&path_of(&self.root, "versions")));
        while let Some(object) =
            objects.try_next().await.map_err(|error| problem(Action::List, &error))?
        {
            if let Some((folder, entry)) = parse_version(&self.root, &object.location) {
                names.entry(folder).or_default().add(entry, object);
            }
        }
        Ok(names)
    }

    /// Returns a record in short; none if it is damaged or gone.
    async fn summary_of(
        &self,
        folder: &NameFolder,
        name: &ArtifactName,
        number: u64,
        object: &ObjectMeta,
    ) -> Result<Option<RecordSummary>, StoreError> {
        let modified = tag(object);
        let cached = {
            let summaries = self.summaries.lock().unwrap_or_else(PoisonError::into_inner);
            summaries.get(&object.location).filter(|it| it.modified == modified).cloned()
        };
        if cached.is_some() {
            return Ok(cached);
        }
        let stored = match self.stored(name, number, &object.location).await {
            Ok(Some(stored)) => stored,
            Ok(None) | Err(StoreError::Corrupt { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let read = RecordSummary {
            modified,
            content: stored.content(&folder.owner),
            charge: stored.charge(object.size),
        };
        let mut summaries = self.summaries.lock().unwrap_or_else(PoisonError::into_inner);
        if summaries.len() >= MAX_SUMMARIES {
            summaries.clear();
        }
        summaries.insert(object.location.clone(), read.clone());
        Ok(Some(read))
    }

    /// Returns the bytes that a version counts towards the limit.
    pub(crate) async fn charge_of(
        &self,
        folder: &NameFolder,
        name: &ArtifactName,
        number: u64,
        object: &ObjectMeta,
    ) -> Result<u64, StoreError> {
        let summary = self.summary_of(folder, name, number, object).await?;
        Ok(summary.map_or(object.size, |summary| summary.charge))
    }

    /// Removes versions, and remembers that they have expired.
    async fn evict(&self, chosen: &[Candidate]) -> Result<(), StoreError> {
        for group in chosen.chunks(CONCURRENCY) {
            let mut evictions = Vec::new();
            for candidate in group {
                evictions.push(self.evict_one(candidate));
            }
            try_join_all(evictions).await?;
        }
        Ok(())
    }

    async fn evict_one(&self, candidate: &Candidate) -> Result<(), StoreError> {
        let Candidate { folder, number, .. } = candidate;
        // First: after a failure in between, the version is still found.
        let expired = folder.entry(&self.root, Entry::Expired(*number));
        self.bucket
            .put(&expired, PutPayload::new())
            .await
            .map_err(|error| problem(Action::Write, &error))?;
        let record = folder.entry(&self.root, Entry::Record(*number));
        self.remove(&[record, folder.entry(&self.root, Entry::Used(*number))]).await?;
        self.evicted.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Marks bytes that no record names, and deletes those that were marked long ago.
    async fn collect_garbage(
        &self,
        contents: &[(ContentKey, bool, ObjectMeta)],
        named: &HashSet<ContentKey>,
        now: SystemTime,
    ) -> Result<(), StoreError> {
        let garbage_age = self.options.garbage_age;
        let marks: HashMap<_, _> = contents
            .iter()
            .filter(|(_, is_mark, _)| *is_mark)
            .map(|(key, _, object)| (key, age(object, now)))
            .collect();
        let mut deleted = Vec::new();
        let mut left = HashSet::new();
        for (key, is_mark, object) in contents {
            if *is_mark {
                continue;
            }
            left.insert(key);
            match marks.get(key) {
                _ if named.contains(key) => {}
                Some(age) if *age >= garbage_age => deleted.push(key.path(&self.root)),
                Some(_) => {}
                // Younger bytes most likely belong to a put that is under way.
                None if age(object, now) >= garbage_age => self.mark_garbage(key).await?,
                None => {}
            }
        }
        // A mark stays for some time after its bytes, for puts that listed both before.
        let old_marks = marks
            .iter()
            .filter(|(key, age)| !left.contains(**key) && **age >= 3 * garbage_age)
            .map(|(key, _)| key.garbage(&self.root));
        deleted.extend(old_marks);
        self.remove(&deleted).await
    }

    /// Deletes objects. Those that are gone count as deleted.
    pub(crate) async fn remove(&self, paths: &[Path]) -> Result<(), StoreError> {
        for group in paths.chunks(CONCURRENCY) {
            let mut deletes = Vec::new();
            for path in group {
                deletes.push(self.remove_one(path));
            }
            try_join_all(deletes).await?;
        }
        Ok(())
    }

    async fn remove_one(&self, path: &Path) -> Result<(), StoreError> {
        match self.bucket.delete(path).await {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(problem(Action::Delete, &error)),
        }
    }
}

/// Returns the time since an object was written.
fn age(object: &ObjectMeta, now: SystemTime) -> Duration {
    now.duration_since(object.last_modified.into()).unwrap_or_default()
}

/// Chooses versions by the rule of [`ArtifactStore`](marquetry_artifacts::ArtifactStore) until
/// `total` and the wanted bytes of the writer are at most `aim`, as far as possible.
fn choose(
    mut candidates: HashMap<String, Vec<Candidate>>,
    writer: &str,
    wanted: u64,
    total: &mut u64,
    aim: u64,
) -> Vec<Candidate> {
    let mut by_bytes = BTreeMap::new();
    let mut held = HashMap::new();
    for (owner, versions) in &mut candidates {
        // The last one is taken first.
        versions.sort_by_key(|candidate| Reverse(candidate.used));
        let bytes: u64 = versions.iter().map(|candidate| candidate.charge).sum();
        by_bytes.insert((bytes, owner.clone()), ());
        held.insert(owner.clone(), bytes);
    }
    let mut chosen = Vec::new();
    while total.saturating_add(wanted) > aim {
        let Some(((most, largest), ())) = by_bytes.last_key_value() else { break };
        let of_writer = held.get(writer).copied().unwrap_or_default();
        let owner = if *most > of_writer.saturating_add(wanted) || of_writer == 0 {
            largest.clone()
        } else {
            writer.to_owned()
        };
        let bytes = held.get(&owner).copied().unwrap_or_default();
        by_bytes.remove(&(bytes, owner.clone()));
        let Some(candidate) = candidates.get_mut(&owner).and_then(Vec::pop) else {
            held.insert(owner, 0);
            continue;
        };
        let left = bytes.saturating_sub(candidate.charge);
        *total = total.saturating_sub(candidate.charge);
        chosen.push(candidate);
        if left > 0 {
            by_bytes.insert((left, owner.clone()), ());
        }
        held.insert(owner, left);
    }
    chosen
}

/// Returns marks of evicted versions that tell nothing: of each name the highest one counts, and of
/// too many names the latest ones.
fn superfluous_marks(names: &HashMap<NameFolder, Entries>) -> Vec<ObjectMeta> {
    let mut highest = Vec::new();
    let mut superfluous = Vec::new();
    for entries in names.values() {
        let mut marks: Vec<_> = entries.expired.values().cloned().collect();
        highest.extend(marks.pop());
        superfluous.extend(marks);
    }
    highest.sort_by_key(|mark| Reverse(mark.last_modified));
    superfluous.extend(highest.into_iter().skip(MAX_EXPIRED_NAMES));
    superfluous
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use marquetry_artifacts::{ArtifactStore as _, NewArtifact, Scope, Version, store::Versions};
    use object_store::{
        ObjectStore,
        memory::InMemory,
        throttle::{ThrottleConfig, ThrottledStore},
    };

    use super::*;
    use crate::{BucketOptions, BucketStore};

    fn versions(owner: &str, charges: &[u64]) -> (String, Vec<Candidate>) {
        let name = ArtifactName::parse("a").unwrap();
        let scope = Scope::new("app", owner, "s").unwrap();
        let candidates = (0..).zip(charges).map(|(number, charge)| Candidate {
            used: SystemTime::UNIX_EPOCH + Duration::from_secs(number),
            folder: NameFolder::new(&scope, &name),
            number,
            charge: *charge,
        });
        (owner.to_owned(), candidates.collect())
    }

    #[track_caller]
    fn check(writer: &str, wanted: u64, aim: u64, want: &[u64]) {
        let held = [versions("a", &[10, 20, 30]), versions("b", &[1, 2, 3])];
        let mut total = 66;
        let chosen = choose(held.into_iter().collect(), writer, wanted, &mut total, aim);
        let charges: Vec<_> = chosen.iter().map(|candidate| candidate.charge).collect();
        assert_eq!(charges, want);
        assert_eq!(total, 66 - charges.iter().sum::<u64>());
    }

    #[test]
    fn the_owner_with_the_most_bytes_loses_the_least_recently_used() {
        check("b", 10, 76, &[]);
        check("b", 10, 75, &[10]);
        check("b", 10, 50, &[10, 20]);
        // With the new bytes, the writer has the most.
        check("b", 80, 139, &[1, 2, 3, 10]);
        check("new", 1000, 0, &[10, 20, 30, 1, 2, 3]);
    }

    fn store(bucket: impl ObjectStore, garbage_age: Duration) -> BucketStore {
        let options = BucketOptions { garbage_age, ..BucketOptions::default() };
        BucketStore::new(Arc::new(bucket), &"s3://bucket/a".parse().unwrap(), options)
    }

    fn artifact(name: &str, content: &'static str) -> NewArtifact {
        let name = ArtifactName::parse(name).unwrap();
        NewArtifact::new(name, "x/y", SystemTime::UNIX_EPOCH, content.into())
    }

    /// Returns the keys below `content`.
    async fn contents(store: &BucketStore) -> Vec<String> {
        let objects = store.shared().contents().await.unwrap();
        objects.iter().map(|(_, _, object)| object.location.to_string()).collect()
    }

    /// Counts the objects again, after garbage of 50 ms has become old enough.
    async fn count_later(store: &BucketStore) {
        tokio::time::sleep(Duration::from_millis(60)).await;
        store.shared().count(None).await.unwrap();
    }

    #[tokio::test]
    async fn unnamed_bytes_are_marked_then_deleted() {
        let store = store(InMemory::new(), Duration::from_millis(50));
        let scope = Scope::local();
        for name in ["a", "b"] {
            store.put(&scope, artifact(name, "same")).await.unwrap();
        }
        assert_eq!(contents(&store).await.len(), 1, "equal bytes are stored once");
        let name = ArtifactName::parse("a").unwrap();
        store.delete(&scope, &name, Versions::All).await.unwrap();
        count_later(&store).await;
        count_later(&store).await;
        assert_eq!(contents(&store).await.len(), 1, "b names the bytes");

        let name = ArtifactName::parse("b").unwrap();
        store.delete(&scope, &name, Versions::All).await.unwrap();
        count_later(&store).await;
        let marked = contents(&store).await;
        assert_eq!(marked.len(), 2, "{marked:?}");
        // A put does not rely on marked bytes.
        store.put(&scope, artifact("c", "same")).await.unwrap();
        count_later(&store).await;
        let left = contents(&store).await;
        assert_eq!(left.len(), 2, "the new bytes and the old mark: {left:?}");
        tokio::time::sleep(Duration::from_millis(150)).await;
        count_later(&store).await;
        assert_eq!(contents(&store).await.len(), 1, "the new bytes");
        let name = ArtifactName::parse("c").unwrap();
        store.get(&scope, &name, Version::Latest).await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn bytes_that_are_being_named_are_not_deleted() {
        let slow = ThrottleConfig {
            wait_list_per_call: Duration::from_millis(2),
            wait_put_per_call: Duration::from_millis(2),
            wait_delete_per_call: Duration::from_millis(5),
            ..ThrottleConfig::default()
        };
        let bucket = ThrottledStore::new(InMemory::new(), slow);
        let store = store(bucket, Duration::from_millis(240));
        let scope = Scope::local();
        let is_done = Arc::new(AtomicBool::default());
        let collector = {
            let store = store.clone();
            let is_done = is_done.clone();
            tokio::spawn(async move {
                let mut most = 0;
                while !is_done.load(Ordering::Relaxed) {
                    store.shared().count(None).await.unwrap();
                    most = most.max(contents(&store).await.len());
                }
                most
            })
        };
        let writers = ["a", "b", "c", "d"].map(|name| {
            let store = store.clone();
            let scope = scope.clone();
            tokio::spawn(async move {
                for round in 0..16 {
                    let put = store.put(&scope, artifact(name, name)).await.unwrap();
                    store.get(&scope, &put.name, Version::Latest).await.unwrap();
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    store.get(&scope, &put.name, Version::Latest).await.unwrap();
                    store.delete(&scope, &put.name, Versions::All).await.unwrap();
                    // The bytes are marked after 240 ms, and deleted after 480: the next put comes
                    // shortly before, during or after that.
                    let wait = 440 + round * 13 % 80;
                    tokio::time::sleep(Duration::from_millis(wait)).await;
                }
            })
        });
        for writer in writers {
            writer.await.unwrap();
        }
        is_done.store(true, Ordering::Relaxed);
        assert!(collector.await.unwrap() > 1, "some bytes were marked");
    }
}
