//! The tools that the suite calls.

use std::time::Duration;

use marquetry_protocol::{
    RpcError,
    server::RequestContext,
    types::{
        CallToolParams, CallToolResult, Content, CreateMessageParams, ElicitParams, LogLevel,
        ResourceContents, SamplingMessage, Tool,
    },
};
use serde_json::{Value, json};

use crate::fixtures::{PNG, WAV};

const PLAIN: [&str; 24] = [
    "test_simple_text",
    "test_image_content",
    "test_audio_content",
    "test_embedded_resource",
    "test_multiple_content_types",
    "test_tool_with_logging",
    "test_tool_with_progress",
    "test_error_handling",
    "test_elicitation_sep1034_defaults",
    "test_elicitation_sep1330_enums",
    "test_reconnection",
    "test_missing_capability",
    "test_streaming_elicitation",
    "test_logging_tool",
    "test_trigger_tool_change",
    "test_trigger_prompt_change",
    "test_input_required_result_elicitation",
    "test_input_required_result_sampling",
    "test_input_required_result_list_roots",
    "test_input_required_result_request_state",
    "test_input_required_result_multiple_inputs",
    "test_input_required_result_multi_round",
    "test_input_required_result_tampered_state",
    "test_input_required_result_capabilities",
];

pub(crate) fn list() -> Vec<Tool> {
    let tool = |name: &str, input_schema: Value| Tool {
        name: name.to_owned(),
        description: Some(format!("The suite's fixture {name}")),
        input_schema,
        ..Tool::default()
    };
    let mut tools: Vec<Tool> =
        PLAIN.iter().map(|name| tool(name, json!({ "type": "object" }))).collect();
    for (name, argument) in [("test_sampling", "prompt"), ("test_elicitation", "message")] {
        let schema = json!({
            "type": "object", "properties": { argument: { "type": "string" } }, "required": [argument],
        });
        tools.push(tool(name, schema));
    }
    tools.push(tool("json_schema_2020_12_tool", json_schema_2020_12()));
    let schema = json!({
        "type": "object", "properties": { "region": { "type": "string", "x-mcp-header": "Region" } },
    });
    tools.push(tool("test_custom_header", schema));
    tools
}

/// A schema with features of draft 2020-12 that older drafts lack.
fn json_schema_2020_12() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": { "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
        } },
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" },
            "email": { "type": "string" },
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false,
    })
}

pub(crate) async fn call(
    params: CallToolParams,
    cx: &RequestContext,
) -> Result<CallToolResult, RpcError> {
    let arguments: Value = match &params.arguments {
        Some(arguments) => serde_json::from_str(arguments.get())
            .map_err(|error| RpcError::invalid_params(error.to_string()))?,
        None => json!({}),
    };
    let text = |text: &str| Ok(CallToolResult::text(text));
    let items = |content: Vec<Content>| Ok(CallToolResult { content, ..CallToolResult::default() });
    match &*params.name {
        "test_simple_text" => text("This is a simple text response for testing."),
        "test_image_content" => items(vec![Content::image(PNG, "image/png")]),
        "test_audio_content" => items(vec![Content::Audio {
            data: WAV.to_owned(),
            mime_type: "audio/wav".to_owned(),
            annotations: None,
            meta: None,
        }]),
        "test_embedded_resource" => items(vec![embedded(
            "test://embedded-resource",
            "text/plain",
            "This is an embedded resource content.",
        )]),
        "test_multiple_content_types" => items(vec![
            Content::text("Multiple content types test:"),
            Content::image(PNG, "image/png"),
            embedded(
                "test://mixed-content-resource",
                "application/json",
                r#"{"test":"data","value":123}"#,
            ),
        ]),
        "test_tool_with_logging" | "test_logging_tool" => {
            for (i, message) in
                ["Tool execution started", "Tool processing data", "Tool execution completed"]
                    .iter()
                    .enumerate()
            {
                if i > 0 {
                    pause().await;
                }
                cx.log(LogLevel::Info, None, message).await;
            }
            text("Logged three messages.")
        }
        "test_tool_with_progress" => {
            for progress in [0.0, 50.0, 100.0] {
                if progress > 0.0 {
                    pause().await;
                }
                cx.progress(progress, Some(100.0), None).await;
            }
            text("Made progress.")
        }
        "test_error_handling" => {
            Ok(CallToolResult::error("This tool intentionally returns an error for testing"))
        }
        "test_sampling" => {
            let prompt = arguments["prompt"].as_str().unwrap_or_default();
            let answer = cx.sample("answer", &sampling(prompt, 100)).await?;
            text(&format!("LLM response: {}", answer.text()))
        }
        "test_elicitation" => {
            let schema = json!({
                "type": "object",
                "properties": {
                    "username": { "type": "string", "description": "User's response" },
                    "email": { "type": "string", "description": "User's email address" },
                },
                "required": ["username", "email"],
            });
            let message = arguments["message"].as_str().unwrap_or_default();
            let answer = cx.elicit("user", &ElicitParams::form(message, schema)).await?;
            text(&format!("User response: {}", json!(answer)))
        }
        "test_elicitation_sep1034_defaults" => completed(cx, defaults()).await,
        "test_elicitation_sep1330_enums" => completed(cx, enums()).await,
        "test_reconnection" => {
            cx.close_stream(Duration::from_millis(500)).await;
            pause().await;
            text("The answer was still there.")
        }
        "test_missing_capability" => {
            cx.sample("needed", &sampling("Are you there?", 10)).await?;
            text("The client can sample.")
        }
        "test_streaming_elicitation" => {
            cx.progress(1.0, Some(2.0), None).await;
            cx.elicit("confirmed", &form("Go on?", "ok", "boolean")).await?;
            text("Went on.")
        }
        "test_trigger_tool_change" | "test_trigger_prompt_change" => text("All were told."),
        "test_input_required_result_elicitation" => {
            let answer =
                cx.elicit("user_name", &form("What is your name?", "name", "string")).await?;
            text(&format!("Hello, {}!", field(&json!(answer.content), "name")))
        }
        "test_input_required_result_sampling" => {
            let answer = cx
                .sample("capital_question", &sampling("What is the capital of France?", 100))
                .await?;
            text(&answer.text())
        }
        "test_input_required_result_list_roots" => {
            let roots = cx.roots("client_roots").await?;
            let uris: Vec<String> = roots.roots.into_iter().map(|root| root.uri).collect();
            text(&format!("Roots: {}", uris.join(", ")))
        }
        "test_input_required_result_request_state"
        | "test_input_required_result_tampered_state" => {
            let carried: Option<String> = cx.carried()?;
            cx.carry(&"state-ok")?;
            cx.elicit("confirm", &form("Please confirm", "ok", "boolean")).await?;
            text(&carried.unwrap_or_else(|| "no state".to_owned()))
        }
        "test_input_required_result_multiple_inputs" => {
            cx.carry(&"all three")?;
            let name = form("What is your name?", "name", "string");
            let greeting = sampling("Generate a greeting", 50);
            let (name, greeting, roots) = tokio::try_join!(
                cx.elicit("user_name", &name),
                cx.sample("greeting", &greeting),
                cx.roots("client_roots"),
            )?;
            let name = field(&json!(name.content), "name");
            text(&format!("{} {name}, with {} roots", greeting.text(), roots.roots.len()))
        }
        "test_input_required_result_multi_round" => {
            cx.carry(&1)?;
            let name =
                cx.elicit("step1", &form("Step 1: What is your name?", "name", "string")).await?;
            cx.carry(&2)?;
            let color = cx
                .elicit("step2", &form("Step 2: What is your favorite color?", "color", "string"))
                .await?;
            let name = field(&json!(name.content), "name");
            let color = field(&json!(color.content), "color");
            text(&format!("{name} likes {color}."))
        }
        "test_input_required_result_capabilities" => {
            // Asks only questions that the client supports.
            if cx.capabilities().has("elicitation") {
                cx.elicit("user_name", &form("What is your name?", "name", "string")).await?;
            }
            if cx.capabilities().has("sampling") {
                cx.sample("greeting", &sampling("Generate a greeting", 50)).await?;
            }
            text("Asked what could be asked.")
        }
        "json_schema_2020_12_tool" | "test_custom_header" => text(&arguments.to_string()),
        name => Err(RpcError::invalid_params(format!("unknown tool '{name}'"))),
    }
}

