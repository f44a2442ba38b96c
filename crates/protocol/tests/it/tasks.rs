//! Calls that go on as tasks.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use marquetry_protocol::{
    Era, Revision, RpcError,
    client::{
        CallOptions, Client, ClientError, ClientHandler, ClientOptions, StartedCall, TaskHandle,
    },
    error_code,
    server::{
        Handler, Limits, Reply, RequestContext, Server, ServerDescription, TaskOptions, Toolbox,
    },
    types::{
        CallToolParams, CallToolResult, ClientCapabilities, ElicitAction, ElicitParams,
        ElicitResult, Implementation, JsonObject, ListChanged, ServerCapabilities, TASKS_EXTENSION,
        TaskStatus,
    },
};
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    sync::mpsc,
};
use tokio_util::sync::DropGuard;

use crate::support::{Transport, client_of, soon};

const BOTH: [Transport; 2] = [Transport::Pipe, Transport::Http];
const STATELESS: Revision = Revision::V2026_07_28;

/// Every tool is a task but `late`, which becomes one after a question; `must` makes no sense but
/// as one.
struct Worker {
    ended: mpsc::UnboundedSender<()>,
}

struct TellOnDrop(mpsc::UnboundedSender<()>);

impl Drop for TellOnDrop {
    fn drop(&mut self) {
        _ = self.0.send(());
    }
}

#[async_trait]
impl Handler for Worker {
    fn describe(&self) -> ServerDescription {
        let mut capabilities = ServerCapabilities::default();
        capabilities.tools = Some(ListChanged::default());
        capabilities.add_extension(TASKS_EXTENSION);
        let info = Implementation::new("worker", "1");
        ServerDescription { info, capabilities, instructions: None }
    }

    fn task_options(&self, tool: &str) -> Option<TaskOptions> {
        let soon = Duration::from_millis(20);
        match tool {
            "late" => None,
            "for ever" => Some(TaskOptions::default().time_to_live(Duration::MAX)),
            "must" => Some(TaskOptions::required().poll_interval(soon)),
            "short" => Some(
                TaskOptions::default().time_to_live(Duration::from_millis(60)).poll_interval(soon),
            ),
            _ => Some(TaskOptions::default().poll_interval(soon)),
        }
    }

    async fn call_tool(
        &self,
        params: CallToolParams,
        cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        let text = |text: String| Reply::json(&CallToolResult::text(text));
        match &*params.name {
            "wait" | "short" => {
                let _tell = TellOnDrop(self.ended.clone());
                std::future::pending().await
            }
            "say" => {
                cx.progress(1.0, None, Some("half-way")).await;
                tokio::time::sleep(Duration::from_millis(100)).await;
                text("said".to_owned())
            }
            "ask" => {
                let one = form("one?");
                let two = form("two?");
                let answers = tokio::try_join!(cx.elicit("a", &one), cx.elicit("a", &two))?;
                text(json!([answers.0.content, answers.1.content]).to_string())
            }
            "late" => {
                let answer = cx.elicit("first", &form("before?")).await?;
                let work = async move |cx: RequestContext| {
                    let id = cx.task_id().is_some();
                    Reply::json(&CallToolResult::text(json!([id, answer.content]).to_string()))
                };
                cx.run_as_task(TaskOptions::required(), work).await
            }
            "failed" => Reply::json(&CallToolResult::error("no")),
            "broken" => Err(RpcError::internal("broken")),
            "panic" => panic!("on purpose"),
            "long" => text("x".repeat(1_000)),
            _ => text(format!("task {}", cx.task_id().is_some())),
        }
    }
}

fn form(message: &str) -> ElicitParams {
    ElicitParams::form(message, json!({ "type": "object" }))
}

/// Answers with the question.
struct Echoes;

#[async_trait]
impl ClientHandler for Echoes {
    async fn elicit(&self, params: ElicitParams) -> Result<ElicitResult, RpcError> {
        let content = JsonObject::from_iter([("asked".to_owned(), params.message.into())]);
        Ok(ElicitResult { action: ElicitAction::Accept, content: Some(content) })
    }
}

