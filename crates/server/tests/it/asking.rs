//! An upstream that asks questions, sends notifications and has subscriptions; in this process over
//! HTTP, or as a child process.

use std::{
    collections::BTreeMap,
    env, process,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use axum::{body::Body, extract::Request, response::Response, routing::any};
use marquetry_protocol::{
    RpcError,
    server::{
        ConversationId, Handler, Reply, RequestContext, Server, ServerDescription, TaskOptions,
        http::{HttpEndpoint, HttpOptions, ServeOptions, serve},
    },
    types::{
        CallToolParams, CallToolResult, CompleteParams, CompleteResult, Completion,
        CreateMessageParams, ElicitParams, Implementation, JsonObject, ListChanged,
        ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
        LogLevel, Prompt, Resource, ResourceTemplate, ResourcesCapability, SamplingMessage,
        ServerCapabilities, TASKS_EXTENSION, Tool,
    },
};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::upstream::ACT;

/// Value of [`ACT`] for such a child process.
pub(crate) const ASKING: &str = "asking";

/// Returns a TOML table for such a child process with this revision.
pub(crate) fn child_toml(name: &str, revision: &str) -> String {
    let program = env::current_exe().unwrap();
    format!(
        "[mcp_servers.{name}]\ncommand = {program:?}\nrevision = '{revision}'\nargs = ['--exact', 'upstream::act', '--nocapture', '--quiet']\nenv = {{ {ACT} = '{ASKING}' }}\n"
    )
}

/// The upstream.
#[derive(Clone, Default)]
pub(crate) struct Asking {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    server: OnceLock<Server>,
    subscribed: Mutex<BTreeMap<String, usize>>,
    calls: AtomicUsize,
    dropped: AtomicUsize,
    /// The HTTP status of every answer from now on; 0 for none.
    refuses_with: AtomicU16,
    has_tasks: AtomicBool,
}

/// An upstream over HTTP; stopped when dropped.
pub(crate) struct AskingOverHttp {
    pub(crate) asking: Asking,
    url: String,
    stop: CancellationToken,
}

impl AskingOverHttp {
    pub(crate) async fn start() -> Self {
        Self::of(Asking::default()).await
    }

    /// An upstream that answers every call with a task.
    pub(crate) async fn with_tasks() -> Self {
        let asking = Asking::default();
        asking.shared.has_tasks.store(true, Ordering::SeqCst);
        Self::of(asking).await
    }

    async fn of(asking: Asking) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let endpoint = HttpEndpoint::new(asking.server(), HttpOptions::default());
        let shared = asking.shared.clone();
        let router = axum::Router::new().route(
            "/mcp",
            any(move |request: Request| {
                let endpoint = endpoint.clone();
                let shared = shared.clone();
                async move {
                    let status = shared.refuses_with.load(Ordering::SeqCst);
                    if status != 0 {
                        let mut response = Response::builder().status(status);
                        if status == 401 {
                            let challenge = "Bearer error=\"invalid_token\"";
                            response = response.header("www-authenticate", challenge);
                        }
                        return response.body(Body::from("who are you?")).unwrap();
                    }
                    endpoint.handle(request).await.map(Body::new)
                }
            }),
        );
        let service = hyper_util::service::TowerToHyperService::new(router);
        let stop = CancellationToken::new();
        let options = ServeOptions { shutdown_grace: Duration::ZERO, ..ServeOptions::default() };
        let serve = serve(listener, service).with_options(options).until(stop.clone());
        tokio::spawn(serve.into_future());
        Self { asking, url, stop }
    }

    pub(crate) fn toml(&self, name: &str, revision: &str) -> String {
        format!("[mcp_servers.{name}]\nurl = '{}'\nrevision = '{revision}'\n", self.url)
    }
}

impl Drop for AskingOverHttp {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Asking {
    pub(crate) fn server(&self) -> Server {
        let server = Server::new(self.clone());
        self.shared.server.set(server.clone()).ok().expect("one server an upstream");
        server
    }

    /// Refuses every request from now on with this HTTP status; 0 ends that.
    pub(crate) fn refuse_with(&self, status: u16) {
        self.shared.refuses_with.store(status, Ordering::SeqCst);
    }

    /// Returns the number of calls that were dropped before they finished.
    pub(crate) fn dropped(&self) -> usize {
        self.shared.dropped.load(Ordering::SeqCst)
    }

