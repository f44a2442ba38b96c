//! Agents and upstreams of different revisions: questions and notifications of an upstream reach
//! the agent whose call caused them.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use marquetry_protocol::{
    Revision, RpcError,
    client::{
        CallOptions, Client, ClientError, ClientHandler, ClientOptions, HttpTarget, RevisionChoice,
        ServerNotification,
    },
    types::{
        CallToolParams, ClientCapabilities, CreateMessageParams, CreateMessageResult, ElicitAction,
        ElicitParams, ElicitResult, ListRootsResult, Role, Root,
    },
};
use serde_json::{Value, json, value::to_raw_value};
use tokio::sync::mpsc;

use crate::{
    asking::{AskingOverHttp, child_toml},
    support::{Running, ask, call, rpc_error, text_of, token_of, until, users_toml, within},
};

const AGENTS: [Revision; 3] = [Revision::V2025_06_18, Revision::V2025_11_25, Revision::V2026_07_28];
const SESSION: &str = "2025-11-25";
const STATELESS: &str = "2026-07-28";

/// Each kind of upstream, by name: over pipes and HTTP, with sessions and without.
const UPSTREAMS: [&str; 4] = ["pipe_session", "pipe_stateless", "web_session", "web_stateless"];

/// A server with one upstream of each kind.
struct World {
    server: Running,
    web: [AskingOverHttp; 2],
}

impl World {
    async fn start() -> Self {
        Self::with("").await
    }

    async fn with(head: &str) -> Self {
        let web = [AskingOverHttp::start().await, AskingOverHttp::start().await];
        let toml = [
            head.to_owned(),
            child_toml("pipe_session", SESSION),
            child_toml("pipe_stateless", STATELESS),
            web[0].toml("web_session", SESSION),
            web[1].toml("web_stateless", STATELESS),
        ];
        Self { server: Running::start(&toml.concat()).await, web }
    }

    async fn person(&self, revision: Revision, name: &str) -> (Client, Arc<Person>) {
        let person = Arc::new(Person::new(name));
        let options = ClientOptions {
            capabilities: everything(),
            handler: person.clone(),
            max_rounds: 200,
            ..ClientOptions::default()
        };
        (self.server.agent_with(revision, options).await, person)
    }
}

/// Answers with its name, and records the questions and notifications that it receives.
struct Person {
    name: String,
    asked: Mutex<Vec<String>>,
    told: Mutex<Vec<(String, Value)>>,
    /// Number of questions that were cancelled.
    dropped: Mutex<usize>,
    is_silent: Mutex<bool>,
}

impl Person {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            asked: Mutex::default(),
            told: Mutex::default(),
            dropped: Mutex::default(),
            is_silent: Mutex::default(),
        }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    fn told(&self, method: &str) -> Vec<Value> {
        let told = self.told.lock().unwrap();
        told.iter().filter(|(told, _)| told == method).map(|(_, params)| params.clone()).collect()
    }

    /// Leaves all later questions without an answer.
    fn stop_answering(&self) {
        *self.is_silent.lock().unwrap() = true;
    }
}

struct Dropped<'a>(&'a Person);

impl Drop for Dropped<'_> {
    fn drop(&mut self) {
        *self.0.dropped.lock().unwrap() += 1;
    }
}

#[async_trait]
impl ClientHandler for Person {
    async fn elicit(&self, params: ElicitParams) -> Result<ElicitResult, RpcError> {
        self.asked.lock().unwrap().push(params.message.clone());
        if *self.is_silent.lock().unwrap() {
            let _dropped = Dropped(self);
            std::future::pending::<()>().await;
        }
        let content = json!({ "says": self.name, "to": params.message });
        let content = params.url.is_none().then(|| content.as_object().cloned().unwrap());
        Ok(ElicitResult { action: ElicitAction::Accept, content })
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
        Ok(ListRootsResult {
            roots: vec![Root { uri: format!("file:///{}", self.name), name: None }],
        })
    }

    fn notified(&self, notification: &ServerNotification) {
        let params = notification.params.as_ref();
        let params =
            params.map_or(Value::Null, |params| serde_json::from_str(params.get()).unwrap());
        self.told.lock().unwrap().push((notification.method.to_string(), params));
    }
}

fn everything() -> ClientCapabilities {
    let all = json!({ "elicitation": { "form": {}, "url": {} }, "sampling": { "tools": {} }, "roots": {} });
    serde_json::from_value(all).unwrap()
}

