//! How much a directory of artifacts takes on the disk, and which of them go first when it takes too much.

use std::{
    collections::{BinaryHeap, HashMap, VecDeque},
    io::{self, ErrorKind, Read as _, Write as _},
    sync::atomic::Ordering,
    time::SystemTime,
};

use cap_std::fs::OpenOptions;

use super::directory::{Inner, number_of};
use crate::store::{StoreError, expired::Key};

/// What a file system gives out at a time.
const BLOCK_BYTES: u64 = 4096;
/// The directories of a version and of its name.
const DIRECTORIES_BYTES: u64 = 2 * BLOCK_BYTES;
/// Versions of one scope that are chosen at a time.
const MAX_CHOSEN: usize = 4096;
/// Each line tells of one version that has expired.
const EXPIRED: &str = "expired";
/// When the file is longer, its older half is dropped.
const MAX_EXPIRED_BYTES: u64 = 1024 * 1024;

/// What is known of the bytes on the disk.
#[derive(Debug, Default)]
pub(super) struct Quota {
    /// What all versions are charged; none before the directory was looked through.
    charged: Option<u64>,
    /// What was written since it was looked through: other processes may have written as much.
    written: u64,
}

/// A version that may have to go.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    used: SystemTime,
    /// Its directory below the scope's: name and number.
    name: String,
    number: u64,
    bytes: u64,
}

/// What files of these sizes are charged.
pub(super) fn charge(content: u64, record: u64) -> u64 {
    let blocks = |bytes: u64| bytes.max(1).next_multiple_of(BLOCK_BYTES);
    blocks(content).saturating_add(blocks(record)).saturating_add(DIRECTORIES_BYTES)
}

impl Inner {
    /// What the store is charged, as far as it was looked through.
    pub(super) fn charged(&self) -> u64 {
        self.quota().charged.unwrap_or(0)
    }

    /// Makes room for `wanted` bytes of a scope, and charges them.
    pub(super) fn reserve(&self, scope: &str, wanted: u64) -> Result<(), StoreError> {
        let limit = self.options.max_total_bytes;
        let mut quota = self.quota();
        let is_stale = quota.written > limit / 16;
        let held = match quota.charged {
            Some(held) if !is_stale && held.saturating_add(wanted) <= limit => held,
            _ => {
                let held = self.make_room(scope, wanted)?;
                quota.written = 0;
                held
            }
        };
        quota.charged = Some(held.saturating_add(wanted));
        quota.written = quota.written.saturating_add(wanted);
        Ok(())
    }

    /// Gives back what was charged.
    pub(super) fn release(&self, bytes: u64) {
        let mut quota = self.quota();
        quota.charged = quota.charged.map(|charged| charged.saturating_sub(bytes));
    }

    /// What the versions in a name's directory, or one version, are charged.
    pub(super) fn charge_of_version(&self, version: &str) -> io::Result<u64> {
        Ok(self.look_at(version)?.map_or(0, |(_, bytes)| bytes))
    }

    /// Removes versions until `wanted` bytes of `scope` fit, by the rule of [`ArtifactStore`](crate::ArtifactStore).
    /// Returns what the rest is charged.
    fn make_room(&self, scope: &str, wanted: u64) -> io::Result<u64> {
        let mut held: HashMap<String, u64> = HashMap::new();
        for owner in self.directories("scopes")? {
            let mut bytes = 0;
            self.each_version(&owner, |candidate| bytes += candidate.bytes)?;
            held.insert(owner, bytes);
        }
        let mut total: u64 = held.values().sum();
        let limit = self.options.max_total_bytes;
        if total.saturating_add(wanted) <= limit {
            return Ok(total);
        }
        // A little more than must go, so that not every put looks through the directory.
        let aim = limit - limit / 64;
        let mut chosen: HashMap<String, VecDeque<Candidate>> = HashMap::new();
        while total.saturating_add(wanted) > aim {
            let weight = |owner: &str, bytes: u64| bytes + if owner == scope { wanted } else { 0 };
            let largest = held.iter().max_by_key(|(owner, bytes)| weight(owner, **bytes));
            let Some(owner) = largest.map(|(owner, _)| owner.clone()) else { break };
            let queue = chosen.entry(owner.clone()).or_default();
            if queue.is_empty() {
                *queue = self.least_recently_used(&owner)?;
            }
            let Some(candidate) = queue.pop_front() else {
                // Another process was faster, or nothing of this scope can be removed.
                total -= held.remove(&owner).unwrap_or(0);
                continue;
            };
            self.expire(&owner, &candidate)?;
            total = total.saturating_sub(candidate.bytes);
            if let Some(bytes) = held.get_mut(&owner) {
                *bytes = bytes.saturating_sub(candidate.bytes);
            }
        }
        Ok(total)
    }

