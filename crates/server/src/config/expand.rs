//! `${VAR}` and `${VAR:-default}` in the strings of an upstream's configuration.

use std::borrow::Cow;

/// Where variables come from: the process's environment, or a table in a test.
pub(crate) type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The process's environment; a variable that is not UTF-8 counts as missing.
pub(crate) fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Why a string could not be expanded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ExpandError {
    #[error("the environment variable {0} is not set; set it, or give a default with ${{{0}:-…}}")]
    Missing(String),
    #[error("\"${{\" without a closing \"}}\"; write \"$${{\" for a literal \"${{\"")]
    Unclosed,
    #[error("{0:?} is not the name of an environment variable; expected letters, digits and _")]
    BadName(String),
    #[error("${{input:{0}}} asks an editor for a value, and there is none here; use ${{VAR}}")]
    Input(String),
}

/// `text` with every `${VAR}`, `${env:VAR}` (as VS Code and Cursor write it) and `${VAR:-default}` replaced.
///
/// The default also stands in for an empty variable, as in a shell; it is taken as it is, up to the first `}`.
/// `$${` gives a literal `${`, and a `$` before anything else means itself.
pub(crate) fn expand<'t>(
    text: &'t str,
    variables: Variables<'_>,
) -> Result<Cow<'t, str>, ExpandError> {
    if !text.contains("${") {
        return Ok(Cow::Borrowed(text));
    }
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, from) = rest.split_at(at);
        if let Some(before) = before.strip_suffix('$') {
            expanded.push_str(before);
            expanded.push_str("${");
            rest = &from[2..];
            continue;
        }
        expanded.push_str(before);
        let (inside, after) = from[2..].split_once('}').ok_or(ExpandError::Unclosed)?;
        expanded.push_str(&value(inside, variables)?);
        rest = after;
    }
    expanded.push_str(rest);
    Ok(Cow::Owned(expanded))
}

fn value(inside: &str, variables: Variables<'_>) -> Result<String, ExpandError> {
    if let Some(input) = inside.strip_prefix("input:") {
        return Err(ExpandError::Input(input.to_owned()));
    }
    let inside = inside.strip_prefix("env:").unwrap_or(inside);
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inside, None),
    };
    let valid = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !valid {
        return Err(ExpandError::BadName(name.to_owned()));
    }
    match (variables(name), default) {
        (Some(value), None) => Ok(value),
        (Some(value), Some(_)) if !value.is_empty() => Ok(value),
        (_, Some(default)) => Ok(default.to_owned()),
        (None, None) => Err(ExpandError::Missing(name.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> String {
        let variables = |name: &str| match name {
            "A" => Some("alpha".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        expand(text, &variables).map_or_else(|error| format!("error: {error}"), Cow::into_owned)
    }

    #[test]
    fn variables_and_defaults() {
        for (text, want) in [
            ("plain $ text $A", "plain $ text $A"),
            ("${A}", "alpha"),
            ("<${A}-${A}>", "<alpha-alpha>"),
            ("${env:A}", "alpha"),
            ("${B:-beta}", "beta"),
            ("${B:-}", ""),
            ("${B:-a:-b}", "a:-b"),
            ("${A:-beta}", "alpha"),
            ("${EMPTY}", ""),
            ("${EMPTY:-filled}", "filled"),
            ("$${A} ${A}", "${A} alpha"),
        ] {
            assert_eq!(expanded(text), want, "{text}");
        }
    }

    #[test]
    fn errors_read_well() {
        for (text, want) in [
            (
                "${B}",
                "error: the environment variable B is not set; set it, or give a default with ${B:-…}",
            ),
            ("a ${A", "error: \"${\" without a closing \"}\"; write \"$${\" for a literal \"${\""),
            (
                "${a b}",
                "error: \"a b\" is not the name of an environment variable; expected letters, digits and _",
            ),
            (
                "${input:key}",
                "error: ${input:key} asks an editor for a value, and there is none here; use ${VAR}",
            ),
        ] {
            assert_eq!(expanded(text), want, "{text}");
        }
    }
}
