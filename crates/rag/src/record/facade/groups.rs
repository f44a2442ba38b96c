//! The groups by which a caller has rights.

use std::collections::HashMap;

use crate::record::{Record, RecordError, RecordFilter, Records, model::GROUP};

/// Reads groups for one caller: so many in all, and of no owner more than an owner may have, however many there are.
/// Anybody may name anybody in a group, and groups that everybody reads are everybody's to look through.
pub(super) struct Groups<'a> {
    records: &'a Records,
    left: usize,
    /// How many of each owner have been read.
    read: HashMap<String, usize>,
    /// Of whom no more are read.
    spent: Vec<String>,
}

/// A group is found at most so often: by its members or its readers, and by the place where it lies.
const WAYS: usize = 2;
/// How many are read at once.
const PAGE: usize = 500;

impl<'a> Groups<'a> {
    pub(super) fn new(records: &'a Records) -> Self {
        let left = records.limits.max_groups.saturating_mul(WAYS);
        Self { records, left, read: HashMap::new(), spent: Vec::new() }
    }

    /// The groups that pass a filter.
    pub(super) async fn read(
        &mut self,
        mut filter: RecordFilter,
    ) -> Result<Vec<Record>, RecordError> {
        filter.types = vec![GROUP.to_owned()];
        let mut groups = Vec::new();
        while self.left > 0 {
            let limit = self.left.min(PAGE);
            filter.limit = Some(limit);
            filter.not_owners.clone_from(&self.spent);
            let page = self.records.store.list(&filter).await?;
            let is_last = page.len() < limit;
            filter.after = page.last().and_then(Record::uri);
            self.left -= page.len();
            // Stores find them by hashes, and rights come of what is found here.
            let page = page.into_iter().filter(|group| filter.matches(group));
            groups.extend(page.filter(|group| self.counts(group)));
            if is_last {
                break;
            }
        }
        Ok(groups)
    }

    /// Whether its owner has not had all already.
    fn counts(&mut self, group: &Record) -> bool {
        let Some(owner) = &group.owner else { return true };
        let read = self.read.entry(owner.clone()).or_default();
        *read += 1;
        let most = self.records.limits.max_groups_per_owner.saturating_mul(WAYS);
        if *read == most {
            self.spent.push(owner.clone());
        }
        *read <= most
    }
}