async fn completed(cx: &RequestContext, schema: Value) -> Result<CallToolResult, RpcError> {
    let answer = cx.elicit("fields", &ElicitParams::form("Please fill in", schema)).await?;
    let content = json!(answer.content.unwrap_or_default());
    let action = json!(answer.action);
    let action = action.as_str().unwrap_or_default();
    Ok(CallToolResult::text(format!("Elicitation completed: action={action}, content={content}")))
}

/// Every primitive type with a default (SEP-1034).
fn defaults() -> Value {
    json!({ "type": "object", "properties": {
        "name": { "type": "string", "default": "John Doe" },
        "age": { "type": "integer", "default": 30 },
        "score": { "type": "number", "default": 95.5 },
        "status": { "type": "string", "enum": ["active", "inactive", "pending"], "default": "active" },
        "verified": { "type": "boolean", "default": true },
    } })
}

/// Every kind of choice (SEP-1330).
fn enums() -> Value {
    let options = json!(["option1", "option2", "option3"]);
    let titled = |what: &str| {
        json!([
            { "const": "value1", "title": format!("First {what}") },
            { "const": "value2", "title": format!("Second {what}") },
            { "const": "value3", "title": format!("Third {what}") },
        ])
    };
    json!({ "type": "object", "properties": {
        "untitledSingle": { "type": "string", "enum": options },
        "titledSingle": { "type": "string", "oneOf": titled("Option") },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": { "type": "array", "items": { "type": "string", "enum": options } },
        "titledMulti": { "type": "array", "items": { "anyOf": titled("Choice") } },
    } })
}

fn form(message: &str, field: &str, kind: &str) -> ElicitParams {
    let schema =
        json!({ "type": "object", "properties": { field: { "type": kind } }, "required": [field] });
    ElicitParams::form(message, schema)
}

fn sampling(text: &str, max_tokens: u64) -> CreateMessageParams {
    CreateMessageParams {
        messages: vec![SamplingMessage::user(text)],
        max_tokens,
        ..CreateMessageParams::default()
    }
}

fn embedded(uri: &str, mime_type: &str, text: &str) -> Content {
    let resource = ResourceContents {
        uri: uri.to_owned(),
        mime_type: Some(mime_type.to_owned()),
        text: Some(text.to_owned()),
        ..ResourceContents::default()
    };
    Content::Resource { resource, annotations: None, meta: None }
}

fn field(content: &Value, name: &str) -> String {
    content[name].as_str().unwrap_or_default().to_owned()
}

async fn pause() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}
