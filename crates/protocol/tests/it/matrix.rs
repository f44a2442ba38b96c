//! Rules for every transport and both eras.

use marquetry_protocol::{
    Revision,
    client::{CallOptions, Client, ClientError, Progress},
    error_code,
    types::{CallToolParams, CallToolResult},
};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::support::{TOOLS, Transport, World, connected, soon};

macro_rules! matrix {
    ($($name:ident)*) => {
        $(mod $name {
            use super::*;

            #[tokio::test]
            async fn pipe_session() {
                super::$name(connected(Transport::Pipe, Revision::V2025_11_25).await).await;
            }

            #[tokio::test]
            async fn pipe_stateless() {
                super::$name(connected(Transport::Pipe, Revision::V2026_07_28).await).await;
            }

            #[tokio::test]
            async fn http_session() {
                super::$name(connected(Transport::Http, Revision::V2025_11_25).await).await;
            }

            #[tokio::test]
            async fn sse_session() {
                super::$name(connected(Transport::Sse, Revision::V2025_11_25).await).await;
            }

            #[tokio::test]
            async fn http_stateless() {
                super::$name(connected(Transport::Http, Revision::V2026_07_28).await).await;
            }
        })*
    };
}

matrix! {
    the_server_introduces_itself
    lists_come_from_all_pages
    answers_come_back_whole
    many_calls_run_side_by_side
    progress_comes_before_the_answer
    a_dropped_call_is_cancelled_at_the_server
    a_cancelled_call_is_cancelled_at_the_server
    a_call_that_takes_too_long_is_cancelled
    list_changes_arrive
    errors_keep_their_code
    a_panic_is_an_internal_error
    an_answer_comes_whether_its_stream_closes_or_not
    results_have_the_members_that_the_revision_requires
}

type Connected = (World, Client);

async fn the_server_introduces_itself((_world, client): Connected) {
    assert_eq!(client.server().info.name, "everything");
    assert!(client.server().capabilities.tools.unwrap().list_changed);
}

async fn lists_come_from_all_pages((_world, client): Connected) {
    let names: Vec<String> =
        client.list_tools().await.unwrap().into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, TOOLS);
}

async fn answers_come_back_whole((_world, client): Connected) {
    for text in ["", "a", "über\u{2028}\n\"\\", &"x".repeat(5 << 20)] {
        let result = call(&client, "echo", json!({ "text": text })).await.unwrap();
        assert_eq!(result.content[0].as_text(), Some(text));
    }
}

async fn many_calls_run_side_by_side((_world, client): Connected) {
    let calls: Vec<_> = (0..100)
        .map(|i| {
            let client = client.clone();
            tokio::spawn(async move {
                (i, call(&client, "echo", json!({ "text": i.to_string() })).await.unwrap())
            })
        })
        .collect();
    for handle in calls {
        let (i, result) = soon("an answer", handle).await.unwrap();
        assert_eq!(result.content[0].as_text(), Some(&*i.to_string()));
    }
}

async fn progress_comes_before_the_answer((_world, client): Connected) {
    let (sender, mut told) = mpsc::channel(16);
    let options = CallOptions { progress: Some(sender), ..CallOptions::default() };
    let params = CallToolParams::new("count", &json!({ "n": 5 })).unwrap();
    client.call_tool_raw(&params, options).await.unwrap();
    let mut seen = Vec::new();
    while let Ok(progress) = told.try_recv() {
        assert_eq!((progress.total, progress.message.as_deref()), (Some(5.0), Some("counting")));
        seen.push(progress.progress);
    }
    assert_eq!(seen, [1.0, 2.0, 3.0, 4.0, 5.0]);
}

async fn a_dropped_call_is_cancelled_at_the_server((mut world, client): Connected) {
    let (options, mut started) = watched();
    let params = CallToolParams::new("wait", &json!({})).unwrap();
    {
        let call = client.call_tool_raw(&params, options);
        tokio::select! {
            _ = call => panic!("an answer came"),
            first = started.recv() => assert!(first.is_some()),
        }
    }
    soon("cancellation", world.cancelled.recv()).await.unwrap();
    call(&client, "echo", json!({ "text": "still there" })).await.unwrap();
}

async fn a_cancelled_call_is_cancelled_at_the_server((mut world, client): Connected) {
    let (options, mut started) = watched();
    let cancel = CancellationToken::new();
    let options = CallOptions { cancel: Some(cancel.clone()), ..options };
    let params = CallToolParams::new("wait", &json!({})).unwrap();
    let (result, ()) = tokio::join!(client.call_tool_raw(&params, options), async {
        started.recv().await.unwrap();
        cancel.cancel();
    });
    assert!(matches!(result, Err(ClientError::Cancelled)));
    soon("cancellation", world.cancelled.recv()).await.unwrap();
}