#[tokio::test]
async fn every_question_reaches_the_agent_and_its_answer_the_upstream() {
    let world = World::start().await;
    for revision in AGENTS {
        for upstream in UPSTREAMS {
            let (agent, person) = world.person(revision, "ann").await;
            let said = text_of(&agent, &format!("{upstream}__all"), json!({})).await;
            // The message names the upstream that asks.
            let questions = ["name?", "sure?"].map(|question| format!("[{upstream}] {question}"));
            let want = json!([{"says": "ann", "to": questions[0]}, "which?", "file:///ann", {"says": "ann", "to": questions[1]}]);
            assert_eq!(said, want.to_string(), "{revision} {upstream}");
            assert_eq!(person.asked(), questions, "{revision} {upstream}");
        }
    }
    world.server.stop().await;
}

#[tokio::test]
async fn an_agent_over_a_pipe_is_asked_as_well() {
    let world = World::start().await;
    for revision in AGENTS {
        let (reader, output) = tokio::io::simplex(4096);
        let (input, writer) = tokio::io::simplex(4096);
        let app = world.server.app.clone();
        tokio::spawn(async move { app.serve_stdio(input, output).await });
        let options = ClientOptions {
            capabilities: everything(),
            handler: Arc::new(Person::new("pat")),
            revision: RevisionChoice::Only(revision),
            ..ClientOptions::default()
        };
        let agent = within(Client::connect(reader, writer, options)).await.unwrap();
        for upstream in UPSTREAMS {
            let said = text_of(&agent, &format!("{upstream}__all"), json!({})).await;
            assert!(
                said.contains("file:///pat") && said.contains("sure?"),
                "{revision} {upstream}: {said}"
            );
        }
        agent.close().await;
    }
    world.server.stop().await;
}

#[tokio::test]
async fn an_agent_of_the_oldest_transport_is_asked_as_well() {
    let world = World::start().await;
    for revision in [Revision::V2024_11_05, Revision::V2025_06_18] {
        let options = ClientOptions {
            capabilities: everything(),
            handler: Arc::new(Person::new("sue")),
            revision: RevisionChoice::Only(revision),
            ..ClientOptions::default()
        };
        let url = format!("http://{}/sse", world.server.address);
        let agent = Client::http(HttpTarget { url, ..HttpTarget::default() }, options);
        let agent = within(agent).await.unwrap();
        for upstream in UPSTREAMS {
            let said = text_of(&agent, &format!("{upstream}__all"), json!({})).await;
            assert!(said.contains("file:///sue"), "{revision} {upstream}: {said}");
        }
        agent.close().await;
    }
    world.server.stop().await;
}

#[tokio::test]
async fn a_call_that_becomes_a_task_is_polled_and_may_ask() {
    let web = AskingOverHttp::with_tasks().await;
    let server = Running::start(&web.toml("web", STATELESS)).await;
    let world = World { server, web: [web, AskingOverHttp::start().await] };
    for revision in AGENTS {
        let (agent, person) = world.person(revision, "ann").await;
        let said = text_of(&agent, "web__all", json!({})).await;
        assert!(said.contains("file:///ann"), "{revision}: {said}");
        assert_eq!(person.asked(), ["[web] name?", "[web] sure?"], "{revision}");
    }
    world.server.stop().await;
}

#[tokio::test]
async fn a_question_after_its_call_reaches_no_agent() {
    let server = Running::start(&child_toml("pipe", SESSION)).await;
    let world =
        World { server, web: [AskingOverHttp::start().await, AskingOverHttp::start().await] };
    for revision in AGENTS {
        let (ann, ann_user) = world.person(revision, "ann").await;
        let (bob, bob_user) = world.person(revision, "bob").await;
        let params = CallToolParams::new("pipe__late", &json!({ "message": "ann's" })).unwrap();
        let given_up = ann.call_tool_raw(&params, CallOptions::default());
        assert!(tokio::time::timeout(Duration::from_millis(200), given_up).await.is_err());
        let slow = text_of(&bob, "pipe__slow", json!({ "ms": 500 })).await;
        assert_eq!(slow, "slow is done");
        assert!(ann_user.asked().is_empty() && bob_user.asked().is_empty(), "{revision}");
    }
    world.server.stop().await;
}

#[tokio::test]
async fn a_stateless_agent_that_disconnects_cancels_its_call() {
    let world = World::start().await;
    let agent = ByHand::of(&world).await;
    for web in [0, 1] {
        let tool = ["web_session__slow", "web_stateless__slow"][web];
        let asking = &world.web[web].asking;
        let params = CallToolParams::new(tool, &json!({ "ms": 60_000 })).unwrap();
        let given_up = agent.0.call_tool_raw(&params, CallOptions::default());
        assert!(tokio::time::timeout(Duration::from_millis(300), given_up).await.is_err());
        until("the upstream learns of it", async || asking.dropped() == 1).await;
    }
    world.server.stop().await;
}

