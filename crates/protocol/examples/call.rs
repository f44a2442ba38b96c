//! Starts a server, lists its tools and calls one.
//!
//! `cargo run -p marquetry-protocol --example call -- add '{"a":1,"b":2}' -- cargo run -q -p
//! marquetry-protocol --example adder`

use std::error::Error;

use marquetry_protocol::{
    client::{CallOptions, Client, ClientOptions, StdioCommand},
    types::CallToolParams,
};
use serde_json::Value;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [tool, arguments, _, program, rest @ ..] = &args[..] else {
        return Err("usage: call TOOL ARGUMENTS -- PROGRAM [ARGUMENT…]".into());
    };
    let client = Client::spawn(StdioCommand::new(program, rest), ClientOptions::default()).await?;
    println!("{} speaks {}", client.server().info.name, client.server().revision);
    for tool in client.list_tools().await? {
        println!("- {}: {}", tool.name, tool.description.unwrap_or_default());
    }
    let arguments: Value = serde_json::from_str(arguments)?;
    let answer = client
        .call_tool_raw(&CallToolParams::new(tool, &arguments)?, CallOptions::default())
        .await?;
    println!("{answer}");
    client.close().await;
    Ok(())
}
