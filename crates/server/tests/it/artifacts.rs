//! Artifacts: who can see them, how a full store removes them, and what health reports.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use async_trait::async_trait;
use marquetry::{App, Config};
use marquetry_artifact_bucket::{BucketOptions, BucketStore};
use marquetry_artifacts::{
    ArtifactStore, MemoryStore, NewArtifact, Record, Scope, StoreError,
    store::{Listing, Page},
};
use marquetry_protocol::{
    Revision,
    client::{Client, ClientOptions, HttpTarget, RevisionChoice},
    types::Implementation,
};
use serde_json::{Value, json};

use crate::{
    support::{Running, ask, call, rpc_error, within},
    upstream::{HttpUpstream, PNG, SAVED_IMAGES},
};

/// A server with an upstream.
async fn server(toml: &str) -> (Running, HttpUpstream) {
    let web = HttpUpstream::start().await;
    let server = Running::start(&format!("{toml}\n{}{SAVED_IMAGES}", web.toml("web"))).await;
    (server, web)
}

/// Connects an agent with this token.
async fn agent_with_token(server: &Running, token: &str, revision: Revision) -> Client {
    let mut target =
        HttpTarget { url: format!("http://{}/mcp", server.address), ..HttpTarget::default() };
    target.headers.insert("authorization".to_owned(), format!("Bearer {token}"));
    let options =
        ClientOptions { revision: RevisionChoice::Only(revision), ..ClientOptions::default() };
    within(Client::http(target, options)).await.unwrap()
}

/// Calls a tool whose answer is saved, and returns the artifact's entry in the report.
async fn saved(agent: &Client) -> Value {
    let answer = call(agent, "web__image", json!({})).await.unwrap();
    let artifacts = answer["_meta"]["marquetry/capture"]["save"]["artifacts"].as_array().unwrap();
    artifacts.iter().find(|artifact| artifact["mime_type"] == "image/png").unwrap().clone()
}

/// Returns the names that `list_artifacts` and `resources/list` return; both must be the same.
async fn names(agent: &Client) -> Vec<String> {
    let listed = call(agent, "list_artifacts", json!({})).await.unwrap();
    let artifacts = listed["structuredContent"]["artifacts"].as_array().unwrap();
    let names = artifacts.iter().map(|artifact| artifact["name"].as_str().unwrap().to_owned());
    let names: Vec<_> = names.collect();
    let resources = agent.list_resources().await.unwrap();
    let resources = resources.iter().filter(|resource| resource.uri.starts_with("artifact:"));
    assert_eq!(names, resources.map(|resource| resource.name.clone()).collect::<Vec<_>>());
    names
}

fn auth(folder: &std::path::Path, artifacts: &str) -> String {
    let token = |name: &str| {
        let path = folder.join(name);
        std::fs::write(&path, format!("hush-of-{name}-0123456789")).unwrap();
        format!("{name} = {{ file = '{}' }}\n", path.display())
    };
    format!("[artifacts]\n{artifacts}\n[auth.tokens]\n{}{}", token("alice"), token("bob"))
}

