//! The routes of the console's page of chats.

use std::path::Path;

use marquetry_llm::{ProviderAnswer, ScriptedProvider};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::support::{Answer, Running, token_of, until, users_toml, within};

const PATH: &str = "/api/console/chats";

/// Starts a server with this model. `settings` come first, so they may be outside of tables.
async fn server(folder: &Path, provider: &ScriptedProvider, settings: &str) -> Running {
    let database = folder.join("knowledge.db");
    let toml = format!(
        "{settings}\n[knowledge]\ndatabase = '{}'\n[knowledge.chat]\nprovider = 'custom'\n\
         model = 'm'\nbase_url = '{}'\nretries = 0\n",
        database.display(),
        provider.base_url()
    );
    Running::start(&toml).await
}

async fn get(server: &Running, user: Option<&str>, path: &str) -> Answer {
    let bearer = user.map(|user| format!("Bearer {}", token_of(user)));
    let header = bearer.as_deref().map(|bearer| ("Authorization", bearer));
    server.http("GET", path, header.as_slice(), b"").await
}

async fn chats(server: &Running, user: Option<&str>) -> Vec<Value> {
    let listed = get(server, user, PATH).await.json();
    listed["chats"].as_array().unwrap_or_else(|| panic!("no chats: {listed}")).clone()
}

/// Sends a message, and returns names and data of all events.
async fn say(server: &Running, user: Option<&str>, message: &Value) -> Vec<(String, Value)> {
    let bearer = user.map(|user| format!("Bearer {}", token_of(user)));
    let mut headers = vec![("Content-Type", "application/json")];
    headers.extend(bearer.as_deref().map(|bearer| ("Authorization", bearer)));
    let answer = server.http("POST", PATH, &headers, message.to_string().as_bytes()).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    assert_eq!(answer.header("x-accel-buffering"), Some("no"));
    let mut events = Vec::new();
    let mut name = "";
    for line in answer.body.lines() {
        if let Some(event) = line.strip_prefix("event: ") {
            name = event;
        } else if let Some(data) = line.strip_prefix("data: ") {
            events.push((name.to_owned(), serde_json::from_str(data).unwrap()));
        }
    }
    events
}

/// Returns the names of events other than `text`, whose number depends on time.
fn names(events: &[(String, Value)]) -> Vec<&str> {
    let names = events.iter().map(|(name, _)| name.as_str());
    names.filter(|name| *name != "text").collect()
}

