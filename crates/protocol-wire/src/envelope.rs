//! JSON-RPC 2.0 messages, borrowed from the bytes that they came in.

use std::{borrow::Cow, fmt};

use memchr::memmem;
use serde::{
    Deserialize, Serialize,
    de::{DeserializeSeed, Error as _, IgnoredAny, SeqAccess, Visitor},
};
use serde_json::{Number, value::RawValue};

use crate::{
    RpcError, error_code, members::Members, nesting::nested_deeper_than, object::value_len,
};

/// A message whose method and id are parsed; parameters and result are still the sender's bytes.
#[derive(Clone, Debug)]
pub enum Message<'a> {
    /// A request, which expects an answer.
    Request(Request<'a>),
    /// A notification, which expects no answer.
    Notification(Notification<'a>),
    /// A response, the answer to a request.
    Response(Response<'a>),
}

/// A request. Its parameters, when there are any, are a JSON object.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Chosen by the sender, unique among its requests in flight.
    pub id: RequestId,
    /// The method's name.
    pub method: Cow<'a, str>,
    /// The parameters as a JSON object, not yet parsed.
    pub params: Option<&'a RawValue>,
}

/// A notification. Its parameters, when there are any, are a JSON object.
#[derive(Clone, Debug)]
pub struct Notification<'a> {
    /// The method's name.
    pub method: Cow<'a, str>,
    /// The parameters as a JSON object, not yet parsed.
    pub params: Option<&'a RawValue>,
}

/// An answer to a request of ours.
#[derive(Clone, Debug)]
pub struct Response<'a> {
    /// The request's id; `None` if the other side could not read it.
    pub id: Option<RequestId>,
    /// The result, not yet parsed, or the error.
    pub outcome: Result<&'a RawValue, RpcError>,
}

/// The id of a request: a whole number or a string.
#[derive(Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(untagged)]
pub enum RequestId {
    /// A whole number, negative ones included.
    Number(Number),
    /// A string.
    String(String),
}

/// Why some bytes are not a message, with the error for the answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{error}")]
pub struct EnvelopeError {
    /// The id of the request that cannot be served, if it could be read.
    pub id: Option<RequestId>,
    /// The id in an invalid response, if it could be read.
    pub answers: Option<RequestId>,
    /// The error for the answer.
    pub error: RpcError,
}

/// The deepest nesting that [`Message::parse`] accepts by default. `serde_json` itself stops at
/// 128, so that typed parameters inside of a message are always readable.
pub const DEFAULT_MAX_NESTING: usize = 100;

impl<'a> Message<'a> {
    /// Reads one message of at most `max_nesting` levels.
    ///
    /// # Errors
    /// Returns an error if the bytes are not UTF-8 or not JSON (parse error, -32700), or if they
    /// are JSON but not a message (invalid request, -32600): a batch (see [`Incoming::parse`]), no
    /// `"jsonrpc": "2.0"`, an id that is neither a whole number nor a string, parameters that are
    /// not an object.
    pub fn parse(bytes: &'a [u8], max_nesting: usize) -> Result<Self, EnvelopeError> {
        match Incoming::parse(bytes, max_nesting)? {
            Incoming::Message(message) => Ok(message),
            Incoming::Batch(_) => Err(refused(None, "batches exist only in revision 2025-03-26")),
        }
    }

    fn parse_text(text: &'a str) -> Result<Self, EnvelopeError> {
        let fields: Fields<'a> = serde_json::from_str(text).map_err(|error| {
            if error.is_data() {
                refused_in(text, error.to_string())
            } else {
                EnvelopeError { answers: id_of_broken(text), ..not_json(&error) }
            }
        })?;
        fields.into_message().map_err(|message| refused_in(text, message))
    }
}

/// The messages that may arrive together.
#[derive(Debug)]
pub enum Incoming<'a> {
    /// A single message.
    Message(Message<'a>),
    /// Several, in revision 2025-03-26.
    Batch(Batch<'a>),
}

/// Several messages in one array, not yet parsed. The receiver decides whether its revision allows
/// batches.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    text: &'a str,
}

