//! Creates, changes and removes records.

use std::collections::BTreeSet;

use marquetry_database::DatabaseError;

use super::{access::is_owner, parse, stored_uri};
use crate::{
    Caller, ContentChange, CountLimit, ModelType, NewRecord, Put, Record, RecordChange,
    RecordError, RecordFilter, RecordPatch, RecordStoreError, Records,
    caller::{ADMINISTRATORS, EVERYONE, everyone, uri as uri_of},
    check,
    model::{GROUP, TAG, USER},
    path::{GroupPath, Root},
};

/// Maximum number of retries of a change that conflicts with concurrent ones.
const MAX_RETRIES: usize = 16;

/// The action in errors about readers, writers and members, and about the group of a record, whose
/// readers and writers may access the record as well.
const CHANGE_ACCESS: &str = "change the access to";

impl Records {
    /// Creates a record, and the missing groups of its path.
    ///
    /// # Errors
    ///
    /// Returns an error if a value is invalid, if the caller may not do it, or if the store fails.
    pub async fn create(&self, caller: &Caller, mut new: NewRecord) -> Result<Record, RecordError> {
        let path = new.group.as_ref().map(|group| self.limits.path(group)).transpose()?;
        let content = new.content.take().map_or(ContentChange::Keep, ContentChange::Set);
        if let ContentChange::Set(content) = &content {
            self.limits.content(content)?;
        }
        let prepared = self.prepared(caller, new).await?;
        let uri = stored_uri(&prepared);
        let mut retries = 0;
        loop {
            let mut record = prepared.clone();
            let mut puts = match &path {
                Some(path) => self.place(caller, &mut record, path).await?,
                None => Vec::new(),
            };
            // A user owns their own record.
            let default_owner = if record.kind == USER { &uri } else { &caller.user };
            let owner = &record.owner.get_or_insert_with(|| default_owner.clone()).clone();
            // In the home of another user the record belongs to that user, who alone grants access
            // there.
            let is_shared = !record.readers.is_empty()
                || !record.writers.is_empty()
                || record.kind == GROUP && record.attributes.contains_key("members");
            if is_shared && *owner != caller.user && !caller.is_admin {
                return Err(RecordError::Forbidden { action: CHANGE_ACCESS, target: uri });
            }
            let own_path = record.path();
            let mut required_uris = record.tags.clone();
            if *owner != uri {
                required_uris.extend(self.stored_user(owner).await?);
            }
            let put = Put { content: content.clone(), required_uris, ..Put::new(record) };
            self.check_quota(caller, None, &put).await?;
            puts.push(self.limited(put));
            match self.store_with_groups(puts, RecordChange::Created).await {
                // A concurrent change created or removed one of the groups.
                Err(error)
                    if retries < MAX_RETRIES
                        && is_group_conflict(&error, &uri, own_path.as_deref()) =>
                {
                    retries += 1;
                }
                outcome => return outcome,
            }
        }
    }