#[tokio::test]
async fn an_agent_is_not_asked_for_a_capability_that_it_lacks() {
    let world = World::start().await;
    for revision in AGENTS {
        let deaf = world.server.agent_of(revision).await;
        let forms_alone = ClientOptions {
            capabilities: serde_json::from_value(json!({ "elicitation": {}, "sampling": {} }))
                .unwrap(),
            handler: Arc::new(Person::new("bob")),
            ..ClientOptions::default()
        };
        let forms_alone = world.server.agent_with(revision, forms_alone).await;
        for upstream in UPSTREAMS {
            for (agent, tool, code) in [
                (&deaf, "form", -32601),
                (&deaf, "all", -32601),
                (&forms_alone, "page", -32602),
                (&forms_alone, "tools", -32602),
            ] {
                let answer = call(agent, &format!("{upstream}__{tool}"), json!({})).await;
                match answer {
                    // For a stateless upstream this is known in advance, because each call has the
                    // agent's capabilities.
                    Err(ClientError::Rpc(error)) => {
                        assert_eq!(error.code, -32021, "{revision} {upstream} {tool}");
                    }
                    answer => {
                        let text = answer.unwrap()["content"][0]["text"].to_string();
                        assert!(
                            text.contains(&code.to_string()),
                            "{revision} {upstream} {tool}: {text}"
                        );
                        assert!(
                            upstream.ends_with("session"),
                            "{revision} {upstream} {tool}: {text}"
                        );
                    }
                }
            }
        }
    }
    world.server.stop().await;
}

#[tokio::test]
async fn a_url_elicitation_is_completed() {
    let world = World::start().await;
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        for upstream in UPSTREAMS {
            let (agent, person) = world.person(revision, "ann").await;
            // The stream of notifications opens asynchronously.
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert_eq!(
                text_of(&agent, &format!("{upstream}__page"), json!({})).await,
                r#""accept""#
            );
            let asked = format!("[{upstream}] go there");
            assert_eq!(person.asked(), [asked], "{revision} {upstream}");
            if revision == Revision::V2025_11_25 && upstream.ends_with("session") {
                until("the page's end is told", async || {
                    person.told("notifications/elicitation/complete")
                        == [json!({ "elicitationId": "page-1" })]
                })
                .await;
            }
        }
    }
    world.server.stop().await;
}

#[tokio::test]
async fn log_messages_reach_the_agent_whose_call_it_is() {
    let world = World::start().await;
    for revision in AGENTS {
        for upstream in UPSTREAMS {
            let (agent, person) = world.person(revision, "ann").await;
            let (other, bystander) = world.person(revision, "bob").await;
            let params =
                json!({ "name": format!("{upstream}__log"), "arguments": { "message": "ann" } });
            let levels = |person: &Person| -> Vec<Value> {
                let told = person.told("notifications/message");
                for message in &told {
                    assert_eq!(message["logger"], json!(format!("{upstream}/inner")));
                    assert_eq!(message["data"], json!({ "of": "ann" }));
                }
                told.into_iter().map(|mut message| message["level"].take()).collect()
            };
            if revision == Revision::V2026_07_28 {
                ask(&agent, "tools/call", params.clone()).await.unwrap();
                assert_eq!(levels(&person), [""; 0], "{upstream}: it wants none");
                let params = to_raw_value(&params).unwrap();
                let options = CallOptions {
                    log_level: Some(marquetry_protocol::types::LogLevel::Debug),
                    ..CallOptions::default()
                };
                within(agent.request("tools/call", Some(&params), options)).await.unwrap();
                assert_eq!(levels(&person), ["debug", "info", "error"], "{upstream}");
            } else {
                ask(&agent, "logging/setLevel", json!({ "level": "debug" })).await.unwrap();
                ask(&agent, "tools/call", params.clone()).await.unwrap();
                assert_eq!(levels(&person), ["debug", "info", "error"], "{revision} {upstream}");
                ask(&agent, "logging/setLevel", json!({ "level": "error" })).await.unwrap();
                ask(&agent, "tools/call", params).await.unwrap();
                assert_eq!(levels(&person).len(), 4, "{revision} {upstream}");
            }
            assert_eq!(levels(&bystander), [""; 0], "{revision} {upstream}");
            drop(other);
        }
    }
    world.server.stop().await;
}

