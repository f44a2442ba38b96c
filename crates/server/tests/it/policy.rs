//! The policy: what a caller may not see is not there, whichever door it tries.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use marquetry_protocol::{
    Revision, RpcError,
    client::{Client, ClientError, ClientOptions, HttpTarget, RevisionChoice},
    server::{
        ConversationId, Handler, Reply, RequestContext, Server, ServerDescription,
        http::{HttpEndpoint, HttpOptions, ServeOptions, serve},
    },
    types::{
        CallToolParams, CallToolResult, CompleteParams, CompleteResult, GetPromptParams,
        GetPromptResult, Implementation, JsonObject, ListPromptsResult,
        ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, Prompt,
        ReadResourceParams, ReadResourceResult, Resource, ResourceContents, ResourceTemplate,
        ResourcesCapability, ServerCapabilities, Tool,
    },
};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{
    program::Program,
    support::{Running, ask, call, rpc_error, token_of, tool_names, until, users_toml, within},
    upstream::HttpUpstream,
};

const SESSION: Revision = Revision::V2025_11_25;
const STATELESS: Revision = Revision::V2026_07_28;

/// An upstream with lists of everything.
#[derive(Clone)]
struct Shop {
    tools: &'static [&'static str],
    prompts: &'static [&'static str],
    resources: &'static [&'static str],
    template: &'static str,
}

const GIT: Shop = Shop {
    tools: &["get_issue", "get_secret", "push"],
    prompts: &["review", "secrets"],
    resources: &["repo://acme/readme", "repo://acme/secret/key"],
    template: "repo://acme/{+path}",
};

const FILES: Shop = Shop {
    tools: &["get_file"],
    prompts: &["tidy"],
    resources: &["file:///a.txt"],
    template: "file:///{+path}",
};

/// Resources that no list has, and that match the templates.
const UNLISTED: [(&str, &str); 3] =
    [("git", "repo://acme/other"), ("git", "repo://acme/secret/other"), ("files", "file:///b.txt")];

#[async_trait]
impl Handler for Shop {
    fn describe(&self) -> ServerDescription {
        let mut capabilities = ServerCapabilities::default();
        capabilities.tools = Some(Default::default());
        capabilities.prompts = Some(Default::default());
        capabilities.completions = Some(JsonObject::new());
        capabilities.resources = Some(ResourcesCapability { subscribe: true, list_changed: true });
        let info = Implementation::new("shop", "1");
        ServerDescription { info, capabilities, instructions: Some("Ask the shop.".to_owned()) }
    }

    async fn list_tools(
        &self,
        _: Option<&str>,
        _: &RequestContext,
    ) -> Result<ListToolsResult, RpcError> {
        let tools = self.tools.iter().map(|&name| Tool {
            name: name.to_owned(),
            input_schema: json!({"type": "object", "properties": {
                "mark": {"type": "string", "x-mcp-header": "Mark"},
            }}),
            ..Tool::default()
        });
        Ok(ListToolsResult { tools: tools.collect(), next_cursor: None })
    }

    async fn call_tool(
        &self,
        params: CallToolParams,
        _: &RequestContext,
    ) -> Result<Reply, RpcError> {
        Reply::json(&CallToolResult::text(format!("{} was called", params.name)))
    }

    async fn list_prompts(
        &self,
        _: Option<&str>,
        _: &RequestContext,
    ) -> Result<ListPromptsResult, RpcError> {
        let prompts = self.prompts.iter();
        let prompts = prompts.map(|&name| Prompt { name: name.to_owned(), ..Prompt::default() });
        Ok(ListPromptsResult { prompts: prompts.collect(), next_cursor: None })
    }

    async fn get_prompt(&self, _: GetPromptParams, _: &RequestContext) -> Result<Reply, RpcError> {
        Reply::json(&GetPromptResult::default())
    }

