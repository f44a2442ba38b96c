//! One upstream: how it is reached, what its tools are called, and how its answers are captured.

use std::{fmt, path::PathBuf};

use indexmap::IndexMap;
use marquetry_gateway::{Namer, ToolFilter, names::is_name_char};
use marquetry_protocol::Revision;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    capture::Capture,
    expand::{ExpandError, Variables, expand},
    login::LoginConfig,
};

/// An MCP server behind this one.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "UpstreamTable")]
#[non_exhaustive]
pub struct UpstreamConfig {
    /// How it is reached.
    pub transport: Transport,
    /// Named, but not started.
    pub disabled: bool,
    /// Whether a child process sees the whole environment of this one, instead of what `gateway.pass_env` says. The
    /// tokens of `[auth]` are left out even so.
    pub inherit_env: bool,
    /// How this server gets in there by OAuth 2.1, if it has to.
    pub auth: Option<LoginConfig>,
    /// What its tools' and prompts' names begin with; the server's own name when absent.
    pub prefix: Option<Prefix>,
    /// Capture settings of all its tools, over those of `[artifacts]`.
    pub capture: Capture,
    /// Settings of single tools, by the upstream's own names.
    pub tools: IndexMap<String, ToolConfig>,
    /// Which of its tools are offered.
    pub filter: ToolFilter,
    /// The only revision to speak with it; the newest that it knows when absent.
    pub revision: Option<Revision>,
    /// Instead of `gateway.start_timeout_ms`.
    pub start_timeout_ms: Option<u64>,
    /// Instead of `gateway.call_timeout_ms`.
    pub call_timeout_ms: Option<u64>,
}

/// How an upstream is reached.
#[derive(Clone, Debug, PartialEq)]
pub enum Transport {
    /// A child process that speaks MCP over its standard input and output.
    Stdio {
        /// The program, by path or found on `PATH`.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Variables over those that it inherits.
        env: IndexMap<String, String>,
        /// Its working directory; this process's when absent.
        cwd: Option<PathBuf>,
    },
    /// A server that speaks Streamable HTTP.
    Http {
        /// Its endpoint, `http:` or `https:`.
        url: String,
        /// Headers sent with every request.
        headers: IndexMap<String, String>,
        /// Whether the configuration calls it a server of HTTP+SSE (2024-11-05). What it speaks is found out in any case.
        is_sse: bool,
    },
    /// Cannot be started here: its entry is malformed, an environment variable is not set, or only other clients know the transport.
    /// The upstream is listed as failed, and stops no other.
    Unusable {
        /// `stdio`, `http`, `sse`, `unsupported` or `invalid`.
        kind: &'static str,
        /// What is missing or not supported.
        problem: String,
    },
    /// Not said here: the table sets other things of a server that an `mcp.json` file defines.
    Elsewhere,
}

/// What belongs to one tool of an upstream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ToolConfig {
    /// Capture settings of this tool, over those of its upstream.
    pub capture: Capture,
}

/// The beginning of an upstream's exposed names: at most 64 letters, digits, `_`, `-`, `.`; empty leaves names as they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
pub struct Prefix(String);

impl Prefix {
    /// Longest prefix, half of what a tool name may have.
    pub const MAX_CHARS: usize = Namer::MAX_PREFIX_CHARS;

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Prefix {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.len() <= Self::MAX_CHARS && text.chars().all(is_name_char) {
            return Ok(Self(text));
        }
        Err(format!(
            "{text:?} cannot begin tool names; expected at most {} of letters, digits, _ - .",
            Self::MAX_CHARS
        ))
    }
}

impl UpstreamConfig {
    /// An upstream with nothing but its transport set.
    #[must_use]
    pub fn new(transport: Transport) -> Self {
        Self {
            transport,
            disabled: false,
            inherit_env: false,
            auth: None,
            prefix: None,
            capture: Capture::default(),
            tools: IndexMap::new(),
            filter: ToolFilter::default(),
            revision: None,
            start_timeout_ms: None,
            call_timeout_ms: None,
        }
    }

    /// Replaces the variables in every string of the transport and checks the outcome.
    pub(crate) fn prepare(&mut self, variables: Variables<'_>) -> Result<(), PrepareError> {
        self.expand(variables)?;
        self.check().map_err(|(path, problem)| PrepareError::Wrong { path, problem })
    }

    /// Marks it as one that cannot be reached here, and says why.
    pub(crate) fn make_unusable(&mut self, problem: String) {
        self.transport = Transport::Unusable { kind: self.transport.kind(), problem };
    }

