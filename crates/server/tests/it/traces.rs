//! Spans of requests at a collector of OpenTelemetry.

use std::sync::{Arc, Mutex};

use axum::{Router, body::Bytes, routing::post};
use marquetry_protocol::{Revision, client::RevisionChoice};
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::any_value,
    trace::v1::{Span, span::SpanKind},
};
use prost::Message as _;
use serde_json::json;

use crate::{
    program::Program,
    scripted::{Scripted, lists},
    support::{ask, call},
};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const SESSION: RevisionChoice = RevisionChoice::Only(Revision::V2025_11_25);
const STATELESS: RevisionChoice = RevisionChoice::Only(Revision::V2026_07_28);

/// A collector that stores what it gets.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<ExportTraceServiceRequest>>>);

impl Collector {
    /// Starts it; returns it with its URL.
    async fn start() -> (Self, String) {
        let collector = Self::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let exports = collector.0.clone();
        let router = Router::new().route(
            "/v1/traces",
            post(async move |body: Bytes| {
                exports.lock().unwrap().push(ExportTraceServiceRequest::decode(body).unwrap());
            }),
        );
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        (collector, url)
    }

    fn spans(&self) -> Vec<Span> {
        let exports = self.0.lock().unwrap();
        let scopes =
            exports.iter().flat_map(|it| &it.resource_spans).flat_map(|it| &it.scope_spans);
        scopes.flat_map(|it| it.spans.clone()).collect()
    }

    fn resource(&self) -> String {
        format!("{:?}", self.0.lock().unwrap()[0].resource_spans[0].resource)
    }
}

/// Returns a text attribute of a span.
fn text<'a>(span: &'a Span, name: &str) -> &'a str {
    let attribute = span.attributes.iter().find(|it| it.key == name);
    match attribute.and_then(|it| it.value.as_ref()?.value.as_ref()) {
        Some(any_value::Value::StringValue(text)) => text,
        other => panic!("{name} of {}: {other:?}", span.name),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn upstream() -> Scripted {
    let tools = json!([{ "name": "query", "inputSchema": { "type": "object" } },
        { "name": "fail", "inputSchema": { "type": "object" } }]);
    Scripted::start("2025-11-25", move |method, params| {
        let said = json!({
            "content": [{ "type": "text", "text": "done" }], "isError": params["name"] == "fail",
        });
        Ok(lists(method, &tools, &json!([]), &json!([])).unwrap_or(said))
    })
    .await
}

#[tokio::test]
async fn a_call_is_one_trace_from_the_client_to_the_upstream() {
    let (collector, url) = Collector::start().await;
    let upstream = upstream().await;
    let environment =
        [("OTEL_EXPORTER_OTLP_ENDPOINT", &*url), ("OTEL_RESOURCE_ATTRIBUTES", "team=blue")];
    let program = Program::start_in(&upstream.toml("db"), &environment).await;
    for revision in [SESSION, STATELESS] {
        let agent = program.agent(revision).await;
        let meta = json!({ "traceparent": PARENT, "other": 1 });
        let params = json!({ "name": "db__query", "arguments": { "a": "hush" }, "_meta": meta });
        ask(&agent, "tools/call", params).await.unwrap();
        call(&agent, "db__fail", json!({})).await.unwrap();
        call(&agent, "db__nothing", json!({})).await.unwrap_err();
    }
    let log = program.stop().await;
    assert!(log.contains("requests are traced"), "{log}");

    let spans = collector.spans();
    assert!(!format!("{spans:?}").contains("hush"));
    let resource = collector.resource();
    for part in ["service.name", "\"marquetry\"", "service.version", "team", "\"blue\""] {
        assert!(resource.contains(part), "{part} in {resource}");
    }
    let sent = upstream.seen("tools/call");
    let servers: Vec<_> = spans.iter().filter(|span| span.name == "tools/call db__query").collect();
    assert_eq!(servers.len(), 2);
    for server in servers {
        assert_eq!(server.kind(), SpanKind::Server);
        assert_eq!(hex(&server.trace_id), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(hex(&server.parent_span_id), "b7ad6b7169203331");
        assert_eq!(text(server, "gen_ai.operation.name"), "execute_tool");
        assert_eq!(text(server, "network.transport"), "tcp");
        let below = spans.iter().find(|span| span.parent_span_id == server.span_id).unwrap();
        assert_eq!((below.kind(), &*below.name), (SpanKind::Client, "tools/call query"));
        assert_eq!(text(below, "marquetry.upstream"), "db");
        assert!(server.start_time_unix_nano <= below.start_time_unix_nano);
        assert!(below.end_time_unix_nano <= server.end_time_unix_nano + 1_000_000);
        let told = format!("00-0af7651916cd43dd8448eb211c80319c-{}-01", hex(&below.span_id));
        let told = sent.iter().find(|it| it["_meta"]["traceparent"] == told).unwrap();
        assert_eq!(told["_meta"]["other"], 1);
    }
    let failed = spans.iter().find(|span| span.name == "tools/call db__fail").unwrap();
    assert_eq!(text(failed, "error.type"), "tool_error");
    assert!(failed.parent_span_id.is_empty(), "it begins a trace");
    // A client chose the name of the unknown tool, and its mistake is no error of the server.
    let unknown = spans.iter().find(|span| span.name == "tools/call").unwrap();
    assert_eq!(text(unknown, "rpc.response.status_code"), "-32602");
    assert_eq!(unknown.status.as_ref().map_or(0, |status| status.code), 0);
}

#[tokio::test]
async fn a_collector_that_is_down_costs_no_call() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let upstream = upstream().await;
    let environment = [("OTEL_EXPORTER_OTLP_ENDPOINT", &*url), ("OTEL_BSP_MAX_QUEUE_SIZE", "8")];
    let program = Program::start_in(&upstream.toml("db"), &environment).await;
    let agent = program.agent(SESSION).await;
    for _ in 0..50 {
        let answer = call(&agent, "db__query", json!({})).await.unwrap();
        assert_eq!(answer["content"][0]["text"], "done");
    }
    program.stop().await;
}

#[tokio::test]
async fn without_a_collector_upstreams_get_the_parent_of_the_client() {
    let upstream = upstream().await;
    let program = Program::start_in(&upstream.toml("db"), &[]).await;
    let agent = program.agent(SESSION).await;
    let params = json!({ "name": "db__query", "_meta": { "traceparent": PARENT } });
    ask(&agent, "tools/call", params).await.unwrap();
    assert_eq!(upstream.seen("tools/call")[0]["_meta"]["traceparent"], PARENT);
    program.stop().await;
}
