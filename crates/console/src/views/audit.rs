use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use marquetry_apps_ext::host::AuditRecord;
use serde_json::{Value, json};

use crate::{Audience, Events, Viewer, calls::now_ms};

/// Records that are kept of all Views together.
const MAX_RECORDS: usize = 4_000;

/// The audit log of Views: one record for each message, without its text.
pub(super) struct AuditLog {
    records: Mutex<VecDeque<Logged>>,
    events: Arc<Events>,
}

/// The View whose messages are logged.
pub(super) struct LoggedView<'a> {
    pub(super) number: u64,
    /// The number of the message among those of the View.
    pub(super) sequence: u64,
    pub(super) tool: &'a str,
    pub(super) owner: Option<&'a str>,
    pub(super) call: Option<&'a str>,
}

struct Logged {
    owner: Option<String>,
    call: Option<String>,
    shown: Value,
}

impl AuditLog {
    pub(super) fn new(events: Arc<Events>) -> Self {
        Self { records: Mutex::default(), events }
    }

    /// Adds a record, tells pages of it, and writes a line to the program's log. The bridge bounds how many messages a View sends.
    pub(super) fn push(&self, view: &LoggedView<'_>, record: &AuditRecord) {
        let LoggedView { number, sequence, tool, owner, call } = *view;
        tracing::debug!(
            view = number,
            tool,
            owner,
            call,
            direction = ?record.direction,
            kind = ?record.kind,
            method = record.method,
            bytes = record.bytes,
            verdict = ?record.verdict,
            "message of a View"
        );
        let mut shown = json!(record);
        shown["at"] = json!(now_ms());
        shown["view"] = json!(number);
        shown["sequence"] = json!(sequence);
        shown["tool"] = json!(tool);
        shown["call"] = json!(call);
        self.add(owner, call, shown);
    }

    /// Adds a record of a View whose document was refused, and warns in the program's log. `why` is bounded.
    pub(super) fn push_refused(&self, view: &LoggedView<'_>, why: &str) {
        let LoggedView { number, sequence, tool, owner, call } = *view;
        tracing::warn!(view = number, tool, owner, call, why, "the document of a View is refused");
        let shown = json!({
            "at": now_ms(),
            "direction": "from-server",
            "kind": "result",
            "method": "resources/read",
            "bytes": 0,
            "verdict": {"is": "refused", "why": why},
            "view": number,
            "sequence": sequence,
            "tool": tool,
            "call": call,
        });
        self.add(owner, call, shown);
    }

    fn add(&self, owner: Option<&str>, call: Option<&str>, shown: Value) {
        let audience = || Audience::Owner(owner.map(str::to_owned));
        self.events.push("view.message", audience, || &shown);
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        if records.len() == MAX_RECORDS {
            records.pop_front();
        }
        let (owner, call) = (owner.map(str::to_owned), call.map(str::to_owned));
        records.push_back(Logged { owner, call, shown });
    }

    /// The newest `most` records that the viewer may see, oldest first; those of one call if it is named.
    pub(super) fn list(&self, viewer: &Viewer, call: Option<&str>, most: usize) -> Vec<Value> {
        let records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = records.iter().rev().filter(|record| {
            viewer.sees(record.owner.as_deref())
                && call.is_none_or(|call| record.call.as_deref() == Some(call))
        });
        let mut shown: Vec<_> = seen.take(most).map(|record| record.shown.clone()).collect();
        shown.reverse();
        shown
    }
}
