//! Requests of the host that wait for an answer of the View.

use std::{collections::BTreeMap, time::Duration};

use marquetry_protocol::RequestId;

/// The host's requests that wait for an answer of the View.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    waiting: BTreeMap<u64, Asked>,
    next: u64,
}

/// A request of the host that waits.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) what: Question,
    pub(super) deadline: Duration,
}

/// The kind of a request of the host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Question {
    Teardown,
    Ping,
    ListTools,
    CallTool { call: u64 },
}

impl Outgoing {
    /// Adds a request, and returns its id.
    pub(super) fn add(&mut self, what: Question, deadline: Duration) -> u64 {
        self.next += 1;
        self.waiting.insert(self.next, Asked { what, deadline });
        self.next
    }

    pub(super) fn take(&mut self, id: Option<&RequestId>) -> Option<Asked> {
        match id {
            Some(RequestId::Number(number)) => self.waiting.remove(&number.as_u64()?),
            _ => None,
        }
    }

    /// Removes and returns the requests whose deadline has passed.
    pub(super) fn take_overdue(&mut self, now: Duration) -> Vec<(u64, Asked)> {
        self.waiting.extract_if(.., |_, asked| asked.deadline <= now).collect()
    }

    pub(super) fn drain(&mut self) -> Vec<Asked> {
        std::mem::take(&mut self.waiting).into_values().collect()
    }

    pub(super) fn calls(&self) -> usize {
        self.waiting.values().filter(|it| matches!(it.what, Question::CallTool { .. })).count()
    }

    pub(super) fn find_call(&self, call: u64) -> Option<u64> {
        let what = Question::CallTool { call };
        self.waiting.iter().find(|(_, asked)| asked.what == what).map(|(id, _)| *id)
    }

    pub(super) fn remove(&mut self, id: u64) {
        self.waiting.remove(&id);
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        self.waiting.values().map(|asked| asked.deadline).min()
    }
}
