//! Requests of upstreams for a message of a model, which the server's own model answers for agents
//! that offer none.

use std::sync::Arc;

use async_trait::async_trait;
use marquetry_llm::{ProviderAnswer, ScriptedProvider};
use marquetry_protocol::{
    Revision, RpcError,
    client::{Client, ClientHandler, ClientOptions},
    types::{
        ClientCapabilities, CreateMessageParams, CreateMessageResult, ElicitAction, ElicitParams,
        ElicitResult, ListRootsResult, Role, Root, SamplingContent,
    },
};
use serde_json::{Value, json};

use crate::{
    asking::{AskingOverHttp, child_toml},
    support::{Running, call, text_of},
};

const AGENTS: [Revision; 3] = [Revision::V2025_06_18, Revision::V2025_11_25, Revision::V2026_07_28];
const UPSTREAMS: [&str; 4] = ["pipe_session", "pipe_stateless", "web_session", "web_stateless"];

/// A server with a model and one upstream of each kind, which may ask it.
struct World {
    server: Running,
    provider: ScriptedProvider,
    _web: [AskingOverHttp; 2],
}

impl World {
    async fn start(may_sample: bool) -> Self {
        let provider = ScriptedProvider::start([]).await.unwrap();
        let model = format!(
            "[knowledge.chat]\nprovider = 'custom'\nmodel = 'm'\nbase_url = '{}'\nretries = 0\n",
            provider.base_url()
        );
        let web = [AskingOverHttp::start().await, AskingOverHttp::start().await];
        let may = if may_sample { "sampling = true\n" } else { "" };
        let toml = [
            child_toml("pipe_session", "2025-11-25"),
            child_toml("pipe_stateless", "2026-07-28"),
            web[0].toml("web_session", "2025-11-25"),
            web[1].toml("web_stateless", "2026-07-28"),
        ];
        let toml = toml.map(|server| format!("{server}{may}")).concat();
        let server = Running::start(&format!("{model}{toml}")).await;
        Self { server, provider, _web: web }
    }

    async fn agent(&self, revision: Revision, capabilities: Value) -> Client {
        let options = ClientOptions {
            capabilities: serde_json::from_value::<ClientCapabilities>(capabilities).unwrap(),
            handler: Arc::new(Person),
            ..ClientOptions::default()
        };
        self.server.agent_with(revision, options).await
    }
}

/// Answers every question; its own model says "mine".
struct Person;

#[async_trait]
impl ClientHandler for Person {
    async fn elicit(&self, _: ElicitParams) -> Result<ElicitResult, RpcError> {
        Ok(ElicitResult { action: ElicitAction::Accept, content: None })
    }

    async fn sample(&self, _: CreateMessageParams) -> Result<CreateMessageResult, RpcError> {
        let content = vec![SamplingContent::text("mine")];
        Ok(CreateMessageResult {
            role: Role::Assistant,
            content,
            model: "m".into(),
            stop_reason: None,
        })
    }

    async fn roots(&self) -> Result<ListRootsResult, RpcError> {
        Ok(ListRootsResult { roots: vec![Root { uri: "file:///here".to_owned(), name: None }] })
    }
}

#[tokio::test]
async fn the_model_of_the_server_answers_for_agents_without_one() {
    let world = World::start(true).await;
    for revision in AGENTS {
        for upstream in UPSTREAMS {
            let agent = world.agent(revision, json!({})).await;
            world.provider.push(ProviderAnswer::text("<think>hm</think>this one"));
            let said = text_of(&agent, &format!("{upstream}__tools"), json!({})).await;
            assert_eq!(said, "this one", "{revision} {upstream}");
            let requests = world.provider.requests();
            let body = &requests.last().unwrap().body;
            assert_eq!(body["messages"][0], json!({"role": "user", "content": "which?"}));
            assert_eq!(body["tools"][0]["function"]["name"], "t");
            agent.close().await;
        }
    }
    assert_eq!(world.provider.requests().len(), AGENTS.len() * UPSTREAMS.len());
    world.server.stop().await;
}

#[tokio::test]
async fn other_questions_of_the_same_call_still_reach_the_agent() {
    let world = World::start(true).await;
    let offers = json!({ "elicitation": { "form": {} }, "roots": {} });
    for revision in AGENTS {
        for upstream in UPSTREAMS {
            let agent = world.agent(revision, offers.clone()).await;
            // The call of a stateless agent may be sent again with the answers so far.
            for _ in 0..3 {
                world.provider.push(ProviderAnswer::text("theirs"));
            }
            let said = text_of(&agent, &format!("{upstream}__all"), json!({})).await;
            assert_eq!(said, r#"[null,"theirs","file:///here",null]"#, "{revision} {upstream}");
            agent.close().await;
        }
    }
    world.server.stop().await;
}

#[tokio::test]
async fn an_agent_with_a_model_is_asked_itself() {
    let world = World::start(true).await;
    for revision in AGENTS {
        for upstream in UPSTREAMS {
            let agent = world.agent(revision, json!({ "sampling": { "tools": {} } })).await;
            let said = text_of(&agent, &format!("{upstream}__tools"), json!({})).await;
            assert_eq!(said, "mine", "{revision} {upstream}");
            agent.close().await;
        }
    }
    assert!(world.provider.requests().is_empty());
    world.server.stop().await;
}

#[tokio::test]
async fn without_the_setting_no_upstream_reaches_the_model() {
    let world = World::start(false).await;
    for revision in AGENTS {
        for upstream in UPSTREAMS {
            let agent = world.agent(revision, json!({})).await;
            let outcome = call(&agent, &format!("{upstream}__tools"), json!({})).await;
            let failed = outcome.map_or(true, |result| result["isError"] == true);
            assert!(failed, "{revision} {upstream}");
            agent.close().await;
        }
    }
    assert!(world.provider.requests().is_empty());
    world.server.stop().await;
}

#[tokio::test]
async fn a_model_that_fails_is_an_error_for_the_upstream() {
    let world = World::start(true).await;
    let agent = world.agent(Revision::V2025_11_25, json!({})).await;
    world.provider.push(ProviderAnswer::error(401, [], "no"));
    let failed = call(&agent, "web_session__tools", json!({})).await.unwrap();
    let text = failed["content"][0]["text"].as_str().unwrap();
    assert!(failed["isError"] == true && text.contains("the model gave no answer"), "{failed}");
    agent.close().await;
    world.server.stop().await;
}

#[test]
fn a_server_that_may_ask_needs_a_model() {
    let toml = "[mcp_servers.a]\ncommand = 'x'\nsampling = true\n";
    let error =
        marquetry::Config::from_toml(toml, "m.toml").unwrap().check().unwrap_err().to_string();
    assert!(
        error.contains("mcp_servers.a.sampling") && error.contains("[knowledge.chat]"),
        "{error}"
    );
}
