//! Tags by URI or name.

use std::collections::BTreeSet;

use super::known;
use crate::record::{
    Caller, NewRecord, Record, RecordError, RecordFilter, Records, caller::short, everyone,
    model::TAG,
};

impl Records {
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
                let new = NewRecord::new(TAG, tag).reader(everyone(&caller.organization));
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
}