/// Sends a message, and reads the stream until it is stored.
async fn start(server: &Running) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let body = json!({"message": "Why?"}).to_string();
    let request = format!(
        "POST {PATH} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
         Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
        server.address,
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    let mut buffer = [0; 4096];
    while !text.contains("event: started") {
        let count = within(stream.read(&mut buffer)).await.unwrap();
        assert!(count > 0, "the stream ended: {text}");
        text.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
    stream
}

#[tokio::test]
async fn a_malformed_message_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let provider = ScriptedProvider::start([]).await.unwrap();
    let server = server(folder.path(), &provider, "").await;
    for (content_type, body, status, want) in [
        ("application/json", "{", 400, "Failed to parse the request body as JSON"),
        ("application/json", "{}", 422, "missing field `message`"),
        ("application/json", r#"{"message":1}"#, 422, "invalid type: integer"),
        ("application/json", r#"{"message":"hi","model":"x"}"#, 422, "unknown field `model`"),
        ("text/plain", r#"{"message":"hi"}"#, 415, "application/json"),
    ] {
        let headers = [("Content-Type", content_type)];
        let refused = server.http("POST", PATH, &headers, body.as_bytes()).await;
        assert_eq!(refused.status, status, "{body}");
        let error = refused.json()["error"].as_str().unwrap().to_owned();
        assert!(error.contains(want), "{body}: {error}");
    }
    let events = say(&server, None, &json!({"message": " "})).await;
    assert_eq!(events, [("failed".to_owned(), json!({"error": "message is empty"}))]);
    assert_eq!(chats(&server, None).await, [json!(null); 0]);
    assert!(provider.requests().is_empty());
    server.stop().await;
}

#[tokio::test]
async fn a_message_can_be_repeated_after_the_model_failed() {
    let folder = tempfile::tempdir().unwrap();
    let provider = ScriptedProvider::start([]).await.unwrap();
    let server = server(folder.path(), &provider, "").await;
    provider.push(ProviderAnswer::error(401, [], "no"));
    let events = say(&server, None, &json!({"message": "Why?"})).await;
    assert_eq!(names(&events), ["started", "failed"], "{events:?}");
    let chat = events[0].1["chatRequestUri"].as_str().unwrap();
    let error = events[1].1["error"].as_str().unwrap();
    assert!(error.contains("the model gave no answer") && error.contains(chat), "{error}");

    provider.push(ProviderAnswer::text("Because."));
    let again = say(&server, None, &json!({"message": "Why?", "chat": chat})).await;
    assert_eq!(names(&again), ["started", "answered", "done"], "{again:?}");
    assert_eq!(again[0].1["chatRequestUri"], chat);
    let (_, done) = again.last().unwrap();
    assert_eq!((&done["answer"], &done["chatRequestUri"]), (&json!("Because."), &json!(chat)));
    let all = chats(&server, None).await;
    assert_eq!((all.len(), &all[0]["uri"]), (1, &json!(chat)), "{all:?}");
    let stored = get(&server, None, &format!("{PATH}/messages?uri={chat}")).await.json();
    let messages = stored["messages"].as_array().unwrap();
    let roles: Vec<&Value> = messages.iter().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["user", "user", "assistant"], "{stored}");
    assert!(messages[0]["error"].is_string(), "{stored}");
    server.stop().await;
}

#[tokio::test]
async fn callers_neither_see_nor_continue_chats_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let provider = ScriptedProvider::start([]).await.unwrap();
    let users = users_toml(folder.path(), &["ann", "bob"]);
    let server = server(folder.path(), &provider, &users).await;
    provider.push(ProviderAnswer::text("Because."));
    let events = say(&server, Some("ann"), &json!({"message": "Why?"})).await;
    assert_eq!(names(&events), ["started", "answered", "done"], "{events:?}");
    let chat = events[0].1["chatRequestUri"].as_str().unwrap();

    let path = format!("{PATH}/messages?uri={chat}");
    for (user, count, status) in [("ann", 1, 200), ("bob", 0, 404)] {
        assert_eq!(chats(&server, Some(user)).await.len(), count, "{user}");
        assert_eq!(get(&server, Some(user), &path).await.status, status, "{user}");
    }
    assert_eq!(get(&server, None, PATH).await.status, 401);
    let events = say(&server, Some("bob"), &json!({"message": "And?", "chat": chat})).await;
    assert_eq!(names(&events), ["failed"], "{events:?}");
    assert_eq!(provider.requests().len(), 1);
    server.stop().await;
}

#[tokio::test]
async fn an_answer_is_in_flight_until_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let provider = ScriptedProvider::start([ProviderAnswer::silence()]).await.unwrap();
    let settings = "limits.max_in_flight_total = 1\nlimits.queue_ms = 0";
    let server = server(folder.path(), &provider, settings).await;
    let stream = start(&server).await;
    let ping = async || server.http("POST", "/mcp/v1/ping", &[], b"{}").await.status;
    assert_eq!(ping().await, 429);
    let headers = [("Content-Type", "application/json")];
    let refused = server.http("POST", PATH, &headers, br#"{"message":"hi"}"#).await;
    assert_eq!(refused.status, 429);
    assert!(refused.json()["error"].is_string(), "{refused:?}");
    assert_eq!(chats(&server, None).await.len(), 1);
    drop(stream);
    until("the slot is free", async || ping().await == 200).await;
    server.stop().await;
}

#[tokio::test]
async fn a_server_that_stops_ends_the_stream_with_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let provider = ScriptedProvider::start([ProviderAnswer::silence()]).await.unwrap();
    let server = server(folder.path(), &provider, "server.shutdown_grace_ms = 200").await;
    let mut stream = start(&server).await;
    server.stop().await;
    let mut rest = Vec::new();
    within(stream.read_to_end(&mut rest)).await.unwrap();
    let rest = String::from_utf8_lossy(&rest);
    assert!(rest.contains("event: failed\ndata: {\"error\":"), "{rest}");
}
