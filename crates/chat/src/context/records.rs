//! Reads the reminders and keyframes that are stored as records.

use marquetry_context_blocks::Trust;
use marquetry_knowledge::{
    Access, Failure,
    kinds::{KEYFRAME, REMINDER},
};
use marquetry_rag::{Record, RecordFilter};
use serde_json::{Map, Value};

use super::{
    KEYFRAME_SCHEMA, REMINDER_SCHEMA,
    item::{ContextKind, Entry, Owner, check_expires, segment, timestamp},
    time,
};

/// Maximum records of each type that are read for a message.
const MAX_RECORDS: usize = 2_000;
/// Maximum bytes of the records of each type that are kept for a message.
const MAX_BYTES: usize = 4 << 20;

/// The stored context of a chat.
#[derive(Debug, Default)]
pub(crate) struct StoredContext {
    pub(crate) entries: Vec<Entry>,
    /// Records that cannot be used, one sentence each.
    pub(crate) problems: Vec<String>,
}

/// Reads the caller's own reminders and keyframes for a chat. Those of other users do not count,
/// even if the caller may read them, nor do those that other users may change: they must not speak
/// to the model in the caller's name.
///
/// # Errors
///
/// Returns an error if the records cannot be read.
pub(crate) async fn stored_context(
    access: &Access,
    chat: &Record,
    owner: &Owner,
) -> Result<StoredContext, Failure> {
    let now = access.knowledge.records.now();
    let chat_uri = chat.uri();
    let mut stored = StoredContext::default();
    for kind in [ContextKind::Reminder, ContextKind::Keyframe] {
        let (records, are_all) = own_records(access, type_of(kind), |record| {
            let chat_request = attribute(record, "chatRequest");
            chat_request.is_none() || chat_request == chat_uri.as_deref()
        })
        .await?;
        if !are_all {
            let kind = kind.name();
            stored.problems.push(format!(
                "you have more {kind}s than are read for a message ({MAX_RECORDS} records, and {MAX_BYTES} bytes for one chat): the others were left out; remove old ones"
            ));
        }
        for record in records {
            let uri = record.uri().unwrap_or_default();
            let is_of_chat = attribute(&record, "chatRequest").is_some();
            let entry = if access.knowledge.records.others_may_write(&record).await? {
                Err("other users may change it, or a group above it".to_owned())
            } else {
                entry(kind, &record, is_of_chat, owner, now)
            };
            match entry {
                Ok(Some(entry)) => stored.entries.push(entry),
                Ok(None) => tracing::info!(uri, "leaving an expired record out of the context"),
                Err(problem) => {
                    tracing::warn!(uri, problem, "failed to put a record into the context");
                    stored.problems.push(format!("{uri} was left out of the context: {problem}"));
                }
            }
        }
    }
    Ok(stored)
}

/// Returns the records of a type that belong to the caller and pass a condition, and whether all
/// were looked at.
pub(crate) async fn own_records(
    access: &Access,
    kind: &str,
    is_wanted: impl Fn(&Record) -> bool,
) -> Result<(Vec<Record>, bool), Failure> {
    let mut filter = RecordFilter::new(&access.caller.organization);
    filter.types = vec![kind.to_owned()];
    filter.owners = vec![access.caller.user.clone()];
    filter.limit = Some(MAX_RECORDS);
    let (records, next) = access
        .listed(filter, MAX_BYTES, |record| {
            let bytes = serde_json::to_vec(&record.attributes).map_or(0, |bytes| bytes.len());
            is_wanted(&record).then_some((record, bytes))
        })
        .await?;
    Ok((records, next.is_none()))
}

fn type_of(kind: ContextKind) -> &'static str {
    match kind {
        ContextKind::Reminder => REMINDER,
        ContextKind::Keyframe => KEYFRAME,
        ContextKind::Metrics => unreachable!("metrics come with a call only"),
    }
}

/// Converts a record; `None` if it has expired.
fn entry(
    kind: ContextKind,
    record: &Record,
    is_of_chat: bool,
    owner: &Owner,
    now: u64,
) -> Result<Option<Entry>, String> {
    let schema = if kind == ContextKind::Reminder { REMINDER_SCHEMA } else { KEYFRAME_SCHEMA };
    kind.check_schema(attribute(record, "schema").unwrap_or(schema))?;
    let expires = attribute(record, "expires");
    if let Some(text) = expires
        && time::parse(text).is_some_and(|time| time <= now)
    {
        return Ok(None);
    }
    check_expires(expires, now)?;
    let names: &[&str] = match kind {
        ContextKind::Reminder => &["items", "expires"],
        _ => &["timestamp", "state", "expires"],
    };
    let mut data: Map<String, Value> = names
        .iter()
        .filter_map(|name| {
            let value = record.attributes.get(*name).filter(|value| !value.is_null())?;
            Some(((*name).to_owned(), value.clone()))
        })
        .collect();
    kind.check_data(&data)?;
    let time = timestamp(kind, &data, record.modified)?;
    if kind == ContextKind::Keyframe {
        data.entry("timestamp").or_insert_with(|| time::format_time(time).into());
    }
    Ok(Some(Entry {
        kind,
        schema: schema.to_owned(),
        uri: uri(kind, record, is_of_chat, owner),
        id: Some(record.object_id.clone()),
        data,
        is_ephemeral: true,
        // The model's own words may repeat those of a document.
        trust: if keyframe_number(record).is_some() { Trust::Untrusted } else { Trust::Server },
        is_of_chat,
        time,
    }))
}

/// Returns the URI of a record's block: `am7://reminder/USER`, `am7://reminder/CHAT`,
/// `am7://keyframe/CHAT/NUMBER`.
fn uri(kind: ContextKind, record: &Record, is_of_chat: bool, owner: &Owner) -> String {
    let about = if is_of_chat { owner.chat_or_user() } else { owner.user() };
    match kind {
        ContextKind::Keyframe => {
            let id = match keyframe_number(record) {
                Some(number) => number.to_string(),
                None => segment(&record.object_id),
            };
            format!("am7://keyframe/{about}/{id}")
        }
        kind => format!("am7://{}/{about}", kind.name()),
    }
}

/// Returns the number of a keyframe that the model wrote.
pub(crate) fn keyframe_number(record: &Record) -> Option<u64> {
    record.attributes.get("number").and_then(Value::as_u64)
}

fn attribute<'a>(record: &'a Record, name: &str) -> Option<&'a str> {
    record.attributes.get(name)?.as_str().filter(|text| !text.is_empty())
}
