//! The prompts that the suite gets, and their completions.

use marquetry_protocol::{
    RpcError,
    server::RequestContext,
    types::{
        CompleteParams, CompleteResult, Completion, Content, ElicitParams, GetPromptParams,
        GetPromptResult, Prompt, PromptArgument, PromptMessage, ResourceContents, Role,
    },
};
use serde_json::json;

use crate::fixtures::PNG;

pub(crate) fn list() -> Vec<Prompt> {
    let prompt = |name: &str, description: &str, arguments: &[&str]| Prompt {
        name: name.to_owned(),
        description: Some(description.to_owned()),
        arguments: arguments
            .iter()
            .map(|name| PromptArgument {
                name: (*name).to_owned(),
                description: Some("For the test".to_owned()),
                required: true,
                ..PromptArgument::default()
            })
            .collect(),
        ..Prompt::default()
    };
    vec![
        prompt("test_simple_prompt", "A text", &[]),
        prompt("test_prompt_with_arguments", "A text with gaps", &["arg1", "arg2"]),
        prompt("test_prompt_with_embedded_resource", "A resource to process", &["resourceUri"]),
        prompt("test_prompt_with_image", "A picture to analyze", &[]),
        prompt("test_input_required_result_prompt", "Asks for its context", &[]),
    ]
}

pub(crate) async fn get(
    params: GetPromptParams,
    cx: &RequestContext,
) -> Result<GetPromptResult, RpcError> {
    let argument = |name: &str| {
        let value = params.arguments.as_ref().and_then(|arguments| arguments.get(name)?.as_str());
        value
            .map(str::to_owned)
            .ok_or_else(|| RpcError::invalid_params(format!("argument '{name}' is missing")))
    };
    let contents = match &*params.name {
        "test_simple_prompt" => vec![Content::text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments" => {
            let arg1 = argument("arg1")?;
            let arg2 = argument("arg2")?;
            vec![Content::text(format!("Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"))]
        }
        "test_prompt_with_embedded_resource" => {
            let resource = ResourceContents {
                uri: argument("resourceUri")?,
                mime_type: Some("text/plain".to_owned()),
                text: Some("Embedded resource content for testing.".to_owned()),
                ..ResourceContents::default()
            };
            vec![
                Content::Resource { resource, annotations: None, meta: None },
                Content::text("Please process the embedded resource above."),
            ]
        }
        "test_prompt_with_image" => {
            vec![Content::image(PNG, "image/png"), Content::text("Please analyze the image above.")]
        }
        "test_input_required_result_prompt" => {
            let schema = json!({
                "type": "object", "properties": { "context": { "type": "string" } }, "required": ["context"],
            });
            let form = ElicitParams::form("What context should the prompt use?", schema);
            let answer = cx.elicit("user_context", &form).await?;
            let context = answer
                .content
                .and_then(|content| content.get("context")?.as_str().map(str::to_owned));
            vec![Content::text(format!("Use this context: {}", context.unwrap_or_default()))]
        }
        name => return Err(RpcError::invalid_params(format!("unknown prompt '{name}'"))),
    };
    let messages =
        contents.into_iter().map(|content| PromptMessage { role: Role::User, content }).collect();
    Ok(GetPromptResult { messages, ..GetPromptResult::default() })
}

pub(crate) fn complete(params: &CompleteParams) -> CompleteResult {
    let values: Vec<String> = ["paris", "park", "party"]
        .iter()
        .filter(|value| value.starts_with(&params.argument.value))
        .map(|value| (*value).to_owned())
        .collect();
    let completion = Completion { total: Some(values.len() as u64), has_more: Some(false), values };
    CompleteResult { completion }
}