    async fn list_resources(
        &self,
        _: Option<&str>,
        _: &RequestContext,
    ) -> Result<ListResourcesResult, RpcError> {
        let resources = self.resources.iter().map(|&uri| Resource {
            uri: uri.to_owned(),
            name: uri.to_owned(),
            ..Resource::default()
        });
        Ok(ListResourcesResult { resources: resources.collect(), next_cursor: None })
    }

    async fn list_resource_templates(
        &self,
        _: Option<&str>,
        _: &RequestContext,
    ) -> Result<ListResourceTemplatesResult, RpcError> {
        let template = ResourceTemplate {
            uri_template: self.template.to_owned(),
            name: "all".to_owned(),
            ..ResourceTemplate::default()
        };
        Ok(ListResourceTemplatesResult { resource_templates: vec![template], next_cursor: None })
    }

    async fn read_resource(
        &self,
        params: ReadResourceParams,
        _: &RequestContext,
    ) -> Result<Reply, RpcError> {
        let contents: ResourceContents =
            serde_json::from_value(json!({"uri": params.uri, "text": "contents"})).unwrap();
        Reply::json(&ReadResourceResult { contents: vec![contents], meta: None })
    }

    async fn complete(
        &self,
        _: CompleteParams,
        _: &RequestContext,
    ) -> Result<CompleteResult, RpcError> {
        let all = self.resources.iter().chain(UNLISTED.iter().map(|(_, uri)| uri));
        let start = self.template.trim_end_matches("{+path}");
        let values: Vec<&str> = all.filter_map(|uri| uri.strip_prefix(start)).collect();
        let result = json!({"completion": {"values": values, "total": values.len()}});
        Ok(serde_json::from_value(result).unwrap())
    }

    async fn subscribe(&self, _: &str, _: &RequestContext) -> Result<(), RpcError> {
        Ok(())
    }

    async fn unsubscribe(&self, _: &str, _: ConversationId) {}
}

impl Shop {
    /// Serves it as an upstream with this name until the token is cancelled.
    async fn start(self, name: &str, stop: &CancellationToken) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let endpoint = HttpEndpoint::new(Server::new(self), HttpOptions::default());
        let options = ServeOptions { shutdown_grace: Duration::ZERO, ..ServeOptions::default() };
        let serve = serve(listener, endpoint).with_options(options).until(stop.clone());
        tokio::spawn(serve.into_future());
        format!("[mcp_servers.{name}]\nurl = '{url}'\n")
    }
}

/// Returns both upstreams.
async fn shops(stop: &CancellationToken) -> String {
    GIT.start("git", stop).await + &FILES.start("files", stop).await
}

const USERS: [&str; 4] = ["ann", "bob", "dee", "zoe"];

const RULES: &str = "\
[[policy.rules]]
principals = ['ann']
tools = { allow = ['*'] }
prompts = { allow = ['*'] }
resources = { allow = ['**'] }

[[policy.rules]]
principals = ['bob']
upstreams = ['git']
tools = { allow = ['get_*'], deny = ['*secret*'] }
prompts = { allow = ['review'] }
resources = { allow = ['repo://acme/**'], deny = ['repo://acme/secret/**'] }

[[policy.rules]]
principals = ['dee']
upstreams = ['marquetry']
tools = { allow = ['encode*', 'list_artifacts', 'read_artifact'] }
";

/// States the rules again, in another way.
fn may_see(user: &str, upstream: &str, name: &str) -> bool {
    const OF_BOB: [&str; 5] =
        ["get_issue", "review", "repo://acme/readme", "repo://acme/other", GIT.template];
    match user {
        "ann" => true,
        "bob" => upstream == "git" && OF_BOB.contains(&name),
        "dee" => {
            let own = ["encodePlantUML", "list_artifacts", "read_artifact"];
            upstream == "marquetry" && own.contains(&name)
        }
        _ => false,
    }
}

/// Doors, and whether an item was seen there.
type Doors = Vec<(&'static str, bool)>;

/// A caller with its connections.
struct Agent<'a> {
    server: &'a Running,
    token: String,
    session: Client,
    stateless: Client,
    /// Connections that are bound to one upstream.
    bound: BTreeMap<&'static str, Client>,
}

