//! Context that comes with a call, and its checks.

use marquetry_context_blocks::{Am7Uri, Trust};
use marquetry_knowledge::Failure;
use marquetry_rag::Caller;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{KEYFRAME_SCHEMA, REMINDER_SCHEMA, time};

/// Maximum items of one call. A block has a budget of bytes anyway; this bounds the work of
/// checking.
const MAX_ITEMS: usize = 64;
/// Longest schema, in bytes.
const MAX_SCHEMA_BYTES: usize = 256;
/// Schemas of blocks that only the server writes.
const SERVER_SCHEMAS: [&str; 4] = [
    "urn:am7:vector:search-result",
    "urn:am7:chat:history",
    "urn:am7:llm:reasoning",
    "urn:am7:view:context",
];

/// A reminder, a keyframe or metrics for the model.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContextItem {
    /// "reminder": facts to keep in mind. "keyframe": the state of a story or task. "metrics":
    /// measurements.
    pub kind: ContextKind,
    /// "urn:am7:narrative:reminder", "urn:am7:narrative:keyframe"; for metrics any other "urn:…".
    pub schema: String,
    /// Reminder: {items: [{key, value}]}. Keyframe: {state: {…}, timestamp}. Metrics: any members.
    pub data: Map<String, Value>,
    /// am7:// URI of what it is about.
    #[serde(default)]
    pub uri: Option<String>,
    /// Hides the block from people.
    #[serde(default = "yes")]
    #[schemars(default = "yes")]
    pub ephemeral: bool,
    /// Time (RFC 3339) from which it does not count any more.
    #[serde(default)]
    pub expires: Option<String>,
}

fn yes() -> bool {
    true
}

/// Kind of a block that goes to the model with a message.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum ContextKind {
    /// Facts to keep in mind.
    Reminder,
    /// The state of a story or a task at a time.
    Keyframe,
    /// Measurements.
    Metrics,
}

impl ContextKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Reminder => "reminder",
            Self::Keyframe => "keyframe",
            Self::Metrics => "metrics",
        }
    }

    /// Checks that a schema belongs to this kind.
    pub(super) fn check_schema(self, schema: &str) -> Result<(), String> {
        let wanted = match self {
            Self::Reminder => REMINDER_SCHEMA,
            Self::Keyframe => KEYFRAME_SCHEMA,
            Self::Metrics => return check_metrics_schema(schema),
        };
        if schema == wanted {
            return Ok(());
        }
        let schema = short(schema);
        Err(format!("{schema:?} is not the schema of a {}, {wanted}", self.name()))
    }

    /// Checks that data has the form of this kind.
    pub(super) fn check_data(self, data: &Map<String, Value>) -> Result<(), String> {
        match self {
            Self::Metrics => Ok(()),
            Self::Keyframe => match data.get("state") {
                Some(Value::Object(_)) => Ok(()),
                _ => Err("a keyframe has an object \"state\"".to_owned()),
            },
            Self::Reminder => match data.get("items").and_then(Value::as_array) {
                Some(items) if !items.is_empty() && items.iter().all(is_reminder_item) => Ok(()),
                _ => {
                    Err("a reminder has a list \"items\" of {key, value}, and at least one"
                        .to_owned())
                }
            },
        }
    }
}

fn is_reminder_item(item: &Value) -> bool {
    item["key"].is_string() && item.get("value").is_some()
}

fn check_metrics_schema(schema: &str) -> Result<(), String> {
    let name = short(schema);
    let is_taken =
        [REMINDER_SCHEMA, KEYFRAME_SCHEMA].contains(&schema) || SERVER_SCHEMAS.contains(&schema);
    if is_taken {
        return Err(format!("{name:?} is not a schema of metrics"));
    }
    let is_urn = schema.len() > "urn:".len() && schema.starts_with("urn:");
    if !is_urn || !schema.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!("{name:?} is not a URN, such as urn:am7:biometric:face-analysis"));
    }
    if schema.len() > MAX_SCHEMA_BYTES {
        return Err(format!("it has {} bytes, more than {MAX_SCHEMA_BYTES}", schema.len()));
    }
    Ok(())
}

/// A checked reminder, keyframe or metrics.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(super) kind: ContextKind,
    pub(super) schema: String,
    pub(super) uri: String,
    /// Object id of the record, if it is one.
    pub(super) id: Option<String>,
    pub(super) data: Map<String, Value>,
    pub(super) is_ephemeral: bool,
    pub(super) trust: Trust,
    /// Whether it belongs to the chat rather than to all chats of the user.
    pub(super) is_of_chat: bool,
    /// Its time, in milliseconds since 1970: the newest keyframe counts.
    pub(super) time: u64,
}

/// The user and the chat that context belongs to.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    organization: String,
    user: String,
    chat: Option<String>,
}

impl Owner {
    /// Returns the owner for a caller; `chat` is the object id of a chat.
    pub(crate) fn new(caller: &Caller, chat: Option<&str>) -> Self {
        let user = caller.user.rsplit('/').next().unwrap_or_default();
        Self {
            organization: caller.organization.clone(),
            user: segment(user),
            chat: chat.map(segment),
        }
    }

    /// Returns the chat's id, or the user's without a chat.
    pub(super) fn chat_or_user(&self) -> &str {
        self.chat.as_deref().unwrap_or(&self.user)
    }

    pub(super) fn user(&self) -> &str {
        &self.user
    }

    /// Returns the URI of an item that names none.
    fn default_uri(&self, item: &ContextItem) -> String {
        let about = match item.kind {
            ContextKind::Reminder => self.user.clone(),
            ContextKind::Keyframe => self.chat_or_user().to_owned(),
            ContextKind::Metrics => segment(item.schema.rsplit(':').next().unwrap_or_default()),
        };
        format!("am7://{}/{about}", item.kind.name())
    }

