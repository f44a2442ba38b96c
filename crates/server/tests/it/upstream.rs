//! An upstream MCP server for tests: in this process over HTTP, or as a child process, which is
//! this program again.

use std::{
    env, io,
    net::SocketAddr,
    process::{self, Stdio},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use marquetry_protocol::{
    RpcError,
    server::{
        Handler, Reply, RequestContext, Server, ServerDescription,
        http::{HttpEndpoint, HttpOptions, ServeOptions, serve},
        serve_stdio,
    },
    types::{
        CallToolParams, CallToolResult, Content, GetPromptParams, GetPromptResult, Implementation,
        ListChanged, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
        ListToolsResult, Prompt, PromptMessage, ReadResourceParams, ReadResourceResult, Resource,
        ResourceContents, ResourceTemplate, ResourcesCapability, Role, ServerCapabilities, Tool,
    },
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::asking::{ASKING, Asking};

/// Set for a child process, which is then an upstream and runs no tests.
pub(crate) const ACT: &str = "MARQUETRY_TEST_UPSTREAM";

/// Saves the pictures of the tool `image`, however small they are. Belongs after
/// [`HttpUpstream::toml`].
pub(crate) const SAVED_IMAGES: &str = "tools.image.capture.inline_image_max_bytes = 0\n";

/// The smallest picture: one transparent PNG pixel.
pub(crate) const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// Returns a TOML table for an upstream that is a child process.
pub(crate) fn child_toml(name: &str) -> String {
    let program = env::current_exe().unwrap();
    format!(
        "[mcp_servers.{name}]\ncommand = {program:?}\nargs = ['--exact', 'upstream::act', '--nocapture', '--quiet']\nenv = {{ {ACT} = '1' }}\n"
    )
}

/// The same, with a start that takes some seconds.
pub(crate) fn slow_child_toml(name: &str, seconds: u32) -> String {
    let program = env::current_exe().unwrap();
    format!(
        "[mcp_servers.{name}]\ncommand = 'sh'\nargs = ['-c', 'sleep {seconds}; exec \"$0\" --exact upstream::act --nocapture --quiet', {program:?}]\nenv = {{ {ACT} = '1' }}\n"
    )
}

/// Not a test: the program of the child process.
#[test]
fn act() {
    let Some(kind) = env::var_os(ACT) else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let server =
            if kind == ASKING { Asking::default().server() } else { Upstream::default().server() };
        // Tests look for its standard error in the server's log.
        eprintln!("upstream started");
        serve_stdio(&server, CancellationToken::new()).await.unwrap();
    });
    process::exit(0);
}

/// Controls of an upstream in the test's process.
#[derive(Clone, Default)]
pub(crate) struct Upstream {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    server: OnceLock<Server>,
    grown: AtomicBool,
    prompts_are_broken: AtomicBool,
    prompts_hang: AtomicBool,
    slow_is_running: AtomicBool,
    slow_was_dropped: AtomicBool,
}

/// An upstream over HTTP; stopped when dropped.
pub(crate) struct HttpUpstream {
    pub(crate) upstream: Upstream,
    pub(crate) url: String,
    stop: CancellationToken,
    serving: JoinHandle<io::Result<()>>,
}

impl HttpUpstream {
    pub(crate) async fn start() -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap()).await
    }

    pub(crate) async fn start_at(address: SocketAddr) -> Self {
        let upstream = Upstream::default();
        let listener = TcpListener::bind(address).await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let endpoint = HttpEndpoint::new(upstream.server(), HttpOptions::default());
        let stop = CancellationToken::new();
        let options = ServeOptions { shutdown_grace: Duration::ZERO, ..ServeOptions::default() };
        let serve = serve(listener, endpoint).with_options(options).until(stop.clone());
        let serving = tokio::spawn(serve.into_future());
        Self { upstream, url, stop, serving }
    }

    /// Stops it; its port is free again.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        (&mut self.serving).await.unwrap().unwrap();
    }

    pub(crate) fn toml(&self, name: &str) -> String {
        format!("[mcp_servers.{name}]\nurl = '{}'\n", self.url)
    }
}