/// C2: artifacts from calls of others do not exist for a caller.
#[tokio::test]
async fn artifacts_belong_to_the_principal_whose_call_made_them() {
    let folder = tempfile::tempdir().unwrap();
    let (server, _web) = server(&auth(folder.path(), "")).await;
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let alice = agent_with_token(&server, "hush-of-alice-0123456789", revision).await;
        let bob = agent_with_token(&server, "hush-of-bob-0123456789", revision).await;
        let artifact = saved(&alice).await;
        let name = &artifact["name"];
        let uri = &artifact["uri"];
        assert!(names(&alice).await.contains(&name.as_str().unwrap().to_owned()));
        let read = call(&alice, "read_artifact", json!({"name": name})).await.unwrap();
        assert_eq!(read["content"][0]["data"], PNG);

        assert_eq!(names(&bob).await, Vec::<String>::new());
        let unknown = call(&bob, "read_artifact", json!({"name": "nothing.png"})).await.unwrap();
        for (tool, more) in [
            ("read_artifact", json!({})),
            ("search_artifact", json!({"pattern": "x"})),
            ("query_artifact", json!({"jq": "."})),
            ("delete_artifact", json!({})),
        ] {
            for asked in [name, uri] {
                let mut arguments = more.clone();
                arguments["name"] = asked.clone();
                let refused = call(&bob, tool, arguments).await.unwrap();
                assert_eq!(refused["isError"], true, "{tool} {asked}");
                let text =
                    |answer: &Value| answer["content"][0]["text"].as_str().unwrap().to_owned();
                // Even the words are the same as for an artifact that does not exist.
                let of_unknown = text(&unknown).replace("nothing.png", name.as_str().unwrap());
                assert!(text(&refused).starts_with(&of_unknown), "{}", text(&refused));
            }
        }
        let refused = rpc_error(ask(&bob, "resources/read", json!({"uri": uri})).await);
        let unknown = json!({"uri": "artifact://nothing.png?version=0"});
        let unknown = rpc_error(ask(&bob, "resources/read", unknown).await);
        assert_eq!(refused.0, unknown.0);
        assert_eq!(refused.1.replace(name.as_str().unwrap(), "nothing.png"), unknown.1);
        let body = json!({"uri": uri}).to_string();
        let headers = [
            ("authorization", "Bearer hush-of-bob-0123456789"),
            ("content-type", "application/json"),
        ];
        let rest = server.http("POST", "/mcp/v1/resources/read", &headers, body.as_bytes()).await;
        assert_ne!(rest.status, 200, "{rest:?}");

        // It exists until its owner deletes it.
        ask(&alice, "resources/read", json!({"uri": uri})).await.unwrap();
        let deleted = call(&alice, "delete_artifact", json!({"name": uri})).await.unwrap();
        assert_eq!(deleted["isError"], Value::Null, "{deleted}");
        assert!(!names(&alice).await.contains(&name.as_str().unwrap().to_owned()));
        let twice = call(&alice, "delete_artifact", json!({"name": uri})).await.unwrap();
        assert_eq!(twice["isError"], true);
    }
    server.stop().await;
}

/// Saves an artifact on each of two servers with the same store, and reads it on the other one.
async fn share_artifacts(first: &Running, second: &Running) {
    let first = first.agent().await;
    let second = second.agent().await;
    for (saver, reader) in [(&first, &second), (&second, &first)] {
        let artifact = saved(saver).await;
        let read = call(reader, "read_artifact", json!({"name": artifact["uri"]})).await.unwrap();
        assert_eq!(read["content"][0]["data"], PNG);
        assert_eq!(names(&first).await, names(&second).await);
    }
    assert!(names(&first).await.len() >= 2);
}

#[tokio::test]
async fn two_servers_share_a_directory() {
    let folder = tempfile::tempdir().unwrap();
    let toml = format!("artifacts.directory = {:?}", folder.path().join("artifacts"));
    let (first, _web) = server(&toml).await;
    let (second, _other_web) = server(&toml).await;
    share_artifacts(&first, &second).await;
    assert_eq!(first.http("GET", "/readyz", &[], b"").await.status, 200);
    // As when a disk was removed.
    std::fs::remove_dir_all(folder.path().join("artifacts")).unwrap();
    let ready = second.http("GET", "/readyz", &[], b"").await;
    let problem = "the directory of the artifacts was removed";
    assert_eq!(
        (ready.status, ready.json()),
        (503, json!({"status": "failing", "problem": problem}))
    );
    assert_eq!(second.app.health()["faults"][0]["problem"], problem);
    first.stop().await;
    second.stop().await;
}

#[tokio::test]
async fn two_servers_share_a_bucket() {
    let bucket = Arc::new(object_store::memory::InMemory::new());
    let web = HttpUpstream::start().await;
    let toml = format!("{}{SAVED_IMAGES}", web.toml("web"));
    let start = async || {
        let address = "s3://bucket/artifacts".parse().unwrap();
        let store = BucketStore::open(bucket.clone(), &address, BucketOptions::default());
        let mut config = Config::from_toml(&toml, "m.toml").unwrap();
        config.knowledge.enabled = false;
        let builder = App::builder(config).store(Arc::new(store.await.unwrap()));
        let app = builder.start().await.unwrap();
        app.ready().await;
        Running::serve(app).await
    };
    let first = start().await;
    let second = start().await;
    share_artifacts(&first, &second).await;
    assert_eq!(first.http("GET", "/readyz", &[], b"").await.status, 200);
    first.stop().await;
    second.stop().await;
}

