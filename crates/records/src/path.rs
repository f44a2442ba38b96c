//! Paths of groups.

use std::fmt;

use crate::{Record, model::GROUP};

impl Record {
    /// Returns the path of the records in this group; `None` if this record is not a group, or is
    /// in no group itself.
    ///
    /// ```
    /// use marquetry_records::Record;
    ///
    /// let mut group = Record::new("auth.group", "Papers");
    /// group.group = Some("/Shared".to_owned());
    /// assert_eq!(group.path().as_deref(), Some("/Shared/Papers"));
    /// ```
    pub fn path(&self) -> Option<String> {
        let group = self.group.as_ref().filter(|_| self.kind == GROUP)?;
        Some(join(group, &self.name))
    }
}

/// The path of a group, as a caller writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupPath {
    pub(crate) root: Root,
    pub(crate) segments: Vec<String>,
}

/// The root of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Root {
    /// `/`
    Shared,
    /// `~`: the home of the caller.
    Own,
    /// `~alice`, by the object id of a user.
    Home(String),
}

impl GroupPath {
    /// Parses a path. The names of its segments are not checked here.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (root, rest) = match text.strip_prefix('~') {
            Some(rest) => {
                let (home, rest) = rest.split_once('/').unwrap_or((rest, ""));
                let root = if home.is_empty() { Root::Own } else { Root::Home(home.to_owned()) };
                (root, rest)
            }
            None => (Root::Shared, text.strip_prefix('/')?),
        };
        let rest = rest.strip_suffix('/').filter(|rest| !rest.is_empty()).unwrap_or(rest);
        let segments =
            if rest.is_empty() { Vec::new() } else { rest.split('/').map(str::to_owned).collect() };
        Some(Self { root, segments })
    }

    /// Returns the first segments of the path as records store it, where `~` is the home of the
    /// record's owner.
    pub(crate) fn stored(&self, segments: usize) -> String {
        let root = if self.root == Root::Shared { "/" } else { "~" };
        self.segments[..segments].iter().fold(root.to_owned(), |path, name| join(&path, name))
    }
}

impl fmt::Display for GroupPath {
    /// Writes the path as a caller writes it, with the home of another user by name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.stored(self.segments.len());
        match &self.root {
            Root::Home(id) => write!(f, "~{id}{}", path.strip_prefix('~').unwrap_or(&path)),
            Root::Own | Root::Shared => f.write_str(&path),
        }
    }
}

/// Returns the path of a name in a group.
pub(crate) fn join(group: &str, name: &str) -> String {
    if group == "/" { format!("/{name}") } else { format!("{group}/{name}") }
}

/// Returns the path of the parent of a group; None for a root.
pub(crate) fn parent(path: &str) -> Option<(&str, &str)> {
    let (parent, name) = path.rsplit_once('/')?;
    if name.is_empty() {
        return None;
    }
    Some((if parent.is_empty() { "/" } else { parent }, name))
}

/// Returns the unique name of a group path in a store: `am7://default?group=/Shared`, with the
/// owner for a home. No record has such a URI, so it also represents the readers of the group.
pub(crate) fn place(organization: &str, owner: Option<&str>, path: &str) -> String {
    match path.strip_prefix('~') {
        Some(rest) => {
            format!("am7://{organization}?home={}&group=~{rest}", owner.unwrap_or_default())
        }
        None => format!("am7://{organization}?group={path}"),
    }
}

impl Record {
    /// Returns the place that contains this record; `None` without a group.
    pub(crate) fn containing_place(&self) -> Option<String> {
        let group = self.group.as_ref()?;
        Some(place(&self.organization, self.owner.as_deref(), group))
    }

    /// Returns the place that this record is, if it is a group with a path.
    pub(crate) fn own_place(&self) -> Option<String> {
        debug_assert!(self.path().is_none() || self.kind == GROUP);
        Some(place(&self.organization, self.owner.as_deref(), &self.path()?))
    }
}

/// Returns whether a stored path is a root, which has no record.
pub(crate) fn is_root(path: &str) -> bool {
    matches!(path, "/" | "~")
}

/// Returns whether a path is valid in a record: `~` or `/`, then names.
pub(crate) fn is_stored(path: &str) -> bool {
    is_root(path)
        || path
            .strip_prefix('~')
            .unwrap_or(path)
            .strip_prefix('/')
            .is_some_and(|rest| rest.split('/').all(|name| !name.is_empty()))
}
