//! The keys of a store in its bucket.
//!
//! ```text
//! layout                                              the number of this layout
//! probe/{random_id}                                      written and removed by a check
//! clock                                               written to learn the server's time; empty
//! versions/{owner}/{session}/{name}/{number}          the record: the version exists if this does
//! versions/{owner}/{session}/{name}/{number}.used     when a server last read it; empty
//! versions/{owner}/{session}/{name}/{number}.expired  it was evicted; empty
//! content/{owner}/{hash}/{generation}                 bytes; several records may name them
//! content/{owner}/{hash}/{generation}.garbage         no new record may name them; empty
//! ```
//!
//! Owners do not share bytes: how long a put takes would tell one what another has.

use std::collections::BTreeMap;

use marquetry_artifacts::{ArtifactName, Scope, store::ContentHash};
use object_store::{ObjectMeta, path::Path};

/// Digits of a number, so that keys are ordered as their numbers.
const DIGITS: usize = 20;

/// The directory of one name, below the prefix of the store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NameFolder {
    pub(crate) owner: String,
    /// `{owner}/{session}/{name}`.
    key: String,
}

/// The generation of some bytes: one upload of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ContentKey {
    pub(crate) owner: String,
    pub(crate) hash: ContentHash,
    pub(crate) generation: String,
}

/// An entry of the directory of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    Record(u64),
    Used(u64),
    Expired(u64),
}

/// The entries of one name.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    /// Numbers of existing versions, with the objects of their records.
    pub(crate) records: BTreeMap<u64, ObjectMeta>,
    pub(crate) used: BTreeMap<u64, ObjectMeta>,
    pub(crate) expired: BTreeMap<u64, ObjectMeta>,
}

impl Entries {
    pub(crate) fn add(&mut self, entry: Entry, object: ObjectMeta) {
        match entry {
            Entry::Record(number) => self.records.insert(number, object),
            Entry::Used(number) => self.used.insert(number, object),
            Entry::Expired(number) => self.expired.insert(number, object),
        };
    }

    /// Returns the number of the next version.
    pub(crate) fn next(&self) -> u64 {
        let highest = self.records.keys().last().max(self.expired.keys().last());
        // Numbers that no store wrote end here.
        highest.map_or(0, |number| number.saturating_add(1))
    }
}

impl NameFolder {
    pub(crate) fn new(scope: &Scope, name: &ArtifactName) -> Self {
        let key = format!("{}/{}", session_folder(scope), hex(name.as_str().as_bytes()));
        Self { owner: owner(scope), key }
    }

    pub(crate) fn entry(&self, root: &Path, entry: Entry) -> Path {
        let (number, end) = match entry {
            Entry::Record(number) => (number, ""),
            Entry::Used(number) => (number, ".used"),
            Entry::Expired(number) => (number, ".expired"),
        };
        path_of(root, &format!("versions/{}/{number:0DIGITS$}{end}", self.key))
    }

    pub(crate) fn path(&self, root: &Path) -> Path {
        path_of(root, &format!("versions/{}", self.key))
    }
}

impl ContentKey {
    pub(crate) fn path(&self, root: &Path) -> Path {
        content_folder(root, &self.owner, &self.hash).join(self.generation.as_str())
    }

    pub(crate) fn garbage(&self, root: &Path) -> Path {
        let mark = format!("{}.garbage", self.generation);
        content_folder(root, &self.owner, &self.hash).join(mark)
    }
}

/// Returns the directory of all generations of these bytes.
pub(crate) fn content_folder(root: &Path, owner: &str, hash: &ContentHash) -> Path {
    path_of(root, &format!("content/{owner}/{}", hex_of(hash)))
}

/// Returns the directory of a scope.
pub(crate) fn scope_folder(root: &Path, scope: &Scope) -> Path {
    path_of(root, &format!("versions/{}", session_folder(scope)))
}

/// Returns a key behind all keys of this name, and before those of the next one.
pub(crate) fn end_of_name(root: &Path, scope: &Scope, name: &ArtifactName) -> Path {
    let name = hex(name.as_str().as_bytes());
    path_of(root, &format!("versions/{}/{name}/z", session_folder(scope)))
}

/// Reads the key of a version's object.
pub(crate) fn parse_version(root: &Path, path: &Path) -> Option<(NameFolder, Entry)> {
    let key = key_of(root, path)?.strip_prefix("versions/")?;
    let (key, entry) = key.rsplit_once('/')?;
    let (owner, _) = key.split_once('/')?;
    let (number, end) = entry.split_at_checked(DIGITS)?;
    // Neither is the largest number, since none could follow.
    let number = number.parse().ok().filter(|number| *number < u64::MAX)?;
    let entry = match end {
        "" => Entry::Record(number),
        ".used" => Entry::Used(number),
        ".expired" => Entry::Expired(number),
        _ => return None,
    };
    Some((NameFolder { owner: owner.to_owned(), key: key.to_owned() }, entry))
}

