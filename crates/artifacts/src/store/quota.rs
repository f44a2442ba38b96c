//! The quota of a directory store: charges artifacts, and evicts some when the store is full.

use std::{
    collections::{BinaryHeap, HashMap, HashSet, VecDeque},
    io::{self, ErrorKind, Read as _, Write as _},
    sync::{Arc, atomic::Ordering},
    time::SystemTime,
};

use super::{
    files::{SharedDirectory, is_absent, number_of, private_file, write_private},
    owners::OwnersByBytes,
};
use crate::store::{StoreError, expired_names::Key};

/// Allocation unit of the file system.
const BLOCK_BYTES: u64 = 4096;
/// Cost of the directories of a version and of its name.
const DIRECTORIES_BYTES: u64 = 2 * BLOCK_BYTES;
/// Cost of a scope: its directory and the file with its owner.
pub(super) const SCOPE_BYTES: u64 = 2 * BLOCK_BYTES;
/// Versions of one owner that are chosen for eviction in one scan.
const MAX_CHOSEN: usize = 4096;
/// File in the directory of a scope with the name of its owner.
const OWNER: &str = "owner";
/// Longest name of an owner, in bytes.
const MAX_OWNER_BYTES: u64 = 256;
/// File with one line for each expired version.
const EXPIRED: &str = "expired";
/// Above this size, the older half of the file is dropped.
const MAX_EXPIRED_BYTES: u64 = 1024 * 1024;

/// The scope of a put.
#[derive(Debug)]
pub(super) struct Writer {
    /// Directory of the scope, below `scopes`.
    pub(super) scope: String,
    pub(super) owner: String,
}

/// The artifacts of one owner.
#[derive(Debug, Default)]
struct Holdings {
    scopes: Vec<Arc<str>>,
    bytes: u64,
}

/// Names whose versions cannot be removed, by scope and name.
type Fixed = HashSet<(Arc<str>, String)>;

/// A version that may be evicted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    used: SystemTime,
    scope: Arc<str>,
    /// Name of the directory within the scope's: artifact name and number.
    name: String,
    number: u64,
    bytes: u64,
}

/// Returns the charge of files of these sizes.
pub(super) fn charge(content: u64, record: u64) -> u64 {
    fn blocks(bytes: u64) -> u64 {
        bytes.max(1).next_multiple_of(BLOCK_BYTES)
    }
    blocks(content).saturating_add(blocks(record)).saturating_add(DIRECTORIES_BYTES)
}