/// A principal gets no notifications about artifacts of others.
#[tokio::test]
async fn a_change_of_artifacts_is_announced_to_their_principal() {
    const CHANGED: &str = "notifications/resources/list_changed";
    let folder = tempfile::tempdir().unwrap();
    let (server, _web) = server(&auth(folder.path(), "")).await;
    let agent = async |name: &str| {
        let token = format!("hush-of-{name}-0123456789");
        agent_with_token(&server, &token, Revision::V2025_11_25).await
    };
    let (alice, another, bob) = (agent("alice").await, agent("alice").await, agent("bob").await);
    let mut told = [&alice, &another, &bob].map(Client::notifications);
    saved(&alice).await;
    for told in &mut told[..2] {
        within(async { while &*told.recv().await.unwrap().method != CHANGED {} }).await;
    }
    let bobs = std::iter::from_fn(|| told[2].try_recv().ok());
    assert_eq!(bobs.filter(|told| &*told.method == CHANGED).count(), 0);
    server.stop().await;
}

/// A principal gets no notifications about records and prompts of others, until they are shared.
#[tokio::test]
async fn a_change_of_records_is_announced_to_their_readers() {
    const RESOURCES: &str = "notifications/resources/list_changed";
    const PROMPTS: &str = "notifications/prompts/list_changed";
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("knowledge.db");
    let toml = format!("{}[knowledge]\ndatabase = {database:?}\n", auth(folder.path(), ""));
    let (server, _web) = server(&toml).await;
    let agent = async |name: &str| {
        let token = format!("hush-of-{name}-0123456789");
        agent_with_token(&server, &token, Revision::V2025_11_25).await
    };
    let alice = agent("alice").await;
    let bob = agent("bob").await;
    let create = async |new: Value| {
        let made = call(&alice, "am7_create_object", new).await.unwrap();
        assert_ne!(made["isError"], true, "{made}");
    };
    create(json!({"type": "data.note", "name": "first", "content": "x"})).await;
    for client in [&alice, &bob] {
        ask(client, "resources/list", json!({})).await.unwrap();
    }
    let mut alices = alice.notifications();
    let mut bobs = bob.notifications();
    create(json!({"type": "data.note", "name": "own", "content": "x"})).await;
    create(
        json!({"type": "olio.llm.promptConfig", "name": "own", "attributes": {"system": ["x"]}}),
    )
    .await;
    within(async { while &*alices.recv().await.unwrap().method != RESOURCES {} }).await;
    within(async { while &*alices.recv().await.unwrap().method != PROMPTS {} }).await;
    let heard = std::iter::from_fn(|| bobs.try_recv().ok());
    assert_eq!(heard.filter(|told| told.method.ends_with("list_changed")).count(), 0);
    let everyone = "am7://default/auth.group/everyone";
    create(json!({"type": "data.note", "name": "ours", "content": "x", "readers": [everyone]}))
        .await;
    within(async { while &*bobs.recv().await.unwrap().method != RESOURCES {} }).await;
    server.stop().await;
}

/// C2: a shared scope is a setting.
#[tokio::test]
async fn artifacts_can_be_shared() {
    let folder = tempfile::tempdir().unwrap();
    let (server, _web) = server(&auth(folder.path(), "scope = 'shared'")).await;
    let alice = agent_with_token(&server, "hush-of-alice-0123456789", Revision::V2025_11_25).await;
    let bob = agent_with_token(&server, "hush-of-bob-0123456789", Revision::V2026_07_28).await;
    let artifact = saved(&alice).await;
    let read = call(&bob, "read_artifact", json!({"name": artifact["name"]})).await.unwrap();
    assert_eq!(read["content"][0]["data"], PNG);
    server.stop().await;
}

/// C2: artifacts of sessions can be separate, too.
#[tokio::test]
async fn sessions_can_have_artifacts_of_their_own() {
    let (server, _web) = server("[artifacts]\nscope = 'session'").await;
    let one = server.agent().await;
    let other = server.agent().await;
    let artifact = saved(&one).await;
    assert!(!names(&one).await.is_empty());
    assert_eq!(names(&other).await, Vec::<String>::new());
    let read = call(&other, "read_artifact", json!({"name": artifact["name"]})).await.unwrap();
    assert_eq!(read["isError"], true);
    server.stop().await;
}

