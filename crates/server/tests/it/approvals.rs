//! Calls that a person must allow first: in sessions, stateless, without elicitation, in the
//! console.

use std::{
    fs,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use marquetry::{App, Config, ConfigSource, ServerSwitches};
use marquetry_protocol::{
    Revision, RpcError,
    client::{CallOptions, Client, ClientError, ClientHandler, ClientOptions},
    server::{
        Handler, Reply, RequestContext, Server, ServerDescription,
        http::{HttpEndpoint, HttpOptions, ServeOptions, serve},
    },
    types::{
        CallToolParams, CallToolResult, ClientCapabilities, ElicitAction, ElicitParams,
        ElicitResult, Implementation, ListToolsResult, ServerCapabilities, Tool, ToolAnnotations,
    },
};
use serde_json::{Value, json, value::to_raw_value};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{
    asking::AskingOverHttp,
    scripted::{Scripted, complete, lists},
    support::{Running, call, rpc_error, text_of, token_of, until, users_toml, within},
};

const AGENTS: [Revision; 3] = [Revision::V2025_06_18, Revision::V2025_11_25, Revision::V2026_07_28];

/// An upstream with a tool that reads and two that do not; it remembers the calls.
#[derive(Clone, Default)]
struct Files {
    calls: Arc<Mutex<Vec<String>>>,
}

impl Files {
    fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }

    /// Serves it over HTTP, and returns its entry in the settings.
    async fn serve(&self, stop: &CancellationToken) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let endpoint = HttpEndpoint::new(Server::new(self.clone()), HttpOptions::default());
        let options = ServeOptions { shutdown_grace: Duration::ZERO, ..ServeOptions::default() };
        let serve = serve(listener, endpoint).with_options(options).until(stop.clone());
        tokio::spawn(serve.into_future());
        format!("[mcp_servers.files]\nurl = '{url}'\n")
    }
}

#[async_trait]
impl Handler for Files {
    fn describe(&self) -> ServerDescription {
        let mut capabilities = ServerCapabilities::default();
        capabilities.tools = Some(marquetry_protocol::types::ListChanged { list_changed: false });
        ServerDescription {
            info: Implementation::new("files", "1"),
            capabilities,
            instructions: None,
        }
    }

    async fn list_tools(
        &self,
        _: Option<&str>,
        _: &RequestContext,
    ) -> Result<ListToolsResult, RpcError> {
        let schema = json!({"type": "object"});
        let mut read =
            Tool { name: "read".into(), input_schema: schema.clone(), ..Tool::default() };
        read.annotations =
            Some(ToolAnnotations { read_only: Some(true), ..ToolAnnotations::default() });
        let delete =
            Tool { name: "delete".into(), input_schema: schema.clone(), ..Tool::default() };
        let mv = Tool { name: "move".into(), input_schema: schema, ..Tool::default() };
        Ok(ListToolsResult { tools: vec![read, delete, mv], next_cursor: None })
    }

    async fn call_tool(
        &self,
        params: CallToolParams,
        _: &RequestContext,
    ) -> Result<Reply, RpcError> {
        let arguments = params.arguments.map(|it| it.get().to_owned()).unwrap_or_default();
        let made = format!("{} {arguments}", params.name);
        self.calls.lock().unwrap().push(made.clone());
        Reply::json(&CallToolResult::text(format!("did {made}")))
    }
}

/// A server before [`Files`].
struct World {
    server: Running,
    files: Files,
    stop: CancellationToken,
}

impl World {
    async fn start(toml: &str) -> Self {
        Self::with(toml, "").await
    }

    /// Starts with these settings, and further upstreams.
    async fn with(toml: &str, upstreams: &str) -> Self {
        let files = Files::default();
        let stop = CancellationToken::new();
        let toml = format!("{toml}\n{}{upstreams}", files.serve(&stop).await);
        Self { server: Running::start(&toml).await, files, stop }
    }

