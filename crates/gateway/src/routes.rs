//! The upstream that a resource link came from.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
};

use marquetry_in_flight::Owner;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The URIs of the resource links in tool answers, with the index of their upstream, separately for
/// each owner: no other user may follow a link.
///
/// At the limit of one owner, its oldest link is dropped. At the limit of all owners, the one that
/// used its links longest ago loses all of them.
pub(crate) struct LinkRoutes {
    owners: HashMap<Owner, Links>,
    /// The owners, ordered by their last use.
    by_use: BTreeMap<u64, Owner>,
    uses: u64,
    count: usize,
    max: usize,
    max_per_owner: usize,
}

/// The links of one owner.
#[derive(Default)]
struct Links {
    upstreams: HashMap<Arc<str>, usize>,
    /// The oldest first.
    order: VecDeque<Arc<str>>,
    /// The number of the last use.
    used: u64,
}

impl LinkRoutes {
    /// Creates routes for at most `max` links, with at most `max_per_owner` for one owner.
    pub(crate) fn new(max: usize, max_per_owner: usize) -> Self {
        Self {
            owners: HashMap::new(),
            by_use: BTreeMap::new(),
            uses: 0,
            count: 0,
            max,
            max_per_owner,
        }
    }

    /// Records that `upstream` gave `owner` a link to `uri`. If another upstream gave the same URI
    /// before, it stays with that one, so that no upstream can take over the reads of another.
    pub(crate) fn remember(&mut self, owner: &Owner, uri: &str, upstream: usize) {
        let max_per_owner = self.max_per_owner.min(self.max);
        let links = self.used(owner);
        if links.upstreams.contains_key(uri) {
            return;
        }
        let mut added = 1;
        if links.order.len() >= max_per_owner
            && let Some(oldest) = links.order.pop_front()
        {
            links.upstreams.remove(&oldest);
            added = 0;
        }
        let uri: Arc<str> = uri.into();
        links.order.push_back(uri.clone());
        links.upstreams.insert(uri, upstream);
        self.count += added;
        while self.count > self.max
            && let Some((_, idlest)) = self.by_use.pop_first()
        {
            let forgotten = self.owners.remove(&idlest);
            self.count -= forgotten.map_or(0, |links| links.order.len());
        }
    }

    /// Returns the upstream that gave `owner` a link to `uri`.
    pub(crate) fn get(&mut self, owner: &Owner, uri: &str) -> Option<usize> {
        let upstream = self.owners.get(owner)?.upstreams.get(uri).copied();
        self.used(owner);
        upstream
    }

    /// Returns the links of an owner, and records this as their last use.
    fn used(&mut self, owner: &Owner) -> &mut Links {
        self.uses += 1;
        let links = self.owners.entry(owner.clone()).or_default();
        self.by_use.remove(&links.used);
        links.used = self.uses;
        self.by_use.insert(self.uses, owner.clone());
        links
    }
}

/// The longest URI that is stored, in bytes. It bounds the memory of [`LinkRoutes`].
const MAX_URI_BYTES: usize = 2_048;

/// Answers up to this size are searched in place, in less than a millisecond.
const QUICK_BYTES: usize = 256 << 10;

/// Returns an answer with the URIs that it links to. A large answer is searched on a thread for
/// blocking work, so that other requests do not wait.
pub(crate) async fn with_links(answer: Box<RawValue>) -> (Box<RawValue>, Vec<String>) {
    if answer.get().len() <= QUICK_BYTES {
        let links = links(&answer);
        return (answer, links);
    }
    let search = tokio::task::spawn_blocking(move || {
        let links = links(&answer);
        (answer, links)
    });
    search.await.expect("looking for links does not panic, and is not cancelled while awaited")
}

/// Returns the URIs that a tool answer links to, without those that are too long to be stored.
fn links(answer: &RawValue) -> Vec<String> {
    #[derive(Deserialize)]
    struct Answer<'a> {
        #[serde(default, borrow)]
        content: Vec<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Link<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
        #[serde(borrow)]
        uri: Cow<'a, str>,
    }
    // Answers can be large, and few have links.
    if !answer.get().contains("resource_link") {
        return Vec::new();
    }
    let Ok(answer) = serde_json::from_str::<Answer<'_>>(answer.get()) else { return Vec::new() };
    // Item by item, so that a malformed item does not affect the others.
    let links = answer.content.into_iter().filter_map(|item| {
        let link: Link<'_> = serde_json::from_str(item.get()).ok()?;
        let fits = link.kind == "resource_link" && link.uri.len() <= MAX_URI_BYTES;
        fits.then(|| link.uri.into_owned())
    });
    links.collect()
}

