//! Connects, calls all features, and answers questions.

use marquetry_protocol::{
    client::{CallOptions, Client},
    types::CallToolParams,
};
use serde_json::{Value, json, value::to_raw_value};

use crate::{Assignment, Failed, answers};

pub(crate) async fn connect(assignment: &Assignment) -> Result<(), Failed> {
    let client = assignment.connect(answers::options()).await?;
    client.list_tools().await?;
    client.close().await;
    Ok(())
}

/// Calls each tool with `arguments`.
pub(crate) async fn call_tools(assignment: &Assignment, arguments: &Value) -> Result<(), Failed> {
    let client = assignment.connect(answers::options()).await?;
    for tool in client.list_tools().await? {
        call(&client, &tool.name, arguments).await?;
    }
    client.close().await;
    Ok(())
}

/// Two tools that ask the user, and between the rounds of each an unrelated one.
pub(crate) async fn answer_questions(assignment: &Assignment) -> Result<(), Failed> {
    let client = assignment.connect(answers::options()).await?;
    client.list_tools().await?;
    let nothing = json!({});
    tokio::try_join!(
        call(&client, "test_mrtr_echo_state", &nothing),
        call(&client, "test_mrtr_unrelated", &nothing),
        call(&client, "test_mrtr_no_state", &nothing),
    )?;
    call(&client, "test_mrtr_no_result_type", &nothing).await?;
    client.close().await;
    Ok(())
}

/// Calls every method that has its own header.
pub(crate) async fn use_everything(assignment: &Assignment) -> Result<(), Failed> {
    let client = assignment.connect(answers::options()).await?;
    for tool in client.list_tools().await? {
        call(&client, &tool.name, &json!({})).await?;
    }
    for resource in client.list_resources().await? {
        request(&client, "resources/read", &json!({ "uri": resource.uri })).await?;
    }
    for prompt in client.list_prompts().await? {
        request(&client, "prompts/get", &json!({ "name": prompt.name })).await?;
    }
    client.close().await;
    Ok(())
}

/// One tool's schema goes back to the server as the argument of another.
pub(crate) async fn return_schema(assignment: &Assignment) -> Result<(), Failed> {
    let client = assignment.connect(answers::options()).await?;
    let tools = client.list_tools().await?;
    let tool = tools.iter().find(|tool| tool.name == "json_schema_2020_12_tool");
    let schema = &tool.ok_or("the tool with the schema is missing")?.input_schema;
    call(&client, "json_schema_echo", &json!({ "schema": schema })).await?;
    client.close().await;
    Ok(())
}

/// Makes the calls that the scenario lists.
pub(crate) async fn call_as_told(assignment: &Assignment) -> Result<(), Failed> {
    let client = assignment.connect(answers::options()).await?;
    client.list_tools().await?;
    let calls = assignment.context["toolCalls"].as_array().ok_or("no calls are told")?;
    for told in calls {
        let name = told["name"].as_str().ok_or("a call without a name")?;
        call(&client, name, &told["arguments"]).await?;
    }
    client.close().await;
    Ok(())
}

async fn call(client: &Client, tool: &str, arguments: &Value) -> Result<(), Failed> {
    let call = CallToolParams::new(tool, arguments)?;
    client.call_tool_raw(&call, CallOptions::default()).await?;
    Ok(())
}

async fn request(client: &Client, method: &str, params: &Value) -> Result<(), Failed> {
    let params = to_raw_value(params)?;
    client.request(method, Some(&params), CallOptions::default()).await?;
    Ok(())
}
