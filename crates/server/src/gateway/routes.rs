//! Which upstream a resource link came from.

use std::{
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

/// The URIs that a tool answer links to.
pub(crate) fn links(answer: &RawValue) -> Vec<String> {
    #[derive(Deserialize)]
    struct Answer {
        #[serde(default)]
        content: Vec<Item>,
    }
    #[derive(Deserialize)]
    struct Item {
        #[serde(rename = "type")]
        kind: Option<String>,
        uri: Option<String>,
    }
    // Answers can be large, and few have links.
    if !answer.get().contains("resource_link") {
        return Vec::new();
    }
    let Ok(answer) = serde_json::from_str::<Answer>(answer.get()) else { return Vec::new() };
    let links =
        answer.content.into_iter().filter(|item| item.kind.as_deref() == Some("resource_link"));
    links.filter_map(|item| item.uri).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found() {
        let answer = r#"{"content":[{"type":"text","text":"x"},{"type":"resource_link","uri":"a:b","name":"b"}]}"#;
        let answer: Box<RawValue> = RawValue::from_string(answer.to_owned()).unwrap();
        assert_eq!(links(&answer), ["a:b"]);
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
