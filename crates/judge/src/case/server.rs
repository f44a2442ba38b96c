//! The MCP servers of a case.

use std::{collections::BTreeMap, fmt};

use marquetry_protocol::client::without_secrets;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An MCP server that is started or connected to for each trial, and closed after it.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
#[non_exhaustive]
pub enum ServerConfig {
    /// A program that speaks MCP on its standard input and output.
    Stdio {
        /// Its name in records (`serverId`); `server1`, `server2`, … if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// The program: a path, or a name to look up in `PATH`.
        command: String,
        /// Its arguments.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        args: Vec<String>,
        /// Environment variables. The program inherits no others but those that find programs and
        /// folders (`PATH`, `HOME` and the like), so that it does not see keys.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        env: BTreeMap<String, String>,
        /// Its working folder; that of the runner if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cwd: Option<String>,
    },
    /// A server behind a URL, with HTTP+SSE or Streamable HTTP.
    Sse {
        /// Its name in records.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// The URL.
        url: String,
        /// Headers of each request.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        headers: BTreeMap<String, String>,
    },
    /// A server behind a URL, with Streamable HTTP or HTTP+SSE.
    Http {
        /// Its name in records.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// The URL.
        url: String,
        /// Headers of each request.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        headers: BTreeMap<String, String>,
    },
}

impl ServerConfig {
    /// Returns a program with arguments.
    pub fn stdio(
        command: impl Into<String>,
        args: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let args = args.into_iter().map(Into::into).collect();
        Self::Stdio { name: None, command: command.into(), args, env: BTreeMap::new(), cwd: None }
    }

    /// Returns a server behind a URL.
    pub fn http(url: impl Into<String>) -> Self {
        Self::Http { name: None, url: url.into(), headers: BTreeMap::new() }
    }

    /// Returns the server with a name.
    #[must_use]
    pub fn named(mut self, given: impl Into<String>) -> Self {
        let (Self::Stdio { name, .. } | Self::Sse { name, .. } | Self::Http { name, .. }) =
            &mut self;
        *name = Some(given.into());
        self
    }

    /// Returns its name, if it has one.
    pub fn name(&self) -> Option<&str> {
        let (Self::Stdio { name, .. } | Self::Sse { name, .. } | Self::Http { name, .. }) = self;
        name.as_deref()
    }
}

/// Shows neither arguments nor values of variables and headers, which may be secrets.
impl fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio { name, command, args, .. } => f
                .debug_struct("Stdio")
                .field("name", name)
                .field("command", command)
                .field("args", &args.len())
                .finish_non_exhaustive(),
            Self::Sse { name, url, .. } | Self::Http { name, url, .. } => f
                .debug_struct("Url")
                .field("name", name)
                .field("url", &without_secrets(url))
                .finish_non_exhaustive(),
        }
    }
}