#[tokio::test]
async fn a_task_is_followed_to_its_end() {
    for transport in BOTH {
        let (_guard, client, _) = worker(transport, STATELESS, Limits::default()).await;
        assert_eq!(call(&client, "plain").await.unwrap(), "task true");
        assert_eq!(call(&client, "must").await.unwrap(), "task true");
        let (sender, mut told) = mpsc::channel(8);
        let options = CallOptions { progress: Some(sender), ..CallOptions::default() };
        client.call_tool_raw(&params("say"), options).await.unwrap();
        assert_eq!(told.recv().await.unwrap().message.as_deref(), Some("half-way"));
    }
}

#[tokio::test]
async fn questions_before_and_in_a_task_are_answered() {
    for transport in BOTH {
        let (_guard, client, _) = worker(transport, STATELESS, Limits::default()).await;
        // Two questions have the same key. Each gets its own answer all the same.
        assert_eq!(call(&client, "ask").await.unwrap(), r#"[{"asked":"one?"},{"asked":"two?"}]"#);
        assert_eq!(call(&client, "late").await.unwrap(), r#"[true,{"asked":"before?"}]"#);
    }
}

#[tokio::test]
async fn clients_that_know_no_tasks_wait_for_the_answer() {
    for revision in Revision::ALL.into_iter().filter(|revision| revision.era() == Era::Session) {
        let (_guard, client, _) = worker(Transport::Pipe, revision, Limits::default()).await;
        for tool in ["plain", "must"] {
            assert_eq!(call(&client, tool).await.unwrap(), "task false", "{revision}");
        }
        assert!(!client.server().capabilities.has_extension(TASKS_EXTENSION), "{revision}");
    }
    for transport in BOTH {
        let (server, _) = server(Limits::default());
        let options = ClientOptions { tasks: false, ..options() };
        let (_guard, client) = client_of(&server, transport, STATELESS, options).await;
        assert!(client.server().capabilities.has_extension(TASKS_EXTENSION));
        assert_eq!(call(&client, "plain").await.unwrap(), "task false");
        for tool in ["must", "late"] {
            let error = rpc(call(&client, tool).await);
            assert_eq!(error.code, error_code::MISSING_CAPABILITY);
            let data =
                r#"{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}"#;
            assert_eq!(error.data.unwrap().get(), data);
        }
        for error in [
            rpc(client.task("x").get().await),
            rpc(client.task("x").cancel().await),
            rpc(client.task("x").update(&BTreeMap::new()).await),
        ] {
            assert_eq!(error.code, error_code::MISSING_CAPABILITY, "{error}");
        }
    }
}

#[tokio::test]
async fn a_server_that_declares_no_tasks_has_none() {
    let tools = Toolbox::new("t", "1").tool("plain", "", async |(): (), cx: RequestContext| {
        Ok::<_, String>(format!("task {}", cx.task_id().is_some()))
    });
    let (_guard, client) =
        client_of(&Server::new(tools), Transport::Http, STATELESS, options()).await;
    assert_eq!(call(&client, "plain").await.unwrap(), "task false");
    assert_eq!(rpc(client.task("x").get().await).code, error_code::METHOD_NOT_FOUND);
}

#[tokio::test]
async fn a_typed_tool_can_be_a_task() {
    let soon = TaskOptions::default().poll_interval(Duration::from_millis(20));
    let call_it = async |(): (), cx: RequestContext| {
        Ok::<_, String>(format!("task {}", cx.task_id().is_some()))
    };
    let tools = Toolbox::new("t", "1").task_tool("plain", "", soon, call_it);
    let (_guard, client) =
        client_of(&Server::new(tools), Transport::Http, STATELESS, options()).await;
    assert_eq!(call(&client, "plain").await.unwrap(), "task true");
}

#[tokio::test]
async fn a_dropped_or_late_call_cancels_its_task() {
    for transport in BOTH {
        let (_guard, client, mut ended) = worker(transport, STATELESS, Limits::default()).await;
        let task = tokio::time::timeout(Duration::from_millis(200), call(&client, "wait")).await;
        assert!(task.is_err());
        soon("the end of the work", ended.recv()).await.unwrap();
        let options =
            CallOptions { timeout: Some(Duration::from_millis(200)), ..CallOptions::default() };
        let late = client.call_tool_raw(&params("wait"), options).await;
        assert_eq!(late.unwrap_err().to_string(), "no answer within 0.2 s");
        soon("the end of the work", ended.recv()).await.unwrap();
    }
}

#[tokio::test]
async fn a_task_can_be_held() {
    for transport in BOTH {
        let (_guard, client, mut ended) = worker(transport, STATELESS, Limits::default()).await;
        let task = started(&client, "wait").await;
        let shown = task.get().await.unwrap();
        assert_eq!((shown.status, shown.ttl_ms), (TaskStatus::Working, Some(3_600_000)));
        assert_eq!(shown.poll_interval_ms, Some(20));
        assert!(shown.created_at.ends_with('Z') && shown.created_at <= shown.last_updated_at);
        assert_eq!(task.id().len(), 32);
        // Another handle of the same id is the same task.
        let again = client.task(task.id());
        drop(task);
        assert!(ended.try_recv().is_err(), "to drop the handle leaves the task alone");
        again.cancel().await.unwrap();
        soon("the end of the work", ended.recv()).await.unwrap();
        again.cancel().await.unwrap();
        assert_eq!(again.get().await.unwrap().status, TaskStatus::Cancelled);
        assert!(matches!(again.result().await, Err(ClientError::TaskCancelled)));
        let unknown = rpc(client.task("0123").get().await);
        assert_eq!(unknown.code, error_code::INVALID_PARAMS);
        assert!(rpc(client.task("0123").cancel().await).message.contains("unknown task"));
    }
}

#[tokio::test]
async fn failures_of_the_tool_are_results_and_others_errors() {
    let (_guard, client, _) = worker(Transport::Http, STATELESS, Limits::default()).await;
    let failed = client.call_tool_raw(&params("failed"), CallOptions::default()).await.unwrap();
    let failed: Value = serde_json::from_str(failed.get()).unwrap();
    assert_eq!((&failed["isError"], &failed["resultType"]), (&json!(true), &json!("complete")));
    assert_eq!(rpc(call(&client, "broken").await).message, "broken");
    assert_eq!(rpc(call(&client, "panic").await).message, "the task's work panicked");
    let task = started(&client, "broken").await;
    _ = task.result().await;
    let shown = task.get().await.unwrap();
    assert_eq!(shown.status, TaskStatus::Failed);
    assert_eq!((shown.status_message.as_deref(), shown.result.is_some()), (Some("broken"), false));
}

#[tokio::test]
async fn answers_may_come_one_by_one_and_wrong_ones_are_asked_for_again() {
    let (_guard, client, _) = worker(Transport::Pipe, STATELESS, Limits::default()).await;
    let task = started(&client, "ask").await;
    let asked = async |count: usize| loop {
        let shown = task.get().await.unwrap();
        if shown.input_requests.len() == count {
            assert_eq!(shown.status, TaskStatus::InputRequired);
            return shown.input_requests.into_keys().collect::<Vec<String>>();
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    let answer = async |key: &str, answer: Value| {
        let answers = BTreeMap::from([(key.to_owned(), to_raw_value(&answer).unwrap())]);
        task.update(&answers).await.unwrap();
    };
    assert_eq!(soon("both questions", asked(2)).await, ["a", "a-2"]);
    answer("nobody asked", json!(1)).await;
    answer("a", json!("no object")).await;
    assert_eq!(soon("the first again", asked(2)).await, ["a-2", "a-3"]);
    answer("a-3", json!({ "action": "accept", "content": { "n": 1 } })).await;
    assert_eq!(soon("the second", asked(1)).await, ["a-2"]);
    answer("a-2", json!({ "action": "decline" })).await;
    let result = soon("the result", task.result()).await.unwrap();
    assert_eq!(text_of(&result), r#"[{"n":1},null]"#);
}

#[tokio::test]
async fn answers_that_are_never_valid_end_the_question() {
    let (_guard, client, _) = worker(Transport::Pipe, STATELESS, Limits::default()).await;
    let task = started(&client, "ask").await;
    let failed = async {
        loop {
            let shown = task.get().await.unwrap();
            if let Some(error) = shown.error {
                return error;
            }
            let wrong = to_raw_value("no object").unwrap();
            let keys = shown.input_requests.into_keys();
            task.update(&keys.map(|key| (key, wrong.clone())).collect()).await.unwrap();
        }
    };
    let error = soon("the end of the task", failed).await;
    assert!(error.message.starts_with("5 answers to 'elicitation/create' were not valid: "));
}

#[tokio::test]
async fn a_task_can_be_kept_as_long_as_can_be_said() {
    let (_guard, client, _) = worker(Transport::Pipe, STATELESS, Limits::default()).await;
    assert_eq!(call(&client, "for ever").await.unwrap(), "task true");
}

#[tokio::test]
async fn stored_tasks_are_bounded() {
    let limits = Limits { max_tasks: 2, ..Limits::default() };
    let (_guard, client, _) = worker(Transport::Http, STATELESS, limits).await;
    let task = started(&client, "wait").await;
    let finished = started(&client, "plain").await;
    assert_eq!(text_of(&finished.result().await.unwrap()), "task true");
    // The finished task is dropped to make room.
    assert_eq!(call(&client, "plain").await.unwrap(), "task true");
    assert_eq!(rpc(finished.get().await).code, error_code::INVALID_PARAMS);
    let other = started(&client, "wait").await;
    let error = rpc(call(&client, "plain").await);
    assert_eq!(
        error.message,
        "more than 2 tasks are stored, and none of them has finished (max_tasks)"
    );
    assert_eq!(error.code, error_code::TOO_MANY_REQUESTS);
    // Running tasks are not affected.
    for task in [task, other] {
        assert_eq!(task.get().await.unwrap().status, TaskStatus::Working);
    }

    let limits = Limits { max_task_bytes: 1_500, ..Limits::default() };
    let (_guard, client, _) = worker(Transport::Http, STATELESS, limits).await;
    let first = started(&client, "long").await;
    assert_eq!(text_of(&first.result().await.unwrap()).len(), 1_000);
    assert_eq!(call(&client, "long").await.unwrap().len(), 1_000);
    assert_eq!(rpc(first.get().await).code, error_code::INVALID_PARAMS, "it made room");
    let limits = Limits { max_task_bytes: 500, ..Limits::default() };
    let (_guard, client, _) = worker(Transport::Http, STATELESS, limits).await;
    let error = rpc(call(&client, "long").await);
    assert_eq!(error.message, "results of tasks take more than 500 bytes (max_task_bytes)");
    assert_eq!(call(&client, "plain").await.unwrap(), "task true");
}

#[tokio::test]
async fn a_task_ends_with_its_time() {
    let limits = Limits {
        max_task_bytes: 1_500,
        task_time: Duration::from_millis(150),
        ..Limits::default()
    };
    let (_guard, client, mut ended) = worker(Transport::Http, STATELESS, limits).await;
    assert_eq!(rpc(call(&client, "short").await).message, "the task was not done within 0.06 s");
    soon("the end of the work", ended.recv()).await.unwrap();
    // Results are forgotten with their tasks, and make room for others.
    for _ in 0..2 {
        let task = started(&client, "long").await;
        assert_eq!(text_of(&task.result().await.unwrap()).len(), 1_000);
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(rpc(task.get().await).code, error_code::INVALID_PARAMS);
    }
}

#[tokio::test]
async fn work_ends_with_its_server() {
    let (server, mut ended) = server(Limits::default());
    let (guard, client) = client_of(&server, Transport::Pipe, STATELESS, options()).await;
    started(&client, "wait").await;
    drop((server, guard, client));
    soon("the end of the work", ended.recv()).await.unwrap();
}

#[tokio::test]
async fn listeners_are_notified_of_changes() {
    let (server, _) = server(Limits::default());
    let (ours, theirs) = tokio::io::duplex(4096);
    let (reader, writer) = tokio::io::split(theirs);
    tokio::spawn(async move {
        marquetry_protocol::server::serve_pipe(&server, reader, writer, Default::default()).await
    });
    let (reader, mut writer) = tokio::io::split(ours);
    let mut lines = BufReader::new(reader).lines();
    let mut send = async |id: &str, method: &str, params: Value, capabilities: Value| {
        let mut params = params;
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        });
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        writer.write_all(format!("{request}\n").as_bytes()).await.unwrap();
    };
    let mut next = async || -> Value {
        let line = soon("a message", lines.next_line()).await.unwrap().expect("a line");
        serde_json::from_str(&line).unwrap()
    };
    let known = json!({ "extensions": { TASKS_EXTENSION: {} } });

    send("call", "tools/call", json!({ "name": "say" }), known.clone()).await;
    let task = next().await["result"]["taskId"].as_str().unwrap().to_owned();
    let wanted = json!({ "notifications": { "taskIds": [task, "unknown"] } });
    send("no", "subscriptions/listen", wanted.clone(), json!({})).await;
    assert_eq!(next().await["error"]["code"], error_code::MISSING_CAPABILITY);
    send("yes", "subscriptions/listen", wanted, known).await;
    let agreed = next().await;
    assert_eq!(agreed["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(agreed["params"]["notifications"], json!({ "taskIds": [task] }));
    let mut seen = Vec::new();
    loop {
        let told = next().await;
        assert_eq!(told["method"], "notifications/tasks");
        let params = &told["params"];
        assert_eq!(params["taskId"], json!(task));
        assert_eq!(params["_meta"]["io.modelcontextprotocol/subscriptionId"], "yes");
        assert!(params.get("resultType").is_none());
        seen.push(params["status"].as_str().unwrap().to_owned());
        if seen.last().unwrap() == "completed" {
            assert_eq!(params["result"]["content"][0]["text"], "said");
            break;
        }
    }
    assert_eq!(seen[0], "working");
}

type Worked = (DropGuard, Client, mpsc::UnboundedReceiver<()>);

async fn worker(transport: Transport, revision: Revision, limits: Limits) -> Worked {
    let (server, ended) = server(limits);
    let (guard, client) = client_of(&server, transport, revision, options()).await;
    (guard, client, ended)
}

fn server(limits: Limits) -> (Server, mpsc::UnboundedReceiver<()>) {
    let (sender, ended) = mpsc::unbounded_channel();
    (Server::with_limits(Worker { ended: sender }, limits), ended)
}

fn options() -> ClientOptions {
    let capabilities: ClientCapabilities =
        serde_json::from_value(json!({ "elicitation": {} })).unwrap();
    ClientOptions { capabilities, handler: Arc::new(Echoes), ..ClientOptions::default() }
}

fn params(tool: &str) -> CallToolParams {
    CallToolParams::new(tool, &json!({})).unwrap()
}

async fn started(client: &Client, tool: &str) -> TaskHandle {
    match client.start_tool(&params(tool), CallOptions::default()).await.unwrap() {
        StartedCall::Task(task) => task,
        StartedCall::Done(answer) => panic!("{answer}"),
    }
}

async fn call(client: &Client, tool: &str) -> Result<String, ClientError> {
    let answer =
        soon("an answer", client.call_tool_raw(&params(tool), CallOptions::default())).await?;
    Ok(text_of(&answer))
}

/// Returns the text of an answer, in every revision.
fn text_of(answer: &RawValue) -> String {
    let answer: Value = serde_json::from_str(answer.get()).unwrap();
    let text = answer["content"][0]["text"].as_str().or(answer["toolResult"].as_str());
    text.unwrap_or_else(|| panic!("no text: {answer}")).to_owned()
}

#[track_caller]
fn rpc<T>(outcome: Result<T, ClientError>) -> RpcError {
    match outcome {
        Err(ClientError::Rpc(error)) => error,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("no error"),
    }
}