#[tokio::test]
async fn progress_comes_under_the_agents_own_token() {
    let world = World::start().await;
    for revision in AGENTS {
        for upstream in UPSTREAMS {
            let agent = world.server.agent_of(revision).await;
            let (sender, mut progress) = mpsc::channel(8);
            let options = CallOptions { progress: Some(sender), ..CallOptions::default() };
            let params = CallToolParams::new(format!("{upstream}__progress"), &json!({})).unwrap();
            within(agent.call_tool_raw(&params, options)).await.unwrap();
            for step in 1..=3 {
                let told = progress.try_recv().unwrap();
                assert_eq!(
                    (told.progress, told.total),
                    (f64::from(step), Some(3.0)),
                    "{revision} {upstream}"
                );
            }
        }
    }
    world.server.stop().await;
}

#[tokio::test]
async fn a_cancelled_call_withdraws_its_question_and_is_cancelled_upstream() {
    let world = World::start().await;
    for (upstream, web) in [("web_session", &world.web[0]), ("web_stateless", &world.web[1])] {
        for revision in [Revision::V2025_06_18, Revision::V2025_11_25] {
            let (agent, person) = world.person(revision, "ann").await;
            person.stop_answering();
            let dropped = web.asking.dropped();
            let params = CallToolParams::new(format!("{upstream}__form"), &json!({})).unwrap();
            let calling = agent.call_tool_raw(&params, CallOptions::default());
            tokio::select! {
                answer = calling => panic!("{answer:?}"),
                () = until("it is asked", async || !person.asked().is_empty()) => {}
            }
            until("the question is taken back", async || *person.dropped.lock().unwrap() == 1)
                .await;
            // In the stateless revision the call has ended at the upstream with its question.
            if upstream == "web_session" {
                until("the upstream learns of it", async || web.asking.dropped() == dropped + 1)
                    .await;
            }
        }
    }
    world.server.stop().await;
}

#[tokio::test]
async fn each_of_two_concurrent_agents_gets_its_own_questions() {
    let world = World::start().await;
    for first in AGENTS {
        for second in AGENTS {
            for upstream in UPSTREAMS {
                let (ann, ann_user) = world.person(first, "ann").await;
                let (bob, bob_user) = world.person(second, "bob").await;
                let tool = format!("{upstream}__form");
                // A question over a pipe does not name its call. After the first one, calls of this
                // tool no longer overlap with those of other agents.
                let asks = async |agent: &Client, name: &str| {
                    for number in 0..5 {
                        let message = format!("{name} {number}");
                        let said = text_of(agent, &tool, json!({ "message": message })).await;
                        assert_eq!(
                            said,
                            json!({ "says": name, "to": format!("[{upstream}] {message}") })
                                .to_string(),
                            "{first} {second} {upstream}"
                        );
                    }
                };
                assert!(
                    text_of(&ann, &tool, json!({ "message": "ann alone" }))
                        .await
                        .contains("ann alone")
                );
                tokio::join!(asks(&ann, "ann"), asks(&bob, "bob"));
                assert!(ann_user.asked().iter().all(|asked| asked.contains("] ann ")));
                assert!(bob_user.asked().iter().all(|asked| asked.contains("] bob ")));
            }
        }
    }
    world.server.stop().await;
}

#[tokio::test]
async fn an_ambiguous_question_reaches_no_agent() {
    let server = Running::start(&child_toml("pipe", SESSION)).await;
    let world =
        World { server, web: [AskingOverHttp::start().await, AskingOverHttp::start().await] };
    let (ann, ann_user) = world.person(Revision::V2025_11_25, "ann").await;
    let (bob, bob_user) = world.person(Revision::V2026_07_28, "bob").await;
    let (slow, refused) = tokio::join!(text_of(&bob, "pipe__slow", json!({ "ms": 600 })), async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        text_of(&ann, "pipe__form", json!({})).await
    });
    assert_eq!(slow, "slow is done");
    assert!(refused.contains("calls of several clients are in flight"), "{refused}");
    assert!(ann_user.asked().is_empty() && bob_user.asked().is_empty());
    // From now on they take turns.
    let (_, answered) = tokio::join!(text_of(&bob, "pipe__slow", json!({ "ms": 600 })), async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        text_of(&ann, "pipe__form", json!({})).await
    });
    assert!(answered.contains("ann"), "{answered}");
    world.server.stop().await;
}

/// A stateless agent that handles the rounds itself.
struct ByHand(Client);

impl ByHand {
    async fn of(world: &World) -> Self {
        Self::of_user(&world.server, None).await
    }

