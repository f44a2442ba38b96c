//! Exposed names of an upstream's tools and prompts.

/// Longest tool name (MCP 2025-11-25, "Tool Names").
pub(crate) const MAX_NAME_CHARS: usize = 128;

/// Adds the prefix of an upstream to names.
#[derive(Clone, Debug)]
pub struct Namer {
    /// Prefix and separator. Empty leaves names unchanged.
    head: String,
}

/// Returns whether a tool name may contain a character (MCP 2025-11-25, "Tool Names").
#[must_use]
pub fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}

/// Why a name cannot be offered to clients.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// With its prefix, the name is longer than tool names may be.
    #[error("name would be {chars} characters long with its prefix, more than {MAX_NAME_CHARS}")]
    TooLong {
        /// Length with the prefix.
        chars: usize,
    },
    /// The name contains a character that tool names may not contain.
    #[error("name has the character {0:?}; tool names have letters, digits, _ - .")]
    Character(char),
    /// The name is empty.
    #[error("name is empty")]
    Empty,
    /// The named owner already offers it.
    #[error("name is already taken by {0}")]
    Taken(String),
    /// The URI has a scheme of the gateway's own resources.
    #[error("the URI schemes artifact: and am7: are reserved for resources of this server")]
    ReservedScheme,
}

impl Namer {
    /// Longest prefix in characters, half of what a tool name may have.
    pub const MAX_PREFIX_CHARS: usize = 64;

    /// Creates the namer of the upstream `server`. Without a `prefix`, the upstream's name is the
    /// prefix.
    #[must_use]
    pub fn new(server: &str, prefix: Option<&str>, separator: &str) -> Self {
        let prefix = match prefix {
            Some(prefix) => prefix.to_owned(),
            // A server's name is free text in mcp.json.
            None => server
                .chars()
                .map(|c| if is_name_char(c) { c } else { '_' })
                .take(Self::MAX_PREFIX_CHARS)
                .collect(),
        };
        if prefix.is_empty() {
            return Self { head: String::new() };
        }
        Self { head: prefix + separator }
    }

    /// Returns the exposed name of a tool.
    pub(crate) fn tool(&self, name: &str) -> Result<String, NameError> {
        if let Some(c) = name.chars().find(|c| !is_name_char(*c)) {
            return Err(NameError::Character(c));
        }
        self.prompt(name)
    }

    /// Returns the exposed name of a prompt, which may contain any characters.
    pub(crate) fn prompt(&self, name: &str) -> Result<String, NameError> {
        if name.is_empty() {
            return Err(NameError::Empty);
        }
        let chars = self.head.len() + name.chars().count();
        if chars > MAX_NAME_CHARS {
            return Err(NameError::TooLong { chars });
        }
        Ok(format!("{}{name}", self.head))
    }

    /// Returns the prefix with its separator.
    #[must_use]
    pub fn head(&self) -> &str {
        &self.head
    }

    /// Returns the length of the prefix with its separator.
    pub(crate) fn head_chars(&self) -> usize {
        self.head.len()
    }

    /// Returns whether an exposed name has the prefix of this upstream.
    pub(crate) fn owns(&self, exposed: &str) -> bool {
        !self.head.is_empty() && exposed.starts_with(&self.head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_prefixed() {
        for (server, prefix, separator, want) in [
            ("fs", None, "__", "fs__read"),
            ("my server/1", None, "__", "my_server_1__read"),
            ("fs", Some("f"), "__", "f__read"),
            ("fs", Some(""), "__", "read"),
            ("fs", None, ".", "fs.read"),
        ] {
            assert_eq!(Namer::new(server, prefix, separator).tool("read").as_deref(), Ok(want));
        }
    }

    #[test]
    fn names_that_clients_would_refuse_are_refused() {
        let namer = Namer::new("fs", None, "__");
        assert_eq!(namer.tool(&"a".repeat(124)).unwrap().len(), 128);
        assert_eq!(namer.tool(&"a".repeat(125)), Err(NameError::TooLong { chars: 129 }));
        assert_eq!(namer.tool("a b"), Err(NameError::Character(' ')));
        assert_eq!(namer.tool("é"), Err(NameError::Character('é')));
        assert_eq!(namer.tool(""), Err(NameError::Empty));
        assert_eq!(namer.prompt("a b").as_deref(), Ok("fs__a b"));
    }
}
