//! Typed methods of the client.

use async_trait::async_trait;
use marquetry_protocol::{
    Revision, RpcError,
    client::{ClientError, ClientOptions, ProtocolError},
    server::{Handler, Reply, RequestContext, Server, ServerDescription},
    types::{
        CallToolParams, CallToolResult, CompleteArgument, CompleteParams, CompleteReference,
        CompleteResult, Completion, GetPromptParams, GetPromptResult, ListChanged, LogLevel,
        ReadResourceParams, ReadResourceResult, ResourceContents, ServerCapabilities,
    },
};
use serde::Deserialize;
use serde_json::json;

use crate::support::{Transport, client_of};

struct Subject;

#[async_trait]
impl Handler for Subject {
    fn describe(&self) -> ServerDescription {
        let mut capabilities = ServerCapabilities::default();
        capabilities.tools = Some(ListChanged::default());
        capabilities.logging = Some(Default::default());
        ServerDescription { capabilities, ..ServerDescription::default() }
    }

    async fn call_tool(
        &self,
        params: CallToolParams,
        _: &RequestContext,
    ) -> Result<Reply, RpcError> {
        let data = json!({ "sum": 3 });
        match &*params.name {
            "data" => CallToolResult::structured(data),
            "json" => CallToolResult::text(data.to_string()),
            "fails" => CallToolResult::error("no such city"),
            _ => CallToolResult::text("plain words"),
        }
        .try_into()
    }

    async fn read_resource(
        &self,
        params: ReadResourceParams,
        _: &RequestContext,
    ) -> Result<Reply, RpcError> {
        let text = Some("contents".to_owned());
        let contents = ResourceContents { uri: params.uri, text, ..Default::default() };
        Reply::json(&ReadResourceResult { contents: vec![contents], meta: None })
    }

    async fn get_prompt(
        &self,
        params: GetPromptParams,
        _: &RequestContext,
    ) -> Result<Reply, RpcError> {
        Reply::json(&json!({ "description": params.name, "messages": [] }))
    }

    async fn complete(
        &self,
        params: CompleteParams,
        _: &RequestContext,
    ) -> Result<CompleteResult, RpcError> {
        let values = vec![format!("{}llo", params.argument.value)];
        Ok(CompleteResult { completion: Completion { values, ..Default::default() } })
    }
}

#[derive(Debug, Deserialize, PartialEq)]
struct Sum {
    sum: i64,
}

#[tokio::test]
async fn results_are_values() {
    for revision in [Revision::LATEST_SESSION, Revision::LATEST] {
        let server = Server::new(Subject);
        let options = ClientOptions::default();
        let (_stop, client) = client_of(&server, Transport::Pipe, revision, options).await;
        for tool in ["data", "json"] {
            let sum: Sum = client.call_tool_as(tool, &json!({})).await.unwrap();
            assert_eq!(sum, Sum { sum: 3 }, "{tool}");
        }
        let text: String = client.call_tool_as("text", &json!({})).await.unwrap();
        assert_eq!(text, "plain words");
        let failed = client.call_tool_as::<Sum>("fails", &json!({})).await.unwrap_err();
        assert!(matches!(failed, ClientError::ToolFailed { .. }), "{failed}");
        assert_eq!(failed.to_string(), "tool 'fails' failed: no such city");
        let unfit = client.call_tool_as::<Sum>("text", &json!({})).await.unwrap_err();
        assert!(
            matches!(unfit, ClientError::Protocol(ProtocolError::ToolAnswer { .. })),
            "{unfit}"
        );

        let read = client.read_resource("test://one").await.unwrap();
        assert_eq!(read.contents[0].text.as_deref(), Some("contents"));
        let params = GetPromptParams { name: "greet".to_owned(), ..Default::default() };
        let prompt: GetPromptResult = client.get_prompt(&params).await.unwrap();
        assert_eq!(prompt.description.as_deref(), Some("greet"));
        let argument = CompleteArgument { name: "who".to_owned(), value: "he".to_owned() };
        let reference = CompleteReference::Prompt { name: "greet".to_owned() };
        let params = CompleteParams { reference, argument, context: None };
        assert_eq!(client.complete(&params).await.unwrap().completion.values, ["hello"]);
        let level = client.set_log_level(LogLevel::Error).await;
        assert_eq!(level.is_ok(), revision == Revision::LATEST_SESSION, "{level:?}");
    }
}
