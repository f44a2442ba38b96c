//! Questions of servers to the user: asked on a terminal, declined without one.

use std::{
    io::{BufRead, IsTerminal as _, Write},
    thread,
    time::Duration,
};

use async_trait::async_trait;
use indicatif::ProgressBar;
use marquetry_printable::{printable_line, printable_text};
use marquetry_protocol::{
    RpcError,
    client::ClientHandler,
    types::{ElicitParams, ElicitResult, JsonObject},
};
use serde_json::Value;
use tokio::sync::{Mutex, oneshot};

use crate::{arguments, choices::Choices};

/// Attempts to type a valid value.
const ATTEMPTS: usize = 3;

/// Asks on the terminal of this process.
pub(crate) struct Questions {
    /// Hidden while a question is open.
    bar: ProgressBar,
    /// Held while a question is open, so that there is one at a time.
    turn: Mutex<()>,
}

impl Questions {
    pub(crate) fn new(bar: ProgressBar) -> Self {
        Self { bar, turn: Mutex::default() }
    }

    /// Runs `ask` on a thread of its own. Dropping the future leaves the thread behind, since a
    /// read of a terminal cannot be cancelled; it ends with the process.
    ///
    /// The progress line is taken away rather than suspended: a suspended one is locked, and the
    /// command could not end before a line is typed.
    async fn apart(&self, ask: impl FnOnce() -> ElicitResult + Send + 'static) -> ElicitResult {
        let _turn = self.turn.lock().await;
        self.bar.disable_steady_tick();
        self.bar.finish_and_clear();
        let (sender, answer) = oneshot::channel();
        thread::spawn(move || sender.send(ask()));
        let answer = answer.await.unwrap_or_else(|_| ElicitResult::decline());
        self.bar.reset();
        self.bar.enable_steady_tick(Duration::from_millis(200));
        answer
    }
}

#[async_trait]
impl ClientHandler for Questions {
    async fn elicit(&self, params: ElicitParams) -> Result<ElicitResult, RpcError> {
        if std::io::stdin().is_terminal() && std::io::stderr().is_terminal() {
            let asking = self
                .apart(move || ask(&params, &mut std::io::stdin().lock(), &mut std::io::stderr()));
            return Ok(asking.await);
        }
        let message = printable_text(params.message.trim_end());
        self.bar.suspend(|| {
            eprintln!("note: nobody was asked, because there is no terminal:\n{message}");
        });
        unasked(&params)
    }
}

/// Returns the answer to a question that no person sees. A question before a call has an error, so
/// that the answer of the call does not say that a person has declined it.
fn unasked(params: &ElicitParams) -> Result<ElicitResult, RpcError> {
    let fields = fields(params);
    let is_approval = fields.is_some_and(|fields| {
        fields.iter().any(|(name, field)| Choices::of(field).is_some_and(|it| it.approve(name)))
    });
    if is_approval {
        return Err(RpcError::internal(
            "a person must allow it, and nobody was asked, because there is no terminal; run it in \
             a terminal, and choose \"always\" to allow the tool from now on",
        ));
    }
    Ok(ElicitResult::decline())
}

/// Returns the fields of a form.
fn fields(params: &ElicitParams) -> Option<&JsonObject> {
    params.requested_schema.as_ref()?.get("properties")?.as_object()
}

