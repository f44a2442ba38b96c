//! The groups by which a caller has rights.

use std::collections::{BTreeSet, HashMap};

use crate::{Record, RecordError, RecordFilter, Records, model::GROUP};

/// Reads groups for one caller: so many in all, and of no owner more than an owner may have, however many there are.
/// Anybody may name anybody in a group, and groups that everybody reads are everybody's to look through.
pub(super) struct Groups<'a> {
    records: &'a Records,
    left: usize,
    /// Which have been read: one is found again by another of its members or readers, and counts once.
    seen: BTreeSet<String>,
    /// How many of each owner have been read.
    read: HashMap<String, usize>,
    /// Of whom no more are read.
    spent: Vec<String>,
}

/// How many are read at once.
const PAGE: usize = 500;

impl<'a> Groups<'a> {
    pub(super) fn new(records: &'a Records) -> Self {
        let (left, seen) = (records.limits.max_groups, BTreeSet::new());
        Self { records, left, seen, read: HashMap::new(), spent: Vec::new() }
    }

    /// The groups that pass a filter, and that have not been read before.
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
                // Stores find them by hashes, and rights come of what is found here.
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

    /// Whether it is another one, and neither all nor its owner's have been read already.
    fn counts(&mut self, group: &Record) -> bool {
        let most = self.records.limits.max_groups_per_owner;
        let read = match &group.owner {
            Some(owner) => self.read.entry(owner.clone()).or_default(),
            None => &mut 0,
        };
        if self.left == 0 || *read >= most || !self.seen.insert(group.uri().unwrap_or_default()) {
            return false;
        }
        self.left -= 1;
        *read += 1;
        if *read == most {
            self.spent.extend(group.owner.clone());
        }
        true
    }
}