impl<'a> Batch<'a> {
    /// Parses the messages. Each may be invalid by itself.
    ///
    /// # Errors
    /// Returns an error if there are none, or more than `max`.
    pub fn messages(
        self,
        max: usize,
    ) -> Result<Vec<Result<Message<'a>, EnvelopeError>>, EnvelopeError> {
        let mut deserializer = serde_json::Deserializer::from_str(self.text);
        let messages = AtMost(max).deserialize(&mut deserializer).map_err(|_| {
            refused(None, format!("a batch must not have more than {max} messages"))
        })?;
        if messages.is_empty() {
            return Err(refused(None, "a batch must not be empty"));
        }
        Ok(messages.into_iter().map(|message| Message::parse_text(message.get())).collect())
    }
}

/// Parses an array of at most this many items.
struct AtMost(usize);

impl<'de> DeserializeSeed<'de> for AtMost {
    type Value = Vec<&'de RawValue>;

    fn deserialize<D: serde::Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for AtMost {
    type Value = Vec<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an array of at most {} messages", self.0)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut messages = Vec::new();
        while let Some(message) = items.next_element()? {
            if messages.len() == self.0 {
                return Err(serde::de::Error::custom("too many messages"));
            }
            messages.push(message);
        }
        Ok(messages)
    }
}

impl<'a> Incoming<'a> {
    /// Reads a message or a batch of them, of at most `max_nesting` levels. A byte order mark
    /// before it is ignored, as RFC 8259, section 8.1, lets parsers do.
    ///
    /// # Errors
    /// Returns an error as [`Message::parse`] does.
    pub fn parse(bytes: &'a [u8], max_nesting: usize) -> Result<Self, EnvelopeError> {
        let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
        if nested_deeper_than(bytes, max_nesting) {
            let why = format!("message is nested more than {max_nesting} levels deep");
            return Err(refused_in(&String::from_utf8_lossy(bytes), why));
        }
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let why = format!("message is not valid UTF-8, from byte {} on", error.valid_up_to());
            EnvelopeError {
                error: parse_error(why).error,
                ..refused_in(&String::from_utf8_lossy(bytes), "")
            }
        })?;
        if !text.trim_ascii_start().starts_with('[') {
            return Message::parse_text(text).map(Self::Message);
        }
        serde_json::from_str::<IgnoredAny>(text).map_err(|error| not_json(&error))?;
        Ok(Self::Batch(Batch { text }))
    }
}

/// The members of any message. Their presence determines the kind of the message.
#[derive(Deserialize)]
#[serde(expecting = "a JSON-RPC message")]
struct Fields<'a> {
    #[serde(borrow)]
    jsonrpc: Option<Cow<'a, str>>,
    // A nested `Option`, because `"id": null` differs from a missing id.
    #[serde(default, deserialize_with = "present")]
    id: Option<Option<RequestId>>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    // `null` is a valid result, too.
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    error: Option<LenientError>,
}

/// An error as servers write it: some write only its message, as a string.
#[derive(Deserialize)]
#[serde(transparent)]
struct LenientError(#[serde(deserialize_with = "RpcError::lenient")] RpcError);

impl<'a> Fields<'a> {
    fn into_message(mut self) -> Result<Message<'a>, &'static str> {
        if self.jsonrpc.as_deref() != Some("2.0") {
            return Err("member 'jsonrpc' must be \"2.0\"");
        }
        if self.params.is_some_and(|params| !params.get().starts_with('{')) {
            return Err("member 'params' must be an object");
        }
        // Some libraries write every member of a message, the ones that it lacks as `null`.
        if self.method.is_some() || self.error.is_some() {
            self.result.take_if(|result| result.get() == "null");
        }
        match (self.method, self.id, self.result, self.error) {
            (Some(method), Some(Some(id)), None, None) => {
                Ok(Message::Request(Request { id, method, params: self.params }))
            }
            (Some(method), None, None, None) => {
                Ok(Message::Notification(Notification { method, params: self.params }))
            }
            (Some(_), Some(None), None, None) => Err("a request's id must not be null"),
            (None, Some(Some(id)), Some(result), None) => {
                Ok(Message::Response(Response { id: Some(id), outcome: Ok(result) }))
            }
            (None, id, None, Some(LenientError(error))) => {
                Ok(Message::Response(Response { id: id.flatten(), outcome: Err(error) }))
            }
            _ => Err("a message has a method, or an id with either a result or an error"),
        }
    }
}

impl<'de> Deserialize<'de> for RequestId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "an id must be a whole number or a string")]
        enum IdValue {
            Number(Number),
            String(String),
        }
        match IdValue::deserialize(deserializer)? {
            IdValue::Number(number) => whole(number)
                .map(Self::Number)
                .ok_or_else(|| D::Error::custom("an id must be a whole number or a string")),
            IdValue::String(string) => Ok(Self::String(string)),
        }
    }
}

