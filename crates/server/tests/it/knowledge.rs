//! Knowledge over real sockets: permissions, notifications and persistence.

use std::path::Path;

use marquetry_protocol::Revision;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::support::{Answer, Running, call, within};

/// A server with a database in this folder, without authentication.
async fn server(folder: &Path) -> Running {
    Running::start(&format!("[knowledge]\ndatabase = {:?}\n", folder.join("new/knowledge.db")))
        .await
}

const ALICE: &str = "Bearer alice-0123456789abcdef";
const BOB: &str = "Bearer bob-0123456789abcdef";

/// A server with a database in this folder, for two users with tokens.
async fn server_of_two(folder: &Path) -> Running {
    for (name, token) in [("alice", ALICE), ("bob", BOB)] {
        std::fs::write(folder.join(name), token.trim_start_matches("Bearer ")).unwrap();
    }
    let file = |name: &str| folder.join(name).display().to_string();
    let toml = format!(
        "[auth.tokens]\nalice = {{ file = '{}' }}\nbob = {{ file = '{}' }}\n[knowledge]\ndatabase = '{}'\n",
        file("alice"),
        file("bob"),
        file("knowledge.db")
    );
    Running::start(&toml).await
}

impl Running {
    async fn v1(&self, token: &str, method: &str, params: Value) -> Answer {
        let headers = [("Authorization", token), ("Content-Type", "application/json")];
        let headers = if token.is_empty() { &headers[1..] } else { &headers[..] };
        let path = format!("/mcp/v1/{method}");
        self.http("POST", &path, headers, params.to_string().as_bytes()).await
    }

    /// Calls a tool, and returns status and answer.
    async fn tool(&self, token: &str, name: &str, arguments: Value) -> (u16, Value) {
        let answer =
            self.v1(token, "tools/call", json!({"name": name, "arguments": arguments})).await;
        let status = answer.status;
        let mut body = answer.json();
        let structured = body["structuredContent"].take();
        (status, if structured.is_null() { body } else { structured })
    }

    /// Adds a searchable document, and returns its URI.
    async fn document(&self, token: &str, name: &str, text: &str) -> String {
        let new =
            json!({"type": "data.data", "name": name, "groupPath": "~/Test", "content": text});
        let (status, made) = self.tool(token, "am7_create_object", new).await;
        assert_eq!(status, 200, "{made}");
        let uri = made["uri"].as_str().unwrap().to_owned();
        let (status, _) =
            self.tool(token, "am7_vectorize", json!({"uri": uri, "chunkSize": 1})).await;
        assert_eq!(status, 200);
        uri
    }

    /// Returns the texts that a search finds.
    async fn found(&self, token: &str, query: &str) -> Vec<String> {
        let (status, found) =
            self.tool(token, "am7_vector_search", json!({"query": query, "limit": 100})).await;
        assert_eq!(status, 200, "{found}");
        let results = found["results"].as_array().unwrap();
        results.iter().map(|result| result["text"].as_str().unwrap().to_owned()).collect()
    }
}

