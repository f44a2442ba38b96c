//! Which upstream a resource link came from.

use std::{
    borrow::Cow,
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use serde::Deserialize;
use serde_json::value::RawValue;

/// URIs of the resource links in tool answers with the index of their upstream; the oldest is forgotten first.
pub(crate) struct LinkRoutes {
    upstreams: HashMap<Arc<str>, usize>,
    order: VecDeque<Arc<str>>,
    most: usize,
}

impl LinkRoutes {
    /// Remembers at most `most` links.
    pub(crate) fn new(most: usize) -> Self {
        Self { upstreams: HashMap::new(), order: VecDeque::new(), most }
    }

    /// Remembers that `upstream` gave a link to `uri`.
    pub(crate) fn remember(&mut self, uri: &str, upstream: usize) {
        if self.upstreams.contains_key(uri) {
            self.upstreams.insert(uri.into(), upstream);
            return;
        }
        if self.order.len() >= self.most
            && let Some(oldest) = self.order.pop_front()
        {
            self.upstreams.remove(&oldest);
        }
        let uri: Arc<str> = uri.into();
        self.order.push_back(uri.clone());
        self.upstreams.insert(uri, upstream);
    }

    /// The upstream that gave a link to `uri`.
    pub(crate) fn get(&self, uri: &str) -> Option<usize> {
        self.upstreams.get(uri).copied()
    }
}

/// The longest URI that is remembered, in bytes: so [`LinkRoutes`] is bounded in bytes as well.
const MAX_URI_BYTES: usize = 2_048;

/// Answers of up to this size are looked through where they arrive, in well under a millisecond.
const QUICK_BYTES: usize = 256 << 10;

/// An answer, and the URIs that it links to; a large one is looked through where that keeps nobody waiting.
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

/// The URIs that a tool answer links to, but for those too long to be remembered.
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
    // Item by item: what is wrong with one takes nothing from the others.
    let links = answer.content.into_iter().filter_map(|item| {
        let link: Link<'_> = serde_json::from_str(item.get()).ok()?;
        let fits = link.kind == "resource_link" && link.uri.len() <= MAX_URI_BYTES;
        fits.then(|| link.uri.into_owned())
    });
    links.collect()
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn the_oldest_is_forgotten() {
        let mut routes = LinkRoutes::new(2);
        for (uri, upstream) in [("a", 0), ("b", 1), ("a", 2), ("c", 3)] {
            routes.remember(uri, upstream);
        }
        assert_eq!((routes.get("a"), routes.get("b"), routes.get("c")), (None, Some(1), Some(3)));
    }
}