async fn a_call_that_takes_too_long_is_cancelled((mut world, client): Connected) {
    let options = CallOptions {
        timeout: Some(std::time::Duration::from_millis(200)),
        ..CallOptions::default()
    };
    let result =
        client.call_tool_raw(&CallToolParams::new("wait", &json!({})).unwrap(), options).await;
    assert_eq!(result.unwrap_err().to_string(), "no answer within 0.2 s");
    soon("cancellation", world.cancelled.recv()).await.unwrap();
}

async fn list_changes_arrive((world, client): Connected) {
    let mut notifications = client.notifications();
    let heard = async {
        loop {
            let notification = notifications.recv().await.unwrap();
            if &*notification.method == "notifications/tools/list_changed" {
                return;
            }
        }
    };
    // Listening starts after the handshake; earlier notifications are lost.
    let announce = async {
        loop {
            world.server.notifier().tools_changed();
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        () = soon("the announcement", heard) => {}
        () = announce => {}
    }
}

async fn errors_keep_their_code((_world, client): Connected) {
    let code = async |method: &str, params: Value| {
        let params = serde_json::value::to_raw_value(&params).unwrap();
        match client.request(method, Some(&params), CallOptions::default()).await {
            Err(ClientError::Rpc(error)) => error.code,
            other => panic!("{method}: {other:?}"),
        }
    };
    assert_eq!(code("no/such/method", json!({})).await, error_code::METHOD_NOT_FOUND);
    assert_eq!(code("prompts/list", json!({})).await, error_code::METHOD_NOT_FOUND);
    assert_eq!(code("tools/call", json!({ "name": "none" })).await, error_code::INVALID_PARAMS);
    assert_eq!(code("tools/list", json!({ "cursor": "x" })).await, error_code::INVALID_PARAMS);
    assert_eq!(code("tools/list", json!({ "cursor": 7 })).await, error_code::INVALID_PARAMS);
    let stateless = client.server().revision == Revision::V2026_07_28;
    let not_found =
        if stateless { error_code::INVALID_PARAMS } else { error_code::RESOURCE_NOT_FOUND };
    assert_eq!(code("resources/read", json!({ "uri": "test://none" })).await, not_found);
    // Methods of the other era do not exist.
    let foreign = if stateless { "ping" } else { "subscriptions/listen" };
    assert_eq!(code(foreign, json!({})).await, error_code::METHOD_NOT_FOUND);
}

async fn a_panic_is_an_internal_error((_world, client): Connected) {
    let error = call(&client, "panic", json!({})).await.unwrap_err();
    assert_eq!(error.to_string(), "method 'tools/call' panicked (-32603)");
    call(&client, "echo", json!({ "text": "still there" })).await.unwrap();
}

async fn an_answer_comes_whether_its_stream_closes_or_not((_world, client): Connected) {
    let (options, mut told) = watched();
    let params = CallToolParams::new("leave", &json!({})).unwrap();
    let answer = soon("an answer", client.call_tool_raw(&params, options)).await.unwrap();
    assert!(answer.get().contains("came back"), "{answer}");
    let mut steps = Vec::new();
    while let Ok(progress) = told.try_recv() {
        steps.push(progress.progress);
    }
    assert_eq!(steps, [1.0, 2.0]);
}

async fn results_have_the_members_that_the_revision_requires((_world, client): Connected) {
    let params = serde_json::value::to_raw_value(&json!({ "uri": "test://one" })).unwrap();
    let read =
        client.request("resources/read", Some(&params), CallOptions::default()).await.unwrap();
    let call = client
        .call_tool_raw(&CallToolParams::new("echo", &json!({})).unwrap(), CallOptions::default())
        .await
        .unwrap();
    if client.server().revision == Revision::V2026_07_28 {
        let start = r#"{"resultType":"complete","ttlMs":0,"cacheScope":"private","contents":"#;
        assert!(read.get().starts_with(start), "{read}");
        assert!(call.get().starts_with(r#"{"resultType":"complete","content":"#), "{call}");
    } else {
        assert!(read.get().starts_with(r#"{"contents":"#), "{read}");
        assert!(call.get().starts_with(r#"{"content":"#), "{call}");
    }
}

async fn call(
    client: &Client,
    tool: &str,
    arguments: Value,
) -> Result<CallToolResult, ClientError> {
    let params = CallToolParams::new(tool, &arguments).unwrap();
    let result = client.call_tool_raw(&params, CallOptions::default()).await?;
    Ok(serde_json::from_str(result.get()).unwrap())
}

/// Options of a call whose start shows in its progress.
fn watched() -> (CallOptions, mpsc::Receiver<Progress>) {
    let (sender, started) = mpsc::channel(4);
    (CallOptions { progress: Some(sender), ..CallOptions::default() }, started)
}