impl<'a> Agent<'a> {
    async fn connect(server: &'a Running, user: &str) -> Self {
        let token = token_of(user);
        let mut bound = BTreeMap::new();
        for name in ["git", "files"] {
            let headers = [
                ("authorization".to_owned(), format!("Bearer {token}")),
                ("marquetry-server".to_owned(), name.to_owned()),
            ];
            let url = format!("http://{}/mcp", server.address);
            let target = HttpTarget { url, headers: headers.into_iter().collect() };
            let revision = RevisionChoice::Only(SESSION);
            let options = ClientOptions { revision, ..ClientOptions::default() };
            bound.insert(name, within(Client::http(target, options)).await.unwrap());
        }
        let options = ClientOptions::default;
        let session = server.agent_of_user(SESSION, options(), Some(&token)).await;
        let stateless = server.agent_of_user(STATELESS, options(), Some(&token)).await;
        Self { server, token, session, stateless, bound }
    }

    /// Returns status and body of a REST request.
    async fn rest(&self, method: &str, path: &str, body: Value) -> (u16, String) {
        let bearer = format!("Bearer {}", self.token);
        let headers = [("Authorization", &*bearer), ("Content-Type", "application/json")];
        let answer = self.server.http(method, path, &headers, body.to_string().as_bytes()).await;
        (answer.status, answer.body)
    }

    /// Returns whether each door shows a tool.
    async fn tool(&self, upstream: &str, name: &str) -> Doors {
        let own = upstream == "marquetry";
        let exposed = if own { name.to_owned() } else { format!("{upstream}__{name}") };
        let listed = |names: Vec<String>| names.contains(&exposed);
        let (_, rest_list) = self.rest("POST", "/mcp/v1/tools/list", json!({})).await;
        let body = json!({"name": exposed, "arguments": {}});
        let (rest_call, _) = self.rest("POST", "/mcp/v1/tools/call", body).await;
        let mut doors = vec![
            ("tools/list", listed(tool_names(&self.session).await)),
            ("tools/list of a stateless client", listed(tool_names(&self.stateless).await)),
            ("tools/call", is_known(call(&self.session, &exposed, json!({})).await)),
            (
                "tools/call of a stateless client",
                is_known(call(&self.stateless, &exposed, json!({})).await),
            ),
            ("REST tools/list", rest_list.contains(&format!("\"{exposed}\""))),
            ("REST tools/call", rest_call != 404),
        ];
        if name.ends_with("PlantUML") {
            let (_, list) = self.rest("GET", "/api/tools", json!({})).await;
            doors.push(("GET /api/tools", list.contains(name)));
            let (status, _) = self.rest("POST", &format!("/api/tools/{name}"), json!({})).await;
            doors.push(("POST /api/tools", status != 404));
        } else if !own {
            let marked = self.marked_call(&exposed).await;
            doors.push(("the check of headers", marked == 400));
        }
        doors
    }

