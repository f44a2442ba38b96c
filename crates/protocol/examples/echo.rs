//! A server with one tool that returns its text, over HTTP or standard input and output. `cargo
//! xtask bench protocol` measures it.
//!
//! `cargo run -p marquetry-protocol --example echo http`, then point a client at the URL that it
//! prints; or `cargo run -p marquetry-protocol --example echo stdio`.

use marquetry_protocol::server::{
    Limits, Server, Toolbox,
    http::{HttpEndpoint, HttpOptions, serve},
    serve_stdio,
};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    text: String,
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let tools = Toolbox::new("echo", "1.0.0").tool(
        "echo",
        "Says what it is told.",
        async |echo: Echo, _| Ok::<_, String>(echo.text),
    );
    let limits = Limits { max_sessions: 100_000, ..Limits::default() };
    let server = Server::with_limits(tools, limits);
    if std::env::args().nth(1).as_deref() == Some("stdio") {
        return serve_stdio(&server, Default::default()).await;
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/mcp", listener.local_addr()?);
    let endpoint = HttpEndpoint::new(server, HttpOptions::default());
    serve(listener, endpoint).await
}
