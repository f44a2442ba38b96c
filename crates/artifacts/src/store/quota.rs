//! How much a directory of artifacts takes on the disk, and which of them go first when it takes too much.

use std::{
    collections::{BinaryHeap, HashMap, HashSet, VecDeque},
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

/// What is known of the bytes on the disk beside how many they are, which [`Inner`] has.
#[derive(Debug, Default)]
pub(super) struct Quota {
    /// Whether the directory was looked through.
    is_counted: bool,
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
    /// What the store is charged, as far as it was looked through. Never waits, so that any thread may ask.
    pub(super) fn charged(&self) -> u64 {
        self.charged.load(Ordering::Relaxed)
    }

    /// Makes room for `wanted` bytes of a scope, and charges them. Blocks while the directory is looked through.
    pub(super) fn reserve(&self, scope: &str, wanted: u64) -> Result<(), StoreError> {
        let limit = self.options.max_total_bytes;
        let mut quota = self.quota();
        let is_stale = quota.written > limit / 16;
        let held = self.charged();
        if !quota.is_counted || is_stale || held.saturating_add(wanted) > limit {
            let held = self.make_room(scope, wanted)?;
            self.charged.store(held, Ordering::Relaxed);
            (quota.is_counted, quota.written) = (true, 0);
        }
        let held = self.charged();
        let charged = held.saturating_add(wanted);
        if charged > limit {
            return Err(StoreError::Full { held, wanted, limit });
        }
        self.charged.store(charged, Ordering::Relaxed);
        quota.written = quota.written.saturating_add(wanted);
        Ok(())
    }

    /// Gives back what was charged. Blocks while the directory is looked through.
    pub(super) fn release(&self, bytes: u64) {
        let _quota = self.quota();
        self.charged.store(self.charged().saturating_sub(bytes), Ordering::Relaxed);
    }

    /// What the versions in a name's directory, or one version, are charged.
    pub(super) fn charge_of_version(&self, version: &str) -> io::Result<u64> {
        Ok(self.look_at(version)?.map_or(0, |(_, bytes)| bytes))
    }

    /// Removes versions until `wanted` bytes of `scope` fit, by the rule of [`ArtifactStore`](crate::ArtifactStore), as
    /// far as they can be removed. Returns what the rest is charged.
    fn make_room(&self, scope: &str, wanted: u64) -> io::Result<u64> {
        let mut held: HashMap<String, u64> = HashMap::new();
        for owner in self.directories("scopes")? {
            let mut bytes = 0;
            self.each_version(&owner, |candidate| bytes += candidate.bytes);
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
        // Names whose versions cannot be removed, by scope and name.
        let mut fixed: HashSet<(String, String)> = HashSet::new();
        while total.saturating_add(wanted) > aim {
            let weight = |owner: &str, bytes: u64| bytes + if owner == scope { wanted } else { 0 };
            let largest = held.iter().max_by_key(|(owner, bytes)| weight(owner, **bytes));
            let Some(owner) = largest.map(|(owner, _)| owner.clone()) else { break };
            let queue = chosen.entry(owner.clone()).or_default();
            let Some(candidate) = queue.pop_front() else {
                // Other processes may have written and removed since the scope was looked through.
                let (earliest, bytes) = self.least_recently_used(&owner, &fixed);
                let before = held.insert(owner.clone(), bytes).unwrap_or(0);
                total = total.saturating_sub(before).saturating_add(bytes);
                if earliest.is_empty() {
                    // What it still holds counts, but no more of it can be removed.
                    held.remove(&owner);
                }
                *queue = earliest;
                continue;
            };
            let name = (owner, candidate.name.clone());
            if fixed.contains(&name) {
                continue;
            }
            if !self.expire(&name.0, &candidate)? {
                fixed.insert(name);
                continue;
            }
            total = total.saturating_sub(candidate.bytes);
            if let Some(bytes) = held.get_mut(&name.0) {
                *bytes = bytes.saturating_sub(candidate.bytes);
            }
        }
        Ok(total)
    }

    /// The versions of a scope that were used the longest ago, in that order, without those of names that are `fixed`;
    /// and what all versions of the scope are charged.
    fn least_recently_used(
        &self,
        scope: &str,
        fixed: &HashSet<(String, String)>,
    ) -> (VecDeque<Candidate>, u64) {
        let (mut earliest, mut bytes) = (BinaryHeap::new(), 0);
        let fixed: HashSet<&str> = fixed
            .iter()
            .filter(|(owner, _)| owner == scope)
            .map(|(_, name)| name.as_str())
            .collect();
        self.each_version(scope, |candidate| {
            bytes += candidate.bytes;
            if fixed.contains(candidate.name.as_str()) {
                return;
            }
            earliest.push(candidate);
            if earliest.len() > MAX_CHOSEN {
                earliest.pop();
            }
        });
        (earliest.into_sorted_vec().into(), bytes)
    }

    /// Looks at every version of a scope. One folder that cannot be read, such as another user's, does not count and
    /// does not stop the others.
    fn each_version(&self, scope: &str, mut see: impl FnMut(Candidate)) {
        let read = |path: &str| {
            self.directories(path).unwrap_or_else(|error| {
                self.pass_over(path, &error);
                Vec::new()
            })
        };
        for name in read(&format!("scopes/{scope}")) {
            for entry in read(&format!("scopes/{scope}/{name}")) {
                let Some(number) = number_of(&entry) else { continue };
                let version = format!("scopes/{scope}/{name}/{entry}");
                match self.attempt("look").and_then(|()| self.look_at(&version)) {
                    Ok(Some((used, bytes))) => {
                        see(Candidate { used, name: name.clone(), number, bytes });
                    }
                    Ok(None) => {}
                    Err(error) => self.pass_over(&version, &error),
                }
            }
        }
    }

    /// Logs the first path of the store that cannot be read or removed while room is made.
    fn pass_over(&self, path: &str, error: &io::Error) {
        if !self.has_passed_over.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                path,
                %error,
                "a path in the artifact directory cannot be read or removed and is passed over; no other such path is logged"
            );
        }
    }

    /// A step that tests let fail.
    fn attempt(&self, step: &'static str) -> io::Result<()> {
        self.step(step).map_err(io::Error::other)
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

    /// Removes a version, and says whether it is gone: another's folder may not be changed.
    ///
    /// # Errors
    ///
    /// It cannot be written down that the version has expired.
    fn expire(&self, scope: &str, candidate: &Candidate) -> io::Result<bool> {
        let Candidate { name, number, .. } = candidate;
        let place = format!("scopes/{scope}/{name}");
        // Remembered before it is gone: a crash in between leaves an artifact that is found first.
        self.remember_expired(&place_key(scope, name), Some(*number))?;
        let temporary = self.temporary();
        let version = format!("{place}/{number}");
        let rename = || self.root.rename(&version, &self.root, &temporary);
        match self.attempt("expire").and_then(|()| rename()) {
            Ok(()) => {}
            Err(error) if is_absent(&error) => return Ok(true),
            Err(error) => {
                self.pass_over(&version, &error);
                return Ok(false);
            }
        }
        self.evicted.fetch_add(1, Ordering::Relaxed);
        // What cannot be removed now is removed when the store is opened next.
        if let Err(error) = self.remove(&temporary) {
            self.pass_over(&temporary, &error);
        }
        // Goes only when it is empty.
        let _ = self.root.remove_dir(place);
        Ok(true)
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
