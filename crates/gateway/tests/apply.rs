//! The upstreams of a running gateway change.
#![cfg(unix)]

use std::sync::Arc;

use marquetry_gateway::{Applied, Gateway, GatewayOptions, Transport, UpstreamOptions};
use marquetry_protocol::Revision;

/// Returns an upstream in shell with the tool `t`, which `mark` tells from others of its name.
fn upstream(name: &str, mark: &str) -> UpstreamOptions {
    let script = r#"while read -r line; do id=${line#*'"id":'}; id=${id%%[,\}]*}
        case "$line" in
        *'"initialize"'*) result='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}';;
        *'"tools/list"'*) result='{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}';;
        *'"id":'*) result='{}';;
        *) continue;;
        esac
        printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"; done"#;
    let mut options = UpstreamOptions::new(name, Transport::stdio("sh", ["-c", script, mark]));
    options.revision = Some(Revision::V2025_11_25);
    options
}

fn tools(gateway: &Gateway) -> Vec<String> {
    gateway.catalog().tools.iter().map(|tool| tool.name.clone()).collect()
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

#[tokio::test]
async fn upstreams_are_added_replaced_updated_and_removed() {
    let options = GatewayOptions::default().with_upstream(upstream("a", "1"));
    let gateway = Gateway::start(options, Arc::new(()));
    gateway.settled().await;
    assert!(gateway.is_settled());
    assert!(gateway.apply(vec![upstream("a", "1")]).is_empty());

    let applied = gateway.apply(vec![upstream("b", "1"), upstream("a", "2")]);
    let mut want = Applied::default();
    want.added = names(&["b"]);
    want.restarted = names(&["a"]);
    assert_eq!(applied, want);
    assert_eq!(tools(&gateway), ["a__t"], "the list has no gap");
    assert!(gateway.is_settled(), "a load balancer goes on");
    gateway.settled().await;
    assert_eq!(tools(&gateway), ["b__t", "a__t"]);
    let numbers: Vec<_> = gateway.upstreams().iter().map(|it| it.number()).collect();
    assert_eq!(numbers, [1, 0], "a number belongs to its name");
    assert_eq!(gateway.upstream(0).unwrap().name(), "a");

    let mut renamed = upstream("a", "2");
    renamed.prefix = Some("x".to_owned());
    let applied = gateway.apply(vec![renamed, upstream("b", "1")]);
    assert_eq!(applied.updated, ["a"]);
    assert!(applied.restarted.is_empty());
    assert_eq!(tools(&gateway), ["x__t", "b__t"]);
    assert_eq!(gateway.upstream(0).unwrap().restarts(), 0);

    let mut disabled = upstream("b", "1");
    disabled.is_disabled = true;
    assert_eq!(gateway.apply_one(disabled).stopped, ["b"]);
    assert_eq!(tools(&gateway), ["x__t"]);
    assert_eq!(gateway.apply(Vec::new()).removed, ["a", "b"]);
    assert!(tools(&gateway).is_empty() && gateway.upstream(0).is_none());

    assert_eq!(gateway.apply(vec![upstream("a", "3")]).added, ["a"]);
    gateway.settled().await;
    assert_eq!(gateway.upstreams()[0].number(), 0);
    gateway.stop().await;
    assert!(gateway.apply(vec![upstream("c", "1")]).is_empty(), "it has stopped");
}

#[tokio::test]
async fn an_upstream_that_no_longer_starts_is_reported_and_the_others_stay() {
    let options = GatewayOptions::default()
        .with_upstream(upstream("a", "1"))
        .with_upstream(upstream("b", "1"));
    let gateway = Gateway::start(options, Arc::new(()));
    gateway.settled().await;
    let broken = UpstreamOptions::new("a", Transport::stdio("no-such-program-1", [""; 0]));
    assert_eq!(gateway.apply(vec![broken, upstream("b", "1")]).restarted, ["a"]);
    gateway.settled().await;
    let upstreams = gateway.upstreams();
    assert_eq!(upstreams[0].state().name(), "backing_off");
    assert_eq!((upstreams[1].state().name(), upstreams[1].restarts()), ("ready", 0));
    gateway.stop().await;
}