#[tokio::test]
async fn users_do_not_see_each_others_records() {
    let folder = tempfile::tempdir().unwrap();
    let server = server_of_two(folder.path()).await;
    let uri = server.document(ALICE, "diary", "The secret garden has roses.").await;
    let own = server.document(BOB, "shed", "The shed has a spade.").await;
    assert_eq!(server.found(ALICE, "secret garden").await, ["The secret garden has roses."]);
    assert_eq!(server.found(BOB, "secret garden").await, ["The shed has a spade."]);

    let (_, found) = server.tool(ALICE, "am7_vector_search", json!({"query": "garden"})).await;
    let passage = found["results"][0]["uri"].as_str().unwrap().to_owned();
    let asked = [
        ("am7_get_object", json!({"uri": uri})),
        ("am7_update_object", json!({"uri": uri, "name": "mine"})),
        ("am7_delete_object", json!({"uri": uri})),
        ("am7_vectorize", json!({"uri": uri})),
        ("am7_extract_content", json!({"uri": uri})),
        ("am7_chunk_content", json!({"uri": uri, "preview": true})),
        ("am7_vector_search", json!({"query": "garden", "scopeUri": uri})),
        // A record that does not exist is refused with the same words.
        ("am7_get_object", json!({"uri": "am7://default/data.data/no-such-thing"})),
    ];
    for (tool, arguments) in &asked {
        let (status, refused) = server.tool(BOB, tool, arguments.clone()).await;
        assert_eq!((status, &refused["code"]), (404, &json!("not_found")), "{tool} {refused}");
    }
    for uri in [&uri, &passage] {
        let read = server.v1(BOB, "resources/read", json!({"uri": uri})).await;
        assert_eq!(read.status, 404, "{uri}: {}", read.body);
        assert!(!read.body.contains("roses"));
    }
    let watch = format!("/mcp/v1/resources/subscribe?uri={uri}");
    assert_eq!(server.http("GET", &watch, &[("Authorization", BOB)], b"").await.status, 404);
    let listed = server.v1(BOB, "resources/list", json!({})).await;
    assert!(listed.body.contains(&own) && !listed.body.contains(&uri), "{}", listed.body);
    let (_, listed) = server.tool(BOB, "am7_list_objects", json!({"types": ["data.data"]})).await;
    assert_eq!(listed["objects"].as_array().unwrap().len(), 1, "{listed}");
    let (_, listed) =
        server.tool(BOB, "am7_list_objects", json!({"groupPath": "~alice/Test"})).await;
    assert_eq!(listed["objects"], json!([]));

    // None of these calls has changed anything.
    let (status, read) = server.tool(ALICE, "am7_get_object", json!({"uri": uri})).await;
    assert_eq!((status, &read["name"], &read["revision"]), (200, &json!("diary"), &json!(1)));

    // Shared records are visible, but cannot be changed.
    let bob = "am7://default/system.user/bob";
    let share = json!({"uri": uri, "readers": [bob]});
    assert_eq!(server.tool(ALICE, "am7_update_object", share).await.0, 200);
    assert_eq!(server.found(BOB, "secret garden").await[0], "The secret garden has roses.");
    let read = server.v1(BOB, "resources/read", json!({"uri": passage})).await;
    assert_eq!(read.status, 200, "{}", read.body);
    let (status, refused) =
        server.tool(BOB, "am7_update_object", json!({"uri": uri, "name": "mine"})).await;
    assert_eq!((status, &refused["code"]), (403, &json!("forbidden")));
    let (status, _) = server.tool(BOB, "am7_vectorize", json!({"uri": uri})).await;
    assert_eq!(status, 403);
    let take_back = json!({"uri": uri, "readers": []});
    assert_eq!(server.tool(ALICE, "am7_update_object", take_back).await.0, 200);
    assert_eq!(server.found(BOB, "secret garden").await, ["The shed has a spade."]);

    // Only an administrator can create users and groups.
    let user = json!({"type": "system.user", "name": "mallory"});
    assert_eq!(server.tool(BOB, "am7_create_object", user).await.0, 403);
    assert_eq!(server.v1("", "tools/list", json!({})).await.status, 401);
    let refused = server.v1("", "tools/list", json!({})).await.json();
    assert_eq!(refused, json!({"code": "unauthorized", "message": "a token is needed"}));
    server.stop().await;
}

#[tokio::test]
async fn subscribers_hear_of_changes() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path()).await;
    let uri = server.document("", "watched", "A text.").await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let request = format!(
        "GET /mcp/v1/resources/subscribe?uri={uri} HTTP/1.1\r\nHost: {}\r\n\r\n",
        server.address
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut said = String::new();
    read_until(&mut stream, &mut said, ": subscribed").await;
    assert!(said.contains("text/event-stream"), "{said}");

    let agent = server.agent_of(Revision::V2026_07_28).await;
    let update = json!({"uri": uri, "attributes": {"description": "changed"}});
    call(&agent, "am7_update_object", update).await.unwrap();
    let want = format!(
        r#"data: {{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{{"uri":"{uri}"}}}}"#
    );
    read_until(&mut stream, &mut said, &want).await;
    assert!(said.contains("event: resource/updated\n"), "{said}");

    for (path, status) in [
        ("", 400),
        ("?uri=am7://default/data.data/nobody", 404),
        ("?uri=am7://default/vector/search", 400),
        ("?uri=file:///etc/passwd", 404),
    ] {
        let path = format!("/mcp/v1/resources/subscribe{path}");
        assert_eq!(server.http("GET", &path, &[], b"").await.status, status, "{path}");
    }
    // The stream ends when the server stops.
    server.stop().await;
    within(stream.read_to_string(&mut said)).await.unwrap();
}

