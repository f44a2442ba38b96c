//! References to secrets, as settings write them.

use std::fmt;

/// A place of a secret: the text between `${` and `}`.
///
/// ```
/// use marquetry_secrets::Reference;
///
/// let reference = Reference::parse("command:pass show 'my token'").unwrap()?;
/// assert_eq!(
///     reference,
///     Reference::Command(["pass", "show", "my token"].map(str::to_owned).to_vec())
/// );
/// assert!(Reference::parse("HOME").is_none());
/// # Ok::<(), marquetry_secrets::ReferenceError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reference {
    /// A file, by its path.
    File(String),
    /// A password of a keyring.
    Keyring {
        /// The service that the password is for.
        service: String,
        /// The name of the account.
        name: String,
    },
    /// A program with its arguments; never empty.
    Command(Vec<String>),
}

/// Why a text is not a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReferenceError {
    /// `file:` without a path.
    #[error("has no path; expected ${{file:PATH}}")]
    NoPath,
    /// `keyring:` without a service or a name.
    #[error("has no service or no name; expected ${{keyring:SERVICE/NAME}}")]
    NoName,
    /// `command:` without a program.
    #[error("has no program; expected ${{command:PROGRAM ARG…}}")]
    NoProgram,
    /// A quote of a command is not closed.
    #[error("has a quote that is not closed")]
    OpenQuote,
}

impl Reference {
    /// Parses the text between `${` and `}`. `None` if it begins with no kind of secret, such as
    /// the name of a variable.
    ///
    /// # Errors
    ///
    /// Returns an error if a part is missing.
    pub fn parse(inside: &str) -> Option<Result<Self, ReferenceError>> {
        let (kind, rest) = inside.split_once(':')?;
        match kind {
            "file" if rest.trim().is_empty() => Some(Err(ReferenceError::NoPath)),
            "file" => Some(Ok(Self::File(rest.to_owned()))),
            // A name may have slashes, as in the path of a server.
            "keyring" => Some(match rest.split_once('/') {
                Some((service, name)) if !service.is_empty() && !name.is_empty() => {
                    Ok(Self::Keyring { service: service.to_owned(), name: name.to_owned() })
                }
                _ => Err(ReferenceError::NoName),
            }),
            "command" => Some(words(rest).map(Self::Command)),
            _ => None,
        }
    }
}

/// Writes the kind and the place, without the arguments of a program.
impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "${{file:{path}}}"),
            Self::Keyring { service, name } => write!(f, "${{keyring:{service}/{name}}}"),
            Self::Command(words) if words.len() == 1 => write!(f, "${{command:{}}}", words[0]),
            // An argument may be secret, such as a PIN.
            Self::Command(words) => write!(f, "${{command:{} …}}", words[0]),
        }
    }
}

/// Splits a command into words. Quotes hold a word with white space together; there is no other
/// syntax of a shell.
fn words(text: &str) -> Result<Vec<String>, ReferenceError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in text.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => word.get_or_insert_default().push(c),
            None if c == '\'' || c == '"' => {
                quote = Some(c);
                // An empty pair of quotes is a word.
                word.get_or_insert_default();
            }
            None if c.is_whitespace() => words.extend(word.take()),
            None => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err(ReferenceError::OpenQuote);
    }
    words.extend(word);
    match words.first() {
        Some(program) if !program.is_empty() => Ok(words),
        _ => Err(ReferenceError::NoProgram),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn references_are_parsed_and_shown_without_arguments() {
        for (text, want) in [
            ("file:/run/secrets/a b", "${file:/run/secrets/a b}"),
            ("keyring:github/me", "${keyring:github/me}"),
            ("keyring:https://h/me", "${keyring:https://h/me}"),
            ("command:op", "${command:op}"),
            ("command:  op read 'op://a b/c' ", "${command:op …}"),
            ("file:", "error: has no path; expected ${file:PATH}"),
            (
                "keyring:github",
                "error: has no service or no name; expected ${keyring:SERVICE/NAME}",
            ),
            ("keyring:/me", "error: has no service or no name; expected ${keyring:SERVICE/NAME}"),
            ("command: ", "error: has no program; expected ${command:PROGRAM ARG…}"),
            ("command:'' a", "error: has no program; expected ${command:PROGRAM ARG…}"),
            ("command:a 'b", "error: has a quote that is not closed"),
        ] {
            let shown = match Reference::parse(text).unwrap() {
                Ok(reference) => reference.to_string(),
                Err(error) => format!("error: {error}"),
            };
            assert_eq!(shown, want, "{text}");
        }
        for text in ["A", "env:A", "input:id", "A:-file:x", "", "files:x"] {
            assert_eq!(Reference::parse(text), None, "{text}");
        }
    }

    #[test]
    fn words_have_quotes_and_nothing_else_of_a_shell() {
        let found = words(r#"a "b c"'d' '' $HOME `e` ; f|g \n"#).unwrap();
        assert_eq!(found, ["a", "b cd", "", "$HOME", "`e`", ";", "f|g", "\\n"]);
    }

    proptest! {
        #[test]
        fn quoted_words_come_back(all in prop::collection::vec("[^']{0,8}", 1..5)) {
            prop_assume!(!all[0].is_empty());
            let text = all.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
            prop_assert_eq!(words(&text).unwrap(), all);
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,40}") {
            if let Some(Ok(reference)) = Reference::parse(&text) {
                let shown = reference.to_string();
                prop_assert!(shown.starts_with('$'), "{}", shown);
            }
        }
    }
}
