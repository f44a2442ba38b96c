//! The text and the form of a question.

use std::{fmt, marker::PhantomData};

use marquetry_printable::printable_line;
use marquetry_redact::json_without_secrets;
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::{Value, json, value::RawValue};

use crate::{Decision, SessionScope, ToolHints};

/// The name of the form's only field.
pub const CHOICE: &str = "decision";

/// The largest text of a question, in bytes.
const MAX_MESSAGE: usize = 2_048;
/// The largest name in a question, in bytes.
const MAX_NAME: usize = 100;
/// The largest value of an argument in a question, in bytes.
const MAX_VALUE: usize = 600;
/// The smallest part of a value that is shown however many arguments there are.
const MIN_VALUE: usize = 80;
/// Room for the sentence that arguments are left out.
const ROOM_FOR_REST: usize = 80;
/// Longer arguments are shown by their beginning.
const MAX_ARGUMENTS: usize = 256 << 10;

/// The content of a question: a call, and hints about its tool.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct QuestionText<'a> {
    server: &'a str,
    tool: &'a str,
    arguments: Option<&'a RawValue>,
    hints: ToolHints,
    secret_names: &'a [String],
}

impl<'a> QuestionText<'a> {
    /// Creates the question about a call of a server's tool with these arguments.
    #[must_use]
    pub fn new(server: &'a str, tool: &'a str, arguments: Option<&'a RawValue>) -> Self {
        Self { server, tool, arguments, hints: ToolHints::default(), secret_names: &[] }
    }

    /// Sets the hints of the server about the tool.
    #[must_use]
    pub fn with_hints(self, hints: ToolHints) -> Self {
        Self { hints, ..self }
    }

    /// Sets the names of arguments that are secret, beside those that are secret by their name.
    #[must_use]
    pub fn hiding(self, secret_names: &'a [String]) -> Self {
        Self { secret_names, ..self }
    }

    /// Returns the text of the question: server, tool, hints, and a line for each argument. It has
    /// at most 2 KiB, no secret that is known by name or form, and no character that changes how
    /// the rest is read.
    #[must_use]
    pub fn message(&self) -> String {
        let server = shown(self.server, MAX_NAME);
        let tool = shown(self.tool, MAX_NAME);
        // Questions of servers begin with the name of the server in brackets, so none of them can
        // begin like this.
        let mut message = format!(
            "Marquetry asks: may the tool \"{tool}\" of the server \"{server}\" be called?\n{}\n",
            hints_in_words(&self.hints)
        );
        self.add_arguments(&mut message);
        message
    }

    fn add_arguments(&self, message: &mut String) {
        let Some(arguments) = self.arguments else {
            message.push_str("\nIt gets no arguments.");
            return;
        };
        let bytes = arguments.get().len();
        let room = MAX_MESSAGE - ROOM_FOR_REST - message.len();
        if bytes > MAX_ARGUMENTS {
            let beginning = &arguments.get()[..arguments.get().floor_char_boundary(MAX_VALUE)];
            let safe = json_without_secrets(beginning, self.secret_names, "[hidden]");
            message
                .push_str(&format!("\nIts arguments begin with: {}", cut(&safe, MAX_VALUE, bytes)));
            return;
        }
        let safe = json_without_secrets(arguments.get(), self.secret_names, "[hidden]");
        let Ok(Members(members)) = serde_json::from_str::<Members<'_>>(&safe) else {
            message.push_str(&format!("\nIts arguments are: {}", cut(&safe, MAX_VALUE, bytes)));
            return;
        };
        if members.is_empty() {
            message.push_str("\nIt gets no arguments.");
            return;
        }
        let longest = (room / members.len()).clamp(MIN_VALUE, MAX_VALUE);
        let end = message.len() + room;
        for (index, (name, value)) in members.iter().enumerate() {
            let line = format!("\n{}: {}", shown(name, MAX_NAME), value_in_words(value, longest));
            if message.len() + line.len() > end {
                let rest = members.len() - index;
                message.push_str(&format!("\n… and {rest} more arguments that do not fit here"));
                return;
            }
            message.push_str(&line);
        }
    }
}

