//! A server that does a bit of everything, and ways to reach it.

use std::{convert::Infallible, net::SocketAddr, time::Duration};

use async_trait::async_trait;
use hyper::service::service_fn;
use marquetry_protocol::{
    Revision, RpcError,
    client::{Client, ClientOptions, HttpTarget, RevisionChoice},
    server::{
        ConversationId, Handler, Limits, Reply, RequestContext, Server, ServerDescription,
        http::{HttpEndpoint, HttpOptions, LegacySseEndpoint, RequestBody, serve},
        page, serve_pipe,
    },
    types::{
        CallToolParams, CallToolResult, CreateMessageParams, ElicitParams, Implementation,
        ListChanged, ListToolsResult, LogLevel, ReadResourceParams, ReadResourceResult,
        ResourceContents, ResourcesCapability, SamplingMessage, ServerCapabilities, Tool,
    },
};
use serde_json::json;
use tokio::{net::TcpListener, sync::mpsc, task::JoinHandle};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Tools: `echo` (its text), `count` (progress up to `n`), `wait` (for ever; tells `cancelled` of
/// its end), `panic`, `leave` (closes its stream before the answer), `slow` (progress, then 300 ms
/// later an answer), `ask` (user, model and roots at once, then the user again), `log` (one message
/// of each level).
pub(crate) struct Everything {
    pub(crate) cancelled: mpsc::UnboundedSender<()>,
}

pub(crate) const TOOLS: [&str; 8] =
    ["echo", "count", "wait", "panic", "ask", "log", "slow", "leave"];

struct TellOnDrop(mpsc::UnboundedSender<()>);

impl Drop for TellOnDrop {
    fn drop(&mut self) {
        _ = self.0.send(());
    }
}

#[async_trait]
impl Handler for Everything {
    fn describe(&self) -> ServerDescription {
        let mut capabilities = ServerCapabilities::default();
        capabilities.tools = Some(ListChanged { list_changed: true });
        capabilities.logging = Some(Default::default());
        capabilities.resources = Some(ResourcesCapability { subscribe: true, list_changed: false });
        ServerDescription {
            info: Implementation::new("everything", "1"),
            capabilities,
            instructions: None,
        }
    }

    async fn list_tools(
        &self,
        cursor: Option<&str>,
        _: &RequestContext,
    ) -> Result<ListToolsResult, RpcError> {
        let (range, next_cursor) = page(TOOLS.len(), cursor, 3)?;
        let tool = |name: &&str| Tool {
            name: name.to_string(),
            input_schema: json!({"type": "object"}),
            ..Tool::default()
        };
        Ok(ListToolsResult { tools: TOOLS[range].iter().map(tool).collect(), next_cursor })
    }

    async fn call_tool(
        &self,
        params: CallToolParams,
        cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        let arguments: serde_json::Value = match &params.arguments {
            Some(arguments) => serde_json::from_str(arguments.get()).unwrap(),
            None => json!({}),
        };
        match &*params.name {
            "echo" => {
                Reply::json(&CallToolResult::text(arguments["text"].as_str().unwrap_or_default()))
            }
            "count" => {
                let n = arguments["n"].as_u64().unwrap_or(3);
                for i in 1..=n {
                    cx.progress(i as f64, Some(n as f64), Some("counting")).await;
                }
                Reply::json(&CallToolResult::text(n.to_string()))
            }
            "wait" => {
                let _tell = TellOnDrop(self.cancelled.clone());
                cx.progress(0.0, None, None).await;
                std::future::pending().await
            }
            "slow" => {
                cx.progress(1.0, None, None).await;
                tokio::time::sleep(Duration::from_millis(300)).await;
                cx.progress(2.0, None, None).await;
                Reply::json(&CallToolResult::text("done"))
            }
            "leave" => {
                let pause = Duration::from_millis(100);
                cx.progress(1.0, None, None).await;
                cx.close_stream(pause).await;
                tokio::time::sleep(pause * 2).await;
                cx.progress(2.0, None, None).await;
                Reply::json(&CallToolResult::text("came back"))
            }
            "panic" => panic!("on purpose"),
            "ask" => {
                let form = |message: &str| ElicitParams::form(message, json!({ "type": "object" }));
                let ask = CreateMessageParams {
                    messages: vec![SamplingMessage::user("which?")],
                    max_tokens: 9,
                    ..CreateMessageParams::default()
                };
                let name = form("name?");
                let (user, sampled, roots) = tokio::try_join!(
                    cx.elicit("user", &name),
                    cx.sample("model", &ask),
                    cx.roots("roots")
                )?;
                cx.carry(&"carried")?;
                let again = cx.elicit("again", &form("sure?")).await?;
                let said = json!([user.content, sampled.text(), roots.roots[0].uri, again.action]);
                Reply::json(&CallToolResult::text(said.to_string()))
            }
            "log" => {
                for level in [LogLevel::Debug, LogLevel::Info, LogLevel::Error] {
                    cx.log(level, Some("test"), &level).await;
                }
                Reply::json(&CallToolResult::text(""))
            }
            _ => Err(RpcError::invalid_params("unknown tool")),
        }
    }

    async fn subscribe(&self, uri: &str, _: &RequestContext) -> Result<(), RpcError> {
        if uri == "test://one" { Ok(()) } else { Err(RpcError::resource_not_found(uri)) }
    }

    async fn unsubscribe(&self, _: &str, _: ConversationId) {
        _ = self.cancelled.send(());
    }

    async fn read_resource(
        &self,
        params: ReadResourceParams,
        _: &RequestContext,
    ) -> Result<Reply, RpcError> {
        if params.uri != "test://one" {
            return Err(RpcError::resource_not_found(&params.uri));
        }
        let contents =
            ResourceContents { uri: params.uri, text: Some("1".to_owned()), ..Default::default() };
        Reply::json(&ReadResourceResult { contents: vec![contents], meta: None })
    }
}

/// A running server and its reports.
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) cancelled: mpsc::UnboundedReceiver<()>,
    pub(crate) address: Option<SocketAddr>,
    pub(crate) stop: DropGuard,
    pub(crate) serving: Option<JoinHandle<()>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Pipe,
    Http,
    /// HTTP+SSE, to which the client falls back.
    Sse,
}

