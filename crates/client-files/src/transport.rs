//! Transports of servers.

use std::{fmt, path::PathBuf};

use indexmap::IndexMap;
use marquetry_protocol::client::parse_server_url;

use marquetry_secrets::expand::{ExpandError, Sources};

/// The reference to the id of an instance of a server, `${instance:id}`. The gateway replaces it.
pub const INSTANCE_ID: &str = "instance:id";

/// The transport of a server: a program or a URL.
#[derive(Clone, Debug, PartialEq)]
pub enum Transport {
    /// A child process that speaks MCP over its standard input and output.
    Stdio {
        /// The program, by path or found on `PATH`.
        command: String,
        /// Arguments of the program.
        args: Vec<String>,
        /// Environment variables, which override inherited ones.
        env: IndexMap<String, String>,
        /// Working directory; by default that of this process.
        cwd: Option<PathBuf>,
    },
    /// A server that speaks Streamable HTTP.
    Http {
        /// URL of the endpoint, `http:` or `https:`.
        url: String,
        /// Headers sent with every request.
        headers: IndexMap<String, String>,
        /// Whether the configuration calls it a server of HTTP+SSE (2024-11-05). The client detects
        /// the transport in any case.
        is_sse: bool,
    },
    /// Cannot be used here: its entry is malformed, an environment variable is not set, or only
    /// other clients support the transport. Other servers are not affected.
    Unusable {
        /// `stdio`, `http`, `sse`, `unsupported` or `invalid`.
        kind: &'static str,
        /// The missing or unsupported part.
        problem: String,
    },
    /// The source names no transport: another source does, or the server is not started.
    NotGiven,
}

impl Transport {
    /// Returns `stdio`, `http`, `sse`, `unsupported`, or `none`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Stdio { .. } => "stdio",
            Self::Http { is_sse: false, .. } => "http",
            Self::Http { is_sse: true, .. } => "sse",
            Self::Unusable { kind, .. } => kind,
            Self::NotGiven => "none",
        }
    }

    /// Returns the URL of a server over HTTP.
    #[must_use]
    pub fn url(&self) -> Option<&str> {
        match self {
            Self::Http { url, .. } => Some(url),
            _ => None,
        }
    }

    /// Returns the same kind of transport, marked as unusable.
    #[must_use]
    pub fn unusable(&self, problem: String) -> Self {
        Self::Unusable { kind: self.kind(), problem }
    }

    /// Replaces the variables and the references to secrets in every string. Secrets are not
    /// allowed in a program and its arguments, which every user of the machine can see.
    ///
    /// # Errors
    ///
    /// Returns an error with the path of the key if a variable or a secret has no value, or is
    /// written wrongly.
    pub fn expand(&mut self, sources: &Sources<'_>) -> Result<(), TransportError> {
        match self {
            Self::Stdio { command, args, env, cwd } => {
                let shown = &sources
                    .without_secrets("process lists show the program and its arguments; use env");
                expand_value(&["command"], command, shown)?;
                for arg in args {
                    expand_value(&["args"], arg, shown)?;
                }
                for (name, value) in env {
                    expand_value(&["env", name], value, sources)?;
                }
                if let Some(cwd) = cwd
                    && let Some(text) = cwd.to_str()
                {
                    let mut text = text.to_owned();
                    expand_value(&["cwd"], &mut text, shown)?;
                    *cwd = text.into();
                }
            }
            Self::Http { url, headers, .. } => {
                expand_value(&["url"], url, sources)?;
                for (name, value) in headers {
                    expand_value(&["headers", name], value, sources)?;
                }
            }
            Self::Unusable { .. } | Self::NotGiven => {}
        }
        Ok(())
    }

    /// Replaces every string that may have references.
    pub(crate) fn map_strings(&mut self, map: &dyn Fn(&str) -> String) {
        match self {
            Self::Stdio { command, args, env, cwd } => {
                *command = map(command);
                for arg in args {
                    *arg = map(arg);
                }
                for value in env.values_mut() {
                    *value = map(value);
                }
                if let Some(cwd) = cwd
                    && let Some(text) = cwd.to_str()
                {
                    *cwd = map(text).into();
                }
            }
            Self::Http { url, headers, .. } => {
                *url = map(url);
                for value in headers.values_mut() {
                    *value = map(value);
                }
            }
            Self::Unusable { .. } | Self::NotGiven => {}
        }
    }

    /// Returns whether a string has the reference [`INSTANCE_ID`].
    #[must_use]
    pub fn names_instance(&self) -> bool {
        let reference = format!("${{{INSTANCE_ID}}}");
        match self {
            Self::Stdio { command, args, env, cwd } => {
                let cwd = cwd.as_ref().and_then(|cwd| cwd.to_str()).unwrap_or_default();
                let texts = args.iter().chain(env.values()).map(String::as_str);
                texts.chain([command.as_str(), cwd]).any(|text| text.contains(&reference))
            }
            Self::Http { url, headers, .. } => {
                url.contains(&reference) || headers.values().any(|it| it.contains(&reference))
            }
            Self::Unusable { .. } | Self::NotGiven => false,
        }
    }

    /// Checks URL and headers, after the variables were replaced.
    ///
    /// # Errors
    ///
    /// Returns an error with the path of the key if one of them is invalid.
    pub fn check(&self) -> Result<(), TransportError> {
        let Self::Http { url, headers, .. } = self else { return Ok(()) };
        if let Err(error) = parse_server_url(url) {
            let path = vec!["url".to_owned()];
            return Err(TransportError::Wrong { path, problem: error.to_string() });
        }
        for (name, value) in headers {
            let problem = if name.parse::<http::HeaderName>().is_err() {
                "not a valid header name"
            } else if value.parse::<http::HeaderValue>().is_err() {
                // The value may be secret.
                "the value has a character that headers cannot have"
            } else {
                continue;
            };
            let path = vec!["headers".to_owned(), name.clone()];
            return Err(TransportError::Wrong { path, problem: problem.to_owned() });
        }
        Ok(())
    }
}