/// Two servers share the database: one hears of its own changes at once, and of those of the other
/// by polling.
#[tokio::test]
async fn a_subscriber_hears_nothing_of_a_record_that_was_taken_away() {
    let folder = tempfile::tempdir().unwrap();
    let one = server_of_two(folder.path()).await;
    let other = server_of_two(folder.path()).await;
    // Bob becomes a user of the database.
    assert_eq!(one.tool(BOB, "am7_list_objects", json!({})).await.0, 200);
    let bob = "am7://default/system.user/bob";
    for writer in [&one, &other] {
        let uri = one.document(ALICE, "shared", "A text.").await;
        let change = async |change: Value| {
            let mut arguments = json!({"uri": uri});
            arguments.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            assert_eq!(writer.tool(ALICE, "am7_update_object", arguments).await.0, 200);
        };
        change(json!({"readers": [bob]})).await;
        let mut streams = Vec::new();
        for token in [ALICE, BOB] {
            let mut stream = TcpStream::connect(one.address).await.unwrap();
            let request = format!(
                "GET /mcp/v1/resources/subscribe?uri={uri} HTTP/1.1\r\nHost: {}\r\nAuthorization: {token}\r\n\r\n",
                one.address
            );
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut said = String::new();
            read_until(&mut stream, &mut said, ": subscribed").await;
            streams.push((stream, said));
        }
        change(json!({"attributes": {"description": "for both"}})).await;
        for (stream, said) in &mut streams {
            read_until(stream, said, "event: resource/updated").await;
            said.clear();
        }
        let [(alice, alice_heard), (bob, bob_heard)] = &mut streams[..] else { unreachable!() };
        change(json!({"readers": []})).await;
        read_until(alice, alice_heard, "event: resource/updated").await;
        alice_heard.clear();
        change(json!({"attributes": {"description": "for alice"}})).await;
        read_until(alice, alice_heard, "event: resource/updated").await;
        alice_heard.clear();
        let removed = writer.tool(ALICE, "am7_delete_object", json!({"uri": uri})).await;
        assert_eq!(removed.0, 200, "{}", removed.1);
        read_until(alice, alice_heard, "event: resource/updated").await;
        let more = read_until(bob, bob_heard, "event:");
        tokio::time::timeout(std::time::Duration::from_millis(500), more).await.unwrap_err();
    }
    other.stop().await;
    one.stop().await;
}

async fn read_until(stream: &mut TcpStream, said: &mut String, wanted: &str) {
    let mut buffer = [0; 4096];
    while !said.contains(wanted) {
        let count = within(stream.read(&mut buffer)).await.unwrap();
        assert!(count > 0, "the stream ended: {said}");
        said.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
}

#[tokio::test]
async fn records_survive_a_restart_and_reading_creates_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let reading = server(folder.path()).await;
    assert_eq!(reading.found("", "anything").await, Vec::<String>::new());
    for method in ["tools/list", "resources/list", "resources/templates/list"] {
        assert_eq!(reading.v1("", method, json!({})).await.status, 200, "{method}");
    }
    let nobody = json!({"uri": "am7://default/data.data/nobody"});
    assert_eq!(reading.v1("", "resources/read", nobody.clone()).await.status, 404);
    assert_eq!(reading.tool("", "am7_delete_object", nobody).await.0, 404);
    reading.stop().await;
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "reading makes nothing");

    let first = server(folder.path()).await;
    first.document("", "kept", "Bread is flour and water.").await;
    first.stop().await;
    let second = server(folder.path()).await;
    assert_eq!(second.found("", "bread").await, ["Bread is flour and water."]);
    second.stop().await;
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn several_servers_share_a_postgres() {
    let Some(url) = test_postgres::database().await else { return };
    let toml = format!("[knowledge]\ndatabase = {url:?}\n");
    let one = Running::start(&toml).await;
    let other = Running::start(&toml).await;
    let uri = one.document("", "bread", "Bread is flour and water.").await;
    assert_eq!(other.found("", "bread").await, ["Bread is flour and water."]);
    let update = json!({"uri": uri, "content": "Bread is rye and water."});
    assert_eq!(other.tool("", "am7_update_object", update).await.0, 200);
    assert_eq!(one.found("", "bread").await, ["Bread is rye and water."]);
    assert_eq!(one.tool("", "am7_delete_object", json!({"uri": uri})).await.0, 200);
    assert_eq!(other.found("", "bread").await, Vec::<String>::new());
    one.stop().await;
    other.stop().await;
}

