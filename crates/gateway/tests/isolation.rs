//! Upstreams in shell with an instance for each caller or session.
#![cfg(target_os = "linux")]

use std::{
    collections::HashSet,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex, OnceLock},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use http::request::Parts;
use marquetry_gateway::{
    Gateway, GatewayOptions, InstanceCount, Isolation, List, Transport, UpstreamOptions,
};
use marquetry_policy::{Access, Patterns, Policy, Rule};
use marquetry_protocol::{
    Revision, RpcError,
    client::{
        CallOptions, Client, ClientError, ClientHandler, ClientOptions, HttpTarget, RevisionChoice,
        ServerNotification,
    },
    server::{
        ChangeListener, ConversationId, Handler, Principal, Reply, RequestContext, Server,
        ServerDescription,
        http::{Authenticator, Denial, HttpEndpoint, HttpOptions, serve},
        serve_pipe,
    },
    types::{
        CallToolParams, ClientCapabilities, ListChanged, ListToolsResult, LogLevel,
        ReadResourceParams, ResourcesCapability,
    },
};
use serde_json::{Value, json, value::RawValue};
use tokio::{net::TcpListener, sync::mpsc};
use tokio_util::sync::{CancellationToken, DropGuard};

/// A server that keeps notes in its memory, and shows them in every kind of message. `$0` is a
/// folder with a file for each process, `$1` a name for the configuration.
const NOTES: &str = r#"
sleep 100 & echo $! > "$0/child-$$"; echo $$ > "$0/own-$$"
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
notify() { printf '{"jsonrpc":"2.0","method":"notifications/%s","params":%s}\n' "$1" "$2"; }
text() { answer '{"content":[{"type":"text","text":"'"$1"'"}]}'; }
notes="$1 $INSTANCE"
while read -r line; do id=${line#*'"id":'}; id=${id%%[,\}]*}
case "$line" in
*'"method":"initialize"'*) answer '{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{"subscribe":true},"logging":{}},"serverInfo":{"name":"s","version":"1"}}';;
*'"method":"tools/list"'*)
    tools=; for tool in say ask fail pid slow page visited; do tools="$tools,"'{"name":"'$tool'","inputSchema":{"type":"object"}}'; done
    answer '{"tools":['"${tools#,}"']}';;
*'"method":"resources/list"'*) answer '{"resources":[{"uri":"note://all","name":"all"}]}';;
*'"method":"resources/read"'*) answer '{"contents":[{"uri":"note://all","text":"'"$notes"'"}]}';;
*'"name":"say"'*)
    word=${line#*'"word":"'}; notes="$notes ${word%%\"*}"
    echo "notes are now $notes" >&2
    case "$line" in *progressToken*)
        token=${line#*'"progressToken":'}; token=${token%%[,\}]*}
        notify progress '{"progressToken":'"$token"',"progress":1,"message":"'"$notes"'"}';;
    esac
    notify message '{"level":"debug","data":"'"$notes"'"}'
    notify resources/updated '{"uri":"note://all"}'
    text "$notes";;
*'"name":"ask"'*)
    printf '{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"text","text":"%s"}}],"maxTokens":9}}\n' "$notes"
    read -r line
    text "$notes";;
*'"name":"fail"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"no: %s"}}\n' "$id" "$notes";;
*'"name":"page"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32042,"message":"visit","data":{"elicitations":[{"mode":"url","elicitationId":"e1","url":"https://a.example/","message":"go"}]}}}\n' "$id";;
*'"name":"visited"'*) notify elicitation/complete '{"elicitationId":"e1"}'; text done;;
*'"name":"pid"'*) text $$;;
*'"name":"slow"'*) sleep 0.5; text $$;;
*'"id":'*) answer '{}';;
esac; done"#;

