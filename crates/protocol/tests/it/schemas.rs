//! Arguments and results against their schemas.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use marquetry_protocol::{
    Revision, RpcError,
    client::{CallOptions, Client, ClientError, ClientOptions},
    server::{
        Handler, Json, Reply, RequestContext, Server, ServerDescription, TaskOptions, ToolSchema,
        Toolbox,
    },
    types::{
        CallToolParams, CallToolResult, Implementation, ListChanged, ListToolsResult,
        ServerCapabilities, TASKS_EXTENSION, Tool,
    },
};
use serde_json::{Value, json};

use crate::support::{Transport, client_of};

/// Answers with what it is given. `task` does so as a task; `free` is not checked.
struct Given {
    schema: Arc<ToolSchema>,
}

fn tool(name: &str) -> Tool {
    Tool {
        name: name.to_owned(),
        input_schema: json!({
            "type": "object",
            "properties": { "result": { "type": "object" } },
            "required": ["result"],
        }),
        output_schema: Some(json!({
            "type": "object",
            "properties": { "sum": { "type": "integer" } },
            "required": ["sum"],
        })),
        ..Tool::default()
    }
}

#[async_trait]
impl Handler for Given {
    fn describe(&self) -> ServerDescription {
        let mut capabilities = ServerCapabilities::default();
        capabilities.tools = Some(ListChanged::default());
        capabilities.add_extension(TASKS_EXTENSION);
        let info = Implementation::new("given", "1");
        ServerDescription { info, capabilities, instructions: None }
    }

    fn tool_schema(&self, tool: &str) -> Option<Arc<ToolSchema>> {
        (tool != "free").then(|| self.schema.clone())
    }

    fn task_options(&self, tool: &str) -> Option<TaskOptions> {
        (tool == "task").then(|| TaskOptions::default().poll_interval(Duration::from_millis(10)))
    }

    async fn list_tools(
        &self,
        _: Option<&str>,
        _: &RequestContext,
    ) -> Result<ListToolsResult, RpcError> {
        let tools = ["plain", "task", "free"].map(tool).to_vec();
        Ok(ListToolsResult { tools, next_cursor: None })
    }

    async fn call_tool(
        &self,
        params: CallToolParams,
        _: &RequestContext,
    ) -> Result<Reply, RpcError> {
        let arguments: Value = serde_json::from_str(params.arguments.unwrap().get()).unwrap();
        Reply::json(&arguments["result"])
    }
}

const EVERY: [(Transport, Revision); 4] = [
    (Transport::Pipe, Revision::V2025_06_18),
    (Transport::Http, Revision::V2025_11_25),
    (Transport::Pipe, Revision::V2026_07_28),
    (Transport::Http, Revision::V2026_07_28),
];

#[tokio::test]
async fn a_server_validates_arguments_and_results_of_its_tools() {
    let good = json!({ "content": [], "structuredContent": { "sum": 3 } });
    let cases = [
        (json!({ "result": good }), None),
        (json!({}), Some(r#"arguments of 'T' are not valid: "result" is a required property"#)),
        (
            json!({ "result": 1 }),
            Some(r#"arguments of 'T' are not valid: /result: 1 is not of type "object""#),
        ),
        (
            json!({ "result": { "content": [], "structuredContent": { "sum": "3" } } }),
            Some(
                r#"the result of 'T' breaks its outputSchema: /sum: "3" is not of type "integer""#,
            ),
        ),
        (
            json!({ "result": { "content": [] } }),
            Some("the result of 'T' breaks its outputSchema: structuredContent is missing"),
        ),
        (
            json!({ "result": { "content": [{ "type": "text", "text": "no" }], "isError": true } }),
            Some("no"),
        ),
    ];
    for (transport, revision) in EVERY {
        let client = client(transport, revision, ClientOptions::default()).await;
        for tool in ["plain", "task"] {
            for (arguments, want) in &cases {
                let answer = call(&client.1, tool, arguments).await.unwrap();
                let answer: CallToolResult = serde_json::from_str(&answer).unwrap();
                let want = want.map(|want| want.replace('T', tool));
                assert_eq!(answer.is_error(), want.is_some(), "{arguments} {answer:?}");
                let said = want.is_some().then(|| answer.content[0].as_text().unwrap());
                assert_eq!(said, want.as_deref(), "{tool} in {revision}");
            }
        }
    }
}

#[tokio::test]
async fn a_client_checks_the_results_of_tools_that_it_has_listed() {
    let bad = json!({ "result": { "content": [], "structuredContent": { "sum": "3" } } });
    let good = json!({ "result": { "content": [], "structuredContent": { "sum": 3 } } });
    let failed = json!({ "result": { "content": [], "isError": true } });
    for (transport, revision) in EVERY {
        let (_guard, client) = client(transport, revision, ClientOptions::default()).await;
        assert!(call(&client, "free", &bad).await.is_ok(), "it is not listed yet");
        assert_eq!(client.list_tools().await.unwrap().len(), 3);
        assert!(call(&client, "free", &good).await.is_ok());
        assert!(call(&client, "free", &failed).await.is_ok());
        let error = call(&client, "free", &bad).await.unwrap_err();
        let want =
            r#"result of tool 'free' breaks its outputSchema: /sum: "3" is not of type "integer""#;
        assert_eq!(error.to_string(), want);
        let ClientError::OutputSchema { result, .. } = error else { panic!("{error}") };
        assert!(result.get().contains(r#"{"sum":"3"}"#), "the result is there: {result}");
    }
    let options = ClientOptions { check_results: false, ..ClientOptions::default() };
    let (_guard, client) = client(Transport::Http, Revision::V2026_07_28, options).await;
    client.list_tools().await.unwrap();
    assert!(call(&client, "free", &bad).await.is_ok());
}

#[tokio::test]
async fn a_typed_tool_that_breaks_its_schema_says_so() {
    #[derive(serde::Serialize, schemars::JsonSchema)]
    struct Found {
        #[schemars(range(min = 1))]
        count: u32,
    }
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Count {
        count: u32,
    }
    let tools = Toolbox::new("t", "1").tool("count", "", async |arguments: Count, _| {
        Ok::<_, String>(Json(Found { count: arguments.count }))
    });
    let options = ClientOptions::default();
    let server = Server::new(tools);
    let (_guard, client) =
        client_of(&server, Transport::Pipe, Revision::V2026_07_28, options).await;
    assert!(
        call(&client, "count", &json!({ "count": 1 })).await.unwrap().contains(r#"{"count":1}"#)
    );
    let broken = call(&client, "count", &json!({ "count": 0 })).await.unwrap();
    let want =
        "the result of 'count' breaks its outputSchema: /count: 0 is less than the minimum of 1";
    assert!(broken.contains(want), "{broken}");
}

#[test]
fn a_schema_that_is_none_is_found_at_once() {
    let broken = Tool { output_schema: Some(json!({ "type": "nonsense" })), ..tool("t") };
    let error = ToolSchema::of(&broken).unwrap_err();
    assert_eq!((error.member, &*error.tool), ("outputSchema", "t"));
}

async fn client(
    transport: Transport,
    revision: Revision,
    options: ClientOptions,
) -> (tokio_util::sync::DropGuard, Client) {
    let schema = Arc::new(ToolSchema::of(&tool("any")).unwrap());
    client_of(&Server::new(Given { schema }), transport, revision, options).await
}

async fn call(client: &Client, tool: &str, arguments: &Value) -> Result<String, ClientError> {
    let params = CallToolParams::new(tool, arguments).unwrap();
    Ok(client.call_tool_raw(&params, CallOptions::default()).await?.get().to_owned())
}