/// Returns the schema of the form: one choice between the ways to allow the call, which is made in
/// a session or without one. Revisions before 2025-11-25 have no `oneOf` in forms, and show the
/// names of `enumNames`.
#[must_use]
pub fn choice_schema(has_titled_choices: bool, scope: SessionScope) -> Value {
    let names = Decision::ALLOWING.map(Decision::name);
    let mut field = json!({
        "type": "string",
        "title": "Allow this call?",
        "description": "Decline to refuse it.",
    });
    if has_titled_choices {
        let choices =
            Decision::ALLOWING.map(|it| json!({"const": it.name(), "title": it.title(scope)}));
        field["oneOf"] = json!(choices);
        field["default"] = json!(Decision::Once.name());
    } else {
        field["enum"] = json!(names);
        field["enumNames"] = json!(Decision::ALLOWING.map(|it| it.title(scope)));
    }
    json!({"type": "object", "properties": {CHOICE: field}, "required": [CHOICE]})
}

fn hints_in_words(hints: &ToolHints) -> String {
    let effect = match (hints.read_only, hints.destructive) {
        (Some(true), _) => "says that it changes nothing",
        (_, Some(false)) => "says that it deletes and overwrites nothing",
        (_, Some(true)) => "says that it may delete or overwrite data",
        _ => "does not say whether it deletes or overwrites data",
    };
    let reach = match hints.open_world {
        Some(false) => "says that it reaches no other system",
        Some(true) => "says that it may reach other systems",
        None => "does not say whether it reaches other systems",
    };
    format!("The server {effect}, and {reach}.")
}

/// Returns a value for people: a text without its quotes, everything else as JSON.
fn value_in_words(value: &RawValue, max: usize) -> String {
    let text: Option<String> = serde_json::from_str(value.get()).ok();
    match text {
        Some(text) => cut(&text, max, text.len()),
        None => cut(value.get(), max, value.get().len()),
    }
}

/// Returns the beginning of a text of `bytes` bytes, in one line, and says how long it is if it was
/// cut.
fn cut(text: &str, max: usize, bytes: usize) -> String {
    let line = Line::of(text, max);
    if line.is_cut || bytes > text.len() {
        return format!("{}… ({bytes} bytes)", line.text);
    }
    line.text
}

/// Returns a text in one line of at most `max` bytes, with `…` at its end if it was cut.
fn shown(text: &str, max: usize) -> String {
    let mut line = Line::of(text, max);
    if line.is_cut {
        line.text.push('…');
    }
    line.text
}

/// A text in one line without characters that change how the rest is read.
struct Line {
    text: String,
    is_cut: bool,
}

impl Line {
    fn of(text: &str, max: usize) -> Self {
        let beginning = &text[..text.floor_char_boundary(max)];
        let mut line = printable_line(beginning);
        // Escapes make a line longer.
        let is_cut = beginning.len() < text.len() || line.len() > max;
        line.truncate(line.floor_char_boundary(max));
        Self { text: line, is_cut }
    }
}