/// Returns the upstream `notes`, whose processes leave their ids in a folder.
fn notes(folder: &Path, isolation: Isolation) -> UpstreamOptions {
    let args = ["-c", NOTES, folder.to_str().unwrap(), "none"];
    let mut transport = Transport::stdio("sh", args);
    let Transport::Stdio { env, .. } = &mut transport else { unreachable!("it is a program") };
    env.insert("INSTANCE".to_owned(), "${instance:id}".to_owned());
    let mut options = UpstreamOptions::new("notes", transport);
    options.revision = Some(Revision::V2025_11_25);
    options.isolation = isolation;
    options
}

/// Passes the changes for single clients to the server, which starts after the gateway. Other
/// changes of resources must not come.
#[derive(Default)]
struct Changes(OnceLock<Server>);

impl ChangeListener for Changes {
    fn tools_changed(&self) {}
    fn prompts_changed(&self) {}
    fn resources_changed(&self) {}
    fn prompts_changed_for(&self, _: Option<&Principal>) {}
    fn resources_changed_for(&self, _: Option<&Principal>) {}
    fn resource_updated(&self, uri: &str) {
        panic!("an update of {uri} for all clients");
    }
    fn resource_updated_for(&self, uri: &str, _: Option<&Principal>) {
        self.resource_updated(uri);
    }
    fn resource_updated_in(&self, uri: &str, client: ConversationId) {
        if let Some(server) = self.0.get() {
            server.notifier().resource_updated_in(uri, client);
        }
    }
}

struct Front(Arc<Gateway>);

#[async_trait]
impl Handler for Front {
    fn describe(&self) -> ServerDescription {
        let mut description = ServerDescription::default();
        description.capabilities.tools = Some(ListChanged { list_changed: true });
        description.capabilities.logging = Some(Default::default());
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
        let answer = self.0.call_tool(call, cx).await?;
        Ok(Reply::raw(answer.result))
    }

    async fn read_resource(
        &self,
        params: ReadResourceParams,
        cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        self.0.read_resource(params, cx).await
    }

    async fn subscribe(&self, uri: &str, cx: &RequestContext) -> Result<(), RpcError> {
        self.0.subscribe(uri, cx).await
    }

    async fn unsubscribe(&self, uri: &str, client: ConversationId) {
        self.0.unsubscribe(uri, client).await;
    }

    async fn set_log_level(&self, level: LogLevel, cx: &RequestContext) {
        self.0.set_log_level(level, cx).await;
    }
}

/// The token is the name of the principal.
struct Names;

#[async_trait]
impl Authenticator for Names {
    async fn authenticate(&self, request: &Parts) -> Result<Arc<Principal>, Denial> {
        let name = request.headers["authorization"].to_str().unwrap();
        Ok(Arc::new(Principal::new(None, name)))
    }
}

struct World {
    gateway: Arc<Gateway>,
    server: Server,
    folder: tempfile::TempDir,
    address: SocketAddr,
    /// An address without authentication.
    open: SocketAddr,
    _stop: DropGuard,
}

impl World {
    async fn start(isolation: Isolation, change: impl FnOnce(&mut UpstreamOptions)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut upstream = notes(folder.path(), isolation);
        change(&mut upstream);
        let mut options = GatewayOptions::default().with_upstream(upstream);
        options.stop_grace = Duration::from_millis(200);
        options.restart_delay = Duration::from_millis(1);
        options.restart_max_delay = Duration::from_millis(20);
        let changes = Arc::new(Changes::default());
        let gateway = Gateway::start(options, changes.clone());
        gateway.settled().await;
        let server = Server::new(Front(gateway.clone()));
        assert!(changes.0.set(server.clone()).is_ok());
        let stop = CancellationToken::new();
        let with_tokens =
            HttpOptions { authenticator: Some(Arc::new(Names)), ..HttpOptions::default() };
        let address = listen(&server, with_tokens, &stop).await;
        let open = listen(&server, HttpOptions::default(), &stop).await;
        Self { gateway, server, folder, address, open, _stop: stop.drop_guard() }
    }

