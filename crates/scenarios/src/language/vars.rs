//! Captures: values saved by one step and used by later ones as `${name}`.

use std::collections::BTreeMap;

use serde_json::Value;

/// The values saved so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Vars(BTreeMap<String, Value>);

/// Error for a `${name}` without a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no step has saved `{0}`")]
pub(crate) struct UnknownVar(pub(crate) String);

impl Vars {
    /// Saves a value under a name. Replaces an earlier value.
    pub(crate) fn set(&mut self, name: impl Into<String>, value: Value) {
        self.0.insert(name.into(), value);
    }

    /// Replaces the captures in a string. A string that is exactly one `${name}` becomes the saved
    /// value itself, of any type; otherwise the value is written into the text.
    pub(crate) fn value(&self, template: &str) -> Result<Value, UnknownVar> {
        if let [Piece::Var(name)] = pieces(template)[..] {
            return self.get(name).cloned();
        }
        self.text(template).map(Value::String)
    }

    /// Replaces the captures in a string whose result must be a string, such as a URL.
    pub(crate) fn text(&self, template: &str) -> Result<String, UnknownVar> {
        self.text_with(template, |value| value)
    }

    /// Replaces captures as [`Self::text`] does, and changes each value, for example to escape it
    /// for a regular expression.
    pub(crate) fn text_with(
        &self,
        template: &str,
        change: impl Fn(String) -> String,
    ) -> Result<String, UnknownVar> {
        pieces(template)
            .into_iter()
            .map(|piece| match piece {
                Piece::Text(text) => Ok(text.to_owned()),
                Piece::Var(name) => Ok(change(match self.get(name)? {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                })),
            })
            .collect()
    }

    fn get(&self, name: &str) -> Result<&Value, UnknownVar> {
        self.0.get(name).ok_or_else(|| UnknownVar(name.to_owned()))
    }
}

/// Returns the names that a string uses.
pub(crate) fn names(template: &str) -> impl Iterator<Item = &str> {
    pieces(template).into_iter().filter_map(|piece| match piece {
        Piece::Var(name) => Some(name),
        Piece::Text(_) => None,
    })
}

/// Returns whether a value may be saved under `name`.
pub(crate) fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

enum Piece<'a> {
    Text(&'a str),
    Var(&'a str),
}

/// Splits a string into text and names. `$${` stands for a literal `${`; a `${` that starts no name
/// is text.
fn pieces(template: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = template;
    let mut from = 0;
    while let Some(at) = rest[from..].find("${").map(|at| from + at) {
        if rest[..at].ends_with('$') {
            pieces.push(Piece::Text(&rest[..at - 1]));
            rest = &rest[at..];
            from = 2;
            continue;
        }
        let name =
            rest[at + 2..].split_once('}').map(|(name, _)| name).filter(|name| is_name(name));
        let Some(name) = name else {
            from = at + 2;
            continue;
        };
        if at > 0 {
            pieces.push(Piece::Text(&rest[..at]));
        }
        pieces.push(Piece::Var(name));
        rest = &rest[at + 2 + name.len() + 1..];
        from = 0;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest));
    }
    pieces
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn vars() -> Vars {
        let mut vars = Vars::default();
        vars.set("url", json!("http://x"));
        vars.set("n", json!(7));
        vars
    }

    #[test]
    fn strings_are_filled_in() {
        for (template, want) in [
            ("plain", json!("plain")),
            ("", json!("")),
            ("${url}", json!("http://x")),
            ("${n}", json!(7)),
            ("${n}/${url}!", json!("7/http://x!")),
            ("$${n}", json!("${n}")),
            ("a $${n} ${n}", json!("a ${n} 7")),
            ("${", json!("${")),
            ("${not a name}", json!("${not a name}")),
            ("€${n}€", json!("€7€")),
        ] {
            assert_eq!(vars().value(template).unwrap(), want, "{template}");
        }
    }

    #[test]
    fn an_unknown_name_is_an_error() {
        assert_eq!(vars().value("${other}").unwrap_err().to_string(), "no step has saved `other`");
    }

    #[test]
    fn names_are_found() {
        assert_eq!(names("a ${b} $${c} ${d}").collect::<Vec<_>>(), ["b", "d"]);
    }
}
