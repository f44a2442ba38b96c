//! The tools of a server: those for its model, and those for its Views.

use marquetry_protocol::{
    RpcError, shortened,
    types::{JsonObject, Tool},
};
use serde_json::{Value, json};

use crate::types::{DENIED, Visibility};

/// Returns the tools of a server that its model may see and call. A host must not show the other
/// tools to the model.
pub fn model_tools(tools: &[Tool]) -> impl Iterator<Item = &Tool> {
    tools.iter().filter(|tool| Visibility::of(tool).model)
}

/// Returns the part of a tool's result that the model may see: `content` and `isError`.
/// `structuredContent` is for the View, and `_meta` is for programs.
#[must_use]
pub fn model_content(result: &Value) -> Value {
    let mut shown = json!({ "content": result.get("content").cloned().unwrap_or(json!([])) });
    if let Some(is_error) = result.get("isError") {
        shown["isError"] = is_error.clone();
    }
    shown
}

/// A tool call that a View requests.
#[derive(Debug)]
pub(super) struct ViewCall {
    pub(super) name: String,
    pub(super) arguments: JsonObject,
}

/// Checks a View's `tools/call` against the tools of its own server. Other servers are never
/// called.
pub(super) fn check_call(params: &JsonObject, tools: &[Tool]) -> Result<ViewCall, RpcError> {
    let Some(name) = params.get("name").and_then(Value::as_str) else {
        return Err(RpcError::invalid_params("name is not a string"));
    };
    let arguments = match params.get("arguments") {
        None | Some(Value::Null) => JsonObject::new(),
        Some(Value::Object(arguments)) => arguments.clone(),
        Some(_) => return Err(RpcError::invalid_params("arguments is not an object")),
    };
    let shown = shortened(name);
    match tools.iter().find(|tool| tool.name == name) {
        None => Err(RpcError::new(DENIED, format!("the View's server has no tool '{shown}'"))),
        Some(tool) if !Visibility::of(tool).app => {
            Err(RpcError::new(DENIED, format!("Views may not call the tool '{shown}'")))
        }
        Some(_) => Ok(ViewCall { name: name.to_owned(), arguments }),
    }
}

/// Returns the answer to a View's `tools/list`: the tools that it may call, on one page.
pub(super) fn list(tools: &[Tool]) -> Value {
    let visible: Vec<_> = tools.iter().filter(|tool| Visibility::of(tool).app).collect();
    json!({ "tools": visible })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, visibility: Value) -> Tool {
        let meta = json!({ "ui": { "visibility": visibility } });
        let tool = json!({ "name": name, "inputSchema": {}, "_meta": meta });
        serde_json::from_value(tool).unwrap()
    }

    fn tools() -> Vec<Tool> {
        vec![
            tool("both", json!(null)),
            tool("model", json!(["model"])),
            tool("app", json!(["app"])),
            tool("neither", json!(["x"])),
        ]
    }

    #[test]
    fn model_and_view_see_their_own_tools() {
        let names: Vec<_> = model_tools(&tools()).map(|it| it.name.clone()).collect();
        assert_eq!(names, ["both", "model"]);
        let listed = list(&tools());
        assert_eq!(
            (&listed["tools"][0]["name"], &listed["tools"][1]["name"]),
            (&json!("both"), &json!("app"))
        );
        assert_eq!(listed["tools"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn a_view_calls_only_its_permitted_tools() {
        fn check(params: Value) -> Result<String, String> {
            check_call(params.as_object().unwrap(), &tools())
                .map(|it| it.name)
                .map_err(|it| it.to_string())
        }
        assert_eq!(check(json!({ "name": "app" })), Ok("app".into()));
        assert_eq!(check(json!({ "name": "both", "arguments": null })), Ok("both".into()));
        for name in ["model", "neither"] {
            let refused = Err(format!("Views may not call the tool '{name}' (-32000)"));
            assert_eq!(check(json!({ "name": name })), refused);
        }
        let unknown = Err("the View's server has no tool 'other' (-32000)".into());
        assert_eq!(check(json!({ "name": "other" })), unknown);
        assert!(check(json!({ "name": 1 })).is_err());
        assert!(check(json!({ "name": "app", "arguments": [] })).is_err());
    }

    #[test]
    fn the_model_sees_content_alone() {
        let result = json!({ "content": [1], "structuredContent": { "s": 1 }, "_meta": {}, "isError": true });
        assert_eq!(model_content(&result), json!({ "content": [1], "isError": true }));
        assert_eq!(model_content(&json!({})), json!({ "content": [] }));
    }
}
