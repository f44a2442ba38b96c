//! Tags by URI or name.

use std::collections::BTreeSet;

use super::{change::uuid, stored_uri};
use crate::{
    Caller, NewRecord, Record, RecordError, RecordFilter, Records,
    caller::{short, uri as uri_of},
    everyone,
    model::TAG,
};

impl Records {
    /// Returns a tag by URI or name that the caller may read. If several tags have the name, the
    /// caller's own tag has precedence, then the one that [`Self::ensure_tag`] creates, then the
    /// first one.
    ///
    /// # Errors
    ///
    /// Returns an error if the caller may not read or create such a tag, or if the store fails.
    pub async fn tag(&self, caller: &Caller, tag: &str) -> Result<Record, RecordError> {
        if tag.starts_with("am7://") {
            return match self.get(caller, tag).await {
                Ok(record) if record.kind == TAG => Ok(record),
                Ok(_) | Err(RecordError::NotFound(_)) => Err(RecordError::UnknownTag(short(tag))),
                Err(error) => Err(error),
            };
        }
        let mut filter = RecordFilter {
            types: vec![TAG.to_owned()],
            name: Some(tag.to_owned()),
            owners: vec![caller.user.clone()],
            limit: Some(1),
            ..RecordFilter::default()
        };
        if let Some(own) = self.list(caller, &filter).await?.records.pop() {
            return Ok(own);
        }
        let name = self.limits.name("the name", tag)?;
        if let Some(shared) = self.shared_tag(caller, &name).await?
            && is_shared_as(&shared, &name)
        {
            return Ok(shared);
        }
        filter.owners.clear();
        let first = self.list(caller, &filter).await?.records.pop();
        first.ok_or_else(|| RecordError::UnknownTag(short(tag)))
    }

    /// Returns the record with the object id of the shared tag of this name.
    async fn shared_tag(&self, caller: &Caller, name: &str) -> Result<Option<Record>, RecordError> {
        let uri = uri_of(&caller.organization, TAG, &shared_id(name))?;
        Ok(self.store.get(&uri).await?)
    }

    /// Returns the object id of a shared tag. It derives from the name, so that concurrent callers
    /// create one tag; it is random if that tag exists and was renamed or is not shared any more.
    pub(super) async fn id_for_tag(
        &self,
        caller: &Caller,
        name: &str,
    ) -> Result<String, RecordError> {
        match self.shared_tag(caller, name).await? {
            Some(there) if !is_shared_as(&there, name) => uuid(),
            _ => Ok(shared_id(name)),
        }
    }

    /// Returns a tag by URI or name, and creates a missing one that all users of the organisation
    /// may read.
    ///
    /// # Errors
    ///
    /// Returns an error if the caller may not read or create such a tag, or if the store fails.
    pub async fn ensure_tag(&self, caller: &Caller, tag: &str) -> Result<Record, RecordError> {
        match self.tag(caller, tag).await {
            Err(RecordError::UnknownTag(_)) if !tag.starts_with("am7://") => {
                let new = NewRecord::new(TAG, tag).reader(everyone(&caller.organization));
                match self.create(caller, new).await {
                    // A concurrent caller has created it.
                    Err(RecordError::Conflict(_)) => self.tag(caller, tag).await,
                    created => created,
                }
            }
            found => found,
        }
    }

    /// Returns the URIs of tags that are given by URI or name.
    ///
    /// # Errors
    ///
    /// Returns an error if the caller may not read or create such a tag, or if the store fails.
    pub async fn resolve_tags(
        &self,
        caller: &Caller,
        tags: &BTreeSet<String>,
    ) -> Result<BTreeSet<String>, RecordError> {
        self.limits.tags(tags.len())?;
        let mut uris = BTreeSet::new();
        for tag in tags {
            uris.insert(stored_uri(&self.tag(caller, tag).await?));
        }
        Ok(uris)
    }
}

fn is_shared_as(tag: &Record, name: &str) -> bool {
    tag.name == name && tag.readers.contains(&everyone(&tag.organization))
}

/// Returns a UUID that derives from a name (version 8 of RFC 9562).
fn shared_id(name: &str) -> String {
    let hash =
        blake3::derive_key("marquetry records: the object id of a shared tag", name.as_bytes());
    uuid::Uuid::new_v8(*hash.first_chunk().expect("a hash has 32 bytes")).to_string()
}
