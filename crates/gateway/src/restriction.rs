//! What a caller may see of a catalog.

use std::sync::Arc;

use marquetry_policy::{Decision, Grants, Item, ItemKind, Policy};

/// What restricts a catalog to the view of a caller.
pub(crate) struct Restriction {
    pub(crate) policy: Arc<Policy>,
    pub(crate) grants: Grants,
    /// The names of the upstreams, by their numbers.
    pub(crate) names: Vec<String>,
}

impl Restriction {
    /// Returns the name of an upstream.
    pub(crate) fn name(&self, upstream: usize) -> &str {
        self.names.get(upstream).map_or("", String::as_str)
    }

    /// Returns what decides about an item.
    pub(crate) fn decide(&self, item: &Item<'_>) -> Decision {
        self.policy.decide(&self.grants, item)
    }

    /// Returns whether the caller may see that an upstream exists.
    pub(crate) fn shows_upstream(&self, upstream: usize) -> bool {
        self.policy.shows_upstream(&self.grants, self.name(upstream))
    }

    /// Returns whether the caller may see an item of an upstream.
    pub(crate) fn lists(&self, kind: ItemKind, upstream: usize, name: &str) -> bool {
        self.decide(&item(kind, self.name(upstream), name)).is_listed()
    }
}

/// Returns an item of an upstream.
pub(crate) fn item<'a>(kind: ItemKind, upstream: &'a str, name: &'a str) -> Item<'a> {
    match kind {
        ItemKind::Prompt => Item::prompt(upstream, name),
        ItemKind::Resource => Item::resource(upstream, name),
        _ => Item::tool(upstream, name),
    }
}
