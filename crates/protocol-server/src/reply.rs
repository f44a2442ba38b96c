//! The result of a method.

use std::sync::OnceLock;

use marquetry_protocol_wire::{
    Era, RequestId, Revision, RpcError,
    envelope::{Around, write_result_with, write_text_result},
    object::{ObjectText, may_have},
    types::{CacheHint, CacheScope, CallToolResult, Content, Task, meta_key},
};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

pub(super) use marquetry_protocol_wire::downgrade::keep_object_schemas;
#[cfg(all(any(test, fuzzing), feature = "http"))]
pub(super) use marquetry_protocol_wire::downgrade::shape as downgraded;
use marquetry_protocol_wire::downgrade::{UNSHAPED_SINCE, for_session, shape};

/// A result.
#[derive(Clone, Debug)]
pub struct Reply {
    content: ReplyContent,
    origin: Origin,
    cache: Option<CacheHint>,
    is_private: bool,
}

#[derive(Clone, Debug)]
enum ReplyContent {
    Json(Box<RawValue>),
    /// A tool's answer with a single text, the most frequent one; serialised together with the
    /// message.
    Text {
        text: String,
        json: OnceLock<Box<RawValue>>,
    },
    /// JSON with some changed members, which is valid and not parsed again.
    Edited {
        text: String,
        json: OnceLock<Box<RawValue>>,
    },
}

/// The author of a result. It decides how to treat the members that 2026-07-28 adds to every
/// result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A handler. It does not write these members: members with their names have another meaning.
    Handler,
    /// A server of 2026-07-28. The result is complete and has its own cache hint.
    Stateless,
    /// This crate: a question or a task, which is not cached.
    Protocol,
}

impl Reply {
    /// Serialises `value`, which must be a JSON object.
    ///
    /// # Errors
    /// Returns an error if it cannot be serialised.
    pub fn json(value: &impl Serialize) -> Result<Self, RpcError> {
        let json = to_raw_value(value)
            .map_err(|error| RpcError::internal(format!("result is not JSON: {error}")))?;
        Ok(Self::raw(json))
    }

    /// Creates a result from a JSON object, which is sent unchanged except for the members that a
    /// revision requires of every result.
    #[must_use]
    pub fn raw(json: Box<RawValue>) -> Self {
        Self::of(ReplyContent::Json(json))
    }

    /// Creates a complete result that has the members which 2026-07-28 requires (`resultType`, and
    /// for lists and reads `ttlMs` and `cacheScope`), such as one from a server of that revision.
    /// Missing or invalid ones are added, and the type is always "complete". Clients of older
    /// revisions do not get them.
    #[must_use]
    pub fn complete(json: Box<RawValue>) -> Self {
        Self { origin: Origin::Stateless, ..Self::raw(json) }
    }

    /// Creates a question, with its type.
    pub(crate) fn question(json: Box<RawValue>) -> Self {
        Self { origin: Origin::Protocol, ..Self::raw(json) }
    }

    fn of(content: ReplyContent) -> Self {
        Self { content, origin: Origin::Handler, cache: None, is_private: false }
    }

    /// Makes the result private: caches must not share it between clients, even if its own hint
    /// allows that.
    #[must_use]
    pub fn private(self) -> Self {
        Self { is_private: true, ..self }
    }

    /// Sets how long clients may cache the result (since 2026-07-28; older revisions have no such
    /// hint).
    ///
    /// Lists and reads of resources always have a hint: by default that of
    /// [`Handler::cache_hint`](crate::Handler::cache_hint). A [complete](Self::complete) reply has
    /// its own.
    #[must_use]
    pub fn cached(self, hint: CacheHint) -> Self {
        Self { cache: Some(hint), ..self }
    }

    /// Returns the length of its text in bytes.
    pub(crate) fn text_len(&self) -> usize {
        match &self.content {
            ReplyContent::Json(json) => json.get().len(),
            ReplyContent::Text { text, .. } | ReplyContent::Edited { text, .. } => text.len(),
        }
    }

    pub(crate) fn cache(&self) -> Option<CacheHint> {
        self.cache
    }

    /// Returns the JSON.
    #[must_use]
    pub fn get(&self) -> &RawValue {
        match &self.content {
            ReplyContent::Json(json) => json,
            ReplyContent::Text { text, json } => json.get_or_init(|| {
                to_raw_value(&CallToolResult::text(text)).expect("a text serialises")
            }),
            ReplyContent::Edited { text, json } => json.get_or_init(|| {
                RawValue::from_string(text.clone()).expect("members of valid JSON make valid JSON")
            }),
        }
    }

