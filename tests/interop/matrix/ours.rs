//! Our client with official servers: those in `servers/`.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use base64::{Engine, engine::general_purpose::STANDARD};
use marquetry_protocol::{
    Era, Feature, Revision, RpcError,
    client::{
        CallOptions, Client, ClientError, ClientHandler, ClientOptions, HttpTarget, RevisionChoice,
        ServerNotification, Stderr, StdioCommand,
    },
    types::{
        CallToolParams, ClientCapabilities, CreateMessageParams, CreateMessageResult, ElicitAction,
        ElicitParams, ElicitResult, ListRootsResult, LogLevel, Role, Root, SamplingContent,
    },
};
use serde_json::{Value, json, value::to_raw_value};
use tokio::{process::Command, sync::broadcast, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{FEATURES, Outcome, Row, Sdk, Transport, theirs::serve};

const TEXT: &str = "Grüße, 世界 🌍";

/// Returns the revisions that the server supports over the transport; none if it lacks the
/// transport.
fn revisions(sdk: Sdk, transport: Transport) -> Vec<Revision> {
    if (sdk, transport) == (Sdk::TypeScript2, Transport::Sse) {
        // This server no longer has HTTP+SSE.
        return Vec::new();
    }
    let known = |revision: &Revision| match revision {
        Revision::V2026_07_28 => sdk.knows_stateless() && transport != Transport::Sse,
        // Both TypeScript servers still support the first revision.
        Revision::V2024_10_07 => matches!(sdk, Sdk::TypeScript1 | Sdk::TypeScript2),
        _ => true,
    };
    Revision::ALL.into_iter().filter(known).collect()
}

const NOT_IN_REVISION: &str = "neither the revision nor the server has it";

/// Returns why the server lacks a feature, or [`None`] if it has it.
fn absent(sdk: Sdk, revision: Revision, feature: &str) -> Option<&'static str> {
    let needed = match feature {
        "structured" => Some(Feature::StructuredContent),
        "elicit" => Some(Feature::Elicitation),
        "roots" => Some(Feature::Roots),
        "tools" | "binary" | "tool error" | "cancel" => Some(Feature::ContentList),
        _ => None,
    };
    if needed.is_some_and(|needed| !revision.has(needed)) {
        return Some(NOT_IN_REVISION);
    }
    match (sdk, feature, revision.era()) {
        (Sdk::Python, "updates", Era::Session) => {
            Some("MCPServer of the Python SDK does not know resources/subscribe")
        }
        _ => None,
    }
}

pub(super) async fn rows(sdk: Sdk, transport: Transport) -> Vec<Row> {
    let revisions = revisions(sdk, transport);
    let (program, script) = sdk.command("server");
    let (mut url, mut _server) = (None, None);
    if transport != Transport::Stdio && !revisions.is_empty() {
        let mut command = Command::new(&program);
        command.arg(&script);
        match serve(command, transport).await {
            Ok((at, server)) => (url, _server) = (Some(at), Some(server)),
            Err(problem) => url = Some(problem),
        }
    }
    let mut rows = Vec::new();
    for revision in revisions {
        let options = ClientOptions {
            handler: Arc::new(Person),
            capabilities: capabilities(),
            revision: RevisionChoice::Only(revision),
            // An interpreter may start slowly on a busy machine.
            probe_timeout: Duration::from_secs(30),
            request_timeout: Duration::from_secs(10),
            ..ClientOptions::default()
        };
        let connecting = async {
            if let Some(url) = &url {
                let target = HttpTarget { url: url.clone(), ..HttpTarget::default() };
                Client::http(target, options).await
            } else {
                let args = [script.to_string_lossy().into_owned(), "stdio".to_owned()];
                let command = StdioCommand {
                    stderr: Stderr::Discard,
                    ..StdioCommand::new(program.to_string_lossy(), args)
                };
                Client::spawn(command, options).await
            }
        };
        let mut features = BTreeMap::new();
        match timeout(Duration::from_secs(30), connecting).await {
            Ok(Ok(client)) => {
                for feature in FEATURES {
                    let done = timeout(Duration::from_secs(15), check(&client, feature)).await;
                    let done = done.unwrap_or_else(|_| Err("it did not end".to_owned()));
                    let outcome = match (absent(sdk, revision, feature), done) {
                        (None, Ok(())) => Outcome::Works,
                        (None, Err(problem)) => Outcome::Failed(problem),
                        (Some(why), Err(_)) => Outcome::Absent(why.to_owned()),
                        // Many servers offer features of newer revisions to older clients, too.
                        (Some(why), Ok(())) if why == NOT_IN_REVISION => Outcome::Works,
                        (Some(why), Ok(())) => {
                            Outcome::Failed(format!("it works now, but the table says: {why}"))
                        }
                    };
                    features.insert(feature.to_owned(), outcome);
                }
                client.close().await;
            }
            Ok(Err(error)) => {
                features.insert("tools".to_owned(), Outcome::Failed(error.to_string()));
            }
            Err(_) => {
                let problem = Outcome::Failed("no connection within 30 s".to_owned());
                features.insert("tools".to_owned(), problem);
            }
        }
        let pair = format!("Marquetry → {}", sdk.name());
        rows.push(Row { pair, transport, revision, features });
    }
    rows
}

