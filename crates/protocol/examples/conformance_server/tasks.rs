//! The tools that run as tasks, and one that does not.

use std::time::Duration;

use marquetry_protocol::{
    RpcError,
    server::{Reply, RequestContext, TaskOptions},
    types::{CallToolParams, CallToolResult, ElicitParams, Tool},
};
use serde_json::{Value, json};

const NAMES: [&str; 7] = [
    "greet",
    "slow_compute",
    "failing_job",
    "protocol_error_job",
    "confirm_delete",
    "multi_input",
    "test_tool_with_task",
];

pub(crate) fn list() -> impl Iterator<Item = Tool> {
    NAMES.iter().map(|name| Tool {
        name: (*name).to_owned(),
        description: Some(format!("The suite's fixture {name}")),
        input_schema: json!({ "type": "object" }),
        ..Tool::default()
    })
}

pub(crate) fn knows(tool: &str) -> bool {
    NAMES.contains(&tool)
}

/// Those that are tasks from their start on.
pub(crate) fn options(tool: &str) -> Option<TaskOptions> {
    let soon = Duration::from_millis(200);
    match tool {
        "slow_compute" | "protocol_error_job" | "confirm_delete" | "multi_input" => {
            Some(TaskOptions::default().poll_interval(soon))
        }
        "failing_job" => Some(TaskOptions::required().poll_interval(soon)),
        _ => None,
    }
}

pub(crate) async fn call(params: CallToolParams, cx: &RequestContext) -> Result<Reply, RpcError> {
    let arguments: Value = match &params.arguments {
        Some(arguments) => serde_json::from_str(arguments.get())
            .map_err(|error| RpcError::invalid_params(error.to_string()))?,
        None => json!({}),
    };
    let argument = |name: &str| arguments[name].as_str().unwrap_or_default();
    let result = match &*params.name {
        "greet" => CallToolResult::text(format!("Hello, {}!", argument("name"))),
        "slow_compute" => {
            let seconds = arguments["seconds"].as_f64().unwrap_or_default().clamp(0.0, 3_600.0);
            tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
            CallToolResult::text(format!("Computed {} for {seconds} s.", argument("label")))
        }
        "failing_job" => {
            tokio::time::sleep(Duration::from_secs(1)).await;
            CallToolResult::error("This job always fails.")
        }
        "protocol_error_job" => return Err(RpcError::internal("This job always breaks.")),
        "confirm_delete" => {
            let question = form(format!("Delete {}?", argument("filename")), "confirm", "boolean");
            let answer = cx.elicit("confirm", &question).await?;
            let content = answer.content.unwrap_or_default();
            let deleted = content.get("confirm") == Some(&Value::Bool(true));
            CallToolResult::text(if deleted { "Deleted." } else { "Kept." })
        }
        "multi_input" => {
            let name = form("Your name?", "name", "string");
            let sure = form("Sure?", "confirm", "boolean");
            tokio::try_join!(cx.elicit("name", &name), cx.elicit("sure", &sure))?;
            CallToolResult::text("Both were answered.")
        }
        // Asks first, and becomes a task only then.
        _ => {
            let answer =
                cx.elicit("user_name", &form("What is your name?", "name", "string")).await?;
            let content = answer.content.unwrap_or_default();
            let name = content.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
            let work = async move |_: RequestContext| {
                tokio::time::sleep(Duration::from_millis(100)).await;
                Reply::json(&CallToolResult::text(format!("Hello, {name}!")))
            };
            return cx.run_as_task(TaskOptions::required(), work).await;
        }
    };
    Reply::json(&result)
}

fn form(message: impl Into<String>, field: &str, kind: &str) -> ElicitParams {
    let schema =
        json!({ "type": "object", "properties": { field: { "type": kind } }, "required": [field] });
    ElicitParams::form(message, schema)
}
