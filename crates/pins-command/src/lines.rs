//! A definition as lines that can be compared.

use marquetry_canonical_json::{canonical, sorted_members};
use serde_json::Value;

/// Most lines of one definition. The rest is one line.
const MAX_LINES: usize = 5_000;

/// Returns the lines of a canonical text: one for each value, with members in canonical order and
/// without commas, so that an added member changes no other line. A text with line ends has one
/// line for each of its lines.
pub(crate) fn lines_of(canonical_text: &str) -> Vec<String> {
    let Ok(value) = serde_json::from_str::<Value>(canonical_text) else {
        return vec![canonical_text.to_owned()];
    };
    let mut lines = Vec::new();
    write(&value, "", 0, &mut lines);
    lines
}

fn write(value: &Value, label: &str, level: usize, lines: &mut Vec<String>) {
    let indent = "  ".repeat(level);
    match value {
        _ if lines.len() >= MAX_LINES => {
            lines.push(format!("{indent}{label}{}", canonical(value)));
        }
        Value::Object(members) if !members.is_empty() => {
            lines.push(format!("{indent}{label}{{"));
            for (name, member) in sorted_members(members) {
                let label = format!("{}: ", canonical(&Value::from(name.as_str())));
                write(member, &label, level + 1, lines);
            }
            lines.push(format!("{indent}}}"));
        }
        Value::Array(items) if !items.is_empty() => {
            lines.push(format!("{indent}{label}["));
            for item in items {
                write(item, "", level + 1, lines);
            }
            lines.push(format!("{indent}]"));
        }
        Value::String(text) if text.contains('\n') => {
            lines.push(format!("{indent}{label}text"));
            // Quotes show spaces at the ends.
            for line in text.split('\n') {
                lines.push(format!("{indent}  {}", canonical(&Value::from(line))));
            }
        }
        other => lines.push(format!("{indent}{label}{}", canonical(other))),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn a_value_has_a_line() {
        let text = r#"{"b":[1,{"x":[]}],"a":"one\n two ","c":{}}"#;
        expect![[r#"
            {
              "a": text
                "one"
                " two "
              "b": [
                1
                {
                  "x": []
                }
              ]
              "c": {}
            }"#]]
        .assert_eq(&lines_of(text).join("\n"));
        assert_eq!(lines_of("no JSON"), ["no JSON"]);
    }
}
