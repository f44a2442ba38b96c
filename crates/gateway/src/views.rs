//! Assigns the URIs under which the Views of upstreams are offered.

use std::collections::HashMap;

use marquetry_apps_ext::types::{UI_SCHEME, UiUri};

use crate::names::is_name_char;

/// The start of the URIs of this server's own Views.
const RESERVED_PREFIX: &str = "ui://marquetry/";

/// Routes between the URIs of Views that clients see and those at the upstreams.
///
/// A View belongs to its upstream: a tool, its View and the tools that the View calls are of one
/// upstream. So a URI that two upstreams have is offered twice: unchanged for the first upstream,
/// and below the name of the second one. A URI stays with its upstream while that upstream has it,
/// so that an upstream that starts later cannot replace the View of another upstream's tool.
#[derive(Debug, Default)]
pub(crate) struct ViewRoutes {
    /// Upstream and URI there, by the URI that clients see.
    offered: HashMap<String, (usize, UiUri)>,
    /// The URI that clients see, by the upstream and the URI there.
    exposed: HashMap<(usize, UiUri), UiUri>,
}

impl ViewRoutes {
    /// Creates the routes of the Views of all upstreams, each with the upstream's index and name,
    /// in the order of the configuration. Views that have a URI in `before` keep it.
    pub(crate) fn new<'a>(
        views: impl IntoIterator<Item = (usize, &'a str, UiUri)>,
        before: Option<&Self>,
    ) -> Self {
        let mut routes = Self::default();
        let mut new_views = Vec::new();
        for (upstream, name, uri) in views {
            match before.and_then(|before| before.exposed(upstream, &uri)) {
                Some(exposed) => routes.add(exposed.clone(), upstream, uri),
                None => new_views.push((upstream, name, uri)),
            }
        }
        for (upstream, name, uri) in new_views {
            if routes.exposed(upstream, &uri).is_none()
                && let Some(exposed) = routes.unused_uri(name, &uri)
            {
                routes.add(exposed, upstream, uri);
            }
        }
        routes
    }

    fn add(&mut self, exposed: UiUri, upstream: usize, uri: UiUri) {
        self.offered.insert(exposed.as_str().to_owned(), (upstream, uri.clone()));
        self.exposed.insert((upstream, uri), exposed);
    }

    /// Returns a URI that no View has: `uri` itself, or one below the name of its upstream. `None`
    /// if it would be too long.
    fn unused_uri(&self, upstream: &str, uri: &UiUri) -> Option<UiUri> {
        if self.is_unused(uri.as_str()) {
            return Some(uri.clone());
        }
        let name: String =
            upstream.chars().map(|c| if is_name_char(c) { c } else { '_' }).collect();
        let rest = uri.as_str().strip_prefix(UI_SCHEME)?;
        let numbered = (2..).map(|number| format!("{UI_SCHEME}{name}~{number}/{rest}"));
        let candidates = std::iter::once(format!("{UI_SCHEME}{name}/{rest}")).chain(numbered);
        // Each View has one URI, so at least one of these candidates is unused.
        let mut candidates = candidates.take(self.offered.len() + 2);
        UiUri::new(candidates.find(|uri| self.is_unused(uri))?).ok()
    }

    fn is_unused(&self, uri: &str) -> bool {
        !uri.starts_with(RESERVED_PREFIX) && !self.offered.contains_key(uri)
    }

    /// Returns the Views for which `is_kept` returns true, by the upstream and the URI there.
    pub(crate) fn filtered(&self, is_kept: impl Fn(usize, &UiUri) -> bool) -> Self {
        let mut routes = Self::default();
        for ((upstream, uri), exposed) in &self.exposed {
            if is_kept(*upstream, uri) {
                routes.add(exposed.clone(), *upstream, uri.clone());
            }
        }
        routes
    }

    /// Returns the upstream of a View that clients see, and the View's URI there.
    pub(crate) fn owner(&self, exposed: &str) -> Option<(usize, &UiUri)> {
        self.offered.get(exposed).map(|(upstream, uri)| (*upstream, uri))
    }

    /// Returns the URI that clients see.
    pub(crate) fn exposed(&self, upstream: usize, uri: &UiUri) -> Option<&UiUri> {
        self.exposed.get(&(upstream, uri.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(views: &[(usize, &str)], before: Option<&ViewRoutes>) -> ViewRoutes {
        let views = views.iter().map(|&(upstream, uri)| {
            (upstream, ["a", "b b", "c"][upstream], UiUri::new(uri).unwrap())
        });
        ViewRoutes::new(views, before)
    }

    #[track_caller]
    fn check(routes: &ViewRoutes, upstream: usize, uri: &str, want: &str) {
        let uri = UiUri::new(uri).unwrap();
        let exposed = routes.exposed(upstream, &uri).unwrap();
        assert_eq!(exposed.as_str(), want);
        assert_eq!(routes.owner(want), Some((upstream, &uri)));
    }

    #[test]
    fn a_uri_of_two_upstreams_is_offered_twice() {
        let views = [(0, "ui://x"), (0, "ui://x"), (1, "ui://x"), (1, "ui://y"), (2, "ui://x")];
        let routes = routes(&views, None);
        check(&routes, 0, "ui://x", "ui://x");
        check(&routes, 1, "ui://x", "ui://b_b/x");
        check(&routes, 1, "ui://y", "ui://y");
        check(&routes, 2, "ui://x", "ui://c/x");
        assert_eq!(routes.offered.len(), 4);
    }

    #[test]
    fn a_number_is_added_if_the_uri_below_a_name_is_in_use() {
        let views =
            [(0, "ui://x"), (0, "ui://c/x"), (0, "ui://c~2/x"), (2, "ui://x"), (2, "ui://c/x")];
        let routes = routes(&views, None);
        check(&routes, 2, "ui://x", "ui://c~3/x");
        check(&routes, 2, "ui://c/x", "ui://c/c/x");
    }

    #[test]
    fn the_views_of_this_server_keep_their_uris() {
        let routes = routes(&[(0, "ui://marquetry/diagram.html")], None);
        check(&routes, 0, "ui://marquetry/diagram.html", "ui://a/marquetry/diagram.html");
    }

    #[test]
    fn a_uri_stays_with_its_upstream() {
        let first = routes(&[(1, "ui://x")], None);
        let second = routes(&[(0, "ui://x"), (1, "ui://x")], Some(&first));
        check(&second, 1, "ui://x", "ui://x");
        check(&second, 0, "ui://x", "ui://a/x");
        // When the first upstream no longer has the URI, it is free; the other upstream keeps the
        // URI that clients know.
        let third = routes(&[(0, "ui://x"), (2, "ui://x")], Some(&second));
        check(&third, 0, "ui://x", "ui://a/x");
        check(&third, 2, "ui://x", "ui://x");
    }

    #[test]
    fn a_uri_that_would_be_too_long_is_not_offered() {
        let longest = format!("ui://{}", "x".repeat(UiUri::MAX_BYTES - 5));
        let routes = routes(&[(0, &longest), (1, &longest)], None);
        let uri = UiUri::new(longest.as_str()).unwrap();
        assert!(routes.exposed(0, &uri).is_some() && routes.exposed(1, &uri).is_none());
    }
}
