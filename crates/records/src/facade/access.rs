//! Checks of permissions.

use std::collections::BTreeSet;

use super::groups::Groups;
use crate::{
    Caller, Record, RecordError, RecordFilter, Records,
    caller::uri as uri_of,
    model::{GROUP, USER},
    path::{self, GroupPath, Root},
};

impl Records {
    /// Returns all URIs that let this caller read a record whose readers include them: the value
    /// for `Filter::readers` of a search. Besides the caller's own URIs, these are the groups
    /// (folders) that others share with the caller.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn principals(&self, caller: &Caller) -> Result<BTreeSet<String>, RecordError> {
        let mut principals = caller.names();
        if caller.is_admin {
            return Ok(principals);
        }
        let mut fresh = principals.clone();
        let mut groups = Groups::new(self);
        for _ in 0..=self.limits.max_path_depth {
            if fresh.is_empty() {
                break;
            }
            let filter = RecordFilter {
                readers: Some(std::mem::take(&mut fresh)),
                // Records in the caller's own home belong to the caller.
                not_in_home_of: Some(caller.user.clone()),
                ..RecordFilter::new(&caller.organization)
            };
            for group in groups.read(filter).await? {
                let place = group.own_place().filter(|place| principals.insert(place.clone()));
                fresh.extend(place);
            }
        }
        Ok(principals)
    }

    /// Returns the part of [`Self::principals`] that is relevant for the records in one group.
    pub(super) async fn principals_in(
        &self,
        caller: &Caller,
        home: Option<&str>,
        path: &str,
    ) -> Result<BTreeSet<String>, RecordError> {
        let mut principals = caller.names();
        let is_reader = self
            .any_around(&caller.organization, home, Some(path.to_owned()), |group| {
                group.owner.as_ref() == Some(&caller.user) || names_reader(group, &principals)
            })
            .await?;
        if is_reader {
            principals.insert(path::place(&caller.organization, home, path));
        }
        Ok(principals)
    }

    /// Returns whether this caller may read a record.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn may_read(&self, caller: &Caller, record: &Record) -> Result<bool, RecordError> {
        self.may(caller, record, names_reader).await
    }

    /// Returns whether this caller may change a record.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn may_write(&self, caller: &Caller, record: &Record) -> Result<bool, RecordError> {
        self.may(caller, record, |record, names| names_any(&record.writers, names)).await
    }

    /// Returns whether anybody but its owner and the administrators may change a record: its own
    /// writers, the writers of a group above it, or another owner of such a group.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn others_may_write(&self, record: &Record) -> Result<bool, RecordError> {
        let owner = record.owner.as_ref();
        if is_written_by_others(record, owner) {
            return Ok(true);
        }
        let group = record.group.clone();
        let home = record.owner.as_deref();
        self.any_around(&record.organization, home, group, |group| {
            is_written_by_others(group, owner)
        })
        .await
    }

    /// Returns whether this caller may remove a record. Its owner, the owners of the groups above
    /// it, and administrators may. Writers may not, because a removal cannot be undone.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn may_delete(&self, caller: &Caller, record: &Record) -> Result<bool, RecordError> {
        self.may(caller, record, |_, _| false).await
    }

    pub(super) async fn may(
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
        if is_owner(caller, record) || names_one(record, &names) {
            return Ok(true);
        }
        let owner = record.owner.as_deref();
        self.any_around(&record.organization, owner, record.group.clone(), |group| {
            is_owner(caller, group) || names_one(group, &names)
        })
        .await
    }

    /// Returns whether a condition is true for a group or for a group above it.
    async fn any_around(
        &self,
        organization: &str,
        owner: Option<&str>,
        mut path: Option<String>,
        condition: impl Fn(&Record) -> bool,
    ) -> Result<bool, RecordError> {
        while let Some(next) = path {
            let Some(group) = self.group(organization, owner, &next).await? else { break };
            if condition(&group) {
                return Ok(true);
            }
            path = group.group;
        }
        Ok(false)
    }

    /// Returns the group with this stored path.
    pub(super) async fn group(
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
        Ok(self.store.list(&filter).await?.pop().filter(|group| filter.matches(group)))
    }

    /// Returns the owner of the home that a path leads into.
    pub(super) fn home(
        &self,
        caller: &Caller,
        path: &GroupPath,
    ) -> Result<Option<String>, RecordError> {
        Ok(match &path.root {
            Root::Shared => None,
            Root::Own => Some(caller.user.clone()),
            Root::Home(id) => Some(uri_of(&caller.organization, USER, id)?),
        })
    }
}

/// Returns whether a record has one of these URIs among its readers or writers.
fn names_reader(record: &Record, names: &BTreeSet<String>) -> bool {
    names_any(&record.readers, names) || names_any(&record.writers, names)
}

pub(super) fn is_owner(caller: &Caller, record: &Record) -> bool {
    record.owner.as_ref() == Some(&caller.user)
}

fn names_any(names: &BTreeSet<String>, of: &BTreeSet<String>) -> bool {
    names.iter().any(|name| of.contains(name))
}

/// Returns whether a record has another owner than this one, or another writer.
fn is_written_by_others(record: &Record, owner: Option<&String>) -> bool {
    record.owner.as_ref() != owner || record.writers.iter().any(|writer| Some(writer) != owner)
}