impl Drop for HttpUpstream {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Upstream {
    pub(crate) fn server(&self) -> Server {
        let server = Server::new(self.clone());
        self.shared.server.set(server.clone()).ok().expect("one server an upstream");
        server
    }

    /// Has prompts from now on, but fails to list them.
    pub(crate) fn break_prompts(&self) {
        self.shared.prompts_are_broken.store(true, Ordering::SeqCst);
    }

    /// Never answers requests for prompts from now on.
    pub(crate) fn hang_prompts(&self) {
        self.shared.prompts_hang.store(true, Ordering::SeqCst);
    }

    pub(crate) fn slow_is_running(&self) -> bool {
        self.shared.slow_is_running.load(Ordering::SeqCst)
    }

    /// Returns whether a call of `slow` was cancelled.
    pub(crate) fn slow_was_dropped(&self) -> bool {
        self.shared.slow_was_dropped.load(Ordering::SeqCst)
    }

    fn tools(&self) -> Vec<Tool> {
        let mut names = vec![
            "echo",
            "big",
            "image",
            "slow",
            "crash",
            "pid",
            "orphan",
            "grow",
            "fail",
            "refuse",
            "link",
            "structured",
            "meta",
            "env",
            "chatter",
            "same/arguments",
        ];
        if self.shared.grown.load(Ordering::SeqCst) {
            names.push("extra");
        }
        names.into_iter().map(tool).collect()
    }
}

/// Reports when its call is dropped before its end.
struct Watch(Arc<Shared>, bool);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.slow_was_dropped.store(!self.1, Ordering::SeqCst);
    }
}

#[async_trait]
impl Handler for Upstream {
    fn describe(&self) -> ServerDescription {
        let changing = ListChanged { list_changed: true };
        let mut capabilities = ServerCapabilities::default();
        capabilities.tools = Some(changing);
        capabilities.prompts = Some(changing);
        capabilities.resources = Some(ResourcesCapability { list_changed: true, subscribe: false });
        ServerDescription {
            info: Implementation::new("upstream", "1.0.0"),
            capabilities,
            instructions: Some("Echo before you crash.".to_owned()),
        }
    }

    async fn list_tools(
        &self,
        _cursor: Option<&str>,
        _cx: &RequestContext,
    ) -> Result<ListToolsResult, RpcError> {
        Ok(ListToolsResult { tools: self.tools(), next_cursor: None })
    }