/// Replaces the references in the value of a key.
fn expand_value(
    path: &[&str],
    text: &mut String,
    sources: &Sources<'_>,
) -> Result<(), TransportError> {
    let expanded = sources.expand(text).map_err(|error| TransportError::Expand {
        path: path.iter().map(|&part| part.to_owned()).collect(),
        error,
    })?;
    *text = expanded.into_owned();
    Ok(())
}

/// Why a transport cannot be used, with the path of the key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransportError {
    /// A variable has no value, or is written wrongly.
    Expand {
        /// The path of the key.
        path: Vec<String>,
        /// The problem with the variable.
        error: ExpandError,
    },
    /// The keys do not form a transport.
    Wrong {
        /// The path of the key.
        path: Vec<String>,
        /// The problem, and what was expected.
        problem: String,
    },
}

impl TransportError {
    /// Returns the path of the key.
    #[must_use]
    pub fn path(&self) -> &[String] {
        match self {
            Self::Expand { path, .. } | Self::Wrong { path, .. } => path,
        }
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expand { error, .. } => error.fmt(f),
            Self::Wrong { problem, .. } => f.write_str(problem),
        }
    }
}

impl std::error::Error for TransportError {}

/// Why the keys do not describe a transport.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransportFault {
    /// The keys contradict each other, or one is missing.
    #[error("{0}")]
    Keys(String),
    /// The type is not known; a later version may know it.
    #[error("unknown type {0:?}; expected \"stdio\", \"http\", \"streamable-http\" or \"sse\"")]
    Unknown(String),
}

impl From<&str> for TransportFault {
    fn from(problem: &str) -> Self {
        Self::Keys(problem.to_owned())
    }
}

/// The keys of a transport before its kind is known.
#[derive(Clone, Debug, Default)]
pub struct TransportParts {
    /// The name of the transport, such as `stdio` or `http`.
    pub kind: Option<String>,
    /// The program.
    pub command: Option<String>,
    /// Arguments of the program.
    pub args: Option<Vec<String>>,
    /// Environment variables of the program.
    pub env: Option<IndexMap<String, String>>,
    /// Working directory of the program.
    pub cwd: Option<PathBuf>,
    /// The endpoint.
    pub url: Option<String>,
    /// Headers of every request.
    pub headers: Option<IndexMap<String, String>>,
}

impl TransportParts {
    /// Returns whether no key is given.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { kind, command, args, env, cwd, url, headers } = self;
        let lists = args.is_none() && env.is_none() && headers.is_none();
        lists && kind.is_none() && command.is_none() && cwd.is_none() && url.is_none()
    }

    /// Returns the transport that the keys make together.
    ///
    /// # Errors
    ///
    /// Returns an error if a key is missing or superfluous, or if the kind is unknown.
    pub fn build(self) -> Result<Transport, TransportFault> {
        let kind = match self.kind.as_deref() {
            None if self.command.is_some() && self.url.is_some() => {
                return Err("both \"command\" and \"url\" are given; expected one of them".into());
            }
            None if self.command.is_some() => "stdio",
            None if self.url.is_some() => "http",
            None => return Err("expected \"command\" (a program) or \"url\" (a server)".into()),
            Some("stdio" | "local") => "stdio",
            Some("sse") => "sse",
            Some("http" | "streamable-http" | "streamable_http" | "streamableHttp") => "http",
            Some(other) => return Err(TransportFault::Unknown(other.to_owned())),
        };
        if kind == "stdio" {
            refuse_surplus(
                kind,
                &[("url", self.url.is_some()), ("headers", self.headers.is_some())],
            )?;
            let command =
                self.command.ok_or("type \"stdio\" needs \"command\", a program to start")?;
            if command.trim().is_empty() {
                return Err("\"command\" is empty; expected a program to start".into());
            }
            return Ok(Transport::Stdio {
                command,
                args: self.args.unwrap_or_default(),
                env: self.env.unwrap_or_default(),
                cwd: self.cwd,
            });
        }
        refuse_surplus(
            kind,
            &[
                ("command", self.command.is_some()),
                ("args", self.args.is_some()),
                ("env", self.env.is_some()),
                ("cwd", self.cwd.is_some()),
            ],
        )?;
        let url = self.url.ok_or_else(|| {
            TransportFault::Keys(format!("type {kind:?} needs \"url\", the server's endpoint"))
        })?;
        Ok(Transport::Http {
            url,
            headers: self.headers.unwrap_or_default(),
            is_sse: kind == "sse",
        })
    }
}

/// Refuses the first key that is given although servers of this type have no use for it.
fn refuse_surplus(kind: &str, keys: &[(&str, bool)]) -> Result<(), TransportFault> {
    match keys.iter().find(|(_, is_given)| *is_given) {
        Some((key, _)) => Err(TransportFault::Keys(format!(
            "{key:?} has no meaning for a server of type {kind:?}"
        ))),
        None => Ok(()),
    }
}
