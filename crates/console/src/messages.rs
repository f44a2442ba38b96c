//! The log of messages between agents, this server and its upstreams.

use std::{
    borrow::Cow,
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
};

use axum::body::Bytes;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, json, value::RawValue};

use crate::{
    Audience, Events, Options, Viewer,
    calls::{now_ms, shortened},
    secrets::without_secrets,
};

/// Maximum stored size of one message, in bytes.
pub(crate) const MAX_MESSAGE: usize = 64 << 10;

/// The log of messages. Cheap to clone.
#[derive(Clone)]
pub struct Messages {
    inner: Arc<SharedMessages>,
}

struct SharedMessages {
    log: Mutex<MessageLog>,
    events: Arc<Events>,
    max_messages: usize,
    max_bytes: usize,
    /// Names of members that tool schemas mark as secret.
    secret_names: RwLock<Vec<String>>,
}

/// Maximum number of these names. Secrets of further tools are hidden only in the records of their
/// calls.
const MAX_SECRET_NAMES: usize = 1_000;

#[derive(Default)]
struct MessageLog {
    messages: VecDeque<Message>,
    bytes: usize,
    last: u64,
}

/// The other side of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Side {
    /// An agent.
    Agent,
    /// An upstream.
    Upstream,
    /// A View of a tool.
    View,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Upstream => "upstream",
            Self::View => "view",
        }
    }
}

/// Direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the other side to this server.
    Received,
    /// From this server to the other side.
    Sent,
}

/// One message.
#[derive(Clone, Debug)]
pub struct NewMessage<'a> {
    /// The other side of the message.
    pub side: Side,
    /// Direction of the message.
    pub direction: Direction,
    /// The name of the agent, the upstream or the View.
    pub peer: &'a str,
    /// The principal that the message belongs to.
    pub owner: Option<&'a str>,
    /// The record of the call to which it belongs.
    pub call: Option<&'a str>,
    /// The message, or its beginning: JSON, of which the first 64 KiB are kept. The log stores
    /// these bytes without a copy, so they should not be a slice of a larger buffer.
    pub json: Bytes,
    /// The size of the whole message, in bytes.
    pub bytes: usize,
}

struct Message {
    number: u64,
    at_ms: u64,
    side: Side,
    direction: Direction,
    bytes: usize,
    texts: Texts,
    /// The message as it came. It is parsed, and its secrets are removed, only when a page shows
    /// it: most messages are never shown.
    raw: Bytes,
}

/// The names of a message in one allocation, since every call makes and drops two messages.
struct Texts {
    /// Peer, owner and call, one after the other.
    all: Box<str>,
    peer: usize,
    owner: Option<usize>,
    call: Option<usize>,
}

impl Texts {
    fn new(peer: &str, owner: Option<&str>, call: Option<&str>) -> Self {
        let shown_owner = owner.unwrap_or_default();
        let shown_call = call.unwrap_or_default();
        let all = [peer, shown_owner, shown_call].concat().into();
        Self { all, peer: peer.len(), owner: owner.map(str::len), call: call.map(str::len) }
    }

    fn peer(&self) -> &str {
        &self.all[..self.peer]
    }

    fn owner(&self) -> Option<&str> {
        self.owner.map(|length| &self.all[self.peer..self.peer + length])
    }

    fn call(&self) -> Option<&str> {
        let start = self.peer + self.owner.unwrap_or_default();
        self.call.map(|length| &self.all[start..start + length])
    }
}