    async fn agent(&self, revision: Revision, person: &Arc<Person>, token: Option<&str>) -> Client {
        let options = ClientOptions {
            capabilities: elicits(),
            handler: person.clone(),
            max_rounds: 20,
            ..ClientOptions::default()
        };
        self.server.agent_of_user(revision, options, token).await
    }

    async fn console(
        &self,
        method: &str,
        path: &str,
        token: Option<&str>,
        body: &Value,
    ) -> (u16, Value) {
        let bearer = token.map(|token| format!("Bearer {token}"));
        let mut headers = vec![("Content-Type", "application/json")];
        headers.extend(bearer.as_deref().map(|bearer| ("Authorization", bearer)));
        let body = if method == "GET" { Vec::new() } else { body.to_string().into_bytes() };
        let path = format!("/api/console/{path}");
        let answer = self.server.http(method, &path, &headers, &body).await;
        (answer.status, answer.json())
    }

    /// Returns the open questions that the console shows.
    async fn open(&self, token: Option<&str>) -> Vec<Value> {
        let (_, state) = self.console("GET", "state", token, &Value::Null).await;
        state["questions"].as_array().unwrap().clone()
    }

    async fn decide(&self, id: &Value, decision: &str, token: Option<&str>) -> (u16, Value) {
        let path = format!("approvals/{id}");
        self.console("POST", &path, token, &json!({"decision": decision})).await
    }

    async fn stop(self) {
        self.server.stop().await;
        self.stop.cancel();
    }
}

fn elicits() -> ClientCapabilities {
    serde_json::from_value(json!({"elicitation": {"form": {}}})).unwrap()
}

/// A person who always answers the same, or not at all, and remembers what was asked.
struct Person {
    answer: Mutex<&'static str>,
    asked: Mutex<Vec<ElicitParams>>,
    withdrawn: Arc<Mutex<usize>>,
}

impl Person {
    fn who(answer: &'static str) -> Arc<Self> {
        let asked = Mutex::default();
        Arc::new(Self { answer: answer.into(), asked, withdrawn: Arc::default() })
    }

