//! Authentication of callers.

use marquetry::Config;
use serde_json::json;

use crate::support::{Running, within};

const ROUTES: [(&str, &str); 9] = [
    ("POST", "/mcp"),
    ("GET", "/mcp"),
    ("GET", "/sse"),
    ("POST", "/messages?sessionId=1"),
    ("GET", "/api/tools"),
    ("POST", "/api/tools/encodePlantUML"),
    ("POST", "/mcp/v1/initialize"),
    ("POST", "/mcp/v1/tools/call"),
    ("GET", "/mcp/v1/resources/subscribe?uri=am7://default/data.data/1"),
];

/// A server with an issuer that is never contacted, and two tokens in files.
async fn server(directory: &std::path::Path) -> Running {
    for (name, token) in [("good", "hush-0123456789abcdef\n"), ("narrow", "hush-fedcba9876543210")]
    {
        std::fs::write(directory.join(name), token).unwrap();
    }
    let keys = json!({ "keys": [] }).to_string();
    std::fs::write(directory.join("keys.json"), keys).unwrap();
    let file = |name: &str| directory.join(name).display().to_string();
    let toml = format!(
        "[auth]\nissuer = 'https://login.example'\nresource = 'https://tools.example/mcp'\njwks_file = '{}'\nrequired_scopes = ['tools']\n\
         [auth.tokens]\ngood = {{ file = '{}', scopes = ['tools'] }}\nnarrow = {{ file = '{}' }}\n",
        file("keys.json"),
        file("good"),
        file("narrow")
    );
    Running::start(&toml).await
}

#[tokio::test]
async fn every_route_but_health_and_metadata_wants_a_token() {
    let directory = tempfile::tempdir().unwrap();
    let server = server(directory.path()).await;
    let metadata = "https://tools.example/.well-known/oauth-protected-resource/mcp";
    for (method, path) in ROUTES {
        let answer = server.http(method, path, &[], b"{}").await;
        let challenge = format!(r#"Bearer scope="tools", resource_metadata="{metadata}""#);
        assert_eq!(
            (answer.status, answer.header("www-authenticate")),
            (401, Some(&*challenge)),
            "{method} {path}"
        );
        let wrong = [("Authorization", "Bearer hush-x")];
        let answer = server.http(method, path, &wrong, b"{}").await;
        assert_eq!(answer.status, 401, "{method} {path}");
        let narrow = [("Authorization", "Bearer hush-fedcba9876543210")];
        let answer = server.http(method, path, &narrow, b"{}").await;
        assert_eq!(answer.status, 403, "{method} {path}");
        let challenge = answer.header("www-authenticate").unwrap();
        assert!(challenge.contains(r#"error="insufficient_scope""#), "{challenge}");
    }
    let refused = server.http("GET", "/api/tools", &[], b"").await.json();
    assert_eq!(refused["error"], json!({ "code": "UNAUTHORIZED", "message": "a token is needed" }));
    assert_eq!(server.http("GET", "/healthz", &[], b"").await.status, 200);
    for path in
        ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"]
    {
        let found = server.http("GET", path, &[], b"").await.json();
        let want = json!({
            "resource": "https://tools.example/mcp", "authorization_servers": ["https://login.example"],
            "scopes_supported": ["tools"], "bearer_methods_supported": ["header"], "resource_name": "Marquetry",
        });
        assert_eq!(found, want, "{path}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_valid_token_is_accepted() {
    use marquetry_protocol::client::{Client, ClientOptions, HttpTarget};
    let directory = tempfile::tempdir().unwrap();
    let server = server(directory.path()).await;
    let good = "Bearer hush-0123456789abcdef";
    let listed = server.http("GET", "/api/tools", &[("Authorization", good)], b"").await;
    assert_eq!(listed.status, 200);
    let target = HttpTarget {
        url: format!("http://{}/mcp", server.address),
        headers: [("Authorization".to_owned(), good.to_owned())].into(),
    };
    let client = within(Client::http(target, ClientOptions::default())).await.unwrap();
    assert!(!within(client.list_tools()).await.unwrap().is_empty());
    client.close().await;
    server.stop().await;
}

#[tokio::test]
async fn without_auth_every_caller_is_accepted() {
    let server = Running::start("").await;
    assert_eq!(server.http("GET", "/api/tools", &[], b"").await.status, 200);
    let metadata = server.http("GET", "/.well-known/oauth-protected-resource", &[], b"").await;
    assert_eq!(metadata.status, 404);
    server.stop().await;
}

#[test]
fn an_error_in_auth_names_its_key_and_place() {
    let config = Config::from_toml("[auth]\nissuer = 'https://login.example'\n", "m.toml").unwrap();
    let error = config.check().unwrap_err().to_string();
    assert!(
        error.starts_with("m.toml:2:10: auth.issuer: \"issuer\" needs \"resource\""),
        "{error}"
    );
}

#[tokio::test]
async fn an_upstream_that_wants_a_login_says_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let upstream = server(directory.path()).await;
    let gateway =
        Running::start(&format!("[mcp_servers.files]\nurl = 'http://{}/mcp'\n", upstream.address))
            .await;
    let health = gateway.app.health().to_string();
    assert!(
        health.contains("server wants authorization (HTTP status 401, scope 'tools')"),
        "{health}"
    );
    assert!(health.contains("log in with `marquetry login files`"), "{health}");
    gateway.stop().await;
    upstream.stop().await;
}
