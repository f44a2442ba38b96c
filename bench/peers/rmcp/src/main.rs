//! An echo server of rmcp, set up as its users would for speed: `peer-rmcp sse|json|stdio`.
//!
//! Over HTTP it prints its URL. `sse` is rmcp's default: sessions, answers as event streams; `json`
//! has no sessions and answers with JSON where it can. rmcp answers with JSON in no other way.

use std::error::Error;

use axum::serve::ListenerExt as _;
use rmcp::{
    ServerHandler, ServiceExt as _,
    handler::server::wrapper::Parameters,
    model::{ServerCapabilities, ServerConfig},
    tool, tool_handler, tool_router,
    transport::{
        stdio,
        streamable_http_server::{
            StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
        },
    },
};

#[derive(Clone)]
struct Echo;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct EchoArguments {
    text: String,
}

#[tool_router]
impl Echo {
    #[tool(description = "Says what it is told.")]
    fn echo(&self, Parameters(EchoArguments { text }): Parameters<EchoArguments>) -> String {
        text
    }
}

#[tool_handler]
impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let sessions = match std::env::args().nth(1).as_deref() {
        Some("stdio") => {
            Echo.serve(stdio()).await?.waiting().await?;
            return Ok(());
        }
        Some("sse") => true,
        Some("json") => false,
        _ => return Err("sse, json or stdio?".into()),
    };
    let mut config = StreamableHttpServerConfig::default().with_json_response(!sessions);
    config.legacy_session_mode = sessions;
    let service =
        StreamableHttpService::new(|| Ok(Echo), LocalSessionManager::default().into(), config);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/mcp", listener.local_addr()?);
    // Without it an event stream of rmcp takes 40 ms a step.
    let listener = listener.tap_io(|stream| _ = stream.set_nodelay(true));
    axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await?;
    Ok(())
}