    /// Checks a new record and returns it without its group. It has an owner only if one was given.
    async fn prepared(&self, caller: &Caller, new: NewRecord) -> Result<Record, RecordError> {
        let organization = &caller.organization;
        let model = ModelType::of(&new.kind)?;
        let mut record = self.stamped(Record::new(model.name, ""));
        record.organization.clone_from(organization);
        record.name = self.name_of(model.name, &new.name)?;
        if model.name == USER && !caller.is_admin {
            return Err(RecordError::Forbidden { action: "create", target: USER.to_owned() });
        }
        record.object_id = match new.object_id {
            Some(_) if matches!(model.name, USER | GROUP | TAG) && !caller.is_admin => {
                let target = format!("the object id of a {}", model.title.to_lowercase());
                return Err(RecordError::Forbidden { action: "choose", target });
            }
            Some(id) if model.name == GROUP && matches!(id.as_str(), EVERYONE | ADMINISTRATORS) => {
                return Err(RecordError::invalid("the object id", format!("{id} is reserved")));
            }
            // Otherwise another user could create the record of a file before it is indexed, and
            // would receive its text.
            Some(id) if check::is_id_of_file(&id) && !new.is_of_file => {
                let problem = format!("{id} is reserved for indexed files");
                return Err(RecordError::invalid("the object id", problem));
            }
            Some(id) => id,
            None if model.name == TAG && new.readers.contains(&everyone(organization)) => {
                self.id_for_tag(caller, &record.name).await?
            }
            None => uuid()?,
        };
        uri_of(organization, &record.kind, &record.object_id)?;
        record.attributes = new.attributes;
        record.attributes.retain(|_, value| !value.is_null());
        self.check_attributes(model, &mut record)?;
        record.readers = self.limits.readers("the list of readers", organization, &new.readers)?;
        record.writers = self.limits.readers("the list of writers", organization, &new.writers)?;
        new.media_type.as_deref().map_or(Ok(()), check::media_type)?;
        record.media_type = new.media_type;
        record.tags = self.resolve_tags(caller, &new.tags).await?;
        if let Some(owner) = &new.owner {
            let owner = check::principal("the owner", organization, owner, &[USER])?;
            if owner != caller.user && !caller.is_admin {
                let action = "create records for";
                return Err(RecordError::Forbidden { action, target: owner });
            }
            record.owner = Some(owner);
        }
        Ok(record)
    }

    /// Puts a record into a group, and returns the groups to create for it. In a home, the record
    /// and the groups belong to the owner of the home. Elsewhere, the groups belong to the owner of
    /// the record.
    async fn place(
        &self,
        caller: &Caller,
        record: &mut Record,
        path: &GroupPath,
    ) -> Result<Vec<Put>, RecordError> {
        let home = self.home(caller, path)?;
        if let (Some(home), Some(owner)) = (&home, &record.owner)
            && home != owner
        {
            let problem = "is not the user to whose home the path leads";
            return Err(RecordError::invalid("the owner", problem));
        }
        record.owner = home.or(record.owner.take());
        record.group = Some(path.stored(path.segments.len()));
        let owner = record.owner.as_ref().unwrap_or(&caller.user);
        self.missing_groups(caller, path, owner).await
    }

    /// Changes a record.
    ///
    /// # Errors
    ///
    /// Returns an error if a value is invalid, if the caller may not do it, or if the store fails.
    pub async fn update(
        &self,
        caller: &Caller,
        uri: &str,
        patch: RecordPatch,
    ) -> Result<Record, RecordError> {
        let mut retries = 0;
        loop {
            let old = self.get(caller, uri).await?;
            if !self.may_write(caller, &old).await? {
                return Err(RecordError::Forbidden { action: "change", target: stored_uri(&old) });
            }
            if let Some(expected) = patch.revision.filter(|expected| *expected != old.revision) {
                return Err(RecordError::Conflict(RecordStoreError::Conflict {
                    uri: stored_uri(&old),
                    expected: Some(expected),
                    found: Some(old.revision),
                }));
            }
            let puts = self.patched(caller, &old, &patch).await?;
            if let Some(put) = puts.last() {
                self.check_quota(caller, Some(&old), put).await?;
            }
            let own_path = puts.last().and_then(|put| put.record.path());
            let error = match self.store_with_groups(puts, RecordChange::Updated).await {
                Err(error) if retries < MAX_RETRIES => error,
                outcome => return outcome,
            };
            // A patch without a revision applies to any revision, so it is applied again.
            let is_new_revision = patch.revision.is_none()
                && matches!(&error, RecordError::Conflict(error) if error.is_conflict());
            if !is_new_revision && !is_group_conflict(&error, "", own_path.as_deref()) {
                return Err(error);
            }
            retries += 1;
        }
    }