#[cfg(unix)]
#[tokio::test]
async fn others_on_the_machine_do_not_look_into_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path()).await;
    server.document("", "kept", "Bread is flour and water.").await;
    let mode = std::fs::metadata(folder.path().join("new")).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0);
    let mode = std::fs::metadata(folder.path().join("new/knowledge.db")).unwrap().permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
    server.stop().await;
}

#[tokio::test]
async fn a_stopped_server_leaves_one_database_file() {
    let folder = tempfile::tempdir().unwrap();
    let first = server(folder.path()).await;
    let uri = first.document("", "kept", "Bread is flour and water.").await;
    first.stop().await;
    let copy = tempfile::tempdir().unwrap();
    std::fs::create_dir(copy.path().join("new")).unwrap();
    let [from, to] = [folder.path(), copy.path()].map(|folder| folder.join("new/knowledge.db"));
    std::fs::copy(from, to).unwrap();
    let second = server(copy.path()).await;
    let (status, found) = second.tool("", "am7_vector_search", json!({"query": "flour"})).await;
    assert!(status == 200 && found.to_string().contains(&uri), "{found}");
    second.stop().await;
}

#[tokio::test]
async fn a_database_that_cannot_be_opened_fails_only_its_tools() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("new")).unwrap();
    std::fs::write(folder.path().join("new/knowledge.db"), "this is no database").unwrap();
    let server = server(folder.path()).await;
    let (status, refused) =
        server.tool("", "am7_vector_search", json!({"query": "anything"})).await;
    assert_eq!((status, &refused["code"]), (503, &json!("unavailable")), "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("knowledge.database"), "{refused}");
    let (status, _) = server.tool("", "encodePlantUML", json!({"plantumlCode": "A -> B"})).await;
    assert_eq!(status, 200);
    server.stop().await;
}

