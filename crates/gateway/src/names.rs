//! Exposed names of an upstream's tools and prompts.

use marquetry_tool_overrides::RequiredArgument;

/// Longest name of a prompt.
pub(crate) const MAX_NAME_CHARS: usize = 128;

/// Longest tool name. MCP allows 128 characters (2025-11-25, "Tool Names"), but the APIs of models
/// refuse a request that has a tool with a name of more than 64.
pub(crate) const MAX_TOOL_CHARS: usize = 64;

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
    /// With its prefix, the name is longer than names may be.
    #[error("name would be {chars} characters long with its prefix, more than {MAX_NAME_CHARS}")]
    TooLong {
        /// Length with the prefix.
        chars: usize,
    },
    /// The name is empty.
    #[error("name is empty")]
    Empty,
    /// The named owner already offers it.
    #[error("name is already taken by {0}")]
    Taken(String),
    /// An override hides an argument that the tool requires.
    #[error("{0}")]
    HiddenRequired(RequiredArgument),
    /// The URI has a scheme of the gateway's own resources.
    #[error("the URI schemes artifact: and am7: are reserved for resources of this server")]
    ReservedScheme,
}

impl Namer {
    /// Longest prefix in characters.
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

    /// Returns the exposed name of a tool. A name that clients or models would refuse is repaired:
    /// each other character becomes `_`, and a hash of the name replaces what is too long.
    pub(crate) fn tool(&self, name: &str) -> Result<String, NameError> {
        if name.is_empty() {
            return Err(NameError::Empty);
        }
        let exposed = self.with_valid_chars(name);
        Ok(if exposed.len() > MAX_TOOL_CHARS { self.hashed_tool(name) } else { exposed })
    }

    /// Returns the exposed name of a tool, with a hash of its name: for names that differ only in
    /// the characters that [`Self::tool`] replaces.
    pub(crate) fn hashed_tool(&self, name: &str) -> String {
        const HASH_CHARS: usize = 9;
        let mut exposed = self.with_valid_chars(name);
        exposed.truncate(MAX_TOOL_CHARS - HASH_CHARS);
        format!("{exposed}_{:08x}", fnv1a(name))
    }

    /// Returns whether the exposed name of a tool is its name with the prefix.
    pub(crate) fn is_plain(&self, exposed: &str, name: &str) -> bool {
        exposed.strip_prefix(&self.head) == Some(name)
    }

    fn with_valid_chars(&self, name: &str) -> String {
        let valid = name.chars().map(|c| if is_name_char(c) { c } else { '_' });
        self.head.chars().chain(valid).collect()
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

/// Returns the FNV-1a hash of a text, which is the same in every version of this program: clients
/// store the names of tools.
fn fnv1a(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
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
    fn names_that_clients_would_refuse_are_repaired() {
        let namer = Namer::new("fs", None, "__");
        for (name, want) in [
            ("Create Share", "fs__Create_Share"),
            ("files/read:all", "fs__files_read_all"),
            ("é", "fs___"),
            (&"a".repeat(60), &format!("fs__{}", "a".repeat(60))),
            (&"a".repeat(61), &format!("fs__{}_6a9de350", "a".repeat(51))),
        ] {
            assert_eq!(namer.tool(name).as_deref(), Ok(want));
            assert!(want.len() <= MAX_TOOL_CHARS);
        }
        let long = Namer::new(&"s".repeat(64), None, "__");
        assert_ne!(long.tool("a").unwrap(), long.tool("b").unwrap());
        assert_eq!(long.tool("a").unwrap().len(), MAX_TOOL_CHARS);
        assert_ne!(namer.hashed_tool("a b"), namer.hashed_tool("a/b"));
        assert_eq!(namer.tool(""), Err(NameError::Empty));
        assert_eq!(namer.prompt("a b").as_deref(), Ok("fs__a b"));
        assert_eq!(namer.prompt(&"a".repeat(125)), Err(NameError::TooLong { chars: 129 }));
    }
}
