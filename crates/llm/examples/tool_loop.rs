//! Lets a model call a tool until it answers.
//!
//! `cargo run -p marquetry-llm --example tool_loop` plays a script; with the name of a model, such
//! as `-- qwen3:4b`, it asks that model of the Ollama on this machine.

use std::error::Error;

use marquetry_llm::{
    ChatAnswer, ChatModel, ChatRequest, Message, ModelConfig, Provider, RemoteModel, ScriptedModel,
    Tool, ToolCall,
};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let model: Box<dyn ChatModel> = match std::env::args().nth(1) {
        Some(name) => Box::new(RemoteModel::new(ModelConfig::new(Provider::Ollama, name))?),
        None => Box::new(script()),
    };
    let mut request = ChatRequest::new([
        Message::system("Use the tool for every sum."),
        Message::user("What is 19 plus 23?"),
    ]);
    request.tools = vec![Tool {
        name: "add".to_owned(),
        description: "Adds two numbers.".to_owned(),
        input_schema: json!({
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        }),
    }];
    for _turn in 0..5 {
        let answer = model.chat(&request).await?;
        if answer.tool_calls.is_empty() {
            println!("{}", answer.text);
            return Ok(());
        }
        request.messages.push(answer.to_message());
        for call in &answer.tool_calls {
            let sum = add(&call.arguments);
            println!("{}({}) = {sum}", call.name, call.arguments);
            request.messages.push(Message::tool(call, sum));
        }
    }
    Err("no answer after five turns".into())
}

/// Models may violate the schema of a tool: the arguments are checked.
fn add(arguments: &Value) -> String {
    let numbers = arguments["a"].as_i64().zip(arguments["b"].as_i64());
    let sum = numbers.and_then(|(a, b)| a.checked_add(b));
    sum.map_or_else(|| "error: a and b must be integers".to_owned(), |sum| sum.to_string())
}

fn script() -> ScriptedModel {
    let arguments = json!({"a": 19, "b": 23});
    let call = ToolCall { id: "call_1".to_owned(), name: "add".to_owned(), arguments };
    ScriptedModel::new([ChatAnswer::calls([call]), ChatAnswer::text("19 plus 23 is 42.")])
}
