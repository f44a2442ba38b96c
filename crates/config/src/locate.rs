//! Finding keys in the text of a TOML file, for error messages only.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

/// Returns the path of the key at `span` of a TOML text; empty if there is none.
pub(crate) fn toml_path_at(text: &str, span: &Range<usize>) -> Vec<String> {
    let (table, _) = DeTable::parse_recoverable(text);
    let mut path = Vec::new();
    find_in_table(table.get_ref(), span, &mut path);
    path
}

fn find_in_table(table: &DeTable<'_>, span: &Range<usize>, path: &mut Vec<String>) -> bool {
    for (key, value) in table {
        path.push(key.get_ref().to_string());
        if key.span() == *span || find_in_value(value, span, path) {
            return true;
        }
        path.pop();
    }
    false
}

fn find_in_value(
    value: &toml::Spanned<DeValue<'_>>,
    span: &Range<usize>,
    path: &mut Vec<String>,
) -> bool {
    let inside = match value.get_ref() {
        DeValue::Table(table) => find_in_table(table, span, path),
        DeValue::Array(items) => items.iter().any(|item| find_in_value(item, span, path)),
        _ => false,
    };
    inside || (value.span().start <= span.start && span.end <= value.span().end)
}

/// Returns the dotted path of each key in a TOML text, with the offset of its value.
pub(crate) fn toml_offsets(text: &str) -> Vec<(String, usize)> {
    let (table, _) = DeTable::parse_recoverable(text);
    let mut found = Vec::new();
    offsets_in(table.get_ref(), "", &mut found);
    found
}

fn offsets_in(table: &DeTable<'_>, above: &str, found: &mut Vec<(String, usize)>) {
    for (key, value) in table {
        let path = format!("{above}{}", key.get_ref());
        match value.get_ref() {
            DeValue::Table(inner) => offsets_in(inner, &format!("{path}."), found),
            DeValue::Array(items) => {
                let items = items.iter().enumerate();
                found.extend(items.map(|(at, item)| (format!("{path}[{at}]"), item.span().start)));
            }
            _ => {}
        }
        found.push((path, value.span().start));
    }
}

/// Returns the offset of the value of the key `path` in a TOML text.
pub(crate) fn toml_offset(text: &str, path: &[&str]) -> Option<usize> {
    let (table, _) = DeTable::parse_recoverable(text);
    let (last, parents) = path.split_last()?;
    let mut table = table.get_ref();
    for part in parents {
        table = table.get(*part)?.get_ref().as_table()?;
    }
    table.get(*last).map(|value| value.span().start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_by_its_span_and_back() {
        let text = "[a]\nb = 1\n[a.c]\nd = [1, \"x\"]\n";
        let d = text.find("\"x\"").unwrap();
        assert_eq!(toml_path_at(text, &(d..d + 3)), ["a", "c", "d"]);
        let b = text.find("b =").unwrap();
        assert_eq!(toml_path_at(text, &(b..b + 1)), ["a", "b"]);
        assert_eq!(toml_offset(text, &["a", "c", "d"]), text.find("[1,"));
        assert_eq!(toml_offset(text, &["a", "x"]), None);
        let all: std::collections::BTreeMap<_, _> = toml_offsets(text).into_iter().collect();
        assert_eq!(all.get("a.b").copied(), text.find('1'));
        assert_eq!(all.get("a.c.d").copied(), text.find("[1,"));
        assert_eq!(all.get("d"), None);
    }
}