    pub(crate) fn calls(&self) -> usize {
        self.shared.calls.load(Ordering::SeqCst)
    }

    async fn called(
        &self,
        name: &str,
        arguments: &Value,
        cx: &RequestContext,
    ) -> Result<String, RpcError> {
        let message = arguments["message"].as_str().unwrap_or("name?");
        let form = |message: &str| {
            ElicitParams::form(message, json!({ "type": "object", "properties": {} }))
        };
        Ok(match name {
            "form" => {
                let answer = cx.elicit("form", &form(message)).await?;
                json!(answer.content).to_string()
            }
            "page" => {
                let page = ElicitParams::url("go there", "https://example.com/x", "page-1");
                let answer = cx.elicit("page", &page).await?;
                cx.notify(
                    "notifications/elicitation/complete",
                    &json!({ "elicitationId": "page-1" }),
                )
                .await;
                json!(answer.action).to_string()
            }
            "tools" => {
                let ask = CreateMessageParams {
                    messages: vec![SamplingMessage::user("which?")],
                    max_tokens: 9,
                    tools: Some(vec![json!({ "name": "t", "inputSchema": { "type": "object" } })]),
                    ..CreateMessageParams::default()
                };
                cx.sample("model", &ask).await?.text()
            }
            "all" => {
                let ask = CreateMessageParams {
                    messages: vec![SamplingMessage::user("which?")],
                    max_tokens: 9,
                    ..CreateMessageParams::default()
                };
                let name = form("name?");
                let (user, model, roots) = tokio::try_join!(
                    cx.elicit("user", &name),
                    cx.sample("model", &ask),
                    cx.roots("roots")
                )?;
                let again = cx.elicit("again", &form("sure?")).await?;
                json!([user.content, model.text(), roots.roots[0].uri, again.content]).to_string()
            }
            "many" => {
                let mut answered = 0;
                for number in 0..arguments["n"].as_u64().unwrap_or(1_000) {
                    match cx.elicit(&number.to_string(), &form(&number.to_string())).await {
                        Ok(_) => answered += 1,
                        Err(error) => {
                            return Ok(format!("{answered} answered, then: {}", error.message));
                        }
                    }
                }
                format!("{answered} answered")
            }
            "late" => {
                // It asks when the caller no longer waits.
                let cx = cx.clone();
                let form = form(message);
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(400)).await;
                    cx.elicit("late", &form).await
                });
                std::future::pending().await
            }
            "die" => {
                tokio::spawn(async {
                    tokio::time::sleep(Duration::from_millis(300)).await;
                    process::exit(9);
                });
                cx.elicit("form", &form(message)).await?;
                std::future::pending().await
            }
            "freeze" => {
                let pid = process::id().to_string();
                process::Command::new("kill").args(["-STOP", &pid]).status().unwrap();
                std::future::pending().await
            }
            "pid" => process::id().to_string(),
            "slow" => {
                tokio::time::sleep(Duration::from_millis(arguments["ms"].as_u64().unwrap())).await;
                "slow is done".to_owned()
            }
            "log" => {
                for level in [LogLevel::Debug, LogLevel::Info, LogLevel::Error] {
                    cx.log(level, Some("inner"), &json!({ "of": message })).await;
                }
                "logged".to_owned()
            }
            "progress" => {
                for step in 1..=3 {
                    cx.progress(f64::from(step), Some(3.0), Some("on the way")).await;
                }
                "done".to_owned()
            }
            "subscribed" => json!(*self.shared.subscribed.lock().unwrap()).to_string(),
            "change" => {
                self.shared
                    .server
                    .get()
                    .unwrap()
                    .notifier()
                    .resource_updated(arguments["uri"].as_str().unwrap());
                "changed".to_owned()
            }
            other => return Err(RpcError::invalid_params(format!("unknown tool '{other}'"))),
        })
    }
}

