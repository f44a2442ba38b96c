//! A server with one typed tool, over Streamable HTTP.
//!
//! `cargo run -p marquetry-protocol --example adder_http`, then point a client at the URL that it
//! prints.

use marquetry_protocol::server::{
    Server, Toolbox,
    http::{HttpEndpoint, HttpOptions, serve},
};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let tools =
        Toolbox::new("adder", "1.0.0").tool("add", "Adds two numbers.", async |add: Add, _| {
            add.a.checked_add(add.b).map(|sum| sum.to_string()).ok_or("the sum is too large")
        });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/mcp", listener.local_addr()?);
    let endpoint = HttpEndpoint::new(Server::new(tools), HttpOptions::default());
    serve(listener, endpoint).await
}