    /// Removes these keys from `_meta`. If `_meta` is then empty, removes it as well.
    ///
    /// Handlers use it to remove the metadata of an extension from the reply of another handler,
    /// for clients that do not know the extension. A reply without these keys is returned
    /// unchanged, without being parsed.
    #[must_use]
    pub fn without_meta(self, keys: &[&str]) -> Self {
        self.edited(|json| may_have(json, &[r#""_meta""#]).then(|| without_meta(json, keys))?)
    }

    /// Replaces the JSON by what `edit` makes of it; without a result, the reply stays unchanged.
    /// The answer of a tool that is a single text is not edited.
    #[must_use]
    pub fn edited(self, edit: impl FnOnce(&RawValue) -> Option<Box<RawValue>>) -> Self {
        let edited = match &self.content {
            ReplyContent::Text { .. } => None,
            ReplyContent::Json(_) | ReplyContent::Edited { .. } => edit(self.get()),
        };
        match edited {
            Some(json) => Self { content: ReplyContent::Json(json), ..self },
            None => self,
        }
    }

    /// Converts the reply to the form of the client's revision.
    pub(crate) fn shaped(self, method: &str, revision: Revision) -> Result<Self, RpcError> {
        if revision.era() == Era::Stateless {
            return Ok(self);
        }
        let reply = match &self.content {
            ReplyContent::Json(json) => {
                match for_session(method, json, self.origin == Origin::Stateless) {
                    Some(text) => {
                        let content = ReplyContent::Edited { text, json: OnceLock::new() };
                        Self { content, ..self }
                    }
                    None => self,
                }
            }
            _ => self,
        };
        if revision >= UNSHAPED_SINCE {
            return Ok(reply);
        }
        let json = shape(method, revision, reply.get().to_owned())?;
        Ok(Self { content: ReplyContent::Json(json), ..reply })
    }

    /// Returns the answer that creates a task (SEP-2663, "Task Creation").
    pub(crate) fn task(task: &Task) -> Result<Self, RpcError> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Created<'a> {
            result_type: &'static str,
            #[serde(flatten)]
            task: &'a Task,
        }
        let created = Created { result_type: "task", task };
        Ok(Self { origin: Origin::Protocol, ..Self::json(&created)? })
    }

    /// Returns the result with the members that the stateless era requires, for use inside of
    /// another result.
    pub(crate) fn into_whole(self) -> Box<RawValue> {
        let json = self.get();
        if self.origin != Origin::Handler {
            return json.to_owned();
        }
        let members = r#"{"resultType":"complete""#;
        let rest = json.get().strip_prefix('{').unwrap_or("}");
        let comma = if rest.trim_start().starts_with('}') { "" } else { "," };
        RawValue::from_string(format!("{members}{comma}{rest}")).unwrap_or_else(|_| json.to_owned())
    }

    /// Returns the bytes of the answer to a client in a session.
    pub(crate) fn write(&self, id: &RequestId) -> Vec<u8> {
        self.write_around(id, Around::default())
    }

    /// Returns the bytes of the answer to a stateless client, with the members that 2026-07-28
    /// requires of every result.
    pub(crate) fn write_stamped(&self, id: &RequestId, stamp: &Stamp<'_>) -> Vec<u8> {
        let hint = stamp.hint.map(|hint| {
            if self.is_private {
                CacheHint { cache_scope: CacheScope::Private, ..hint }
            } else {
                hint
            }
        });
        let stamp = Stamp { hint, ..*stamp };
        match &self.content {
            // Most results have none of the members, and are not parsed.
            ReplyContent::Json(json)
                if self.origin != Origin::Handler
                    || may_have(json, &[r#""_meta""#, r#""resultType""#])
                    || hint.is_some() && may_have(json, &[r#""ttlMs""#, r#""cacheScope""#]) =>
            {
                match stamp.stamped(json, self.origin, self.is_private) {
                    Some(stamped) => write_result_with(id, Around::default(), &stamped),
                    None => self.write_around(id, Around::default()),
                }
            }
            _ => {
                let (before, after) = stamp.members();
                self.write_around(id, Around { before: &before, after: &after })
            }
        }
    }

    fn write_around(&self, id: &RequestId, around: Around<'_>) -> Vec<u8> {
        match &self.content {
            ReplyContent::Json(json) => write_result_with(id, around, json.get()),
            ReplyContent::Edited { text, .. } => write_result_with(id, around, text),
            ReplyContent::Text { text, .. } => write_text_result(id, around, text),
        }
    }
}

/// Returns the object without these keys of its `_meta`; `None` if it has none of them.
fn without_meta(json: &RawValue, keys: &[&str]) -> Option<Box<RawValue>> {
    let mut object = ObjectText::of(json)?;
    let mut meta = object.object("_meta")?;
    let mut is_changed = false;
    for key in keys {
        is_changed |= meta.remove(key);
    }
    let meta = (!meta.is_empty()).then(|| meta.write());
    if !is_changed {
        return None;
    }
    match meta {
        Some(meta) => object.set("_meta", meta),
        None => _ = object.remove("_meta"),
    }
    RawValue::from_string(object.write()).ok()
}

impl TryFrom<CallToolResult> for Reply {
    type Error = RpcError;

    fn try_from(mut result: CallToolResult) -> Result<Self, RpcError> {
        if let CallToolResult { content, structured_content: None, is_error: None, meta: None } =
            &mut result
            && let [Content::Text { text, annotations: None, meta: None }] = &mut content[..]
        {
            let content = ReplyContent::Text { text: std::mem::take(text), json: OnceLock::new() };
            return Ok(Self::of(content));
        }
        Self::json(&result)
    }
}

/// The members that 2026-07-28 requires of every result: its type, its cache hint, and its server.
#[derive(Clone, Copy)]
pub(crate) struct Stamp<'a> {
    /// Cache hint of results that may be cached.
    pub(crate) hint: Option<CacheHint>,
    /// An `Implementation` as JSON; [`None`] if the result contains it already.
    pub(crate) server_info: Option<&'a str>,
}

impl Stamp<'_> {
    /// Returns the text before and after the members of a result that has none of these members.
    pub(crate) fn members(&self) -> (String, String) {
        let mut before = r#""resultType":"complete","#.to_owned();
        if let Some(hint) = self.hint {
            before +=
                &format!(r#""ttlMs":{},"cacheScope":{},"#, hint.ttl_ms, scope(hint.cache_scope));
        }
        let after = match self.server_info {
            Some(info) => format!(r#","_meta":{{"{}":{info}}}"#, meta_key::SERVER_INFO),
            None => String::new(),
        };
        (before, after)
    }

    /// Adds the members to a result that may have some of them; [`None`] if it is not an object.
    ///
    /// Members that its origin does not write are replaced. Duplicate members are reduced to one,
    /// because parsers disagree which one counts. The server is always this one, even if another
    /// one made the result.
    pub(crate) fn stamped(
        &self,
        result: &RawValue,
        origin: Origin,
        is_private: bool,
    ) -> Option<String> {
        let mut object = ObjectText::of(result)?;
        if origin != Origin::Protocol {
            object.set("resultType", r#""complete""#);
        }
        if let Some(hint) = self.hint.filter(|_| origin != Origin::Protocol) {
            let [own_ttl, own_scope] = ["ttlMs", "cacheScope"]
                .map(|name| object.get(name).filter(|_| origin == Origin::Stateless));
            let ttl_ms = own_ttl.and_then(|ttl| ttl.parse().ok()).unwrap_or(hint.ttl_ms);
            let cache_scope = match own_scope {
                Some(r#""public""#) if !is_private => CacheScope::Public,
                Some(_) => CacheScope::Private,
                None => hint.cache_scope,
            };
            object.set("ttlMs", ttl_ms.to_string());
            object.set("cacheScope", scope(cache_scope));
        }
        if let Some(info) = self.server_info {
            let meta = match object.object("_meta") {
                Some(mut meta) => {
                    meta.set(meta_key::SERVER_INFO, info);
                    meta.write()
                }
                None => format!(r#"{{"{}":{info}}}"#, meta_key::SERVER_INFO),
            };
            object.set("_meta", meta);
        }
        Some(object.write())
    }
}

fn scope(scope: CacheScope) -> &'static str {
    match scope {
        CacheScope::Public => r#""public""#,
        CacheScope::Private => r#""private""#,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_text_alone_is_written_as_any_result() {
        let result = CallToolResult::text("a \"b\"\nä");
        let quick = Reply::try_from(result.clone()).unwrap();
        assert!(matches!(quick.content, ReplyContent::Text { .. }));
        let slow = Reply::json(&result).unwrap();
        assert_eq!(quick.get().get(), slow.get().get());
        let stamp = Stamp { hint: None, server_info: Some(r#"{"name":"s"}"#) };
        assert_eq!(quick.write(&1.into()), slow.write(&1.into()));
        assert_eq!(quick.write_stamped(&1.into(), &stamp), slow.write_stamped(&1.into(), &stamp));
        for other in [
            CallToolResult::error("a"),
            CallToolResult { content: vec![Content::text("a"), Content::text("b")], ..result },
        ] {
            let reply = Reply::try_from(other).unwrap();
            assert!(matches!(reply.content, ReplyContent::Json(_)));
        }
    }

    #[test]
    fn metadata_of_an_extension_is_taken_out() {
        for (json, want) in [
            (
                r#"{"content":[],"_meta":{"ui":{"a":1},"b":2.50}}"#,
                r#"{"content":[],"_meta":{"b":2.50}}"#,
            ),
            (r#"{"_meta":{"ui":1,"\u0075i":2},"content":[]}"#, r#"{"content":[]}"#),
            (r#"{"_m\u0065ta":{"ui/x":1}}"#, "{}"),
            (r#"{"_meta":{"ui":1},"_meta":{"ui":2,"b":1}}"#, r#"{"_meta":{"b":1}}"#),
            // A text without members to remove stays unchanged.
            (r#"{ "_meta": {"b": 1} }"#, r#"{ "_meta": {"b": 1} }"#),
            (r#"{"_meta":7,"ui":1}"#, r#"{"_meta":7,"ui":1}"#),
            (r#"{"content":[{"_meta":{"ui":1}}]}"#, r#"{"content":[{"_meta":{"ui":1}}]}"#),
        ] {
            let reply = Reply::raw(RawValue::from_string(json.to_owned()).unwrap()).private();
            let reply = reply.without_meta(&["ui", "ui/x"]);
            assert_eq!((reply.get().get(), reply.is_private), (want, true));
        }
        let text =
            Reply::try_from(CallToolResult::text("\"_meta\"")).unwrap().without_meta(&["ui"]);
        assert!(matches!(text.content, ReplyContent::Text { .. }));
    }

    #[track_caller]
    fn check(result: Value, origin: Origin, is_private: bool, want: Value) {
        let hint = CacheHint { ttl_ms: 0, cache_scope: CacheScope::Private };
        let stamp = Stamp { hint: Some(hint), server_info: Some(r#"{"name":"we"}"#) };
        let raw = to_raw_value(&result).unwrap();
        let stamped = stamp.stamped(&raw, origin, is_private).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&stamped).unwrap(), want);
    }

    #[test]
    fn a_complete_result_keeps_its_members_but_the_server_is_this_one() {
        let ours = json!({ meta_key::SERVER_INFO: { "name": "we" } });
        let theirs = json!({ "x": 1, meta_key::SERVER_INFO: { "name": "they" } });
        let both = json!({ "x": 1, meta_key::SERVER_INFO: { "name": "we" } });
        check(
            json!({ "resultType": "complete", "ttlMs": 7, "cacheScope": "public", "_meta": theirs }),
            Origin::Stateless,
            false,
            json!({ "resultType": "complete", "ttlMs": 7, "cacheScope": "public", "_meta": both }),
        );
        check(
            json!({ "resultType": "complete", "ttlMs": 7, "cacheScope": "public" }),
            Origin::Stateless,
            true,
            json!({ "resultType": "complete", "ttlMs": 7, "cacheScope": "private", "_meta": ours }),
        );
        check(
            json!({ "a": 1 }),
            Origin::Stateless,
            false,
            json!({ "a": 1, "resultType": "complete", "ttlMs": 0, "cacheScope": "private", "_meta": ours }),
        );
        check(
            json!({ "resultType": "input_required" }),
            Origin::Protocol,
            false,
            json!({ "resultType": "input_required", "_meta": ours }),
        );
    }

    #[test]
    fn members_of_another_server_are_valid_and_not_duplicated() {
        let info = r#""_meta":{"io.modelcontextprotocol/serverInfo":{"name":"we"}}"#;
        for (result, want) in [
            (
                r#"{"resultType":"complete","resultType":"input_required","\u0072esultType":1,"a":1}"#,
                r#"{"resultType":"complete","a":1,"ttlMs":0,"cacheScope":"private","#,
            ),
            (
                r#"{"ttlMs":-5,"cacheScope":"all","cacheScope":"every","resultType":"task"}"#,
                r#"{"ttlMs":0,"cacheScope":"private","resultType":"complete","#,
            ),
        ] {
            let hint = Some(CacheHint::default());
            let stamp = Stamp { hint, server_info: Some(r#"{"name":"we"}"#) };
            let raw: &RawValue = serde_json::from_str(result).unwrap();
            let stamped = stamp.stamped(raw, Origin::Stateless, false).unwrap();
            assert_eq!(stamped, format!("{want}{info}}}"));
        }
    }

    #[test]
    fn members_of_an_older_server_with_these_names_are_replaced() {
        check(
            json!({ "resultType": "task", "ttlMs": 7, "_meta": null }),
            Origin::Handler,
            false,
            json!({
                "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
                "_meta": { meta_key::SERVER_INFO: { "name": "we" } },
            }),
        );
    }
}
