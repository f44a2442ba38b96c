//! Decides all permissions on records.

mod access;
mod change;
mod find;
mod groups;
mod quota;
mod tags;

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use marquetry_context_blocks::Am7Uri;
use tokio::sync::broadcast;

use self::{groups::Groups, quota::OwnerBytes};

use crate::{
    Caller, Put, Record, RecordChange, RecordError, RecordEvent, RecordFilter, RecordLimits,
    RecordStore, caller::short, model::USER,
};

/// Records with their permissions.
///
/// A record may be read by its owner, its readers and writers, the members of groups among those,
/// the readers of the group that holds it, and the administrators of its organisation. It may be
/// changed by its owner, its writers, the writers of the group that holds it, and the
/// administrators. It may be removed by its owner, the owners of the groups above it, and the
/// administrators. Only its owner and the administrators set its readers and writers, the members
/// of a group, and its place.
///
/// For a record that the caller may not read, the error is [`RecordError::NotFound`], as if it did
/// not exist; for one that the caller may read and not change, [`RecordError::Forbidden`].
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use std::sync::Arc;
///
/// use marquetry_records::{Caller, MemoryRecords, NewRecord, Records};
///
/// let records = Records::new(Arc::new(MemoryRecords::new()));
/// let alice = Caller::new("default", "alice")?;
/// let note = NewRecord::new("data.note", "Flour").group("~/Notes").attribute("text", "Type 550.");
/// let uri = records.create(&alice, note).await?.uri().unwrap();
///
/// assert_eq!(records.get(&alice, &uri).await?.text(), Some("Type 550."));
/// assert!(records.get(&Caller::new("default", "bob")?, &uri).await.is_err());
/// # Ok::<(), marquetry_records::RecordError>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Records {
    store: Arc<dyn RecordStore>,
    limits: RecordLimits,
    owner_bytes: OwnerBytes,
    events: broadcast::Sender<RecordEvent>,
    clock: Arc<dyn Fn() -> u64 + Send + Sync>,
}

/// A page of a list.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RecordPage {
    /// The records, in the order of their URIs.
    pub records: Vec<Record>,
    /// [`RecordFilter::after`] of the next page; None if this is the last.
    pub next: Option<String>,
}

/// Returns the time of the system's clock, in milliseconds since 1970 (UTC).
fn system_time() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl Records {
    /// Returns the records of a store, with the default limits.
    pub fn new(store: Arc<dyn RecordStore>) -> Self {
        Self::with_limits(store, RecordLimits::default())
    }

    /// Returns the records of a store, with limits.
    pub fn with_limits(store: Arc<dyn RecordStore>, limits: RecordLimits) -> Self {
        let events = broadcast::Sender::new(limits.max_events.max(1));
        let owner_bytes = OwnerBytes::default();
        Self { store, limits, owner_bytes, events, clock: Arc::new(system_time) }
    }

    /// Returns the records with another clock, which returns milliseconds since 1970 (UTC).
    #[must_use]
    pub fn with_clock(self, clock: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self { clock: Arc::new(clock), ..self }
    }

    /// Returns the time of the clock, in milliseconds since 1970 (UTC).
    pub fn now(&self) -> u64 {
        (self.clock)()
    }

    /// Returns the limits.
    pub fn limits(&self) -> &RecordLimits {
        &self.limits
    }

    /// Returns the store, which checks no permissions.
    pub fn store(&self) -> &Arc<dyn RecordStore> {
        &self.store
    }

    /// Returns a receiver of future changes. A slow receiver loses the oldest events
    /// ([`RecordLimits::max_events`]). [`RecordEvent::is_for`] returns who may be notified of a
    /// change.
    pub fn subscribe(&self) -> broadcast::Receiver<RecordEvent> {
        self.events.subscribe()
    }

    /// Looks up a user of an organisation, by object id, with the groups that the user is a member
    /// of at present, directly or through other groups. Look the caller up again for each request:
    /// groups may have changed.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn caller(
        &self,
        organization: &str,
        user_id: &str,
        is_admin: bool,
    ) -> Result<Caller, RecordError> {
        let caller = Caller { is_admin, ..Caller::new(organization, user_id)? };
        self.with_nested_groups(caller).await
    }

    /// Returns a user as [`Self::caller`] does, not an administrator, who is in these groups as
    /// well: those that a token names, for example.
    ///
    /// # Errors
    ///
    /// Returns an error if an argument is invalid, or if the store fails.
    pub async fn caller_in_groups(
        &self,
        organization: &str,
        user_id: &str,
        groups: &BTreeSet<String>,
    ) -> Result<Caller, RecordError> {
        let caller = Caller::new(organization, user_id)?;
        self.with_nested_groups(Caller { groups: groups.clone(), ..caller }).await
    }

    /// Adds the groups that a caller is a member of, by itself or by its groups.
    async fn with_nested_groups(&self, mut caller: Caller) -> Result<Caller, RecordError> {
        let organization = caller.organization.clone();
        let mut members: Vec<_> = caller.names().into_iter().collect();
        let mut groups = Groups::new(self);
        for _ in 0..self.limits.max_group_nesting {
            if members.is_empty() {
                break;
            }
            let filter = RecordFilter {
                members: std::mem::take(&mut members),
                ..RecordFilter::new(&organization)
            };
            for group in groups.read(filter).await? {
                members.extend(group.uri().filter(|uri| caller.groups.insert(uri.clone())));
            }
        }
        Ok(caller)
    }

    /// Creates the record of the caller's own user if it is missing.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn ensure_user(&self, caller: &Caller, name: &str) -> Result<Record, RecordError> {
        if let Some(user) = self.store.get(&caller.user).await? {
            return Ok(user);
        }
        let parsed = parse(&caller.user)?;
        let mut record = self.stamped(Record::new(USER, self.limits.name("the name", name)?));
        record.organization.clone_from(&caller.organization);
        record.object_id = parsed.id().unwrap_or_default().to_owned();
        record.owner = Some(caller.user.clone());
        match self.store_with_groups(vec![Put::new(record)], RecordChange::Created).await {
            Err(RecordError::Conflict(_)) => {
                let user = self.store.get(&caller.user).await?;
                user.ok_or_else(|| RecordError::NotFound(caller.user.clone()))
            }
            outcome => outcome,
        }
    }

    pub(super) fn announce(&self, change: RecordChange, record: &Record) {
        if let Some(event) = RecordEvent::new(change, record) {
            // An error means that there is no subscriber.
            let _ = self.events.send(event);
        }
    }

    pub(super) fn stamped(&self, record: Record) -> Record {
        let now = (self.clock)();
        Record { created: now, modified: now, ..record }
    }
}

impl std::fmt::Debug for Records {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Records").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// Returns the URI of a stored record.
pub(super) fn stored_uri(record: &Record) -> String {
    record.uri().unwrap_or_default()
}

pub(super) fn parse(uri: &str) -> Result<Am7Uri, RecordError> {
    Am7Uri::parse(uri).map_err(|source| RecordError::Uri { uri: short(uri), source })
}
