//! REST: seed 002 and the edge table of the specification.

use std::path::Path;

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    asking::AskingOverHttp,
    support::{Running, until, within},
    upstream::HttpUpstream,
};

const DIAGRAM: &str = "@startuml\nactor Writer1\nactor Writer2\nrectangle \"Front Buffer\" as Front\nWriter1 --> Front\nWriter2 --> Front\n@enduml\n";

fn body(code: &str) -> String {
    json!({"plantumlCode": code}).to_string()
}

#[tokio::test]
async fn tools_are_discovered() {
    let server = Running::start("").await;
    let answer = server.http("GET", "/api/tools", &[], b"").await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    let listed = answer.json();
    let tools = listed["tools"].as_array().unwrap();
    let tool = tools.iter().find(|tool| tool["id"] == "encodePlantUML").unwrap();
    assert!(tool["name"].is_string() && tool["description"].is_string());
    let schema = &tool["inputSchema"];
    assert_eq!(schema["type"], "object");
    assert_eq!(schema["required"], json!(["plantumlCode"]));
    assert_eq!(schema["properties"]["plantumlCode"]["type"], "string");
    assert!(schema["properties"]["plantumlCode"]["description"].is_string());
    assert_eq!(schema["properties"]["format"]["enum"], json!(["svg", "png", "txt"]));
    server.stop().await;
}

#[tokio::test]
async fn a_diagram_is_encoded_the_same_way_each_time() {
    let server = Running::start("").await;
    let answer = server.post("encodePlantUML", body(DIAGRAM)).await;
    let result = answer.json();
    assert_eq!((answer.status, &result["success"]), (200, &json!(true)));
    let result = &result["result"];
    let encoded = result["encoded"].as_str().unwrap();
    let url = format!("https://www.plantuml.com/plantuml/svg/{encoded}");
    assert_eq!(
        *result,
        json!({"url": url, "encoded": encoded, "format": "svg", "length": url.len()})
    );
    for _ in 0..4 {
        assert_eq!(server.post("encodePlantUML", body(DIAGRAM)).await.body, answer.body);
    }
    let png = json!({"plantumlCode": "A --> B", "format": "png", "verbatim": null}).to_string();
    let png = server.post("encodePlantUML", png).await.json();
    assert_eq!(png["result"]["url"], "https://www.plantuml.com/plantuml/png/SrJGrRLJS080");

    let decoded = server.post("decodePlantUML", json!({"code": url}).to_string()).await.json();
    assert_eq!(decoded["result"]["plantumlCode"].as_str().unwrap().trim(), DIAGRAM.trim());
    server.stop().await;
}