/// The members of an object in their order, also those that are there twice: servers differ in
/// which one they use.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor<'a>(PhantomData<&'a ()>);
        impl<'de: 'a, 'a> Visitor<'de> for MembersVisitor<'a> {
            type Value = Members<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(MembersVisitor(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::value::to_raw_value;

    use super::*;

    fn message(arguments: &str) -> String {
        let arguments = RawValue::from_string(arguments.to_owned()).unwrap();
        QuestionText::new("files", "delete_file", Some(&arguments)).message()
    }

    /// Returns the lines after the empty line.
    fn lines(arguments: &str) -> Vec<String> {
        let message = message(arguments);
        let (_, lines) = message.split_once("\n\n").unwrap();
        lines.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_question_names_server_tool_hints_and_arguments() {
        let hints = ToolHints { destructive: Some(true), ..ToolHints::default() };
        let arguments = r#"{"path": "/a b", "force": true, "n": [1,2]}"#;
        let arguments = RawValue::from_string(arguments.to_owned()).unwrap();
        let text = QuestionText::new("files", "delete_file", Some(&arguments)).with_hints(hints);
        assert_eq!(
            text.message(),
            "Marquetry asks: may the tool \"delete_file\" of the server \"files\" be called?\nThe server says that it may delete or overwrite data, and does not say whether it reaches other systems.\n\npath: /a b\nforce: true\nn: [1,2]"
        );
        for none in [None, Some("{}")] {
            let none = none.map(|it| RawValue::from_string(it.to_owned()).unwrap());
            let text = QuestionText::new("a", "b", none.as_deref()).message();
            assert!(text.ends_with("\n\nIt gets no arguments."), "{text}");
        }
    }

    #[test]
    fn an_argument_cannot_forge_another_line() {
        let lines = lines(r#"{"path":"/tmp\npath: /safe\u202e\u001b[2J","a\nb":1}"#);
        assert_eq!(lines, [r"path: /tmp\npath: /safe\u{202e}\u{1b}[2J", r"a\nb: 1"]);
    }

    #[test]
    fn secrets_are_hidden() {
        let arguments = r#"{"password":"hunter2","pin":"1234","in":{"api_key":"k-1"}}"#;
        let arguments = RawValue::from_string(arguments.to_owned()).unwrap();
        let hidden = ["pin".to_owned()];
        let message = QuestionText::new("a", "b", Some(&arguments)).hiding(&hidden).message();
        for secret in ["hunter2", "1234", "k-1"] {
            assert!(!message.contains(secret), "{message}");
        }
        assert!(message.contains("password: [hidden]"), "{message}");
    }

    #[test]
    fn a_member_that_is_there_twice_is_shown_twice() {
        assert_eq!(lines(r#"{"path":"/a","path":"/b"}"#), ["path: /a", "path: /b"]);
    }

    #[test]
    fn long_arguments_are_cut_and_the_question_says_so() {
        let long = "x".repeat(10_000);
        let shown = lines(&format!(r#"{{"text":"{long}","path":"/etc/passwd"}}"#));
        assert!(shown[0].starts_with("text: xxx") && shown[0].ends_with("xx… (10000 bytes)"));
        assert_eq!(shown[1], "path: /etc/passwd");
        let many: Vec<_> = (0..500).map(|it| format!(r#""a{it}":"{long}""#)).collect();
        let many = format!("{{{}}}", many.join(","));
        assert!(message(&many).contains("Its arguments begin with: {"), "{}", message(&many));
        let many: Vec<_> = (0..500).map(|it| format!(r#""a{it}":"{}""#, &long[..100])).collect();
        let shown = lines(&format!("{{{}}}", many.join(",")));
        assert!(shown.last().unwrap().contains("more arguments"), "{shown:?}");
        assert!(lines("[1,2]")[0].starts_with("Its arguments are: [1,2]"));
    }

    #[test]
    fn the_form_fits_each_revision() {
        let old = choice_schema(false, SessionScope::Session);
        assert_eq!(old["properties"][CHOICE]["enum"], json!(["once", "session", "always"]));
        let new = choice_schema(true, SessionScope::Session);
        let choice = &new["properties"][CHOICE];
        assert_eq!(
            choice["oneOf"][1],
            json!({"const": "session", "title": "Allow for this session"})
        );
        assert!(choice["enum"].is_null());
    }

    #[test]
    fn a_client_without_sessions_is_told_how_long_its_choice_counts() {
        let title = "Allow until the server ends, for all clients of yours";
        let old = choice_schema(false, SessionScope::Caller);
        assert_eq!(old["properties"][CHOICE]["enumNames"][1], title);
        let new = choice_schema(true, SessionScope::Caller);
        assert_eq!(new["properties"][CHOICE]["oneOf"][1]["title"], title);
    }

    proptest! {
        #[test]
        fn a_question_is_bounded_and_safe(
            server in any::<String>(),
            tool in any::<String>(),
            members in proptest::collection::vec((any::<String>(), any::<String>()), 0..60),
            repeat in 1_usize..40,
        ) {
            let members: Value = members.into_iter()
                .map(|(name, value)| (name, Value::from(value.repeat(repeat)))).collect();
            let arguments = to_raw_value(&members).unwrap();
            let message = QuestionText::new(&server, &tool, Some(&arguments)).message();
            prop_assert!(message.len() <= MAX_MESSAGE, "{} bytes", message.len());
            prop_assert!(!message.contains(is_unsafe), "{message:?}");
        }
    }

    fn is_unsafe(it: char) -> bool {
        it != '\n' && (it.is_control() || marquetry_printable::changes_layout(it))
    }
}
