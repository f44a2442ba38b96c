//! The server half, as clients of both eras see it.

use async_trait::async_trait;
use marquetry_apps_ext::{
    server::{AppOnlyTools, Apps, Gating, View},
    types::{EXTENSION, ToolUi, UiUri, VIEW_MIME_TYPE, Visibility},
};
use marquetry_protocol::{
    Revision, RpcError,
    client::{CallOptions, Client, ClientError, ClientOptions, RevisionChoice},
    server::{Handler, Reply, RequestContext, Server, ServerDescription, Toolbox, serve_pipe},
    types::{
        CacheHint, CallToolParams, CallToolResult, ClientCapabilities, Content,
        ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, Resource,
        ResourceTemplate, Tool,
    },
};
use proptest::prelude::*;
use serde_json::{Value, json, value::to_raw_value};
use tokio_util::sync::{CancellationToken, DropGuard};

const PAGE: &str = "ui://clock/page.html";
const ERAS: [Revision; 2] = [Revision::V2025_11_25, Revision::V2026_07_28];

/// A client with this capability for Views.
async fn client(
    server: &Server,
    revision: Revision,
    settings: Option<Value>,
) -> (DropGuard, Client) {
    let mut capabilities = ClientCapabilities::default();
    if let Some(settings) = settings {
        capabilities.extensions.insert(EXTENSION.to_owned(), settings);
    }
    let options = ClientOptions {
        capabilities,
        revision: RevisionChoice::Only(revision),
        ..ClientOptions::default()
    };
    let stop = CancellationToken::new();
    let server = server.clone();
    let stopped = stop.clone();
    let (ours, theirs) = tokio::io::duplex(4096);
    let (reader, writer) = tokio::io::split(theirs);
    tokio::spawn(async move { serve_pipe(&server, reader, writer, stopped).await });
    let (reader, writer) = tokio::io::split(ours);
    (stop.drop_guard(), Client::connect(reader, writer, options).await.unwrap())
}

fn with_views() -> Option<Value> {
    Some(json!({ "mimeTypes": ["text/plain", VIEW_MIME_TYPE] }))
}

async fn ask(client: &Client, method: &str, params: Value) -> Result<Value, RpcError> {
    let params = to_raw_value(&params).unwrap();
    match client.request(method, Some(&params), CallOptions::default()).await {
        Ok(result) => Ok(serde_json::from_str(result.get()).unwrap()),
        Err(ClientError::Rpc(error)) => Err(error),
        Err(error) => panic!("{method}: {error}"),
    }
}

/// Tools of every kind, and resources.
fn toolbox() -> Toolbox {
    let motd = Resource { uri: "motd://today".into(), name: "motd".into(), ..Resource::default() };
    let ui = async |(): (), _: RequestContext| {
        let meta = json!({ "ui": { "resourceUri": PAGE }, "ui/resourceUri": PAGE, "other": 1 });
        let content = vec![Content::text("12:00")];
        CallToolResult { content, meta: meta.as_object().cloned(), ..CallToolResult::default() }
    };
    Toolbox::new("clock", "1")
        .tool("clock", "Tells the time.", ui)
        .tool("poll", "For Views.", async |(): (), _| "polled")
        .tool("plain", "Has no View.", async |(): (), _| "plain")
        .tool("odd", "Says odd things of its View.", async |(): (), _| "odd")
        .tool_description("odd", |tool| {
            let meta = json!({ "ui": { "resourceUri": "https://a.example", "visibility": ["model", "robot"] }, "more": 1 });
            tool.meta = meta.as_object().cloned();
        })
        .resource(motd, async |_| Ok("Hello."))
}

fn apps() -> Apps {
    Apps::new()
        .view(PAGE, View::html("<!doctype html><h1>…</h1>").prefers_border(true))
        .view("ui://clock/blob.html", View::html("<!doctype html>").as_blob())
        .show("clock", PAGE)
        .tool("poll", ToolUi::default().with_visibility(Visibility::APP))
}

