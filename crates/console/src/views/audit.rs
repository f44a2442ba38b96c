//! The audit log: records of the messages of all Views.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use marquetry_apps_ext::host::AuditRecord;
use serde_json::{Value, json};

use super::blocked::Blocked;
use crate::{Audience, Events, Viewer, calls::now_ms};

/// Maximum number of records for all Views together.
const MAX_RECORDS: usize = 4_000;
/// Maximum number of records for the Views of one principal, so that they cannot displace all
/// records of others.
const MAX_RECORDS_PER_OWNER: usize = MAX_RECORDS / 4;

/// The audit log of Views: one record for each message, without its text.
pub(super) struct AuditLog {
    log: Mutex<RecentRecords>,
    events: Arc<Events>,
}

#[derive(Default)]
struct RecentRecords {
    records: VecDeque<OwnedRecord>,
    /// The number of records of each principal.
    counts: BTreeMap<Option<String>, usize>,
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

struct OwnedRecord {
    owner: Option<String>,
    call: Option<String>,
    /// The record as pages receive it.
    shown: Value,
}

impl AuditLog {
    pub(super) fn new(events: Arc<Events>) -> Self {
        Self { log: Mutex::default(), events }
    }

    /// Adds a record, sends it to open pages, and writes a line to the program's log. The bridge
    /// limits the number of messages that a View sends.
    pub(super) fn push(&self, view: &LoggedView<'_>, record: &AuditRecord) {
        let LoggedView { number, tool, owner, call, .. } = *view;
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
        self.add(view, json!(record));
    }

    /// Adds a record of a View whose document was refused, and warns in the program's log. `why`
    /// must be short.
    pub(super) fn push_refused(&self, view: &LoggedView<'_>, why: &str) {
        let LoggedView { number, tool, owner, call, .. } = *view;
        tracing::warn!(view = number, tool, owner, call, why, "the document of a View was refused");
        self.add(
            view,
            json!({
                "direction": "from-server",
                "kind": "result",
                "method": "resources/read",
                "bytes": 0,
                "verdict": {"is": "refused", "why": why},
            }),
        );
    }

    /// Adds a record of a source that the policy of a View has blocked.
    pub(super) fn push_blocked(&self, view: &LoggedView<'_>, blocked: &Blocked) {
        let LoggedView { number, tool, owner, call, .. } = *view;
        let why = blocked.text();
        tracing::debug!(view = number, tool, owner, call, why, "the policy of a View has blocked");
        self.add(
            view,
            json!({
                "direction": "from-browser",
                "kind": "blocked",
                "method": blocked.directive,
                "bytes": 0,
                "verdict": {"is": "refused", "why": why},
            }),
        );
    }

    /// Completes a record with its time and its View, and adds it.
    fn add(&self, view: &LoggedView<'_>, mut shown: Value) {
        let LoggedView { number, sequence, tool, owner, call } = *view;
        shown["at"] = json!(now_ms());
        shown["view"] = json!(number);
        shown["sequence"] = json!(sequence);
        shown["tool"] = json!(tool);
        shown["call"] = json!(call);
        self.events.push("view.message", || Audience::Owner(owner.map(str::to_owned)), || &shown);
        let owner = owner.map(str::to_owned);
        let call = call.map(str::to_owned);
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.push(OwnedRecord { owner, call, shown });
    }

    /// Returns the newest `max` records that the viewer may see, oldest first: those of one call,
    /// or of all.
    pub(super) fn list(&self, viewer: &Viewer, call: Option<&str>, max: usize) -> Vec<Value> {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = log.records.iter().rev().filter(|record| {
            viewer.sees(record.owner.as_deref())
                && call.is_none_or(|call| record.call.as_deref() == Some(call))
        });
        let mut shown: Vec<_> = seen.take(max).map(|record| record.shown.clone()).collect();
        shown.reverse();
        shown
    }
}

impl RecentRecords {
    /// Adds a record. If the log is full, drops the oldest record: of the same principal if it has
    /// many, otherwise of all principals.
    fn push(&mut self, record: OwnedRecord) {
        let count = self.counts.get(&record.owner).copied().unwrap_or_default();
        // Without authentication all viewers count as one.
        let oldest = if record.owner.is_some() && count == MAX_RECORDS_PER_OWNER {
            self.records.iter().position(|it| it.owner == record.owner)
        } else {
            (self.records.len() == MAX_RECORDS).then_some(0)
        };
        if let Some(old) = oldest.and_then(|at| self.records.remove(at))
            && let Some(count) = self.counts.get_mut(&old.owner)
        {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&old.owner);
            }
        }
        *self.counts.entry(record.owner.clone()).or_default() += 1;
        self.records.push_back(record);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_principal_cannot_displace_all_records_of_others() {
        fn push(log: &mut RecentRecords, owner: Option<&str>, number: usize) {
            log.push(OwnedRecord {
                owner: owner.map(str::to_owned),
                call: None,
                shown: json!(number),
            });
        }
        fn shown(log: &RecentRecords, owner: Option<&str>) -> Vec<Value> {
            let owned = log.records.iter().filter(|it| it.owner.as_deref() == owner);
            owned.map(|it| it.shown.clone()).collect()
        }
        let mut log = RecentRecords::default();
        push(&mut log, Some("anna"), 0);
        (0..10_000).for_each(|number| push(&mut log, Some("bert"), number));
        (0..100).for_each(|number| push(&mut log, None, number));
        assert_eq!(shown(&log, Some("anna")), [json!(0)]);
        let of_bert = shown(&log, Some("bert"));
        assert_eq!((of_bert.len(), &of_bert[0]), (1_000, &json!(9_000)));
        assert_eq!(shown(&log, None).len(), 100);
        (0..10_000).for_each(|number| push(&mut log, None, number));
        assert_eq!(log.records.len(), MAX_RECORDS);
        assert_eq!(log.counts, BTreeMap::from([(None, MAX_RECORDS)]));
    }
}