    /// Removes a record and returns it. A given revision must be the current one. See
    /// [`Self::may_delete`].
    ///
    /// A group is removed even if records name it among their readers: only an administrator can
    /// create one with its URI again. Chunks of the record are not removed here.
    ///
    /// # Errors
    ///
    /// Returns an error if it is a group that holds records ([`RecordError::NotEmpty`]), or a user
    /// who owns records or a tag that records have ([`RecordError::InUse`]).
    pub async fn delete(
        &self,
        caller: &Caller,
        uri: &str,
        revision: Option<u64>,
    ) -> Result<Record, RecordError> {
        let mut retries = 0;
        loop {
            let record = self.get(caller, uri).await?;
            let uri = stored_uri(&record);
            if !self.may_delete(caller, &record).await? {
                return Err(RecordError::Forbidden { action: "remove", target: uri });
            }
            let (used_by, by) = uses_of(&record).unzip();
            // Only the checked revision is removed.
            match self.remove(uri.clone(), revision.unwrap_or(record.revision), used_by).await {
                Err(error)
                    if retries < MAX_RETRIES && revision.is_none() && error.is_conflict() =>
                {
                    retries += 1;
                }
                Err(RecordStoreError::InUse { count }) => {
                    // Other callers must not learn the number of records that they may not read.
                    let count = Some(count).filter(|_| caller.is_admin);
                    let by = by.unwrap_or_default();
                    return Err(RecordError::InUse { target: uri, count, by });
                }
                Err(error) => return Err(error.into()),
                Ok(None) => return Err(RecordError::NotFound(uri)),
                Ok(Some(removed)) => return Ok(removed),
            }
        }
    }

    /// Returns the puts that apply a patch to a record: of new groups first, of the record last.
    async fn patched(
        &self,
        caller: &Caller,
        old: &Record,
        patch: &RecordPatch,
    ) -> Result<Vec<Put>, RecordError> {
        if changes_access(old, patch) && !caller.is_admin && !is_owner(caller, old) {
            return Err(RecordError::Forbidden { action: CHANGE_ACCESS, target: stored_uri(old) });
        }
        let mut record = old.clone();
        self.set_fields(caller, &mut record, patch).await?;
        let mut puts = self.set_group(caller, &mut record, old, patch).await?;
        record.modified = (self.clock)().max(old.modified);
        let mut required_uris =
            if patch.tags.is_some() { record.tags.clone() } else { BTreeSet::new() };
        let is_given_away = record.owner != old.owner;
        if is_given_away && let Some(owner) = &record.owner {
            required_uris.extend(self.stored_user(owner).await?);
        }
        let content = patch.content.clone();
        let put = Put { content, required_uris, ..Put::update(record, old.revision) };
        puts.push(if is_given_away { self.limited(put) } else { put });
        Ok(puts)
    }

    /// Sets the fields of a patch other than its group.
    async fn set_fields(
        &self,
        caller: &Caller,
        record: &mut Record,
        patch: &RecordPatch,
    ) -> Result<(), RecordError> {
        let organization = record.organization.clone();
        let model = ModelType::of(&record.kind)?;
        if let Some(name) = &patch.name {
            record.name = self.name_of(model.name, name)?;
        }
        if let Some(owner) = &patch.owner {
            let owner = check::principal("the owner", &organization, owner, &[USER])?;
            if Some(&owner) != record.owner.as_ref() && !caller.is_admin {
                let target = stored_uri(record);
                return Err(RecordError::Forbidden { action: "change the owner of", target });
            }
            record.owner = Some(owner);
        }
        if let Some(readers) = &patch.readers {
            record.readers = self.limits.readers("the list of readers", &organization, readers)?;
        }
        if let Some(writers) = &patch.writers {
            record.writers = self.limits.readers("the list of writers", &organization, writers)?;
        }
        if let Some(tags) = &patch.tags {
            record.tags = self.resolve_tags(caller, tags).await?;
        }
        if let Some(media_type) = &patch.media_type {
            media_type.as_deref().map_or(Ok(()), check::media_type)?;
            record.media_type.clone_from(media_type);
        }
        if !patch.attributes.is_empty() {
            // Attributes that are too large are refused before they are copied.
            self.limits.attributes(&patch.attributes)?;
            for (name, value) in &patch.attributes {
                if value.is_null() {
                    record.attributes.shift_remove(name);
                } else {
                    record.attributes.insert(name.clone(), value.clone());
                }
            }
            self.check_attributes(model, record)?;
        }
        if let ContentChange::Set(content) = &patch.content {
            self.limits.content(content)?;
        }
        Ok(())
    }