fn capabilities() -> ClientCapabilities {
    let offered = json!({ "elicitation": {}, "sampling": {}, "roots": { "listChanged": true } });
    serde_json::from_value(offered).expect("valid capabilities")
}

/// Answers the server's requests.
struct Person;

#[async_trait]
impl ClientHandler for Person {
    async fn elicit(&self, _: ElicitParams) -> Result<ElicitResult, RpcError> {
        let content = json!({ "name": "Zoë" }).as_object().cloned();
        Ok(ElicitResult { action: ElicitAction::Accept, content })
    }

    async fn sample(&self, _: CreateMessageParams) -> Result<CreateMessageResult, RpcError> {
        Ok(CreateMessageResult {
            role: Role::Assistant,
            content: vec![SamplingContent::text("Paris 🗼")],
            model: "test".to_owned(),
            stop_reason: Some("endTurn".to_owned()),
        })
    }

    async fn roots(&self) -> Result<ListRootsResult, RpcError> {
        let root = Root { uri: "file:///home/zo%C3%AB".to_owned(), name: None };
        Ok(ListRootsResult { roots: vec![root] })
    }
}

async fn check(client: &Client, feature: &str) -> Result<(), String> {
    match feature {
        "tools" => {
            let tools = client.list_tools().await.map_err(text_of_error)?;
            let echo = tools.iter().find(|tool| tool.name == "echo").ok_or("no tool 'echo'")?;
            same(&json!(echo.description), json!(format!("echo: {TEXT}")))
        }
        "structured" => {
            let result = call(client, "echo", json!({ "text": TEXT })).await?;
            same(&result["content"][0]["text"], json!(TEXT))?;
            same(&result["structuredContent"], json!({ "text": TEXT }))
        }
        "tool error" => {
            let result = call(client, "fail", json!({})).await?;
            same(&result["isError"], json!(true))?;
            same(&result["content"][0]["text"], json!("es geht nicht"))
        }
        "binary" => {
            let bytes = STANDARD.encode((0..=255).collect::<Vec<u8>>());
            let picture = call(client, "picture", json!({})).await?;
            same(&picture["content"][0]["data"], json!(bytes))?;
            same(&read(client, "test://blob").await?["blob"], json!(bytes))
        }
        "resources" => {
            let resources = client.list_resources().await.map_err(text_of_error)?;
            let mut uris: Vec<_> = resources.into_iter().map(|resource| resource.uri).collect();
            uris.sort();
            same(&json!(uris), json!(["test://blob", "test://text", "test://watched"]))?;
            same(&read(client, "test://text").await?["text"], json!(TEXT))
        }
        "templates" => {
            let templates = client.list_resource_templates().await.map_err(text_of_error)?;
            let uris: Vec<_> = templates.into_iter().map(|it| it.uri_template).collect();
            same(&json!(uris), json!(["test://items/{id}"]))?;
            same(&read(client, "test://items/7").await?["text"], json!("items/7"))
        }
        "prompts" => {
            let prompts = client.list_prompts().await.map_err(text_of_error)?;
            same(&json!(prompts.first().map(|prompt| &prompt.name)), json!("greet"))?;
            let params = json!({ "name": "greet", "arguments": { "name": "Zoë" } });
            let prompt = request(client, "prompts/get", params).await?;
            same(&prompt["messages"][0]["content"]["text"], json!("Hallo Zoë"))
        }
        "complete" => {
            let params = json!({
                "ref": { "type": "ref/prompt", "name": "greet" },
                "argument": { "name": "name", "value": "Zo" },
            });
            let result = request(client, "completion/complete", params).await?;
            same(&result["completion"]["values"], json!(["Zoë", "Zoltán"]))
        }
        "progress" => {
            let (sender, mut told) = tokio::sync::mpsc::channel(8);
            let options = CallOptions { progress: Some(sender), ..CallOptions::default() };
            call_with(client, "steps", json!({}), options).await?;
            let mut steps = Vec::new();
            while let Ok(step) = told.try_recv() {
                steps.push((step.progress, step.total, step.message));
            }
            let want = [(1, "eins"), (2, "zwei"), (3, "drei")]
                .map(|(step, name)| (f64::from(step), Some(3.0), Some(name.to_owned())));
            if steps == want { Ok(()) } else { Err(format!("{steps:?}")) }
        }
        "elicit" => same(&tool_text(client, "ask").await?, json!("Hallo Zoë")),
        "sample" => same(&tool_text(client, "think").await?, json!("Paris 🗼")),
        "roots" => same(&tool_text(client, "places").await?, json!("file:///home/zo%C3%AB")),
        "log" => {
            let notifications = client.notifications();
            if client.server().revision.era() == Era::Session {
                // MCPServer of the Python SDK logs, but has no `logging/setLevel`.
                _ = request(client, "logging/setLevel", json!({ "level": "debug" })).await;
            }
            let options =
                CallOptions { log_level: Some(LogLevel::Debug), ..CallOptions::default() };
            call_with(client, "log", json!({}), options).await?;
            let params = heard(notifications, "notifications/message").await?;
            same(&params["level"], json!("warning"))?;
            same(&params["data"], json!("grüß dich"))
        }
        "cancel" => {
            let count = async || -> Result<u32, String> {
                let text = tool_text(client, "given_up").await?;
                text.as_str().and_then(|it| it.parse().ok()).ok_or_else(|| text.to_string())
            };
            let before = count().await?;
            let cancel = CancellationToken::new();
            let options = CallOptions { cancel: Some(cancel.clone()), ..CallOptions::default() };
            let params = CallToolParams::new("wait", &json!({})).map_err(|it| it.to_string())?;
            let (outcome, ()) = tokio::join!(client.call_tool_raw(&params, options), async {
                tokio::time::sleep(Duration::from_millis(300)).await;
                cancel.cancel();
            });
            if !matches!(outcome, Err(ClientError::Cancelled)) {
                return Err(format!("{outcome:?}"));
            }
            for _ in 0..50 {
                if count().await? > before {
                    return Ok(());
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err("the server does not know".to_owned())
        }
        "updates" => {
            let notifications = client.notifications();
            client.subscribe("test://watched").await.map_err(text_of_error)?;
            tool_text(client, "touch").await?;
            let params = heard(notifications, "notifications/resources/updated").await?;
            same(&params["uri"], json!("test://watched"))
        }
        other => Err(format!("no check for the feature {other}")),
    }
}

async fn call(client: &Client, tool: &str, arguments: Value) -> Result<Value, String> {
    call_with(client, tool, arguments, CallOptions::default()).await
}

async fn call_with(
    client: &Client,
    tool: &str,
    arguments: Value,
    options: CallOptions,
) -> Result<Value, String> {
    let params = CallToolParams::new(tool, &arguments).map_err(|error| error.to_string())?;
    let result = client.call_tool_raw(&params, options).await.map_err(text_of_error)?;
    serde_json::from_str(result.get()).map_err(|error| error.to_string())
}

/// Returns the text of a tool's answer.
async fn tool_text(client: &Client, tool: &str) -> Result<Value, String> {
    Ok(call(client, tool, json!({})).await?["content"][0]["text"].take())
}

async fn read(client: &Client, uri: &str) -> Result<Value, String> {
    Ok(request(client, "resources/read", json!({ "uri": uri })).await?["contents"][0].take())
}

async fn request(client: &Client, method: &str, params: Value) -> Result<Value, String> {
    let params = to_raw_value(&params).map_err(|error| error.to_string())?;
    let result = client.request(method, Some(&params), CallOptions::default()).await;
    serde_json::from_str(result.map_err(text_of_error)?.get()).map_err(|error| error.to_string())
}

async fn heard(
    mut notifications: broadcast::Receiver<ServerNotification>,
    method: &str,
) -> Result<Value, String> {
    let wait = async {
        loop {
            let heard = notifications.recv().await.map_err(|error| error.to_string())?;
            if &*heard.method == method {
                let params = heard.params.as_deref().map_or("null", |params| params.get());
                return serde_json::from_str(params).map_err(|error| error.to_string());
            }
        }
    };
    timeout(Duration::from_secs(5), wait).await.unwrap_or_else(|_| Err(format!("no {method}")))
}

fn same(got: &Value, want: Value) -> Result<(), String> {
    if *got == want { Ok(()) } else { Err(format!("{got} is not {want}")) }
}

#[expect(clippy::needless_pass_by_value, reason = "map_err gives it")]
fn text_of_error(error: ClientError) -> String {
    error.to_string()
}
