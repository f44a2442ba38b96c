//! Cache hints for clients, and methods of extensions.

use std::time::Duration;

use async_trait::async_trait;
use marquetry_protocol::{
    Revision, RpcError,
    client::{CallOptions, Client, ClientOptions},
    server::{Handler, Reply, RequestContext, Server, ServerDescription},
    types::{
        CacheHint, Implementation, ListChanged, ListToolsResult, ReadResourceParams,
        ReadResourceResult, ServerCapabilities,
    },
};
use serde_json::{Value, json, value::to_raw_value};

use crate::support::{Transport, client_of};

/// Its lists may be cached for a minute, for all users; the resource `test://own` for a second.
struct Cached;

#[async_trait]
impl Handler for Cached {
    fn describe(&self) -> ServerDescription {
        let mut capabilities = ServerCapabilities::default();
        capabilities.tools = Some(ListChanged::default());
        capabilities.add_extension("com.example/clock");
        let info = Implementation::new("cached", "1");
        ServerDescription { info, capabilities, instructions: None }
    }

    fn cache_hint(&self, method: &str) -> CacheHint {
        match method {
            "tools/list" | "server/discover" => CacheHint::public(Duration::from_mins(1)),
            _ => CacheHint::default(),
        }
    }

    async fn list_tools(
        &self,
        _: Option<&str>,
        _: &RequestContext,
    ) -> Result<ListToolsResult, RpcError> {
        Ok(ListToolsResult::default())
    }

    async fn read_resource(
        &self,
        params: ReadResourceParams,
        _: &RequestContext,
    ) -> Result<Reply, RpcError> {
        let reply = Reply::json(&ReadResourceResult::default())?;
        Ok(match &*params.uri {
            "test://own" => reply.cached(CacheHint::private(Duration::from_secs(1))),
            _ => reply,
        })
    }
}

#[tokio::test]
async fn results_say_how_long_they_are_good() {
    let server = Server::new(Cached).with_method("clock/read", clock).unwrap();
    let cases = [
        ("tools/list", json!({}), json!([60_000, "public"])),
        ("server/discover", json!({}), json!([60_000, "public"])),
        ("resources/read", json!({ "uri": "test://own" }), json!([1_000, "private"])),
        ("resources/read", json!({ "uri": "test://other" }), json!([0, "private"])),
        ("clock/read", json!({ "zone": "UTC" }), json!([5, "public"])),
        ("clock/read", json!({ "zone": "now" }), json!([null, null])),
    ];
    for transport in [Transport::Pipe, Transport::Http] {
        for revision in [Revision::V2025_06_18, Revision::V2025_11_25, Revision::V2026_07_28] {
            let stateless = revision == Revision::V2026_07_28;
            let options = ClientOptions::default();
            let (_guard, client) = client_of(&server, transport, revision, options).await;
            for (method, params, want) in &cases {
                if *method == "server/discover" && !stateless {
                    continue;
                }
                let answer = request(&client, method, params).await;
                let hint = json!([answer["ttlMs"], answer["cacheScope"]]);
                let want = if stateless { want } else { &json!([null, null]) };
                assert_eq!(hint, *want, "{method} {params} in {revision}");
            }
        }
    }
}

#[tokio::test]
async fn methods_of_extensions_are_answered_in_both_eras() {
    let server = Server::new(Cached).with_method("clock/read", clock).unwrap();
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let options = ClientOptions::default();
        let (_guard, client) = client_of(&server, Transport::Http, revision, options).await;
        assert!(client.server().capabilities.has_extension("com.example/clock"));
        let answer = request(&client, "clock/read", &json!({ "zone": "UTC" })).await;
        assert_eq!(answer["zone"], "UTC");
        let error = client.request("clock/read", None, CallOptions::default()).await.unwrap_err();
        assert!(error.to_string().contains("no zone"), "{error}");
    }
    assert!(Server::new(Cached).with_method("tools/list", clock).is_err());
    assert!(server.with_method("clock/read", clock).is_err());
}

async fn clock(
    params: Option<Box<serde_json::value::RawValue>>,
    cx: RequestContext,
) -> Result<Reply, RpcError> {
    assert_eq!(cx.method(), "clock/read");
    let params: Value =
        params.map_or(Value::Null, |params| serde_json::from_str(params.get()).unwrap());
    let zone = params["zone"].as_str().ok_or_else(|| RpcError::invalid_params("no zone"))?;
    let reply = Reply::json(&json!({ "zone": zone }))?;
    Ok(match zone {
        "now" => reply,
        _ => reply.cached(CacheHint::public(Duration::from_millis(5))),
    })
}

async fn request(client: &Client, method: &str, params: &Value) -> Value {
    let params = to_raw_value(params).unwrap();
    let answer = client.request(method, Some(&params), CallOptions::default()).await.unwrap();
    serde_json::from_str(answer.get()).unwrap()
}
