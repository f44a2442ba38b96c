//! Tests an MCP server on a loopback port with a scripted model, and prints the result.
//!
//! `cargo run -p marquetry-judge --example scripted_case`. With `RemoteModels::new()` in place of
//! the scripts, the models of `agentConfig` and `judgeConfig` are asked.

use std::{error::Error, sync::Arc};

use marquetry_judge::{FixedModels, MemoryStore, Runner, ServerConfig, TestCase};
use marquetry_llm::{ChatAnswer, ScriptedModel, ToolCall};
use marquetry_protocol::server::{
    Server, Toolbox,
    http::{HttpEndpoint, HttpOptions, serve},
};
use serde_json::json;
use tokio::net::TcpListener;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let tools =
        Toolbox::new("adder", "1.0.0").tool("add", "Adds two numbers.", async |add: Add, _| {
            add.a.checked_add(add.b).map(|sum| sum.to_string()).ok_or("the sum is too large")
        });
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/mcp", listener.local_addr()?);
    let endpoint = HttpEndpoint::new(Server::new(tools), HttpOptions::default());
    tokio::spawn(serve(listener, endpoint).into_future());

    let mut case: TestCase = serde_json::from_value(json!({
        "name": "Sum",
        "prompt": "What is 19 plus 23?",
        "expectedTools": [{"name": "add", "arguments": {"a": 19, "b": 23}, "result": {"text": "42"}}],
        "expect": {"answer": {"$mentions": "42"}},
        "agentConfig": {"provider": "ollama", "model": "qwen3:8b"},
    }))?;
    case.server_configs = Some(vec![ServerConfig::http(url).named("adder")]);

    let call =
        ToolCall { id: "1".into(), name: "add".into(), arguments: json!({"a": 19, "b": 23}) };
    let agent = ScriptedModel::new([ChatAnswer::calls([call]), ChatAnswer::text("It is 42.")]);
    let judge = ScriptedModel::new([]);
    let runner = Runner::new(FixedModels::new(agent, judge), Arc::new(MemoryStore::new()));
    let result = runner.run(case).await;

    println!("{}: {}", result.test_case.name, result.status);
    for call in &result.tool_calls {
        println!("{}({}) in {} ms", call.tool_name, call.parameters, call.execution_time_ms);
    }
    result.error.map_or(Ok(()), |error| Err(error.into()))
}
