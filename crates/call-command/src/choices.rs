//! The choices of a field of a form, as people type them.

use std::fmt::Write as _;

use marquetry_printable::printable_line;
use serde_json::Value;

/// Choices that are listed.
const MAX_LISTED: usize = 50;

/// The values of a field, of which one is chosen, or several for an array.
pub(crate) struct Choices<'a> {
    choices: Vec<Choice<'a>>,
    takes_several: bool,
}

/// A value and what it means.
struct Choice<'a> {
    value: &'a Value,
    title: Option<&'a str>,
}

impl<'a> Choices<'a> {
    /// Returns the choices of a field, in each form that the revisions of MCP have; [`None`] if any
    /// value may be typed.
    pub(crate) fn of(field: &'a Value) -> Option<Self> {
        if let Some(choices) = listed(field) {
            return Some(Self { choices, takes_several: false });
        }
        let choices = listed(field.get("items")?)?;
        Some(Self { choices, takes_several: true })
    }

    /// Returns whether these are the choices of Marquetry's question before a call, in the field of
    /// this name.
    pub(crate) fn approve(&self, name: &str) -> bool {
        let values = self.choices.iter().map(|choice| choice.value.as_str());
        name == "decision" && values.eq([Some("once"), Some("session"), Some("always")])
    }

    /// Returns a line for each choice.
    pub(crate) fn listing(&self) -> String {
        let listed = &self.choices[..self.choices.len().min(MAX_LISTED)];
        let width = listed.iter().map(|choice| choice.name().chars().count()).max().unwrap_or(0);
        let mut text = String::new();
        for (index, choice) in listed.iter().enumerate() {
            let title = printable_line(choice.title.unwrap_or_default());
            let line = format!("    {}  {:width$}  {title}", index + 1, choice.name());
            _ = writeln!(text, "{}", line.trim_end());
        }
        let rest = self.choices.len() - listed.len();
        if rest > 0 {
            _ = writeln!(text, "    and {rest} more");
        }
        text
    }

    /// Returns the question after the listing.
    pub(crate) fn prompt(&self) -> &'static str {
        if self.takes_several {
            "Choose some, with commas between them (n declines)"
        } else {
            "Choose one (n declines)"
        }
    }

    /// Returns the names of the choices, for people.
    pub(crate) fn names(&self) -> String {
        let listed = self.choices.iter().take(MAX_LISTED);
        let mut names: Vec<String> = listed.map(Choice::name).collect();
        let last = names.pop().unwrap_or_default();
        let mut text = names.join(", ");
        if !text.is_empty() {
            text.push_str(" or ");
        }
        text.push_str(&last);
        if self.takes_several {
            text.push_str(", with commas between them");
        }
        text
    }

    /// Returns the value that was typed: by its name, its title or its number.
    pub(crate) fn chosen(&self, typed: &str) -> Option<Value> {
        if !self.takes_several {
            return self.one(typed).cloned();
        }
        let values: Option<Vec<Value>> =
            typed.split(',').map(|part| self.one(part).cloned()).collect();
        values.map(Value::Array)
    }

    fn one(&self, typed: &str) -> Option<&Value> {
        let typed = typed.trim();
        let lower = typed.to_lowercase();
        let exact = self.choices.iter().find(|choice| choice.plain().trim() == typed);
        let similar = self.choices.iter().find(|choice| {
            let title = choice.title.map(|title| title.trim().to_lowercase());
            choice.plain().trim().to_lowercase() == lower || title.is_some_and(|it| it == lower)
        });
        let number = typed.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        let numbered = number.and_then(|index| self.choices.get(index));
        exact.or(similar).or(numbered).map(|choice| choice.value)
    }
}

impl Choice<'_> {
    /// Returns the value as it is typed.
    fn plain(&self) -> String {
        self.value.as_str().map_or_else(|| self.value.to_string(), str::to_owned)
    }

    fn name(&self) -> String {
        printable_line(&self.plain())
    }
}

/// Returns the values that a schema lists: `enum` with or without `enumNames`, or constants with
/// titles.
fn listed(schema: &Value) -> Option<Vec<Choice<'_>>> {
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        let titles = schema.get("enumNames").and_then(Value::as_array);
        let choices = values.iter().enumerate().map(|(index, value)| {
            let title = titles.and_then(|titles| titles.get(index)?.as_str());
            Choice { value, title }
        });
        return Some(choices.collect()).filter(|choices: &Vec<_>| !choices.is_empty());
    }
    let schemas = ["oneOf", "anyOf"].iter().find_map(|key| schema.get(key)?.as_array())?;
    let choices: Option<Vec<Choice<'_>>> = schemas
        .iter()
        .map(|schema| {
            let title = schema.get("title").and_then(Value::as_str);
            Some(Choice { value: schema.get("const")?, title })
        })
        .collect();
    choices.filter(|choices| !choices.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_taken_as_values_first() {
        let field = json!({"enum": [2, 1, "N", "n"]});
        let choices = Choices::of(&field).unwrap();
        for (typed, want) in
            [("2", json!(2)), ("1", json!(1)), ("3", json!("N")), ("n", json!("n"))]
        {
            assert_eq!(choices.chosen(typed), Some(want), "{typed}");
        }
        for typed in ["0", "5", "", "99999999999999999999"] {
            assert_eq!(choices.chosen(typed), None, "{typed}");
        }
        for field in [json!({"enum": []}), json!({"oneOf": [{"type": "string"}]}), json!(1)] {
            assert!(Choices::of(&field).is_none(), "{field}");
        }
    }

    #[test]
    fn long_lists_are_cut() {
        let field = json!({"enum": (0..60).collect::<Vec<_>>()});
        let text = Choices::of(&field).unwrap().listing();
        assert!(text.ends_with("    50  49\n    and 10 more\n"), "{text}");
    }

    proptest! {
        #[test]
        fn each_value_is_chosen_by_its_number(values in prop::collection::hash_set("[a-z]{1,5}", 1..9)) {
            let values: Vec<_> = values.into_iter().collect();
            let field = json!({"type": "string", "enum": values});
            let choices = Choices::of(&field).unwrap();
            for (index, value) in values.iter().enumerate() {
                prop_assert_eq!(choices.chosen(&(index + 1).to_string()), Some(json!(value)));
                prop_assert_eq!(choices.chosen(value), Some(json!(value)));
            }
        }
    }
}
