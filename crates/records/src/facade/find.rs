//! Reading and listing records.

use super::{known, parse};
use crate::{
    Caller, Record, RecordError, RecordFilter, RecordPage, Records,
    caller::{short, uri as uri_of},
};

impl Records {
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
        // Stores find them by hashes, and names of places are for everybody to choose.
        records.retain(|record| filter.matches(record));
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

    /// The filter as a store takes it; None if nothing passes.
    pub(super) async fn filter_for(
        &self,
        caller: &Caller,
        filter: &RecordFilter,
    ) -> Result<Option<RecordFilter>, RecordError> {
        let mut filter = filter.clone();
        filter.organization.clone_from(&caller.organization);
        let mut home = None;
        if let Some(group) = &filter.group {
            let path = self.limits.path(group)?;
            home = self.home(caller, &path)?;
            if let Some(home) = &home {
                if !filter.owners.is_empty() && !filter.owners.contains(home) {
                    return Ok(None);
                }
                filter.owners = vec![home.clone()];
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
        filter.readers = match &filter.group {
            _ if caller.is_admin => None,
            // Whatever else others share does not matter there.
            Some(path) => Some(self.principals_in(caller, home.as_deref(), path).await?),
            None => Some(self.principals(caller).await?),
        };
        Ok(Some(filter))
    }
}