/// B5: a full store makes room, and reports a removed artifact as expired, not as unknown.
#[tokio::test]
async fn a_full_store_evicts_the_oldest_and_reports_it_as_expired() {
    let (server, _web) =
        server("clients.default.shown_tokens = 100_000\n[artifacts]\nmemory_max_bytes = 200000")
            .await;
    let agent = server.agent().await;
    let text = |n: usize| json!({"text": format!("{n} {}", "x".repeat(40_000))});
    let first = call(&agent, "web__echo", text(0)).await.unwrap();
    let first = first["_meta"]["marquetry/capture"]["save"]["artifacts"][0].clone();
    for n in 1..8 {
        let answer = call(&agent, "web__echo", text(n)).await.unwrap();
        let report = &answer["_meta"]["marquetry/capture"];
        assert_eq!(report["status"], "processed_and_saved", "the store is never full for good");
    }
    assert!(!names(&agent).await.contains(&first["name"].as_str().unwrap().to_owned()));
    let gone = call(&agent, "read_artifact", json!({"name": first["uri"]})).await.unwrap();
    let said = gone["content"][0]["text"].as_str().unwrap();
    assert!(said.contains("has expired") && said.contains("call the tool"), "{said}");
    let (code, said) = rpc_error(ask(&agent, "resources/read", json!({"uri": first["uri"]})).await);
    assert_eq!(code, -32002);
    assert!(said.contains("has expired"), "{said}");
    let health = server.app.health();
    assert_eq!(health["status"], "ok");
    assert!(health["artifacts"]["evicted"].as_u64().unwrap() >= 3, "{health}");
    server.stop().await;
}

/// B6: metadata of an artifact is available later, too.
#[tokio::test]
async fn list_artifacts_shows_details() {
    let (server, _web) = server("[artifacts]\npreset = 'small-context'").await;
    let agent = server.agent().await;
    let rows: Vec<Value> = (0..200).map(|id| json!({"id": id, "tag": "x"})).collect();
    call(&agent, "web__echo", json!({"text": json!(rows).to_string()})).await.unwrap();
    let plain = call(&agent, "list_artifacts", json!({})).await.unwrap();
    assert_eq!(plain["structuredContent"]["artifacts"][0]["details"], Value::Null);
    let listed = call(&agent, "list_artifacts", json!({"details": true})).await.unwrap();
    let details = &listed["structuredContent"]["artifacts"][0]["details"];
    assert_eq!(details["detected_format"], "json");
    assert_eq!(details["parsed_data_summary"]["length"], 200);
    assert_eq!(details["schema"]["structure"], json!([{"id": "int", "tag": "str"}]));
    assert_eq!(details["source_tool_name"], "web__echo");
    assert_eq!(details["source_tool_args"], Value::Null);
    server.stop().await;
}

/// B1, B3: below the limits an answer equals the upstream's, field by field. Above them, its
/// structured part still matches the listed schema.
#[tokio::test]
async fn answers_below_the_limits_pass_unchanged() {
    let (server, web) = server("clients.default.shown_tokens = 100_000").await;
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let options =
            ClientOptions { revision: RevisionChoice::Only(revision), ..ClientOptions::default() };
        let target = HttpTarget { url: web.url.clone(), ..HttpTarget::default() };
        let direct = within(Client::http(target, options)).await.unwrap();
        let agent = server.agent_of(revision).await;
        let plain = |mut value: Value| {
            if let Some(meta) = value["_meta"].as_object_mut() {
                meta.remove("io.modelcontextprotocol/serverInfo");
                if meta.is_empty() {
                    value.as_object_mut().unwrap().remove("_meta");
                }
            }
            value
        };
        for (tool, arguments) in [
            ("echo", json!({"text": "def f():\n    pass\n".repeat(1500)})),
            ("structured", json!({})),
            ("fail", json!({})),
            ("big", json!({"words": 5000})),
        ] {
            let ours = call(&agent, &format!("web__{tool}"), arguments.clone()).await.unwrap();
            let theirs = call(&direct, tool, arguments).await.unwrap();
            assert_eq!(plain(ours), plain(theirs), "{tool}");
        }
        let listed = async |client: &Client, prefix: &str| {
            let list = ask(client, "tools/list", json!({})).await.unwrap();
            let tools = list["tools"].as_array().unwrap().iter().filter_map(|tool| {
                let name = tool["name"].as_str().unwrap().strip_prefix(prefix)?.to_owned();
                let mut tool = tool.clone();
                tool["name"] = json!(name);
                // A member for the notice is the only change.
                let members = tool.pointer_mut("/outputSchema/properties");
                if let Some(members) = members.and_then(Value::as_object_mut) {
                    members.remove("marquetry/notice");
                }
                // This one is renamed.
                (!name.starts_with("same")).then_some(tool)
            });
            tools.collect::<Vec<_>>()
        };
        assert_eq!(listed(&agent, "web__").await, listed(&direct, "").await);
    }
    server.stop().await;
}

