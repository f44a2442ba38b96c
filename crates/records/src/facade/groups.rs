//! The groups that grant a caller permissions.

use std::collections::{BTreeSet, HashMap};

use crate::{Record, RecordError, RecordFilter, Records, model::GROUP};

/// Reads the groups of one caller, within limits for all groups and for the groups of each owner.
/// The limits are needed because any user may make any other user a member of a group, and may
/// create groups that all may read.
pub(super) struct Groups<'a> {
    records: &'a Records,
    left: usize,
    /// URIs of the groups read so far. A group counts once, even if several members or readers lead
    /// to it.
    seen: BTreeSet<String>,
    /// Number of groups of each owner read so far.
    read: HashMap<String, usize>,
    /// Owners whose limit is used up.
    spent: Vec<String>,
}

/// Number of groups in one read.
const PAGE: usize = 500;

impl<'a> Groups<'a> {
    pub(super) fn new(records: &'a Records) -> Self {
        let left = records.limits.max_groups;
        let seen = BTreeSet::new();
        Self { records, left, seen, read: HashMap::new(), spent: Vec::new() }
    }

    /// Returns the groups that pass a filter and have not been read before.
    pub(super) async fn read(
        &mut self,
        mut filter: RecordFilter,
    ) -> Result<Vec<Record>, RecordError> {
        filter.types = vec![GROUP.to_owned()];
        filter.limit = Some(PAGE);
        let mut groups = Vec::new();
        while self.left > 0 {
            filter.not_owners.clone_from(&self.spent);
            let page = self.records.store.list(&filter).await?;
            let is_last = page.len() < PAGE;
            filter.after = page.last().and_then(Record::uri);
            for group in page {
                // Stores find groups by hashes; a collision must not grant permissions.
                if filter.matches(&group) && self.counts(&group) {
                    groups.push(group);
                }
            }
            if is_last {
                break;
            }
        }
        Ok(groups)
    }

    /// Returns whether a group is new and within both limits; counts it if so.
    fn counts(&mut self, group: &Record) -> bool {
        let max = self.records.limits.max_groups_per_owner;
        let read = match &group.owner {
            Some(owner) => self.read.entry(owner.clone()).or_default(),
            None => &mut 0,
        };
        if self.left == 0 || *read >= max || !self.seen.insert(group.uri().unwrap_or_default()) {
            return false;
        }
        self.left -= 1;
        *read += 1;
        if *read == max {
            self.spent.extend(group.owner.clone());
        }
        true
    }
}