    /// Calls a tool with an argument that a header must repeat, without the header. Returns the
    /// status.
    async fn marked_call(&self, name: &str) -> u16 {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": name, "arguments": {"mark": "x"},
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            },
        }});
        let bearer = format!("Bearer {}", self.token);
        let headers = [
            ("Authorization", &*bearer),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", name),
        ];
        self.server.http("POST", "/mcp", &headers, body.to_string().as_bytes()).await.status
    }

    /// Returns whether each door shows a prompt.
    async fn prompt(&self, upstream: &'static str, name: &str) -> Doors {
        let exposed = format!("{upstream}__{name}");
        let quoted = format!("\"{exposed}\"");
        let bound = ask(&self.bound[upstream], "prompts/list", json!({})).await;
        let reference = json!({"ref": {"type": "ref/prompt", "name": exposed},
            "argument": {"name": "x", "value": ""}});
        let (_, rest_list) = self.rest("POST", "/mcp/v1/prompts/list", json!({})).await;
        let (rest_get, _) =
            self.rest("POST", "/mcp/v1/prompts/get", json!({"name": exposed})).await;
        vec![
            ("prompts/list", shows(&ask(&self.session, "prompts/list", json!({})).await, &quoted)),
            ("prompts/list of one server", shows(&bound, &format!("\"{name}\""))),
            (
                "prompts/get",
                is_known(ask(&self.session, "prompts/get", json!({"name": exposed})).await),
            ),
            (
                "completion/complete",
                is_known(ask(&self.session, "completion/complete", reference).await),
            ),
            ("REST prompts/list", rest_list.contains(&quoted)),
            ("REST prompts/get", rest_get == 200),
        ]
    }

    /// Returns whether each door shows a resource.
    async fn resource(&self, upstream: &'static str, uri: &str, is_listed: bool) -> Doors {
        let template = if upstream == "git" { GIT.template } else { FILES.template };
        let path = uri.strip_prefix(template.trim_end_matches("{+path}")).unwrap();
        let reference = json!({"ref": {"type": "ref/resource", "uri": template},
            "argument": {"name": "path", "value": ""}});
        let quoted = format!("\"{uri}\"");
        let read = json!({"uri": uri});
        let bound = &self.bound[upstream];
        let (rest_read, _) = self.rest("POST", "/mcp/v1/resources/read", read.clone()).await;
        let subscribed = ask(&self.session, "resources/subscribe", read.clone()).await;
        _ = ask(&self.session, "resources/unsubscribe", read.clone()).await;
        let completed = ask(&self.session, "completion/complete", reference).await;
        let mut doors = vec![
            ("resources/read", ask(&self.session, "resources/read", read.clone()).await.is_ok()),
            (
                "resources/read of a stateless client",
                ask(&self.stateless, "resources/read", read.clone()).await.is_ok(),
            ),
            ("resources/read of one server", ask(bound, "resources/read", read).await.is_ok()),
            ("resources/subscribe", subscribed.is_ok()),
            ("completion/complete", shows(&completed, &format!("\"{path}\""))),
            ("REST resources/read", rest_read == 200),
        ];
        if is_listed {
            let (_, list) = self.rest("POST", "/mcp/v1/resources/list", json!({})).await;
            let all = ask(&self.session, "resources/list", json!({})).await;
            let of_one = ask(bound, "resources/list", json!({})).await;
            doors.push(("resources/list", shows(&all, &quoted)));
            doors.push(("resources/list of one server", shows(&of_one, &quoted)));
            doors.push(("REST resources/list", list.contains(&quoted)));
        }
        doors
    }

    /// Returns whether each door shows the template of an upstream.
    async fn template(&self, upstream: &'static str, uri: &str) -> Doors {
        let quoted = format!("\"{uri}\"");
        let reference = json!({"ref": {"type": "ref/resource", "uri": uri},
            "argument": {"name": "path", "value": ""}});
        let all = ask(&self.session, "resources/templates/list", json!({})).await;
        let of_one = ask(&self.bound[upstream], "resources/templates/list", json!({})).await;
        vec![
            ("resources/templates/list", shows(&all, &quoted)),
            ("resources/templates/list of one server", shows(&of_one, &quoted)),
            (
                "completion/complete",
                is_known(ask(&self.session, "completion/complete", reference).await),
            ),
        ]
    }
}

/// Returns whether a request found what it named.
fn is_known(answer: Result<Value, ClientError>) -> bool {
    match answer {
        Ok(_) => true,
        Err(ClientError::Rpc(error)) => {
            assert_eq!(error.code, -32602, "{error}");
            assert!(error.message.starts_with("unknown "), "{error}");
            false
        }
        Err(error) => panic!("{error}"),
    }
}

/// Returns whether an answer has a text. An error has none.
fn shows(answer: &Result<Value, ClientError>, text: &str) -> bool {
    answer.as_ref().is_ok_and(|answer| answer.to_string().contains(text))
}

