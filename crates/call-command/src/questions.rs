//! Questions of servers to the user: asked on a terminal, declined without one.

use std::io::{BufRead, IsTerminal as _, Write};

use async_trait::async_trait;
use indicatif::ProgressBar;
use marquetry_printable::{printable, printable_line};
use marquetry_protocol::{
    RpcError,
    client::ClientHandler,
    types::{ElicitParams, ElicitResult, JsonObject},
};
use serde_json::Value;

use crate::arguments;

/// Attempts to type a valid value.
const ATTEMPTS: usize = 3;

/// Asks on the terminal of this process.
pub(crate) struct Questions {
    /// Hidden while a question is open.
    pub(crate) bar: ProgressBar,
}

#[async_trait]
impl ClientHandler for Questions {
    async fn elicit(&self, params: ElicitParams) -> Result<ElicitResult, RpcError> {
        if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
            let message = printable_line(&params.message);
            self.bar.suspend(|| {
                eprintln!("note: declined a question of the server, because there is no terminal: {message}");
            });
            return Ok(ElicitResult::decline());
        }
        let bar = self.bar.clone();
        let asked = tokio::task::spawn_blocking(move || {
            bar.suspend(|| ask(&params, &mut std::io::stdin().lock(), &mut std::io::stderr()))
        });
        Ok(asked.await.unwrap_or_else(|_| ElicitResult::decline()))
    }
}

/// Asks for the values of a form, or to visit a page. The end of the input declines.
fn ask(params: &ElicitParams, input: &mut impl BufRead, output: &mut impl Write) -> ElicitResult {
    _ = writeln!(output, "{}", printable(&params.message));
    if let Some(url) = &params.url {
        _ = writeln!(output, "  {}", printable_line(url));
        _ = write!(output, "Open this page, then press Enter; n declines: ");
        return match line(input, output) {
            Some(answer) if answer.is_empty() || answer.eq_ignore_ascii_case("y") => {
                ElicitResult::accept(None)
            }
            _ => ElicitResult::decline(),
        };
    }
    let schema = params.requested_schema.as_ref();
    let fields = schema.and_then(|it| it.get("properties")).and_then(Value::as_object);
    let Some(fields) = fields.filter(|fields| !fields.is_empty()) else {
        _ = write!(output, "[y/N] ");
        return match line(input, output) {
            Some(answer) if answer.eq_ignore_ascii_case("y") => {
                ElicitResult::accept(JsonObject::new())
            }
            _ => ElicitResult::decline(),
        };
    };
    let required = schema.and_then(|it| it.get("required")).and_then(Value::as_array);
    let mut content = JsonObject::new();
    for (name, field) in fields {
        let is_required = required.is_some_and(|names| names.iter().any(|it| it == name));
        match ask_field(name, field, is_required, input, output) {
            FieldAnswer::Value(value) => _ = content.insert(name.clone(), value),
            FieldAnswer::Skipped => {}
            FieldAnswer::Declined => return ElicitResult::decline(),
        }
    }
    ElicitResult::accept(content)
}

/// The answer to one field of a form.
enum FieldAnswer {
    Value(Value),
    /// The field is optional, and nothing was typed.
    Skipped,
    /// The input has ended, or no valid value was typed.
    Declined,
}

fn ask_field(
    name: &str,
    field: &Value,
    is_required: bool,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> FieldAnswer {
    let title = field.get("title").or_else(|| field.get("description")).and_then(Value::as_str);
    let values = field.get("enum").and_then(Value::as_array);
    let mut question = printable_line(title.unwrap_or(name));
    if let Some(values) = values {
        let shown: Vec<String> = values.iter().take(20).map(shown).collect();
        question.push_str(&format!(" ({})", shown.join(", ")));
    } else if field.get("type").and_then(Value::as_str) == Some("boolean") {
        question.push_str(" (true, false)");
    }
    if let Some(default) = field.get("default") {
        question.push_str(&format!(" [{}]", shown(default)));
    } else if !is_required {
        question.push_str(" [none]");
    }
    let kind: Vec<&str> = field.get("type").and_then(Value::as_str).into_iter().collect();
    for _ in 0..ATTEMPTS {
        _ = write!(output, "  {question}: ");
        let Some(typed) = line(input, output) else { return FieldAnswer::Declined };
        if typed.is_empty() {
            match field.get("default") {
                Some(default) => return FieldAnswer::Value(default.clone()),
                None if !is_required => return FieldAnswer::Skipped,
                None => continue,
            }
        }
        match arguments::value(name, &typed, &kind) {
            Ok(value) if values.is_none_or(|values| values.contains(&value)) => {
                return FieldAnswer::Value(value);
            }
            Ok(_) => _ = writeln!(output, "  expected one of these values"),
            Err(error) => _ = writeln!(output, "  {}", printable_line(&error.to_string())),
        }
    }
    FieldAnswer::Declined
}

fn shown(value: &Value) -> String {
    printable_line(value.as_str().unwrap_or(&value.to_string()))
}

/// Reads a line; [`None`] at the end of the input.
fn line(input: &mut impl BufRead, output: &mut impl Write) -> Option<String> {
    _ = output.flush();
    let mut line = String::new();
    let read = input.read_line(&mut line).ok()?;
    (read > 0).then(|| line.trim_end_matches(['\r', '\n']).to_owned())
}

#[cfg(test)]
mod tests {
    use marquetry_protocol::types::ElicitAction;
    use serde_json::json;

    use super::*;

    fn asked(params: &ElicitParams, typed: &str) -> (ElicitResult, String) {
        let mut output = Vec::new();
        let result = ask(params, &mut typed.as_bytes(), &mut output);
        (result, String::from_utf8(output).unwrap())
    }

    #[test]
    fn a_form_is_filled_in_line_by_line() {
        let schema = json!({"type": "object", "required": ["name", "age"], "properties": {
            "name": {"type": "string", "title": "Your\u{1b} name"}, "age": {"type": "integer"},
            "size": {"type": "string", "enum": ["s", "m"], "default": "m"},
            "news": {"type": "boolean"},
        }});
        let params = ElicitParams::form("Who are you?", schema);
        let (result, output) = asked(&params, "Anna\nold\n41\n\n\n");
        let want = json!({"name": "Anna", "age": 41, "size": "m"});
        assert_eq!(result, ElicitResult::accept(want.as_object().unwrap().clone()));
        assert!(output.starts_with("Who are you?\n  Your\\u{1b} name: "), "{output}");
        assert!(output.contains("size (s, m) [m]: ") && output.contains("expected an integer"));
        for typed in ["", "Anna\n", "Anna\n1\nxl\nxl\nxl\n", "\n\n\n"] {
            assert_eq!(asked(&params, typed).0, ElicitResult::decline(), "{typed:?}");
        }
    }

    #[test]
    fn pages_and_empty_forms_need_a_confirmation() {
        let page = ElicitParams::url("Log in", "https://example.com", "1");
        assert_eq!(asked(&page, "\n").0.action, ElicitAction::Accept);
        assert_eq!(asked(&page, "n\n").0.action, ElicitAction::Decline);
        let form = ElicitParams::form("Delete?", json!({}));
        assert_eq!(asked(&form, "y\n").0.action, ElicitAction::Accept);
        assert_eq!(asked(&form, "\n").0.action, ElicitAction::Decline);
    }
}
