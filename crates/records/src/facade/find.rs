//! Reads and lists records.

use super::{parse, stored_uri};
use crate::{
    Caller, Record, RecordError, RecordFilter, RecordPage, Records,
    caller::{short, uri as uri_of},
};

impl Records {
    /// Returns the record with this URI, which may also be the URI of its content.
    ///
    /// # Errors
    ///
    /// Returns an error if an argument is invalid, or if the store fails.
    pub async fn get(&self, caller: &Caller, uri: &str) -> Result<Record, RecordError> {
        let parsed = parse(uri)?;
        let (Some(kind), Some(id)) = (parsed.object_type(), parsed.id()) else {
            return Err(not_found(uri));
        };
        if parsed.organization() != caller.organization {
            return Err(not_found(uri));
        }
        let stored = uri_of(&caller.organization, kind, id).map_err(|_| not_found(uri))?;
        let record = self.store.get(&stored).await?.ok_or_else(|| not_found(uri))?;
        if self.may_read(caller, &record).await? { Ok(record) } else { Err(not_found(uri)) }
    }

    /// Returns the content of a record; None if it has none.
    ///
    /// # Errors
    ///
    /// Returns an error if an argument is invalid, or if the store fails.
    pub async fn content(
        &self,
        caller: &Caller,
        uri: &str,
    ) -> Result<Option<Vec<u8>>, RecordError> {
        let uri = stored_uri(&self.get(caller, uri).await?);
        Ok(self.store.content(&uri).await?)
    }

    /// Returns the length of the content of a record in bytes, without reading it; `None` if the
    /// record has no content.
    ///
    /// # Errors
    ///
    /// Returns an error as [`Self::content`] does.
    pub async fn content_length(
        &self,
        caller: &Caller,
        uri: &str,
    ) -> Result<Option<u64>, RecordError> {
        let uri = stored_uri(&self.get(caller, uri).await?);
        Ok(self.store.content_length(&uri).await?)
    }

    /// Lists the records that pass the filter and that the caller may read. The organisation and
    /// the readers of the filter are ignored; its group may begin with another user's home
    /// (`~alice/Notes`), and its tags may be names.
    ///
    /// # Errors
    ///
    /// Returns an error if an argument is invalid, or if the store fails.
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
        // Stores find groups by hashes of their paths, which any user may choose: collisions are
        // removed here.
        records.retain(|record| filter.matches(record));
        Ok(RecordPage { records, next })
    }

    /// Counts the records that [`Self::list`] lists.
    ///
    /// # Errors
    ///
    /// Returns an error if an argument is invalid, or if the store fails.
    pub async fn count(&self, caller: &Caller, filter: &RecordFilter) -> Result<u64, RecordError> {
        match self.filter_for(caller, filter).await? {
            Some(filter) => Ok(self.store.count(&filter).await?),
            None => Ok(0),
        }
    }

    /// Returns the records of this name in the group of this path: `~/Notes/Summaries`, `Flour -
    /// Summary`.
    ///
    /// # Errors
    ///
    /// Returns an error if an argument is invalid, or if the store fails.
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

    /// Returns the filter for a store; None if no record can pass.
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
                    Ok(tag) => tags.push(stored_uri(&tag)),
                    Err(RecordError::UnknownTag(_)) => return Ok(None),
                    Err(error) => return Err(error),
                }
            }
        }
        filter.tags = tags;
        filter.readers = match &filter.group {
            _ if caller.is_admin => None,
            // Other shared groups are not relevant here.
            Some(path) => Some(self.principals_in(caller, home.as_deref(), path).await?),
            None => Some(self.principals(caller).await?),
        };
        Ok(Some(filter))
    }
}

fn not_found(uri: &str) -> RecordError {
    RecordError::NotFound(short(uri))
}
