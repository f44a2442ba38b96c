//! Two tools in place of a long list: `search_tools` and `call_tool`.

use std::fs;

use async_trait::async_trait;
use marquetry_protocol::{
    Revision, RpcError,
    client::{Client, ClientOptions},
    server::{
        Handler, Reply, RequestContext, Server, ServerDescription,
        http::{HttpEndpoint, HttpOptions, serve},
    },
    types::{
        CallToolParams, CallToolResult, Implementation, ListToolsResult, ServerCapabilities, Tool,
    },
};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{
    support::{Running, call, text_of, tool_names},
    upstream::HttpUpstream,
};

const ON: &str = "tools.search.mode = 'on'\n";

async fn agent_named(server: &Running, name: &str) -> Client {
    let options = ClientOptions {
        implementation: Implementation::new(name, "1.0.0"),
        ..ClientOptions::default()
    };
    server.agent_with(Revision::V2025_11_25, options).await
}

/// Returns the text of an answer and whether it is an error.
async fn outcome(agent: &Client, tool: &str, arguments: Value) -> (bool, String) {
    let answer = call(agent, tool, arguments).await.unwrap();
    let text = answer["content"][0]["text"].as_str().unwrap_or_default().to_owned();
    (answer["isError"] == true, text)
}

#[tokio::test]
async fn two_tools_take_the_place_of_the_list() {
    let web = HttpUpstream::start().await;
    let config = format!("{ON}tools.search.always = ['web__ec*']\n{}", web.toml("web"));
    let server = Running::start(&config).await;
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let agent = server.agent_of(revision).await;
        assert_eq!(tool_names(&agent).await, ["search_tools", "call_tool", "web__echo"]);
        let found = text_of(&agent, "search_tools", json!({"query": "crash"})).await;
        assert!(found.starts_with("web__crash(): The tool crash."), "{found}");
        let names = json!({"query": "read a saved artifact", "detail": "names", "limit": 1});
        assert_eq!(text_of(&agent, "search_tools", names).await, "read_artifact");

        let echo = json!({"name": "web__echo", "arguments": {"text": "hello"}});
        assert_eq!(text_of(&agent, "call_tool", echo).await, "hello");
        assert_eq!(text_of(&agent, "web__echo", json!({"text": "direct"})).await, "direct");
        let own = json!({"name": "list_artifacts"});
        assert!(call(&agent, "call_tool", own).await.unwrap()["structuredContent"].is_object());
        let nested = json!({"name": "search_tools", "arguments": {"query": "crash", "limit": 1}});
        assert!(text_of(&agent, "call_tool", nested).await.starts_with("web__crash()"));
    }
    server.stop().await;
}

#[tokio::test]
async fn what_cannot_be_called_is_refused_with_a_hint() {
    let web = HttpUpstream::start().await;
    let server = Running::start(&format!("{ON}{}", web.toml("web"))).await;
    let agent = server.agent().await;
    for (tool, arguments, want) in [
        (
            "call_tool",
            json!({"name": "web__ecko"}),
            "unknown tool 'web__ecko'; did you mean 'web__echo'?",
        ),
        ("call_tool", json!({"name": "call_tool"}), "cannot call itself"),
        ("call_tool", json!({}), "missing field `name`"),
        ("search_tools", json!({}), "missing field `query`"),
        ("search_tools", json!({"query": "x", "detail": "all"}), "unknown variant `all`"),
        (
            "call_tool",
            json!({"name": "read_artifact", "arguments": {}}),
            "arguments of 'read_artifact'",
        ),
    ] {
        let (is_error, text) = outcome(&agent, tool, arguments).await;
        assert!(is_error && text.contains(want), "{text}");
    }
    let (is_error, text) = outcome(&agent, "search_tools", json!({"query": "zzqx"})).await;
    assert!(!is_error && text.starts_with("No tool matches 'zzqx'."), "{text}");
    assert!(text.contains("\nweb (16): web__echo, web__big, web__image, …"), "{text}");
    server.stop().await;
}

#[tokio::test]
async fn a_call_within_a_call_is_captured_and_recorded_as_the_real_tool() {
    let web = HttpUpstream::start().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let config = format!("{ON}[audit]\npath = {path:?}\n{}", web.toml("web"));
    let server = Running::start(&config).await;
    let agent = server.agent().await;
    let big = json!({"name": "web__big", "arguments": {"words": 20_000}});
    let answer = call(&agent, "call_tool", big).await.unwrap();
    let name = &answer["_meta"]["marquetry/capture"]["save"]["artifacts"][0]["name"];
    assert!(name.as_str().unwrap().starts_with("web__big"), "{name}");
    let events = fs::read_to_string(&path).unwrap();
    let mut events = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let event = events.rfind(|event| event["method"] == "tools/call").unwrap();
    assert_eq!((&event["name"], &event["tool"]), (&json!("web__big"), &json!("big")), "{event}");
    assert_eq!(event["arguments"], json!(["words"]));
    server.stop().await;
}

