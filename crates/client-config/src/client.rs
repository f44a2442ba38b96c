//! The clients, and the form in which each writes a server.

use std::fmt;

use marquetry_nearest::nearest;
use serde_json::{Value, json};

use crate::edit::{Section, Syntax};

/// An MCP client whose configuration is edited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Client {
    /// Claude Code.
    ClaudeCode,
    /// Claude Desktop.
    ClaudeDesktop,
    /// Cline.
    Cline,
    /// Codex.
    Codex,
    /// Cursor.
    Cursor,
    /// Gemini CLI.
    Gemini,
    /// Goose.
    Goose,
    /// LibreChat.
    LibreChat,
    /// opencode.
    OpenCode,
    /// Visual Studio Code.
    VsCode,
    /// Windsurf.
    Windsurf,
    /// Zed.
    Zed,
}

/// How a client reaches a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Launch {
    /// The client starts a program.
    Stdio {
        /// The program.
        program: String,
        /// Its arguments.
        args: Vec<String>,
    },
    /// The client connects to a URL of Streamable HTTP.
    Http {
        /// The endpoint.
        url: String,
    },
}

/// The section of an `mcp.json`.
pub const MCP_JSON: Section = Section { syntax: Syntax::Json, key: "mcpServers" };

impl Client {
    /// All clients, by name.
    pub const ALL: [Self; 12] = [
        Self::ClaudeCode,
        Self::ClaudeDesktop,
        Self::Cline,
        Self::Codex,
        Self::Cursor,
        Self::Gemini,
        Self::Goose,
        Self::LibreChat,
        Self::OpenCode,
        Self::VsCode,
        Self::Windsurf,
        Self::Zed,
    ];

    /// Returns the name on a command line, such as `claude-code`.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::ClaudeDesktop => "claude-desktop",
            Self::Cline => "cline",
            Self::Codex => "codex",
            Self::Cursor => "cursor",
            Self::Gemini => "gemini",
            Self::Goose => "goose",
            Self::LibreChat => "librechat",
            Self::OpenCode => "opencode",
            Self::VsCode => "vscode",
            Self::Windsurf => "windsurf",
            Self::Zed => "zed",
        }
    }

    /// Returns the name for people, such as `Claude Code`.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::ClaudeDesktop => "Claude Desktop",
            Self::Cline => "Cline",
            Self::Codex => "Codex",
            Self::Cursor => "Cursor",
            Self::Gemini => "Gemini CLI",
            Self::Goose => "Goose",
            Self::LibreChat => "LibreChat",
            Self::OpenCode => "opencode",
            Self::VsCode => "VS Code",
            Self::Windsurf => "Windsurf",
            Self::Zed => "Zed",
        }
    }

    /// Parses a name of the command line.
    ///
    /// # Errors
    ///
    /// Returns an error, with the name that was probably meant, if no client has this name.
    pub fn parse(name: &str) -> Result<Self, UnknownClient> {
        Self::ALL.into_iter().find(|client| client.id() == name).ok_or_else(|| {
            let ids = Self::ALL.map(Self::id);
            UnknownClient { name: name.to_owned(), near: nearest(name, &ids).map(str::to_owned) }
        })
    }

    /// Returns the place of the servers in the client's file.
    #[must_use]
    pub fn section(self) -> Section {
        let (syntax, key) = match self {
            Self::VsCode => (Syntax::Json, "servers"),
            Self::Zed => (Syntax::Json, "context_servers"),
            Self::OpenCode => (Syntax::Json, "mcp"),
            Self::Codex => (Syntax::Toml, "mcp_servers"),
            Self::Goose => (Syntax::Yaml, "extensions"),
            Self::LibreChat => (Syntax::Yaml, "mcpServers"),
            Self::ClaudeCode
            | Self::ClaudeDesktop
            | Self::Cline
            | Self::Cursor
            | Self::Gemini
            | Self::Windsurf => (Syntax::Json, "mcpServers"),
        };
        Section { syntax, key }
    }

    /// Returns the entry of a server as the client writes it; [`None`] if the client cannot reach a
    /// server in this way.
    #[must_use]
    pub fn entry(self, name: &str, launch: &Launch) -> Option<Value> {
        Some(match (self, launch) {
            // Its file holds programs alone; remote servers are connectors of the account.
            (Self::ClaudeDesktop, Launch::Http { .. }) => return None,
            (Self::ClaudeCode | Self::VsCode, Launch::Stdio { program, args }) => {
                json!({"type": "stdio", "command": program, "args": args})
            }
            (Self::ClaudeCode | Self::VsCode, Launch::Http { url }) => {
                json!({"type": "http", "url": url})
            }
            // `httpUrl` is deprecated (source of 0.61).
            (Self::Gemini, Launch::Http { url }) => json!({"url": url, "type": "http"}),
            (Self::Windsurf, Launch::Http { url }) => json!({"serverUrl": url}),
            (Self::Cline, Launch::Stdio { program, args }) => {
                json!({"command": program, "args": args, "disabled": false})
            }
            (Self::Cline, Launch::Http { url }) => {
                json!({"type": "streamableHttp", "url": url, "disabled": false})
            }
            (Self::Zed, Launch::Stdio { program, args }) => {
                json!({"source": "custom", "command": program, "args": args, "env": {}})
            }
            (Self::OpenCode, Launch::Stdio { program, args }) => {
                let command: Vec<&str> =
                    [program].into_iter().chain(args).map(String::as_str).collect();
                json!({"type": "local", "command": command, "enabled": true})
            }
            (Self::OpenCode, Launch::Http { url }) => {
                json!({"type": "remote", "url": url, "enabled": true})
            }
            (Self::Goose, Launch::Stdio { program, args }) => json!({
                "enabled": true,
                "type": "stdio",
                "name": name,
                "description": "All MCP servers of this machine",
                "cmd": program,
                "args": args,
                "envs": {},
                "timeout": 600,
            }),
            (Self::Goose, Launch::Http { url }) => json!({
                "enabled": true,
                "type": "streamable_http",
                "name": name,
                "description": "All MCP servers of this machine",
                "uri": url,
                "timeout": 600,
            }),
            (Self::LibreChat, Launch::Stdio { program, args }) => {
                json!({"type": "stdio", "command": program, "args": args})
            }
            (Self::LibreChat, Launch::Http { url }) => {
                json!({"type": "streamable-http", "url": url})
            }
            (_, Launch::Stdio { program, args }) => json!({"command": program, "args": args}),
            (_, Launch::Http { url }) => json!({"url": url}),
        })
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.title())
    }
}

/// No client has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownClient {
    /// The name.
    pub name: String,
    /// The name that was probably meant.
    pub near: Option<String>,
}

impl fmt::Display for UnknownClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown client {:?}; ", self.name)?;
        match &self.near {
            Some(near) => write!(f, "did you mean {near:?}?"),
            None => write!(f, "expected one of {}", Client::ALL.map(Client::id).join(", ")),
        }
    }
}

impl std::error::Error for UnknownClient {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed() {
        for client in Client::ALL {
            assert_eq!(Client::parse(client.id()), Ok(client));
        }
        let near = Client::parse("claud-code").unwrap_err().to_string();
        assert_eq!(near, "unknown client \"claud-code\"; did you mean \"claude-code\"?");
        let far = Client::parse("emacs").unwrap_err().to_string();
        assert!(
            far.starts_with("unknown client \"emacs\"; expected one of claude-code, "),
            "{far}"
        );
    }
}
