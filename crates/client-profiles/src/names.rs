//! Names of tools that a client takes.

use std::collections::{BTreeMap, BTreeSet};

use crate::profile::ClientProfile;

/// Characters of the hash at the end of a name that was changed.
const HASH_CHARS: usize = 8;

/// Names of tools as a client takes them. A name that the client takes stays as it is. Another one
/// is shortened, other characters become `_`, and a hash of the whole name follows, so that the
/// same tool always has the same name.
///
/// ```
/// use marquetry_client_profiles::{ClientProfile, ToolNames};
///
/// let cursor = ClientProfile::of("cursor-vscode");
/// let names = ToolNames::new(&cursor, ["read_file", "fs.list"]);
/// assert_eq!(names.shown("read_file"), "read_file");
/// let shown = names.shown("fs.list");
/// assert!(shown.starts_with("fs_list_"));
/// assert_eq!(names.original(shown), Some("fs.list"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolNames {
    shown: BTreeMap<String, String>,
    originals: BTreeMap<String, String>,
}

impl ToolNames {
    /// Returns the names of these tools for a client.
    #[must_use]
    pub fn new<'a>(
        profile: &ClientProfile,
        names: impl IntoIterator<Item = &'a str> + Clone,
    ) -> Self {
        let mut changed = Self::default();
        if profile.max_name_chars.is_none() && profile.name_punctuation.is_none() {
            return changed;
        }
        let all: BTreeSet<&str> = names.clone().into_iter().collect();
        for name in names {
            if takes(profile, name) || changed.shown.contains_key(name) {
                continue;
            }
            let mut round = 0;
            let mut shown = hashed(profile, name, round);
            while all.contains(shown.as_str()) || changed.originals.contains_key(&shown) {
                round += 1;
                shown = hashed(profile, name, round);
            }
            changed.originals.insert(shown.clone(), name.to_owned());
            changed.shown.insert(name.to_owned(), shown);
        }
        changed
    }

    /// Returns the name of a tool for the client.
    #[must_use]
    pub fn shown<'a>(&'a self, name: &'a str) -> &'a str {
        self.shown.get(name).map_or(name, String::as_str)
    }

    /// Returns the tool's own name, if the client has another one.
    #[must_use]
    pub fn original(&self, shown: &str) -> Option<&str> {
        self.originals.get(shown).map(String::as_str)
    }
}

fn takes(profile: &ClientProfile, name: &str) -> bool {
    profile.max_name_chars.is_none_or(|max| name.chars().count() as u64 <= max)
        && name.chars().all(|c| is_taken(profile, c))
}

fn is_taken(profile: &ClientProfile, c: char) -> bool {
    c.is_ascii_alphanumeric()
        || match &profile.name_punctuation {
            Some(punctuation) => punctuation.contains(c),
            None => true,
        }
}

/// Returns the beginning of a name with its hash.
fn hashed(profile: &ClientProfile, name: &str, round: u32) -> String {
    let max =
        profile.max_name_chars.map_or(usize::MAX, |max| usize::try_from(max).unwrap_or(usize::MAX));
    let room = max.saturating_sub(HASH_CHARS + 1);
    let mut shown: String =
        name.chars().take(room).map(|c| if is_taken(profile, c) { c } else { '_' }).collect();
    if !shown.is_empty() {
        shown.push('_');
    }
    shown.push_str(&format!("{:08x}", fnv1a(name, round)));
    shown
}

/// FNV-1a in 32 bits: the same on every machine and in every version.
fn fnv1a(name: &str, round: u32) -> u32 {
    name.bytes()
        .fold(0x811c_9dc5 ^ round, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn profile(max: u64, punctuation: &str) -> ClientProfile {
        ClientProfile {
            max_name_chars: Some(max),
            name_punctuation: Some(punctuation.to_owned()),
            ..ClientProfile::default()
        }
    }

    #[test]
    fn long_names_that_begin_alike_differ() {
        let one = format!("{}_one", "x".repeat(60));
        let two = format!("{}_two", "x".repeat(60));
        let names = ToolNames::new(&profile(40, "_"), [one.as_str(), &two, "short"]);
        assert_ne!(names.shown(&one), names.shown(&two));
        assert_eq!(names.shown(&one).len(), 40);
        assert_eq!(names.original(names.shown(&two)), Some(two.as_str()));
        assert_eq!((names.shown("short"), names.original("short")), ("short", None));
    }

    #[test]
    fn a_name_does_not_depend_on_other_tools() {
        let alone = ToolNames::new(&profile(40, "_"), ["a.b"]);
        let among = ToolNames::new(&profile(40, "_"), ["a_b", "a.c", "a-b", "a.b"]);
        assert_eq!(alone.shown("a.b"), among.shown("a.b"));
    }

    #[test]
    fn a_client_without_limits_gets_the_same_names() {
        let names = ToolNames::new(&ClientProfile::default(), ["a.b"]);
        assert_eq!(names, ToolNames::default());
    }

    proptest! {
        #[test]
        fn names_are_unique_and_within_the_limits(
            names in prop::collection::btree_set("[a-z._é-]{1,60}", 0..30),
            max in 10_u64..64,
        ) {
            let profile = profile(max, "_");
            let shown = ToolNames::new(&profile, names.iter().map(String::as_str));
            let all: BTreeSet<_> = names.iter().map(|name| shown.shown(name)).collect();
            prop_assert_eq!(all.len(), names.len());
            for name in &names {
                let it = shown.shown(name);
                prop_assert!(takes(&profile, it), "{}", it);
                prop_assert!(it == name || shown.original(it) == Some(name));
            }
        }
    }
}