#[tokio::test(flavor = "multi_thread")]
async fn denied_is_not_there_at_any_door() {
    let stop = CancellationToken::new();
    let folder = tempfile::tempdir().unwrap();
    let toml = format!("{RULES}{}{}", users_toml(folder.path(), &USERS), shops(&stop).await);
    let server = Running::start(&toml).await;
    let mut wrong = Vec::new();
    let mut checked = 0;
    for user in USERS {
        let agent = Agent::connect(&server, user).await;
        let mut doors: Vec<(&str, &str, Doors)> = Vec::new();
        for tool in ["encodePlantUML", "decodePlantUML", "list_artifacts", "read_artifact"] {
            doors.push(("marquetry", tool, agent.tool("marquetry", tool).await));
        }
        for (upstream, shop) in [("git", GIT), ("files", FILES)] {
            for tool in shop.tools {
                doors.push((upstream, tool, agent.tool(upstream, tool).await));
            }
            for prompt in shop.prompts {
                doors.push((upstream, prompt, agent.prompt(upstream, prompt).await));
            }
            for uri in shop.resources {
                doors.push((upstream, uri, agent.resource(upstream, uri, true).await));
            }
            doors.push((upstream, shop.template, agent.template(upstream, shop.template).await));
        }
        for (upstream, uri) in UNLISTED {
            doors.push((upstream, uri, agent.resource(upstream, uri, false).await));
        }
        for (upstream, name, doors) in doors {
            for (door, is_seen) in doors {
                checked += 1;
                if is_seen != may_see(user, upstream, name) {
                    wrong.push(format!("{user} {upstream} {name} at {door}: {is_seen}"));
                }
            }
        }
        // What else speaks of upstreams.
        let instructions = agent.session.server().instructions.clone().unwrap_or_default();
        for (upstream, text) in
            [("git", "# git\n"), ("files", "# files\n"), ("", "search_artifact")]
        {
            let may_see = user == "ann" || (user == "bob" && upstream == "git");
            if instructions.contains(text) != may_see {
                wrong.push(format!("{user}: instructions with {text:?}: {}", !may_see));
            }
        }
        let hint = call(&agent.session, "git__get_secrets", json!({})).await;
        let (_, message) = rpc_error(hint);
        assert_eq!(message.contains("git__get_secret'"), user == "ann", "{user}: {message}");
        let words = |name: &str, message: &str| message.replace(name, "NAME");
        if user == "zoe" {
            let denied = rpc_error(call(&agent.session, "git__push", json!({})).await).1;
            let unknown = rpc_error(call(&agent.session, "git__puxx", json!({})).await).1;
            assert_eq!(words("git__push", &denied), words("git__puxx", &unknown));
        }
    }
    assert!(wrong.is_empty(), "{} of {checked} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(checked > 400, "{checked}");
    server.stop().await;
    stop.cancel();
}

#[tokio::test]
async fn a_change_is_announced_to_those_who_see_it() {
    const CHANGED: &str = "notifications/tools/list_changed";
    let stop = CancellationToken::new();
    let folder = tempfile::tempdir().unwrap();
    let web = HttpUpstream::start().await;
    let toml = format!(
        "{RULES}{}{}{}",
        users_toml(folder.path(), &USERS),
        shops(&stop).await,
        web.toml("web")
    );
    let server = Running::start(&toml).await;
    let mut agents = Vec::new();
    for revision in [SESSION, STATELESS] {
        for user in ["ann", "bob"] {
            let options = ClientOptions::default();
            let agent = server.agent_of_user(revision, options, Some(&token_of(user))).await;
            let heard = agent.notifications();
            agents.push((user, agent, heard));
        }
    }
    // The stream of a stateless agent opens asynchronously.
    tokio::time::sleep(Duration::from_millis(300)).await;
    call(&agents[0].1, "web__grow", json!({})).await.unwrap();
    for (_, _, heard) in agents.iter_mut().filter(|(user, ..)| *user == "ann") {
        within(async { while &*heard.recv().await.unwrap().method != CHANGED {} }).await;
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    for (_, _, heard) in agents.iter_mut().filter(|(user, ..)| *user == "bob") {
        let heard = std::iter::from_fn(|| heard.try_recv().ok());
        assert_eq!(heard.filter(|told| &*told.method == CHANGED).count(), 0);
    }
    assert!(tool_names(&agents[0].1).await.contains(&"web__extra".to_owned()));
    server.stop().await;
    stop.cancel();
}

#[tokio::test]
async fn a_call_without_the_scopes_asks_for_them() {
    let stop = CancellationToken::new();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("t"), token_of("t")).unwrap();
    std::fs::write(folder.path().join("keys.json"), "{\"keys\": []}").unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let toml = format!(
        "[auth]\nissuer = 'https://login.example'\nresource = 'https://tools.example/mcp'\njwks_file = '{}'\n\
         [auth.tokens.t]\nfile = '{}'\nscopes = ['repo:read']\n\
         [[policy.rules]]\nscopes = ['repo:read']\ntools = {{ allow = ['get_*'] }}\n\
         [[policy.rules]]\nscopes = ['repo:write']\nstep_up = true\nupstreams = ['git']\ntools = {{ allow = ['*'] }}\n\
         resources = {{ allow = ['**'] }}\n{}",
        file("keys.json"),
        file("t"),
        shops(&stop).await
    );
    let server = Running::start(&toml).await;
    let agent = Agent {
        token: token_of("t"),
        session: server
            .agent_of_user(SESSION, ClientOptions::default(), Some(&token_of("t")))
            .await,
        stateless: server
            .agent_of_user(STATELESS, ClientOptions::default(), Some(&token_of("t")))
            .await,
        bound: BTreeMap::new(),
        server: &server,
    };
    assert!(tool_names(&agent.session).await.contains(&"git__push".to_owned()));
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {
        "name": "git__push", "arguments": {},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    }});
    let bearer = format!("Bearer {}", agent.token);
    let headers = [
        ("Authorization", &*bearer),
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "git__push"),
    ];
    let answer = server.http("POST", "/mcp", &headers, body.to_string().as_bytes()).await;
    assert_eq!(answer.status, 403, "{answer:?}");
    assert_eq!(
        answer.header("www-authenticate").unwrap(),
        "Bearer error=\"insufficient_scope\", error_description=\"the token lacks a scope\", \
         scope=\"repo:read repo:write\", \
         resource_metadata=\"https://tools.example/.well-known/oauth-protected-resource/mcp\""
    );
    let error = &answer.json()["error"];
    assert_eq!(error["code"], 403);
    assert_eq!(error["data"]["scopes"], json!(["repo:read", "repo:write"]));
    // A client in a session sees the refusal of HTTP, too.
    let refused = call(&agent.session, "git__push", json!({})).await.unwrap_err().to_string();
    assert!(refused.contains("insufficient_scope") || refused.contains("403"), "{refused}");
    let (status, _) = agent
        .rest("POST", "/mcp/v1/tools/call", json!({"name": "git__push", "arguments": {}}))
        .await;
    assert_eq!(status, 403);
    assert!(call(&agent.session, "git__get_issue", json!({})).await.is_ok());
    assert!(!tool_names(&agent.session).await.contains(&"files__push".to_owned()));
    server.stop().await;
    stop.cancel();
}

