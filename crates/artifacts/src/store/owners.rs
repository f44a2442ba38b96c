//! Decides which owner loses artifacts when a store is full.

use std::collections::BTreeSet;

/// The owners of a store's artifacts, ordered by the bytes that they hold.
#[derive(Debug)]
pub(super) struct OwnersByBytes<O>(BTreeSet<(u64, O)>);

impl<O> Default for OwnersByBytes<O> {
    fn default() -> Self {
        Self(BTreeSet::new())
    }
}

impl<O: Clone + Ord> OwnersByBytes<O> {
    /// Records that an owner holds `after` bytes instead of `before`. An owner who holds 0 bytes is
    /// forgotten.
    pub(super) fn change(&mut self, owner: &O, before: u64, after: u64) {
        if before == after {
            return;
        }
        self.0.remove(&(before, owner.clone()));
        if after > 0 {
            self.0.insert((after, owner.clone()));
        }
    }

    /// Returns the owner who holds the most bytes, where `writer` holds `held` bytes and is about
    /// to add `wanted`.
    pub(super) fn largest(&self, writer: &O, held: u64, wanted: u64) -> Option<&O> {
        let (most, owner) = self.0.last()?;
        if *most > held.saturating_add(wanted) {
            return Some(owner);
        }
        let writer = self.0.get(&(held, writer.clone())).map(|(_, writer)| writer);
        Some(writer.unwrap_or(owner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_new_bytes_count_for_the_writer() {
        let mut owners = OwnersByBytes::default();
        assert_eq!(owners.largest(&"a", 0, 5), None);
        owners.change(&"a", 0, 10);
        owners.change(&"b", 0, 30);
        owners.change(&"b", 30, 12);
        assert_eq!(owners.largest(&"a", 10, 1), Some(&"b"));
        assert_eq!(owners.largest(&"a", 10, 3), Some(&"a"));
        assert_eq!(owners.largest(&"new", 0, 100), Some(&"b"), "a new owner has nothing to lose");
        owners.change(&"b", 12, 0);
        assert_eq!(owners.largest(&"b", 0, 1), Some(&"a"));
    }
}