/// Asks for the values of a form, or to visit a page. The end of the input declines.
fn ask(params: &ElicitParams, input: &mut impl BufRead, output: &mut impl Write) -> ElicitResult {
    _ = writeln!(output, "{}", printable_text(&params.message));
    if let Some(url) = &params.url {
        _ = writeln!(output, "  {}", printable_line(url));
        _ = write!(output, "Open this page, then press Enter; n declines: ");
        return match line(input, output) {
            Some(answer) if answer.is_empty() || is_yes(&answer) => ElicitResult::accept(None),
            _ => ElicitResult::decline(),
        };
    }
    let schema = params.requested_schema.as_ref();
    let Some(fields) = fields(params).filter(|fields| !fields.is_empty()) else {
        _ = write!(output, "[y/N] ");
        return match line(input, output) {
            Some(answer) if is_yes(&answer) => ElicitResult::accept(JsonObject::new()),
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
    let choices = Choices::of(field);
    let is_approval = choices.as_ref().is_some_and(|choices| choices.approve(name));
    // An empty line must not allow a call.
    let default = field.get("default").filter(|_| !is_approval);
    let is_boolean = field.get("type").and_then(Value::as_str) == Some("boolean");
    let mut question = printable_line(title.unwrap_or(name));
    if let Some(choices) = &choices {
        _ = write!(output, "  {question}\n{}", choices.listing());
        question.clear();
        question.push_str(choices.prompt());
    } else if is_boolean {
        question.push_str(" (yes, no)");
    }
    if let Some(default) = default {
        let shown = match default {
            Value::Bool(true) => "yes".to_owned(),
            Value::Bool(false) => "no".to_owned(),
            default => shown(default),
        };
        question.push_str(&format!(" [{shown}]"));
    } else if !is_required {
        question.push_str(" [none]");
    }
    let kind: Vec<&str> = field.get("type").and_then(Value::as_str).into_iter().collect();
    for _ in 0..ATTEMPTS {
        _ = write!(output, "  {question}: ");
        let Some(typed) = line(input, output) else { return FieldAnswer::Declined };
        if typed.trim().is_empty() {
            match default {
                Some(default) => return FieldAnswer::Value(default.clone()),
                None if !is_required => return FieldAnswer::Skipped,
                None => {
                    _ = writeln!(output, "  an answer is needed");
                    continue;
                }
            }
        }
        if let Some(choices) = &choices {
            match choices.chosen(&typed) {
                Some(value) => return FieldAnswer::Value(value),
                None if declines(&typed) => return FieldAnswer::Declined,
                None => _ = writeln!(output, "  expected {}", choices.names()),
            }
            continue;
        }
        if is_boolean && (is_yes(&typed) || is_no(&typed)) {
            return FieldAnswer::Value(is_yes(&typed).into());
        }
        match arguments::value(name, &typed, &kind) {
            Ok(value) => return FieldAnswer::Value(value),
            Err(error) => _ = writeln!(output, "  {}", printable_line(&error.to_string())),
        }
    }
    _ = writeln!(output, "  declined after {ATTEMPTS} attempts");
    FieldAnswer::Declined
}

fn is_yes(typed: &str) -> bool {
    ["y", "yes"].contains(&&*typed.trim().to_ascii_lowercase())
}

fn is_no(typed: &str) -> bool {
    ["n", "no"].contains(&&*typed.trim().to_ascii_lowercase())
}

/// Returns whether an answer to a choice declines the question.
fn declines(typed: &str) -> bool {
    is_no(typed) || ["d", "decline"].contains(&&*typed.trim().to_ascii_lowercase())
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
    use marquetry_approvals::{SessionScope, choice_schema};
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
        assert!(
            output.contains("  size\n    1  s\n    2  m\n  Choose one (n declines) [m]: ")
                && output.contains("expected an integer")
        );
        for typed in ["", "Anna\n", "Anna\n1\nxl\nxl\nxl\n", "\n\n\n"] {
            assert_eq!(asked(&params, typed).0, ElicitResult::decline(), "{typed:?}");
        }
    }

    #[test]
    fn an_approval_is_chosen_by_its_name_title_or_number() {
        for has_titles in [true, false] {
            let params =
                ElicitParams::form("May it?", choice_schema(has_titles, SessionScope::Session));
            let (declined, output) = asked(&params, "n\n");
            let want = "May it?\n  Allow this call?\n    1  once     Allow once\n    2  session  \
                        Allow for this session\n    3  always   ";
            assert!(output.starts_with(want), "{output}");
            assert!(output.ends_with("  Choose one (n declines): "), "{output}");
            assert_eq!(declined, ElicitResult::decline());
            for typed in ["no\n", "D\n", "decline\n", "\n\n\n", "y\nyes\nmaybe\n", ""] {
                assert_eq!(asked(&params, typed).0, ElicitResult::decline(), "{typed:?}");
            }
            for typed in ["session\n", "yes\n\nSESSION\n", "2\n", " allow for this session \n"] {
                let (allowed, output) = asked(&params, typed);
                let want = json!({"decision": "session"});
                assert_eq!(allowed, ElicitResult::accept(want.as_object().unwrap().clone()));
                let has_failed = output.contains("  expected once, session or always\n");
                assert_eq!(has_failed, typed.starts_with("yes"), "{output}");
            }
        }
    }

    #[test]
    fn booleans_and_several_choices_are_asked_in_words() {
        let schema = json!({"type": "object", "required": ["news", "tags"], "properties": {
            "news": {"type": "boolean"}, "old": {"type": "boolean", "default": false},
            "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}},
        }});
        let params = ElicitParams::form("Which?", schema);
        let (result, output) = asked(&params, "YES\n\nx\na, 3\n");
        let want = json!({"news": true, "old": false, "tags": ["a", "c"]});
        assert_eq!(result, ElicitResult::accept(want.as_object().unwrap().clone()), "{output}");
        assert!(output.contains("news (yes, no): ") && output.contains("old (yes, no) [no]: "));
        assert!(output.contains("  expected a, b or c, with commas between them\n"), "{output}");
    }

    #[test]
    fn without_a_terminal_only_an_approval_is_an_error() {
        let approval = ElicitParams::form("May it?", choice_schema(true, SessionScope::Session));
        assert!(unasked(&approval).unwrap_err().message.contains("nobody was asked"));
        let other = ElicitParams::form("Sure?", json!({"type": "object"}));
        assert_eq!(unasked(&other).unwrap(), ElicitResult::decline());
    }

    /// Ctrl-C drops the question, and the command then clears its progress line.
    #[tokio::test]
    async fn an_open_question_does_not_keep_the_command_from_ending() {
        let questions = Questions::new(ProgressBar::hidden());
        let (typed, input) = std::sync::mpsc::channel::<()>();
        let asking = questions.apart(move || {
            _ = input.recv();
            ElicitResult::decline()
        });
        tokio::time::timeout(Duration::from_millis(100), asking).await.unwrap_err();
        let (sender, cleared) = std::sync::mpsc::channel();
        let bar = questions.bar.clone();
        thread::spawn(move || {
            bar.finish_and_clear();
            sender.send(())
        });
        cleared.recv_timeout(Duration::from_secs(10)).expect("the bar is locked");
        drop(typed);
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
