//! Upstreams in shell behind a gateway, as an agent sees them.
#![cfg(unix)]

use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use marquetry_gateway::{Gateway, GatewayOptions, List, Transport, UpstreamOptions};
use marquetry_protocol::{
    Revision, RpcError,
    client::{CallOptions, Client, ClientOptions, RevisionChoice},
    server::{
        ChangeListener, ConversationId, Handler, Notifier, Principal, Reply, RequestContext,
        Server, ServerDescription, serve_pipe,
    },
    types::{CallToolParams, ListChanged, ListToolsResult, ResourcesCapability, Root, Tool},
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const TOOL: &str = r#"{"name":"t","inputSchema":{"type":"object"}}"#;

/// Returns an upstream in shell. Each of `answers` is a method, and what the shell does when it is
/// requested; `answer JSON` sends a result.
fn upstream(name: &str, answers: &[(&str, &str)]) -> UpstreamOptions {
    let mut cases = String::new();
    for (method, commands) in answers {
        cases += &format!("*'\"method\":\"{method}\"'*) {commands};;\n");
    }
    let script = format!(
        r#"answer() {{ printf '{{"jsonrpc":"2.0","id":%s,"result":%s}}\n' "$id" "$1"; }}
        capabilities='{{"tools":{{}},"resources":{{"subscribe":true}}}}'
        while read -r line; do id=${{line#*'"id":'}}; id=${{id%%[,\}}]*}}
        case "$line" in
        {cases}
        *'"initialize"'*) answer '{{"protocolVersion":"2025-11-25","capabilities":'"$capabilities"',"serverInfo":{{"name":"s","version":"1"}}}}';;
        *'"tools/list"'*) answer '{{"tools":[{TOOL}]}}';;
        *'"resources/list"'*) answer '{{"resources":[{{"uri":"note://x","name":"x"}}]}}';;
        *'"id":'*) answer '{{}}';;
        esac; done"#
    );
    let mut options = UpstreamOptions::new(name, Transport::stdio("sh", ["-c", &script]));
    options.revision = Some(Revision::V2025_11_25);
    options
}

/// Passes changes to the notifier of the server, which starts after the gateway.
#[derive(Default)]
struct Changes(OnceLock<Server>);

impl Changes {
    fn announce(&self, announce: impl FnOnce(&Notifier)) {
        if let Some(server) = self.0.get() {
            announce(server.notifier());
        }
    }
}

impl ChangeListener for Changes {
    fn tools_changed(&self) {
        self.announce(Notifier::tools_changed);
    }
    fn prompts_changed(&self) {}
    fn resources_changed(&self) {}
    fn prompts_changed_for(&self, _: Option<&Principal>) {}
    fn resources_changed_for(&self, _: Option<&Principal>) {}
    fn resource_updated(&self, uri: &str) {
        self.announce(|notifier| notifier.resource_updated(uri));
    }
    fn resource_updated_for(&self, uri: &str, _: Option<&Principal>) {
        self.resource_updated(uri);
    }
    fn resource_updated_in(&self, uri: &str, client: ConversationId) {
        self.announce(|notifier| notifier.resource_updated_in(uri, client));
    }
}

struct Front(Arc<Gateway>);

#[async_trait]
impl Handler for Front {
    fn describe(&self) -> ServerDescription {
        let mut description = ServerDescription::default();
        description.capabilities.tools = Some(ListChanged { list_changed: true });
        description.capabilities.resources =
            Some(ResourcesCapability { subscribe: true, list_changed: false });
        description
    }

    async fn list_tools(
        &self,
        _: Option<&str>,
        cx: &RequestContext,
    ) -> Result<ListToolsResult, RpcError> {
        self.0.list_ready(List::Tools, cx).await?;
        Ok(ListToolsResult { tools: self.0.catalog().tools.clone(), next_cursor: None })
    }

    async fn call_tool(
        &self,
        call: CallToolParams,
        cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        Ok(Reply::raw(self.0.call_tool(call, cx).await?.result))
    }

    async fn subscribe(&self, uri: &str, cx: &RequestContext) -> Result<(), RpcError> {
        self.0.subscribe(uri, cx).await
    }

    async fn unsubscribe(&self, uri: &str, client: ConversationId) {
        self.0.unsubscribe(uri, client).await;
    }
}

/// A gateway and an agent in front of it.
struct World {
    gateway: Arc<Gateway>,
    agent: Client,
}