/// Counts calls that are dropped before their end.
struct Watch<'a>(&'a Shared, bool);

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if !self.1 {
            self.0.dropped.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[async_trait]
impl Handler for Asking {
    fn describe(&self) -> ServerDescription {
        let mut capabilities = ServerCapabilities::default();
        capabilities.tools = Some(ListChanged { list_changed: true });
        capabilities.prompts = Some(ListChanged { list_changed: true });
        capabilities.resources = Some(ResourcesCapability { list_changed: true, subscribe: true });
        capabilities.completions = Some(JsonObject::new());
        capabilities.logging = Some(JsonObject::new());
        if self.shared.has_tasks.load(Ordering::SeqCst) {
            capabilities.add_extension(TASKS_EXTENSION);
        }
        ServerDescription {
            info: Implementation::new("asking", "1"),
            capabilities,
            instructions: None,
        }
    }

    async fn list_tools(
        &self,
        _: Option<&str>,
        _: &RequestContext,
    ) -> Result<ListToolsResult, RpcError> {
        let tool = |name: &str| Tool {
            name: name.to_owned(),
            input_schema: json!({ "type": "object" }),
            ..Tool::default()
        };
        let names = [
            "form",
            "page",
            "tools",
            "all",
            "many",
            "late",
            "die",
            "freeze",
            "pid",
            "slow",
            "log",
            "progress",
            "subscribed",
            "change",
        ];
        Ok(ListToolsResult { tools: names.map(tool).to_vec(), ..Default::default() })
    }

    fn task_options(&self, _: &str) -> Option<TaskOptions> {
        let has_tasks = self.shared.has_tasks.load(Ordering::SeqCst);
        has_tasks.then(|| TaskOptions::required().poll_interval(Duration::from_millis(30)))
    }

    async fn call_tool(
        &self,
        params: CallToolParams,
        cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        let arguments = params.arguments.as_ref();
        let arguments =
            arguments.map_or(Value::Null, |raw| serde_json::from_str(raw.get()).unwrap());
        self.shared.calls.fetch_add(1, Ordering::SeqCst);
        let mut watch = Watch(&self.shared, false);
        let outcome = self.called(&params.name, &arguments, cx).await;
        watch.1 = true;
        match outcome {
            Ok(text) => Reply::json(&CallToolResult::text(text)),
            // The tool returns the client's error. Without a session the client itself gets the
            // error.
            Err(error) if cx.session_id().is_some() || cx.announcer().is_some() => {
                Reply::json(&CallToolResult::error(format!("{} {}", error.code, error.message)))
            }
            Err(error) => Err(error),
        }
    }

    async fn list_resources(
        &self,
        _: Option<&str>,
        _: &RequestContext,
    ) -> Result<ListResourcesResult, RpcError> {
        let resource =
            |uri: &str| Resource { uri: uri.into(), name: uri.into(), ..Resource::default() };
        Ok(ListResourcesResult {
            resources: vec![resource("ask://a"), resource("ask://b")],
            ..Default::default()
        })
    }

    async fn list_resource_templates(
        &self,
        _: Option<&str>,
        _: &RequestContext,
    ) -> Result<ListResourceTemplatesResult, RpcError> {
        let template = ResourceTemplate {
            uri_template: "ask://{id}".into(),
            name: "id".into(),
            ..Default::default()
        };
        Ok(ListResourceTemplatesResult { resource_templates: vec![template], ..Default::default() })
    }

    async fn list_prompts(
        &self,
        _: Option<&str>,
        _: &RequestContext,
    ) -> Result<ListPromptsResult, RpcError> {
        let prompt = Prompt { name: "greet".into(), ..Prompt::default() };
        Ok(ListPromptsResult { prompts: vec![prompt], ..Default::default() })
    }

    async fn complete(
        &self,
        params: CompleteParams,
        _: &RequestContext,
    ) -> Result<CompleteResult, RpcError> {
        let values = vec![format!("{} of {}", params.argument.value, json!(params.reference))];
        Ok(CompleteResult { completion: Completion { values, ..Completion::default() } })
    }

    async fn subscribe(&self, uri: &str, _: &RequestContext) -> Result<(), RpcError> {
        if uri == "ask://refused" {
            return Err(RpcError::resource_not_found(uri));
        }
        *self.shared.subscribed.lock().unwrap().entry(uri.to_owned()).or_default() += 1;
        Ok(())
    }

    async fn unsubscribe(&self, uri: &str, _: ConversationId) {
        let mut subscribed = self.shared.subscribed.lock().unwrap();
        if let Some(count) = subscribed.get_mut(uri) {
            *count -= 1;
            if *count == 0 {
                subscribed.remove(uri);
            }
        }
    }
}
