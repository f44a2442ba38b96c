//! Tools, resources and prompts written as functions.

use marquetry_protocol::{
    Revision,
    client::{ClientError, ClientOptions},
    error_code,
    server::{Server, Toolbox},
    types::{GetPromptParams, Prompt, PromptArgument, Resource},
};
use serde_json::json;

use crate::support::{Transport, client_of};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

#[tokio::test]
async fn a_server_of_functions() {
    let who = PromptArgument { name: "who".to_owned(), required: true, ..Default::default() };
    let prompt = Prompt { name: "greet".to_owned(), arguments: vec![who], ..Default::default() };
    let resource = Resource {
        uri: "motd://today".to_owned(),
        name: "motd".to_owned(),
        mime_type: Some("text/plain".to_owned()),
        ..Resource::default()
    };
    let server = Toolbox::new("t", "1")
        .tool("add", "Adds.", async |add: Add, _| (add.a + add.b).to_string())
        .resource(resource, async |_| Ok("Hello."))
        .prompt(prompt, async |arguments, _| Ok(format!("Greet {}.", arguments["who"])));
    let (_stop, client) = client_of(
        &Server::new(server),
        Transport::Pipe,
        Revision::LATEST,
        ClientOptions::default(),
    )
    .await;

    let sum: i64 = client.call_tool_as("add", &json!({ "a": 1, "b": 2 })).await.unwrap();
    assert_eq!(sum, 3);

    assert_eq!(client.list_resources().await.unwrap()[0].name, "motd");
    let read = client.read_resource("motd://today").await.unwrap().contents.remove(0);
    let read = (&*read.uri, read.mime_type.as_deref(), read.text.as_deref());
    assert_eq!(read, ("motd://today", Some("text/plain"), Some("Hello.")));
    let missing = client.read_resource("motd://tomorrow").await.unwrap_err();
    assert!(matches!(&missing, ClientError::Rpc(_)), "{missing}");

    assert_eq!(client.list_prompts().await.unwrap()[0].name, "greet");
    let mut params = GetPromptParams { name: "greet".to_owned(), ..Default::default() };
    let refused = client.get_prompt(&params).await.unwrap_err();
    let ClientError::Rpc(refused) = refused else { panic!("{refused}") };
    assert_eq!(refused.code, error_code::INVALID_PARAMS);
    assert_eq!(refused.message, "argument 'who' of prompt 'greet' is missing");
    params.arguments = json!({ "who": "Ann" }).as_object().cloned();
    let prompt = client.get_prompt(&params).await.unwrap();
    assert_eq!(json!(prompt.messages[0].content)["text"], "Greet \"Ann\".");
}

#[tokio::test]
async fn a_server_without_resources_and_prompts_says_so() {
    let server = Toolbox::new("t", "1").tool("add", "Adds.", async |add: Add, _| add.a.to_string());
    let (_stop, client) = client_of(
        &Server::new(server),
        Transport::Pipe,
        Revision::LATEST,
        ClientOptions::default(),
    )
    .await;
    for refused in [
        client.list_resources().await.map(|_| ()),
        client.read_resource("motd://today").await.map(|_| ()),
        client.list_prompts().await.map(|_| ()),
    ] {
        let Err(ClientError::Rpc(error)) = refused else { panic!("{refused:?}") };
        assert_eq!(error.code, error_code::METHOD_NOT_FOUND);
    }
}
