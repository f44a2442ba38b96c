//! A server that asks its client: as a request in a session, as a result without one.

use std::sync::Arc;

use async_trait::async_trait;
use marquetry_protocol::{
    Revision, RpcError,
    client::{CallOptions, Client, ClientError, ClientHandler, ClientOptions},
    error_code,
    types::{
        CallToolParams, ClientCapabilities, CreateMessageParams, CreateMessageResult, ElicitAction,
        ElicitParams, ElicitResult, JsonObject, ListRootsResult, Role, Root,
    },
};
use serde_json::{Value, json, value::RawValue};

use crate::support::{Transport, World, connected, connected_with, soon};

/// Answers with the question.
struct Echoes;

#[async_trait]
impl ClientHandler for Echoes {
    async fn elicit(&self, params: ElicitParams) -> Result<ElicitResult, RpcError> {
        let content = JsonObject::from_iter([("asked".to_owned(), Value::String(params.message))]);
        Ok(ElicitResult { action: ElicitAction::Accept, content: Some(content) })
    }

    async fn sample(&self, params: CreateMessageParams) -> Result<CreateMessageResult, RpcError> {
        let content = params.messages[0].content.clone();
        Ok(CreateMessageResult {
            role: Role::Assistant,
            content,
            model: "m".to_owned(),
            stop_reason: None,
        })
    }

    async fn roots(&self) -> Result<ListRootsResult, RpcError> {
        Ok(ListRootsResult { roots: vec![Root { uri: "file:///a".to_owned(), name: None }] })
    }
}

const EVERY: [(Transport, Revision); 5] = [
    (Transport::Sse, Revision::V2025_06_18),
    (Transport::Pipe, Revision::V2025_11_25),
    (Transport::Pipe, Revision::V2026_07_28),
    (Transport::Http, Revision::V2025_11_25),
    (Transport::Http, Revision::V2026_07_28),
];

#[tokio::test]
async fn questions_are_answered_whichever_way_they_come() {
    for (transport, revision) in EVERY {
        let (_world, client) = with_echoes(transport, revision).await;
        let answer = soon("an answer", call(&client, "ask")).await.unwrap();
        let said = answer["content"][0]["text"].as_str().unwrap();
        assert_eq!(
            said, r#"[{"asked":"name?"},"which?","file:///a","accept"]"#,
            "{transport:?} {revision}"
        );
    }
}