    fn expand(&mut self, variables: Variables<'_>) -> Result<(), PrepareError> {
        let one = |path: &[&str], text: &mut String| match expand(text, variables) {
            Ok(expanded) => {
                *text = expanded.into_owned();
                Ok(())
            }
            Err(error) => {
                let path = path.iter().map(|&part| part.to_owned()).collect();
                Err(PrepareError::Expand { path, error })
            }
        };
        match &mut self.transport {
            Transport::Stdio { command, args, env, cwd } => {
                one(&["command"], command)?;
                args.iter_mut().try_for_each(|arg| one(&["args"], arg))?;
                env.iter_mut().try_for_each(|(name, value)| one(&["env", name], value))?;
                if let Some(cwd) = cwd
                    && let Some(text) = cwd.to_str()
                {
                    let mut text = text.to_owned();
                    one(&["cwd"], &mut text)?;
                    *cwd = text.into();
                }
            }
            Transport::Http { url, headers, .. } => {
                one(&["url"], url)?;
                headers.iter_mut().try_for_each(|(name, value)| one(&["headers", name], value))?;
            }
            Transport::Unusable { .. } | Transport::Elsewhere => {}
        }
        Ok(())
    }
}

/// Why the transport of an upstream cannot be used, with the path of the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PrepareError {
    /// A variable has no value, or is written wrongly.
    Expand { path: Vec<String>, error: ExpandError },
    /// The keys make no transport.
    Wrong { path: Vec<String>, problem: String },
}

impl PrepareError {
    pub(crate) fn path(&self) -> &[String] {
        match self {
            Self::Expand { path, .. } | Self::Wrong { path, .. } => path,
        }
    }
}

impl fmt::Display for PrepareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expand { error, .. } => error.fmt(f),
            Self::Wrong { problem, .. } => f.write_str(problem),
        }
    }
}

impl UpstreamConfig {
    /// Says what can never work about the transport once its variables are replaced, with the path of the key.
    fn check(&self) -> Result<(), (Vec<String>, String)> {
        let at_auth = |problem: &str| Err((vec!["auth".to_owned()], problem.to_owned()));
        if let Some(Err(problem)) = self.auth.as_ref().map(LoginConfig::check) {
            return at_auth(problem);
        }
        let Transport::Http { url, headers, .. } = &self.transport else {
            return match (&self.auth, &self.transport) {
                (Some(_), Transport::Stdio { .. }) => at_auth("has no meaning for a program"),
                _ => Ok(()),
            };
        };
        let uri = url.parse::<http::Uri>().ok();
        let valid = uri.is_some_and(|uri| {
            matches!(uri.scheme_str(), Some("http" | "https"))
                && uri.host().is_some_and(|host| !host.is_empty())
        });
        if !valid {
            let problem = "expected a URL that begins with http:// or https://".to_owned();
            return Err((vec!["url".to_owned()], problem));
        }
        for (name, value) in headers {
            let problem = if name.parse::<http::HeaderName>().is_err() {
                "not a header's name"
            } else if value.parse::<http::HeaderValue>().is_err() {
                // The value may be secret.
                "the value has a character that headers cannot have"
            } else {
                continue;
            };
            return Err((vec!["headers".to_owned(), name.clone()], problem.to_owned()));
        }
        Ok(())
    }
}

impl Transport {
    /// `stdio`, `http`, `sse`, `unsupported`, or `none`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Stdio { .. } => "stdio",
            Self::Http { is_sse: false, .. } => "http",
            Self::Http { is_sse: true, .. } => "sse",
            Self::Unusable { kind, .. } => kind,
            Self::Elsewhere => "none",
        }
    }
}

/// An upstream as a TOML table writes it.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct UpstreamTable {
    /// Program to start; it speaks MCP over its standard input and output. `${VAR}` and `${VAR:-default}` are replaced in this and the keys
    /// below. A table with neither this nor `url` adds its other keys to the server of that name in an mcp.json file.
    #[schemars(example = &"npx")]
    command: Option<String>,
    /// Arguments of the program.
    #[schemars(example = ["-y", "@modelcontextprotocol/server-everything"])]
    args: Option<Vec<String>>,
    /// Environment variables of the program, over those that it inherits (see `gateway.pass_env`).
    #[schemars(example = serde_json::json!({"API_KEY": "${API_KEY}"}))]
    env: Option<IndexMap<String, String>>,
    /// Working directory of the program.
    #[schemars(example = &"/srv/data")]
    cwd: Option<PathBuf>,
    /// Instead of `command`: the endpoint of a server that speaks Streamable HTTP.
    #[schemars(example = &"https://mcp.example/mcp")]
    url: Option<String>,
    /// Headers sent with every request to `url`.
    #[schemars(example = serde_json::json!({"Authorization": "Bearer ${TOKEN:-none}"}))]
    headers: Option<IndexMap<String, String>>,
    /// With `url`: get in by OAuth 2.1, with the token that `marquetry login NAME` has got; `{}` where the server's authorization server needs
    /// no more. Other keys: `client_metadata_url`, `scopes`, `grant = "client_credentials"`.
    #[schemars(example = serde_json::json!({"client_id": "marquetry", "client_secret_env": "MCP_CLIENT_SECRET", "issuer": "https://login.example"}))]
    auth: Option<LoginConfig>,
    /// "stdio", "http", "streamable-http" or "sse"; without it, `command` means stdio and `url` means http.
    #[serde(rename = "type")]
    #[schemars(example = &"http")]
    kind: Option<String>,
    /// Keep the entry, but do not start it.
    #[schemars(example = true)]
    disabled: bool,
    /// Let the program see the whole environment of this process, with every token in it.
    #[schemars(example = true)]
    inherit_env: bool,
    /// What its tools' and prompts' names begin with, instead of the server's name; "" leaves them as they are.
    #[schemars(example = &"web")]
    prefix: Option<Prefix>,
    /// false passes this upstream's answers through untouched; a table overrides keys of `[artifacts]`.
    #[schemars(example = false)]
    capture: Capture,
    /// Settings of single tools by the upstream's own names; `capture` as above, and a table captures also where the upstream has false.
    #[schemars(example = serde_json::json!({"read_file": {"capture": {"mcp_tool_llm_return_max_bytes": 16384}}}))]
    tools: IndexMap<String, ToolConfig>,
    /// The only tools of this upstream that are offered, by its own names; all when absent.
    #[schemars(example = ["read_file", "list_directory"])]
    enabled_tools: Option<Vec<String>>,
    /// Tools of this upstream that are not offered, by its own names.
    #[schemars(example = ["write_file"])]
    disabled_tools: Vec<String>,
    /// The revision of MCP to speak with it, instead of asking for the newest that it knows: for servers that do not survive the question.
    #[schemars(example = &"2025-11-25", with = "Option<String>")]
    revision: Option<Revision>,
    /// Instead of `gateway.start_timeout_ms`.
    #[schemars(example = 120_000)]
    start_timeout_ms: Option<u64>,
    /// Instead of `gateway.call_timeout_ms`.
    #[schemars(example = 30_000)]
    call_timeout_ms: Option<u64>,
}