    /// Moves a record to the group of a patch, and returns the groups to create for it. A record
    /// with a new owner moves from the home of the old owner to the same path in the home of the
    /// new one.
    async fn set_group(
        &self,
        caller: &Caller,
        record: &mut Record,
        old: &Record,
        patch: &RecordPatch,
    ) -> Result<Vec<Put>, RecordError> {
        let destination = match &patch.group {
            Some(destination) => {
                record.group = None;
                destination.clone()
            }
            None if record.owner != old.owner => {
                old.group.clone().filter(|path| path.starts_with('~'))
            }
            None => None,
        };
        let Some(destination) = destination else { return Ok(Vec::new()) };
        let mut path = self.limits.path(&destination)?;
        // `~` is the home of the owner, also if another user moves the record.
        if let (Root::Own, Some(owner)) = (&path.root, &record.owner) {
            path.root = Root::Home(parse(owner)?.id().unwrap_or_default().to_owned());
        }
        self.place(caller, record, &path).await
    }

    /// Returns the URI of a user's record if there is one; a user may have none.
    ///
    /// A change that makes the user an owner names this URI in [`Put::required_uris`], so that the
    /// user's record cannot be removed at the same time.
    async fn stored_user(&self, user: &str) -> Result<Option<String>, RecordError> {
        Ok(self.store.get(user).await?.map(|_| user.to_owned()))
    }

    /// Adds the limit on the groups of one owner, if the record is a group.
    fn limited(&self, mut put: Put) -> Put {
        if let (GROUP, Some(owner)) = (&*put.record.kind, &put.record.owner) {
            let mut filter = RecordFilter::new(&put.record.organization);
            filter.types = vec![GROUP.to_owned()];
            filter.owners = vec![owner.clone()];
            let max = self.limits.max_groups_per_owner as u64;
            put.count_limit = Some(CountLimit { filter, max });
        }
        put
    }