impl Messages {
    pub(crate) fn new(options: &Options, events: Arc<Events>) -> Self {
        let max_messages = options.max_messages;
        let max_bytes = options.max_messages_bytes;
        let inner = SharedMessages {
            log: Mutex::default(),
            events,
            max_messages,
            max_bytes,
            secret_names: RwLock::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Hides the values of members with these names in all messages.
    pub(crate) fn hide(&self, names: &[String]) {
        let known = self.inner.secret_names.read().unwrap_or_else(PoisonError::into_inner);
        if names.iter().all(|name| known.contains(name)) {
            return;
        }
        drop(known);
        let mut known = self.inner.secret_names.write().unwrap_or_else(PoisonError::into_inner);
        for name in names {
            if known.len() < MAX_SECRET_NAMES && !known.contains(name) {
                known.push(name.clone());
            }
        }
    }

    /// Adds a message; the oldest one is dropped when there are too many.
    pub fn push(&self, message: NewMessage<'_>) {
        let raw = match message.json {
            json if json.len() <= MAX_MESSAGE => json,
            // A copy, so that the stored beginning does not keep the whole buffer in memory.
            json => Bytes::copy_from_slice(&json[..MAX_MESSAGE]),
        };
        let peer = shortened(message.peer);
        let mut message = Message {
            number: 0,
            at_ms: now_ms(),
            side: message.side,
            direction: message.direction,
            bytes: message.bytes,
            texts: Texts::new(peer, message.owner, message.call),
            raw,
        };
        let mut dropped = Vec::new();
        let mut log = self.inner.log();
        log.last += 1;
        message.number = log.last;
        let events = &self.inner.events;
        events.push(
            "message",
            || Audience::Owner(message.texts.owner().map(str::to_owned)),
            || message.head(events.run()),
        );
        log.bytes += message.cost();
        log.messages.push_back(message);
        while log.messages.len() > self.inner.max_messages || log.bytes > self.inner.max_bytes {
            let Some(oldest) = log.messages.pop_front() else { break };
            log.bytes -= oldest.cost();
            dropped.push(oldest);
        }
        // Memory is freed after the lock is released, so that other calls do not wait for it.
        drop(log);
        drop(dropped);
    }

    /// Returns the heads of the viewer's messages, newest first. At most `max` are returned, only
    /// those before the message `before`, only those of the call `call` if it is given, and only
    /// those that contain the text `query`.
    #[must_use]
    pub fn list(
        &self,
        viewer: &Viewer,
        query: Option<&str>,
        call: Option<&str>,
        before: Option<&str>,
        max: usize,
    ) -> Vec<Value> {
        let run = self.inner.events.run();
        let secret_names = self.inner.secret_names();
        let before = before.and_then(|id| self.inner.number_of(id)).unwrap_or(u64::MAX);
        let log = self.inner.log();
        let seen = log.messages.iter().rev().filter(|message| {
            message.number < before
                && viewer.sees(message.texts.owner())
                && call.is_none_or(|call| message.texts.call() == Some(call))
                && query.is_none_or(|query| message.has(query, &secret_names))
        });
        seen.take(max).map(|message| message.head(run)).collect()
    }

    /// Returns one message with its text.
    #[must_use]
    pub fn get(&self, id: &str, viewer: &Viewer) -> Option<Value> {
        let number = self.inner.number_of(id)?;
        let secret_names = self.inner.secret_names();
        let log = self.inner.log();
        let first = log.messages.front()?.number;
        let message = log.messages.get(usize::try_from(number.checked_sub(first)?).ok()?)?;
        viewer.sees(message.texts.owner()).then(|| {
            let mut whole = message.head(self.inner.events.run());
            whole["text"] = json!(message.text(&secret_names));
            whole["is_cut"] = json!(message.bytes > MAX_MESSAGE);
            whole
        })
    }
}

impl SharedMessages {
    fn secret_names(&self) -> Vec<String> {
        self.secret_names.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn log(&self) -> MutexGuard<'_, MessageLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn number_of(&self, id: &str) -> Option<u64> {
        id.strip_prefix(self.events.run())?.strip_prefix('-')?.parse().ok()
    }
}

impl Message {
    /// The bytes of memory that its texts take.
    fn cost(&self) -> usize {
        self.texts.all.len() + self.raw.len()
    }

    /// Returns the message as it came. Bytes that are not UTF-8, such as a character that was cut,
    /// are replaced.
    fn raw(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.raw.trim_ascii())
    }

    fn head(&self, run: &str) -> Value {
        json!({
            "id": format!("{run}-{}", self.number),
            "at": self.at_ms,
            "side": self.side.name(),
            "sent": self.direction == Direction::Sent,
            "peer": self.texts.peer(),
            "call": self.texts.call(),
            "kind": kind_of(&self.raw()),
            "bytes": self.bytes,
        })
    }

    /// Returns the text as it is shown.
    fn text(&self, secret_names: &[String]) -> String {
        without_secrets(&self.raw(), secret_names)
    }

    /// Returns whether the query is in the peer or in the text as it is shown, so that a search
    /// finds no secret.
    fn has(&self, query: &str, secret_names: &[String]) -> bool {
        self.texts.peer().contains(query)
            || (self.raw().contains(query) && self.text(secret_names).contains(query))
    }
}

/// Returns the method of a request, or whether a response is a result or an error. For a message
/// that was cut, only its beginning is searched.
fn kind_of(text: &str) -> String {
    #[derive(Deserialize)]
    struct Head {
        method: Option<String>,
        error: Option<IgnoredAny>,
        result: Option<IgnoredAny>,
    }
    fn after_member<'a>(text: &'a str, name: &str) -> Option<&'a str> {
        let rest = &text[text.find(name)? + name.len()..];
        rest.trim_start().strip_prefix(':').map(str::trim_start)
    }
    if let Ok(messages) = serde_json::from_str::<Vec<&RawValue>>(text) {
        return format!("batch of {}", messages.len());
    }
    match serde_json::from_str(text) {
        Ok(Head { method: Some(method), .. }) => return shortened(&method).to_owned(),
        Ok(Head { error: Some(_), .. }) => return "error".to_owned(),
        Ok(Head { result: Some(_), .. }) => return "result".to_owned(),
        Ok(_) => return "not JSON-RPC".to_owned(),
        // Cut, or not JSON.
        Err(_) => {}
    }
    match after_member(text, "\"method\"").and_then(|rest| rest.strip_prefix('"')) {
        Some(method) => shortened(method.split('"').next().unwrap_or_default()).to_owned(),
        None if after_member(text, "\"result\"").is_some() => "result".to_owned(),
        None if after_member(text, "\"error\"").is_some() => "error".to_owned(),
        None => "not JSON-RPC".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(max_messages: usize, max_messages_bytes: usize) -> Messages {
        let options = Options { max_messages, max_messages_bytes, ..Options::default() };
        Messages::new(&options, Arc::new(Events::new(&options)))
    }

    fn message<'a>(owner: Option<&'a str>, call: Option<&'a str>, json: &'a str) -> NewMessage<'a> {
        NewMessage {
            side: Side::Agent,
            direction: Direction::Received,
            peer: "agent",
            owner,
            call,
            json: Bytes::copy_from_slice(json.as_bytes()),
            bytes: json.len(),
        }
    }

    #[test]
    fn messages_are_bounded_and_say_what_they_are() {
        let log = messages(3, 1 << 20);
        for json in [
            r#"{"method":"a"}"#,
            r#"{"method":"tools/call","params":{"password":"xyzzy"}}"#,
            r#"{"result":{}}"#,
            r#"{"error":{}}"#,
        ] {
            log.push(message(None, Some("run-1"), json));
        }
        let admin = Viewer::everything();
        let listed = log.list(&admin, None, None, None, 10);
        let kinds: Vec<_> = listed.iter().map(|it| it["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["error", "result", "tools/call"]);
        assert!(
            log.list(&admin, Some("xyzzy"), None, None, 10).is_empty(),
            "a secret is not found"
        );
        let call = log.get(listed[2]["id"].as_str().unwrap(), &admin).unwrap();
        assert!(!call["text"].as_str().unwrap().contains("xyzzy"), "{call}");
        assert_eq!(log.list(&admin, Some("tools"), None, None, 10).len(), 1);
        assert_eq!(log.list(&admin, None, Some("run-1"), None, 10).len(), 3);
        assert_eq!(log.list(&admin, None, Some("run-2"), None, 10).len(), 0);
    }

    #[test]
    fn a_long_message_is_cut_and_still_has_its_kind() {
        let log = messages(10, 1 << 20);
        let long = format!(
            r#"{{"jsonrpc":"2.0","id":1,"result":{{"text":"{}"}}}}"#,
            "ü".repeat(MAX_MESSAGE)
        );
        log.push(message(Some("anna"), None, &long));
        let admin = Viewer::everything();
        let head = &log.list(&admin, None, None, None, 1)[0];
        assert_eq!(head["kind"], "result");
        let whole = log.get(head["id"].as_str().unwrap(), &admin).unwrap();
        assert_eq!(whole["is_cut"], true);
        assert_eq!(whole["bytes"], long.len());
        assert!(log.list(&Viewer::of("bert", false), None, None, None, 1).is_empty());
        assert!(log.get(head["id"].as_str().unwrap(), &Viewer::of("bert", false)).is_none());
        let small = messages(10, 100);
        (0..20)
            .for_each(|_| small.push(message(None, None, r#"{"result":{"text":"some bytes"}}"#)));
        assert!(small.inner.log().bytes <= 100);
    }
}
