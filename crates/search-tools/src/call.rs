//! The tool that calls a tool.

use marquetry_apps_ext::types::Visibility;
use marquetry_nearest::nearest;
use marquetry_protocol::types::{CallToolParams, CallToolResult, Tool};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::definitions::{CALL, SEARCH};

/// Longest name that is repeated in an error, in bytes.
const SHOWN_NAME_BYTES: usize = 100;

/// The arguments of [`CALL`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallArguments {
    name: String,
    #[serde(default)]
    arguments: Option<Box<RawValue>>,
}

/// Returns the call that the arguments of [`CALL`] describe, with the metadata of the request.
///
/// Arguments that a model has written as a JSON text are read as the object in it.
///
/// # Errors
///
/// Returns an error if the arguments are not valid, or name [`CALL`] itself. The error is the
/// answer for the model.
pub fn target(params: &CallToolParams) -> Result<CallToolParams, Box<CallToolResult>> {
    let given = params.arguments.as_deref().map_or("{}", RawValue::get);
    let read: CallArguments = serde_json::from_str(given).map_err(|error| {
        refused(format!("arguments of '{CALL}' are not valid: {error}; it takes name, arguments"))
    })?;
    if read.name == CALL {
        return Err(refused(format!("'{CALL}' cannot call itself; give the name of another tool")));
    }
    let arguments = match read.arguments {
        Some(arguments) if arguments.get() == "null" => None,
        Some(arguments) => Some(object(arguments)?),
        None => None,
    };
    Ok(CallToolParams { name: read.name, arguments, meta: params.meta.clone() })
}

/// Returns the arguments of a tool, also from a JSON text.
fn object(arguments: Box<RawValue>) -> Result<Box<RawValue>, Box<CallToolResult>> {
    if arguments.get().starts_with('{') {
        return Ok(arguments);
    }
    let text: Option<String> = serde_json::from_str(arguments.get()).ok();
    let inner: Option<Box<RawValue>> = text.and_then(|text| serde_json::from_str(&text).ok());
    inner.filter(|inner| inner.get().starts_with('{')).ok_or_else(|| {
        refused(format!("arguments of '{CALL}' are not valid: arguments must be an object"))
    })
}

/// Returns the answer for a name that none of these tools has; `None` if one has it. Tools that
/// only Views may call do not count.
#[must_use]
pub fn not_found(name: &str, tools: &[&Tool]) -> Option<CallToolResult> {
    let known: Vec<&str> = tools
        .iter()
        .filter(|tool| Visibility::of(tool).model)
        .map(|tool| tool.name.as_str())
        .collect();
    if name == SEARCH || known.contains(&name) {
        return None;
    }
    let shown = &name[..name.floor_char_boundary(SHOWN_NAME_BYTES)];
    let meant = nearest(name, &known);
    let meant = meant.map_or_else(|| ".".to_owned(), |it| format!("; did you mean '{it}'?"));
    Some(*refused(format!("unknown tool '{shown}'{meant} {SEARCH} finds tools by what they do.")))
}

fn refused(text: String) -> Box<CallToolResult> {
    Box::new(CallToolResult::error(text))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(arguments: &Value) -> Result<(String, Option<String>), String> {
        let params = CallToolParams::new(CALL, arguments).unwrap();
        match target(&params) {
            Ok(call) => Ok((call.name, call.arguments.map(|it| it.get().to_owned()))),
            Err(answer) => {
                assert!(answer.is_error());
                Err(answer.content[0].as_text().unwrap().to_owned())
            }
        }
    }

    #[test]
    fn a_call_is_unwrapped() {
        let given = json!({"name": "t", "arguments": {"a": 1.50}});
        assert_eq!(read(&given), Ok(("t".to_owned(), Some(r#"{"a":1.5}"#.to_owned()))));
        let text = json!({"name": "t", "arguments": "{\"a\": 1}"});
        assert_eq!(read(&text), Ok(("t".to_owned(), Some(r#"{"a": 1}"#.to_owned()))));
        for absent in [json!({"name": "t"}), json!({"name": "t", "arguments": null})] {
            assert_eq!(read(&absent), Ok(("t".to_owned(), None)));
        }
        let params = CallToolParams {
            meta: json!({"progressToken": 7}).as_object().cloned(),
            ..CallToolParams::new(CALL, &json!({"name": "t"})).unwrap()
        };
        assert_eq!(target(&params).unwrap().meta, params.meta);
    }

    #[test]
    fn bad_arguments_are_refused() {
        for (given, want) in [
            (json!({}), "missing field `name`"),
            (json!({"name": 7}), "invalid type: integer"),
            (json!({"name": "t", "args": {}}), "unknown field `args`"),
            (json!({"name": "t", "arguments": [1]}), "arguments must be an object"),
            (json!({"name": "t", "arguments": "text"}), "arguments must be an object"),
            (json!({"name": CALL}), "cannot call itself"),
        ] {
            let error = read(&given).unwrap_err();
            assert!(error.contains(want), "{error}");
        }
    }

    #[test]
    fn unknown_names_get_a_hint() {
        let tool = Tool { name: "create_issue".to_owned(), ..Tool::default() };
        let hidden = Tool {
            name: "poll".to_owned(),
            meta: json!({"ui": {"visibility": ["app"]}}).as_object().cloned(),
            ..Tool::default()
        };
        let tools = [&tool, &hidden];
        assert_eq!(not_found("create_issue", &tools), None);
        assert_eq!(not_found(SEARCH, &tools), None);
        for (name, want) in [
            (
                "create_isue",
                "unknown tool 'create_isue'; did you mean 'create_issue'? search_tools",
            ),
            ("poll", "unknown tool 'poll'. search_tools"),
        ] {
            let answer = not_found(name, &tools).unwrap();
            assert!(answer.is_error());
            let text = answer.content[0].as_text().unwrap();
            assert!(text.starts_with(want), "{text}");
        }
        let long = not_found(&"é".repeat(10_000), &tools).unwrap();
        assert!(long.content[0].as_text().unwrap().len() < 200);
    }
}
