//! Expands `${VAR}`, `${file:PATH}` and similar references in the strings of a configuration.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
};

use crate::{Reference, SecretError, SecretProblem, Secrets};

/// Looks up variables: in the environment of a process, or in a table.
pub type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Why a string could not be expanded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExpandError {
    /// The variable is not set.
    #[error("the environment variable {0} is not set; set it, or give a default with ${{{0}:-…}}")]
    Missing(String),
    /// An `${input:ID}` that an editor would ask for has no value.
    #[error(
        "${{input:{id}}} has no value: set the environment variable {variable}, or start \"marquetry serve\" in a terminal to be asked"
    )]
    Input {
        /// The id.
        id: String,
        /// The environment variable that would hold it.
        variable: String,
    },
    /// The variable is defined only in an editor.
    #[error("${{{0}}} is defined only in an editor; write the value, or use ${{VAR}}")]
    Editor(String),
    /// A secret could not be read, or is not allowed in this place.
    #[error(transparent)]
    Secret(SecretError),
    /// `${` has no closing brace.
    #[error("\"${{\" without a closing \"}}\"; write \"$${{\" for a literal \"${{\"")]
    Unclosed,
    /// The name is not a valid name of an environment variable.
    #[error("{0:?} is not the name of an environment variable; expected letters, digits and _")]
    BadName(String),
}

impl ExpandError {
    /// Returns whether the text is well-formed, and a value is missing on this machine.
    #[must_use]
    pub fn is_missing_value(&self) -> bool {
        matches!(self, Self::Missing(_) | Self::Input { .. } | Self::Editor(_) | Self::Secret(_))
    }
}

/// Returns the value of `${workspaceFolder}` in a file: the folder of the file, or the folder above
/// if that is `.vscode`, `.cursor` or the like.
#[must_use]
pub fn workspace_of(file: &Path) -> PathBuf {
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let folder = file.parent().unwrap_or(&file);
    let is_dotted =
        folder.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    folder.parent().filter(|_| is_dotted).unwrap_or(folder).to_owned()
}

/// Returns the name of the environment variable with the value of `${input:ID}`.
#[must_use]
pub fn input_variable(id: &str) -> String {
    let name: String = id
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' })
        .collect();
    format!("INPUT_{name}")
}

/// Where the values of references come from.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    variables: Variables<'a>,
    secrets: Result<&'a Secrets, &'static str>,
    /// A reference that is not replaced.
    kept: Option<&'static str>,
}

impl<'a> Sources<'a> {
    /// Creates sources that have variables and no secrets.
    #[must_use]
    pub fn new(variables: Variables<'a>) -> Self {
        let secrets = Err("secrets are not read for this setting");
        Self { variables, secrets, kept: None }
    }

    /// Adds a reader of secrets.
    #[must_use]
    pub fn with_secrets(self, secrets: &'a Secrets) -> Self {
        Self { secrets: Ok(secrets), ..self }
    }

    /// Refuses secrets for the reason `why`, which continues "cannot be used here: ".
    #[must_use]
    pub fn without_secrets(self, why: &'static str) -> Self {
        Self { secrets: Err(why), ..self }
    }

    /// Leaves `${reference}` as it is: its value is known only later.
    #[must_use]
    pub fn keeping(self, reference: &'static str) -> Self {
        Self { kept: Some(reference), ..self }
    }

    /// Replaces the lookup of variables.
    #[must_use]
    pub fn with_variables<'b>(self, variables: Variables<'b>) -> Sources<'b>
    where
        'a: 'b,
    {
        Sources { variables, secrets: self.secrets, kept: self.kept }
    }

    /// Returns the lookup of variables.
    pub fn variables(&self) -> Variables<'a> {
        self.variables
    }

    /// Replaces every reference to a secret (see the [crate's documentation](crate)), every
    /// `${VAR}`, `${env:VAR}` (the form of VS Code and Cursor) and `${VAR:-default}` in `text`, and
    /// the variables of editors: `${input:ID}`, `${userHome}`, `${pathSeparator}`. The lookup of
    /// variables may define further names.
    ///
    /// The default also replaces an empty variable, as in a shell. It is used literally, up to the
    /// first `}`. `$${` becomes a literal `${`, and a `$` before any other character stays as it
    /// is. A value is not expanded again.
    ///
    /// # Errors
    ///
    /// Returns an error if a variable or a secret has no value, or if it is written wrongly.
    pub fn expand<'t>(&self, text: &'t str) -> Result<Cow<'t, str>, ExpandError> {
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
            expanded.push_str(&self.value(inside)?);
            rest = after;
        }
        expanded.push_str(rest);
        Ok(Cow::Owned(expanded))
    }

    fn value(&self, inside: &str) -> Result<String, ExpandError> {
        if self.kept == Some(inside) {
            return Ok(format!("${{{inside}}}"));
        }
        let secret = match self.secrets {
            Ok(secrets) => secrets.resolve(inside),
            Err(why) => Reference::parse(inside).map(|reference| {
                let shown =
                    reference.map_or_else(|_| format!("${{{inside}}}"), |it| it.to_string());
                Err(SecretError { reference: shown, problem: SecretProblem::NotHere(why) })
            }),
        };
        match secret {
            Some(value) => value.map_err(ExpandError::Secret),
            None => variable_value(inside, self.variables),
        }
    }
}

