//! Templates with variables: `${name}` or `{{name}}`.

use std::collections::{BTreeMap, BTreeSet};

/// A text with variables.
///
/// A name has letters, digits, `_`, `-` and `.`, and begins with a letter. Anything else in braces
/// is plain text, and so are the tokens `${image.…}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Value(String),
}

const FORMS: [(&str, &str); 2] = [("${", "}"), ("{{", "}}")];
/// Maximum length of a name, in bytes.
const MAX_NAME_BYTES: usize = 64;

impl Template {
    pub(crate) fn parse(text: &str) -> Self {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['$', '{']) {
            let (before, from) = rest.split_at(at);
            plain.push_str(before);
            if let Some((name, after)) = FORMS.iter().find_map(|form| read(from, *form)) {
                if !plain.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut plain)));
                }
                parts.push(Part::Value(name.to_owned()));
                rest = after;
            } else {
                plain.push_str(&from[..1]);
                rest = &from[1..];
            }
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Self(parts)
    }

    /// Returns the names of its variables, in the order of their first use.
    pub(crate) fn names(&self) -> Vec<&str> {
        let mut seen = BTreeSet::new();
        let names = self.0.iter().filter_map(|part| match part {
            Part::Value(name) => Some(name.as_str()),
            Part::Text(_) => None,
        });
        names.filter(|name| seen.insert(*name)).collect()
    }

    /// Replaces the variables. Values are not parsed as templates.
    ///
    /// # Errors
    ///
    /// Returns the names of variables without a value.
    pub(crate) fn fill(&self, values: &BTreeMap<String, String>) -> Result<String, Vec<String>> {
        let missing: Vec<String> = self
            .names()
            .into_iter()
            .filter(|name| !values.contains_key(*name))
            .map(str::to_owned)
            .collect();
        if !missing.is_empty() {
            return Err(missing);
        }
        let text = self.0.iter().map(|part| match part {
            Part::Text(text) => text.as_str(),
            Part::Value(name) => values.get(name).map_or("", String::as_str),
        });
        Ok(text.collect())
    }
}

/// Parses a variable at the start of a text; returns its name and the rest.
fn read<'a>(text: &'a str, (opening, closing): (&str, &str)) -> Option<(&'a str, &'a str)> {
    let inside = text.strip_prefix(opening)?;
    let near = &inside[..inside.floor_char_boundary(MAX_NAME_BYTES + 2 + closing.len())];
    let end = near.find(closing)?;
    let name = near[..end].trim();
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.len() <= MAX_NAME_BYTES
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
        && !name.starts_with("image.");
    is_name.then_some((name, &inside[end + closing.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(template: &str, values: &[(&str, &str)], want: Result<&str, &[&str]>) {
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let filled = Template::parse(template).fill(&values.collect());
        let want = want.map(str::to_owned);
        assert_eq!(
            filled,
            want.map_err(|names| names.iter().map(|name| (*name).to_owned()).collect())
        );
    }

    #[test]
    fn values_take_their_places() {
        let values = [("name", "Ada"), ("user.firstName", "Bob")];
        check("I am ${name}, you are {{ user.firstName }}.", &values, Ok("I am Ada, you are Bob."));
        check("${name}{{name}}", &values, Ok("AdaAda"));
        check("no places", &[], Ok("no places"));
        check("", &[], Ok(""));
    }

    #[test]
    fn values_are_not_expanded_as_templates() {
        check("${a}${b}", &[("a", "${b}"), ("b", "{{a}}")], Ok("${b}{{a}}"));
    }

    #[test]
    fn missing_values_are_named_once() {
        check("${a} {{b}} ${a} ${c}", &[("b", "x")], Err(&["a", "c"]));
    }

    #[test]
    fn anything_else_is_text() {
        for text in [
            "${",
            "${}",
            "${1a}",
            "{{",
            "{{a b}}",
            "{a}",
            "$a",
            "${image.abc.portrait}",
            "${a",
            "{{a}",
            "$${",
            "{ \"json\": {\"a\": {}} }",
            "${\u{e9}}",
            "{{\u{1f600}",
        ] {
            check(text, &[], Ok(text));
        }
        check(&format!("${{{}}}", "a".repeat(65)), &[], Ok(&format!("${{{}}}", "a".repeat(65))));
        check("$${a}", &[("a", "x")], Ok("$x"));
    }
}