/// B3: the structured part of a truncated answer matches the listed schema, too.
#[tokio::test]
async fn a_truncated_answer_still_satisfies_its_output_schema() {
    let (server, _web) = server("[artifacts]\npreset = 'small-context'").await;
    let agent = server.agent().await;
    let answer = call(&agent, "web__structured", json!({})).await.unwrap();
    let data = answer["structuredContent"].as_object().unwrap();
    assert_eq!(data.keys().collect::<Vec<_>>(), ["marquetry/notice", "rows"]);
    let rows = data["rows"].as_array().unwrap();
    assert!(rows.len() > 100 && rows.len() < 2000, "{}", rows.len());
    // A client may show either of them alone.
    for notice in [&answer["content"][0]["text"], &data["marquetry/notice"]] {
        let notice = notice.as_str().unwrap();
        assert!(notice.contains("gives all of it"), "{notice}");
    }
    server.stop().await;
}

/// A store that fails for a while, as with a full or broken disk.
#[derive(Default)]
struct Fragile {
    inner: MemoryStore,
    is_full: AtomicBool,
    cannot_list: AtomicBool,
}

#[async_trait]
impl marquetry_artifacts::store::DelegatingStore for Fragile {
    fn inner(&self) -> &dyn ArtifactStore {
        &self.inner
    }

    async fn put(&self, scope: &Scope, artifact: NewArtifact) -> Result<Record, StoreError> {
        if self.is_full.load(Ordering::SeqCst) {
            return Err(StoreError::Io(std::io::ErrorKind::StorageFull.into()));
        }
        self.inner.put(scope, artifact).await
    }

    async fn list(&self, scope: &Scope, page: &Page) -> Result<Listing, StoreError> {
        if self.cannot_list.load(Ordering::SeqCst) {
            return Err(StoreError::Backend("the disk is gone".to_owned()));
        }
        self.inner.list(scope, page).await
    }
}

/// B6, C7: after a failed save the server's health is degraded until a save succeeds.
#[tokio::test]
async fn failed_saves_show_in_the_health() {
    let web = HttpUpstream::start().await;
    let toml = web.toml("web") + SAVED_IMAGES;
    let mut config = Config::from_toml(&toml, "test.toml").unwrap();
    config.knowledge.enabled = false;
    let store = Arc::new(Fragile::default());
    let app = App::builder(config).store(store.clone()).start().await.unwrap();
    let server = Running::serve(app).await;
    within(server.app.ready()).await;
    let agent = server.agent().await;
    assert_eq!(server.app.health()["status"], "ok");

    store.is_full.store(true, Ordering::SeqCst);
    let answer = call(&agent, "web__image", json!({})).await.unwrap();
    assert_eq!(answer["_meta"]["marquetry/capture"]["status"], "processed_save_failed");
    let health = server.app.health();
    assert_eq!(health["status"], "degraded", "{health}");
    assert_eq!(health["faults"][0]["part"], "artifacts");
    let problem = health["faults"][0]["problem"].as_str().unwrap();
    assert!(problem.contains("storage"), "{problem}");

    store.is_full.store(false, Ordering::SeqCst);
    saved(&agent).await;
    let health = server.app.health();
    assert_eq!((&health["status"], &health["faults"]), (&json!("ok"), &Value::Null));

    // B6: if the store cannot be listed, resources of other sources still are.
    store.cannot_list.store(true, Ordering::SeqCst);
    let resources = agent.list_resources().await.unwrap();
    assert!(resources.iter().any(|resource| resource.uri == "test://static"));
    server.stop().await;
}

