//! The bytes that the records of each owner may take.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::{Caller, ContentChange, Put, Record, RecordError, RecordFilter, Records};

/// Time after which an owner's records are measured again: another process may have stored some.
const MEASURE_AGAIN: Duration = Duration::from_mins(1);
/// Maximum owners whose bytes are remembered. The others are measured again.
const MAX_OWNERS: usize = 10_000;

/// The bytes of each owner's records: as measured, and what was stored since.
#[derive(Clone, Default)]
pub(super) struct OwnerBytes(Arc<Mutex<HashMap<String, Measured>>>);

struct Measured {
    bytes: u64,
    at: Instant,
}

impl OwnerBytes {
    /// Adds bytes to those of an owner. Returns false if they do not fit, or if the owner's records
    /// must be measured first.
    fn add(&self, owner: &str, bytes: u64, max: u64) -> bool {
        let mut owners = self.owners();
        let Some(known) = owners.get_mut(owner) else { return false };
        let sum = known.bytes.saturating_add(bytes);
        if known.at.elapsed() > MEASURE_AGAIN || sum > max {
            return false;
        }
        known.bytes = sum;
        true
    }

    fn set(&self, owner: &str, bytes: u64) {
        let mut owners = self.owners();
        if owners.len() >= MAX_OWNERS {
            owners.clear();
        }
        owners.insert(owner.to_owned(), Measured { bytes, at: Instant::now() });
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<String, Measured>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Records {
    /// Checks that a record of a caller without administration fits in the quota of its owner. The
    /// content that it replaces still counts: it is there until the change is made.
    pub(super) async fn check_quota(
        &self,
        caller: &Caller,
        old: Option<&Record>,
        put: &Put,
    ) -> Result<(), RecordError> {
        let Some(owner) = put.record.owner.as_deref().filter(|_| !caller.is_admin) else {
            return Ok(());
        };
        let bytes = added_bytes(old, put);
        let max = self.limits.max_owner_bytes;
        if bytes == 0 || self.owner_bytes.add(owner, bytes, max) {
            return Ok(());
        }
        let filter = RecordFilter {
            owners: vec![owner.to_owned()],
            ..RecordFilter::new(&put.record.organization)
        };
        let held = self.store.bytes(&filter).await?;
        self.owner_bytes.set(owner, held);
        if self.owner_bytes.add(owner, bytes, max) {
            return Ok(());
        }
        Err(RecordError::Limit {
            field: "the owner",
            limit: "max_owner_bytes",
            got: usize::try_from(held.saturating_add(bytes)).unwrap_or(usize::MAX),
            unit: "bytes of records",
            max: usize::try_from(max).unwrap_or(usize::MAX),
        })
    }
}

/// Returns the bytes by which a put makes its owner's records larger.
fn added_bytes(old: Option<&Record>, put: &Put) -> u64 {
    let old = old.filter(|old| old.owner == put.record.owner);
    let before = old.map_or(0, Record::stored_bytes);
    let content = match &put.content {
        ContentChange::Set(content) => content.len() as u64,
        ContentChange::Keep | ContentChange::Remove => 0,
    };
    put.record.stored_bytes().saturating_sub(before) + content
}
