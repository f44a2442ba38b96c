//! A server with an audit log: the line is there before the answer, and nothing runs without it.

use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use marquetry_audit::{AuditLog, AuditOptions, OnError};
use marquetry_metrics::Format;
use marquetry_observe::{AuditTrail, Observer, ServerMetrics};
use marquetry_protocol::{
    RpcError,
    server::{Peer, Principal, Reply, RequestContext, Server, Toolbox},
};
use marquetry_request_notes::{Refusal, ToolOfUpstream, note};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json, value::to_raw_value};

#[derive(Deserialize, JsonSchema)]
struct NoArguments {}

struct Observed {
    server: Server,
    log: AuditLog,
    metrics: Arc<ServerMetrics>,
    runs: Arc<AtomicUsize>,
}

fn observed(path: &Path) -> Observed {
    let options = AuditOptions::default().with_on_error(OnError::Refuse);
    let log = AuditLog::open(path, options.with_retry(Duration::from_millis(10))).unwrap();
    let metrics = Arc::new(ServerMetrics::new("1"));
    metrics.watch_audit(log.clone());
    let observer = Observer::new("test")
        .with_audit(AuditTrail::new(log.clone()))
        .with_metrics(metrics.clone());
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = runs.clone();
    let toolbox = Toolbox::new("test", "1")
        .tool("count", "Counts its calls.", move |_: NoArguments, _: RequestContext| {
            let counted = counted.clone();
            async move { counted.fetch_add(1, Ordering::SeqCst).to_string() }
        })
        .tool("deny", "Is denied.", async |_: NoArguments, _: RequestContext| {
            note(|notes| {
                notes.refusal = Some(Refusal::Denied);
                notes.rule = Some("readers".to_owned());
            });
            "denied".to_owned()
        })
        .tool("files__delete", "Is declined.", async |_: NoArguments, _: RequestContext| {
            note(|notes| {
                notes.refusal = Some(Refusal::NotConfirmed);
                notes.tool_to_approve = Some(ToolOfUpstream::new("files", "delete"));
            });
            "declined".to_owned()
        });
    let server = Server::new(toolbox).with_observer(Arc::new(observer));
    Observed { server, log, metrics, runs }
}

async fn call(server: &Server, tool: &str) -> Result<Reply, RpcError> {
    let ann = Principal::new(Some("https://login.example".to_owned()), "ann");
    let call = server.direct_call(Peer::new(Some(Arc::new(ann)), None)).await.unwrap();
    let params = to_raw_value(&json!({"name": tool, "arguments": {}})).unwrap();
    call.request("tools/call", Some(&params)).await
}

fn last(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap();
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

#[tokio::test]
async fn the_line_is_there_before_the_answer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let observed = observed(&path);
    for number in 0..100 {
        let answer = call(&observed.server, "count").await.unwrap();
        assert!(answer.get().get().contains(&format!("\"{number}\"")));
        let line = last(&path);
        assert_eq!((&line["seq"], &line["name"]), (&json!(number + 2), &json!("count")));
        assert_eq!(
            (&line["principal"], &line["issuer"]),
            (&json!("ann"), &json!("https://login.example"))
        );
    }
    call(&observed.server, "deny").await.unwrap();
    let line = last(&path);
    assert_eq!((&line["outcome"], &line["rule"]), (&json!("denied"), &json!("readers")));
    let text = observed.metrics.write(Format::Prometheus);
    assert!(text.contains("marquetry_denied_total{reason=\"denied\"} 1\n"), "{text}");
    assert!(text.contains("marquetry_audit_lines_total 102\n"), "{text}");
    call(&observed.server, "files__delete").await.unwrap();
    let line = last(&path);
    assert_eq!((&line["upstream"], &line["tool"]), (&json!("files"), &json!("delete")));
    let text = observed.metrics.write(Format::Prometheus);
    let labels = "upstream=\"files\",gen_ai_tool_name=\"delete\",error_type=\"not_confirmed\"";
    assert!(text.contains(labels), "{text}");
}

#[tokio::test]
async fn nothing_runs_while_the_log_refuses() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("inner");
    let path = inner.join("audit.jsonl");
    let observed = observed(&path);
    call(&observed.server, "count").await.unwrap();
    fs::remove_dir_all(&inner).unwrap();
    for _ in 0..5 {
        let error = call(&observed.server, "count").await.unwrap_err();
        assert_eq!(error.code, -32603);
    }
    // The first of them could not know.
    assert_eq!(observed.runs.load(Ordering::SeqCst), 2);
    let text = observed.metrics.write(Format::Prometheus);
    assert!(text.contains("marquetry_audit_up 0\n"), "{text}");
    assert!(text.contains("marquetry_audit_dropped_total 1\n"), "{text}");
    fs::create_dir(&inner).unwrap();
    while observed.log.accepts().is_err() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    call(&observed.server, "count").await.unwrap();
    assert!(observed.metrics.write(Format::Prometheus).contains("marquetry_audit_up 1\n"));
}
