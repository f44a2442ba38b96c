//! Who may read and change what.

use std::collections::BTreeSet;

use crate::record::{
    Caller, Record, RecordError, RecordFilter, Records,
    caller::uri as uri_of,
    model::{GROUP, USER},
    path::{self, GroupPath, Root},
};

impl Records {
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

    /// In whose home a path is.
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

fn names_any(names: &BTreeSet<String>, of: &BTreeSet<String>) -> bool {
    names.iter().any(|name| of.contains(name))
}