#[tokio::test]
async fn a_profile_is_a_part_of_everything() {
    let stop = CancellationToken::new();
    let toml = format!(
        "[profiles.reading]\nupstreams = {{ allow = ['git'] }}\ntools = {{ allow = ['get_*'] }}\n{}",
        shops(&stop).await
    );
    let server = Running::start(&toml).await;
    let connect = async |path: &str| {
        let url = format!("http://{}{path}", server.address);
        let revision = RevisionChoice::Only(SESSION);
        let options = ClientOptions { revision, ..ClientOptions::default() };
        Client::http(HttpTarget { url, ..HttpTarget::default() }, options).await
    };
    let all = within(connect("/mcp")).await.unwrap();
    assert!(tool_names(&all).await.len() > 6);
    let reading = within(connect("/mcp/profiles/reading")).await.unwrap();
    assert_eq!(tool_names(&reading).await, ["git__get_issue", "git__get_secret"]);
    let outside = rpc_error(call(&reading, "git__push", json!({})).await);
    assert_eq!(outside.0, -32602);
    assert!(call(&all, "git__push", json!({})).await.is_ok());
    assert!(within(connect("/mcp/profiles/unknown")).await.is_err());
    let unknown = within(server.http("POST", "/mcp/profiles/nosuch", &[], b"{}")).await;
    assert_eq!(unknown.status, 404);
    assert!(unknown.body.contains(r#"no profile \"nosuch\"; there are "#), "{}", unknown.body);
    assert!(unknown.body.contains("reading"), "{}", unknown.body);
    // The session of one URL is unknown at another one.
    let headers =
        [("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream")];
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"},
    }});
    let body = hello.to_string();
    let opened = server.http("POST", "/mcp/profiles/reading", &headers, body.as_bytes()).await;
    let session = opened.header("mcp-session-id").unwrap().to_owned();
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}).to_string();
    let with_session = [
        headers[0],
        headers[1],
        ("Mcp-Session-Id", &*session),
        ("MCP-Protocol-Version", "2025-11-25"),
    ];
    for (path, want) in [("/mcp/profiles/reading", 200), ("/mcp", 404)] {
        let answer = server.http("POST", path, &with_session, list.as_bytes()).await;
        assert_eq!(answer.status, want, "{path}: {answer:?}");
    }
    server.stop().await;
    stop.cancel();
}