    async fn call_tool(
        &self,
        params: CallToolParams,
        cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        let arguments: Value = params
            .arguments
            .as_ref()
            .map_or(Value::Null, |raw| serde_json::from_str(raw.get()).unwrap());
        let result = match params.name.as_str() {
            "echo" => CallToolResult::text(arguments["text"].as_str().unwrap_or_default()),
            "big" => {
                CallToolResult::text("lorem ".repeat(arguments["words"].as_u64().unwrap() as usize))
            }
            "image" => CallToolResult {
                content: vec![Content::text("a picture"), Content::image(PNG, "image/png")],
                ..CallToolResult::default()
            },
            "slow" => {
                let mut watch = Watch(self.shared.clone(), false);
                self.shared.slow_is_running.store(true, Ordering::SeqCst);
                cx.progress(1.0, Some(3.0), Some("begun")).await;
                cx.progress(2.0, Some(3.0), None).await;
                tokio::time::sleep(Duration::from_millis(arguments["ms"].as_u64().unwrap())).await;
                watch.1 = true;
                CallToolResult::text("slow is done")
            }
            "crash" => process::exit(3),
            "pid" => CallToolResult::text(process::id().to_string()),
            "orphan" => {
                let mut command = process::Command::new("sleep");
                let child = command.arg("300").stdin(Stdio::null()).stdout(Stdio::null()).spawn();
                CallToolResult::text(child.unwrap().id().to_string())
            }
            "grow" => {
                self.shared.grown.store(true, Ordering::SeqCst);
                self.shared.server.get().unwrap().notifier().tools_changed();
                CallToolResult::text("grown")
            }
            "fail" => CallToolResult::error("it failed"),
            "refuse" => return Err(RpcError::new(-32099, "refused").with_data(&json!({"why": 1}))),
            "link" => CallToolResult {
                content: vec![Content::ResourceLink(Resource {
                    uri: "elsewhere://linked".into(),
                    name: "linked".into(),
                    ..Resource::default()
                })],
                ..CallToolResult::default()
            },
            "structured" => CallToolResult::structured(json!({"rows": vec!["row"; 2_000]})),
            "chatter" => {
                let _watch = Watch(self.shared.clone(), false);
                self.shared.slow_is_running.store(true, Ordering::SeqCst);
                let words = "chatter ".repeat(8_000);
                for number in 0.. {
                    cx.progress(f64::from(number), None, Some(&words)).await;
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                unreachable!("it talks until it is cancelled")
            }
            "env" => {
                let name = arguments["name"].as_str().unwrap();
                CallToolResult::text(env::var(name).unwrap_or_else(|_| "unset".to_owned()))
            }
            "meta" => CallToolResult::text(json!(params.meta).to_string()),
            "same/arguments" => {
                let arguments = params.arguments.unwrap();
                let result = format!(r#"{{"content":[],"structuredContent":{arguments}}}"#);
                return Ok(Reply::raw(serde_json::value::RawValue::from_string(result).unwrap()));
            }
            "extra" => CallToolResult::text("extra"),
            other => return Err(RpcError::invalid_params(format!("unknown tool '{other}'"))),
        };
        Reply::json(&result)
    }

    async fn list_resources(
        &self,
        _cursor: Option<&str>,
        _cx: &RequestContext,
    ) -> Result<ListResourcesResult, RpcError> {
        let resource =
            Resource { uri: "test://static".into(), name: "static".into(), ..Resource::default() };
        Ok(ListResourcesResult { resources: vec![resource], next_cursor: None })
    }

    async fn list_resource_templates(
        &self,
        _cursor: Option<&str>,
        _cx: &RequestContext,
    ) -> Result<ListResourceTemplatesResult, RpcError> {
        let template = ResourceTemplate {
            uri_template: "test://item/{id}".into(),
            name: "item".into(),
            ..ResourceTemplate::default()
        };
        Ok(ListResourceTemplatesResult { resource_templates: vec![template], next_cursor: None })
    }

    async fn read_resource(
        &self,
        params: ReadResourceParams,
        _cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        if params.uri == "test://item/none" {
            return Err(RpcError::resource_not_found(&params.uri));
        }
        let text = Some(format!("read {}", params.uri));
        let contents = ResourceContents { uri: params.uri, text, ..ResourceContents::default() };
        Reply::json(&ReadResourceResult { contents: vec![contents], meta: None })
    }

    async fn list_prompts(
        &self,
        _cursor: Option<&str>,
        _cx: &RequestContext,
    ) -> Result<ListPromptsResult, RpcError> {
        if self.shared.prompts_are_broken.load(Ordering::SeqCst) {
            return Err(RpcError::internal("no ink"));
        }
        if self.shared.prompts_hang.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        let prompt = Prompt { name: "greet".into(), ..Prompt::default() };
        Ok(ListPromptsResult { prompts: vec![prompt], next_cursor: None })
    }

    async fn get_prompt(
        &self,
        params: GetPromptParams,
        _cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        let content = Content::text(format!("Greet with {}.", json!(params.arguments)));
        let message = PromptMessage { role: Role::User, content };
        Reply::json(&GetPromptResult { messages: vec![message], ..GetPromptResult::default() })
    }
}

fn tool(name: &str) -> Tool {
    Tool {
            name: name.to_owned(),
            description: Some(format!("The tool {name}.")),
            input_schema: json!({"type": "object"}),
            output_schema: (name == "structured").then(|| {
                json!({"type": "object", "properties": {"rows": {"type": "array"}}, "required": ["rows"], "additionalProperties": false})
            }),
            extra: json!({"x-unknown": {"kept": true}}).as_object().cloned().unwrap(),
            ..Tool::default()
        }
}