/// Replaces the references in `text` as [`Sources::expand`] does, without secrets.
///
/// # Errors
///
/// Returns an error if a variable has no value, if it is written wrongly, or if the text refers to
/// a secret.
pub fn expand<'t>(text: &'t str, variables: Variables<'_>) -> Result<Cow<'t, str>, ExpandError> {
    Sources::new(variables).expand(text)
}

fn variable_value(inside: &str, variables: Variables<'_>) -> Result<String, ExpandError> {
    if let Some(id) = inside.strip_prefix("input:") {
        let variable = input_variable(id);
        let value = variables(&variable).or_else(|| variables(inside));
        return value.ok_or_else(|| ExpandError::Input { id: id.to_owned(), variable });
    }
    match inside {
        "/" | "pathSeparator" => return Ok(std::path::MAIN_SEPARATOR.to_string()),
        "userHome" => {
            let home = ["HOME", "USERPROFILE"].into_iter().find_map(variables);
            return home.ok_or_else(|| ExpandError::Missing("HOME".to_owned()));
        }
        _ if inside.starts_with("config:") => {
            return Err(ExpandError::Editor(inside.to_owned()));
        }
        _ => {}
    }
    // `${workspaceFolder:NAME}` selects one of several folders; here there is only one.
    let selected = if inside.starts_with("workspaceFolder:") { "workspaceFolder" } else { inside };
    let reference = selected.strip_prefix("env:").unwrap_or(selected);
    let (name, default) = match reference.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (reference, None),
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
        expand(text, &variable).map_or_else(|error| format!("error: {error}"), Cow::into_owned)
    }

    fn variable(name: &str) -> Option<String> {
        let value = match name {
            "A" => "alpha",
            "EMPTY" => "",
            "HOME" => "/home/me",
            "INPUT_GITHUB_TOKEN" => "from the environment",
            "input:github-token" | "input:other" => "asked for",
            _ => return None,
        };
        Some(value.to_owned())
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
            ("${userHome}${/}x${pathSeparator}", "/home/me/x/"),
            ("${input:github-token}", "from the environment"),
            ("${input:other}", "asked for"),
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
                "error: ${input:key} has no value: set the environment variable INPUT_KEY, or start \"marquetry serve\" in a terminal to be asked",
            ),
            (
                "${config:pick}",
                "error: ${config:pick} is defined only in an editor; write the value, or use ${VAR}",
            ),
            (
                "${file:/a}",
                "error: ${file:/a} cannot be used here: secrets are not read for this setting",
            ),
        ] {
            assert_eq!(expanded(text), want, "{text}");
        }
    }

    #[test]
    fn secrets_are_read_beside_variables() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("key"), "${A}\n").unwrap();
        let secrets = Secrets::new().with_folder(folder.path());
        let sources = Sources::new(&variable).with_secrets(&secrets);
        let text = "${A} ${file:key} $${file:key}";
        assert_eq!(sources.expand(text).unwrap(), "alpha ${A} ${file:key}");
        let error = sources.expand("${file:}").unwrap_err();
        assert_eq!(error.to_string(), "${file:} has no path; expected ${file:PATH}");
        assert!(error.is_missing_value());
    }

    #[test]
    fn one_reference_is_kept() {
        let sources = Sources::new(&variable).keeping("instance:id");
        assert_eq!(sources.expand("${A}-${instance:id}").unwrap(), "alpha-${instance:id}");
        assert!(sources.expand("${instance:name}").is_err());
        assert!(expand("${instance:id}", &variable).is_err());
    }

    #[test]
    fn the_workspace_is_where_the_file_lies_or_above_a_dotted_folder() {
        for (file, want) in [
            ("/w/mcp.json", "/w"),
            ("/w/.mcp.json", "/w"),
            ("/w/.vscode/mcp.json", "/w"),
            ("/home/me/.cursor/mcp.json", "/home/me"),
        ] {
            assert_eq!(workspace_of(Path::new(file)), Path::new(want), "{file}");
        }
    }
}