fn names<'a>(list: &'a Value, member: &str, key: &str) -> Vec<&'a str> {
    list[member].as_array().unwrap().iter().map(|it| it[key].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_client_with_views_sees_them() {
    let server = Server::new(apps().wrap(toolbox()));
    for revision in ERAS {
        let (_guard, client) = client(&server, revision, with_views()).await;
        let extensions = &client.server().capabilities.extensions;
        assert_eq!(extensions[EXTENSION], json!({ "mimeTypes": [VIEW_MIME_TYPE] }), "{revision}");

        let tools = ask(&client, "tools/list", json!({})).await.unwrap();
        assert_eq!(names(&tools, "tools", "name"), ["clock", "poll", "plain", "odd"]);
        let meta = |at: usize| &tools["tools"][at]["_meta"];
        assert_eq!(*meta(0), json!({ "ui": { "resourceUri": PAGE }, "ui/resourceUri": PAGE }));
        assert_eq!(*meta(1), json!({ "ui": { "visibility": ["app"] } }));
        assert_eq!(*meta(2), Value::Null);
        assert_eq!(*meta(3), json!({ "ui": { "visibility": ["model"] }, "more": 1 }));

        let list = ask(&client, "resources/list", json!({})).await.unwrap();
        let uris = names(&list, "resources", "uri");
        assert_eq!(uris, ["ui://clock/blob.html", PAGE, "motd://today"]);
        assert_eq!(list["resources"][1]["mimeType"], VIEW_MIME_TYPE);
        assert_eq!(list["resources"][1]["_meta"], json!({ "ui": { "prefersBorder": true } }));

        let called = ask(&client, "tools/call", json!({ "name": "clock" })).await.unwrap();
        assert_eq!(called["_meta"]["ui"]["resourceUri"], PAGE);
    }
}

#[tokio::test]
async fn a_client_without_views_gets_a_server_of_texts() {
    let server = Server::new(apps().wrap(toolbox()));
    let declared = [
        None,
        Some(json!({})),
        Some(json!({ "mimeTypes": ["application/vnd.custom"] })),
        Some(json!({ "mimeTypes": VIEW_MIME_TYPE })),
        Some(json!({ "mimeTypes": ["text/html"] })),
        Some(json!(true)),
    ];
    for revision in ERAS {
        for settings in &declared {
            let (_guard, client) = client(&server, revision, settings.clone()).await;
            let about = format!("{revision} {settings:?}");
            assert!(!client.server().capabilities.has_extension(EXTENSION), "{about}");

            let tools = ask(&client, "tools/list", json!({})).await.unwrap();
            assert_eq!(names(&tools, "tools", "name"), ["clock", "plain", "odd"], "{about}");
            assert!(!tools.to_string().contains("ui"), "{about}: {tools}");
            assert_eq!(tools["tools"][2]["_meta"], json!({ "more": 1 }));

            let list = ask(&client, "resources/list", json!({})).await.unwrap();
            assert_eq!(names(&list, "resources", "uri"), ["motd://today"], "{about}");

            let mut called = ask(&client, "tools/call", json!({ "name": "clock" })).await.unwrap();
            called["_meta"].as_object_mut().unwrap().retain(|key, _| !key.contains('.'));
            assert_eq!(called["_meta"], json!({ "other": 1 }), "{about}");
            assert_eq!(called["content"], json!([{ "type": "text", "text": "12:00" }]));
            // It is for Views alone.
            let refused = ask(&client, "tools/call", json!({ "name": "poll" })).await.unwrap_err();
            assert!(refused.to_string().contains("unknown tool 'poll'"), "{refused}");
        }
    }
}

#[tokio::test]
async fn views_are_read_by_every_client() {
    let server = Server::new(apps().wrap(toolbox()));
    for revision in ERAS {
        for settings in [None, with_views()] {
            let (_guard, client) = client(&server, revision, settings).await;
            let read =
                async |uri: &str| ask(&client, "resources/read", json!({ "uri": uri })).await;
            let page = json!([{
                "uri": PAGE, "mimeType": VIEW_MIME_TYPE, "text": "<!doctype html><h1>…</h1>",
                "_meta": { "ui": { "prefersBorder": true } },
            }]);
            assert_eq!(read(PAGE).await.unwrap()["contents"], page);
            let blob = &read("ui://clock/blob.html").await.unwrap()["contents"][0];
            assert_eq!((&blob["blob"], blob.get("text")), (&json!("PCFkb2N0eXBlIGh0bWw+"), None));
            assert_eq!(read("motd://today").await.unwrap()["contents"][0]["text"], "Hello.");
            let error = read("ui://clock/none.html").await.unwrap_err();
            let code = if revision == Revision::V2026_07_28 { -32602 } else { -32002 };
            assert_eq!(error.code, code);
            let data: Value = serde_json::from_str(error.data.unwrap().get()).unwrap();
            assert_eq!(data, json!({ "uri": "ui://clock/none.html" }));
        }
    }
}

/// As a gateway asks for one of its servers alone.
#[tokio::test]
async fn requests_that_are_not_offered_the_views_get_the_handlers_resources() {
    let own = Resource { uri: PAGE.into(), name: "its own".into(), ..Resource::default() };
    let handler = || toolbox().resource(own.clone(), async |_| Ok("its own text"));
    for (is_offered, count, text) in
        [(true, 3, "<!doctype html><h1>…</h1>"), (false, 2, "its own text")]
    {
        let server = Server::new(apps().offered_if(move |_| is_offered).wrap(handler()));
        let (_guard, client) = client(&server, ERAS[1], with_views()).await;
        let list = ask(&client, "resources/list", json!({})).await.unwrap();
        assert_eq!(list["resources"].as_array().unwrap().len(), count, "{list}");
        let read = ask(&client, "resources/read", json!({ "uri": PAGE })).await.unwrap();
        assert_eq!(read["contents"][0]["text"], text);
    }
}

#[tokio::test]
async fn a_handler_without_resources_gets_those_of_its_views() {
    let toolbox = || Toolbox::new("t", "1").tool("t", "", async |(): (), _| "t");
    let server = Server::new(apps().wrap(toolbox()));
    let bare = Server::new(Apps::new().wrap(toolbox()));
    for revision in ERAS {
        for (settings, views) in [(None, 0), (with_views(), 2)] {
            let (_guard, with) = client(&server, revision, settings.clone()).await;
            assert!(with.server().capabilities.resources.is_some());
            let list = ask(&with, "resources/list", json!({})).await.unwrap();
            assert_eq!(list["resources"].as_array().unwrap().len(), views);
            let list = ask(&with, "resources/templates/list", json!({})).await.unwrap();
            assert_eq!(list["resourceTemplates"], json!([]));
            let error = ask(&with, "resources/read", json!({ "uri": "a://b" })).await.unwrap_err();
            assert!(error.message.contains("resource not found"), "{error}");
            let (_guard, without) = client(&bare, revision, settings).await;
            assert!(without.server().capabilities.resources.is_none());
            let list = ask(&without, "resources/list", json!({})).await;
            assert_eq!(list.unwrap_err().code, -32601);
        }
    }
}

#[tokio::test]
async fn gating_and_hiding_are_settings() {
    let always = Server::new(apps().gating(Gating::Always).wrap(toolbox()));
    let hidden = Server::new(apps().app_only_tools(AppOnlyTools::Hidden).wrap(toolbox()));
    for revision in ERAS {
        let (_guard, client_of_always) = client(&always, revision, None).await;
        assert!(client_of_always.server().capabilities.has_extension(EXTENSION));
        let tools = ask(&client_of_always, "tools/list", json!({})).await.unwrap();
        assert_eq!(names(&tools, "tools", "name"), ["clock", "poll", "plain", "odd"]);
        assert_eq!(tools["tools"][0]["_meta"]["ui"]["resourceUri"], PAGE);
        let (_guard, client) = client(&hidden, revision, with_views()).await;
        let tools = ask(&client, "tools/list", json!({})).await.unwrap();
        assert_eq!(names(&tools, "tools", "name"), ["clock", "plain", "odd"]);
        let called = ask(&client, "tools/call", json!({ "name": "poll" })).await.unwrap();
        assert_eq!(called["content"][0]["text"], "polled");
    }
}

/// A handler that lists tools and resources of a test, in several pages.
#[derive(Clone)]
struct Own {
    tools: Vec<Tool>,
    resources: Vec<&'static str>,
}

#[async_trait]
impl Handler for Own {
    fn describe(&self) -> ServerDescription {
        let mut description = ServerDescription::default();
        description.capabilities.tools = Some(Default::default());
        description.capabilities.resources = Some(Default::default());
        description.capabilities.add_extension(EXTENSION);
        description
    }

    fn cache_hint(&self, _: &str) -> CacheHint {
        CacheHint::public(std::time::Duration::from_secs(1))
    }

    async fn list_tools(
        &self,
        cursor: Option<&str>,
        _: &RequestContext,
    ) -> Result<ListToolsResult, RpcError> {
        let at = cursor.map_or(0, |cursor| cursor.parse::<usize>().unwrap());
        let next_cursor = (at + 1 < self.tools.len()).then(|| (at + 1).to_string());
        Ok(ListToolsResult {
            tools: self.tools.get(at).cloned().into_iter().collect(),
            next_cursor,
        })
    }

    async fn call_tool(&self, _: CallToolParams, _: &RequestContext) -> Result<Reply, RpcError> {
        Reply::json(&CallToolResult::text("t"))
    }

    async fn list_resources(
        &self,
        cursor: Option<&str>,
        _: &RequestContext,
    ) -> Result<ListResourcesResult, RpcError> {
        let at = cursor.map_or(0, |cursor| cursor.parse::<usize>().unwrap());
        let resource = |uri: &&str| Resource {
            uri: (*uri).to_owned(),
            name: "r".to_owned(),
            ..Resource::default()
        };
        let next_cursor = (at + 1 < self.resources.len()).then(|| (at + 1).to_string());
        let resources = self.resources.get(at).map(resource).into_iter().collect();
        Ok(ListResourcesResult { resources, next_cursor })
    }

    async fn list_resource_templates(
        &self,
        _: Option<&str>,
        _: &RequestContext,
    ) -> Result<ListResourceTemplatesResult, RpcError> {
        let template = |uri: &&str| ResourceTemplate {
            uri_template: format!("{uri}/{{id}}"),
            name: "t".to_owned(),
            ..ResourceTemplate::default()
        };
        let resource_templates = self.resources.iter().map(template).collect();
        Ok(ListResourceTemplatesResult { resource_templates, next_cursor: None })
    }
}

#[tokio::test]
async fn the_handlers_own_views_are_gated_page_by_page() {
    let own =
        Own { tools: Vec::new(), resources: vec!["a://1", "ui://own/a", "UI://own/b", "a://2"] };
    let server = Server::new(apps().wrap(own));
    for revision in ERAS {
        let uris = async |settings| {
            let (_guard, client) = client(&server, revision, settings).await;
            let templates = ask(&client, "resources/templates/list", json!({})).await.unwrap();
            let templates = templates["resourceTemplates"].as_array().unwrap().len();
            let resources = client.fetch_resources().await.unwrap().items;
            let uris: Vec<_> = resources.into_iter().map(|resource| resource.uri).collect();
            (uris.join(" "), templates)
        };
        assert_eq!(uris(None).await, ("a://1 a://2".to_owned(), 2));
        let all = format!("ui://clock/blob.html {PAGE} a://1 ui://own/a UI://own/b a://2");
        assert_eq!(uris(with_views()).await, (all, 4));
    }
}

#[tokio::test]
async fn answers_that_depend_on_the_client_are_private() {
    let own = Own { tools: vec![Tool::default()], resources: vec!["a://1"] };
    for (gating, scope) in [(Gating::Negotiated, "private"), (Gating::Always, "public")] {
        let server = Server::new(apps().gating(gating).wrap(own.clone()));
        let (_guard, client) = client(&server, Revision::V2026_07_28, None).await;
        for method in
            ["server/discover", "tools/list", "resources/list", "resources/templates/list"]
        {
            let answer = ask(&client, method, json!({})).await.unwrap();
            let hint = (&answer["cacheScope"], &answer["ttlMs"]);
            assert_eq!(hint, (&json!(scope), &json!(1_000)), "{method}");
        }
        // A View is the same for every client.
        let answer = ask(&client, "resources/read", json!({ "uri": PAGE })).await.unwrap();
        assert_eq!(answer["cacheScope"], "public");
    }
}

#[test]
#[should_panic(expected = "starts with ui://")]
fn a_wrong_uri_is_found_at_once() {
    _ = Apps::new().view("https://a.example", View::html(""));
}

#[test]
#[should_panic(expected = "no View has the URI \"ui://b\"")]
fn a_tool_of_a_view_that_is_missing_is_found_at_once() {
    _ = Apps::new().view("ui://a", View::html("")).show("t", "ui://b");
}

/// Any `_meta` of a tool.
fn any_meta() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        Just(json!(null)),
        Just(json!(7)),
        Just(json!("ui://a/b")),
        Just(json!("ui://")),
        Just(json!("https://a")),
        Just(json!("app")),
        Just(json!("model")),
        Just(json!("robot")),
    ];
    let list = prop::collection::vec(text.clone(), 0..3).prop_map(Value::from);
    let keys = prop::sample::select(vec!["resourceUri", "visibility", "csp", "x"]);
    let ui = prop::collection::btree_map(keys, prop_oneof![text.clone(), list], 0..4)
        .prop_map(|members| json!(members));
    let ui = prop_oneof![3 => ui, 1 => text.clone()];
    (prop::option::of(ui), prop::option::of(text), any::<bool>()).prop_map(|(ui, flat, other)| {
        let mut meta = serde_json::Map::new();
        ui.map(|ui| meta.insert("ui".to_owned(), ui));
        flat.map(|flat| meta.insert("ui/resourceUri".to_owned(), flat));
        if other {
            meta.insert("other".to_owned(), json!(1));
        }
        Value::Object(meta)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// For any metadata of a server, hosts get links that are URIs of Views and lists of known
    /// words, and other clients get none of it.
    #[test]
    fn metadata_of_any_kind_is_made_safe(metas in prop::collection::vec(any_meta(), 1..6)) {
        let tools = metas.iter().enumerate().map(|(at, meta)| Tool {
            name: at.to_string(), input_schema: json!({ "type": "object" }), meta: meta.as_object().cloned(), ..Tool::default()
        });
        let own = Own { tools: tools.collect(), resources: Vec::new() };
        let server = Server::new(Apps::new().wrap(own));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let list = |settings| runtime.block_on(async {
            let (_guard, client) = client(&server, Revision::V2025_11_25, settings).await;
            client.list_tools().await.unwrap()
        });
        let hosts = list(with_views());
        prop_assert_eq!(hosts.len(), metas.len());
        for tool in &hosts {
            let Some(meta) = &tool.meta else { continue };
            let link = meta.get("ui").and_then(|ui| ui.get("resourceUri"));
            prop_assert_eq!(link, meta.get("ui/resourceUri"), "both keys say the same");
            if let Some(link) = link {
                prop_assert!(UiUri::new(link.as_str().unwrap()).is_ok());
            }
            let visibility = meta.get("ui").and_then(|ui| ui.get("visibility"));
            let is_known = |words: &Vec<Value>| words.iter().all(|word| word == "model" || word == "app");
            prop_assert!(visibility.is_none_or(|it| it.as_array().is_some_and(is_known)));
        }
        let texts = list(None);
        let for_models: Vec<_> = hosts.iter().filter(|tool| Visibility::of(tool).model).map(|tool| &tool.name).collect();
        prop_assert_eq!(texts.iter().map(|tool| &tool.name).collect::<Vec<_>>(), for_models);
        for tool in texts {
            prop_assert!(tool.meta.is_none_or(|meta| meta.keys().eq(["other"])));
        }
    }
}
