//! Questions of upstreams that wait for an answer, for pages that are opened meanwhile.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde_json::Value;

use crate::Viewer;

/// Maximum number of questions that are stored; beyond it, the oldest are dropped. The gateway also
/// bounds the number of open questions.
const MAX_OPEN: usize = 1_000;

/// The open questions, by their numbers.
#[derive(Default)]
pub(crate) struct OpenQuestions(Mutex<BTreeMap<u64, OpenQuestion>>);

struct OpenQuestion {
    owner: Option<String>,
    event: Value,
}

impl OpenQuestions {
    /// Adds a question, with its event.
    pub(crate) fn opened(&self, number: u64, owner: Option<&str>, event: Value) {
        let mut open = self.lock();
        open.insert(number, OpenQuestion { owner: owner.map(str::to_owned), event });
        if open.len() > MAX_OPEN {
            open.pop_first();
        }
    }

    /// Removes a question that was answered or given up.
    pub(crate) fn closed(&self, number: u64) {
        self.lock().remove(&number);
    }

    /// Returns the events of those questions that a viewer may see, oldest first.
    pub(crate) fn of(&self, viewer: &Viewer) -> Vec<Value> {
        let open = self.lock();
        let seen = open.values().filter(|it| viewer.sees(it.owner.as_deref()));
        seen.map(|it| it.event.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, OpenQuestion>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_oldest_of_too_many_are_forgotten() {
        let open = OpenQuestions::default();
        let max = MAX_OPEN as u64;
        for number in 0..=max {
            open.opened(number, None, json!(number));
        }
        let kept = open.of(&Viewer::everything());
        assert_eq!((kept.len(), &kept[0]), (MAX_OPEN, &json!(1)));
        (1..=max).for_each(|number| open.closed(number));
        assert!(open.of(&Viewer::everything()).is_empty());
    }
}