#[tokio::test]
async fn clients_without_the_capability_are_not_asked() {
    for (transport, revision) in EVERY {
        let (_world, client) = connected(transport, revision).await;
        let Err(ClientError::Rpc(error)) = call(&client, "ask").await else { panic!("no error") };
        let stateless = revision == Revision::V2026_07_28;
        let code =
            if stateless { error_code::MISSING_CAPABILITY } else { error_code::INVALID_REQUEST };
        assert_eq!(error.code, code, "{transport:?} {revision}");
        if stateless {
            assert_eq!(error.data.unwrap().get(), r#"{"requiredCapabilities":{"elicitation":{}}}"#);
        }
    }
}

#[tokio::test]
async fn a_question_that_the_client_refuses_is_an_error() {
    struct Refuses;
    impl ClientHandler for Refuses {}
    for (transport, revision) in EVERY {
        let options = ClientOptions {
            capabilities: everything(),
            handler: Arc::new(Refuses),
            ..ClientOptions::default()
        };
        let (_world, client) = connected_with(transport, revision, options).await;
        let error = soon("an error", call(&client, "ask")).await.unwrap_err().to_string();
        assert!(error.contains("not found"), "{transport:?} {revision}: {error}");
    }
}

#[tokio::test]
async fn log_messages_come_from_the_wanted_level_on() {
    for transport in [Transport::Pipe, Transport::Http] {
        let (_world, client) = connected(transport, Revision::V2025_11_25).await;
        assert_eq!(logged(&client).await, ["info", "error"]);
        let level = serde_json::value::to_raw_value(&json!({ "level": "error" })).unwrap();
        client.request("logging/setLevel", Some(&level), CallOptions::default()).await.unwrap();
        assert_eq!(logged(&client).await, ["error"]);
        // Without a level in its _meta a stateless request wants none.
        let (_world, client) = connected(transport, Revision::V2026_07_28).await;
        assert_eq!(logged(&client).await, [""; 0]);
    }
}

#[tokio::test]
async fn changes_of_a_resource_reach_its_subscribers() {
    for transport in [Transport::Pipe, Transport::Http] {
        let (mut world, client) = connected(transport, Revision::V2025_11_25).await;
        let mut notifications = client.notifications();
        let uri = |uri: &str| serde_json::value::to_raw_value(&json!({ "uri": uri })).unwrap();
        let (one, two) = (uri("test://one"), uri("test://two"));
        assert!(
            client
                .request("resources/subscribe", Some(&two), CallOptions::default())
                .await
                .is_err()
        );
        client.request("resources/subscribe", Some(&one), CallOptions::default()).await.unwrap();
        world.server.notifier().resource_updated("test://two");
        world.server.notifier().resource_updated("test://one");
        let told = soon("the update", notifications.recv()).await.unwrap();
        assert_eq!(&*told.method, "notifications/resources/updated");
        assert_eq!(told.params.unwrap().get(), one.get());
        client.request("resources/unsubscribe", Some(&one), CallOptions::default()).await.unwrap();
        soon("the handler", world.cancelled.recv()).await.unwrap();

        // A client that goes away is no longer subscribed.
        client.request("resources/subscribe", Some(&one), CallOptions::default()).await.unwrap();
        client.close().await;
        soon("the handler", world.cancelled.recv()).await.unwrap();
    }
}

#[tokio::test]
async fn subscribing_is_the_same_in_both_eras() {
    for (transport, revision) in EVERY {
        let (mut world, client) = connected(transport, revision).await;
        let mut notifications = client.notifications();
        let refused = soon("a refusal", client.subscribe("test://two")).await.unwrap_err();
        assert!(matches!(refused, ClientError::Rpc(_)), "{transport:?} {revision}: {refused}");
        soon("an agreement", client.subscribe("test://one")).await.unwrap();
        world.server.notifier().resource_updated("test://one");
        let told = async {
            loop {
                let told = notifications.recv().await.unwrap();
                if &*told.method == "notifications/resources/updated" {
                    break told;
                }
            }
        };
        let told = soon("the update", told).await;
        assert!(told.params.unwrap().get().contains("test://one"), "{transport:?} {revision}");
        soon("the end", client.unsubscribe("test://one")).await.unwrap();
        soon("the handler", world.cancelled.recv()).await.unwrap();
    }
}

#[tokio::test]
async fn a_question_that_is_taken_back_is_asked_no_more() {
    struct Waits(tokio::sync::mpsc::UnboundedSender<&'static str>);
    struct Told(tokio::sync::mpsc::UnboundedSender<&'static str>);
    impl Drop for Told {
        fn drop(&mut self) {
            _ = self.0.send("dropped");
        }
    }
    #[async_trait]
    impl ClientHandler for Waits {
        async fn request(
            &self,
            method: &str,
            _: Option<&RawValue>,
        ) -> Result<Box<RawValue>, RpcError> {
            if method == "elicitation/create" {
                let _told = Told(self.0.clone());
                _ = self.0.send("asked");
                std::future::pending::<()>().await;
            }
            std::future::pending().await
        }
    }
    for (transport, revision) in EVERY {
        let (sender, mut told) = tokio::sync::mpsc::unbounded_channel();
        let options = ClientOptions {
            capabilities: everything(),
            handler: Arc::new(Waits(sender)),
            ..ClientOptions::default()
        };
        let (_world, client) = connected_with(transport, revision, options).await;
        let params = CallToolParams::new("ask", &json!({})).unwrap();
        tokio::select! {
            answer = client.call_tool_raw(&params, CallOptions::default()) => panic!("{answer:?}"),
            asked = soon("the question", told.recv()) => assert_eq!(asked, Some("asked")),
        }
        // The call is cancelled with its future, and with the call the server's question.
        assert_eq!(soon("its end", told.recv()).await, Some("dropped"), "{transport:?} {revision}");
    }
}

async fn logged(client: &Client) -> Vec<String> {
    let mut notifications = client.notifications();
    call(client, "log").await.unwrap();
    let mut levels = Vec::new();
    while let Ok(told) = notifications.try_recv() {
        if &*told.method == "notifications/message" {
            let params: Value = serde_json::from_str(told.params.unwrap().get()).unwrap();
            assert_eq!(params["logger"], "test");
            levels.push(params["level"].as_str().unwrap().to_owned());
        }
    }
    levels
}

async fn with_echoes(transport: Transport, revision: Revision) -> (World, Client) {
    let options = ClientOptions {
        capabilities: everything(),
        handler: Arc::new(Echoes),
        ..ClientOptions::default()
    };
    connected_with(transport, revision, options).await
}

fn everything() -> ClientCapabilities {
    let all = json!({ "elicitation": {}, "sampling": {}, "roots": {} });
    serde_json::from_value(all).unwrap()
}

async fn call(client: &Client, tool: &str) -> Result<Value, ClientError> {
    let params = CallToolParams::new(tool, &json!({})).unwrap();
    let answer = client.call_tool_raw(&params, CallOptions::default()).await?;
    Ok(serde_json::from_str(answer.get()).unwrap())
}
