//! The state that the modules of a store share.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use marquetry_artifacts::Record;
use object_store::{ObjectStore, path::Path};
use serde::{Deserialize, Serialize};

use crate::keys::ContentKey;

/// Records that are read at the same time.
pub(crate) const CONCURRENCY: usize = 16;
/// Cost of a version beside its bytes and its record. It bounds the number of versions.
const VERSION_BYTES: u64 = 8 * 1024;
/// Time from the mark to the deletion.
const GARBAGE_AGE: Duration = Duration::from_hours(1);

/// Options of a [`BucketStore`](crate::BucketStore).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BucketOptions {
    /// Largest artifact that is accepted, in bytes. Default 1 GiB.
    pub max_artifact_bytes: u64,
    /// Bytes of all artifacts of all scopes. Each version counts with its bytes, its record and 8
    /// KiB. Default 10 GiB. Several servers may exceed it by a sixteenth each, and unnamed bytes
    /// stay for about two hours.
    pub max_total_bytes: u64,
    /// Time for which unnamed bytes are marked before they are deleted.
    pub(crate) garbage_age: Duration,
}

impl BucketOptions {
    /// Sets [`max_artifact_bytes`](Self::max_artifact_bytes).
    #[must_use]
    pub fn with_max_artifact_bytes(self, max_artifact_bytes: u64) -> Self {
        Self { max_artifact_bytes, ..self }
    }

    /// Sets [`max_total_bytes`](Self::max_total_bytes).
    #[must_use]
    pub fn with_max_total_bytes(self, max_total_bytes: u64) -> Self {
        Self { max_total_bytes, ..self }
    }
}

impl Default for BucketOptions {
    fn default() -> Self {
        Self { max_artifact_bytes: 1 << 30, max_total_bytes: 10 << 30, garbage_age: GARBAGE_AGE }
    }
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) bucket: Arc<dyn ObjectStore>,
    pub(crate) root: Path,
    pub(crate) options: BucketOptions,
    /// Locked while room is made.
    pub(crate) quota: tokio::sync::Mutex<Quota>,
    /// Bytes that finished puts are charged, as of the last count.
    pub(crate) charged: AtomicU64,
    /// Bytes of puts that are under way.
    pub(crate) pending: AtomicU64,
    pub(crate) evicted: AtomicU64,
    pub(crate) is_counting: AtomicBool,
    /// Records that were read, by their keys.
    pub(crate) summaries: Mutex<HashMap<Path, RecordSummary>>,
    /// Uses of versions by this process.
    pub(crate) uses: Mutex<HashMap<Path, LastUse>>,
}

/// The last use of a version by this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastUse {
    pub(crate) at: SystemTime,
    /// When the bucket was last marked.
    pub(crate) marked: Instant,
}

/// The object of a version.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StoredRecord {
    /// Random text of the put, by which it knows its own record.
    pub(crate) put: String,
    /// Generation of the bytes.
    pub(crate) generation: String,
    /// Hashes of the pieces; empty for bytes of one piece.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) pieces: Vec<String>,
    /// The record. The key has the version; that in here is 0.
    pub(crate) record: Record,
}

impl StoredRecord {
    pub(crate) fn content(&self, owner: &str) -> ContentKey {
        let generation = self.generation.clone();
        ContentKey { owner: owner.to_owned(), hash: self.record.hash, generation }
    }

    /// Returns what the version is charged, where its object has this size.
    pub(crate) fn charge(&self, object: u64) -> u64 {
        self.record.size_bytes.saturating_add(object).saturating_add(VERSION_BYTES)
    }
}

/// Bytes of a put that is under way.
pub(crate) struct Reservation {
    shared: Arc<Shared>,
    bytes: u64,
    is_kept: bool,
}

impl Reservation {
    pub(crate) fn new(shared: &Arc<Shared>, bytes: u64) -> Self {
        shared.pending.fetch_add(bytes, Ordering::Relaxed);
        Self { shared: Arc::clone(shared), bytes, is_kept: false }
    }

    pub(crate) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.is_kept {
            self.shared.charged.fetch_add(self.bytes, Ordering::Relaxed);
        }
        self.shared.pending.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// State of the quota.
#[derive(Debug, Default)]
pub(crate) struct Quota {
    pub(crate) counted: Option<Instant>,
    /// Bytes that were reserved since the count. Other servers may have written as many.
    pub(crate) written: u64,
}

/// A record in short.
#[derive(Clone, Debug)]
pub(crate) struct RecordSummary {
    /// When the object was written: another one may have the same key.
    pub(crate) modified: Tag,
    pub(crate) content: ContentKey,
    pub(crate) charge: u64,
}

/// Identifies an object among those that had the same key.
pub(crate) type Tag = (String, Option<String>);