/// Reads the key of an object below `content/`, and whether it is a mark of garbage.
pub(crate) fn parse_content(root: &Path, path: &Path) -> Option<(ContentKey, bool)> {
    let key = key_of(root, path)?.strip_prefix("content/")?;
    let (owner, key) = key.split_once('/')?;
    let (hash, generation) = key.split_once('/')?;
    let hash = format!("blake3:{hash}").parse().ok()?;
    let (generation, is_garbage) = match generation.strip_suffix(".garbage") {
        Some(generation) => (generation, true),
        None => (generation, false),
    };
    let generation = generation.to_owned();
    Some((ContentKey { owner: owner.to_owned(), hash, generation }, is_garbage))
}

/// Reads the name of an artifact from the key of one of its objects.
pub(crate) fn name_of(folder: &NameFolder) -> Option<ArtifactName> {
    let (_, hex) = folder.key.rsplit_once('/')?;
    let bytes = (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok())
        .collect::<Option<Vec<u8>>>()?;
    ArtifactName::parse(&String::from_utf8(bytes).ok()?).ok()
}

/// Returns the path of a key below the prefix of the store.
pub(crate) fn path_of(root: &Path, key: &str) -> Path {
    // All parts have letters, digits and dots alone, which need no escape.
    key.split('/').fold(root.clone(), Path::join)
}

/// Returns the key of a path without the prefix of the store.
pub(crate) fn key_of<'a>(root: &Path, path: &'a Path) -> Option<&'a str> {
    let key = path.as_ref();
    if root.as_ref().is_empty() {
        return Some(key);
    }
    key.strip_prefix(root.as_ref())?.strip_prefix('/')
}

fn session_folder(scope: &Scope) -> String {
    let session = digest(&[scope.app(), scope.user(), scope.session()]);
    format!("{}/{session}", owner(scope))
}

fn owner(scope: &Scope) -> String {
    digest(&[scope.app(), scope.user()])
}

/// Returns 32 hex digits that no other texts have.
fn digest(parts: &[&str]) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
    }
    hex(&hasher.finalize().as_bytes()[..16])
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hex_of(hash: &ContentHash) -> String {
    let text = hash.to_string();
    text.strip_prefix("blake3:").unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_they_are_written() {
        for root in [Path::default(), Path::from("a/b")] {
            for name in ["a", "ä ö.txt", "record.json"] {
                let name = ArtifactName::parse(name).unwrap();
                let folder = NameFolder::new(&Scope::local(), &name);
                for entry in [Entry::Record(0), Entry::Used(7), Entry::Expired(u64::MAX - 1)] {
                    let path = folder.entry(&root, entry);
                    assert_eq!(parse_version(&root, &path), Some((folder.clone(), entry)));
                }
                assert_eq!(name_of(&folder), Some(name.clone()));
                assert!(
                    end_of_name(&root, &Scope::local(), &name)
                        > folder.entry(&root, Entry::Used(9))
                );
            }
            let hash = ContentHash::of(b"x");
            let key = ContentKey { owner: "0a".to_owned(), hash, generation: "00ff".to_owned() };
            assert_eq!(parse_content(&root, &key.path(&root)), Some((key.clone(), false)));
            assert_eq!(parse_content(&root, &key.garbage(&root)), Some((key.clone(), true)));
            assert_eq!(parse_version(&root, &key.path(&root)), None);
        }
    }

    #[test]
    fn keys_of_others_are_no_versions() {
        for key in [
            "versions",
            "versions/a/b/c/1",
            "versions/a/b/c/18446744073709551615",
            "versions/a/b/c/00000000000000000001.txt",
            "versions/a/b/c/0000000000000000000é",
        ] {
            assert_eq!(parse_version(&Path::default(), &Path::from(key)), None, "{key}");
        }
    }

    #[test]
    fn keys_are_ordered_as_names() {
        let names = ["a", "a b", "a.txt", "ab", "b", "ä"];
        let names = names.map(|name| ArtifactName::parse(name).unwrap());
        let keys = names.each_ref().map(|name| NameFolder::new(&Scope::local(), name).key + "/0");
        let mut sorted = names.clone();
        sorted.sort();
        let mut sorted_keys = keys.clone();
        sorted_keys.sort();
        assert_eq!((sorted, sorted_keys), (names, keys));
    }
}