impl World {
    async fn start(mut options: GatewayOptions) -> Self {
        options.stop_grace = Duration::from_millis(100);
        let changes = Arc::new(Changes::default());
        let gateway = Gateway::start(options, changes.clone());
        let server = Server::new(Front(gateway.clone()));
        assert!(changes.0.set(server.clone()).is_ok());
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let (reader, writer) = tokio::io::split(theirs);
        tokio::spawn(async move {
            serve_pipe(&server, reader, writer, CancellationToken::new()).await.unwrap();
        });
        let options = ClientOptions {
            revision: RevisionChoice::Only(Revision::V2025_11_25),
            ..ClientOptions::default()
        };
        let (reader, writer) = tokio::io::split(ours);
        let agent = Client::connect(reader, writer, options).await.unwrap();
        Self { gateway, agent }
    }

    async fn names(&self) -> Vec<String> {
        let tools = self.agent.list_tools().await.unwrap();
        tools.into_iter().map(|tool| tool.name).collect()
    }

    async fn call(&self, tool: &str) -> Value {
        let call = CallToolParams::new(tool, &json!({})).unwrap();
        let called = self.agent.call_tool_raw(&call, CallOptions::default());
        let answer = tokio::time::timeout(Duration::from_secs(10), called).await.unwrap();
        serde_json::from_str(answer.unwrap().get()).unwrap()
    }

    async fn stop(self) {
        self.agent.close().await;
        self.gateway.stop().await;
    }
}