    fn change_to(&self, answer: &'static str) {
        *self.answer.lock().unwrap() = answer;
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

struct Withdrawn(Arc<Mutex<usize>>);

impl Drop for Withdrawn {
    fn drop(&mut self) {
        *self.0.lock().unwrap() += 1;
    }
}

#[async_trait]
impl ClientHandler for Person {
    async fn elicit(&self, params: ElicitParams) -> Result<ElicitResult, RpcError> {
        self.asked.lock().unwrap().push(params);
        let answer = *self.answer.lock().unwrap();
        match answer {
            "silence" => {
                let _withdrawn = Withdrawn(self.withdrawn.clone());
                std::future::pending().await
            }
            "decline" => Ok(ElicitResult::decline()),
            "cancel" => Ok(ElicitResult { action: ElicitAction::Cancel, content: None }),
            choice => {
                let content = json!({"decision": choice});
                Ok(ElicitResult::accept(content.as_object().cloned()))
            }
        }
    }
}

#[tokio::test]
async fn a_destructive_tool_is_asked_about_and_a_reading_one_is_not() {
    let world = World::start("[ask]\nwhen = 'destructive'\n").await;
    for revision in AGENTS {
        let person = Person::who("once");
        let agent = world.agent(revision, &person, None).await;
        let before = world.files.calls().len();
        assert!(text_of(&agent, "files__read", json!({})).await.starts_with("did read"));
        assert_eq!(person.asked(), 0, "{revision}");
        for round in 1..=2 {
            let said =
                text_of(&agent, "files__delete", json!({"path": "/a", "pin": "1234", "n": 1}))
                    .await;
            assert!(said.starts_with("did delete"), "{said}");
            assert_eq!(person.asked(), round, "once is for one call: {revision}");
        }
        assert_eq!(world.files.calls().len(), before + 3);
        let asked = person.asked.lock().unwrap()[0].clone();
        let message = &asked.message;
        assert!(
            message.starts_with(
                "Marquetry asks: may the tool \"delete\" of the server \"files\" be called?"
            ),
            "{message}"
        );
        assert!(message.ends_with("\npath: /a\npin: [hidden]\nn: 1"), "{message}");
        let choice = &asked.requested_schema.as_ref().unwrap()["properties"]["decision"];
        let has_titles = revision != Revision::V2025_06_18;
        assert_eq!(choice["oneOf"].is_array(), has_titles, "{choice}");
        assert_eq!(choice["enum"].is_array(), !has_titles, "{choice}");
    }
    world.stop().await;
}

#[tokio::test]
async fn a_decision_for_the_session_counts_for_its_tool() {
    let world = World::start("[ask]\nwhen = 'always'\n").await;
    for revision in AGENTS {
        let person = Person::who("session");
        let agent = world.agent(revision, &person, None).await;
        for _ in 0..3 {
            text_of(&agent, "files__delete", json!({})).await;
        }
        // A stateless agent was asked before by the same caller.
        assert_eq!(person.asked(), 1, "{revision}");
        text_of(&agent, "files__move", json!({})).await;
        assert_eq!(person.asked(), 2, "{revision}");
        let other = Person::who("once");
        let agent = world.agent(revision, &other, None).await;
        text_of(&agent, "files__delete", json!({})).await;
        let is_session = revision != Revision::V2026_07_28;
        assert_eq!(other.asked(), usize::from(is_session), "{revision}");
    }
    world.stop().await;
}

#[tokio::test]
async fn a_refused_call_does_not_reach_the_upstream() {
    let world = World::start("[ask]\nwhen = 'always'\n").await;
    for revision in AGENTS {
        for answer in ["decline", "cancel"] {
            let person = Person::who(answer);
            let agent = world.agent(revision, &person, None).await;
            let result = call(&agent, "files__delete", json!({})).await.unwrap();
            assert_eq!(result["isError"], true, "{result}");
            let text = result["content"][0]["text"].as_str().unwrap();
            assert!(text.contains("the user declined"), "{text}");
            assert!(text.contains("ask.when = \"always\""), "{text}");
            person.change_to("forever");
            let text = text_of(&agent, "files__delete", json!({})).await;
            assert!(text.contains("\"forever\", is no choice of the form"), "{text}");
        }
    }
    assert!(world.files.calls().is_empty(), "{:?}", world.files.calls());
    world.stop().await;
}

#[tokio::test]
async fn a_person_who_never_answers_refuses() {
    let world = World::start("[ask]\nwhen = 'always'\ntimeout_ms = 300\n").await;
    for revision in [Revision::V2025_06_18, Revision::V2025_11_25] {
        let person = Person::who("silence");
        let agent = world.agent(revision, &person, None).await;
        let text = text_of(&agent, "files__delete", json!({})).await;
        assert!(text.contains("no person answered within 0.3 s (ask.timeout_ms)"), "{text}");
        until("the question is withdrawn", async || *person.withdrawn.lock().unwrap() == 1).await;
    }
    let agent = ByHand::of(&world, None).await;
    let asked = agent.round(json!({}), json!({})).await.unwrap();
    until("the question has expired", async || world.open(None).await.is_empty()).await;
    let late = agent.round(json!({}), answers(&asked, "once")).await.unwrap();
    assert!(late["content"][0]["text"].as_str().unwrap().contains("no person answered"), "{late}");
    assert!(world.files.calls().is_empty());
    world.stop().await;
}

#[tokio::test]
async fn an_open_question_holds_no_instance() {
    let one_instance = "isolation = 'session'\nmax_instances = 1\n";
    let world = World::with("[ask]\nwhen = 'destructive'\n", one_instance).await;
    let silent = Person::who("silence");
    let other = Person::who("once");
    let asked = world.agent(Revision::V2025_11_25, &silent, None).await;
    let agent = world.agent(Revision::V2025_11_25, &other, None).await;
    let waiting = call(&asked, "files__delete", json!({}));
    let calls = async {
        until("the question is open", async || silent.asked() == 1).await;
        assert!(text_of(&agent, "files__delete", json!({})).await.starts_with("did delete"));
        let open = world.open(None).await;
        assert_eq!(world.decide(&open[0]["approval"], "once", None).await.0, 200);
    };
    let (answer, ()) = tokio::join!(waiting, calls);
    assert_ne!(answer.unwrap()["isError"], true);
    assert_eq!(world.files.calls().len(), 2);
    world.stop().await;
}

/// A stateless agent that handles the rounds of `files__delete` itself.
struct ByHand(Client);

impl ByHand {
    async fn of(world: &World, token: Option<&str>) -> Self {
        let options = ClientOptions { capabilities: elicits(), ..ClientOptions::default() };
        Self(world.server.agent_of_user(Revision::V2026_07_28, options, token).await)
    }

    async fn round(&self, arguments: Value, more: Value) -> Result<Value, ClientError> {
        self.round_of("files__delete", arguments, more).await
    }

    async fn round_of(
        &self,
        tool: &str,
        arguments: Value,
        more: Value,
    ) -> Result<Value, ClientError> {
        let mut params = json!({ "name": tool, "arguments": arguments });
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let params = to_raw_value(&params).unwrap();
        let options = CallOptions { pass_questions: true, ..CallOptions::default() };
        let result = within(self.0.request("tools/call", Some(&params), options)).await?;
        Ok(serde_json::from_str(result.get()).unwrap())
    }
}

/// Returns the parameters that answer the question of a round.
fn answers(asked: &Value, decision: &str) -> Value {
    let (key, _) = asked["inputRequests"].as_object().unwrap().iter().next().unwrap();
    let answer = match decision {
        "cancel" => json!({"action": "cancel"}),
        "decline" => json!({"action": "decline"}),
        choice => json!({"action": "accept", "content": {"decision": choice}}),
    };
    json!({"inputResponses": {(key): answer}, "requestState": asked["requestState"]})
}

#[tokio::test]
async fn the_call_that_was_allowed_is_the_call_that_is_made() {
    let world = World::start("[ask]\nwhen = 'always'\n").await;
    let agent = ByHand::of(&world, None).await;
    let harmless = json!({"path": "/tmp/a"});
    let evil = json!({"path": "/"});
    let asked = agent.round(harmless.clone(), json!({})).await.unwrap();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let allowed = answers(&asked, "once");
    let (code, message) = rpc_error(agent.round(evil.clone(), allowed.clone()).await);
    assert!(code == -32602 && message.contains("for this request"), "{message}");
    // Without the state, the answer is one to no question.
    let without = json!({"inputResponses": allowed["inputResponses"]});
    let again = agent.round(evil, without).await.unwrap();
    assert_eq!(again["resultType"], "input_required", "{again}");
    assert!(again.to_string().contains("path: /\""), "{again}");
    assert!(world.files.calls().is_empty());
    // The members may come in another order, and the answer counts once.
    let made = agent.round(harmless.clone(), allowed.clone()).await.unwrap();
    assert_eq!(made["content"][0]["text"], r#"did delete {"path":"/tmp/a"}"#);
    let twice = agent.round(harmless, allowed).await.unwrap();
    assert_eq!(twice["resultType"], "input_required", "{twice}");
    assert_eq!(world.files.calls().len(), 1);
    world.stop().await;
}

#[tokio::test]
async fn one_decision_leads_to_one_run_of_a_tool_that_asks_more() {
    let tools = json!([{ "name": "delete", "inputSchema": { "type": "object" } }]);
    let asking = Scripted::start("2026-07-28", move |method, params| {
        let listed = lists(method, &tools, &json!([]), &json!([]));
        let answer = match params.get("requestState") {
            Some(_) => complete(json!({ "content": [{ "type": "text", "text": "deleted" }] })),
            None => json!({
                "resultType": "input_required",
                "inputRequests": { "sure": {
                    "method": "elicitation/create",
                    "params": { "mode": "form", "message": "Sure?", "requestedSchema": {
                        "type": "object", "properties": {},
                    } },
                } },
                "requestState": "mine",
            }),
        };
        Ok(listed.map_or(answer, complete))
    })
    .await;
    let world = World::with("[ask]\nwhen = 'always'\n", &asking.toml("asking")).await;
    let agent = ByHand::of(&world, None).await;
    let call = async |more: Value| agent.round_of("asking__delete", json!({}), more).await.unwrap();
    let asked = call(json!({})).await;
    let sure = call(answers(&asked, "once")).await;
    assert!(sure.to_string().contains("Sure?"), "{sure}");
    let (key, _) = sure["inputRequests"].as_object().unwrap().iter().next().unwrap();
    let answer = json!({
        "inputResponses": { (key): { "action": "accept", "content": {} } },
        "requestState": sure["requestState"],
    });
    let first = call(answer.clone()).await;
    assert_eq!(first["content"][0]["text"], "deleted", "{first}");
    let again = call(answer).await;
    assert!(again["isError"] == true && again.to_string().contains("answered already"), "{again}");
    let runs =
        asking.seen("tools/call").iter().filter(|it| it.get("requestState").is_some()).count();
    assert_eq!(runs, 1);
    world.stop().await;
}

#[tokio::test]
async fn a_client_that_cannot_ask_is_told_how_to_allow_the_call() {
    let world = World::start("[ask]\nwhen = 'always'\n").await;
    for revision in [Revision::V2024_11_05, Revision::V2025_11_25, Revision::V2026_07_28] {
        let before = world.files.calls().len();
        let agent = world.server.agent_of(revision).await;
        for _ in 0..2 {
            let result = call(&agent, "files__delete", json!({"n": 1})).await.unwrap();
            assert_eq!(result["isError"], true, "{result}");
            let text = result["content"][0]["text"].as_str().unwrap();
            let console = format!("http://{}/ within 300 s", world.server.address);
            let entry = "[[allow]]\nprincipal = \"local\"\nupstream = \"files\"\ntool = \"delete\"";
            for part in ["does not declare the capability \"elicitation\"", &console, entry] {
                assert!(text.contains(part), "{text}");
            }
        }
        let open = world.open(None).await;
        assert_eq!(open.len(), 1, "one call has one question: {open:?}");
        assert!(open[0]["message"].as_str().unwrap().ends_with("\nn: 1"), "{open:?}");
        let (status, said) = world.decide(&open[0]["approval"], "once", None).await;
        assert_eq!((status, &said["said"]), (200, &json!("The call is allowed.")), "{said}");
        // Other arguments are another call.
        let text = text_of(&agent, "files__delete", json!({"n": 2})).await;
        assert!(text.contains("was not called"), "{text}");
        let text = text_of(&agent, "files__delete", json!({"n": 1})).await;
        assert_eq!(text, r#"did delete {"n":1}"#);
        let text = text_of(&agent, "files__delete", json!({"n": 1})).await;
        assert!(text.contains("was not called"), "once is once: {text}");
        for question in world.open(None).await {
            world.decide(&question["approval"], "decline", None).await;
        }
        let text = text_of(&agent, "files__delete", json!({"n": 1})).await;
        assert!(text.contains("the user declined"), "{text}");
        assert_eq!(world.files.calls().len(), before + 1);
    }
    // The REST API cannot ask, either.
    let body = br#"{"name": "files__move", "arguments": {}}"#;
    let answer = world.server.http("POST", "/mcp/v1/tools/call", &[], body).await;
    assert!(answer.body.contains("was not called"), "{answer:?}");
    world.stop().await;
}

#[tokio::test]
async fn the_console_answers_for_a_caller_of_ones_own_and_the_audit_log_has_each_decision() {
    let folder = tempfile::tempdir().unwrap();
    let audit = folder.path().join("audit.jsonl");
    let users = users_toml(folder.path(), &["ann", "bob"]);
    let world = World::start(&format!(
        "[ask]\nwhen = 'always'\n[audit]\npath = '{}'\n{users}",
        audit.display()
    ))
    .await;
    let ann = Some(token_of("ann"));
    let bob = Some(token_of("bob"));
    for revision in [Revision::V2025_06_18, Revision::V2025_11_25] {
        let person = Person::who("silence");
        let agent = world.agent(revision, &person, ann.as_deref()).await;
        let (text, ()) = tokio::join!(text_of(&agent, "files__delete", json!({})), async {
            until("the question is open", async || person.asked() == 1).await;
            let open = world.open(ann.as_deref()).await;
            let id = &open[0]["approval"];
            assert!(world.open(bob.as_deref()).await.is_empty());
            let (status, body) = world.decide(id, "once", bob.as_deref()).await;
            assert_eq!(status, 404, "{body}");
            let (status, body) = world.decide(id, "perhaps", ann.as_deref()).await;
            assert_eq!(status, 400, "{body}");
            let answer = world.decide(id, "once", ann.as_deref()).await;
            assert_eq!(answer.0, 200, "{answer:?}");
            let second = world.decide(id, "decline", ann.as_deref()).await;
            assert!([404, 409].contains(&second.0), "{second:?}");
        });
        assert!(text.starts_with("did delete"), "{text}");
        until("the client's question is withdrawn", async || {
            *person.withdrawn.lock().unwrap() == 1
        })
        .await;
    }
    // A stateless client sends the call again when its form is closed.
    for (in_client, is_made) in [("cancel", true), ("decline", false)] {
        let before = world.files.calls().len();
        let agent = ByHand::of(&world, ann.as_deref()).await;
        let asked = agent.round(json!({}), json!({})).await.unwrap();
        let open = world.open(ann.as_deref()).await;
        assert_eq!(world.decide(&open[0]["approval"], "once", ann.as_deref()).await.0, 200);
        let second = world.decide(&open[0]["approval"], "once", ann.as_deref()).await;
        assert_eq!(second.0, 409, "{second:?}");
        agent.round(json!({}), answers(&asked, in_client)).await.unwrap();
        assert_eq!(world.files.calls().len() - before, usize::from(is_made), "{in_client}");
    }
    world.stop().await;
    let decided = decisions(&audit);
    let of_session = ["asked null", "allowed_once \"console\""];
    assert_eq!(decided[..4], [of_session, of_session].concat(), "{decided:?}");
    let text = fs::read_to_string(&audit).unwrap();
    let refused = text.lines().find(|line| line.contains(r#""outcome":"not_confirmed""#));
    let refused: Value = serde_json::from_str(refused.unwrap()).unwrap();
    assert_eq!((&refused["upstream"], &refused["tool"]), (&json!("files"), &json!("delete")));
    assert!(text.contains(r#""event":"approval""#) && text.contains(r#""principal":"ann""#));
}

/// Returns outcome and place of each decision in an audit log.
fn decisions(audit: &Path) -> Vec<String> {
    let text = fs::read_to_string(audit).unwrap();
    let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let approvals = events.filter(|event| event["event"] == "approval");
    approvals.map(|it| format!("{} {}", it["outcome"].as_str().unwrap(), it["by"])).collect()
}

#[tokio::test]
async fn a_decision_from_now_on_counts_after_a_restart_for_its_principal() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("state/decisions.toml");
    let users = users_toml(folder.path(), &["ann", "bob"]);
    let toml = format!("[ask]\nwhen = ['del*']\ndecisions_file = '{}'\n{users}", file.display());
    let ann = Some(token_of("ann"));
    let bob = Some(token_of("bob"));
    let world = World::start(&toml).await;
    let person = Person::who("always");
    let agent = world.agent(Revision::V2025_11_25, &person, ann.as_deref()).await;
    for _ in 0..2 {
        text_of(&agent, "files__delete", json!({})).await;
        text_of(&agent, "files__move", json!({})).await;
    }
    assert_eq!(person.asked(), 1);
    world.stop().await;
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(text, "[[allow]]\nprincipal = \"- ann\"\nupstream = \"files\"\ntool = \"delete\"\n");

    let world = World::start(&toml).await;
    for (token, times) in [(&ann, 0), (&bob, 1)] {
        let person = Person::who("decline");
        let agent = world.agent(Revision::V2026_07_28, &person, token.as_deref()).await;
        text_of(&agent, "files__delete", json!({})).await;
        assert_eq!(person.asked(), times, "{token:?}");
    }
    // The refusal of a client that cannot ask names the file.
    let agent =
        world.server.agent_of_user(Revision::V2025_11_25, ClientOptions::default(), bob.as_deref());
    let refusal = text_of(&agent.await, "files__delete", json!({})).await;
    assert!(refusal.contains(&format!("adds this to {} (ask.", file.display())), "{refusal}");
    // A damaged file allows nothing, and is left as it is.
    fs::write(&file, format!("{text}[[allow")).unwrap();
    let person = Person::who("always");
    let agent = world.agent(Revision::V2025_11_25, &person, ann.as_deref()).await;
    for _ in 0..2 {
        text_of(&agent, "files__delete", json!({})).await;
    }
    assert_eq!(person.asked(), 1, "the decision counts for the session");
    assert_eq!(fs::read_to_string(&file).unwrap(), format!("{text}[[allow"));
    world.stop().await;
}

#[tokio::test]
async fn each_of_two_callers_answers_for_its_own_call() {
    let world = World::start("[ask]\nwhen = 'always'\n").await;
    for revision in AGENTS {
        let willing = Person::who("once");
        let careful = Person::who("decline");
        let one = world.agent(revision, &willing, None).await;
        let other = world.agent(revision, &careful, None).await;
        for _ in 0..5 {
            let (made, refused) = tokio::join!(
                text_of(&one, "files__delete", json!({"n": 1})),
                text_of(&other, "files__delete", json!({"n": 2}))
            );
            assert_eq!(made, r#"did delete {"n":1}"#);
            assert!(refused.contains("the user declined"), "{refused}");
        }
        assert_eq!((willing.asked(), careful.asked()), (5, 5), "{revision}");
    }
    world.stop().await;
}

#[tokio::test]
async fn questions_of_one_session_follow_each_other() {
    let world = World::start("[ask]\nwhen = 'always'\n").await;
    let person = Person::who("session");
    let agent = world.agent(Revision::V2025_11_25, &person, None).await;
    let calls = (0..4).map(|n| text_of(&agent, "files__delete", json!({"n": n})));
    let made = futures_util::future::join_all(calls).await;
    assert!(made.iter().all(|text| text.starts_with("did delete")), "{made:?}");
    assert_eq!(person.asked(), 1, "the first answer allows the other calls, too");
    world.stop().await;
}

#[tokio::test]
async fn no_question_is_asked_inside_of_a_question() {
    let upstream = AskingOverHttp::start().await;
    let world =
        World::with("[ask]\nservers.files = 'always'\n", &upstream.toml("asks", "2025-11-25"))
            .await;
    let person = Person::who("silence");
    let agent = world.agent(Revision::V2025_11_25, &person, None).await;
    tokio::select! {
        text = text_of(&agent, "asks__form", json!({})) => panic!("{text}"),
        () = async {
            until("the upstream has asked", async || person.asked() == 1).await;
            let text = text_of(&agent, "files__delete", json!({})).await;
            assert!(text.contains("another question to this client is still open"), "{text}");
        } => {}
    }
    assert_eq!(person.asked(), 1);
    assert!(world.files.calls().is_empty());
    // Afterwards it is asked about as usual.
    person.change_to("once");
    until("the question is withdrawn", async || *person.withdrawn.lock().unwrap() == 1).await;
    until("the call is asked about", async || {
        text_of(&agent, "files__delete", json!({})).await.starts_with("did delete")
    })
    .await;
    world.stop().await;
}

#[tokio::test]
async fn a_rule_of_the_policy_asks_its_callers_alone() {
    let folder = tempfile::tempdir().unwrap();
    let users = users_toml(folder.path(), &["ann", "bob"]);
    let rules = "[[policy.rules]]\nupstreams = ['files']\ntools = { allow = ['*'] }\n[[policy.rules]]\nprincipals = ['bob']\nask = ['del*']\n";
    let world = World::start(&format!("{rules}{users}")).await;
    for revision in AGENTS {
        for (name, times) in [("ann", 0), ("bob", 1)] {
            let person = Person::who("once");
            let agent = world.agent(revision, &person, Some(&token_of(name))).await;
            text_of(&agent, "files__move", json!({})).await;
            text_of(&agent, "files__delete", json!({})).await;
            assert_eq!(person.asked(), times, "{name} {revision}");
        }
    }
    world.stop().await;
}

/// Settings that change while the server runs.
struct Settings(Mutex<String>);

impl ConfigSource for Settings {
    fn read(&self, _: &ServerSwitches) -> Result<(Config, Vec<String>), String> {
        let toml = self.0.lock().unwrap().clone();
        let config = Config::from_toml(&toml, "test.toml").map_err(|error| error.to_string())?;
        config.check().map_err(|error| error.to_string())?;
        Ok((config, Vec::new()))
    }

    fn has_changed(&self) -> bool {
        false
    }
}

#[tokio::test]
async fn a_reload_changes_the_rules_for_running_sessions() {
    let files = Files::default();
    let stop = CancellationToken::new();
    let servers = format!("knowledge.enabled = false\n{}", files.serve(&stop).await);
    let settings = Arc::new(Settings(Mutex::new(servers.clone())));
    let config = Config::from_toml(&servers, "test.toml").unwrap();
    let app = App::builder(config).reload_from(settings.clone()).start().await.unwrap();
    within(app.ready()).await;
    let world = World { server: Running::serve(app).await, files, stop };
    let person = Person::who("decline");
    let agent = world.agent(Revision::V2025_11_25, &person, None).await;
    for (ask, is_made) in [
        ("", true),
        ("[ask]\nwhen = 'always'\n", false),
        // A rule about an unknown server is refused, and the old rules stay.
        ("[ask]\nservers.fiels = 'always'\n", false),
        ("[ask]\nservers.files = ['other']\n", true),
        ("[[policy.rules]]\ntools = { allow = ['*'] }\nask = 'destructive'\n", false),
        ("", true),
    ] {
        *settings.0.lock().unwrap() = format!("{servers}{ask}");
        let reloaded = world.server.app.reload().await;
        assert_eq!(reloaded.is_err(), ask.contains("fiels"), "{reloaded:?}");
        let text = text_of(&agent, "files__delete", json!({})).await;
        assert_eq!(text.starts_with("did delete"), is_made, "{ask} {text}");
    }
    world.stop().await;
}

#[tokio::test]
async fn a_call_that_waits_for_a_person_takes_no_slot_of_its_server() {
    let limits = "limits.max_in_flight_per_upstream = 1\nlimits.queue_ms = 10\n";
    let world = World::start(&format!("{limits}[ask]\nwhen = 'destructive'\n")).await;
    let person = Person::who("silence");
    let agent = world.agent(Revision::V2025_11_25, &person, None).await;
    let other = world.server.agent().await;
    tokio::select! {
        text = text_of(&agent, "files__delete", json!({})) => panic!("{text}"),
        () = async {
            until("the question is open", async || person.asked() == 1).await;
            for _ in 0..3 {
                let text = text_of(&other, "files__read", json!({})).await;
                assert!(text.starts_with("did read"), "{text}");
            }
        } => {}
    }
    until("a cancelled call has no question", async || world.open(None).await.is_empty()).await;
    assert_eq!(world.files.calls().len(), 3);
    world.stop().await;
}