#[tokio::test]
async fn auto_depends_on_the_cost_and_the_client() {
    let web = HttpUpstream::start().await;
    let config =
        format!("tools.search = {{ mode = 'auto', threshold_tokens = 500 }}\n{}", web.toml("web"));
    let server = Running::start(&config).await;
    let agent = agent_named(&server, "my-agent").await;
    assert_eq!(tool_names(&agent).await, ["search_tools", "call_tool"]);
    let claude = agent_named(&server, "claude-code").await;
    assert!(tool_names(&claude).await.len() > 16);
    assert_eq!(
        text_of(&claude, "call_tool", json!({"name": "web__pid"})).await,
        std::process::id().to_string()
    );
    server.stop().await;

    let cheap = format!("tools.search.mode = 'auto'\n{}", web.toml("web"));
    let server = Running::start(&cheap).await;
    let agent = agent_named(&server, "my-agent").await;
    let names = tool_names(&agent).await;
    assert!(names.len() > 16 && !names.iter().any(|name| name == "search_tools"), "{names:?}");
    server.stop().await;
}

#[tokio::test]
async fn people_see_all_tools() {
    let web = HttpUpstream::start().await;
    let server = Running::start(&format!("{ON}{}", web.toml("web"))).await;
    let console = agent_named(&server, "marquetry-console").await;
    assert!(tool_names(&console).await.contains(&"web__crash".to_owned()));
    let rest = server.http("POST", "/mcp/v1/tools/list", &[], b"{}").await.json();
    assert!(rest["tools"].as_array().unwrap().len() > 16, "{rest}");
    server.stop().await;
}

#[tokio::test]
async fn without_the_search_the_names_are_free() {
    let upstream = OneTool::start("search_tools", json!({})).await;
    let bare = format!("[mcp_servers.bare]\nurl = '{}'\nprefix = ''\n", upstream.url);
    let server = Running::start(&bare).await;
    let agent = server.agent().await;
    assert!(tool_names(&agent).await.contains(&"search_tools".to_owned()));
    assert_eq!(text_of(&agent, "search_tools", json!({})).await, "from upstream");
    server.stop().await;

    let server = Running::start(&format!("{ON}{bare}")).await;
    let agent = server.agent().await;
    assert_eq!(tool_names(&agent).await, ["search_tools", "call_tool"]);
    let (is_error, text) = outcome(&agent, "search_tools", json!({"query": "x"})).await;
    assert!(!is_error && !text.contains("from upstream"), "{text}");
    server.stop().await;
}

#[tokio::test]
async fn tools_of_views_are_neither_found_nor_called() {
    let meta = json!({"ui": {"visibility": ["app"]}});
    let upstream = OneTool::start("refresh_chart", meta).await;
    let config = format!("{ON}[mcp_servers.app]\nurl = '{}'\n", upstream.url);
    let server = Running::start(&config).await;
    let agent = server.agent().await;
    let (_, found) = outcome(&agent, "search_tools", json!({"query": "refresh the chart"})).await;
    assert!(!found.contains("refresh_chart"), "{found}");
    let hidden = json!({"name": "app__refresh_chart"});
    let (is_error, text) = outcome(&agent, "call_tool", hidden).await;
    assert!(is_error && text.starts_with("unknown tool 'app__refresh_chart'"), "{text}");
    server.stop().await;
}

/// An upstream with one tool.
#[derive(Clone)]
struct OneTool {
    tool: Tool,
}

struct RunningUpstream {
    url: String,
    stop: CancellationToken,
}

impl Drop for RunningUpstream {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl OneTool {
    async fn start(name: &str, meta: Value) -> RunningUpstream {
        let meta = meta.as_object().cloned();
        let input_schema = json!({"type": "object"});
        let tool = Tool { name: name.to_owned(), input_schema, meta, ..Tool::default() };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let endpoint = HttpEndpoint::new(Server::new(Self { tool }), HttpOptions::default());
        let stop = CancellationToken::new();
        tokio::spawn(serve(listener, endpoint).until(stop.clone()).into_future());
        RunningUpstream { url, stop }
    }
}

#[async_trait]
impl Handler for OneTool {
    fn describe(&self) -> ServerDescription {
        let mut capabilities = ServerCapabilities::default();
        capabilities.tools = Some(marquetry_protocol::types::ListChanged::default());
        let info = Implementation::new("one", "1.0.0");
        ServerDescription { info, capabilities, instructions: None }
    }

    async fn list_tools(
        &self,
        _cursor: Option<&str>,
        _cx: &RequestContext,
    ) -> Result<ListToolsResult, RpcError> {
        Ok(ListToolsResult { tools: vec![self.tool.clone()], next_cursor: None })
    }

    async fn call_tool(&self, _: CallToolParams, _: &RequestContext) -> Result<Reply, RpcError> {
        Reply::json(&CallToolResult::text("from upstream"))
    }
}