/// Returns a whole number as an integer. Gson and other libraries, which read every number as a
/// `double`, write 7 as `7.0`.
fn whole(number: Number) -> Option<Number> {
    const MAX_EXACT: f64 = 9_007_199_254_740_991.0;
    if !number.is_f64() {
        return Some(number);
    }
    let float = number.as_f64().filter(|it| it.fract() == 0.0 && it.abs() <= MAX_EXACT)?;
    #[expect(clippy::cast_possible_truncation, reason = "it is a whole number of at most 53 bits")]
    let integer = float as i64;
    Some(integer.into())
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::String(string) => string.fmt(f),
        }
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => fmt::Display::fmt(number, f),
            Self::String(string) => fmt::Debug::fmt(string, f),
        }
    }
}

impl From<u64> for RequestId {
    fn from(number: u64) -> Self {
        Self::Number(number.into())
    }
}

impl From<&str> for RequestId {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

/// Returns the bytes of a request, without a line feed.
#[must_use]
pub fn write_request(id: &RequestId, method: &str, params: Option<&RawValue>) -> Vec<u8> {
    let mut out = start(params.map_or(0, |params| params.get().len()));
    out.extend_from_slice(br#","id":"#);
    append(&mut out, id);
    append_call(&mut out, method, params);
    on_one_line(out)
}

/// Returns the bytes of a notification, without a line feed.
#[must_use]
pub fn write_notification(method: &str, params: Option<&RawValue>) -> Vec<u8> {
    let mut out = start(params.map_or(0, |params| params.get().len()));
    append_call(&mut out, method, params);
    on_one_line(out)
}

/// Returns the bytes of an answer with `result`, without a line feed.
#[must_use]
pub fn write_result(id: &RequestId, result: &RawValue) -> Vec<u8> {
    write_result_with(id, Around::default(), result.get())
}

/// Members that are added before and after the members of a result.
#[derive(Clone, Copy, Debug, Default)]
pub struct Around<'a> {
    /// `"name":value,…,`, a comma at its end.
    pub before: &'a str,
    /// `,"name":value…`, a comma at its beginning.
    pub after: &'a str,
}

/// Writes as [`write_result`] does, with more members in the result object. `result` must be valid
/// JSON.
#[must_use]
pub fn write_result_with(id: &RequestId, around: Around<'_>, result: &str) -> Vec<u8> {
    let Around { mut before, mut after } = around;
    let mut out = start(result.len() + before.len() + after.len());
    out.extend_from_slice(br#","id":"#);
    append(&mut out, id);
    out.extend_from_slice(br#","result":"#);
    let inner = result.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    match inner.map(str::trim_ascii) {
        Some(inner) if !(before.is_empty() && after.is_empty()) => {
            // An empty object has no members from which the commas would separate the others.
            if inner.is_empty() && before.is_empty() {
                after = after.trim_start_matches(',');
            } else if inner.is_empty() {
                before = before.trim_end_matches(',');
            }
            out.push(b'{');
            out.extend_from_slice(before.as_bytes());
            out.extend_from_slice(inner.as_bytes());
            out.extend_from_slice(after.as_bytes());
            out.push(b'}');
        }
        _ => out.extend_from_slice(result.as_bytes()),
    }
    out.push(b'}');
    on_one_line(out)
}

/// Returns the bytes of an answer with a tool result that has only `text`, and with further
/// members. This takes one pass over the text; serialising a value and copying it into a message
/// would take three.
#[must_use]
pub fn write_text_result(id: &RequestId, around: Around<'_>, text: &str) -> Vec<u8> {
    let Around { before, after } = around;
    let mut out = start(text.len() + text.len() / 16 + before.len() + after.len());
    out.extend_from_slice(br#","id":"#);
    append(&mut out, id);
    out.extend_from_slice(br#","result":{"#);
    out.extend_from_slice(before.as_bytes());
    out.extend_from_slice(br#""content":[{"type":"text","text":"#);
    append_string(&mut out, text);
    out.extend_from_slice(b"}]");
    out.extend_from_slice(after.as_bytes());
    out.extend_from_slice(b"}}");
    out
}

/// Appends a JSON string in the form of `serde_json`, but several bytes at a time.
fn append_string(out: &mut Vec<u8>, text: &str) {
    let mut rest = text.as_bytes();
    out.push(b'"');
    while let Some(at) =
        crate::scan::position(rest, |byte| (byte < b' ') || (byte == b'"') || (byte == b'\\'))
    {
        out.extend_from_slice(&rest[..at]);
        match rest[at] {
            b'"' => out.extend_from_slice(br#"\""#),
            b'\\' => out.extend_from_slice(br"\\"),
            b'\n' => out.extend_from_slice(br"\n"),
            b'\r' => out.extend_from_slice(br"\r"),
            b'\t' => out.extend_from_slice(br"\t"),
            b'\x08' => out.extend_from_slice(br"\b"),
            b'\x0c' => out.extend_from_slice(br"\f"),
            control => out.extend_from_slice(format!("\\u{control:04x}").as_bytes()),
        }
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// Returns the bytes of an answer with `error`, without a line feed. A missing id becomes `null`.
#[must_use]
pub fn write_error(id: Option<&RequestId>, error: &RpcError) -> Vec<u8> {
    let mut out = start(error.message.len());
    out.extend_from_slice(br#","id":"#);
    append(&mut out, &id);
    out.extend_from_slice(br#","error":"#);
    append(&mut out, error);
    out.push(b'}');
    on_one_line(out)
}

fn start(payload: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(payload + 96);
    out.extend_from_slice(br#"{"jsonrpc":"2.0""#);
    out
}

/// Replaces line feeds by spaces, because a message is one line on a pipe and one `data` field in
/// an event stream. In raw JSON, line feeds occur only outside of strings, where they are white
/// space.
fn on_one_line(mut message: Vec<u8>) -> Vec<u8> {
    for byte in &mut message {
        // Without a branch, so that the compiler looks at many bytes at a time.
        *byte = if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte };
    }
    message
}

fn append_call(out: &mut Vec<u8>, method: &str, params: Option<&RawValue>) {
    out.extend_from_slice(br#","method":"#);
    append(out, method);
    if let Some(params) = params {
        out.extend_from_slice(br#","params":"#);
        out.extend_from_slice(params.get().as_bytes());
    }
    out.push(b'}');
}

fn append(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    serde_json::to_writer(out, value)
        .expect("strings, numbers and raw values serialise into memory");
}

fn refused(id: Option<RequestId>, why: impl Into<String>) -> EnvelopeError {
    EnvelopeError { id, answers: None, error: RpcError::invalid_request(why) }
}

/// Refuses as [`refused`] does, with the id of the request or answer in `text`, so that its caller
/// gets the error.
fn refused_in(text: &str, why: impl Into<String>) -> EnvelopeError {
    let members = serde_json::from_str::<Members<'_>>(text).unwrap_or_default();
    let id = only_id(&members);
    let (id, answers) = match members.get("method") {
        Some(_) => (id, None),
        None => (None, id),
    };
    EnvelopeError { answers, ..refused(id, why) }
}

/// Returns whether a text that is not a message was meant as an answer.
#[must_use]
pub fn looks_like_answer(text: &[u8]) -> bool {
    text.trim_ascii_start().starts_with(b"{")
        && [r#""result""#, r#""error""#].iter().any(|name| contains(text, name))
        && !contains(text, r#""method""#)
}

fn contains(text: &[u8], part: &str) -> bool {
    memmem::find(text, part.as_bytes()).is_some()
}

/// Returns the id of an answer that is not JSON: of its members up to the fault, or else of its
/// end. Examples are answers with `NaN`, with line feeds in strings, or without their end.
fn id_of_broken(text: &str) -> Option<RequestId> {
    if !looks_like_answer(text.as_bytes()) {
        return None;
    }
    let id = first_members(text).find(|(name, _)| *name == r#""id""#);
    let id = id.map(|(_, value)| value).or_else(|| last_id(text))?;
    serde_json::from_str(id).ok()
}

/// Returns the members at the start of an object, names in their quotes, as far as it can be read.
fn first_members(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = text.trim_ascii_start().strip_prefix('{').unwrap_or_default();
    std::iter::from_fn(move || {
        rest = rest.trim_ascii_start();
        rest = rest.strip_prefix(',').unwrap_or(rest).trim_ascii_start();
        let (name, after) = rest.split_at_checked(value_len(rest))?;
        let value = after.trim_ascii_start().strip_prefix(':')?.trim_ascii_start();
        let (value, after) = value.split_at_checked(value_len(value))?;
        rest = after;
        name.starts_with('"').then_some((name, value))
    })
}

/// Returns the id with which an object ends, perhaps before `jsonrpc`.
fn last_id(text: &str) -> Option<&str> {
    const KEY: &str = r#""id":"#;
    let end = text.trim_ascii_end().strip_suffix('}')?;
    let id = &end[end.rfind(KEY)? + KEY.len()..];
    let (id, after) = id.split_once(',').unwrap_or((id, ""));
    let after: String = after.split_ascii_whitespace().collect();
    matches!(&*after, "" | r#""jsonrpc":"2.0""#).then_some(id)
}

/// Returns the id. A repeated member counts if both values are the same.
fn only_id(members: &Members<'_>) -> Option<RequestId> {
    let mut ids = members.iter().filter(|(name, _)| *name == "id").map(|(_, id)| id.get());
    let id = ids.next()?;
    ids.all(|other| other == id).then(|| serde_json::from_str(id).ok())?
}

fn not_json(error: &serde_json::Error) -> EnvelopeError {
    parse_error(format!("message is not JSON: {error}"))
}

fn parse_error(message: String) -> EnvelopeError {
    EnvelopeError {
        id: None,
        answers: None,
        error: RpcError::new(error_code::PARSE_ERROR, message),
    }
}

fn present<'de, D: serde::Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_byte_order_mark_is_ignored() {
        let text = "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}";
        let message = Message::parse(text.as_bytes(), DEFAULT_MAX_NESTING).unwrap();
        assert!(matches!(message, Message::Request(request) if request.method == "ping"));
        let batch = format!("\u{feff}[{}]", &text["\u{feff}".len()..]);
        assert!(matches!(
            Incoming::parse(batch.as_bytes(), DEFAULT_MAX_NESTING),
            Ok(Incoming::Batch(_))
        ));
    }

    #[test]
    fn strings_are_written_as_serde_json_does() {
        let every_byte: String = (0..=255_u8).map(char::from).collect();
        for text in ["", "plain", &every_byte, &format!("{}\n\"{every_byte}ä", "x".repeat(100))] {
            let mut out = Vec::new();
            append_string(&mut out, text);
            assert_eq!(out, serde_json::to_vec(text).unwrap());
        }
    }

    #[test]
    fn members_decide_the_kind_of_a_message() {
        assert!(matches!(
            parse(r#"{"jsonrpc":"2.0","id":-3,"method":"ping"}"#),
            Ok(Message::Request(_))
        ));
        assert!(matches!(
            parse(r#"{"jsonrpc":"2.0","method":"x","params":{}}"#),
            Ok(Message::Notification(_))
        ));
        assert!(matches!(
            parse(r#"{"jsonrpc":"2.0","id":"a","result":{}}"#),
            Ok(Message::Response(_))
        ));
        let null_id = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}"#;
        assert!(matches!(
            parse(null_id),
            Ok(Message::Response(Response { id: None, outcome: Err(_) }))
        ));
    }

    #[test]
    fn errors_name_the_fault_and_the_request() {
        check("", error_code::PARSE_ERROR, None);
        check("{", error_code::PARSE_ERROR, None);
        check("[", error_code::PARSE_ERROR, None);
        check("[]", error_code::INVALID_REQUEST, None);
        check("1", error_code::INVALID_REQUEST, None);
        check("{}", error_code::INVALID_REQUEST, None);
        check(
            r#"{"jsonrpc":"1.0","id":1,"method":"m"}"#,
            error_code::INVALID_REQUEST,
            Some(1.into()),
        );
        check(
            r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
            error_code::INVALID_REQUEST,
            Some(1.into()),
        );
        check(
            r#"{"jsonrpc":"2.0","id":"a","method":"m","params":[]}"#,
            error_code::INVALID_REQUEST,
            Some("a".into()),
        );
        check(r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#, error_code::INVALID_REQUEST, None);
        check(r#"{"jsonrpc":"2.0","id":1.5,"method":"m"}"#, error_code::INVALID_REQUEST, None);
        check(
            r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}"#,
            -32600,
            None,
        );
    }

    #[test]
    fn members_that_are_null_are_absent() {
        for text in [
            r#"{"jsonrpc":"2.0","id":1,"method":null,"result":null,"error":{"code":1,"message":"m"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"params":null,"result":{},"error":null}"#,
        ] {
            assert!(matches!(parse(text), Ok(Message::Response(_))), "{text}");
        }
        let request = r#"{"jsonrpc":"2.0","id":1,"method":"m","result":null,"error":null}"#;
        assert!(matches!(parse(request), Ok(Message::Request(_))));
    }

    #[test]
    fn whole_numbers_may_be_written_as_decimals() {
        for (text, id) in [("7.0", 7.into()), ("-2.0e0", RequestId::Number((-2).into()))] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{text},"result":{{}}}}"#);
            let Ok(Message::Response(response)) = parse(&text) else { panic!("{text}") };
            assert_eq!(response.id, Some(id));
        }
        check(r#"{"jsonrpc":"2.0","id":1e300,"method":"m"}"#, error_code::INVALID_REQUEST, None);
    }

    #[test]
    fn errors_may_lack_a_code_or_be_only_a_text() {
        for (error, code, message) in [
            (r#""no""#, error_code::INTERNAL_ERROR, "no"),
            (r#"{"message":"no"}"#, error_code::INTERNAL_ERROR, "no"),
            (r#"{"code":5}"#, 5, "the server gives no reason"),
            (r#"{"code":"5","message":null,"data":{"a":1}}"#, 5, "the server gives no reason"),
        ] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":1,"error":{error}}}"#);
            let Ok(Message::Response(response)) = parse(&text) else { panic!("{text}") };
            let found = response.outcome.unwrap_err();
            assert_eq!((found.code, &*found.message), (code, message), "{error}");
        }
    }

    #[test]
    fn answers_that_are_no_json_say_whose_they_are() {
        for (text, id) in [
            (r#"{"jsonrpc":"2.0","id":7,"result":{"a":NaN}}"#, Some(7)),
            (r#"{"jsonrpc":"2.0","result":{"a":[Infinity, "}"]},"id": 7 }"#, Some(7)),
            ("{\"id\":7,\"result\":\"two\nlines\"}", Some(7)),
            (r#"{"id":7,"result":{"text":"cut"#, Some(7)),
            (r#"{"result":{"text":"a "quote" inside"},"id":7,"jsonrpc":"2.0"}"#, Some(7)),
            (r#"{"result":{"id":7,"a":NaN"#, None),
            (r#"{"method":"m","id":7,"params":{"a":NaN,"result":1}}"#, None),
            ("starting at id: 7", None),
        ] {
            assert_eq!(parse(text).unwrap_err().answers, id.map(RequestId::from), "{text}");
        }
    }

    #[test]
    fn invalid_utf8_is_a_parse_error() {
        let error =
            Message::parse(b"{\"jsonrpc\":\"2.0\",\"method\":\"\xff\"}", 10).unwrap_err().error;
        assert_eq!(error.code, error_code::PARSE_ERROR);
        assert_eq!(error.message, "message is not valid UTF-8, from byte 27 on");
    }

    #[test]
    fn faulty_answers_say_whose_they_are() {
        for (text, id) in [
            (r#"{"jsonrpc":"2.0","id":7,"error":5}"#.as_bytes(), 7),
            (br#"{"jsonrpc":"2.0","id":7,"error":{"code":"x","message":5}}"#, 7),
            (b"{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":\"\xff\"}", 7),
            (br#"{"jsonrpc":"2.0","id":7,"result":[[[[[[[[[[[[]]]]]]]]]]]]}"#, 7),
            (br#"{"jsonrpc":"2.0","id":7,"id":7,"result":{}}"#, 7),
            (br#"{"jsonrpc":"2.0","result":{},"id":7,"result":{}}"#, 7),
        ] {
            let error = Message::parse(text, 10).unwrap_err();
            assert_eq!(
                (error.id, error.answers),
                (None, Some(id.into())),
                "{}",
                String::from_utf8_lossy(text)
            );
        }
        let two = parse(r#"{"jsonrpc":"2.0","id":7,"id":8,"result":{}}"#).unwrap_err();
        assert_eq!((two.id, two.answers), (None, None));
        assert!(matches!(
            parse(r#"{"jsonrpc":"2.0","id":7,"result":null}"#),
            Ok(Message::Response(_))
        ));
    }

    #[test]
    fn nesting_is_bounded() {
        assert!(parse(&nested(DEFAULT_MAX_NESTING - 2)).is_ok());
        let error = parse(&nested(DEFAULT_MAX_NESTING - 1)).unwrap_err().error;
        assert_eq!(error.message, "message is nested more than 100 levels deep");
        assert!(parse(&nested(1_000_000)).is_err());
    }

    fn nested(depth: usize) -> String {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"a":{}{}}}}}"#,
            "[".repeat(depth),
            "]".repeat(depth)
        )
    }

    #[test]
    fn members_are_put_first() {
        assert_eq!(
            completed("{}"),
            r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete"}}"#
        );
        assert_eq!(
            completed(r#"{ "a":1}"#),
            r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","a":1}}"#
        );
        assert_eq!(
            completed("{\r\n \"a\": \"\\n\"\n}"),
            r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","a": "\n"}}"#
        );
        assert_eq!(completed("[1]"), r#"{"jsonrpc":"2.0","id":1,"result":[1]}"#);
        for (json, before, after, want) in [
            ("{}", "", r#","b":2"#, r#"{"b":2}"#),
            ("{}", r#""a":1,"#, r#","b":2"#, r#"{"a":1,"b":2}"#),
            (r#"{ "c":3 }"#, r#""a":1,"#, r#","b":2"#, r#"{"a":1,"c":3,"b":2}"#),
            (r#"{ "c":3 }"#, "", "", r#"{ "c":3 }"#),
        ] {
            let around = Around { before, after };
            let written = write_result_with(&1.into(), around, json);
            let want = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{want}}}"#);
            assert_eq!(String::from_utf8(written).unwrap(), want);
        }
    }

    fn completed(json: &str) -> String {
        let around = Around { before: r#""resultType":"complete","#, after: "" };
        String::from_utf8(write_result_with(&1.into(), around, json)).unwrap()
    }

    proptest! {
        #[test]
        fn parse_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Message::parse(&bytes, 20);
        }

        #[test]
        fn near_misses_never_panic(
            text in r#"\{("(jsonrpc|id|method|params|result|error)":("2\.0"|1|-1|null|\{\}|\[\]|"x"|\{"code":1,"message":"m"\}),?){0,6}\}?"#
        ) {
            let _ = parse(&text);
        }

        #[test]
        fn requests_survive_the_wire(id in ids(), method in ".*", key in ".*", value in any::<i64>()) {
            let params = serde_json::value::to_raw_value(&serde_json::json!({ key: value })).unwrap();
            let bytes = write_request(&id, &method, Some(&params));
            let Message::Request(request) = Message::parse(&bytes, 10).unwrap() else { panic!("no request") };
            prop_assert_eq!(request.id, id);
            prop_assert_eq!(request.method, method);
            prop_assert_eq!(request.params.unwrap().get(), params.get());
        }

        #[test]
        fn answers_survive_the_wire(id in ids(), code in any::<i32>(), message in ".*") {
            let result = serde_json::value::to_raw_value(&serde_json::json!({ "m": message })).unwrap();
            let bytes = write_result(&id, &result);
            let Message::Response(response) = Message::parse(&bytes, 10).unwrap() else { panic!("no response") };
            prop_assert_eq!(response.id.as_ref(), Some(&id));
            prop_assert_eq!(response.outcome.unwrap().get(), result.get());

            let error = RpcError::new(code, message).with_data(&[1]);
            let bytes = write_error(Some(&id), &error);
            let Message::Response(response) = Message::parse(&bytes, 10).unwrap() else { panic!("no response") };
            prop_assert_eq!(response.outcome.unwrap_err(), error);
        }
    }

    fn ids() -> impl Strategy<Value = RequestId> {
        prop_oneof![
            any::<i64>().prop_map(|number| RequestId::Number(number.into())),
            any::<u64>().prop_map(RequestId::from),
            ".*".prop_map(RequestId::String),
        ]
    }

    fn parse(text: &str) -> Result<Message<'_>, EnvelopeError> {
        Message::parse(text.as_bytes(), DEFAULT_MAX_NESTING)
    }

    #[track_caller]
    fn check(text: &str, code: i32, id: Option<RequestId>) {
        let error = parse(text).expect_err("an error");
        assert_eq!((error.error.code, error.id), (code, id), "{text}");
    }
}
