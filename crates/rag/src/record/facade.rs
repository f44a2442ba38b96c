//! The one place where it is decided who may do what with records.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use marquetry_context_blocks::Am7Uri;
use tokio::sync::broadcast;

use super::{
    Caller, ContentChange, ModelType, NewRecord, Put, Record, RecordChange, RecordError,
    RecordEvent, RecordFilter, RecordLimits, RecordPatch, RecordStore, RecordStoreError,
    administrators,
    caller::{ADMINISTRATORS, EVERYONE, short, uri as uri_of},
    check,
    model::{GROUP, TAG, USER},
    path::{self, GroupPath, Root},
    store::record_readers,
};
use crate::{Document, StoreError};

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
/// use marquetry_rag::{Caller, MemoryRecords, NewRecord, Records};
///
/// let records = Records::new(Arc::new(MemoryRecords::new()));
/// let alice = Caller::new("default", "alice")?;
/// let note = NewRecord::new("data.note", "Flour").group("~/Notes").attribute("text", "Type 550.");
/// let uri = records.create(&alice, note).await?.uri().unwrap();
///
/// assert_eq!(records.get(&alice, &uri).await?.text(), Some("Type 550."));
/// assert!(records.get(&Caller::new("default", "bob")?, &uri).await.is_err());
/// # Ok::<(), marquetry_rag::RecordError>(())
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

