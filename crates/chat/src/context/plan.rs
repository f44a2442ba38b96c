//! Selects the blocks that go to the model: deduplication, budget and order.

use std::collections::BTreeSet;

use marquetry_context_blocks::{Builder, Context};
use marquetry_knowledge::{ErrorCode, Failure};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::item::{ContextKind, Entry};

/// Context that the model did not get with a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OmittedContext {
    /// "reminder", "keyframe", "metrics" or "citations".
    pub kind: String,
    /// URI of the block.
    pub uri: String,
    /// Why it was left out.
    pub reason: String,
}

impl OmittedContext {
    fn of(entry: &Entry, reason: impl Into<String>) -> Self {
        Self { kind: entry.kind.name().to_owned(), uri: entry.uri.clone(), reason: reason.into() }
    }
}

/// The blocks that go to the model.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Reminders, those of all chats first, and the newest keyframe. They belong between system
    /// prompt and history.
    pub(crate) before_history: String,
    /// Metrics. They belong between history and citations.
    pub(crate) metrics: String,
    /// Bytes of the budget that are left for citations.
    pub(crate) room: usize,
    /// The blocks that were left out.
    pub(crate) left_out: Vec<OmittedContext>,
    /// The first block that was left out because it did not fit.
    pub(crate) too_large: Option<OmittedContext>,
    /// Kind and URI of each block, in the order of the prompt.
    pub(crate) sent: Vec<(ContextKind, String)>,
}

/// Chooses blocks within `max_bytes`. The budget is spent on metrics, reminders and the newest
/// keyframe, in this order; a block that does not fit is left out whole.
///
/// A reminder of the call counts before one of the chat, and that before one of the user; among
/// equals the newest counts first. A key that an earlier one has is removed from a later one. Equal
/// metrics are put once.
pub(crate) fn plan(given: Vec<Entry>, stored: Vec<Entry>, max_bytes: usize) -> Plan {
    let mut plan = Plan { room: max_bytes, ..Plan::default() };
    let mut metrics = Vec::new();
    let mut reminders = Vec::new();
    let mut keyframes = Vec::new();
    let given_count = given.len();
    for (index, entry) in given.into_iter().chain(stored).enumerate() {
        match entry.kind {
            ContextKind::Metrics => metrics.push(entry),
            ContextKind::Reminder => reminders.push((index >= given_count, entry)),
            ContextKind::Keyframe => keyframes.push((index >= given_count, entry)),
        }
    }
    let metrics = plan.fitting(without_duplicates(metrics), max_bytes);
    reminders.sort_by_key(|(is_stored, entry)| {
        (*is_stored, !entry.is_of_chat, std::cmp::Reverse(entry.time))
    });
    let sorted = reminders.into_iter().map(|(_, entry)| entry).collect();
    let unique = plan.with_unique_keys(sorted);
    let mut sent_reminders = plan.fitting(unique, max_bytes);
    // The most specific reminder comes last, where a model heeds it most.
    sent_reminders.reverse();
    let newest_keyframe = plan.newest(keyframes);
    let sent_keyframe = plan.fitting(newest_keyframe.into_iter().collect(), max_bytes);
    for (entry, block) in sent_reminders.into_iter().chain(sent_keyframe) {
        plan.before_history.push_str(&block);
        plan.sent.push((entry.kind, entry.uri));
    }
    for (entry, block) in metrics {
        plan.metrics.push_str(&block);
        plan.sent.push((entry.kind, entry.uri));
    }
    plan
}

/// Chooses blocks of a call alone, which must all fit.
///
/// # Errors
///
/// Returns an error if a block does not fit into `max_bytes`.
pub(crate) fn plan_whole(given: Vec<Entry>, max_bytes: usize) -> Result<Plan, Failure> {
    let plan = plan(given, Vec::new(), max_bytes);
    match plan.too_large {
        Some(OmittedContext { uri, reason, .. }) => {
            Err(Failure::new(ErrorCode::LimitExceeded, format!("context {uri}: {reason}")))
        }
        None => Ok(plan),
    }
}

impl Plan {
    /// Returns the entries whose blocks fit, with their blocks.
    fn fitting(&mut self, entries: Vec<Entry>, max_bytes: usize) -> Vec<(Entry, String)> {
        let mut fitting = Vec::new();
        for entry in entries {
            let block = block(&entry);
            if let Some(room) = self.room.checked_sub(block.len()) {
                self.room = room;
                fitting.push((entry, block));
            } else {
                let reason = format!(
                    "its {} bytes do not fit into the {} that are left of knowledge.chat.max_context_bytes ({max_bytes})",
                    block.len(),
                    self.room,
                );
                let left_out = OmittedContext::of(&entry, reason);
                self.too_large.get_or_insert_with(|| left_out.clone());
                self.left_out.push(left_out);
            }
        }
        fitting
    }

    /// Removes items whose key an earlier reminder has.
    fn with_unique_keys(&mut self, reminders: Vec<Entry>) -> Vec<Entry> {
        let mut keys = BTreeSet::new();
        let mut unique = Vec::new();
        for mut entry in reminders {
            if let Some(Value::Array(items)) = entry.data.get_mut("items") {
                items.retain(|item| {
                    item["key"].as_str().is_some_and(|key| keys.insert(key.to_owned()))
                });
                if items.is_empty() {
                    let reason = "each of its keys is in a reminder that takes precedence";
                    self.left_out.push(OmittedContext::of(&entry, reason));
                    continue;
                }
            }
            unique.push(entry);
        }
        unique
    }

    /// Returns the newest keyframe. An older stored one is history; an older one of the call is
    /// left out.
    fn newest(&mut self, mut keyframes: Vec<(bool, Entry)>) -> Option<Entry> {
        // Of two with the same time, the one of the call counts.
        keyframes.sort_by_key(|(is_stored, entry)| (entry.time, !is_stored));
        let (_, newest) = keyframes.pop()?;
        let given = keyframes.iter().filter(|(is_stored, _)| !is_stored);
        self.left_out.extend(given.map(|(_, entry)| {
            OmittedContext::of(entry, format!("{} is a newer keyframe", newest.uri))
        }));
        Some(newest)
    }
}

fn without_duplicates(entries: Vec<Entry>) -> Vec<Entry> {
    let mut unique: Vec<Entry> = Vec::new();
    for entry in entries {
        if !unique.contains(&entry) {
            unique.push(entry);
        }
    }
    unique
}

fn block(entry: &Entry) -> String {
    let mut context = Context::resource(&entry.uri, &entry.schema).trust(entry.trust);
    if let Some(id) = &entry.id {
        context = context.id(id);
    }
    if entry.is_ephemeral {
        context = context.ephemeral();
    }
    let mut builder = Builder::new();
    builder.add(context, &entry.data).expect("a JSON value is JSON");
    builder.build()
}