impl TryFrom<UpstreamTable> for UpstreamConfig {
    type Error = String;

    fn try_from(table: UpstreamTable) -> Result<Self, String> {
        let transport = TransportParts {
            kind: table.kind,
            command: table.command,
            args: table.args,
            env: table.env,
            cwd: table.cwd,
            url: table.url,
            headers: table.headers,
        };
        Ok(Self {
            disabled: table.disabled,
            inherit_env: table.inherit_env,
            auth: table.auth,
            prefix: table.prefix,
            capture: table.capture,
            tools: table.tools,
            filter: ToolFilter { enabled: table.enabled_tools, disabled: table.disabled_tools },
            revision: table.revision,
            start_timeout_ms: table.start_timeout_ms,
            call_timeout_ms: table.call_timeout_ms,
            ..Self::new(if transport.is_empty() {
                Transport::Elsewhere
            } else {
                match transport.build() {
                    Ok(transport) => transport,
                    // What is not started may be at fault.
                    Err(_) if table.disabled => Transport::Elsewhere,
                    Err(fault) => return Err(fault.to_string()),
                }
            })
        })
    }
}

/// Why some keys make no transport.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TransportFault {
    /// The keys contradict each other, or one is missing.
    #[error("{0}")]
    Keys(String),
    /// It may be one that this server does not know.
    #[error("unknown type {0:?}; expected \"stdio\", \"http\", \"streamable-http\" or \"sse\"")]
    Unknown(String),
}

impl From<&str> for TransportFault {
    fn from(problem: &str) -> Self {
        Self::Keys(problem.to_owned())
    }
}

/// The keys of a transport before it is known which one they make.
#[derive(Clone, Debug, Default)]
pub(crate) struct TransportParts {
    pub(crate) kind: Option<String>,
    pub(crate) command: Option<String>,
    pub(crate) args: Option<Vec<String>>,
    pub(crate) env: Option<IndexMap<String, String>>,
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) url: Option<String>,
    pub(crate) headers: Option<IndexMap<String, String>>,
}

impl TransportParts {
    pub(crate) fn is_empty(&self) -> bool {
        let Self { kind, command, args, env, cwd, url, headers } = self;
        let lists = args.is_none() && env.is_none() && headers.is_none();
        lists && kind.is_none() && command.is_none() && cwd.is_none() && url.is_none()
    }

    /// The transport that the keys make together, or which key is missing or too much.
    pub(crate) fn build(self) -> Result<Transport, TransportFault> {
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
        let surplus = |keys: &[(&str, bool)]| match keys.iter().find(|(_, given)| *given) {
            Some((key, _)) => Err(TransportFault::Keys(format!(
                "{key:?} has no meaning for a server of type {kind:?}"
            ))),
            None => Ok(()),
        };
        if kind == "stdio" {
            surplus(&[("url", self.url.is_some()), ("headers", self.headers.is_some())])?;
            let command = self.command.filter(|command| !command.trim().is_empty());
            return Ok(Transport::Stdio {
                command: command.ok_or("type \"stdio\" needs \"command\", a program to start")?,
                args: self.args.unwrap_or_default(),
                env: self.env.unwrap_or_default(),
                cwd: self.cwd,
            });
        }
        surplus(&[
            ("command", self.command.is_some()),
            ("args", self.args.is_some()),
            ("env", self.env.is_some()),
            ("cwd", self.cwd.is_some()),
        ])?;
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