    async fn agent(&self, name: &str, revision: Revision) -> Agent {
        let token = ("authorization".to_owned(), name.to_owned());
        Agent::connect(self.address, vec![token], revision).await.unwrap()
    }

    fn count(&self) -> InstanceCount {
        self.gateway.upstreams()[0].instances().unwrap()
    }

    /// Returns the processes that have been started so far.
    fn processes(&self, kind: &str) -> HashSet<u32> {
        let files = std::fs::read_dir(self.folder.path()).unwrap();
        let files = files.map(|file| file.unwrap().path());
        let of_kind =
            files.filter(|file| file.file_name().unwrap().to_str().unwrap().starts_with(kind));
        // A process may have made its file, and not written into it yet.
        of_kind.filter_map(|file| read(&file).trim().parse().ok()).collect()
    }

    /// Stops the gateway, and checks that no process is left.
    async fn stop(self) {
        self.gateway.stop().await;
        let left = |kind| self.processes(kind).into_iter().filter(|id| is_alive(*id)).count();
        until("the children end", || left("child") == 0).await;
        assert_eq!(left("own"), 0);
    }
}

async fn listen(server: &Server, options: HttpOptions, stop: &CancellationToken) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let endpoint = HttpEndpoint::new(server.clone(), options);
    let stop = stop.clone();
    tokio::spawn(async move { serve(listener, endpoint).until(stop).await.unwrap() });
    address
}

/// An agent, and all that it was told.
struct Agent {
    client: Client,
    heard: Arc<Mutex<Vec<String>>>,
}

struct Listener(Arc<Mutex<Vec<String>>>);

#[async_trait]
impl ClientHandler for Listener {
    async fn request(
        &self,
        method: &str,
        params: Option<&RawValue>,
    ) -> Result<Box<RawValue>, RpcError> {
        let params = params.map_or("", RawValue::get);
        self.0.lock().unwrap().push(format!("{method} {params}"));
        let answer = r#"{"role":"assistant","content":{"type":"text","text":"yes"},"model":"m"}"#;
        Ok(RawValue::from_string(answer.to_owned()).unwrap())
    }

    fn notified(&self, notification: &ServerNotification) {
        let params = notification.params.as_deref().map_or("", RawValue::get);
        self.0.lock().unwrap().push(format!("{} {params}", notification.method));
    }
}

impl Agent {
    async fn connect(
        address: SocketAddr,
        headers: Vec<(String, String)>,
        revision: Revision,
    ) -> Result<Self, ClientError> {
        let heard = Arc::<Mutex<Vec<_>>>::default();
        let options = Self::options(revision, &heard);
        let target = HttpTarget {
            url: format!("http://{address}/mcp"),
            headers: headers.into_iter().collect(),
        };
        let client = Client::http(target, options).await?;
        Ok(Self { client, heard })
    }

    fn options(revision: Revision, heard: &Arc<Mutex<Vec<String>>>) -> ClientOptions {
        let mut capabilities = ClientCapabilities::default();
        capabilities.sampling = ClientCapabilities::all().sampling;
        ClientOptions {
            revision: RevisionChoice::Only(revision),
            capabilities,
            handler: Arc::new(Listener(heard.clone())),
            ..ClientOptions::default()
        }
    }

    async fn try_call(&self, tool: &str, arguments: Value) -> Result<String, ClientError> {
        let call = CallToolParams::new(format!("notes__{tool}"), &arguments).unwrap();
        let (progress, mut reports) = mpsc::channel(8);
        let options = CallOptions {
            progress: Some(progress),
            log_level: Some(LogLevel::Debug),
            ..CallOptions::default()
        };
        let answer = self.client.call_tool_raw(&call, options);
        let answer = tokio::time::timeout(Duration::from_secs(20), answer).await;
        let answer = answer.expect("no call waits for ever")?;
        while let Ok(report) = reports.try_recv() {
            self.heard.lock().unwrap().push(format!("progress {:?}", report.message));
        }
        let answer: Value = serde_json::from_str(answer.get()).unwrap();
        Ok(answer["content"][0]["text"].as_str().unwrap_or_default().to_owned())
    }

