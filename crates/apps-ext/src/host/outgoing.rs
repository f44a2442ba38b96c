//! Requests of the host that wait for an answer of the View.

use std::{collections::BTreeMap, time::Duration};

use marquetry_protocol::RequestId;

/// The host's requests that wait for an answer of the View.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    waiting: BTreeMap<u64, SentRequest>,
    next: u64,
}

/// A request of the host that waits.
#[derive(Clone, Debug)]
pub(super) struct SentRequest {
    pub(super) what: RequestKind,
    pub(super) deadline: Duration,
}

/// The kind of a request of the host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum RequestKind {
    Teardown,
    Ping,
    ListTools,
    CallTool { call: u64 },
}

impl Outgoing {
    /// Adds a request, and returns its id.
    pub(super) fn add(&mut self, what: RequestKind, deadline: Duration) -> u64 {
        self.next += 1;
        self.waiting.insert(self.next, SentRequest { what, deadline });
        self.next
    }

    pub(super) fn take(&mut self, id: Option<&RequestId>) -> Option<SentRequest> {
        match id {
            Some(RequestId::Number(number)) => self.waiting.remove(&number.as_u64()?),
            _ => None,
        }
    }

    /// Removes and returns the requests whose deadline has passed.
    pub(super) fn take_overdue(&mut self, now: Duration) -> Vec<(u64, SentRequest)> {
        self.waiting.extract_if(.., |_, asked| asked.deadline <= now).collect()
    }

    pub(super) fn drain(&mut self) -> Vec<SentRequest> {
        std::mem::take(&mut self.waiting).into_values().collect()
    }

    pub(super) fn calls(&self) -> usize {
        self.waiting.values().filter(|it| matches!(it.what, RequestKind::CallTool { .. })).count()
    }

    pub(super) fn find_call(&self, call: u64) -> Option<u64> {
        let what = RequestKind::CallTool { call };
        self.waiting.iter().find(|(_, asked)| asked.what == what).map(|(id, _)| *id)
    }

    pub(super) fn remove(&mut self, id: u64) {
        self.waiting.remove(&id);
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        self.waiting.values().map(|asked| asked.deadline).min()
    }
}
