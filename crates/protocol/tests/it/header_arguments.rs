//! Arguments that headers repeat (`x-mcp-header`, 2026-07-28).

use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use marquetry_protocol::{
    Revision, RpcError,
    client::{CallOptions, Client, ClientOptions, HttpTarget, RevisionChoice},
    server::{
        Handler, Limits, Reply, RequestContext, Server, ServerDescription,
        http::{HttpEndpoint, HttpOptions, serve},
        serve_pipe,
    },
    types::{
        CallToolParams, CallToolResult, Implementation, ListChanged, ListToolsResult,
        ServerCapabilities, Tool,
    },
};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

#[tokio::test]
async fn marked_arguments_are_repeated_in_headers() {
    let (_stop, listed, client) = over_http(Revision::V2026_07_28).await;
    client.list_tools().await.unwrap();
    for (region, limit) in
        [("eu", 1), ("", -7), (" padded ", 0), ("größe\r\n", 3), ("=?base64?YQ==?=", 4)]
    {
        let arguments = json!({ "region": region, "options": { "limit": limit }, "not": null });
        assert_eq!(call(&client, &arguments).await, arguments, "{region:?}");
    }
    assert_eq!(call(&client, &json!({})).await, json!({}));
    // The server accepted each call at the first attempt. It refuses a call whose headers differ
    // from the body, and the client would then list again.
    assert_eq!(listed.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_client_that_did_not_know_lists_and_calls_again() {
    let (_stop, listed, client) = over_http(Revision::V2026_07_28).await;
    let arguments = json!({ "region": "eu" });
    assert_eq!(call(&client, &arguments).await, arguments);
    assert_eq!(listed.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn tools_with_wrong_marks_are_left_out_where_headers_are() {
    let names = async |client: &Client| -> Vec<String> {
        client.list_tools().await.unwrap().into_iter().map(|tool| tool.name).collect()
    };
    let (_stop, _, client) = over_http(Revision::V2026_07_28).await;
    assert_eq!(names(&client).await, ["marked"]);
    let (_stop, _, client) = over_http(Revision::V2025_11_25).await;
    assert_eq!(names(&client).await, ["marked", "wrong"]);

    let (reader, output) = tokio::io::simplex(4096);
    let (input, writer) = tokio::io::simplex(4096);
    let server = Server::new(Markets::default());
    tokio::spawn(async move { serve_pipe(&server, input, output, Default::default()).await });
    let client = Client::connect(reader, writer, ClientOptions::default()).await.unwrap();
    assert_eq!(names(&client).await, ["marked", "wrong"]);
}

async fn call(client: &Client, arguments: &Value) -> Value {
    let call = CallToolParams::new("marked", arguments).unwrap();
    let answer = client.call_tool_raw(&call, CallOptions::default()).await.unwrap();
    let answer: CallToolResult = serde_json::from_str(answer.get()).unwrap();
    answer.structured_content.unwrap()
}

async fn over_http(revision: Revision) -> (DropGuard, Arc<AtomicUsize>, Client) {
    let handler = Markets::default();
    let listed = handler.listed.clone();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let server = Server::with_limits(handler, Limits::default());
    let endpoint = HttpEndpoint::new(server, HttpOptions::default());
    let stop = CancellationToken::new();
    let serving = serve(listener, endpoint).until(stop.clone());
    tokio::spawn(async move { serving.await.unwrap() });
    let options =
        ClientOptions { revision: RevisionChoice::Only(revision), ..ClientOptions::default() };
    let client = Client::http(HttpTarget { url, ..HttpTarget::default() }, options).await.unwrap();
    (stop.drop_guard(), listed, client)
}

/// `marked` returns its arguments; `wrong` has an invalid mark.
#[derive(Default)]
struct Markets {
    listed: Arc<AtomicUsize>,
}

fn schema() -> Value {
    json!({ "type": "object", "properties": {
        "region": { "type": "string", "x-mcp-header": "Region" },
        "not": { "type": ["boolean", "null"], "x-mcp-header": "Not" },
        "options": { "type": "object", "properties": {
            "limit": { "type": "integer", "x-mcp-header": "Limit" },
        } },
    } })
}

#[async_trait]
impl Handler for Markets {
    fn describe(&self) -> ServerDescription {
        let mut capabilities = ServerCapabilities::default();
        capabilities.tools = Some(ListChanged::default());
        let info = Implementation::new("markets", "1");
        ServerDescription { info, capabilities, instructions: None }
    }

    async fn list_tools(
        &self,
        _: Option<&str>,
        _: &RequestContext,
    ) -> Result<ListToolsResult, RpcError> {
        self.listed.fetch_add(1, Ordering::Relaxed);
        let tool = |name: &str, input_schema| Tool {
            name: name.to_owned(),
            input_schema,
            ..Tool::default()
        };
        let wrong = json!({ "type": "object", "properties": {
            "score": { "type": "number", "x-mcp-header": "Score" },
        } });
        let tools = vec![tool("marked", schema()), tool("wrong", wrong)];
        Ok(ListToolsResult { tools, next_cursor: None })
    }

    fn input_schema(&self, tool: &str) -> Option<Cow<'_, Value>> {
        (tool == "marked").then(|| Cow::Owned(schema()))
    }

    async fn call_tool(
        &self,
        params: CallToolParams,
        _: &RequestContext,
    ) -> Result<Reply, RpcError> {
        let arguments = params.arguments.map(|arguments| serde_json::from_str(arguments.get()));
        let arguments = arguments.transpose().unwrap().unwrap_or(Value::Null);
        Reply::json(&CallToolResult::structured(arguments))
    }
}