impl SharedDirectory {
    /// Makes and charges the directory of a scope with the file that names its owner, if it is not
    /// there.
    pub(super) fn make_scope(&self, writer: &Writer) -> io::Result<()> {
        match self.root.create_dir(format!("scopes/{}", writer.scope)) {
            Ok(()) => {
                let _quota = self.quota();
                self.charged.store(self.charged().saturating_add(SCOPE_BYTES), Ordering::Relaxed);
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        self.write_owner(writer)
    }

    /// Writes the file with the owner of a scope, if it does not exist.
    pub(super) fn write_owner(&self, writer: &Writer) -> io::Result<()> {
        let path = format!("scopes/{}/{OWNER}", writer.scope);
        if self.root.symlink_metadata(&path).is_ok() {
            return Ok(());
        }
        let temporary = self.temporary();
        write_private(&self.root, &temporary, writer.owner.as_bytes())?;
        let renamed = self.root.rename(&temporary, &self.root, path);
        if renamed.is_err() {
            let _ = self.root.remove_file(temporary);
        }
        match renamed {
            // The scope was removed in between. The rest of the put creates it again.
            Err(error) if is_absent(&error) => Ok(()),
            renamed => renamed,
        }
    }

    /// Returns the owner of a scope. A scope without a readable owner is its own owner.
    fn owner_of(&self, scope: &str) -> String {
        let read = self.root.open(format!("scopes/{scope}/{OWNER}")).and_then(|file| {
            let mut owner = String::new();
            file.take(MAX_OWNER_BYTES).read_to_string(&mut owner)?;
            Ok(owner)
        });
        // Names of owners have no slash.
        read.ok().filter(|owner| !owner.is_empty()).unwrap_or_else(|| format!("scopes/{scope}"))
    }

    /// Removes the directory of a scope without artifacts. Returns the bytes that it was charged.
    pub(super) fn remove_empty_scope(&self, scope: &str) -> u64 {
        let path = format!("scopes/{scope}");
        let is_empty =
            self.entries(&path).is_ok_and(|entries| entries.iter().all(|entry| entry == OWNER));
        if !is_empty {
            return 0;
        }
        let owner = self.owner_of(scope);
        let _ = self.root.remove_file(format!("{path}/{OWNER}"));
        match self.root.remove_dir(&path) {
            Ok(()) => SCOPE_BYTES,
            Err(error) => {
                // A put came in between. Its scope needs its owner.
                if !is_absent(&error) && !owner.contains('/') {
                    let _ = self.write_owner(&Writer { scope: scope.to_owned(), owner });
                }
                0
            }
        }
    }

    /// Makes room for `wanted` bytes of a scope, and charges them. Blocks during a scan.
    pub(super) fn reserve(&self, writer: &Writer, wanted: u64) -> Result<(), StoreError> {
        let limit = self.options.max_total_bytes;
        let mut quota = self.quota();
        let is_stale = quota.written > limit / 16;
        let held = self.charged();
        if !quota.is_counted || is_stale || held.saturating_add(wanted) > limit {
            let held = self.make_room(writer, wanted)?;
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

    /// Takes back a charge. Blocks during a scan.
    pub(super) fn release(&self, bytes: u64) {
        let _quota = self.quota();
        self.charged.store(self.charged().saturating_sub(bytes), Ordering::Relaxed);
    }

    /// Returns the charge of one version.
    pub(super) fn charge_of_version(&self, version: &str) -> io::Result<u64> {
        Ok(self.look_at(version)?.map_or(0, |(_, bytes)| bytes))
    }

    /// Evicts versions by the rule of [`ArtifactStore`](crate::ArtifactStore) until `wanted` bytes
    /// of the writer fit, as far as possible. Returns the charge of the remaining ones.
    fn make_room(&self, writer: &Writer, wanted: u64) -> io::Result<u64> {
        let mut owners: HashMap<String, Holdings> = HashMap::new();
        for scope in self.directories("scopes")? {
            let mut bytes = SCOPE_BYTES;
            let mut is_empty = true;
            let scope = Arc::from(scope);
            self.each_version(&scope, |candidate| {
                bytes += candidate.bytes;
                is_empty = false;
            });
            if is_empty && *scope != *writer.scope {
                bytes -= self.remove_empty_scope(&scope);
            }
            if bytes > 0 {
                let holdings = owners.entry(self.owner_of(&scope)).or_default();
                holdings.bytes += bytes;
                holdings.scopes.push(scope);
            }
        }
        let mut by_bytes = OwnersByBytes::default();
        let mut total: u64 = 0;
        for (owner, Holdings { bytes, .. }) in &owners {
            by_bytes.change(owner, 0, *bytes);
            total += bytes;
        }
        let limit = self.options.max_total_bytes;
        if total.saturating_add(wanted) <= limit {
            return Ok(total);
        }
        // Frees a little more than needed, so that not every put scans the directory.
        let aim = limit - limit / 64;
        let mut chosen: HashMap<String, VecDeque<Candidate>> = HashMap::new();
        let mut fixed = Fixed::new();
        while total.saturating_add(wanted) > aim {
            let held = owners.get(&writer.owner).map_or(0, |holdings| holdings.bytes);
            let Some(owner) = by_bytes.largest(&writer.owner, held, wanted).cloned() else { break };
            let Some(holdings) = owners.get_mut(&owner) else { break };
            let before = holdings.bytes;
            let queue = chosen.entry(owner.clone()).or_default();
            if let Some(candidate) = queue.pop_front() {
                let name = (Arc::clone(&candidate.scope), candidate.name.clone());
                if fixed.contains(&name) {
                    continue;
                }
                let Some(freed) = self.expire(&candidate, writer)? else {
                    fixed.insert(name);
                    continue;
                };
                holdings.bytes = before.saturating_sub(freed);
                by_bytes.change(&owner, before, holdings.bytes);
            } else {
                // Other processes may have written and removed versions since the scan.
                let (earliest, bytes) = self.least_recently_used(&holdings.scopes, &fixed);
                holdings.bytes = bytes;
                // Versions that cannot be removed still count, but the owner is not chosen again.
                by_bytes.change(&owner, before, if earliest.is_empty() { 0 } else { bytes });
                *queue = earliest;
            }
            total = total.saturating_sub(before).saturating_add(holdings.bytes);
        }
        Ok(total)
    }

    /// Returns the least recently used versions in these scopes, in that order and without names
    /// that are `fixed`, and the charge of the scopes with all versions.
    fn least_recently_used(
        &self,
        scopes: &[Arc<str>],
        fixed: &Fixed,
    ) -> (VecDeque<Candidate>, u64) {
        let mut earliest = BinaryHeap::new();
        let mut bytes = 0;
        for scope in scopes {
            let fixed: HashSet<&str> = fixed
                .iter()
                .filter(|(owner, _)| owner == scope)
                .map(|(_, name)| name.as_str())
                .collect();
            if self.root.exists(format!("scopes/{scope}")) {
                bytes += SCOPE_BYTES;
            }
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
        }
        (earliest.into_sorted_vec().into(), bytes)
    }

    /// Visits every version of a scope. Unreadable directories, such as those of another user, are
    /// skipped.
    fn each_version(&self, scope: &Arc<str>, mut see: impl FnMut(Candidate)) {
        for name in self.readable_directories(&format!("scopes/{scope}")) {
            for entry in self.readable_directories(&format!("scopes/{scope}/{name}")) {
                let Some(number) = number_of(&entry) else { continue };
                let version = format!("scopes/{scope}/{name}/{entry}");
                match self.attempt("look").and_then(|()| self.look_at(&version)) {
                    Ok(Some((used, bytes))) => {
                        let scope = Arc::clone(scope);
                        see(Candidate { used, scope, name: name.clone(), number, bytes });
                    }
                    Ok(None) => {}
                    Err(error) => self.pass_over(&version, &error),
                }
            }
        }
    }

    /// Returns the directories in a path; empty if the path is unreadable.
    fn readable_directories(&self, path: &str) -> Vec<String> {
        self.directories(path).unwrap_or_else(|error| {
            self.pass_over(path, &error);
            Vec::new()
        })
    }

    /// Logs the first path that cannot be read or removed.
    fn pass_over(&self, path: &str, error: &io::Error) {
        if !self.has_passed_over.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                path,
                %error,
                "a path in the artifact directory cannot be read or removed and is passed over; no other such path is logged"
            );
        }
    }

    /// Marks a step that tests can make fail.
    fn attempt(&self, step: &'static str) -> io::Result<()> {
        self.step(step).map_err(io::Error::other)
    }

    /// Returns the last use and the charge of a version; none when it no longer exists.
    fn look_at(&self, version: &str) -> io::Result<Option<(SystemTime, u64)>> {
        let entries = match self.root.read_dir(version) {
            Ok(entries) => entries,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut used = SystemTime::UNIX_EPOCH;
        let mut content = 0;
        let mut record = 0;
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

    /// Evicts a version, and removes its scope if it is empty then and not the writer's. Returns
    /// the freed bytes; none when the version cannot be removed, such as in a directory of another
    /// user.
    ///
    /// # Errors
    ///
    /// Returns an error if the expired version cannot be recorded.
    fn expire(&self, candidate: &Candidate, writer: &Writer) -> io::Result<Option<u64>> {
        let Candidate { scope, name, number, bytes, .. } = candidate;
        let folder = format!("scopes/{scope}/{name}");
        // Recorded first: after a crash in between, the artifact is still found.
        self.remember_expired(&key_for(scope, name), Some(*number))?;
        let temporary = self.temporary();
        let version = format!("{folder}/{number}");
        let renamed = self
            .attempt("expire")
            .and_then(|()| self.root.rename(&version, &self.root, &temporary));
        match renamed {
            Ok(()) => {}
            Err(error) if is_absent(&error) => return Ok(Some(*bytes)),
            Err(error) => {
                self.pass_over(&version, &error);
                return Ok(None);
            }
        }
        self.evicted.fetch_add(1, Ordering::Relaxed);
        // Files that cannot be removed now are removed when the store is opened again.
        if let Err(error) = self.remove(&temporary) {
            self.pass_over(&temporary, &error);
        }
        // This removes only an empty directory.
        let is_last = self.root.remove_dir(folder).is_ok() && **scope != *writer.scope;
        Ok(Some(bytes + if is_last { self.remove_empty_scope(scope) } else { 0 }))
    }

    /// Records an expired version; none forgets all of that name.
    pub(super) fn remember_expired(&self, key: &Key, number: Option<u64>) -> io::Result<()> {
        let line = match number {
            Some(number) => format!("{} {number}\n", hex(key)),
            None => format!("{} -\n", hex(key)),
        };
        let mut file = self.root.open_with(EXPIRED, private_file().append(true).create(true))?;
        file.write_all(line.as_bytes())?;
        if file.metadata()?.len() > MAX_EXPIRED_BYTES {
            let text = self.root.read_to_string(EXPIRED)?;
            let half = &text[text.floor_char_boundary(text.len() / 2)..];
            let rest = half.split_once('\n').map_or("", |(_, rest)| rest);
            let temporary = self.temporary();
            write_private(&self.root, &temporary, rest.as_bytes())?;
            self.root.rename(&temporary, &self.root, EXPIRED)?;
        }
        Ok(())
    }

    /// Returns the highest recorded expired version of a name.
    pub(super) fn highest_expired(&self, key: &Key) -> io::Result<Option<u64>> {
        let file = match self.root.open(EXPIRED) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::new();
        file.take(2 * MAX_EXPIRED_BYTES).read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        let key = hex(key);
        let mut highest = None;
        for line in text.lines() {
            let line = line.split_once(' ').filter(|(name, _)| *name == key);
            let Some((_, number)) = line else { continue };
            highest = if number == "-" { None } else { number.parse().ok().max(highest) };
        }
        Ok(highest)
    }
}

/// Returns the key of a name by its directories, which are unique.
pub(super) fn key_for(scope: &str, name: &str) -> Key {
    let mut key = Key::default();
    let mut hasher = blake3::Hasher::new();
    hasher.update(scope.as_bytes()).update(b"/").update(name.as_bytes());
    key.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    key
}

fn hex(key: &Key) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}