    /// Returns the groups of a path that do not exist, so that they are created.
    ///
    /// # Errors
    ///
    /// Returns an error if the caller may not create records there.
    async fn missing_groups(
        &self,
        caller: &Caller,
        path: &GroupPath,
        owner: &str,
    ) -> Result<Vec<Put>, RecordError> {
        let home = self.home(caller, path)?;
        let depth = path.segments.len();
        let mut existing_depth = depth;
        let mut deepest = None;
        while existing_depth > 0 {
            let path = path.stored(existing_depth);
            deepest = self.group(&caller.organization, home.as_deref(), &path).await?;
            if deepest.is_some() {
                break;
            }
            existing_depth -= 1;
        }
        let may_create = match &deepest {
            Some(group) => self.may_write(caller, group).await?,
            None => caller.is_admin || home.as_ref().is_none_or(|home| *home == caller.user),
        };
        if !may_create {
            let action = "put anything into";
            return Err(RecordError::Forbidden { action, target: path.to_string() });
        }
        (existing_depth..depth)
            .map(|depth| {
                let mut group = self.stamped(Record::new(GROUP, &path.segments[depth]));
                group.organization.clone_from(&caller.organization);
                group.object_id = uuid()?;
                group.group = Some(path.stored(depth));
                group.owner = Some(owner.to_owned());
                Ok(self.limited(Put::new(group)))
            })
            .collect()
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

    /// Stores new groups and then a record, the last of the list, and returns the record.
    pub(super) async fn store_with_groups(
        &self,
        puts: Vec<Put>,
        change: RecordChange,
    ) -> Result<Record, RecordError> {
        let this = self.clone();
        run_to_completion(async move {
            let mut stored = match this.store.put_all(puts).await {
                // Only the number of groups is limited.
                Err(RecordStoreError::TooMany { found, max }) => {
                    return Err(RecordError::Limit {
                        field: "the owner",
                        limit: "max_groups_per_owner",
                        got: found as usize,
                        unit: "groups",
                        max: max as usize,
                    });
                }
                outcome => outcome?,
            };
            let last = stored.pop();
            for group in &stored {
                this.announce(RecordChange::Created, group);
            }
            let record = last
                .ok_or_else(|| DatabaseError::damaged("nothing was stored"))
                .map_err(RecordStoreError::Database)?;
            this.announce(change, &record);
            Ok(record)
        })
        .await
    }

    /// Removes a record and sends the event.
    async fn remove(
        &self,
        uri: String,
        revision: u64,
        used_by: Option<RecordFilter>,
    ) -> Result<Option<Record>, RecordStoreError> {
        let this = self.clone();
        run_to_completion(async move {
            let revision = Some(revision);
            let removed = this.store.delete_unless(&uri, revision, used_by.as_ref()).await?;
            if let Some(removed) = &removed {
                this.announce(RecordChange::Deleted, removed);
            }
            Ok(removed)
        })
        .await
    }
}

/// Runs a change to completion even if the caller drops the future, so that subscribers learn of
/// every stored change.
async fn run_to_completion<T: Send + 'static, E: From<RecordStoreError> + Send + 'static>(
    work: impl Future<Output = Result<T, E>> + Send + 'static,
) -> Result<T, E> {
    match tokio::spawn(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(stopped) => Err(RecordStoreError::Database(DatabaseError::engine(stopped)).into()),
        },
    }
}

/// Returns whether a patch changes who can read, change or find a record. Renaming a group does,
/// because its name is part of the paths of its records.
fn changes_access(old: &Record, patch: &RecordPatch) -> bool {
    let has_new_members = old.kind == GROUP && patch.attributes.contains_key("members");
    let is_renamed_place =
        old.own_place().is_some() && patch.name.as_ref().is_some_and(|name| *name != old.name);
    patch.group.is_some()
        || patch.readers.is_some()
        || patch.writers.is_some()
        || has_new_members
        || is_renamed_place
}

/// Returns the filter of the records that prevent the removal of a user or tag, and the text about
/// them for [`RecordError::InUse`].
fn uses_of(record: &Record) -> Option<(RecordFilter, &'static str)> {
    let mut uses = RecordFilter::new(&record.organization);
    let uri = stored_uri(record);
    let text = match record.kind.as_str() {
        USER => {
            uses.owners.push(uri);
            "records belong to this user"
        }
        TAG => {
            uses.tags.push(uri);
            "records have this tag"
        }
        _ => return None,
    };
    Some((uses, text))
}

/// Returns whether a change failed because of a concurrent change of a group, rather than of the
/// record itself, which has this URI and path.
fn is_group_conflict(error: &RecordError, uri: &str, own_path: Option<&str>) -> bool {
    match error {
        RecordError::Conflict(RecordStoreError::PathTaken { path }) => own_path != Some(path),
        RecordError::Store(RecordStoreError::NoGroup { .. }) => true,
        RecordError::Conflict(RecordStoreError::Conflict {
            uri: about, expected: None, ..
        }) => about != uri,
        _ => false,
    }
}

/// Returns a random UUID (version 4 of RFC 9562).
pub(super) fn uuid() -> Result<String, RecordError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| RecordStoreError::Database(DatabaseError::engine(error.to_string())))?;
    Ok(uuid::Builder::from_random_bytes(bytes).into_uuid().to_string())
}
