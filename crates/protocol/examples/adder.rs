//! A server with one typed tool, on standard input and output.
//!
//! `cargo run -p marquetry-protocol --example adder`, or as an upstream of any MCP client.

use marquetry_protocol::server::{Server, Toolbox, serve_stdio};

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
    serve_stdio(&Server::new(tools), Default::default()).await
}