#[cfg(test)]
mod tests {
    use marquetry_protocol::server::{Caller, Principal};
    use serde_json::json;

    use super::*;

    #[test]
    fn links_are_found() {
        let answer = r#"{"content":[{"type":"text","text":"x"},{"type":"resource_link","uri":"a:b","name":"b"}]}"#;
        let answer: Box<RawValue> = RawValue::from_string(answer.to_owned()).unwrap();
        assert_eq!(links(&answer), ["a:b"]);
    }

    #[test]
    fn an_item_at_fault_and_a_uri_too_long_are_passed_over() {
        let long = "x".repeat(MAX_URI_BYTES + 1);
        let answer = json!({"content": [
            {"type": "resource_link", "uri": 7}, {"type": "resource_link"}, 3, {"type": "resource_link", "uri": long},
            {"type": "resource_link", "uri": "a:\n"}, {"uri": "b:"},
        ]});
        let answer = RawValue::from_string(answer.to_string()).unwrap();
        assert_eq!(links(&answer), ["a:\n"]);
    }

    #[tokio::test]
    async fn large_answers_are_looked_through_too() {
        let answer = json!({"content": [
            {"type": "text", "text": "x".repeat(QUICK_BYTES)}, {"type": "resource_link", "uri": "a:b"},
        ]});
        let answer = RawValue::from_string(answer.to_string()).unwrap();
        let text = answer.get().to_owned();
        let (answer, links) = with_links(answer).await;
        assert_eq!((answer.get(), links), (text.as_str(), vec!["a:b".to_owned()]));
    }

    fn principal(name: &str) -> Owner {
        Owner::Caller(Caller::Principal(Principal::new(None, name).into()))
    }

    #[test]
    fn an_owner_loses_its_oldest_link() {
        let mut routes = LinkRoutes::new(100, 2);
        let ann = principal("ann");
        for (uri, upstream) in [("a", 0), ("b", 1), ("c", 3)] {
            routes.remember(&ann, uri, upstream);
        }
        let found = ["a", "b", "c"].map(|uri| routes.get(&ann, uri));
        assert_eq!((found, routes.count), ([None, Some(1), Some(3)], 2));
    }

    #[test]
    fn links_belong_to_their_owner_and_to_their_first_upstream() {
        let mut routes = LinkRoutes::new(100, 10);
        let ann = principal("ann");
        let bob = Owner::Caller(Caller::Local);
        routes.remember(&ann, "a", 0);
        routes.remember(&ann, "a", 1);
        routes.remember(&bob, "b", 2);
        assert_eq!((routes.get(&ann, "a"), routes.get(&ann, "b")), (Some(0), None));
        assert_eq!((routes.get(&bob, "a"), routes.get(&bob, "b")), (None, Some(2)));
    }

    #[test]
    fn the_least_recently_used_owner_loses_its_links() {
        let mut routes = LinkRoutes::new(4, 3);
        let [ann, bob, eve] = ["ann", "bob", "eve"].map(principal);
        for (agent, uri) in [(&ann, "a"), (&bob, "b"), (&bob, "c"), (&ann, "d")] {
            routes.remember(agent, uri, 0);
        }
        assert_eq!(routes.get(&bob, "b"), Some(0));
        for uri in ["e", "f", "g", "h", "i"] {
            routes.remember(&eve, uri, 1);
        }
        let found = [(&ann, "a"), (&bob, "b"), (&eve, "e"), (&eve, "f"), (&eve, "g"), (&eve, "i")];
        let found = found.map(|(agent, uri)| routes.get(agent, uri).is_some());
        assert_eq!(found, [false, false, false, false, true, true]);
        assert_eq!((routes.count, routes.owners.len(), routes.by_use.len()), (3, 1, 1));
    }
}