/// A server and a client of it.
pub(crate) async fn connected(transport: Transport, revision: Revision) -> (World, Client) {
    connected_with(transport, revision, ClientOptions::default()).await
}

/// The same, for a client with capabilities of its own.
pub(crate) async fn connected_with(
    transport: Transport,
    revision: Revision,
    options: ClientOptions,
) -> (World, Client) {
    let options = ClientOptions {
        revision: RevisionChoice::Only(revision),
        request_timeout: Duration::from_secs(20),
        ..options
    };
    match transport {
        Transport::Pipe => {
            let (world, reader, writer) = piped(Limits::default());
            let client = Client::connect(reader, writer, options).await.unwrap();
            (world, client)
        }
        Transport::Sse => {
            let world = listening_sse(Limits::default()).await;
            let target = HttpTarget { url: world.url(), ..HttpTarget::default() };
            let client = Client::http(target, options).await.unwrap();
            (world, client)
        }
        Transport::Http => {
            let world = listening(Limits::default()).await;
            let target = HttpTarget { url: world.url(), ..HttpTarget::default() };
            let client = Client::http(target, options).await.unwrap();
            (world, client)
        }
    }
}

/// A client of a server of one's own; the server goes with the guard.
pub(crate) async fn client_of(
    server: &Server,
    transport: Transport,
    revision: Revision,
    options: ClientOptions,
) -> (DropGuard, Client) {
    let options = ClientOptions {
        revision: RevisionChoice::Only(revision),
        request_timeout: Duration::from_secs(20),
        ..options
    };
    let stop = CancellationToken::new();
    let server = server.clone();
    let stopped = stop.clone();
    let client = match transport {
        Transport::Pipe => {
            let (ours, theirs) = tokio::io::duplex(4096);
            let (reader, writer) = tokio::io::split(theirs);
            tokio::spawn(async move { serve_pipe(&server, reader, writer, stopped).await });
            let (reader, writer) = tokio::io::split(ours);
            Client::connect(reader, writer, options).await.unwrap()
        }
        Transport::Sse => panic!("only `connected` serves it"),
        Transport::Http => {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}/mcp", listener.local_addr().unwrap());
            let endpoint = HttpEndpoint::new(server, HttpOptions::default());
            tokio::spawn(serve(listener, endpoint).until(stopped).into_future());
            Client::http(HttpTarget { url, ..HttpTarget::default() }, options).await.unwrap()
        }
    };
    (stop.drop_guard(), client)
}

/// A server on a pair of pipes, and the client's ends of them.
pub(crate) fn piped(
    limits: Limits,
) -> (
    World,
    tokio::io::ReadHalf<tokio::io::DuplexStream>,
    tokio::io::WriteHalf<tokio::io::DuplexStream>,
) {
    let (world, stop) = world(limits);
    let (ours, theirs) = tokio::io::duplex(4096);
    let (reader, writer) = tokio::io::split(theirs);
    let server = world.server.clone();
    let serving =
        tokio::spawn(async move { serve_pipe(&server, reader, writer, stop).await.unwrap() });
    let (reader, writer) = tokio::io::split(ours);
    (World { serving: Some(serving), ..world }, reader, writer)
}

/// A server on a free port.
pub(crate) async fn listening(limits: Limits) -> World {
    let (world, stop) = world(limits);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let endpoint = HttpEndpoint::new(world.server.clone(), HttpOptions::default());
    let serving = tokio::spawn(async move {
        serve(listener, endpoint).until(stop).await.unwrap();
    });
    World { address: Some(address), serving: Some(serving), ..world }
}

/// The same over HTTP+SSE.
async fn listening_sse(limits: Limits) -> World {
    let (world, stop) = world(limits);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let endpoint =
        LegacySseEndpoint::new(world.server.clone(), HttpOptions::default(), "/messages");
    let service = service_fn(move |request: http::Request<RequestBody>| {
        let endpoint = endpoint.clone();
        async move {
            Ok::<_, Infallible>(match request.uri().path() {
                "/messages" => endpoint.message(request).await,
                _ => endpoint.stream(&request).await,
            })
        }
    });
    let serving = tokio::spawn(async move {
        serve(listener, service).until(stop).await.unwrap();
    });
    World { address: Some(address), serving: Some(serving), ..world }
}

fn world(limits: Limits) -> (World, CancellationToken) {
    let (sender, cancelled) = mpsc::unbounded_channel();
    let server = Server::with_limits(Everything { cancelled: sender }, limits);
    let stop = CancellationToken::new();
    let world =
        World { server, cancelled, address: None, stop: stop.clone().drop_guard(), serving: None };
    (world, stop)
}

impl World {
    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address.unwrap())
    }
}

/// Fails a test that would hang.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future)
        .await
        .unwrap_or_else(|_| panic!("{what} did not happen"))
}