    /// The versions of a scope that were used the longest ago, in that order.
    fn least_recently_used(&self, scope: &str) -> io::Result<VecDeque<Candidate>> {
        let mut earliest = BinaryHeap::new();
        self.each_version(scope, |candidate| {
            earliest.push(candidate);
            if earliest.len() > MAX_CHOSEN {
                earliest.pop();
            }
        })?;
        Ok(earliest.into_sorted_vec().into())
    }

    fn each_version(&self, scope: &str, mut see: impl FnMut(Candidate)) -> io::Result<()> {
        for name in self.directories(&format!("scopes/{scope}"))? {
            for entry in self.directories(&format!("scopes/{scope}/{name}"))? {
                let Some(number) = number_of(&entry) else { continue };
                let version = format!("scopes/{scope}/{name}/{entry}");
                if let Some((used, bytes)) = self.look_at(&version)? {
                    see(Candidate { used, name: name.clone(), number, bytes });
                }
            }
        }
        Ok(())
    }

    /// When a version was last used, and what it is charged; none when it is gone.
    fn look_at(&self, version: &str) -> io::Result<Option<(SystemTime, u64)>> {
        let entries = match self.root.read_dir(version) {
            Ok(entries) => entries,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let (mut used, mut content, mut record) = (SystemTime::UNIX_EPOCH, 0, 0);
        for entry in entries {
            let entry = entry?;
            let Ok(metadata) = entry.metadata() else { continue };
            if entry.file_name() == "record.json" {
                record = metadata.len();
            } else {
                content += metadata.len();
                let modified = metadata.modified().map(cap_std::time::SystemTime::into_std);
                used = used.max(modified.unwrap_or(SystemTime::UNIX_EPOCH));
            }
        }
        Ok(Some((used, charge(content, record))))
    }

    fn expire(&self, scope: &str, candidate: &Candidate) -> io::Result<()> {
        let Candidate { name, number, .. } = candidate;
        let place = format!("scopes/{scope}/{name}");
        // Remembered before it is gone: a crash in between leaves an artifact that is found first.
        self.remember_expired(&place_key(scope, name), Some(*number))?;
        let temporary = self.temporary();
        match self.root.rename(format!("{place}/{number}"), &self.root, &temporary) {
            Ok(()) => {}
            Err(error) if is_absent(&error) => return Ok(()),
            Err(error) => return Err(error),
        }
        self.evicted.fetch_add(1, Ordering::Relaxed);
        self.remove(&temporary)?;
        // Goes only when it is empty.
        let _ = self.root.remove_dir(place);
        Ok(())
    }

    /// Writes down that a version has expired; none forgets what has expired of that name.
    pub(super) fn remember_expired(&self, key: &Key, number: Option<u64>) -> io::Result<()> {
        let line = match number {
            Some(number) => format!("{} {number}\n", hex(key)),
            None => format!("{} -\n", hex(key)),
        };
        let mut file =
            self.root.open_with(EXPIRED, OpenOptions::new().append(true).create(true))?;
        file.write_all(line.as_bytes())?;
        if file.metadata()?.len() > MAX_EXPIRED_BYTES {
            let text = self.root.read_to_string(EXPIRED)?;
            let half = &text[text.floor_char_boundary(text.len() / 2)..];
            let rest = half.split_once('\n').map_or("", |(_, rest)| rest);
            let temporary = self.temporary();
            self.root.write(&temporary, rest)?;
            self.root.rename(&temporary, &self.root, EXPIRED)?;
        }
        Ok(())
    }

    /// The highest version of a name that has expired, as far as it is remembered.
    pub(super) fn highest_expired(&self, key: &Key) -> io::Result<Option<u64>> {
        let file = match self.root.open(EXPIRED) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::new();
        file.take(2 * MAX_EXPIRED_BYTES).read_to_end(&mut bytes)?;
        let (text, key) = (String::from_utf8_lossy(&bytes), hex(key));
        let mut highest = None;
        for line in text.lines() {
            let line = line.split_once(' ').filter(|(name, _)| *name == key);
            let Some((_, number)) = line else { continue };
            highest = if number == "-" { None } else { number.parse().ok().max(highest) };
        }
        Ok(highest)
    }
}

/// The key of a name by its directories, which are different for different names.
pub(super) fn place_key(scope: &str, name: &str) -> Key {
    let mut key = Key::default();
    let mut hasher = blake3::Hasher::new();
    hasher.update(scope.as_bytes()).update(b"/").update(name.as_bytes());
    key.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    key
}

fn hex(key: &Key) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether there is nothing at a path, or something on the way to it that is no directory.
pub(super) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}
