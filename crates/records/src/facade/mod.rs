//! The one place where it is decided who may do what with records.

mod access;
mod change;
mod find;
mod groups;
mod tags;

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use marquetry_context_blocks::Am7Uri;
use tokio::sync::broadcast;

use self::groups::Groups;

use crate::{
    Caller, Put, Record, RecordChange, RecordError, RecordEvent, RecordFilter, RecordLimits,
    RecordStore, caller::short, model::USER,
};

/// Records, and who may do what with them.
///
/// Who may read a record: its owner, its readers and writers, the members of groups named among those, whoever may
/// read the group in which it lies, and the administrators of its organisation. Who may change or remove it: its
/// owner, its writers, whoever may change the group in which it lies, and the administrators. Only its owner and the
/// administrators say who else may, which members a group has, and where it lies.
///
/// What a caller may not read is [`RecordError::NotFound`], as if it were not there; what the caller may read and not
/// change is [`RecordError::Forbidden`].
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
    events: broadcast::Sender<RecordEvent>,
    clock: Arc<dyn Fn() -> u64 + Send + Sync>,
}

/// A part of a list.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RecordPage {
    /// In the order of their URIs.
    pub records: Vec<Record>,
    /// [`RecordFilter::after`] of the next part; None if this is the last.
    pub next: Option<String>,
}

impl Records {
    /// Records in a store, with the limits that are the default.
    pub fn new(store: Arc<dyn RecordStore>) -> Self {
        Self::with_limits(store, RecordLimits::default())
    }

    /// Records in a store.
    pub fn with_limits(store: Arc<dyn RecordStore>, limits: RecordLimits) -> Self {
        let events = broadcast::Sender::new(limits.max_events.max(1));
        let clock = || {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        };
        Self { store, limits, events, clock: Arc::new(clock) }
    }

    /// The same with another clock, which gives milliseconds since 1970.
    #[must_use]
    pub fn with_clock(self, clock: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self { clock: Arc::new(clock), ..self }
    }

    /// How much is taken.
    pub fn limits(&self) -> &RecordLimits {
        &self.limits
    }

    /// Where they are kept, without any permissions.
    pub fn store(&self) -> &Arc<dyn RecordStore> {
        &self.store
    }

    /// What happens from now on; whoever reads too slowly misses the oldest. [`RecordEvent::is_for`] says for whom.
    pub fn subscribe(&self) -> broadcast::Receiver<RecordEvent> {
        self.events.subscribe()
    }

    /// A user of an organisation, by object id, with the groups that the user is in by now, also by way of other
    /// groups. To be made anew for each request, or whenever groups may have changed.
    pub async fn caller(
        &self,
        organization: &str,
        user_id: &str,
        is_admin: bool,
    ) -> Result<Caller, RecordError> {
        let mut caller = Caller { is_admin, ..Caller::new(organization, user_id)? };
        let mut members: Vec<_> = caller.names().into_iter().collect();
        let mut groups = Groups::new(self);
        for _ in 0..self.limits.max_group_nesting {
            if members.is_empty() {
                break;
            }
            let filter = RecordFilter {
                members: std::mem::take(&mut members),
                ..RecordFilter::new(organization)
            };
            for group in groups.read(filter).await? {
                members.extend(group.uri().filter(|uri| caller.groups.insert(uri.clone())));
            }
        }
        Ok(caller)
    }

    /// Makes a record for the caller's own user if there is none.
    pub async fn ensure_user(&self, caller: &Caller, name: &str) -> Result<Record, RecordError> {
        if let Some(user) = self.store.get(&caller.user).await? {
            return Ok(user);
        }
        let parsed = parse(&caller.user)?;
        let mut record = self.stamped(Record::new(USER, self.limits.name("the name", name)?));
        record.organization.clone_from(&caller.organization);
        record.object_id = parsed.id().unwrap_or_default().to_owned();
        record.owner = Some(caller.user.clone());
        match self.keep(vec![Put::new(record)], RecordChange::Created).await {
            Err(RecordError::Conflict(_)) => {
                let user = self.store.get(&caller.user).await?;
                user.ok_or_else(|| RecordError::NotFound(caller.user.clone()))
            }
            kept => kept,
        }
    }

    pub(super) fn tell(&self, change: RecordChange, record: &Record) {
        if let Some(event) = RecordEvent::new(change, record) {
            // Nobody may be listening.
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

/// The URI of a record that is kept.
pub(super) fn known(record: &Record) -> String {
    record.uri().unwrap_or_default()
}

pub(super) fn parse(uri: &str) -> Result<Am7Uri, RecordError> {
    Am7Uri::parse(uri).map_err(|source| RecordError::Uri { uri: short(uri), source })
}
