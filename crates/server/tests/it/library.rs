//! The server as a library, embedded in a program with its own tools, routes and authentication.

#[path = "../../examples/embed.rs"]
mod example;

use std::{
    env,
    net::SocketAddr,
    process::{self, Stdio},
    sync::Arc,
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use axum::Router;
use marquetry::{App, Config, StartError};
use marquetry_protocol::{
    auth::Challenge,
    client::{Client, ClientOptions, HttpTarget},
    server::{
        Principal, Toolbox,
        http::{Authenticator, Denial},
    },
    types::{Prompt, Resource},
};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    process::Command,
    task::JoinHandle,
};

use crate::support::{Answer, ask, call, rpc_error, text_of, tool_names, within};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Repeat {
    text: String,
    times: usize,
}

/// A server with one custom tool.
async fn app(config: Config) -> App {
    let builder = App::builder(config).tool("repeat", "Repeats a text.", async |it: Repeat, _| {
        Ok::<_, String>(it.text.repeat(it.times))
    });
    builder.start().await.unwrap()
}

/// Serves a router with axum, as an embedding program does.
async fn serve(app: &App, router: Router) -> (SocketAddr, JoinHandle<std::io::Result<()>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serve = axum::serve(listener, router).with_graceful_shutdown(app.stopping());
    (address, tokio::spawn(serve.into_future()))
}

async fn agent(url: String, token: Option<&str>) -> Client {
    let bearer = token.map(|token| ("authorization".to_owned(), format!("Bearer {token}")));
    let target = HttpTarget { url, headers: bearer.into_iter().collect() };
    within(Client::http(target, ClientOptions::default())).await.unwrap()
}

async fn get(address: SocketAddr, path: &str, accept: &str) -> Answer {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    // A stream of events does not end by itself.
    while !bytes.windows(4).any(|end| end == b"\r\n\r\n") || accept != "text/event-stream" {
        if within(stream.read_buf(&mut bytes)).await.unwrap() == 0 {
            break;
        }
    }
    if accept == "text/event-stream" {
        within(stream.read_buf(&mut bytes)).await.unwrap();
    }
    Answer::parse(&bytes)
}