/// One record of a large JSON, two lines of a log and the sum of a column, each in one call after
/// the answer that was too large.
#[tokio::test]
async fn what_is_kept_is_found_in_one_call() {
    let (server, _web) = server("").await;
    let agent = server.agent().await;
    let users: Vec<_> =
        (0..20_000).map(|id| json!({"id": id, "name": format!("user {id}")})).collect();
    let log: String = (0..30_000)
        .map(|line| {
            let level = if [7_000, 21_000].contains(&line) { "ERROR" } else { "INFO" };
            format!("{line} {level} request served\n")
        })
        .collect();
    let csv: String = std::iter::once("id,price\n".to_owned())
        .chain((0..50_000).map(|id| format!("{id},2\n")))
        .collect();
    for (text, tool, arguments, want) in [
        (
            json!({ "users": users }).to_string(),
            "query_artifact",
            json!({"jq": ".users[] | select(.id == 17321)"}),
            "{\"id\":17321,\"name\":\"user 17321\"}\n",
        ),
        (
            log,
            "search_artifact",
            json!({"pattern": "error", "context": 0}),
            "7001:7000 ERROR request served\n--\n21001:21000 ERROR request served\n",
        ),
        (
            csv,
            "query_artifact",
            json!({"sql": "SELECT sum(price) AS total FROM data"}),
            "total\n100000\n",
        ),
    ] {
        let answer = call(&agent, "web__echo", json!({ "text": text })).await.unwrap();
        let saved = &answer["_meta"]["marquetry/capture"]["save"]["artifacts"][0]["name"];
        // The notice comes first and names the artifact.
        let notice = answer["content"][0]["text"].as_str().unwrap();
        assert!(notice.contains(saved.as_str().unwrap()), "{notice}");
        let texts = answer["content"].as_array().unwrap().iter();
        let tokens = texts.map(|item| marquetry_tokens::estimate(item["text"].as_str().unwrap()));
        let tokens: u64 = tokens.sum();
        // 8,000 tokens, estimated by a sample, within 15 %.
        assert!(tokens < 9_200, "{tokens}");
        let mut arguments = arguments;
        arguments["name"] = saved.clone();
        let found = call(&agent, tool, arguments).await.unwrap();
        assert_eq!(found["content"][1]["text"], want, "{found}");
        assert!(marquetry_tokens::estimate(&found.to_string()) < 1_500);
    }
}

/// Claude Code shows its model structured content in place of text.
#[tokio::test]
async fn a_client_that_shows_structured_content_alone_gets_the_notice() {
    let (server, _web) = server("[artifacts]\nmcp_tool_llm_return_max_bytes = 4000").await;
    let options = ClientOptions {
        implementation: Implementation::new("claude-code", "2.1"),
        ..ClientOptions::default()
    };
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let claude = server.agent_with(revision, options.clone()).await;
        let tools = claude.list_tools().await.unwrap();
        let listed = tools.iter().find(|tool| tool.name == "web__structured").unwrap();
        assert_eq!(listed.output_schema, None);
        let answer = call(&claude, "web__structured", json!({})).await.unwrap();
        assert_eq!(answer.get("structuredContent"), None);
        let notice = answer["content"][0]["text"].as_str().unwrap();
        assert!(notice.contains("is saved as"), "{notice}");

        let other = server.agent_of(revision).await;
        let tools = other.list_tools().await.unwrap();
        let listed = tools.iter().find(|tool| tool.name == "web__structured").unwrap();
        assert!(listed.output_schema.is_some());
        let answer = call(&other, "web__structured", json!({})).await.unwrap();
        assert!(answer["structuredContent"]["rows"].as_array().unwrap().len() < 2_000);
        let notice = answer["content"][0]["text"].as_str().unwrap();
        assert!(notice.contains("structuredContent is shortened here"), "{notice}");
    }
}

/// All artifact tools together cost each conversation at most 4 KB.
#[tokio::test]
async fn the_tools_for_artifacts_are_short() {
    let (server, _web) = server("").await;
    let tools = server.agent().await.list_tools().await.unwrap();
    let own = tools
        .iter()
        .filter(|tool| tool.name.ends_with("_artifact") || tool.name == "list_artifacts");
    let bytes: usize = own.map(|tool| serde_json::to_string(tool).unwrap().len()).sum();
    assert!((1_000..=4_096).contains(&bytes), "{bytes}");
}

