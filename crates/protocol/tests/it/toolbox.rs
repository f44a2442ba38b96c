//! Tools, resources and prompts written as functions.

use marquetry_protocol::{
    Revision,
    client::{CallOptions, ClientError, ClientOptions},
    error_code,
    server::{Json, RequestContext, Server, Toolbox},
    types::{CallToolParams, GetPromptParams, Prompt, PromptArgument, Resource},
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

struct Greeting(&'static str);

fn greeting(cx: &RequestContext) -> &'static str {
    cx.state::<Greeting>().0
}

#[tokio::test]
async fn functions_reach_the_state_of_their_toolbox() {
    let prompt = Prompt { name: "greet".to_owned(), ..Prompt::default() };
    let resource = Resource {
        uri: "greeting://now".to_owned(),
        name: "greeting".to_owned(),
        ..Resource::default()
    };
    let server = Toolbox::new("t", "1")
        .with_state(1_u64)
        .with_state(Greeting("Good day."))
        .tool("greet", "Greets.", async |(): (), cx| greeting(&cx))
        .tool(
            "missing",
            "Asks for a state that is not there.",
            async |(): (), cx: RequestContext| cx.state::<String>().clone(),
        )
        .resource(resource, async |cx| Ok(greeting(&cx)))
        .prompt(prompt, async |_, cx| Ok(greeting(&cx).to_owned()));
    let server = Server::new(server);
    let (_stop, client) =
        client_of(&server, Transport::Pipe, Revision::LATEST, ClientOptions::default()).await;
    let greeted: String = client.call_tool_as("greet", &json!({})).await.unwrap();
    assert_eq!(greeted, "Good day.");
    let read = client.read_resource("greeting://now").await.unwrap();
    assert_eq!(read.contents[0].text.as_deref(), Some("Good day."));
    let params = GetPromptParams { name: "greet".to_owned(), ..Default::default() };
    let prompt = client.get_prompt(&params).await.unwrap();
    assert_eq!(json!(prompt.messages[0].content)["text"], "Good day.");
    let missing = client.call_tool_as::<String>("missing", &json!({})).await.unwrap_err();
    let ClientError::Rpc(error) = missing else { panic!("{missing}") };
    assert_eq!(error.code, error_code::INTERNAL_ERROR);
}

#[tokio::test]
async fn a_handler_announces_changes() {
    let server = Toolbox::new("t", "1")
        .description(|server| {
            server.capabilities.tools.as_mut().unwrap().list_changed = true;
        })
        .tool("change", "Changes the list.", async |(): (), cx: RequestContext| {
            cx.notifier().tools_changed();
            "changed"
        });
    let server = Server::new(server);
    let session = Revision::LATEST_SESSION;
    let (_stop, client) =
        client_of(&server, Transport::Pipe, session, ClientOptions::default()).await;
    let mut notifications = client.notifications();
    client.call_tool_as::<String>("change", &json!({})).await.unwrap();
    let told = tokio::time::timeout(std::time::Duration::from_secs(5), notifications.recv()).await;
    assert_eq!(&*told.unwrap().unwrap().method, "notifications/tools/list_changed");
}

#[derive(Debug, PartialEq, serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
struct Node {
    name: String,
    children: Vec<Self>,
}

#[derive(serde::Serialize, schemars::JsonSchema)]
#[serde(tag = "kind")]
enum Shape {
    Circle { radius: f64 },
    Square { side: f64 },
}

fn forest() -> Vec<Node> {
    vec![Node { name: "a".to_owned(), children: Vec::new() }]
}

#[tokio::test]
async fn lists_keep_their_structure_in_every_revision_with_data() {
    let server = Toolbox::new("t", "1")
        .tool("forest", "", async |(): (), _| Json(forest()))
        .tool("shape", "", async |(): (), cx: RequestContext| {
            let is_round = cx.method() == "tools/call";
            Json(if is_round { Shape::Circle { radius: 1.0 } } else { Shape::Square { side: 1.0 } })
        })
        .tool("none", "", async |(): (), _| Json(None::<u8>));
    let server = Server::new(server);
    for revision in [Revision::V2025_06_18, Revision::V2025_11_25, Revision::V2026_07_28] {
        let (_stop, client) =
            client_of(&server, Transport::Pipe, revision, ClientOptions::default()).await;
        let tools = client.list_tools().await.unwrap();
        let schema_of = |name: &str| {
            let tool = tools.iter().find(|tool| tool.name == name).unwrap();
            tool.output_schema.clone().unwrap_or_else(|| panic!("{name} in {revision}"))
        };
        let wraps = revision < Revision::V2026_07_28;
        assert_eq!(schema_of("shape")["type"], "object");
        assert_eq!(schema_of("forest")["type"], if wraps { "object" } else { "array" });
        let call = CallToolParams::new("forest", &json!({})).unwrap();
        // The client checks the result against the schema.
        let answer = client.call_tool_raw(&call, CallOptions::default()).await.unwrap();
        let answer: serde_json::Value = serde_json::from_str(answer.get()).unwrap();
        let data = &answer["structuredContent"];
        let data = if wraps { &data["result"] } else { data };
        assert_eq!(*data, json!([{ "name": "a", "children": [] }]), "{revision}: {answer}");
        assert_eq!(answer["content"][0]["text"], r#"[{"name":"a","children":[]}]"#);
        let typed: Vec<Node> = client.call_tool_as("forest", &json!({})).await.unwrap();
        assert_eq!(typed, forest());
        let none: Option<u8> = client.call_tool_as("none", &json!({})).await.unwrap();
        assert_eq!(none, None, "{revision}");
        let shape: serde_json::Value = client.call_tool_as("shape", &json!({})).await.unwrap();
        assert_eq!(shape, json!({ "kind": "Circle", "radius": 1.0 }));
    }
}
