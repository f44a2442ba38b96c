//! Remembers evicted artifacts.

use std::collections::{HashMap, VecDeque};

use super::{Scope, StoreError, Version};
use crate::name::ArtifactName;

/// Number of names that are remembered. The first to expire is forgotten first.
const MAX_NAMES: usize = 8192;

/// Key of a name within its scope.
pub(super) type Key = [u8; 16];

/// Returns the key of a name.
pub(super) fn key(scope: &Scope, name: &ArtifactName) -> Key {
    key_of_parts([scope.app(), scope.user(), scope.session(), name.as_str()])
}

/// Returns the key of application, user, session and name.
pub(super) fn key_of_parts(parts: [&str; 4]) -> Key {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
    }
    let mut key = Key::default();
    key.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    key
}

/// Returns the error for a missing version: not found, or expired. `highest` is the highest expired
/// version of its name.
pub(super) fn absent(name: &ArtifactName, version: Version, highest: Option<u64>) -> StoreError {
    let is_expired = match (version, highest) {
        (_, None) => false,
        (Version::Latest, Some(_)) => true,
        (Version::Number(number), Some(highest)) => number <= highest,
    };
    if is_expired {
        StoreError::expired(name, version)
    } else {
        StoreError::not_found(name, version)
    }
}

/// Names with expired versions.
#[derive(Debug, Default)]
pub(super) struct ExpiredNames {
    /// The highest expired version of each name.
    highest: HashMap<Key, u64>,
    order: VecDeque<Key>,
}

impl ExpiredNames {
    pub(super) fn remember(&mut self, key: Key, version: u64) {
        let highest = self.highest.entry(key).or_insert_with(|| {
            self.order.push_back(key);
            version
        });
        *highest = version.max(*highest);
        while self.highest.len() > MAX_NAMES {
            let Some(oldest) = self.order.pop_front() else { return };
            self.highest.remove(&oldest);
        }
    }

    /// Removes a name whose artifact was deleted.
    pub(super) fn remove(&mut self, key: &Key) {
        if self.highest.remove(key).is_some() {
            self.order.retain(|remembered| remembered != key);
        }
    }

    pub(super) fn highest(&self, key: &Key) -> Option<u64> {
        self.highest.get(key).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_remembered_up_to_a_number() {
        let mut expired = ExpiredNames::default();
        fn key(number: usize) -> Key {
            (number as u128).to_le_bytes()
        }
        for number in 0..=MAX_NAMES {
            expired.remember(key(number), 3);
            expired.remember(key(number), 1);
        }
        assert_eq!(expired.highest(&key(0)), None);
        assert_eq!(expired.highest(&key(1)), Some(3));
        expired.remove(&key(1));
        assert_eq!(expired.highest(&key(1)), None);
        assert_eq!((expired.highest.len(), expired.order.len()), (MAX_NAMES - 1, MAX_NAMES - 1));
    }
}