    async fn call(&self, tool: &str, arguments: Value) -> String {
        self.try_call(tool, arguments).await.unwrap()
    }

    async fn say(&self, word: &str) -> String {
        self.call("say", json!({"word": word})).await
    }

    async fn pid(&self) -> u32 {
        self.call("pid", json!({})).await.parse().unwrap()
    }

    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }

    async fn hears(&self, start: &str, part: &str) {
        until(&format!("{start} with {part}"), || {
            self.heard().iter().any(|heard| heard.starts_with(start) && heard.contains(part))
        })
        .await;
    }

    fn updates(&self) -> usize {
        let updates = "notifications/resources/updated";
        self.heard().iter().filter(|heard| heard.starts_with(updates)).count()
    }
}

async fn until(what: &str, mut check: impl FnMut() -> bool) {
    let since = Instant::now();
    while !check() {
        assert!(since.elapsed() < Duration::from_secs(10), "never: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Returns whether a process runs. One that has ended may not have been waited for yet.
fn is_alive(id: u32) -> bool {
    let state = read(&PathBuf::from(format!("/proc/{id}/stat")));
    state.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

fn kill(id: u32) {
    let killed = Command::new("sh").args(["-c", &format!("kill -9 {id}")]).output();
    assert!(killed.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_crosses_from_one_principal_to_another() {
    let world = World::start(Isolation::Principal, |_| {}).await;
    let agents = [
        ("anna", world.agent("anna", Revision::V2025_11_25).await),
        ("bert", world.agent("bert", Revision::V2025_11_25).await),
        ("cleo", world.agent("cleo", Revision::V2026_07_28).await),
        ("dora", world.agent("dora", Revision::V2026_07_28).await),
    ];
    for (_, agent) in &agents {
        if agent.client.server().revision == Revision::V2025_11_25 {
            agent.client.set_log_level(LogLevel::Debug).await.unwrap();
        }
        agent.client.subscribe("note://all").await.unwrap();
    }
    for (name, agent) in &agents {
        let is_session = agent.client.server().revision == Revision::V2025_11_25;
        let answer = agent.say(&format!("{name}-1")).await;
        assert!(answer.starts_with("none ") && answer.ends_with(&format!(" {name}-1")), "{answer}");
        agent.hears("progress", &format!("{name}-1")).await;
        agent.hears("notifications/message", &format!("{name}-1")).await;
        agent.hears("notifications/resources/updated", "note://all").await;
        agent.call("ask", json!({})).await;
        agent.hears("sampling/createMessage", &format!("{name}-1")).await;
        let error = agent.try_call("fail", json!({})).await.unwrap_err().to_string();
        assert!(error.contains(&format!("{name}-1")), "{error}");
        let read = json!(agent.client.read_resource("note://all").await.unwrap()).to_string();
        assert!(read.contains(&format!("{name}-1")), "{read}");
        assert_eq!(agent.updates(), 1, "{is_session}");
        let own = format!("{name}-");
        let others = agents.iter().map(|(other, _)| format!("{other}-")).filter(|it| *it != own);
        for other in others {
            let all = format!("{answer} {error} {read} {:?}", agent.heard());
            assert!(!all.contains(&other), "{name} was told {all}");
        }
    }
    // Both servers have a page with the same id.
    let visited = "notifications/elicitation/complete";
    for (_, agent) in &agents[..2] {
        agent.try_call("page", json!({})).await.unwrap_err();
    }
    agents[1].1.call("visited", json!({})).await;
    agents[1].1.hears(visited, "e1").await;
    // After all calls, each has heard of its own update and page alone.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(agents.each_ref().map(|(_, agent)| agent.updates()), [1; 4]);
    assert!(!agents[0].1.heard().iter().any(|heard| heard.starts_with(visited)));
    let mut want = InstanceCount::default();
    want.ready = 4;
    want.max = 16;
    assert_eq!(world.count(), want);
    // Another agent of the same principal shares its instance.
    let again = world.agent("anna", Revision::V2026_07_28).await;
    assert!(again.say("anna-2").await.ends_with(" anna-1 anna-2"));
    until("anna hears of it", || agents[0].1.updates() == 2).await;
    assert_eq!(agents[1].1.updates(), 1);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_session_has_an_instance_which_ends_with_it() {
    let world = World::start(Isolation::Session, |_| {}).await;
    let one = world.agent("anna", Revision::V2025_11_25).await;
    let two = world.agent("anna", Revision::V2025_11_25).await;
    let stateless = world.agent("anna", Revision::V2026_07_28).await;
    let ids = [one.pid().await, two.pid().await, stateless.pid().await];
    assert_eq!(HashSet::from(ids).len(), 3);
    assert_eq!(stateless.pid().await, ids[2]);
    assert!(!one.say("x").await.contains("lists"), "the id of the upstream itself");

    // Without a token, stateless requests cannot be told apart; sessions can.
    let open = Agent::connect(world.open, Vec::new(), Revision::V2025_11_25).await.unwrap();
    assert!(!ids.contains(&open.pid().await));
    let unknown = Agent::connect(world.open, Vec::new(), Revision::V2026_07_28).await.unwrap();
    let error = unknown.try_call("pid", json!({})).await.unwrap_err().to_string();
    assert!(error.contains("isolation = \"session\"") && error.contains("a token"), "{error}");
    assert!(unknown.client.read_resource("note://all").await.is_err());

    one.client.subscribe("note://all").await.unwrap();
    one.client.close().await;
    until("the process ends", || !is_alive(ids[0])).await;
    assert!(is_alive(ids[1]));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_of_a_pipe_is_one_session() {
    let world = World::start(Isolation::Session, |_| {}).await;
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let (reader, writer) = tokio::io::split(theirs);
        let server = world.server.clone();
        tokio::spawn(async move {
            serve_pipe(&server, reader, writer, CancellationToken::new()).await.unwrap();
        });
        let heard = Arc::<Mutex<Vec<_>>>::default();
        let (reader, writer) = tokio::io::split(ours);
        let options = Agent::options(revision, &heard);
        let agent =
            Agent { client: Client::connect(reader, writer, options).await.unwrap(), heard };
        assert_eq!(agent.pid().await, agent.pid().await);
        agent.client.close().await;
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_idlest_instance_makes_room_and_a_busy_one_does_not() {
    let world = World::start(Isolation::Principal, |it| it.max_instances = 2).await;
    let anna = world.agent("anna", Revision::V2026_07_28).await;
    let bert = world.agent("bert", Revision::V2026_07_28).await;
    let cleo = world.agent("cleo", Revision::V2026_07_28).await;
    let of_anna = anna.pid().await;
    let of_bert = bert.pid().await;
    cleo.pid().await;
    assert!(!is_alive(of_anna), "its place was needed, and is free before the next one starts");
    assert_eq!(bert.pid().await, of_bert);

    let busy = async { tokio::join!(bert.call("slow", json!({})), cleo.call("slow", json!({}))) };
    let refused = async {
        tokio::time::sleep(Duration::from_millis(150)).await;
        anna.try_call("pid", json!({})).await.unwrap_err().to_string()
    };
    let (_, error) = tokio::join!(busy, refused);
    assert!(error.contains("all 2 instances are in use (max_instances"), "{error}");
    // An instance with subscribers is in use.
    bert.client.subscribe("note://all").await.unwrap();
    anna.pid().await;
    assert_eq!(bert.pid().await, of_bert);
    let alive = world.processes("own").into_iter().filter(|id| is_alive(*id)).count();
    assert_eq!(alive, 3, "two instances, and the upstream itself");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_instance_ends_and_starts_again_with_the_same_id() {
    let idle = Duration::from_millis(300);
    let world = World::start(Isolation::Principal, |it| it.instance_idle = idle).await;
    let anna = world.agent("anna", Revision::V2026_07_28).await;
    let first = anna.say("x").await;
    let id = anna.pid().await;
    // A call that takes longer keeps it.
    assert_eq!(anna.call("slow", json!({})).await, id.to_string());
    until("it ends", || !is_alive(id) && world.count().ready == 0).await;
    let second = anna.say("y").await;
    let bert = world.agent("bert", Revision::V2026_07_28).await.say("x").await;
    fn of(answer: &str) -> &str {
        answer.split(' ').nth(1).unwrap()
    }
    assert_eq!(of(&first), of(&second));
    assert!(first.ends_with(" x") && second.ends_with(" y") && !second.contains(" x"));
    assert_ne!(of(&first), of(&bert));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_finish_and_subscriptions_continue_when_the_options_change() {
    let world = World::start(Isolation::Principal, |_| {}).await;
    let anna = world.agent("anna", Revision::V2025_11_25).await;
    anna.client.subscribe("note://all").await.unwrap();
    let old = anna.pid().await;
    let change = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let mut changed = notes(world.folder.path(), Isolation::Principal);
        let Transport::Stdio { args, .. } = &mut changed.transport else { unreachable!() };
        args[3] = "new".to_owned();
        assert_eq!(world.gateway.apply(vec![changed]).restarted, ["notes"]);
    };
    let (slow, ()) = tokio::join!(anna.call("slow", json!({})), change);
    assert_eq!(slow, old.to_string(), "the call finishes where it began");
    until("it hears that the resource may have changed", || anna.updates() == 1).await;
    until("the old instance ends", || !is_alive(old)).await;
    assert!(anna.say("x").await.starts_with("new "));
    until("it is still subscribed", || anna.updates() == 2).await;

    anna.client.unsubscribe("note://all").await.unwrap();
    anna.say("y").await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(anna.updates(), 2);
    world.gateway.apply(Vec::new());
    until("all end", || world.processes("own").iter().all(|id| !is_alive(*id))).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_instance_starts_again_and_its_subscriptions_with_it() {
    let world = World::start(Isolation::Principal, |_| {}).await;
    let anna = world.agent("anna", Revision::V2025_11_25).await;
    anna.client.subscribe("note://all").await.unwrap();
    kill(anna.pid().await);
    until("it hears that the resource may have changed", || anna.updates() == 1).await;
    assert!(!anna.say("x").await.contains("lists"));
    until("it is subscribed again", || anna.updates() == 2).await;
    assert_eq!(world.gateway.upstreams()[0].restarts(), 1);
    world.gateway.restart("notes").unwrap();
    until("all start again", || world.gateway.upstreams()[0].restarts() == 3).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn subscribers_that_may_no_longer_read_a_resource_hear_nothing() {
    let world = World::start(Isolation::Principal, |_| {}).await;
    let anna = world.agent("anna", Revision::V2025_11_25).await;
    let bert = world.agent("bert", Revision::V2025_11_25).await;
    for agent in [&anna, &bert] {
        agent.client.subscribe("note://all").await.unwrap();
        agent.say("x").await;
        until("it hears", || agent.updates() == 1).await;
    }
    let tools = Rule::new().tools(Access::new().allow(Patterns::names(["*"]).unwrap()));
    let resources = Access::new().allow(Patterns::uris(["note://all"]).unwrap());
    let reads = Rule::new().principals(Patterns::names(["bert"]).unwrap()).resources(resources);
    world.gateway.set_policy(Policy::new([tools, reads]));
    anna.say("y").await;
    bert.say("y").await;
    until("bert hears", || bert.updates() == 2).await;
    assert_eq!(anna.updates(), 1);
    assert!(anna.client.read_resource("note://all").await.is_err());
    world.stop().await;
}

#[tokio::test]
async fn lines_of_an_instance_have_its_number_and_no_name() {
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);
    impl std::io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
    // For all threads: lines of the others would else switch off those of this one.
    tracing::subscriber::set_global_default(subscriber.finish()).unwrap();
    let world = World::start(Isolation::Principal, |_| {}).await;
    world.agent("dora@example.com", Revision::V2026_07_28).await.say("numbered").await;
    let log = || String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    until("the line is logged", || log().contains("numbered")).await;
    let log = log();
    let line = log.lines().find(|line| line.contains("numbered")).unwrap();
    assert!(line.contains("upstream=\"notes\" instance="), "{line}");
    assert!(log.contains("instance{number="), "{log}");
    assert!(!log.contains("dora"), "{log}");
    world.stop().await;
}

/// Calls one instance until told to stop. Returns the numbers of answers and of errors.
async fn call_again_and_again(agent: &Agent, name: &str, stop: &CancellationToken) -> (u32, u32) {
    let mut answers = 0;
    let mut errors = 0;
    while !stop.is_cancelled() {
        match agent.try_call("say", json!({"word": format!("{name}-w")})).await {
            Ok(answer) => {
                let words = answer.split(' ').skip(2);
                assert!(words.clone().count() > 0);
                words.for_each(|word| assert_eq!(word, format!("{name}-w"), "{answer}"));
                answers += 1;
            }
            Err(error) => {
                assert!(error.to_string().contains("notes"), "{error}");
                errors += 1;
            }
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    (answers, errors)
}

/// Kills instances 200 times at random while four agents of two principals call them.
#[tokio::test(flavor = "multi_thread")]
async fn kills_of_instances_leave_no_process_and_no_open_call() {
    const KILLS: usize = 200;
    let world = World::start(Isolation::Principal, |_| {}).await;
    let stop = CancellationToken::new();
    let mut callers = tokio::task::JoinSet::new();
    for (name, revision) in [
        ("anna", Revision::V2025_11_25),
        ("bert", Revision::V2025_11_25),
        ("anna", Revision::V2026_07_28),
        ("bert", Revision::V2026_07_28),
    ] {
        let agent = world.agent(name, revision).await;
        let stop = stop.clone();
        callers.spawn(async move {
            let counts = call_again_and_again(&agent, name, &stop).await;
            (agent, name, counts)
        });
    }
    let mut random = 88_172_645_463_325_252_u64;
    let mut killed = HashSet::new();
    let until_then = Instant::now() + Duration::from_mins(1);
    while killed.len() < KILLS {
        assert!(Instant::now() < until_then, "only {} kills", killed.len());
        // xorshift64: the same moments in each run, as far as the machine allows.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        tokio::time::sleep(Duration::from_micros(random % 40_000)).await;
        let alive: Vec<_> = world.processes("own").difference(&killed).copied().collect();
        let mut alive: Vec<_> = alive.into_iter().filter(|id| is_alive(*id)).collect();
        alive.sort_unstable();
        if let Some(&victim) = alive.get(random as usize % alive.len().max(1)) {
            kill(victim);
            killed.insert(victim);
        }
    }
    stop.cancel();
    let mut all = (0, 0);
    while let Some(caller) = callers.join_next().await {
        let (agent, name, (answers, errors)) = caller.unwrap();
        assert!(answers > 10, "{name}: {answers} answers, {errors} errors");
        all = (all.0 + answers, all.1 + errors);
        let others = if name == "anna" { "bert-" } else { "anna-" };
        assert!(!agent.heard().iter().any(|heard| heard.contains(others)), "{name}");
    }
    println!("{KILLS} kills, {} answers, {} errors", all.0, all.1);
    assert!(all.1 > 0, "no kill met a call");
    world.stop().await;
}