#[tokio::test]
async fn the_router_works_nested_under_a_path() {
    let app = app(Config::default()).await;
    let (address, serving) = serve(&app, Router::new().nest("/tools", app.router())).await;
    let client = agent(format!("http://{address}/tools/mcp"), None).await;
    assert_eq!(text_of(&client, "repeat", json!({"text": "ab", "times": 2})).await, "abab");
    let names = tool_names(&client).await;
    assert!(names.contains(&"read_artifact".to_owned()), "{names:?}");
    within(client.close()).await;

    assert_eq!(get(address, "/tools/healthz", "*/*").await.json(), json!({"status": "ok"}));
    let home = get(address, "/tools", "*/*").await.json();
    assert_eq!(home["endpoint"], format!("http://{address}/tools/mcp"));
    assert_eq!(home["routes"]["ready"], "/tools/readyz");
    let events = get(address, "/tools/sse", "text/event-stream").await.body;
    assert!(events.contains("data: /tools/messages?sessionId="), "{events}");
    assert_eq!(get(address, "/healthz", "*/*").await.status, 404);

    within(app.shutdown()).await;
    within(serving).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_large_answer_of_an_added_tool_becomes_an_artifact() {
    let app = app(Config::default()).await;
    let (address, serving) = serve(&app, app.router()).await;
    let client = agent(format!("http://{address}/mcp"), None).await;
    let answer = call(&client, "repeat", json!({"text": "ab", "times": 100_000})).await.unwrap();
    let text = answer["content"][0]["text"].as_str().unwrap();
    assert!(text.len() < 100_000, "{} bytes are shown", text.len());
    let listed = call(&client, "list_artifacts", json!({})).await.unwrap();
    let artifacts = listed["structuredContent"]["artifacts"].as_array().unwrap();
    assert!(artifacts[0]["name"].as_str().unwrap().starts_with("repeat"), "{listed}");
    within(client.close()).await;
    within(app.shutdown()).await;
    within(serving).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_toolbox_brings_resources_and_prompts() {
    let motd = Resource { uri: "motd://today".into(), name: "motd".into(), ..Resource::default() };
    let greet = Prompt { name: "greet".into(), ..Prompt::default() };
    let toolbox = Toolbox::new("own", "1.0.0")
        .resource(motd, async |_| Ok("Hello."))
        .prompt(greet, async |_, _| Ok("Greet me."));
    let app = App::builder(Config::default()).toolbox(toolbox).start().await.unwrap();
    let (address, serving) = serve(&app, app.router()).await;
    let client = agent(format!("http://{address}/mcp"), None).await;
    let listed = ask(&client, "resources/list", json!({})).await.unwrap();
    assert_eq!(listed["resources"][0]["uri"], "motd://today");
    let read = ask(&client, "resources/read", json!({"uri": "motd://today"})).await.unwrap();
    assert_eq!(read["contents"][0]["text"], "Hello.");
    let listed = ask(&client, "prompts/list", json!({})).await.unwrap();
    assert_eq!(listed["prompts"][0]["name"], "greet");
    let prompt = ask(&client, "prompts/get", json!({"name": "greet"})).await.unwrap();
    assert_eq!(prompt["messages"][0]["content"]["text"], "Greet me.");
    let unknown = ask(&client, "prompts/get", json!({"name": "other"})).await;
    assert_eq!(rpc_error(unknown).0, -32602);
    within(client.close()).await;
    within(app.shutdown()).await;
    within(serving).await.unwrap().unwrap();
}

/// Accepts one token, which may end after a time.
struct OneToken {
    lasts: Option<Duration>,
}

#[async_trait]
impl Authenticator for OneToken {
    async fn authenticate(&self, request: &http::request::Parts) -> Result<Arc<Principal>, Denial> {
        if request.headers.get("authorization").is_some_and(|value| value == "Bearer own") {
            let ann = Principal::new(None, "ann").with_scopes(["admin"]);
            return Ok(Arc::new(match self.lasts {
                Some(time) => ann.until(SystemTime::now() + time),
                None => ann,
            }));
        }
        let status = http::StatusCode::UNAUTHORIZED;
        let challenge = Challenge::new("Bearer");
        Err(Denial { status, challenge, message: "wrong token".to_owned() })
    }
}

#[tokio::test]
async fn an_authenticator_of_ones_own_decides() {
    let app = App::builder(Config::default())
        .authenticator(OneToken { lasts: None })
        .start()
        .await
        .unwrap();
    let (address, serving) = serve(&app, app.router()).await;
    let client = agent(format!("http://{address}/mcp"), Some("own")).await;
    assert!(!tool_names(&client).await.is_empty());
    within(client.close()).await;
    let refused = get(address, "/api/tools", "*/*").await;
    assert_eq!(refused.status, 401, "{refused:?}");
    assert_eq!(refused.json()["error"]["message"], "wrong token");
    within(app.shutdown()).await;
    within(serving).await.unwrap().unwrap();

    let token = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(token.path(), "hush-0123456789abcdef").unwrap();
    let text = format!("[auth.tokens.a]\nfile = '{}'\n", token.path().display());
    let config = Config::from_toml(&text, "test").unwrap();
    let both =
        App::builder(config).authenticator(OneToken { lasts: None }).start().await.err().unwrap();
    assert!(matches!(both, StartError::TwoAuthenticators), "{both}");
}

#[tokio::test]
async fn streams_of_events_end_with_the_token() {
    let authenticator = OneToken { lasts: Some(Duration::from_millis(500)) };
    let app = App::builder(Config::default()).authenticator(authenticator).start().await.unwrap();
    let (address, serving) = serve(&app, app.router()).await;
    let request = format!(
        "GET /api/console/events HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nAuthorization: Bearer own\r\n\r\n"
    );
    let answer = exchange(address, &request).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("event: hello"), "{answer}");
    within(app.shutdown()).await;
    within(serving).await.unwrap().unwrap();
}

#[tokio::test]
async fn the_socket_of_a_view_ends_with_the_token() {
    let authenticator = OneToken { lasts: Some(Duration::from_millis(1_500)) };
    let app = App::builder(Config::default()).authenticator(authenticator).start().await.unwrap();
    let (address, serving) = serve(&app, app.router()).await;
    let content = json!({
        "uri": "ui://marquetry/diagram.html",
        "mimeType": "text/html;profile=mcp-app",
        "text": "<!doctype html><title>Diagram</title>",
    });
    let view = json!({"tool": "encodePlantUML", "contents": {"contents": [content]}}).to_string();
    let request = format!(
        "POST /api/console/views HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
         Authorization: Bearer own\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{view}",
        view.len()
    );
    let opened = Answer::parse(exchange(address, &request).await.as_bytes());
    assert_eq!(opened.status, 200, "{}", opened.body);
    let opened = opened.json();
    let ticket = opened["ticket"].as_str().unwrap();
    let request = format!(
        "GET /api/console/views/socket HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\n\
         Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\
         Sec-WebSocket-Protocol: marquetry-view, {ticket}\r\n\r\n"
    );
    // It sends no token and no frame; the server alone can end it.
    let frames = exchange(address, &request).await;
    assert!(frames.starts_with("HTTP/1.1 101"), "{frames}");
    assert!(frames.contains("your token has expired"), "{frames}");
    within(app.shutdown()).await;
    within(serving).await.unwrap().unwrap();
}

/// Sends a request, and returns everything that comes until the connection ends.
async fn exchange(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    within(stream.read_to_end(&mut bytes)).await.unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test]
async fn added_tools_cannot_take_names_of_built_in_tools() {
    let builder = App::builder(Config::default());
    let builder =
        builder.tool("read_artifact", "", async |(): (), _| Ok::<_, String>("mine".to_owned()));
    let error = builder.start().await.err().unwrap().to_string();
    assert_eq!(
        error,
        "tool \"read_artifact\" cannot be added: another tool of this server has that name"
    );
}

#[tokio::test]
async fn shutdown_waits_for_requests_of_the_router_within_its_grace() {
    let mut config = Config::default();
    config.server.shutdown_grace_ms = 10_000;
    let builder = App::builder(config).tool("slow", "", async |(): (), _| {
        tokio::time::sleep(Duration::from_millis(300)).await;
        Ok::<_, String>("done".to_owned())
    });
    let app = builder.start().await.unwrap();
    let (address, serving) = serve(&app, app.router()).await;
    let client = agent(format!("http://{address}/mcp"), None).await;
    let slow = text_of(&client, "slow", json!({}));
    let shutdown = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        within(app.shutdown()).await;
    };
    let (text, ()) = tokio::join!(slow, shutdown);
    assert_eq!(text, "done");
    drop(client);
    within(serving).await.unwrap().unwrap();
}

