//! The events that a page of the console receives.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use marquetry_protocol::{
    Revision, RpcError,
    client::{CallOptions, Client, ClientHandler, ClientOptions, RevisionChoice},
    types::{CallToolParams, ClientCapabilities, ElicitAction, ElicitParams, ElicitResult},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::mpsc,
    task::AbortHandle,
};

use crate::{
    asking::{AskingOverHttp, child_toml},
    support::{Running, text_of, token_of, until, users_toml, within},
};

const REVISIONS: [Revision; 2] = [Revision::V2025_11_25, Revision::V2026_07_28];

/// A page that reads events.
struct Page {
    text: Arc<Mutex<String>>,
    reading: AbortHandle,
}

impl Page {
    async fn open(server: &Running, token: Option<&str>) -> Self {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let token = token.map(|it| format!("Authorization: Bearer {it}\r\n")).unwrap_or_default();
        let host = server.address;
        let request = format!("GET /api/console/events HTTP/1.1\r\nHost: {host}\r\n{token}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let text = Arc::new(Mutex::new(String::new()));
        let read = text.clone();
        let reading = tokio::spawn(async move {
            let mut bytes = [0; 16 << 10];
            while let Ok(read_bytes @ 1..) = stream.read(&mut bytes).await {
                read.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..read_bytes]));
            }
        });
        let page = Self { text, reading: reading.abort_handle() };
        until("the stream begins", async || page.text.lock().unwrap().contains("event: hello"))
            .await;
        page
    }

    /// Returns the data of the events with this name.
    fn told(&self, name: &str) -> Vec<Value> {
        let text = self.text.lock().unwrap();
        let head = format!("event: {name}\ndata: ");
        let named = text.split(&head).skip(1);
        named.map(|it| serde_json::from_str(it.lines().next().unwrap()).unwrap()).collect()
    }

    async fn is_told(&self, name: &str, count: usize) -> Vec<Value> {
        until(&format!("{count} {name}"), async || self.told(name).len() >= count).await;
        self.told(name)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

/// Each route that reads a body counts it for its sender.
#[tokio::test]
async fn no_route_holds_more_than_the_share_of_its_sender() {
    let server = Running::start(
        "[limits]\nmax_receive_bytes_per_caller = 200000\nmax_request_bytes = 200000\nmax_rest_body_bytes = 200000\n",
    )
    .await;
    let large = " ".repeat(1_000_000);
    for path in [
        "/mcp",
        "/mcp/v1/tools/call",
        "/api/tools/encodePlantUML",
        "/api/console/session",
        "/api/console/scenarios",
        "/api/console/views",
        "/api/console/servers/x/restart",
    ] {
        let headers = [
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
        ];
        let answer = server.http("POST", path, &headers, large.as_bytes()).await;
        assert!(matches!(answer.status, 413 | 503), "{path}: {answer:?}");
    }
    let guess = server.http("POST", "/api/console/session", &[], &[b' '; 5_000]).await;
    assert_eq!(guess.status, 413, "{guess:?}");
    server.stop().await;
}

#[tokio::test]
async fn parameters_without_a_meaning_are_refused() {
    let server = Running::start("").await;
    let get =
        async |path: &str| server.http("GET", &format!("/api/console/{path}"), &[], b"").await;
    for (path, want) in [
        ("calls?limit=abc", "limit: expected a whole number from 1 to 200"),
        ("calls?limit=-1", "limit: expected a whole number from 1 to 200"),
        ("messages?limit=99999999999999999999", "limit: expected a whole number from 1 to 200"),
        ("artifacts?limit=0", "limit: expected a whole number from 1 to 200"),
        ("artifacts?limit=abc", "limit: expected a whole number from 1 to 200"),
        ("calls?before=abc", "before: expected an id that this server gave"),
        ("messages?before=-", "before: expected an id that this server gave"),
        ("events?after=abc", "after: expected an id that this server gave"),
    ] {
        let answer = get(path).await;
        assert_eq!((answer.status, answer.json()), (400, json!({"error": want})), "{path}");
    }
    let agent = server.agent().await;
    for _ in 0..2 {
        text_of(&agent, "list_artifacts", json!({})).await;
    }
    let count = async |path: &str| get(path).await.json()["calls"].as_array().unwrap().len();
    assert_eq!(count("calls?before=").await, 2);
    assert_eq!(count("calls?limit=1").await, 1);
    assert_eq!(get("artifacts").await.status, 200);
    server.stop().await;
}

struct Person;

#[async_trait]
impl ClientHandler for Person {
    async fn elicit(&self, _: ElicitParams) -> Result<ElicitResult, RpcError> {
        Ok(ElicitResult { action: ElicitAction::Accept, content: Some(Default::default()) })
    }
}

fn options() -> ClientOptions {
    let mut capabilities = ClientCapabilities::default();
    capabilities.elicitation = Some(Default::default());
    ClientOptions { capabilities, handler: Arc::new(Person), ..ClientOptions::default() }
}

async fn with_progress(agent: &Client, tool: &str) {
    let (sender, _progress) = mpsc::channel(8);
    let options = CallOptions { progress: Some(sender), ..CallOptions::default() };
    let params = CallToolParams::new(tool, &json!({})).unwrap();
    within(agent.call_tool_raw(&params, options)).await.unwrap();
}

/// The messages of upstreams in the log, oldest first, as `sent kind`.
async fn messages(server: &Running) -> Vec<String> {
    let listed = server.http("GET", "/api/console/messages", &[], b"").await.json();
    let of = |side: &str| -> Vec<_> {
        let all = listed["messages"].as_array().unwrap().iter().rev();
        let line = |it: &Value| {
            format!(
                "{} {} {}",
                it["peer"].as_str().unwrap(),
                it["sent"],
                it["kind"].as_str().unwrap()
            )
        };
        all.filter(|it| it["side"] == side).map(line).collect()
    };
    let mut all = of("upstream");
    all.extend(of("agent").into_iter().filter(|it| it.starts_with("stdio ")));
    all
}

/// The outcomes of the last calls of a tool, the newest first.
async fn outcomes(server: &Running, tool: &str, max: usize) -> Vec<String> {
    let path = format!("/api/console/calls?tool={tool}");
    let listed = server.http("GET", &path, &[], b"").await.json();
    let calls = listed["calls"].as_array().unwrap().iter();
    calls.take(max).map(|it| it["outcome"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn events_are_sent_only_if_a_page_listens() {
    let web = AskingOverHttp::start().await;
    let toml = child_toml("pipe", "2025-11-25") + &web.toml("web", "2026-07-28");
    let server = Running::start(&toml).await;
    let agent = server.agent_with(REVISIONS[0], options()).await;
    text_of(&agent, "pipe__form", json!({})).await;
    assert_eq!(messages(&server).await, [""; 0], "no page listens");

    let page = Page::open(&server, None).await;
    for (number, revision) in REVISIONS.into_iter().enumerate() {
        let agent = server.agent_with(revision, options()).await;
        for upstream in ["pipe", "web"] {
            // Two stateless sides pass questions on in results.
            let is_passed = revision == REVISIONS[1] && upstream == "web";
            let progress = page.told("call.progress");
            let questions = page.told("question");
            with_progress(&agent, &format!("{upstream}__progress")).await;
            let told = page.is_told("call.progress", progress.len() + 1).await;
            let last = told.last().unwrap();
            assert_eq!(last["tool"], format!("{upstream}__progress"), "{number} {last}");
            assert_eq!((&last["server"], &last["total"]), (&json!(upstream), &json!(3.0)));
            assert_eq!(last["message"], "on the way");
            assert!(last["id"].is_string(), "{last}");
            if !is_passed {
                let tool = format!("{upstream}__form");
                text_of(&agent, &tool, json!({})).await;
                // A stateless agent repeats the call with its answer.
                let want = [&["ok"][..], &["ok", "input_required"]][number];
                assert_eq!(outcomes(&server, &tool, want.len()).await, want, "{revision} {tool}");
                let told = page.is_told("question", questions.len() + 2).await;
                let [opened, closed] = &told[questions.len()..] else { panic!("{told:?}") };
                assert_eq!(
                    (&opened["state"], &closed["state"]),
                    (&json!("open"), &json!("closed"))
                );
                assert_eq!(opened["id"], closed["id"]);
                assert_eq!(opened["method"], "elicitation/create");
                assert_eq!(opened["tool"], format!("{upstream}__form"));
                assert!(
                    opened["message"].as_str().unwrap().starts_with(&format!("[{upstream}]")),
                    "{opened}"
                );
            }
        }
    }
    text_of(&agent, "pipe__log", json!({"message": "water"})).await;
    let logs = page.is_told("server.log", 1).await;
    let log = logs.iter().find(|it| it["source"] == "message").unwrap();
    assert_eq!((&log["server"], &log["logger"]), (&json!("pipe"), &json!("inner")));
    let stats = page.is_told("stats", 1).await;
    assert!(stats[0]["calls"].as_u64().unwrap() >= 1, "{stats:?}");
    let logged = messages(&server).await;
    let wants = [
        "pipe true tools/call",
        "pipe false elicitation/create",
        "pipe true result",
        "pipe false result",
        "web true tools/call",
        "web false result",
    ];
    for want in wants {
        assert!(logged.iter().any(|it| it == want), "{want}: {logged:?}");
    }
    drop(page);
    server.stop().await;
}

#[tokio::test]
async fn users_see_events_only_of_their_own_calls() {
    let directory = tempfile::tempdir().unwrap();
    let toml = users_toml(directory.path(), &["ann", "bob"]) + &child_toml("pipe", "2025-11-25");
    let server = Running::start(&toml).await;
    let ann = token_of("ann");
    let bob = token_of("bob");
    let of_ann = Page::open(&server, Some(&ann)).await;
    let of_bob = Page::open(&server, Some(&bob)).await;
    let agent = server.agent_of_user(REVISIONS[0], options(), Some(&ann)).await;
    with_progress(&agent, "pipe__progress").await;
    text_of(&agent, "pipe__form", json!({})).await;
    text_of(&agent, "pipe__log", json!({"message": "water"})).await;
    of_ann.is_told("call.progress", 1).await;
    of_ann.is_told("question", 2).await;
    // Bob gets an event when his own call begins, which is after all of Ann's calls.
    let agent = server.agent_of_user(REVISIONS[0], options(), Some(&bob)).await;
    text_of(&agent, "pipe__pid", json!({})).await;
    of_bob.is_told("call.ended", 1).await;
    for name in ["call.progress", "question", "server.log"] {
        assert_eq!(of_bob.told(name), [json!(null); 0], "{name}");
    }
    assert_eq!(of_ann.told("server.log"), [json!(null); 0], "logs are for administrators");
    assert!(of_bob.told("message").iter().all(|it| it["kind"] != "elicitation/create"));
    drop((of_ann, of_bob));
    server.stop().await;
}

#[tokio::test]
async fn messages_of_an_agent_on_a_pipe_are_logged_while_a_page_listens() {
    let server = Running::start("").await;
    let page = Page::open(&server, None).await;
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    let (app, (reader, writer)) = (server.app.clone(), tokio::io::split(theirs));
    let serving = tokio::spawn(async move { app.serve_stdio(reader, writer).await });
    let (reader, writer) = tokio::io::split(ours);
    let options =
        ClientOptions { revision: RevisionChoice::Only(REVISIONS[0]), ..ClientOptions::default() };
    let agent = within(Client::connect(reader, writer, options)).await.unwrap();
    let logged = messages(&server).await;
    assert_eq!(logged[..2], ["stdio false initialize", "stdio true result"], "{logged:?}");
    within(agent.close()).await;
    drop(agent);
    within(serving).await.unwrap().unwrap();
    drop(page);
    server.stop().await;
}
