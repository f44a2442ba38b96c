//! Handlers that wrap others, and descriptions that depend on the client.

use async_trait::async_trait;
use marquetry_protocol::{
    Revision,
    client::{CallOptions, ClientOptions},
    server::{Handler, Peer, Server, ServerDescription, Toolbox},
    types::{ClientCapabilities, Prompt, Resource},
};
use serde_json::{Value, json, value::to_raw_value};

use crate::support::{Transport, client_of};

/// Changes only its description: it declares the extension "x" to clients that have it.
struct Wrapper(Toolbox);

#[async_trait]
impl Handler for Wrapper {
    fn inner(&self) -> Option<&dyn Handler> {
        Some(&self.0)
    }

    fn describe(&self) -> ServerDescription {
        self.0.describe()
    }

    fn describe_for(&self, client: &ClientCapabilities) -> ServerDescription {
        let mut description = self.describe();
        if client.has_extension("x") {
            description.capabilities.add_extension("x");
        }
        description
    }
}

fn toolbox() -> Toolbox {
    let resource = Resource { uri: "r://a".into(), name: "a".into(), ..Resource::default() };
    let prompt = Prompt { name: "p".into(), ..Prompt::default() };
    Toolbox::new("inner", "1")
        .tool("t", "", async |(): (), _| "answer")
        .resource(resource, async |_| Ok("contents"))
        .prompt(prompt, async |_, _| Ok("prompt".to_owned()))
}

#[tokio::test]
async fn methods_that_are_not_overridden_ask_the_inner_handler() {
    let outer = Server::new(Wrapper(toolbox()));
    let plain = Server::new(toolbox());
    let requests = [
        ("tools/list", json!({})),
        ("tools/call", json!({ "name": "t" })),
        ("tools/call", json!({ "name": "t", "arguments": { "unknown": 1 } })),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", json!({ "uri": "r://a" })),
        ("prompts/list", json!({})),
        ("prompts/get", json!({ "name": "p" })),
        (
            "completion/complete",
            json!({ "ref": { "type": "ref/prompt", "name": "p" }, "argument": { "name": "a", "value": "" } }),
        ),
    ];
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        for (method, params) in &requests {
            let mut answers = Vec::new();
            for server in [&outer, &plain] {
                let options = ClientOptions::default();
                let (_guard, client) = client_of(server, Transport::Pipe, revision, options).await;
                let params = to_raw_value(params).unwrap();
                let answer = client.request(method, Some(&params), CallOptions::default()).await;
                let answer = answer.map(|it| serde_json::from_str::<Value>(it.get()).unwrap());
                answers.push(answer.map_err(|error| error.to_string()));
            }
            assert_eq!(answers[0], answers[1], "{method} in {revision}");
        }
    }
}

#[tokio::test]
async fn a_description_may_depend_on_the_client() {
    let server = Server::new(Wrapper(toolbox()));
    for revision in [Revision::V2024_11_05, Revision::V2025_11_25, Revision::V2026_07_28] {
        for offers in [false, true] {
            let mut options = ClientOptions::default();
            if offers {
                options.capabilities.add_extension("x");
            }
            let (_guard, client) = client_of(&server, Transport::Http, revision, options).await;
            assert_eq!(client.server().capabilities.has_extension("x"), offers, "{revision}");
        }
    }
}

#[tokio::test]
async fn a_direct_call_has_the_capabilities_that_it_is_given() {
    let server = Server::new(Wrapper(toolbox()));
    let call = server.direct_call(Peer::new(None, None)).await.unwrap();
    let mut capabilities = ClientCapabilities::default();
    capabilities.add_extension("x");
    let call = call.with_capabilities(capabilities);
    let has = async |cx: marquetry_protocol::server::RequestContext| {
        Ok::<_, marquetry_protocol::RpcError>((cx.method(), cx.capabilities().has_extension("x")))
    };
    assert_eq!(call.run("tools/call", has).await.unwrap(), ("tools/call", true));
    let params = to_raw_value(&json!({ "name": "t" })).unwrap();
    let answer = call.request("tools/call", Some(&params));
    assert!(answer.await.unwrap().get().get().contains("answer"));
    let error = call
        .run("tools/call", async |_| -> Result<(), marquetry_protocol::RpcError> { panic!("oh") })
        .await
        .unwrap_err();
    assert!(error.message.contains("panicked"), "{error}");
}
