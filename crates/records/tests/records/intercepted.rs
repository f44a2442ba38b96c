//! A store that passes calls on to another one, counts what lists return, and runs a hook before
//! puts.

use std::{
    pin::Pin,
    sync::atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use marquetry_records::{MemoryRecords, Put, Record, RecordFilter, RecordStore, RecordStoreError};

type Hook = for<'s> fn(&'s MemoryRecords) -> Pin<Box<dyn Future<Output = ()> + Send + 's>>;

/// A store in memory whose calls are intercepted.
#[derive(Default)]
pub(crate) struct Intercepted {
    pub(crate) records: MemoryRecords,
    /// Runs before each put, once it is set.
    pub(crate) before_put: std::sync::OnceLock<Hook>,
    listed: AtomicUsize,
}

impl Intercepted {
    /// Returns the number of records that lists returned since the last call.
    pub(crate) fn take_listed(&self) -> usize {
        self.listed.swap(0, Ordering::Relaxed)
    }
}

#[async_trait]
impl RecordStore for Intercepted {
    async fn put_all(&self, puts: Vec<Put>) -> Result<Vec<Record>, RecordStoreError> {
        if let Some(hook) = self.before_put.get() {
            hook(&self.records).await;
        }
        self.records.put_all(puts).await
    }

    async fn get(&self, uri: &str) -> Result<Option<Record>, RecordStoreError> {
        self.records.get(uri).await
    }

    async fn content(&self, uri: &str) -> Result<Option<Vec<u8>>, RecordStoreError> {
        self.records.content(uri).await
    }

    async fn content_length(&self, uri: &str) -> Result<Option<u64>, RecordStoreError> {
        self.records.content_length(uri).await
    }

    async fn delete_unless(
        &self,
        uri: &str,
        revision: Option<u64>,
        used_by: Option<&RecordFilter>,
    ) -> Result<Option<Record>, RecordStoreError> {
        self.records.delete_unless(uri, revision, used_by).await
    }

    async fn list(&self, filter: &RecordFilter) -> Result<Vec<Record>, RecordStoreError> {
        let list = self.records.list(filter).await?;
        self.listed.fetch_add(list.len(), Ordering::Relaxed);
        Ok(list)
    }

    async fn count(&self, filter: &RecordFilter) -> Result<u64, RecordStoreError> {
        self.records.count(filter).await
    }

    async fn bytes(&self, filter: &RecordFilter) -> Result<u64, RecordStoreError> {
        self.records.bytes(filter).await
    }
}
