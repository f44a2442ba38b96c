//! What an upstream's tools and prompts are called here.

use crate::config::{Prefix, Separator, UpstreamConfig, is_name_char};

/// Longest tool name (MCP 2025-11-25, "Tool Names").
pub(crate) const MAX_NAME_CHARS: usize = 128;

/// Puts one upstream's prefix before names.
#[derive(Clone, Debug)]
pub(crate) struct Namer {
    /// Prefix and separator; empty when names stay as they are.
    head: String,
}

/// Why a name cannot be offered to clients.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NameError {
    #[error("name would be {chars} characters long with its prefix, more than {MAX_NAME_CHARS}")]
    TooLong { chars: usize },
    #[error("name has the character {0:?}; tool names have letters, digits, _ - .")]
    Character(char),
    #[error("name is empty")]
    Empty,
    #[error("name is already taken by {0}")]
    Taken(String),
}

impl Namer {
    /// The namer of the upstream `server`, whose own name serves as the prefix unless one is set.
    pub(crate) fn new(server: &str, upstream: &UpstreamConfig, separator: &Separator) -> Self {
        let prefix = match &upstream.prefix {
            Some(prefix) => prefix.as_str().to_owned(),
            // A server's name is free text in mcp.json.
            None => server
                .chars()
                .map(|c| if is_name_char(c) { c } else { '_' })
                .take(Prefix::MAX_CHARS)
                .collect(),
        };
        if prefix.is_empty() {
            return Self { head: String::new() };
        }
        Self { head: prefix + separator.as_str() }
    }

    /// The tool name that clients see.
    pub(crate) fn tool(&self, name: &str) -> Result<String, NameError> {
        if let Some(c) = name.chars().find(|c| !is_name_char(*c)) {
            return Err(NameError::Character(c));
        }
        self.prompt(name)
    }

    /// The prompt name that clients see; prompts' names may have any characters.
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

    /// What it puts before names.
    pub(crate) fn head(&self) -> &str {
        &self.head
    }

    /// The length of what it puts before names.
    pub(crate) fn head_chars(&self) -> usize {
        self.head.len()
    }

    /// Whether a name that clients see would belong to this upstream.
    pub(crate) fn owns(&self, exposed: &str) -> bool {
        !self.head.is_empty() && exposed.starts_with(&self.head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn namer(toml: &str) -> Namer {
        let config = Config::from_toml(toml, "test").unwrap();
        let (name, upstream) = config.mcp_servers.first().unwrap();
        Namer::new(name, upstream, &config.gateway.separator)
    }

    #[test]
    fn names_are_prefixed() {
        for (toml, want) in [
            ("mcp_servers.fs.command = 'x'", "fs__read"),
            ("mcp_servers.'my server/1'.command = 'x'", "my_server_1__read"),
            ("mcp_servers.fs = { command = 'x', prefix = 'f' }", "f__read"),
            ("mcp_servers.fs = { command = 'x', prefix = '' }", "read"),
            ("gateway.separator = '.'\nmcp_servers.fs.command = 'x'", "fs.read"),
        ] {
            assert_eq!(namer(toml).tool("read").as_deref(), Ok(want), "{toml}");
        }
    }

    #[test]
    fn names_that_clients_would_refuse_are_refused() {
        let namer = namer("mcp_servers.fs.command = 'x'");
        assert_eq!(namer.tool(&"a".repeat(124)).unwrap().len(), 128);
        assert_eq!(namer.tool(&"a".repeat(125)), Err(NameError::TooLong { chars: 129 }));
        assert_eq!(namer.tool("a b"), Err(NameError::Character(' ')));
        assert_eq!(namer.tool("é"), Err(NameError::Character('é')));
        assert_eq!(namer.tool(""), Err(NameError::Empty));
        assert_eq!(namer.prompt("a b").as_deref(), Ok("fs__a b"));
    }
}