    async fn of_user(server: &Running, token: Option<&str>) -> Self {
        let options = ClientOptions { capabilities: everything(), ..ClientOptions::default() };
        Self(server.agent_of_user(Revision::V2026_07_28, options, token).await)
    }

    async fn round(&self, tool: &str, more: Value) -> Result<Value, ClientError> {
        let mut params = json!({ "name": tool, "arguments": {} });
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let params = to_raw_value(&params).unwrap();
        let options = CallOptions { pass_questions: true, ..CallOptions::default() };
        let result = within(self.0.request("tools/call", Some(&params), options)).await?;
        Ok(serde_json::from_str(result.get()).unwrap())
    }

    /// Returns the parameters that answer every question of a round.
    fn answers(asked: &Value) -> Value {
        let accepted = json!({ "action": "accept", "content": {} });
        let answers: serde_json::Map<String, Value> = asked["inputRequests"]
            .as_object()
            .unwrap()
            .keys()
            .map(|key| (key.clone(), accepted.clone()))
            .collect();
        json!({ "inputResponses": answers, "requestState": asked["requestState"] })
    }
}

#[tokio::test]
async fn a_request_state_can_be_used_once() {
    let world = World::start().await;
    let agent = ByHand::of(&world).await;
    for upstream in ["pipe_session", "web_session"] {
        let tool = format!("{upstream}__form");
        let asked = agent.round(&tool, json!({})).await.unwrap();
        assert_eq!(asked["resultType"], "input_required", "{asked}");
        let answers = ByHand::answers(&asked);
        // The state does not work for another call.
        let other = agent.round(&format!("{upstream}__many"), answers.clone()).await;
        assert_eq!(rpc_error(other).0, -32602);
        let (one, two) =
            tokio::join!(agent.round(&tool, answers.clone()), agent.round(&tool, answers.clone()));
        let (answered, refused) = if one.is_ok() { (one, two) } else { (two, one) };
        assert_eq!(answered.unwrap()["content"][0]["text"], "{}", "{upstream}");
        let (code, message) = rpc_error(refused);
        assert_eq!(code, -32602);
        assert!(message.contains("no longer waits"), "{message}");
        let (code, _) = rpc_error(agent.round(&tool, answers).await);
        assert_eq!(code, -32602);
        // An invalid or missing answer is asked for again.
        let asked = agent.round(&tool, json!({})).await.unwrap();
        let again =
            agent.round(&tool, json!({ "requestState": asked["requestState"] })).await.unwrap();
        assert_eq!(again["inputRequests"], asked["inputRequests"]);
        assert_ne!(again["requestState"], asked["requestState"]);
        let (code, _) = rpc_error(agent.round(&tool, ByHand::answers(&asked)).await);
        assert_eq!(code, -32602, "the older state is spent");
        let answered = agent.round(&tool, ByHand::answers(&again)).await.unwrap();
        assert_eq!(answered["content"][0]["text"], "{}");
    }
    world.server.stop().await;
}