/// Set for a child process that runs the example.
const EXAMPLE: &str = "MARQUETRY_TEST_EXAMPLE";

/// Not a test: runs the example in a child process.
#[test]
fn run_example() {
    if env::var_os(EXAMPLE).is_none() {
        return;
    }
    example::main().unwrap();
    process::exit(0);
}

#[tokio::test]
async fn the_example_serves_its_tool_and_writes_nothing_in_the_home_directory() {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "library::run_example", "--nocapture", "--quiet"]);
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("XDG_") {
            command.env_remove(name);
        }
    }
    command.env(EXAMPLE, "1").env("HOME", home.path()).current_dir(home.path());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let url = loop {
        let line = within(lines.next_line()).await.unwrap().expect("the example prints its URL");
        if line.starts_with("http://") {
            break line;
        }
    };
    let client = agent(url, None).await;
    assert_eq!(text_of(&client, "greet", json!({"name": "Ann"})).await, "Hello, Ann!");
    let names = tool_names(&client).await;
    assert!(!names.iter().any(|name| name.starts_with("am7_")), "no knowledge: {names:?}");
    // A large answer is stored in memory.
    let name = "n".repeat(100_000);
    call(&client, "greet", json!({"name": name})).await.unwrap();
    within(client.close()).await;
    drop(child.stdin.take());
    assert!(within(child.wait()).await.unwrap().success());
    let left: Vec<_> = std::fs::read_dir(home.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}