/// How often something is tried again that another has changed in between.
const ATTEMPTS: usize = 16;

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
        let mut members = vec![caller.user.clone()];
        while !members.is_empty() && caller.groups.len() < self.limits.max_groups {
            let filter = RecordFilter {
                types: vec![GROUP.to_owned()],
                members: std::mem::take(&mut members),
                ..RecordFilter::new(organization)
            };
            let groups = self.some(filter, self.limits.max_groups - caller.groups.len()).await?;
            members = groups
                .iter()
                .filter_map(Record::uri)
                .filter(|uri| caller.groups.insert(uri.clone()))
                .collect();
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

    /// Makes a record, and the groups of its path that are not there.
    pub async fn create(&self, caller: &Caller, new: NewRecord) -> Result<Record, RecordError> {
        let model = ModelType::of(&new.kind)?;
        let mut record = self.stamped(Record::new(model.name, ""));
        record.organization.clone_from(&caller.organization);
        record.name = self.name_of(model.name, &new.name)?;
        let is_principal = matches!(model.name, USER | GROUP);
        if model.name == USER && !caller.is_admin {
            return Err(RecordError::Forbidden { action: "create", target: USER.to_owned() });
        }
        record.object_id = match new.object_id {
            Some(_) if is_principal && !caller.is_admin => {
                let target = format!("the object id of a {}", model.title.to_lowercase());
                return Err(RecordError::Forbidden { action: "choose", target });
            }
            Some(id) if model.name == GROUP && matches!(id.as_str(), EVERYONE | ADMINISTRATORS) => {
                return Err(RecordError::invalid("the object id", format!("{id} is reserved")));
            }
            Some(id) => id,
            None => uuid()?,
        };
        let uri = uri_of(&record.organization, &record.kind, &record.object_id)?;
        if record.uri().as_ref() != Some(&uri) {
            return Err(RecordError::invalid(
                "the object id",
                format!("makes no URI: {:?}", short(&record.object_id)),
            ));
        }
        record.attributes = new.attributes;
        record.attributes.retain(|_, value| !value.is_null());
        self.check_attributes(model, &mut record)?;
        record.readers =
            self.limits.readers("the list of readers", &caller.organization, &new.readers)?;
        record.writers =
            self.limits.readers("the list of writers", &caller.organization, &new.writers)?;
        if let Some(media_type) = &new.media_type {
            check::media_type(media_type)?;
        }
        record.media_type = new.media_type;
        if let Some(content) = &new.content {
            self.limits.content(content)?;
        }
        record.tags = self.resolve_tags(caller, &new.tags).await?;
        let owner = match &new.owner {
            Some(owner) => {
                Some(check::principal("the owner", &caller.organization, owner, &[USER])?)
            }
            None => None,
        };
        if owner.as_ref().is_some_and(|owner| *owner != caller.user) && !caller.is_admin {
            return Err(RecordError::Forbidden {
                action: "create records for",
                target: owner.unwrap_or_default(),
            });
        }
        let path = new.group.as_ref().map(|group| self.limits.path(group)).transpose()?;
        let content = new.content.map_or(ContentChange::Keep, ContentChange::Set);
        for attempt in 0.. {
            let mut record = record.clone();
            // A user is their own.
            let own = if record.kind == USER { &uri } else { &caller.user };
            record.owner = Some(owner.as_ref().unwrap_or(own).clone());
            let mut puts = Vec::new();
            if let Some(path) = &path {
                let home = self.home(caller, path)?;
                if let (Some(home), Some(owner)) = (&home, &owner)
                    && home != owner
                {
                    return Err(RecordError::invalid(
                        "the owner",
                        "is not the one in whose home it is to lie",
                    ));
                }
                let given = owner.is_some() && home.is_none();
                record.owner = home.clone().or(record.owner);
                // Groups that are made on the way to what an administrator makes for somebody are that one's.
                let owner = if given { record.owner.clone() } else { home };
                puts = self.groups_on_the_way(caller, path, owner.as_deref()).await?;
                record.group = Some(path.stored(path.segments.len()));
            }
            let own = record.path();
            puts.push(Put { content: content.clone(), ..Put::new(record) });
            match self.keep(puts, RecordChange::Created).await {
                // Another made or removed one of the groups in between.
                Err(error)
                    if attempt < ATTEMPTS && is_about_groups(&error, &uri, own.as_deref()) => {}
                kept => return kept,
            }
        }
        unreachable!("the loop ends by returning")
    }

    /// The record with this URI, that of its bytes included.
    pub async fn get(&self, caller: &Caller, uri: &str) -> Result<Record, RecordError> {
        let parsed = parse(uri)?;
        let not_found = || RecordError::NotFound(short(uri));
        let (Some(kind), Some(id)) = (parsed.object_type(), parsed.id()) else {
            return Err(not_found());
        };
        if parsed.organization() != caller.organization {
            return Err(not_found());
        }
        let uri = uri_of(&caller.organization, kind, id).map_err(|_| not_found())?;
        let record = self.store.get(&uri).await?.ok_or_else(not_found)?;
        if self.may_read(caller, &record).await? { Ok(record) } else { Err(not_found()) }
    }

    /// The bytes of a record; None if it has none.
    pub async fn content(
        &self,
        caller: &Caller,
        uri: &str,
    ) -> Result<Option<Vec<u8>>, RecordError> {
        let uri = known(&self.get(caller, uri).await?);
        Ok(self.store.content(&uri).await?)
    }

    /// Changes a record.
    pub async fn update(
        &self,
        caller: &Caller,
        uri: &str,
        patch: RecordPatch,
    ) -> Result<Record, RecordError> {
        for attempt in 0.. {
            let old = self.get(caller, uri).await?;
            if !self.may_write(caller, &old).await? {
                return Err(RecordError::Forbidden { action: "change", target: known(&old) });
            }
            if let Some(expected) = patch.revision.filter(|expected| *expected != old.revision) {
                return Err(RecordError::Conflict(RecordStoreError::Conflict {
                    uri: known(&old),
                    expected: Some(expected),
                    found: Some(old.revision),
                }));
            }
            let puts = self.patched(caller, &old, &patch).await?;
            let own = puts.last().and_then(|put| put.record.path());
            let changed = |error: &RecordError| {
                let conflict = RecordStoreError::is_conflict;
                patch.revision.is_none()
                    && matches!(error, RecordError::Conflict(error) if conflict(error))
            };
            match self.keep(puts, RecordChange::Updated).await {
                Err(error)
                    if attempt < ATTEMPTS
                        && (changed(&error) || is_about_groups(&error, "", own.as_deref())) => {}
                kept => return kept,
            }
        }
        unreachable!("the loop ends by returning")
    }

    /// Removes a record, of this revision if one is given, and gives it back.
    ///
    /// # Errors
    ///
    /// [`RecordError::NotEmpty`] for a group in which something lies, [`RecordError::InUse`] for a user who owns
    /// records and for a tag that records have.
    pub async fn delete(
        &self,
        caller: &Caller,
        uri: &str,
        revision: Option<u64>,
    ) -> Result<Record, RecordError> {
        let record = self.get(caller, uri).await?;
        let uri = known(&record);
        if !self.may_write(caller, &record).await? {
            return Err(RecordError::Forbidden { action: "remove", target: uri });
        }
        let mut users = RecordFilter::new(&record.organization);
        let (mut own, by) = match record.kind.as_str() {
            USER => {
                users.owners = vec![uri.clone()];
                (u64::from(record.owner.as_ref() == Some(&uri)), "records are theirs")
            }
            TAG => {
                users.tags = vec![uri.clone()];
                (u64::from(record.tags.contains(&uri)), "records have it")
            }
            _ => (0, ""),
        };
        if !by.is_empty() {
            let count = self.store.count(&users).await?;
            own = own.min(count);
            if count > own {
                return Err(RecordError::InUse { target: uri, count: count - own, by });
            }
        }
        let removed = self.store.delete(&uri, revision).await?;
        let removed = removed.ok_or_else(|| RecordError::NotFound(uri.clone()))?;
        self.tell(RecordChange::Deleted, &removed);
        Ok(removed)
    }

    /// The records that pass the filter and that the caller may read. The filter's organisation and readers do not
    /// count; its group may begin with another's home (`~alice/Notes`), its tags may be names.
    pub async fn list(
        &self,
        caller: &Caller,
        filter: &RecordFilter,
    ) -> Result<RecordPage, RecordError> {
        let Some(mut filter) = self.filter_for(caller, filter).await? else {
            return Ok(RecordPage::default());
        };
        let limit = filter.limit.unwrap_or(self.limits.max_page).min(self.limits.max_page);
        filter.limit = Some(limit + 1);
        let mut records = self.store.list(&filter).await?;
        let more = records.len() > limit;
        records.truncate(limit);
        let next = records.last().filter(|_| more).and_then(Record::uri);
        Ok(RecordPage { records, next })
    }

    /// How many there are of what [`Self::list`] lists.
    pub async fn count(&self, caller: &Caller, filter: &RecordFilter) -> Result<u64, RecordError> {
        match self.filter_for(caller, filter).await? {
            Some(filter) => Ok(self.store.count(&filter).await?),
            None => Ok(0),
        }
    }

    /// The records of this name in the group of this path: `~/Notes/Summaries`, `Flour - Summary`.
    pub async fn find(
        &self,
        caller: &Caller,
        path: &str,
        name: &str,
    ) -> Result<Vec<Record>, RecordError> {
        let filter = RecordFilter {
            group: Some(path.to_owned()),
            name: Some(name.to_owned()),
            ..RecordFilter::default()
        };
        Ok(self.list(caller, &filter).await?.records)
    }

    /// A tag by URI or name, of those that the caller may read; of several with the name, the first.
    pub async fn tag(&self, caller: &Caller, tag: &str) -> Result<Record, RecordError> {
        let unknown = || RecordError::UnknownTag(short(tag));
        if tag.starts_with("am7://") {
            return match self.get(caller, tag).await {
                Ok(record) if record.kind == TAG => Ok(record),
                Ok(_) | Err(RecordError::NotFound(_)) => Err(unknown()),
                Err(error) => Err(error),
            };
        }
        let filter = RecordFilter {
            types: vec![TAG.to_owned()],
            name: Some(tag.to_owned()),
            limit: Some(1),
            ..RecordFilter::default()
        };
        self.list(caller, &filter).await?.records.pop().ok_or_else(unknown)
    }

    /// A tag by URI or name, which everybody of the organisation may read if it has to be made.
    pub async fn ensure_tag(&self, caller: &Caller, tag: &str) -> Result<Record, RecordError> {
        match self.tag(caller, tag).await {
            Err(RecordError::UnknownTag(_)) if !tag.starts_with("am7://") => {
                let new = NewRecord::new(TAG, tag).reader(super::everyone(&caller.organization));
                self.create(caller, new).await
            }
            found => found,
        }
    }

    /// The URIs of tags that are given by URI or name.
    pub async fn resolve_tags(
        &self,
        caller: &Caller,
        tags: &BTreeSet<String>,
    ) -> Result<BTreeSet<String>, RecordError> {
        self.limits.tags(tags.len())?;
        let mut uris = BTreeSet::new();
        for tag in tags {
            uris.insert(known(&self.tag(caller, tag).await?));
        }
        Ok(uris)
    }

    /// All that a record's readers may name so that this caller reads it: what `Filter::readers` of a search is to be.
    /// Beside the caller's own names these are the groups in which others let the caller read.
    pub async fn principals(&self, caller: &Caller) -> Result<BTreeSet<String>, RecordError> {
        let mut principals = caller.names();
        if caller.is_admin {
            return Ok(principals);
        }
        let mut fresh = principals.clone();
        let mut room = self.limits.max_groups;
        while !fresh.is_empty() && room > 0 {
            let filter = RecordFilter {
                types: vec![GROUP.to_owned()],
                readers: Some(std::mem::take(&mut fresh)),
                // What lies in one's own home is one's own.
                not_in_home_of: Some(caller.user.clone()),
                ..RecordFilter::new(&caller.organization)
            };
            for group in self.some(filter, room).await? {
                let place = group.is_place().filter(|place| principals.insert(place.clone()));
                fresh.extend(place);
                room -= 1;
            }
        }
        Ok(principals)
    }

    /// Whether this caller may read a record.
    pub async fn may_read(&self, caller: &Caller, record: &Record) -> Result<bool, RecordError> {
        self.may(caller, record, |record, names| {
            names_any(&record.readers, names) || names_any(&record.writers, names)
        })
        .await
    }

    /// Whether this caller may change a record.
    pub async fn may_write(&self, caller: &Caller, record: &Record) -> Result<bool, RecordError> {
        self.may(caller, record, |record, names| names_any(&record.writers, names)).await
    }

    /// The record as a document whose chunks can be searched: with its readers, so that a search finds it only for them.
    pub fn document(&self, record: &Record) -> Document {
        let mut document = Document::of_record(known(record), &record.kind, &record.object_id);
        document.owner.clone_from(&record.owner);
        document.tags.clone_from(&record.tags);
        document.title = Some(record.name.clone());
        document.media_type.clone_from(&record.media_type);
        document.readers = record_readers(record);
        document.readers.insert(administrators(&record.organization));
        document.metadata.insert("organization".to_owned(), record.organization.clone().into());
        if let Some(group) = &record.group {
            document.metadata.insert("group".to_owned(), group.clone().into());
        }
        document
    }

    async fn may(
        &self,
        caller: &Caller,
        record: &Record,
        names_one: impl Fn(&Record, &BTreeSet<String>) -> bool,
    ) -> Result<bool, RecordError> {
        if record.organization != caller.organization {
            return Ok(false);
        }
        if caller.is_admin {
            return Ok(true);
        }
        let names = caller.names();
        let may = |record: &Record| {
            record.owner.as_ref() == Some(&caller.user) || names_one(record, &names)
        };
        if may(record) {
            return Ok(true);
        }
        let mut next = record.group.clone();
        while let Some(path) = next {
            let Some(group) =
                self.group(&record.organization, record.owner.as_deref(), &path).await?
            else {
                break;
            };
            if may(&group) {
                return Ok(true);
            }
            next = group.group;
        }
        Ok(false)
    }

    /// The group with this stored path.
    async fn group(
        &self,
        organization: &str,
        owner: Option<&str>,
        path: &str,
    ) -> Result<Option<Record>, RecordError> {
        let Some((parent, name)) = path::parent(path) else { return Ok(None) };
        let mut filter = RecordFilter::new(organization);
        filter.types = vec![GROUP.to_owned()];
        filter.group = Some(parent.to_owned());
        filter.name = Some(name.to_owned());
        filter.limit = Some(1);
        if path.starts_with('~') {
            filter.owners = owner.map(str::to_owned).into_iter().collect();
        }
        Ok(self.store.list(&filter).await?.pop())
    }

    /// In whose home a path is.
    fn home(&self, caller: &Caller, path: &GroupPath) -> Result<Option<String>, RecordError> {
        Ok(match &path.root {
            Root::Shared => None,
            Root::Own => Some(caller.user.clone()),
            Root::Home(id) => Some(uri_of(&caller.organization, USER, id)?),
        })
    }

    /// The groups of a path that are to be made, if the caller may make something there.
    async fn groups_on_the_way(
        &self,
        caller: &Caller,
        path: &GroupPath,
        owner: Option<&str>,
    ) -> Result<Vec<Put>, RecordError> {
        let home = self.home(caller, path)?;
        let count = path.segments.len();
        let forbidden =
            || RecordError::Forbidden { action: "put anything into", target: path.stored(count) };
        let mut there = count;
        let deepest = loop {
            if there == 0 {
                break None;
            }
            let group =
                self.group(&caller.organization, home.as_deref(), &path.stored(there)).await?;
            if group.is_some() {
                break group;
            }
            there -= 1;
        };
        let may = match &deepest {
            Some(group) => self.may_write(caller, group).await?,
            None => caller.is_admin || home.as_ref().is_none_or(|home| *home == caller.user),
        };
        if !may {
            return Err(forbidden());
        }
        (there..count)
            .map(|depth| {
                let mut group = self.stamped(Record::new(GROUP, &path.segments[depth]));
                group.organization.clone_from(&caller.organization);
                group.object_id = uuid()?;
                group.group = Some(path.stored(depth));
                group.owner = Some(owner.unwrap_or(&caller.user).to_owned());
                Ok(Put::new(group))
            })
            .collect()
    }

    /// What is to be kept so that a record becomes what a patch says.
    async fn patched(
        &self,
        caller: &Caller,
        old: &Record,
        patch: &RecordPatch,
    ) -> Result<Vec<Put>, RecordError> {
        let RecordPatch {
            name,
            group,
            owner,
            tags,
            readers,
            writers,
            media_type,
            attributes,
            content,
            ..
        } = patch;
        let mut record = old.clone();
        let is_owner = caller.is_admin || old.owner.as_ref() == Some(&caller.user);
        let members = old.kind == GROUP && attributes.contains_key("members");
        let place = old.is_place().is_some() && name.as_ref().is_some_and(|name| *name != old.name);
        if !is_owner
            && (group.is_some() || readers.is_some() || writers.is_some() || members || place)
        {
            return Err(RecordError::Forbidden {
                action: "say who may read, change or find",
                target: known(old),
            });
        }
        let model = ModelType::of(&old.kind)?;
        if let Some(name) = name {
            record.name = self.name_of(model.name, name)?;
        }
        if let Some(owner) = owner {
            let owner = check::principal("the owner", &old.organization, owner, &[USER])?;
            if Some(&owner) != old.owner.as_ref() && !caller.is_admin {
                return Err(RecordError::Forbidden { action: "give away", target: known(old) });
            }
            record.owner = Some(owner);
        }
        if let Some(readers) = readers {
            record.readers =
                self.limits.readers("the list of readers", &old.organization, readers)?;
        }
        if let Some(writers) = writers {
            record.writers =
                self.limits.readers("the list of writers", &old.organization, writers)?;
        }
        if let Some(tags) = tags {
            record.tags = self.resolve_tags(caller, tags).await?;
        }
        if let Some(media_type) = media_type {
            media_type.as_ref().map_or(Ok(()), |media_type| check::media_type(media_type))?;
            record.media_type.clone_from(media_type);
        }
        if !attributes.is_empty() {
            // What is too large is refused before it is copied.
            self.limits.attributes(attributes)?;
            for (name, value) in attributes {
                if value.is_null() {
                    record.attributes.shift_remove(name);
                } else {
                    record.attributes.insert(name.clone(), value.clone());
                }
            }
            self.check_attributes(model, &mut record)?;
        }
        if let ContentChange::Set(content) = content {
            self.limits.content(content)?;
        }
        let mut puts = Vec::new();
        let to = match (group, &record.group) {
            (Some(group), _) => group.clone(),
            // A record in a home that is given away goes to the same place of the other home.
            (None, Some(group)) if group.starts_with('~') && record.owner != old.owner => {
                Some(group.clone())
            }
            (None, _) => None,
        };
        if group.is_some() {
            record.group = None;
        }
        if let Some(to) = to {
            let path = self.limits.path(&to)?;
            let home = match &path.root {
                Root::Own => record.owner.clone(),
                _ => self.home(caller, &path)?,
            };
            if home.is_some() && home != record.owner {
                return Err(RecordError::invalid(
                    "the owner",
                    "is not the one in whose home it is to lie",
                ));
            }
            // Seen from its owner, `~` is where it is to lie.
            let from_owner = GroupPath {
                root: match &home {
                    Some(home) => Root::Home(parse(home)?.id().unwrap_or_default().to_owned()),
                    None => Root::Shared,
                },
                segments: path.segments,
            };
            puts = self.groups_on_the_way(caller, &from_owner, home.as_deref()).await?;
            record.group = Some(from_owner.stored(from_owner.segments.len()));
        }
        record.modified = (self.clock)().max(old.modified);
        puts.push(Put { content: content.clone(), ..Put::update(record, old.revision) });
        Ok(puts)
    }

    /// The filter as a store takes it; None if nothing passes.
    async fn filter_for(
        &self,
        caller: &Caller,
        filter: &RecordFilter,
    ) -> Result<Option<RecordFilter>, RecordError> {
        let mut filter = filter.clone();
        filter.organization.clone_from(&caller.organization);
        if let Some(group) = &filter.group {
            let path = self.limits.path(group)?;
            if let Some(home) = self.home(caller, &path)? {
                if !filter.owners.is_empty() && !filter.owners.contains(&home) {
                    return Ok(None);
                }
                filter.owners = vec![home];
            }
            filter.group = Some(path.stored(path.segments.len()));
        }
        if let Some(name) = &filter.name {
            filter.name = Some(self.limits.name("the name", name)?);
        }
        self.limits.tags(filter.tags.len())?;
        let mut tags = Vec::new();
        for tag in &filter.tags {
            if tag.starts_with("am7://") {
                tags.push(tag.clone());
            } else {
                match Box::pin(self.tag(caller, tag)).await {
                    Ok(tag) => tags.push(known(&tag)),
                    Err(RecordError::UnknownTag(_)) => return Ok(None),
                    Err(error) => return Err(error),
                }
            }
        }
        filter.tags = tags;
        filter.readers = if caller.is_admin { None } else { Some(self.principals(caller).await?) };
        Ok(Some(filter))
    }

    fn name_of(&self, kind: &str, name: &str) -> Result<String, RecordError> {
        if kind == GROUP {
            self.limits.group_name("the name", name)
        } else {
            self.limits.name("the name", name)
        }
    }

    fn check_attributes(&self, model: &ModelType, record: &mut Record) -> Result<(), RecordError> {
        self.limits.attributes(&record.attributes)?;
        model.check(&record.attributes)?;
        if record.kind == GROUP {
            self.limits.members(&record.organization, &mut record.attributes)?;
        }
        Ok(())
    }

    fn stamped(&self, record: Record) -> Record {
        let now = (self.clock)();
        Record { created: now, modified: now, ..record }
    }

    /// Keeps records of which the last is the one that matters; those before it are new groups.
    async fn keep(&self, puts: Vec<Put>, change: RecordChange) -> Result<Record, RecordError> {
        let mut kept = self.store.put_all(puts).await?;
        let last = kept.pop();
        for group in &kept {
            self.tell(RecordChange::Created, group);
        }
        let last = last.ok_or_else(|| StoreError::Damaged("nothing was kept".to_owned()));
        let last = last.map_err(RecordStoreError::Store)?;
        self.tell(change, &last);
        Ok(last)
    }

    fn tell(&self, change: RecordChange, record: &Record) {
        if let Some(event) = RecordEvent::new(change, record) {
            // Nobody may be listening.
            let _ = self.events.send(event);
        }
    }

    /// The first so many records of a filter, read in parts.
    async fn some(
        &self,
        mut filter: RecordFilter,
        most: usize,
    ) -> Result<Vec<Record>, RecordError> {
        let mut all: BTreeMap<String, Record> = BTreeMap::new();
        while all.len() < most {
            let limit = (most - all.len()).min(500);
            filter.limit = Some(limit);
            let page = self.store.list(&filter).await?;
            let is_last = page.len() < limit;
            filter.after = page.last().and_then(Record::uri);
            all.extend(page.into_iter().filter_map(|record| Some((record.uri()?, record))));
            if is_last {
                break;
            }
        }
        Ok(all.into_values().collect())
    }
}

impl std::fmt::Debug for Records {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Records").field("limits", &self.limits).finish_non_exhaustive()
    }
}

fn names_any(names: &BTreeSet<String>, of: &BTreeSet<String>) -> bool {
    names.iter().any(|name| of.contains(name))
}

/// Whether it failed over a group that another made or removed, rather than over the record itself.
fn is_about_groups(error: &RecordError, uri: &str, own: Option<&str>) -> bool {
    match error {
        RecordError::Conflict(RecordStoreError::PathTaken { path }) => own != Some(path),
        RecordError::Store(RecordStoreError::NoGroup { .. }) => true,
        RecordError::Conflict(RecordStoreError::Conflict {
            uri: about, expected: None, ..
        }) => about != uri,
        _ => false,
    }
}

/// The URI of a record that is kept.
fn known(record: &Record) -> String {
    record.uri().unwrap_or_default()
}

fn parse(uri: &str) -> Result<Am7Uri, RecordError> {
    Am7Uri::parse(uri).map_err(|source| RecordError::Uri { uri: short(uri), source })
}

/// A random UUID (version 4 of RFC 9562).
fn uuid() -> Result<String, RecordError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| RecordStoreError::Store(StoreError::engine(error.to_string())))?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok([&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-"))
}