#[tokio::test]
async fn every_edge_has_its_answer() {
    let server = Running::start("").await;
    let largest = format!("A -> B : {}", "x".repeat(51_200 - 9));
    let answer = server.post("encodePlantUML", body(&largest)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let escaped = format!(r#"{{"plantumlCode": "{}"}}"#, "\\u0041".repeat(51_200));
    assert_eq!(server.post("encodePlantUML", escaped).await.status, 200);

    let mut broken = body("A -> B").into_bytes();
    let place = broken.len() - 3;
    broken[place] = 0xff;
    let too_large = vec![b' '; 400_000];
    let cases: [(&[u8], u16, &str); 22] = [
        (b"", 400, "EMPTY_CODE"),
        (b"  \n", 400, "EMPTY_CODE"),
        (b"{}", 400, "EMPTY_CODE"),
        (b"[]", 400, "EMPTY_CODE"),
        (b"null", 400, "EMPTY_CODE"),
        (br#""A -> B""#, 400, "EMPTY_CODE"),
        (br#"{"plantumlCode": null}"#, 400, "EMPTY_CODE"),
        (br#"{"plantumlCode": 3}"#, 400, "EMPTY_CODE"),
        (br#"{"plantumlCode": ["A"]}"#, 400, "EMPTY_CODE"),
        (br#"{"plantumlCode": ""}"#, 400, "EMPTY_CODE"),
        (br#"{"plantumlCode": " \n\t\u00a0\ufeff"}"#, 400, "EMPTY_CODE"),
        (br#"{"plantumlCode": "A"#, 400, "INVALID_JSON"),
        (b"plantumlCode=A", 400, "INVALID_JSON"),
        (b"\xff\xfe", 400, "INVALID_JSON"),
        (br#"{"plantumlCode": "A", }"#, 400, "INVALID_JSON"),
        (br#"{"plantumlCode": "A"} {}"#, 400, "INVALID_JSON"),
        (br#"{"plantumlCode": "\ud800"}"#, 500, "ENCODING_FAILED"),
        (br#"{"plantumlCode": "A \udc00 B"}"#, 500, "ENCODING_FAILED"),
        (&broken, 500, "ENCODING_FAILED"),
        (br#"{"plantumlCode": "A", "format": "pdf"}"#, 400, "INVALID_ARGUMENT"),
        (br#"{"plantumlCode": "A", "verbatim": 1}"#, 400, "INVALID_ARGUMENT"),
        (&too_large, 413, "CODE_TOO_LARGE"),
    ];
    for (sent, status, code) in cases {
        let answer = server.post("encodePlantUML", sent).await;
        let shown = String::from_utf8_lossy(&sent[..sent.len().min(60)]);
        assert_eq!(answer.refusal(), (status, code.to_owned()), "{shown}");
    }
    let over = server.post("encodePlantUML", body(&format!("{largest}x"))).await;
    assert_eq!(over.refusal(), (413, "CODE_TOO_LARGE".to_owned()));
    assert_eq!(over.json()["error"]["message"], "PlantUML code exceeds maximum size of 50KB");
    let deep = format!(r#"{{"plantumlCode": {}1{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(server.post("encodePlantUML", deep).await.status, 400);

    for (sent, code) in [
        ("{}", "EMPTY_CODE"),
        (r#"{"code": "!!"}"#, "INVALID_CODE"),
        (r#"{"code": 1}"#, "INVALID_ARGUMENT"),
    ] {
        let answer = server.post("decodePlantUML", sent).await;
        assert_eq!(answer.refusal(), (400, code.to_owned()), "{sent}");
    }
    server.stop().await;
}

#[tokio::test]
async fn paths_and_methods_are_checked() {
    let server = Running::start("").await;
    let unknown = server.post("unknownTool", "{}").await;
    let message = json!({"success": false, "error": {"code": "TOOL_NOT_FOUND", "message": "Tool 'unknownTool' not found"}});
    assert_eq!((unknown.status, unknown.json()), (404, message));
    for (method, path, status, code, allow) in [
        ("POST", "/api/tools/", 400, "TOOL_NAME_REQUIRED", None),
        ("POST", "/api/tools/a/b", 404, "TOOL_NOT_FOUND", None),
        ("POST", "/api/tools/%E2%98%83", 404, "TOOL_NOT_FOUND", None),
        ("POST", "/api/tools/%ff", 404, "TOOL_NOT_FOUND", None),
        ("POST", "/api/tools/%", 404, "TOOL_NOT_FOUND", None),
        ("POST", "/api/tools/read_artifact", 404, "TOOL_NOT_FOUND", None),
        ("GET", "/api/tools/encodePlantUML", 405, "METHOD_NOT_ALLOWED", Some("POST")),
        ("PUT", "/api/tools/encodePlantUML", 405, "METHOD_NOT_ALLOWED", Some("POST")),
        ("DELETE", "/api/tools/", 405, "METHOD_NOT_ALLOWED", Some("POST")),
        ("POST", "/api/tools", 405, "METHOD_NOT_ALLOWED", Some("GET,HEAD")),
        ("POST", "/healthz", 405, "METHOD_NOT_ALLOWED", Some("GET,HEAD")),
        ("POST", "/", 405, "METHOD_NOT_ALLOWED", Some("GET,HEAD")),
        ("POST", "/livez", 405, "METHOD_NOT_ALLOWED", Some("GET,HEAD")),
        ("GET", "/api", 404, "NOT_FOUND", None),
    ] {
        let answer = server.http(method, path, &[], b"").await;
        assert_eq!(answer.refusal(), (status, code.to_owned()), "{method} {path}");
        assert_eq!(answer.header("allow"), allow, "{method} {path}");
    }
    server.stop().await;
}

#[tokio::test]
async fn an_oversized_body_is_refused_before_it_is_sent() {
    let server = Running::start("").await;
    let head = format!(
        "POST /api/tools/encodePlantUML HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: 10000000000\r\n\r\n",
        server.address
    );
    let answer = server.raw(head.as_bytes()).await;
    assert_eq!(answer.refusal(), (413, "CODE_TOO_LARGE".to_owned()));

    let mut chunked = format!(
        "POST /api/tools/encodePlantUML HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n",
        server.address
    )
    .into_bytes();
    let chunk = [b"10000\r\n".as_slice(), &[b' '; 0x10000], b"\r\n"].concat();
    (0..8).for_each(|_| chunked.extend_from_slice(&chunk));
    let answer = server.raw(&chunked).await;
    assert_eq!(answer.refusal(), (413, "CODE_TOO_LARGE".to_owned()));
    server.stop().await;
}

#[tokio::test]
async fn a_body_that_does_not_arrive_times_out() {
    let server = Running::start("limits.max_body_ms = 100").await;
    let head = format!(
        "POST /api/tools/encodePlantUML HTTP/1.1\r\nHost: {}\r\nContent-Length: 10\r\n\r\n{{",
        server.address
    );
    let answer = server.raw(head.as_bytes()).await;
    assert_eq!(answer.refusal(), (408, "REQUEST_TIMEOUT".to_owned()));
    server.stop().await;
}

#[tokio::test]
async fn only_known_hosts_and_pages_are_let_in() {
    let toml = "[server]\nallowed_hosts = ['tools.example']
        allowed_origins = ['https://app.example', 'http://localhost:5173']";
    let server = Running::start(toml).await;
    let ask = async |headers: &[(&str, &str)]| server.http("GET", "/api/tools", headers, b"").await;
    for host in ["localhost", "127.0.0.1:9", "[::1]:80", "tools.example", "tools.example:8443"] {
        assert_eq!(ask(&[("Host", host)]).await.status, 200, "{host}");
    }
    for host in ["evil.example", "localhost.evil.example"] {
        assert_eq!(ask(&[("Host", host)]).await.refusal().1, "HOST_NOT_ALLOWED", "{host}");
    }
    for origin in ["http://localhost:5173", "https://app.example"] {
        let answer = ask(&[("Origin", origin)]).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("access-control-allow-origin"), Some(origin));
        assert_eq!(answer.header("vary"), Some("Origin"));
    }
    // The server's own page, by each of its names.
    let own = format!("http://{}", server.address);
    assert_eq!(ask(&[("Origin", &own)]).await.status, 200);
    let at_its_name = [("Host", "localhost:3001"), ("Origin", "http://localhost:3001")];
    assert_eq!(ask(&at_its_name).await.status, 200);
    // A page from another port of this machine is not trusted, because any program can serve one.
    for origin in ["https://evil.example", "null", "http://localhost:5174", "http://127.0.0.1:1"] {
        let answer = ask(&[("Origin", origin)]).await;
        assert_eq!(answer.refusal(), (403, "ORIGIN_NOT_ALLOWED".to_owned()));
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
    // Pages of other sites make some requests without an origin, such as those for pictures.
    for (path, dest, site, status) in [
        ("/api/tools", "empty", "same-origin", 200),
        ("/api/tools", "document", "none", 200),
        ("/", "document", "cross-site", 200),
        ("/", "iframe", "cross-site", 403),
        ("/sse", "empty", "cross-site", 403),
        ("/api/tools", "image", "same-site", 403),
        ("/healthz", "document", "cross-site", 403),
    ] {
        let headers = [("Sec-Fetch-Site", site), ("Sec-Fetch-Dest", dest), ("Accept", "text/html")];
        let answer = server.http("GET", path, &headers, b"").await;
        assert_eq!(answer.status, status, "{path} {dest} {site}");
    }
    for (header, value, setting) in [
        ("Origin", "https://evil.example", "server.allowed_origins"),
        ("Host", "evil.example:3001", "server.allowed_hosts"),
    ] {
        for path in
            ["/mcp", "/sse", "/messages", "/mcp/v1/tools/list", "/api/tools", "/", "/healthz"]
        {
            let answer = server.http("POST", path, &[(header, value)], b"{}").await;
            assert_eq!(answer.status, 403, "{path}");
            assert_eq!(answer.header("connection"), Some("close"), "{path}");
            assert!(answer.body.contains(setting) && answer.body.contains(value), "{answer:?}");
            let is_json_rpc = answer.json()["jsonrpc"] == "2.0";
            assert_eq!(is_json_rpc, ["/mcp", "/sse", "/messages"].contains(&path), "{answer:?}");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn preflight_requests_are_answered() {
    let server = Running::start("server.allowed_origins = ['http://localhost:5173']").await;
    let headers = [
        ("Origin", "http://localhost:5173"),
        ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", "content-type,mcp-session-id"),
    ];
    for (path, methods) in
        [("/api/tools/encodePlantUML", "GET, POST"), ("/mcp", "GET, POST, DELETE")]
    {
        let answer = server.http("OPTIONS", path, &headers, b"").await;
        assert_eq!(answer.status, 204, "{path}");
        assert_eq!(answer.header("access-control-allow-methods"), Some(methods));
        assert_eq!(
            answer.header("access-control-allow-headers"),
            Some("content-type,mcp-session-id")
        );
        assert_eq!(answer.header("access-control-allow-origin"), Some("http://localhost:5173"));
    }
    // Without a query it is a method like any other.
    let answer = server.http("OPTIONS", "/api/tools", &[], b"").await;
    assert_eq!(answer.refusal(), (405, "METHOD_NOT_ALLOWED".to_owned()));
    server.stop().await;
}

#[tokio::test]
async fn a_browser_gets_a_page_and_a_program_json() {
    let server = Running::start("server.allowed_hosts = ['tools.example']").await;
    let accept =
        [("Accept", "text/html,application/xhtml+xml,*/*;q=0.8"), ("Host", "tools.example:8080")];
    let page = server.http("GET", "/", &accept, b"").await;
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert!(page.header("content-security-policy").unwrap().starts_with("default-src 'none'"));
    assert!(page.body.contains("http://tools.example:8080/mcp"), "{}", page.body);
    // The page loads only files of this server, and has no inline scripts.
    for load in ["src=\"http", "href=\"http", "src=\"//", "href=\"//", "@import", "url("] {
        assert!(!page.body.contains(load), "{load}: {}", page.body);
    }
    let script = page.body.split_once("<script type=\"module\" src=\"").unwrap().1;
    let (script, rest) = script.split_once('"').unwrap();
    assert!(rest.starts_with("></script>"), "{rest}");
    let script = server.http("GET", script, &[], b"").await;
    assert_eq!(
        (script.status, script.header("content-type")),
        (200, Some("text/javascript; charset=utf-8"))
    );
    // A person who opens the endpoint gets the page, a client the status of the protocol.
    let endpoint_page = server.http("GET", "/mcp", &accept, b"").await;
    assert_eq!((endpoint_page.status, &endpoint_page.body), (200, &page.body));
    for accept in ["*/*", "text/event-stream", "text/html, text/event-stream"] {
        let status = server.http("GET", "/mcp", &[("Accept", accept)], b"").await.status;
        assert_eq!(status / 100, 4, "{accept}: {status}");
    }
    let answer = server.http("GET", "/", &[("Accept", "*/*")], b"").await.json();
    let endpoint = format!("http://{}/mcp", server.address);
    assert_eq!((&answer["endpoint"], &answer["token"]), (&json!(endpoint), &json!(false)));
    server.stop().await;
}

#[tokio::test]
async fn without_the_console_a_small_page_says_how_to_connect() {
    let server = Running::start("console.enabled = false").await;
    let page = server.http("GET", "/", &[("Accept", "text/html")], b"").await;
    assert_eq!(page.status, 200);
    assert!(page.body.contains("mcpServers"), "{}", page.body);
    for load in ["<script", "<img", "<link", "src=", "@import", "url("] {
        assert!(!page.body.contains(load), "{load}: {}", page.body);
    }
    for path in ["/console/app.js", "/api/console/state"] {
        assert_eq!(server.http("GET", path, &[], b"").await.status, 404, "{path}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_compressed_body_is_refused_and_a_byte_order_mark_ignored() {
    let server = Running::start("").await;
    let gzip = [("Content-Encoding", "gzip"), ("Content-Type", "application/json")];
    for path in ["/mcp", "/api/tools/encodePlantUML", "/mcp/v1/tools/list"] {
        let answer = server.http("POST", path, &gzip, b"\x1f\x8b").await;
        assert_eq!(answer.status, 415, "{path}: {answer:?}");
        assert!(answer.body.contains("Content-Encoding 'gzip' is not supported"), "{answer:?}");
    }
    let plain = [("Content-Encoding", "identity")];
    for path in ["/api/tools/encodePlantUML", "/mcp/v1/ping"] {
        let body = "\u{feff}{\"plantumlCode\": \"A -> B\"}";
        let answer = server.http("POST", path, &plain, body.as_bytes()).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_client_that_reads_after_it_has_sent_all_reads_the_413() {
    let server = Running::start("").await;
    let json = [("Content-Type", "application/json"), ("Accept", "application/json")];
    let answer = server.http("POST", "/mcp", &json, &vec![b' '; 20 << 20]).await;
    assert_eq!(answer.status, 413, "{answer:?}");
    server.stop().await;
}

/// Calls a tool over plain HTTP; returns status, code, and the seconds of `Retry-After`.
async fn called(server: &Running, tool: &str, arguments: Value) -> (u16, String, bool) {
    let body = json!({"name": tool, "arguments": arguments}).to_string();
    let answer = server.http("POST", "/mcp/v1/tools/call", &[], body.as_bytes()).await;
    let code = answer.json()["code"].as_str().unwrap_or_default().to_owned();
    (answer.status, code, answer.header("retry-after").is_some())
}

#[tokio::test]
async fn numbers_pass_as_they_are_written() {
    let web = HttpUpstream::start().await;
    let server = Running::start(&web.toml("web")).await;
    let data = r#"{"wei":123456789012345678901234567890,"price":12345678901234567.89,"zero":0.10}"#;
    let body = format!(r#"{{"name":"web__same_arguments","arguments":{data}}}"#);
    let answer = server.http("POST", "/mcp/v1/tools/call", &[], body.as_bytes()).await;
    let text = answer.body;
    assert!(text.contains(data), "{text}");
    server.stop().await;
}

#[tokio::test]
async fn errors_of_wrong_arguments_have_one_form() {
    let server = Running::start("").await;
    let mut table = String::new();
    for (method, body) in [
        ("tools/call", json!({})),
        ("tools/call", json!({"name": 1})),
        ("tools/call", json!({"name": null})),
        ("tools/call", json!({"name": "encodePlantUML", "arguments": []})),
        ("tools/call", json!({"name": "encodePlantUML", "arguments": {}})),
        ("tools/call", json!({"name": "read_artifact", "arguments": {"name": 1}})),
        ("tools/list", json!({"cursor": 1})),
        ("resources/list", json!({"type": 1})),
        ("resources/read", json!({})),
        ("resources/read", json!({"uri": 1})),
        ("resources/search", json!({"query": "a", "limit": "x"})),
        ("resources/search", json!({"query": "a", "limit": -1})),
        ("prompts/get", json!({"name": 1})),
        ("sampling/createMessage", json!({"messages": "hi"})),
        ("initialize", json!({"protocolVersion": 1})),
        ("initialize", json!({"clientInfo": {"name": 1}})),
    ] {
        let path = format!("/mcp/v1/{method}");
        let answer = server.http("POST", &path, &[], body.to_string().as_bytes()).await;
        assert_eq!((answer.status, &answer.json()["code"]), (400, &json!("invalid_params")));
        table += &format!("{}\n", answer.json()["message"].as_str().unwrap());
    }
    let subscribed = server.http("GET", "/mcp/v1/resources/subscribe", &[], b"").await;
    table += subscribed.json()["message"].as_str().unwrap();
    expect_test::expect![[r#"
        name is required
        name must be a string
        name is required
        arguments must be an object
        arguments of 'encodePlantUML' are not valid: "plantumlCode" is a required property
        arguments of 'read_artifact' are not valid: /name: 1 is not of type "string"
        cursor must be a string
        type must be a string
        uri is required
        uri must be a string
        limit must be a whole number from 0 on
        limit must be a whole number from 0 on
        name must be a string
        messages must be a list
        protocolVersion must be a string
        member 'clientInfo': invalid type: integer `1`, expected a string
        uri is required"#]]
    .assert_eq(&table);
    server.stop().await;
}

#[tokio::test]
async fn a_path_that_is_not_utf_8_is_an_unknown_method() {
    let server = Running::start("").await;
    for path in ["/mcp/v1/%ff", "/mcp/v1/tools%ff/list"] {
        let answer = server.http("POST", path, &[], b"{}").await;
        assert_eq!((answer.status, &answer.json()["code"]), (404, &json!("unknown_method")));
    }
    server.stop().await;
}

#[tokio::test]
async fn failures_of_upstreams_have_statuses_of_their_own() {
    let web = HttpUpstream::start().await;
    let refusing = AskingOverHttp::start().await;
    let toml = format!(
        "gateway.restart_delay_ms = 60000\nlimits.max_request_bytes = 2000\n[mcp_servers.dead]\ncommand = '/no/such/program'\n{}call_timeout_ms = 150\n{}",
        web.toml("web"),
        refusing.toml("refusing", "2025-11-25")
    );
    let server = Running::start(&toml).await;
    let failed = |status: u16, code: &str| (status, code.to_owned(), false);
    assert_eq!(called(&server, "web__echo", json!({"text": "a"})).await.0, 200);
    // A tool's own failure is an answer, not an HTTP error.
    assert_eq!(called(&server, "web__fail", json!({})).await.0, 200);
    assert_eq!(called(&server, "dead__any", json!({})).await, failed(502, "upstream_unreachable"));
    let slow = called(&server, "web__slow", json!({"ms": 5_000})).await;
    assert_eq!(slow, failed(504, "upstream_timeout"));
    refusing.asking.refuse_with(401);
    let refused = called(&server, "refusing__pid", json!({})).await;
    assert_eq!(refused, failed(502, "upstream_unauthorized"));
    let large = called(&server, "web__echo", json!({"text": "a".repeat(3_000)})).await;
    assert_eq!(large, failed(413, "limit_exceeded"));
    web.stop().await;
    let read = json!({"uri": "test://static"}).to_string();
    let read = server.http("POST", "/mcp/v1/resources/read", &[], read.as_bytes()).await;
    assert_eq!((read.status, &read.json()["code"]), (502, &json!("upstream_unreachable")));
    server.stop().await;
}

#[tokio::test]
async fn a_refusal_for_load_has_retry_after() {
    let web = HttpUpstream::start().await;
    let limits = "limits.max_in_flight_total = 1\nlimits.queue_ms = 50";
    let server = Running::start(&format!("{limits}\n{}", web.toml("web"))).await;
    let address = server.address;
    let body = json!({"name": "web__slow", "arguments": {"ms": 60_000}}).to_string();
    let mut slow = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST /mcp/v1/tools/call HTTP/1.1\r\nHost: {address}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    slow.write_all(head.as_bytes()).await.unwrap();
    until("the call is under way", async || web.upstream.slow_is_running()).await;
    let busy = called(&server, "web__echo", json!({"text": "a"})).await;
    assert_eq!(busy, (429, "too_many_requests".to_owned(), true));
    drop(slow);
    server.stop().await;
}

const ALICE: &str = "Bearer alice-0123456789abcdef";
const BOB: &str = "Bearer bob-0123456789abcdef";

/// A server for two callers with tokens.
async fn server_of_two(folder: &Path, toml: &str) -> Running {
    let mut tokens = String::new();
    for (name, token) in [("alice", ALICE), ("bob", BOB)] {
        let path = folder.join(name);
        std::fs::write(&path, token.trim_start_matches("Bearer ")).unwrap();
        tokens += &format!("{name} = {{ file = '{}' }}\n", path.display());
    }
    Running::start(&format!("{toml}\n[auth.tokens]\n{tokens}")).await
}

/// Sends the head of a request and reads until the head of the answer has arrived.
async fn open(server: &Running, token: &str, line: &str, headers: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let host = server.address;
    let head =
        format!("{line} HTTP/1.1\r\nHost: {host}\r\nAuthorization: {token}\r\n{headers}\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut said = String::new();
    let mut buffer = [0; 4096];
    while !said.contains("\r\n\r\n") {
        let count = within(stream.read(&mut buffer)).await.unwrap();
        assert!(count > 0, "the connection ended: {said}");
        said.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
    (stream, said)
}

/// A request whose body the server waits for.
async fn waiting_for_body(server: &Running, token: &str, length: usize) -> TcpStream {
    let headers = format!("Expect: 100-continue\r\nContent-Length: {length}\r\n");
    let (stream, said) = open(server, token, "POST /mcp/v1/tools/list", &headers).await;
    assert!(said.starts_with("HTTP/1.1 100 "), "{said}");
    stream
}

/// Lists the tools with a body of about `size` bytes; returns status, code and message.
async fn listed(server: &Running, token: &str, bytes: usize) -> (u16, Value, String) {
    let body = json!({"_meta": {"padding": "x".repeat(bytes)}}).to_string();
    let headers = [("Authorization", token)];
    let answer = server.http("POST", "/mcp/v1/tools/list", &headers, body.as_bytes()).await;
    let mut json = answer.json();
    (answer.status, json["code"].take(), json["message"].to_string())
}

#[tokio::test]
async fn bodies_that_trickle_in_take_no_places_of_calls() {
    let folder = tempfile::tempdir().unwrap();
    let limits = "limits.max_in_flight = 2\nlimits.max_in_flight_total = 2\nlimits.queue_ms = 50";
    let server = server_of_two(folder.path(), limits).await;
    let mut trickling = Vec::new();
    for _ in 0..4 {
        let mut stream = waiting_for_body(&server, ALICE, 1_000).await;
        stream.write_all(b"{").await.unwrap();
        trickling.push(stream);
    }
    for token in [BOB, ALICE] {
        assert_eq!(listed(&server, token, 10).await.0, 200, "{token}");
    }
    drop(trickling);
    server.stop().await;
}

#[tokio::test]
async fn waiting_bodies_are_bounded_per_caller() {
    let folder = tempfile::tempdir().unwrap();
    let limits = "[limits]\nmax_request_bytes = 200_000\nmax_receive_bytes_per_caller = 200_000\nqueue_ms = 300";
    let server = server_of_two(folder.path(), limits).await;
    let mut trickling = waiting_for_body(&server, ALICE, 200_000).await;
    trickling.write_all(&[b' '; 190_000]).await.unwrap();
    until("the bytes are counted", async || {
        let (status, code, message) = listed(&server, ALICE, 190_000).await;
        if status == 200 {
            return false;
        }
        assert_eq!((status, &code), (429, &json!("too_many_requests")), "{message}");
        assert!(message.contains("max_receive_bytes_per_caller"), "{message}");
        true
    })
    .await;
    assert_eq!(listed(&server, BOB, 190_000).await.0, 200);
    assert_eq!(listed(&server, ALICE, 10).await.0, 200, "a short body is not counted");
    drop(trickling);
    server.stop().await;
}

#[tokio::test]
async fn subscriptions_are_bounded_per_caller() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = AskingOverHttp::start().await;
    let toml = format!("limits.max_sessions_per_caller = 1\n{}", upstream.toml("up", "2025-11-25"));
    let server = server_of_two(folder.path(), &toml).await;
    let subscribed = async |token: &str| {
        open(&server, token, "GET /mcp/v1/resources/subscribe?uri=ask://a", "").await
    };
    let (_first, said) = subscribed(ALICE).await;
    assert!(said.starts_with("HTTP/1.1 200 "), "{said}");
    let (_refused, said) = subscribed(ALICE).await;
    assert!(said.starts_with("HTTP/1.1 429 ") && said.contains("retry-after: 1"), "{said}");
    let (_other, said) = subscribed(BOB).await;
    assert!(said.starts_with("HTTP/1.1 200 "), "{said}");
    // Its calls continue.
    assert_eq!(listed(&server, ALICE, 10).await.0, 200);
    server.stop().await;
}