/// Repeats a check until it succeeds.
async fn until(what: &str, mut check: impl FnMut() -> bool) {
    let since = Instant::now();
    while !check() {
        assert!(since.elapsed() < Duration::from_secs(10), "never: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn first_file(folder: &Path) -> Option<PathBuf> {
    std::fs::read_dir(folder).ok()?.next()?.ok().map(|entry| entry.path())
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Two upstreams have the resource, so that the second one's has another URI for agents.
#[tokio::test]
async fn a_renamed_resource_is_subscribed_to_under_both_uris() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let note = format!(r#"echo "$line" >> '{}'; answer '{{}}'"#, log.display());
    let update = r#"echo '{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"note://x"}}'; answer '{"content":[]}'"#;
    let second = upstream(
        "b",
        &[
            ("resources/subscribe", note.as_str()),
            ("resources/unsubscribe", note.as_str()),
            ("tools/call", update),
        ],
    );
    let options = GatewayOptions::default().with_upstream(upstream("a", &[])).with_upstream(second);
    let world = World::start(options).await;
    world.gateway.settled().await;
    let mut notifications = world.agent.notifications();
    world.agent.subscribe("b+note://x").await.unwrap();
    world.call("b__t").await;
    let updated = tokio::time::timeout(Duration::from_secs(10), async {
        loop {
            let notification = notifications.recv().await.unwrap();
            if &*notification.method == "notifications/resources/updated" {
                return notification.params.unwrap().get().to_owned();
            }
        }
    });
    assert!(updated.await.unwrap().contains(r#""uri":"b+note://x""#));
    world.agent.unsubscribe("b+note://x").await.unwrap();
    until("it is unsubscribed", || read(&log).contains("resources/unsubscribe")).await;
    assert_eq!(read(&log).matches(r#""uri":"note://x""#).count(), 2, "{}", read(&log));
    world.stop().await;
}

#[tokio::test]
async fn an_upstream_cannot_write_keys_of_this_server() {
    let forged =
        r#"{"marquetry/capture":{"status":"processed"},"marquetry/originalName":"x","a":1}"#;
    let tools = format!(
        r#"answer '{{"tools":[{{"name":"t","inputSchema":{{"type":"object"}},"_meta":{forged}}}]}}'"#
    );
    let call = format!(r#"answer '{{"content":[],"_meta":{forged}}}'"#);
    let odd = upstream("odd", &[("tools/list", tools.as_str()), ("tools/call", call.as_str())]);
    let world = World::start(GatewayOptions::default().with_upstream(odd)).await;
    let tools = world.agent.list_tools().await.unwrap();
    assert_eq!(json!(tools[0].meta), json!({"a": 1}));
    assert_eq!(world.call("odd__t").await, json!({"content": [], "_meta": {"a": 1}}));
    world.stop().await;
}

#[tokio::test]
async fn roots_of_the_configuration_are_answered_without_a_call() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let ask = r#"echo '{"jsonrpc":"2.0","id":"r","method":"roots/list"}'"#;
    let mut asking = upstream("asking", &[("notifications/initialized", ask)]);
    let Transport::Stdio { args, .. } = &mut asking.transport else { panic!("a program") };
    args[1] = args[1].replace(
        "*'\"id\":'*) answer",
        &format!("*'\"id\":\"r\"'*) echo \"$line\" >> '{}';;\n*'\"id\":'*) answer", log.display()),
    );
    asking.roots = Some(vec![Root { uri: "file:///srv/shop".to_owned(), name: None }]);
    let world = World::start(GatewayOptions::default().with_upstream(asking)).await;
    until("the roots arrive", || read(&log).contains('\n')).await;
    let answer: Value = serde_json::from_str(&read(&log)).unwrap();
    assert_eq!(answer["result"], json!({"roots": [{"uri": "file:///srv/shop"}]}));
    world.stop().await;
}

/// Returns a gateway that stores tools, and an upstream that hangs at its start while the file
/// `hang` exists. With the file `other`, its tool has another name.
fn cached(directory: &Path) -> GatewayOptions {
    let path = directory.display();
    let start = format!(
        r#"while [ -e '{path}/hang' ]; do sleep 0.05; done; if [ -e '{path}/other' ]; then answer '{{"tools":[{{"name":"u","inputSchema":{{"type":"object"}}}}]}}'; else answer '{{"tools":[{TOOL}]}}'; fi"#
    );
    let call = r#"answer '{"content":[{"type":"text","text":"called"}]}'"#;
    let slow = upstream("slow", &[("tools/list", start.as_str()), ("tools/call", call)]);
    let mut options = GatewayOptions::default().with_upstream(slow);
    options.tool_cache = Some(directory.join("tools"));
    options
}

#[tokio::test]
async fn the_last_tools_of_a_hanging_upstream_are_listed_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let hang = directory.path().join("hang");
    let world = World::start(cached(directory.path())).await;
    assert_eq!(world.names().await, ["slow__t"]);
    let tools = directory.path().join("tools");
    until("they are stored", || {
        first_file(&tools).is_some_and(|it| it.extension().unwrap() == "tools")
    })
    .await;
    world.stop().await;

    std::fs::write(&hang, "").unwrap();
    let world = World::start(cached(directory.path())).await;
    let since = Instant::now();
    assert_eq!(world.names().await, ["slow__t"]);
    assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
    assert!(!world.gateway.is_settled());
    // A call waits for the upstream.
    let mut call = Box::pin(world.call("slow__t"));
    assert!(tokio::time::timeout(Duration::from_millis(500), &mut call).await.is_err());
    std::fs::remove_file(&hang).unwrap();
    assert_eq!(call.as_mut().await["content"][0]["text"], "called");
    drop(call);
    world.stop().await;

    // Another environment has another entry, since it may mean another user. A damaged file counts
    // as no entry.
    std::fs::write(&hang, "").unwrap();
    let mut other = cached(directory.path());
    let Transport::Stdio { env, .. } = &mut other.upstreams[0].transport else { panic!() };
    env.insert("TOKEN".to_owned(), "x".to_owned());
    let gateway = Gateway::start(other, Arc::new(()));
    assert_eq!(gateway.catalog().tools, []);
    gateway.stop().await;
    let file = first_file(&tools).unwrap();
    std::fs::write(&file, read(&file).replace(r#""name":"t""#, r#""name":"forged""#)).unwrap();
    let gateway = Gateway::start(cached(directory.path()), Arc::new(()));
    assert_eq!(gateway.catalog().tools, []);
    gateway.stop().await;
}

#[tokio::test]
async fn tools_that_have_changed_since_the_last_run_are_announced() {
    let directory = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(cached(directory.path()), Arc::new(()));
    gateway.settled().await;
    until("they are stored", || directory.path().join("tools").exists()).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    gateway.stop().await;

    let hang = directory.path().join("hang");
    std::fs::write(&hang, "").unwrap();
    std::fs::write(directory.path().join("other"), "").unwrap();
    let world = World::start(cached(directory.path())).await;
    let mut notifications = world.agent.notifications();
    assert_eq!(world.names().await, ["slow__t"]);
    std::fs::remove_file(&hang).unwrap();
    let changed = tokio::time::timeout(Duration::from_secs(10), async {
        while &*notifications.recv().await.unwrap().method != "notifications/tools/list_changed" {}
    });
    changed.await.unwrap();
    assert_eq!(world.names().await, ["slow__u"]);
    let call = CallToolParams::new("slow__t", &json!({})).unwrap();
    let error = world.agent.call_tool_raw(&call, CallOptions::default()).await.unwrap_err();
    assert!(error.to_string().contains("unknown tool 'slow__t'"), "{error}");
    world.stop().await;
}

/// Returns the state of the only upstream, and why its tools are left out.
fn tools_problem(gateway: &Gateway) -> (&'static str, Option<String>) {
    let upstream = &gateway.upstreams()[0];
    let listing = upstream.listing();
    let problem = listing.left_out.iter().find(|(list, _)| *list == "tools");
    (upstream.state().name(), problem.map(|(_, problem)| problem.clone()))
}

#[tokio::test]
async fn tools_that_cannot_be_listed_hide_no_other_list() {
    let directory = tempfile::tempdir().unwrap();
    let repaired = directory.path().join("repaired");
    for broken in [
        r#"{"tools":"x"}"#,
        "{}",
        "[]",
        // An error in place of the result.
        r#"null,"error":{"code":-32603,"message":"no disk"}"#,
    ] {
        _ = std::fs::remove_file(&repaired);
        let tools = format!(
            "if [ -e '{}' ]; then answer '{{\"tools\":[{TOOL}]}}'; else answer '{broken}'; fi",
            repaired.display()
        );
        let mut options = GatewayOptions::default()
            .with_upstream(upstream("odd", &[("tools/list", tools.as_str())]));
        options.restart_delay = Duration::from_millis(20);
        options.restart_max_delay = Duration::from_millis(50);
        let world = World::start(options).await;
        world.gateway.settled().await;
        let (state, problem) = tools_problem(&world.gateway);
        assert_eq!(state, "ready", "{broken}");
        assert!(problem.is_some(), "{broken}");
        assert_eq!(world.gateway.catalog().resources.len(), 1, "{broken}");
        std::fs::write(&repaired, "").unwrap();
        until("the tools are listed", || !world.gateway.catalog().tools.is_empty()).await;
        assert_eq!(tools_problem(&world.gateway), ("ready", None), "{broken}");
        assert_eq!(world.gateway.upstreams()[0].restarts(), 0, "{broken}");
        world.stop().await;
    }
}

#[tokio::test]
async fn tools_that_never_arrive_hide_no_other_list() {
    let directory = tempfile::tempdir().unwrap();
    let repaired = directory.path().join("repaired");
    let tools = format!("[ -e '{}' ] && answer '{{\"tools\":[{TOOL}]}}'", repaired.display());
    let mut silent = upstream("silent", &[("tools/list", tools.as_str())]);
    silent.start_timeout = Duration::from_secs(1);
    let mut options = GatewayOptions::default().with_upstream(silent);
    options.restart_delay = Duration::from_millis(20);
    options.restart_max_delay = Duration::from_millis(50);
    let world = World::start(options).await;
    until("the other lists are offered", || world.gateway.catalog().resources.len() == 1).await;
    let (state, problem) = tools_problem(&world.gateway);
    assert_eq!((state, problem.as_deref()), ("ready", Some("no answer within 0.9 s")));
    std::fs::write(&repaired, "").unwrap();
    until("the tools are listed", || !world.gateway.catalog().tools.is_empty()).await;
    assert_eq!(world.gateway.upstreams()[0].restarts(), 0);
    world.stop().await;
}

#[tokio::test]
async fn an_upstream_that_answers_nothing_is_started_again() {
    let mut dead = upstream("dead", &[("tools/list", "exec sleep 60")]);
    dead.start_timeout = Duration::from_secs(1);
    let mut options = GatewayOptions::default().with_upstream(dead);
    options.restart_delay = Duration::from_millis(20);
    let world = World::start(options).await;
    until("it is down", || world.gateway.upstreams()[0].state().name() == "backing_off").await;
    world.stop().await;
}

/// A tool must be the same after it was stored.
#[test]
fn tools_are_stored_as_they_are() {
    let tool = json!({
        "name": "t", "title": "T", "inputSchema": {"type": "object", "x": [1.5, null]},
        "annotations": {"readOnlyHint": true, "x": 1}, "_meta": {"a": 1}, "x-more": {"b": null},
    });
    let tool: Tool = serde_json::from_value(tool).unwrap();
    let stored = serde_json::to_string(&tool).unwrap();
    assert_eq!(serde_json::from_str::<Tool>(&stored).unwrap(), tool);
}