#[tokio::test]
async fn a_body_that_arrives_too_slowly_is_answered() {
    let server = Running::start("limits.max_body_ms = 200\nlimits.max_head_ms = 200").await;
    let timeout =
        json!({"code": "request_timeout", "message": "Request body did not arrive in time"});
    for (length, every) in
        [("Content-Length: 100000", "{"), ("Transfer-Encoding: chunked", "1\r\n{\r\n")]
    {
        for comes_on in [false, true] {
            let mut stream = TcpStream::connect(server.address).await.unwrap();
            let head = format!(
                "POST /mcp/v1/tools/list HTTP/1.1\r\nHost: {}\r\n{length}\r\n\r\n{every}",
                server.address
            );
            stream.write_all(head.as_bytes()).await.unwrap();
            // A client that reads only after it has sent everything.
            for _ in 0..if comes_on { 100 } else { 0 } {
                if stream.write_all(every.as_bytes()).await.is_err() {
                    break;
                }
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
            let mut bytes = Vec::new();
            _ = within(stream.read_to_end(&mut bytes)).await;
            let answer = Answer::parse(&bytes);
            assert_eq!(
                (answer.status, answer.json()),
                (408, timeout.clone()),
                "{length} {comes_on}"
            );
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn omitted_content_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    let toml = format!(
        "[knowledge]\ndatabase = {:?}\n[limits]\nread_artifact_max_bytes = 16\nread_artifact_default_bytes = 8\nmax_resource_bytes = 200\n",
        folder.path().join("knowledge.db")
    );
    let server = Running::start(&toml).await;
    let get = async |new: Value| {
        let (status, made) = server.tool("", "am7_create_object", new).await;
        assert_eq!(status, 200, "{made}");
        let arguments = json!({"uri": made["uri"], "includeContent": true});
        let call = json!({"name": "am7_get_object", "arguments": arguments});
        let answer = server.v1("", "tools/call", call).await.json();
        let got = answer["structuredContent"].clone();
        let shown = answer["content"][0]["text"].as_str().unwrap().to_owned();
        let omitted = got["contentOmitted"].as_str().unwrap_or_default().to_owned();
        assert!(shown.contains(&omitted), "{shown}");
        (got, omitted)
    };
    let (got, omitted) =
        get(json!({"type": "data.data", "name": "small", "content": "A short text."})).await;
    assert_eq!((&got["content"], &*omitted), (&json!("A short text."), ""));
    let (got, omitted) =
        get(json!({"type": "data.data", "name": "long", "content": "A text that is longer."}))
            .await;
    let uri = got["uri"].as_str().unwrap();
    assert_eq!(
        omitted,
        format!(
            "it has 22 bytes, more than limits.read_artifact_max_bytes (16); resources/read of {uri} gives all of it, \
             am7_vectorize and am7_vector_search find passages of what it says"
        )
    );
    assert_eq!(got["content"], Value::Null);
    let read = server.v1("", "resources/read", json!({"uri": uri})).await;
    assert!(read.body.contains("A text that is longer."), "{}", read.body);
    let (got, omitted) = get(json!({"type": "data.data", "name": "dot.png", "mediaType": "image/png", "contentBase64": "iVBORw0KGgo="})).await;
    let uri = got["mediaUri"].as_str().unwrap();
    assert!(
        omitted.starts_with("it is not text but image/png, 8 bytes; resources/read of "),
        "{omitted}"
    );
    assert!(omitted.contains(&format!("{uri} gives all of it")), "{omitted}");
    assert_eq!(server.v1("", "resources/read", json!({"uri": uri})).await.status, 200);
    let (_, omitted) =
        get(json!({"type": "data.data", "name": "huge", "content": "x".repeat(300)})).await;
    assert!(
        omitted.contains("; resources/read gives at most limits.max_resource_bytes (200), "),
        "{omitted}"
    );
    let (_, omitted) =
        get(json!({"type": "data.note", "name": "note", "attributes": {"text": "Text."}})).await;
    assert_eq!(omitted, "it has no content; what it says is among its attributes");
    server.stop().await;
}

#[tokio::test]
async fn permission_to_write_does_not_allow_deleting() {
    let folder = tempfile::tempdir().unwrap();
    let server = server_of_two(folder.path()).await;
    let uri = server.document(ALICE, "plan", "The garden has roses.").await;
    // A user is known after the first request.
    server.v1(BOB, "ping", json!({})).await;
    server.found(BOB, "garden").await;
    let share = json!({"uri": uri, "writers": ["am7://default/system.user/bob"]});
    assert_eq!(server.tool(ALICE, "am7_update_object", share).await.0, 200);
    let update = json!({"uri": uri, "content": "The garden has tulips."});
    assert_eq!(server.tool(BOB, "am7_update_object", update).await.0, 200);
    let (status, refused) = server.tool(BOB, "am7_delete_object", json!({"uri": uri})).await;
    assert_eq!((status, &refused["code"]), (403, &json!("forbidden")), "{refused}");
    assert_eq!(server.found(ALICE, "tulips").await, ["The garden has tulips."]);
    assert_eq!(server.tool(ALICE, "am7_delete_object", json!({"uri": uri})).await.0, 200);
    server.stop().await;
}

#[tokio::test]
async fn vectorizing_a_text_keeps_it_as_its_record_content() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path()).await;
    let vectorize = async |arguments: Value| server.tool("", "am7_vectorize", arguments).await;
    let get = async |uri: &Value| {
        server.tool("", "am7_get_object", json!({"uri": uri, "includeContent": true})).await.1
    };

    // The content of a note is its text, in every tool.
    let new = json!({"type": "data.note", "name": "mill", "content": "The mill grinds wheat."});
    let uri = server.tool("", "am7_create_object", new).await.1["uri"].take();
    let (status, _) = vectorize(json!({"uri": uri, "content": "The mill grinds rye."})).await;
    assert_eq!(status, 200);
    let note = get(&uri).await;
    assert_eq!(
        (&note["attributes"]["text"], &note["revision"]),
        (&json!("The mill grinds rye."), &json!(2))
    );
    assert_eq!(server.found("", "mill").await, ["The mill grinds rye."]);

    // A document keeps its content, and has its size.
    let new = json!({"type": "data.data", "name": "bread", "mediaType": "text/markdown", "content": "# Bread"});
    let uri = server.tool("", "am7_create_object", new).await.1["uri"].take();
    let content = "# Rye bread\n\nRye and water.";
    assert_eq!(vectorize(json!({"uri": uri, "content": content})).await.0, 200);
    let document = get(&uri).await;
    assert_eq!(
        (&document["mediaType"], &document["content"]),
        (&json!("text/markdown"), &json!(content))
    );
    assert_eq!(document["attributes"]["size"], content.len());
    let update = json!({"uri": uri, "content": "# Bread"});
    assert_eq!(server.tool("", "am7_update_object", update).await.1["attributes"]["size"], 7);

    // These records stay.
    let keep = json!({"uri": uri, "content": "Something else.", "replaceExisting": false});
    let (status, kept) = vectorize(keep).await;
    assert_eq!((status, &kept["vectorized"], &kept["existed"]), (200, &json!(false), &json!(true)));
    assert_eq!(get(&uri).await["content"], "# Bread");

    // Content that cannot be vectorized is not stored.
    let count = async || {
        let (_, listed) = server.tool("", "am7_list_objects", json!({"type": "data.data"})).await;
        listed["objects"].as_array().unwrap().len()
    };
    let before = count().await;
    let (status, refused) = vectorize(json!({"content": " \n"})).await;
    assert_eq!((status, &refused["message"]), (400, &json!("content is empty")));
    assert_eq!(count().await, before);
    let (status, refused) = server.tool("", "am7_list_objects", json!({"type": "data.dat"})).await;
    assert_eq!(status, 400, "{refused}");
    server.stop().await;
}

#[tokio::test]
async fn previews_of_chunks_have_pages() {
    let folder = tempfile::tempdir().unwrap();
    let toml = format!(
        "[knowledge]\ndatabase = {:?}\n[limits]\nmax_own_answer_bytes = 100_000\n",
        folder.path().join("knowledge.db")
    );
    let server = Running::start(&toml).await;
    let chunk = async |arguments: Value| server.tool("", "am7_chunk_content", arguments).await;
    let text = "word ".repeat(200_000);
    let arguments = json!({"content": text, "chunkType": "WORD", "chunkSize": 10_000, "overlap": 9_999, "preview": true});
    let (status, refused) = chunk(arguments).await;
    assert_eq!((status, &refused["code"]), (400, &json!("invalid_params")), "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("use a smaller overlap"), "{refused}");
    // Results that do not fit into one answer are on further pages.
    let mut shown = 0;
    let mut from = json!(0);
    while !from.is_null() {
        let arguments = json!({"content": text, "chunkType": "WORD", "chunkSize": 500, "preview": true, "from": from, "limit": 400});
        let (status, page) = chunk(arguments).await;
        assert_eq!((status, &page["totalChunks"]), (200, &json!(400)), "{page}");
        assert!(page.to_string().len() < 100_000, "a page has a size");
        let chunks = page["chunks"].as_array().unwrap();
        assert_eq!(chunks[0]["index"], shown);
        shown += chunks.len();
        from = page["nextIndex"].clone();
    }
    assert_eq!(shown, 400);
    // This call took more than a minute.
    let many = json!({"content": "Ab. ".repeat(2_000), "chunkSize": 100_000, "maxTokens": 4});
    let (status, cut) = chunk(many).await;
    assert_eq!(status, 200, "{cut}");
    assert!(cut["totalChunks"].as_u64().unwrap() >= 1_000, "{cut}");
    // It counts tokens of the model, not words.
    let arguments = json!({"content": "Antidisestablishmentarianism is a word.", "chunkSize": 1, "maxTokens": 3, "preview": true});
    let (status, chunked) = chunk(arguments).await;
    assert_eq!(status, 200, "{chunked}");
    assert!(chunked["totalChunks"].as_u64().unwrap() > 2, "{chunked}");
    server.stop().await;
}

#[tokio::test]
async fn subscribers_hear_of_changes_by_other_processes() {
    let folder = tempfile::tempdir().unwrap();
    let one = server(folder.path()).await;
    let other = server(folder.path()).await;
    let uri = one.document("", "watched", "A text.").await;
    let still = one.document("", "still", "Another text.").await;
    let watch = async |uri: &str| {
        let mut stream = TcpStream::connect(one.address).await.unwrap();
        let request = format!(
            "GET /mcp/v1/resources/subscribe?uri={uri} HTTP/1.1\r\nHost: {}\r\n\r\n",
            one.address
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut said = String::new();
        read_until(&mut stream, &mut said, ": subscribed").await;
        (stream, said)
    };
    let (mut stream, mut said) = watch(&uri).await;
    let (mut quiet, mut nothing) = watch(&still).await;
    let update = json!({"uri": uri, "attributes": {"description": "changed"}});
    assert_eq!(other.tool("", "am7_update_object", update.clone()).await.0, 200);
    read_until(&mut stream, &mut said, "event: resource/updated").await;
    // A change that the caller makes here is announced once and at once.
    said.clear();
    assert_eq!(one.tool("", "am7_update_object", update).await.0, 200);
    read_until(&mut stream, &mut said, "event: resource/updated").await;
    assert_eq!(
        other.tool("", "am7_create_object", json!({"type": "data.note", "name": "x"})).await.0,
        200
    );
    let more = read_until(&mut stream, &mut said, "never said");
    tokio::time::timeout(std::time::Duration::from_millis(2_500), more).await.unwrap_err();
    assert_eq!(said.matches("event:").count(), 1, "{said}");
    said.clear();
    assert_eq!(other.tool("", "am7_delete_object", json!({"uri": uri})).await.0, 200);
    read_until(&mut stream, &mut said, "event: resource/updated").await;
    assert_eq!(said.matches("event: resource/updated").count(), 1, "{said}");
    other.stop().await;
    one.stop().await;
    within(quiet.read_to_string(&mut nothing)).await.unwrap();
    assert!(!nothing.contains("event:"), "nothing happened to it: {nothing}");
}

#[tokio::test]
async fn answers_of_built_in_tools_are_bounded_and_say_how_to_continue() {
    let folder = tempfile::tempdir().unwrap();
    let toml = format!(
        "[knowledge]\ndatabase = {:?}\n[limits]\nmax_own_answer_bytes = 20_000\n",
        folder.path().join("knowledge.db")
    );
    let server = Running::start(&toml).await;
    let raw = async |name: &str, arguments: Value| {
        let call = json!({"name": name, "arguments": arguments});
        server.v1("", "tools/call", call).await.body
    };
    // Records with long attributes.
    for number in 0..24 {
        let text = "A long note. ".repeat(700);
        let new = json!({"type": "data.note", "name": format!("note {number:02}"), "attributes": {"text": text}});
        let (status, made) = server.tool("", "am7_create_object", new).await;
        assert_eq!(status, 200, "{made}");
        assert!(made.to_string().len() < 15_000);
    }
    let mut seen = Vec::new();
    let mut pages = 0;
    let mut cursor = Value::Null;
    loop {
        let mut arguments = json!({"type": "data.note", "limit": 500, "details": true});
        if !cursor.is_null() {
            arguments["cursor"] = cursor;
        }
        let body = raw("am7_list_objects", arguments).await;
        // As text it is escaped once more, which makes it longer.
        assert!(body.len() < 30_000, "{} bytes", body.len());
        let page: Value = serde_json::from_str(&body).unwrap();
        for object in page["structuredContent"]["objects"].as_array().unwrap() {
            seen.push(object["name"].as_str().unwrap().to_owned());
            let how = object["attributesOmitted"].as_str().unwrap();
            assert!(how.contains("text (") && how.contains("resources/read of am7://"), "{how}");
        }
        (cursor, pages) = (page["structuredContent"]["nextCursor"].clone(), pages + 1);
        if cursor.is_null() {
            break;
        }
    }
    seen.sort();
    seen.dedup();
    assert_eq!((seen.len(), pages > 1), (24, true));

    // A text read in parts; the model sees that it continues.
    let text = (0..2_000).map(|it| format!("Loaf {it} of bread. ")).collect::<String>();
    let new = json!({"type": "data.data", "name": "loaves", "content": text});
    let (_, made) = server.tool("", "am7_create_object", new).await;
    let mut read = String::new();
    let mut start = json!(0);
    while !start.is_null() {
        let body = raw(
            "am7_extract_content",
            json!({"uri": made["uri"], "start": start, "length": 20_000}),
        )
        .await;
        assert!(body.len() < 25_000, "{} bytes", body.len());
        let part: Value = serde_json::from_str(&body).unwrap();
        read.push_str(part["structuredContent"]["content"].as_str().unwrap());
        start = part["structuredContent"]["nextStart"].clone();
        assert_eq!(body.contains(&format!("start = {start})")), !start.is_null(), "{body}");
    }
    assert_eq!(read.trim(), text.trim());

    // As many passages as fit.
    let (status, done) =
        server.tool("", "am7_vectorize", json!({"uri": made["uri"], "chunkSize": 100})).await;
    assert_eq!(status, 200, "{done}");
    let body = raw("am7_vector_search", json!({"query": "bread", "limit": 100})).await;
    assert!(body.len() < 30_000, "{} bytes", body.len());
    let found: Value = serde_json::from_str(&body).unwrap();
    let omitted = found["structuredContent"]["omitted"].as_u64().unwrap();
    let shown = found["structuredContent"]["results"].as_array().unwrap().len();
    assert_eq!(omitted + shown as u64, done["chunkCount"].as_u64().unwrap(), "{shown}");
    assert!(body.contains(&format!("({omitted} more passages were found")), "{body}");
    server.stop().await;
}

#[tokio::test]
async fn search_hits_can_be_cited() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path()).await;
    let search = async |query: &str| {
        let call =
            json!({"name": "am7_vector_search", "arguments": {"query": query, "threshold": 0.3}});
        server.v1("", "tools/call", call).await.json()
    };
    let nothing = search("anything").await;
    assert_eq!(nothing["structuredContent"], json!({"results": []}));
    let said = nothing["content"][0]["text"].as_str().unwrap();
    assert!(said.starts_with("No passage was found"), "{said}");

    let text = "# Baking at home\n\nNotes of one winter.\n\n## Ovens\n\nA stone oven keeps its heat for hours.\n";
    let new = json!({"type": "data.data", "name": "baking", "mediaType": "text/markdown", "content": text});
    let (_, made) = server.tool("", "am7_create_object", new).await;
    let uri = made["uri"].as_str().unwrap();
    server.tool("", "am7_vectorize", json!({"uri": uri})).await;
    let found = search("How long does a stone oven keep its heat?").await;
    let item = &found["content"][0];
    let shown = item["resource"]["text"].as_str().unwrap();
    assert!(shown.starts_with("Source: "), "{shown}");
    for part in
        ["Baking at home", uri, "\u{201C}Ovens\u{201D}", "A stone oven keeps its heat for hours."]
    {
        assert!(shown.contains(part), "{part} is missing: {shown}");
    }
    // Structured content for programs is complete.
    assert_eq!(item["type"], "resource");
    assert_eq!(item["metadata"]["sourceUri"], uri);
    let result = &found["structuredContent"]["results"][0];
    assert!(!result["text"].as_str().unwrap().contains("Source:"), "{result}");
    server.stop().await;
}