/// The answers of our own tools have a limit of their own, above that of captured answers here.
#[tokio::test]
async fn what_is_found_is_not_captured_again() {
    let (server, _web) = server("[artifacts]\npreset = 'small-context'\n").await;
    let agent = server.agent().await;
    let answer = call(&agent, "web__big", json!({"words": 30_000})).await.unwrap();
    let name = answer["_meta"]["marquetry/capture"]["save"]["artifacts"][0]["name"].clone();
    for (tool, mut arguments) in [
        ("read_artifact", json!({})),
        ("search_artifact", json!({"pattern": "lorem"})),
        ("query_artifact", json!({"sql": "SELECT * FROM data"})),
    ] {
        arguments["name"] = name.clone();
        arguments["max_bytes"] = json!(150_000);
        let found = call(&agent, tool, arguments).await.unwrap();
        assert_eq!(found["_meta"]["marquetry/capture"], Value::Null, "{tool}");
    }
    let listed = call(&agent, "list_artifacts", json!({})).await.unwrap();
    assert_eq!(listed["structuredContent"]["artifacts"].as_array().unwrap().len(), 1);
    server.stop().await;
}

#[tokio::test]
async fn downloads_have_ranges_and_entity_tags() {
    let (server, _web) = server("").await;
    let agent = server.agent().await;
    let artifact = saved(&agent).await;
    let path = format!("/api/console/artifacts/{}?version=0", artifact["name"].as_str().unwrap());
    let whole = server.http("GET", &path, &[], b"").await;
    assert_eq!(whole.status, 200);
    let tag = whole.header("etag").unwrap().to_owned();
    assert_eq!(tag, format!("\"{}\"", artifact["hash"].as_str().unwrap()));
    let size = artifact["size_bytes"].as_u64().unwrap();
    for (headers, status, range, length) in [
        (vec![("Range", "bytes=0-3")], 206, Some(format!("bytes 0-3/{size}")), Some("4")),
        (
            vec![("Range", "bytes=-2")],
            206,
            Some(format!("bytes {}-{}/{size}", size - 2, size - 1)),
            Some("2"),
        ),
        (vec![("Range", "bytes=999999-")], 416, Some(format!("bytes */{size}")), None),
        (vec![("Range", "bytes=0-3"), ("If-Range", "\"other\"")], 200, None, None),
        (vec![("If-None-Match", &*tag)], 304, None, None),
        (vec![("If-None-Match", "\"other\"")], 200, None, None),
    ] {
        let answer = server.http("GET", &path, &headers, b"").await;
        assert_eq!(answer.status, status, "{headers:?}");
        assert_eq!(answer.header("content-range"), range.as_deref(), "{headers:?}");
        if let Some(length) = length {
            assert_eq!(answer.header("content-length"), Some(length), "{headers:?}");
        }
    }
    let text = call(&agent, "web__big", json!({"words": 30_000})).await.unwrap();
    let artifact = &text["_meta"]["marquetry/capture"]["save"]["artifacts"][0];
    let path = format!("/api/console/artifacts/{}", artifact["name"].as_str().unwrap());
    let answer = server.http("GET", &path, &[("Range", "bytes=99999999-")], b"").await;
    let size = artifact["size_bytes"].as_u64().unwrap();
    assert_eq!(answer.status, 416);
    assert_eq!(answer.header("content-range"), Some(&*format!("bytes */{size}")));
    let why = format!("outside of the {size} bytes");
    assert!(answer.body.contains(&why), "{}", answer.body);
    server.stop().await;
}

#[tokio::test]
async fn names_of_artifacts_are_completed() {
    let (server, _web) = server("").await;
    let agent = server.agent().await;
    let name = saved(&agent).await["name"].as_str().unwrap().to_owned();
    for (argument, context, want) in [
        (json!({"name": "name", "value": &name[..5]}), json!({}), json!([name])),
        (json!({"name": "name", "value": "zzz"}), json!({}), json!([])),
        (json!({"name": "version", "value": ""}), json!({"name": name}), json!(["0"])),
    ] {
        let params = json!({
            "ref": {"type": "ref/resource", "uri": "artifact://{name}{?version}"},
            "argument": argument, "context": {"arguments": context},
        });
        let found = ask(&agent, "completion/complete", params).await.unwrap();
        let values = found["completion"]["values"].as_array().unwrap();
        let values: Vec<_> =
            values.iter().filter(|value| want == json!([]) || want[0] == **value).collect();
        assert_eq!(json!(values), want, "{argument}");
    }
    server.stop().await;
}
