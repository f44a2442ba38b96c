//! The members that 2026-07-28 requires of every result.

use marquetry_protocol_wire::{
    object::ObjectText,
    types::{CacheHint, CacheScope, meta_key},
};
use serde_json::value::RawValue;

use super::origin::Origin;

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
    use serde_json::{Value, json, value::to_raw_value};

    use super::*;

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
