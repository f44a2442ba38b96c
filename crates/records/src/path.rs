//! Where records lie: paths of groups.

use std::fmt;

use crate::{Record, model::GROUP};

impl Record {
    /// Under which path others lie in it, if it is a group that has a place itself.
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

/// A group path as somebody wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupPath {
    pub(crate) root: Root,
    pub(crate) segments: Vec<String>,
}

/// Where a path begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Root {
    /// `/`
    Shared,
    /// `~`, whoever says it.
    Own,
    /// `~alice`, by the object id of a user.
    Home(String),
}

impl GroupPath {
    /// Takes a path apart. Whether its segments are good names is not looked at here.
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

    /// As records say it, whose owner's home `~` is; of its first segments only.
    pub(crate) fn stored(&self, segments: usize) -> String {
        let root = if self.root == Root::Shared { "/" } else { "~" };
        self.segments[..segments].iter().fold(root.to_owned(), |path, name| join(&path, name))
    }
}

impl fmt::Display for GroupPath {
    /// As its writer would say it: another's home by name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.stored(self.segments.len());
        match &self.root {
            Root::Home(id) => write!(f, "~{id}{}", path.strip_prefix('~').unwrap_or(&path)),
            Root::Own | Root::Shared => f.write_str(&path),
        }
    }
}

/// The path of something in a group.
pub(crate) fn join(group: &str, name: &str) -> String {
    if group == "/" { format!("/{name}") } else { format!("{group}/{name}") }
}

/// The path of the group around a group; None for a root.
pub(crate) fn parent(path: &str) -> Option<(&str, &str)> {
    let (parent, name) = path.rsplit_once('/')?;
    if name.is_empty() {
        return None;
    }
    Some((if parent.is_empty() { "/" } else { parent }, name))
}

/// One name for a place in all of a store: `am7://default?group=/Shared`, with the owner for a home. As no record has
/// such a URI, it also stands for those who read what lies there.
pub(crate) fn place(organization: &str, owner: Option<&str>, path: &str) -> String {
    match path.strip_prefix('~') {
        Some(rest) => {
            format!("am7://{organization}?home={}&group=~{rest}", owner.unwrap_or_default())
        }
        None => format!("am7://{organization}?group={path}"),
    }
}

impl Record {
    /// The place that it lies in; None if it lies nowhere.
    pub(crate) fn lies_in(&self) -> Option<String> {
        let group = self.group.as_ref()?;
        Some(place(&self.organization, self.owner.as_deref(), group))
    }

    /// The place that it is, if it is a group with a place.
    pub(crate) fn is_place(&self) -> Option<String> {
        debug_assert!(self.path().is_none() || self.kind == GROUP);
        Some(place(&self.organization, self.owner.as_deref(), &self.path()?))
    }
}

/// Whether a stored path is where everything begins, so that no record stands for it.
pub(crate) fn is_root(path: &str) -> bool {
    matches!(path, "/" | "~")
}

/// Whether a path is one that records may have: `~` or `/`, then names.
pub(crate) fn is_stored(path: &str) -> bool {
    is_root(path)
        || path
            .strip_prefix('~')
            .unwrap_or(path)
            .strip_prefix('/')
            .is_some_and(|rest| rest.split('/').all(|name| !name.is_empty()))
}
