//! A store of records in memory.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Bound,
    sync::{PoisonError, RwLock},
};

use async_trait::async_trait;

use crate::{
    ContentChange, Put, Record, RecordFilter, RecordStore, RecordStoreError, path,
    store::{check_count_limit, check_expected, check_put, check_unused},
};

/// A store of records in memory. Its content is lost when it is dropped.
#[derive(Debug)]
pub struct MemoryRecords {
    state: RwLock<RecordTables>,
    max_content_bytes: u64,
}

#[derive(Clone, Debug, Default)]
struct RecordTables {
    /// The records, by URI.
    records: BTreeMap<String, Entry>,
    /// URIs of the groups that have a path, by that path.
    groups: HashMap<String, String>,
    /// Number of records in each group path that has any.
    lying: HashMap<String, u64>,
}

#[derive(Clone, Debug)]
struct Entry {
    record: Record,
    content: Option<Vec<u8>>,
}

impl Default for MemoryRecords {
    fn default() -> Self {
        Self::with_max_content_bytes(Self::MAX_CONTENT_BYTES)
    }
}

impl MemoryRecords {
    /// Default of the largest content, in bytes.
    pub const MAX_CONTENT_BYTES: u64 = 64 << 20;

    /// Returns an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns an empty store whose contents may have at most this many bytes.
    pub fn with_max_content_bytes(max_content_bytes: u64) -> Self {
        Self { state: RwLock::default(), max_content_bytes }
    }