#[tokio::test]
async fn changed_rules_take_effect_in_running_sessions() {
    let stop = CancellationToken::new();
    let shops = shops(&stop).await;
    let rules = |tools: &str| {
        format!(
            "server.reload_on_change = false\nknowledge.enabled = false\n\
             [[policy.rules]]\nupstreams = ['git']\ntools = {{ allow = [{tools}] }}\n{shops}"
        )
    };
    let program = Program::start(&rules("'get_issue'")).await;
    let agent = program.agent(RevisionChoice::Only(SESSION)).await;
    until("the tool is listed", async || tool_names(&agent).await == ["git__get_issue"]).await;
    program.write(&rules("'push'"));
    assert!(program.reload().await.0);
    assert_eq!(tool_names(&agent).await, ["git__push"]);
    assert_eq!(rpc_error(call(&agent, "git__get_issue", json!({})).await).0, -32602);
    program.write(&rules("'{push}'"));
    let (is_done, problem) = program.reload().await;
    assert!(!is_done && problem.contains("policy.rules[0].tools.allow"), "{problem}");
    assert_eq!(tool_names(&agent).await, ["git__push"], "the old rules stay");
    program.stop().await;
    stop.cancel();
}

#[tokio::test]
async fn denials_are_in_the_audit_log() {
    let stop = CancellationToken::new();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let toml = format!(
        "audit.path = '{}'\n{RULES}{}{}",
        path.display(),
        users_toml(folder.path(), &USERS),
        shops(&stop).await
    );
    let server = Running::start(&toml).await;
    let options = ClientOptions::default;
    let bob = server.agent_of_user(SESSION, options(), Some(&token_of("bob"))).await;
    for name in ["git__get_secret", "git__push", "encodePlantUML", "git__unknown"] {
        rpc_error(call(&bob, name, json!({})).await);
    }
    call(&bob, "git__get_issue", json!({})).await.unwrap();
    server.stop().await;
    let log = std::fs::read_to_string(&path).unwrap();
    let calls: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|event| event["method"] == "tools/call")
        .collect();
    let seen: Vec<_> = calls.iter().map(|it| (&it["name"], &it["outcome"], &it["rule"])).collect();
    let want = json!([
        ["git__get_secret", "denied", "policy.rules[1]"],
        ["git__push", "denied", "policy.rules"],
        ["encodePlantUML", "denied", "policy.rules"],
        ["git__unknown", "rpc_error", null],
        ["git__get_issue", "ok", null],
    ]);
    assert_eq!(json!(seen), want, "{log}");
    stop.cancel();
}