#[tokio::test]
async fn a_question_without_an_answer_in_time_fails_the_call() {
    let world = World::with("limits.question_ms = 400\nlimits.max_parked_calls = 1\n").await;
    let agent = ByHand::of(&world).await;
    let asked = agent.round("web_session__form", json!({})).await.unwrap();
    // There is room for one; the next upstream gets an error and returns it.
    let refused = agent.round("pipe_session__form", json!({})).await.unwrap();
    let text = refused["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("limits.max_parked_calls"), "{text}");
    until("the call is given up", async || world.web[0].asking.dropped() == 1).await;
    let (code, message) =
        rpc_error(agent.round("web_session__form", ByHand::answers(&asked)).await);
    assert!(
        code == -32602 && (message.contains("no longer waits") || message.contains("has expired")),
        "{message}"
    );
    // Now there is room again.
    let asked = agent.round("pipe_session__form", json!({})).await.unwrap();
    assert_eq!(asked["resultType"], "input_required", "{asked}");

    let (agent, person) = world.person(Revision::V2025_11_25, "ann").await;
    person.stop_answering();
    let said = text_of(&agent, "web_session__form", json!({})).await;
    assert!(said.contains("did not answer"), "{said}");
    until("the question is taken back", async || *person.dropped.lock().unwrap() == 1).await;
    world.server.stop().await;
}

#[tokio::test]
async fn unanswered_questions_are_bounded_per_user() {
    let web = AskingOverHttp::start().await;
    let directory = tempfile::tempdir().unwrap();
    let toml = format!(
        "limits.max_parked_calls_per_caller = 1\n{}{}",
        users_toml(directory.path(), &["ann", "bob"]),
        web.toml("web", SESSION)
    );
    let server = Running::start(&toml).await;
    let ann = ByHand::of_user(&server, Some(&token_of("ann"))).await;
    let bob = ByHand::of_user(&server, Some(&token_of("bob"))).await;
    let asked = ann.round("web__form", json!({})).await.unwrap();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let refused = ann.round("web__form", json!({})).await.unwrap().to_string();
    assert!(refused.contains("for one caller (limits.max_parked_calls_per_caller)"), "{refused}");
    let asked = bob.round("web__form", json!({})).await.unwrap();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    server.stop().await;
}

#[tokio::test]
async fn a_call_that_waits_for_its_agent_counts_as_in_flight() {
    let web = AskingOverHttp::start().await;
    let limits = "limits.max_in_flight_per_upstream = 1\nlimits.queue_ms = 20\n";
    let server = Running::start(&format!("{limits}{}", web.toml("web", SESSION))).await;
    let agent = ByHand::of_user(&server, None).await;
    let asked = agent.round("web__form", json!({})).await.unwrap();
    let full = agent.round("web__form", json!({})).await.unwrap();
    assert_eq!(full["isError"], true, "{full}");
    assert!(full.to_string().contains("limits.max_in_flight_per_upstream"), "{full}");
    // Its next round needs no second slot, and the last round frees the slot.
    let answered = agent.round("web__form", ByHand::answers(&asked)).await.unwrap();
    assert_eq!(answered["content"][0]["text"], "{}", "{answered}");
    let asked = agent.round("web__form", json!({})).await.unwrap();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    server.stop().await;
}

#[tokio::test]
async fn questions_of_a_call_are_limited() {
    let world = World::with("limits.max_questions_per_call = 7\n").await;
    for revision in AGENTS {
        for upstream in ["pipe_session", "web_session"] {
            let (agent, person) = world.person(revision, "ann").await;
            let said = text_of(&agent, &format!("{upstream}__many"), json!({})).await;
            assert!(
                said.starts_with("7 answered, then: more than 7 questions in one call"),
                "{said}"
            );
            assert_eq!(person.asked().len(), 7, "{revision} {upstream}");
        }
        let (agent, person) = world.person(revision, "ann").await;
        let said = call(&agent, "web_stateless__many", json!({})).await.unwrap();
        assert_eq!(said["isError"], true, "{revision}: {said}");
        assert!(person.asked().len() < 30, "{revision}");
    }
    world.server.stop().await;
}

#[tokio::test]
async fn an_upstream_that_dies_with_a_question_open_ends_the_call() {
    let world = World::with("gateway.restart_delay_ms = 50\n").await;
    for revision in [Revision::V2025_06_18, Revision::V2025_11_25] {
        let (agent, person) = world.person(revision, "ann").await;
        person.stop_answering();
        let said = call(&agent, "pipe_session__die", json!({})).await.unwrap();
        assert!(
            said["content"][0]["text"].as_str().unwrap().contains("ended during the call"),
            "{said}"
        );
        until("the question is taken back", async || *person.dropped.lock().unwrap() == 1).await;
        until("it is back", async || {
            call(&agent, "pipe_session__pid", json!({})).await.unwrap()["isError"].is_null()
        })
        .await;
    }
    let agent = ByHand::of(&world).await;
    let asked = agent.round("pipe_session__die", json!({})).await.unwrap();
    tokio::time::sleep(Duration::from_millis(600)).await;
    let said = agent.round("pipe_session__die", ByHand::answers(&asked)).await.unwrap();
    assert!(
        said["content"][0]["text"].as_str().unwrap().contains("ended during the call"),
        "{said}"
    );
    world.server.stop().await;
}

#[tokio::test]
async fn the_time_limit_of_a_call_excludes_its_questions() {
    let web = AskingOverHttp::start().await;
    let toml = format!("{}call_timeout_ms = 500\n", web.toml("web", SESSION));
    let server = Running::start(&toml).await;
    let world = World { server, web: [web, AskingOverHttp::start().await] };
    let agent = ByHand::of(&world).await;
    let asked = agent.round("web__form", json!({})).await.unwrap();
    tokio::time::sleep(Duration::from_millis(800)).await;
    let said = agent.round("web__form", ByHand::answers(&asked)).await.unwrap();
    assert_eq!(said["content"][0]["text"], "{}", "{said}");
    let slow = call(&agent.0, "web__slow", json!({ "ms": 5_000 })).await.unwrap();
    assert_eq!(
        slow["content"][0]["text"],
        "upstream 'web' gave no answer within 500 ms (call_timeout_ms)"
    );
    world.server.stop().await;
}

#[tokio::test]
async fn the_time_limit_of_a_call_excludes_its_wait_for_calls_of_others() {
    let toml = format!("{}call_timeout_ms = 3000\n", child_toml("pipe", SESSION));
    let server = Running::start(&toml).await;
    let world =
        World { server, web: [AskingOverHttp::start().await, AskingOverHttp::start().await] };
    let asked = ByHand::of(&world).await;
    let other = world.person(Revision::V2025_11_25, "bob").await.0;
    asked.round("pipe__form", json!({})).await.unwrap();
    let start = std::time::Instant::now();
    let slow = text_of(&other, "pipe__slow", json!({ "ms": 2_000 })).await;
    assert_eq!(slow, "slow is done");
    assert!(start.elapsed() > Duration::from_millis(2_200), "it has waited for the form");
    world.server.stop().await;
}

#[tokio::test]
async fn one_subscription_at_the_upstream_serves_all_agents() {
    let world = World::with("gateway.restart_delay_ms = 50\n").await;
    for upstream in UPSTREAMS {
        // Each upstream gets a server of its own: they list the same URIs, and one server would
        // read all from the first.
        let toml = match upstream {
            "pipe_session" => child_toml("up", SESSION),
            "pipe_stateless" => child_toml("up", STATELESS),
            "web_session" => world.web[0].toml("up", SESSION),
            _ => world.web[1].toml("up", STATELESS),
        };
        let server = Running::start(&toml).await;
        let alone =
            World { server, web: [AskingOverHttp::start().await, AskingOverHttp::start().await] };
        let (old, old_user) = alone.person(Revision::V2025_06_18, "old").await;
        let (new, new_user) = alone.person(Revision::V2026_07_28, "new").await;
        let subscribed = async || text_of(&old, "up__subscribed", json!({})).await;
        within(old.subscribe("ask://a")).await.unwrap();
        within(new.subscribe("ask://a")).await.unwrap();
        assert_eq!(subscribed().await, r#"{"ask://a":1}"#, "{upstream}");
        assert!(within(old.subscribe("ask://refused")).await.is_err(), "{upstream}");
        assert!(within(new.subscribe("ask://refused")).await.is_err(), "{upstream}");
        assert!(within(old.subscribe("artifact://x")).await.is_err(), "{upstream}");

        // The session's stream of notifications opens asynchronously.
        tokio::time::sleep(Duration::from_millis(200)).await;
        text_of(&old, "up__change", json!({ "uri": "ask://b" })).await;
        text_of(&old, "up__change", json!({ "uri": "ask://a" })).await;
        for person in [&old_user, &new_user] {
            until("the change is told", async || {
                let told = person.told("notifications/resources/updated");
                told.len() == 1 && told[0]["uri"] == "ask://a"
            })
            .await;
        }
        within(old.unsubscribe("ask://a")).await.unwrap();
        assert_eq!(subscribed().await, r#"{"ask://a":1}"#, "{upstream}: one is left");
        new.close().await;
        until("the last has gone", async || subscribed().await == "{}").await;
        alone.server.stop().await;
    }
    world.server.stop().await;
}

#[tokio::test]
async fn after_a_restart_resources_are_subscribed_to_again() {
    for revision in [SESSION, STATELESS] {
        let toml = format!("gateway.restart_delay_ms = 50\n{}", child_toml("up", revision));
        let server = Running::start(&toml).await;
        let world =
            World { server, web: [AskingOverHttp::start().await, AskingOverHttp::start().await] };
        let (agent, person) = world.person(Revision::V2025_11_25, "ann").await;
        within(agent.subscribe("ask://a")).await.unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
        let pid = text_of(&agent, "up__pid", json!({})).await;
        std::process::Command::new("kill").args(["-KILL", &pid]).status().unwrap();
        until("it is back, and subscribed to", async || {
            let answer = call(&agent, "up__subscribed", json!({})).await.unwrap();
            answer["content"][0]["text"] == r#"{"ask://a":1}"#
        })
        .await;
        // Changes in the meantime are unknown.
        until("the agent is told", async || {
            !person.told("notifications/resources/updated").is_empty()
        })
        .await;
        world.server.stop().await;
    }
}

#[tokio::test]
async fn arguments_are_completed_by_their_upstream() {
    let world = World::start().await;
    for revision in AGENTS {
        let agent = world.server.agent_of(revision).await;
        for upstream in UPSTREAMS {
            let reference = json!({ "type": "ref/prompt", "name": format!("{upstream}__greet") });
            let params = json!({ "ref": reference, "argument": { "name": "with", "value": "jo" } });
            let said = ask(&agent, "completion/complete", params).await.unwrap();
            let want = r#"jo of {"type":"ref/prompt","name":"greet"}"#;
            assert_eq!(said["completion"]["values"], json!([want]), "{revision} {upstream}");
        }
        let reference = json!({ "type": "ref/resource", "uri": "ask://{id}" });
        let params = json!({ "ref": reference, "argument": { "name": "id", "value": "1" } });
        let said = ask(&agent, "completion/complete", params).await.unwrap();
        assert!(said["completion"]["values"][0].as_str().unwrap().starts_with("1 of"), "{said}");
        let params = json!({ "ref": { "type": "ref/prompt", "name": "nobody" }, "argument": { "name": "a", "value": "" } });
        assert_eq!(rpc_error(ask(&agent, "completion/complete", params).await).0, -32602);
    }
    world.server.stop().await;
}

#[tokio::test]
async fn an_upstream_that_hangs_is_started_again() {
    for revision in [SESSION, STATELESS] {
        let head = "gateway.restart_delay_ms = 50\ngateway.ping_timeout_ms = 300\ngateway.stop_grace_ms = 100\n";
        let toml = format!("{head}{}call_timeout_ms = 500\n", child_toml("up", revision));
        let server = Running::start(&toml).await;
        let agent = server.agent().await;
        let before = text_of(&agent, "up__pid", json!({})).await;
        let slow = call(&agent, "up__slow", json!({ "ms": 2_000 })).await.unwrap();
        assert_eq!(slow["isError"], true);
        tokio::time::sleep(Duration::from_millis(600)).await;
        assert_eq!(text_of(&agent, "up__pid", json!({})).await, before, "slow is not hung");
        let frozen = call(&agent, "up__freeze", json!({})).await.unwrap();
        assert_eq!(frozen["isError"], true, "{frozen}");
        until("it is started again", async || {
            let answer = call(&agent, "up__pid", json!({})).await.unwrap();
            answer["isError"].is_null() && answer["content"][0]["text"] != json!(before)
        })
        .await;
        server.stop().await;
    }
}

#[tokio::test]
async fn an_upstreams_refusal_reaches_the_agent() {
    let world = World::start().await;
    world.web.iter().for_each(|web| web.asking.refuse_with(401));
    for upstream in ["web_session", "web_stateless"] {
        let agent = world.server.agent_of(Revision::V2026_07_28).await;
        match call(&agent, &format!("{upstream}__pid"), json!({})).await {
            Err(ClientError::Rpc(error)) => {
                assert_eq!(error.code, 502);
                let data: Value = serde_json::from_str(error.data.unwrap().get()).unwrap();
                assert_eq!((&data["upstream"], &data["status"]), (&json!(upstream), &json!(401)));
                assert!(
                    data["wwwAuthenticate"][0].as_str().unwrap().contains("invalid_token"),
                    "{data}"
                );
            }
            other => panic!("{upstream}: {other:?}"),
        }
    }
    assert_eq!(world.web[0].asking.calls(), 0);
    world.server.stop().await;
}

#[tokio::test]
async fn a_plain_403_refuses_one_call_and_not_the_upstream() {
    let world = World::start().await;
    for upstream in ["web_session", "web_stateless"] {
        let agent = world.server.agent_of(Revision::V2026_07_28).await;
        let tool = format!("{upstream}__pid");
        world.web.iter().for_each(|web| web.asking.refuse_with(403));
        let refused = call(&agent, &tool, json!({})).await;
        world.web.iter().for_each(|web| web.asking.refuse_with(0));
        let Err(ClientError::Rpc(error)) = refused else { panic!("{upstream}: {refused:?}") };
        assert_eq!(error.code, 502, "{upstream}: {error}");
        assert!(error.message.ends_with("status 403: who are you?"), "{error}");
        let data: Value = serde_json::from_str(error.data.unwrap().get()).unwrap();
        assert_eq!(
            data,
            json!({ "upstream": upstream, "kind": "unauthorized", "status": 403, "wwwAuthenticate": [] })
        );
        let health = world.server.http("GET", "/healthz", &[], b"").await.json();
        assert!(!health.to_string().contains("suspect"), "{health}");
        call(&agent, &tool, json!({})).await.unwrap();
    }
    world.server.stop().await;
}