    fn read<T>(&self, work: impl FnOnce(&RecordTables) -> T) -> T {
        work(&self.state.read().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
impl RecordStore for MemoryRecords {
    async fn put_all(&self, puts: Vec<Put>) -> Result<Vec<Record>, RecordStoreError> {
        let uris = puts
            .iter()
            .map(|put| check_put(put, self.max_content_bytes))
            .collect::<Result<Vec<_>, _>>()?;
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        // The former records, to undo the puts if a later one is refused.
        let mut before = Vec::new();
        let mut kept = Vec::new();
        for (uri, put) in uris.into_iter().zip(puts) {
            match state.put(&uri, put) {
                Ok((old, new)) => {
                    before.push((uri, old));
                    kept.push(new);
                }
                Err(error) => {
                    for (uri, old) in before.into_iter().rev() {
                        state.set(&uri, old);
                    }
                    return Err(error);
                }
            }
        }
        Ok(kept)
    }

    async fn get(&self, uri: &str) -> Result<Option<Record>, RecordStoreError> {
        Ok(self.read(|state| state.records.get(uri).map(|kept| kept.record.clone())))
    }

    async fn content(&self, uri: &str) -> Result<Option<Vec<u8>>, RecordStoreError> {
        Ok(self.read(|state| state.records.get(uri)?.content.clone()))
    }

    async fn content_length(&self, uri: &str) -> Result<Option<u64>, RecordStoreError> {
        Ok(self.read(|state| Some(state.records.get(uri)?.content.as_ref()?.len() as u64)))
    }

    async fn delete_unless(
        &self,
        uri: &str,
        revision: Option<u64>,
        used_by: Option<&RecordFilter>,
    ) -> Result<Option<Record>, RecordStoreError> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let Some(kept) = state.records.get(uri) else { return Ok(None) };
        if let Some(revision) = revision {
            check_expected(uri, super::Expected::Revision(revision), Some(kept.record.revision))?;
        }
        state.check_empty(&kept.record)?;
        if let Some(used_by) = used_by {
            check_unused(&kept.record, used_by, state.count(used_by))?;
        }
        Ok(state.set(uri, None).map(|kept| kept.record))
    }

    async fn list(&self, filter: &RecordFilter) -> Result<Vec<Record>, RecordStoreError> {
        let after = filter.after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        Ok(self.read(|state| {
            let records = state.records.range::<str, _>((after, Bound::Unbounded));
            let matching = records.map(|(_, kept)| &kept.record).filter(|one| filter.matches(one));
            matching.take(filter.limit.unwrap_or(usize::MAX)).cloned().collect()
        }))
    }

    async fn count(&self, filter: &RecordFilter) -> Result<u64, RecordStoreError> {
        Ok(self.read(|state| state.count(filter)))
    }

    async fn bytes(&self, filter: &RecordFilter) -> Result<u64, RecordStoreError> {
        Ok(self.read(|state| {
            let matching = state.records.values().filter(|kept| filter.matches(&kept.record));
            matching.map(Entry::bytes).sum()
        }))
    }
}

impl Entry {
    fn bytes(&self) -> u64 {
        self.record.stored_bytes() + self.content.as_ref().map_or(0, |it| it.len() as u64)
    }
}

impl RecordTables {
    fn count(&self, filter: &RecordFilter) -> u64 {
        self.records.values().filter(|kept| filter.matches(&kept.record)).count() as u64
    }

    /// Applies a put, and returns the record before and after it.
    fn put(&mut self, uri: &str, put: Put) -> Result<(Option<Entry>, Record), RecordStoreError> {
        let Put { mut record, content, expected, required_uris, count_limit } = put;
        let old = self.records.get(uri);
        check_expected(uri, expected, old.map(|old| old.record.revision))?;
        let own_place = record.own_place();
        if let Some(old) = old.filter(|old| old.record.own_place() != own_place) {
            self.check_empty(&old.record)?;
        }
        if let (Some(place), Some(path)) = (&own_place, record.path())
            && self.groups.get(place).is_some_and(|taken| taken != uri)
        {
            return Err(RecordStoreError::PathTaken { path });
        }
        if let (Some(place), Some(group)) = (record.containing_place(), &record.group)
            && !path::is_root(group)
            && self.groups.get(&place).is_none_or(|group| group == uri)
        {
            return Err(RecordStoreError::NoGroup { path: group.clone() });
        }
        if let Some(missing) = required_uris.into_iter().find(|uri| !self.records.contains_key(uri))
        {
            return Err(RecordStoreError::Missing(missing));
        }
        if let Some(limit) = count_limit {
            let filter = &limit.filter;
            let before = old.map_or(0, |old| u64::from(filter.matches(&old.record)));
            let after = u64::from(filter.matches(&record));
            check_count_limit(&limit, self.count(filter) - before + after)?;
        }
        record.revision = old.map_or(0, |old| old.record.revision) + 1;
        if let Some(old) = old {
            record.created = old.record.created;
        }
        let content = match content {
            ContentChange::Keep => old.and_then(|old| old.content.clone()),
            ContentChange::Set(content) => Some(content),
            ContentChange::Remove => None,
        };
        let old = self.set(uri, Some(Entry { record: record.clone(), content }));
        Ok((old, record))
    }

    fn check_empty(&self, group: &Record) -> Result<(), RecordStoreError> {
        match (group.own_place(), group.path()) {
            (Some(place), Some(path)) if self.lying.contains_key(&place) => {
                Err(RecordStoreError::NotEmpty { path })
            }
            _ => Ok(()),
        }
    }

    /// Replaces the entry of a URI, and returns the former one.
    fn set(&mut self, uri: &str, new: Option<Entry>) -> Option<Entry> {
        let old = self.records.remove(uri);
        if let Some(Entry { record, .. }) = &old {
            if let Some(place) = record.own_place() {
                self.groups.remove(&place);
            }
            if let Some(place) = record.containing_place()
                && let Some(count) = self.lying.get_mut(&place)
            {
                *count -= 1;
                if *count == 0 {
                    self.lying.remove(&place);
                }
            }
        }
        if let Some(new) = new {
            if let Some(place) = new.record.own_place() {
                self.groups.insert(place, uri.to_owned());
            }
            if let Some(place) = new.record.containing_place() {
                *self.lying.entry(place).or_default() += 1;
            }
            self.records.insert(uri.to_owned(), new);
        }
        old
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn it_conforms() {
        crate::conformance::check(async || MemoryRecords::new()).await;
    }
}
