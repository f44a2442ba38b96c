//! REST: seed 002 and the edge table of the specification.

use serde_json::{Value, json};

use crate::support::{Running, within};

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
        ("GET", "/", 404, "NOT_FOUND", None),
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
async fn a_body_that_does_not_come_is_given_up() {
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
    let toml =
        "[server]\nallowed_hosts = ['tools.example']\nallowed_origins = ['https://app.example']";
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
    for origin in ["https://evil.example", "null"] {
        let answer = ask(&[("Origin", origin)]).await;
        assert_eq!(answer.refusal(), (403, "ORIGIN_NOT_ALLOWED".to_owned()));
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
    let mcp = server.http("POST", "/mcp", &[("Origin", "https://evil.example")], b"{}").await;
    assert_eq!((mcp.status, &mcp.json()["jsonrpc"]), (403, &json!("2.0")));
    server.stop().await;
}

#[tokio::test]
async fn browsers_may_ask_first() {
    let server = Running::start("").await;
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
    // Without the question it is a method like any other.
    let answer = server.http("OPTIONS", "/api/tools", &[], b"").await;
    assert_eq!(answer.refusal(), (405, "METHOD_NOT_ALLOWED".to_owned()));
    server.stop().await;
}

#[tokio::test]
async fn health_names_version_and_upstreams() {
    let server = Running::start("mcp_servers.off = { command = 'x', disabled = true }").await;
    let answer = within(server.http("GET", "/healthz", &[], b"")).await;
    let want: Value = json!({
        "status": "ok", "version": env!("CARGO_PKG_VERSION"),
        "upstreams": [{"name": "off", "transport": "stdio", "state": "disabled", "tools": 0, "restarts": 0}],
    });
    assert_eq!((answer.status, answer.json()), (200, want));
    server.stop().await;
}