    /// Checks the URI of an item: `am7://KIND/…` or `am7://ORGANISATION/KIND/…`.
    fn check_uri(&self, kind: ContextKind, uri: &str) -> Result<(), String> {
        let name = kind.name();
        let shown = short(uri);
        if uri.len() > Am7Uri::MAX_BYTES {
            return Err(format!("it has {} bytes, more than {}", uri.len(), Am7Uri::MAX_BYTES));
        }
        let path = uri.strip_prefix("am7://").unwrap_or_default();
        let segments: Vec<&str> = path.split('/').collect();
        let about = match segments.as_slice() {
            [first, about @ ..] if *first == name => about,
            [organization, second, about @ ..]
                if *second == name && *organization == self.organization =>
            {
                about
            }
            _ => return Err(format!("{shown:?} does not begin with am7://{name}/")),
        };
        // Filters sort blocks by parts of their URIs: `am7://metrics/citations/x` would be a
        // citation.
        let has_form = match (kind, about) {
            (ContextKind::Keyframe, [_, number]) => number.bytes().all(|it| it.is_ascii_digit()),
            (_, about) => about.len() == 1,
        };
        if !has_form || !about.iter().all(|part| is_plain_segment(part)) {
            return Err(format!("{shown:?} is not a URI of the form am7://{name}/ID"));
        }
        if kind == ContextKind::Reminder
            && !about.iter().all(|id| *id == self.user || self.chat.as_deref() == Some(*id))
        {
            return Err(format!(
                "{shown:?} is a reminder of another user; yours is am7://reminder/{}",
                self.user
            ));
        }
        Ok(())
    }
}

/// Checks the context of a call at the time `now`. Nothing of it is stored.
///
/// # Errors
///
/// Returns an error if an item has expired, belongs to another user, or does not fit its kind; the
/// message names it.
pub(crate) fn check_items(
    items: &[ContextItem],
    owner: &Owner,
    now: u64,
) -> Result<Vec<Entry>, Failure> {
    if items.len() > MAX_ITEMS {
        let count = items.len();
        return Err(Failure::invalid(format!(
            "context has {count} items, and may have at most {MAX_ITEMS}"
        )));
    }
    items.iter().enumerate().map(|(index, item)| check_item(index, item, owner, now)).collect()
}

fn check_item(index: usize, item: &ContextItem, owner: &Owner, now: u64) -> Result<Entry, Failure> {
    let kind = item.kind;
    kind.check_schema(&item.schema).map_err(invalid(index, "schema"))?;
    kind.check_data(&item.data).map_err(invalid(index, "data"))?;
    if let Some(uri) = &item.uri {
        owner.check_uri(kind, uri).map_err(invalid(index, "uri"))?;
    }
    check_expires(item.expires.as_deref(), now).map_err(invalid(index, "expires"))?;
    let mut data = item.data.clone();
    // The members of metrics are the caller's own.
    if kind != ContextKind::Metrics {
        let expires = match data.get("expires") {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.as_str()),
            Some(_) => {
                return Err(invalid(index, "data.expires")("it is not a text".to_owned()));
            }
        };
        check_expires(expires, now).map_err(invalid(index, "data.expires"))?;
    }
    if let Some(expires) = &item.expires {
        data.entry("expires").or_insert_with(|| expires.as_str().into());
    }
    Ok(Entry {
        kind,
        schema: item.schema.clone(),
        uri: item.uri.clone().unwrap_or_else(|| owner.default_uri(item)),
        id: None,
        time: timestamp(kind, &data, now).map_err(invalid(index, "data.timestamp"))?,
        data,
        is_ephemeral: item.ephemeral,
        trust: Trust::Caller,
        is_of_chat: true,
    })
}

/// Returns a conversion of a problem with a member of an item into a failure that names the member.
fn invalid(index: usize, member: &'static str) -> impl Fn(String) -> Failure {
    move |problem| Failure::invalid(format!("context[{index}].{member}: {problem}"))
}

/// Checks that a time is one, and has not come yet.
pub(super) fn check_expires(expires: Option<&str>, now: u64) -> Result<(), String> {
    let Some(text) = expires else { return Ok(()) };
    let time = time::parse(text).ok_or_else(|| not_a_time(text))?;
    if time <= now {
        return Err(format!("it expired at {}", short(text)));
    }
    Ok(())
}

/// Returns the time of a keyframe; `default` without one, and for other kinds.
pub(super) fn timestamp(
    kind: ContextKind,
    data: &Map<String, Value>,
    default: u64,
) -> Result<u64, String> {
    match data.get("timestamp").filter(|value| !value.is_null()) {
        Some(value) if kind == ContextKind::Keyframe => {
            let text = value.as_str().unwrap_or_default();
            time::parse(text).ok_or_else(|| not_a_time(text))
        }
        _ => Ok(default),
    }
}

fn not_a_time(text: &str) -> String {
    format!("{:?} is not a time of RFC 3339, such as 2026-12-31T12:00:00Z", short(text))
}

fn is_plain_segment(part: &str) -> bool {
    !matches!(part, "" | "." | "..")
        && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.~@%:".contains(&byte))
}

/// Returns a text as one segment of a block's URI.
pub(super) fn segment(text: &str) -> String {
    text.chars()
        .take(100)
        .map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' })
        .collect()
}

/// Returns the beginning of a text, for a message.
fn short(text: &str) -> &str {
    &text[..text.floor_char_boundary(100)]
}
