//! One upstream: how it is reached, what its tools are called, and how its answers are captured.

use std::path::PathBuf;

use indexmap::IndexMap;
use marquetry_client_files::{
    Transport, Variables,
    transport::{TransportError, TransportParts},
};
use marquetry_gateway::{Namer, ToolFilter, names::is_name_char};
use marquetry_protocol::Revision;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{capture::Capture, login::LoginConfig};

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
    pub(crate) fn prepare(&mut self, variables: Variables<'_>) -> Result<(), TransportError> {
        self.transport.expand(variables)?;
        self.check_auth()?;
        self.transport.check()
    }

    /// Marks it as one that cannot be reached here, and says why.
    pub(crate) fn make_unusable(&mut self, problem: String) {
        self.transport = self.transport.unusable(problem);
    }

    /// Says what is wrong with `auth`.
    fn check_auth(&self) -> Result<(), TransportError> {
        let problem = match (&self.auth, &self.transport) {
            (None, _) => return Ok(()),
            (Some(auth), transport) => match (auth.check(), transport) {
                (Err(problem), _) => problem,
                (Ok(()), Transport::Stdio { .. }) => "has no meaning for a program",
                (Ok(()), _) => return Ok(()),
            },
        };
        Err(TransportError::Wrong { path: vec!["auth".to_owned()], problem: problem.to_owned() })
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
                Transport::NotGiven
            } else {
                match transport.build() {
                    Ok(transport) => transport,
                    // What is not started may be at fault.
                    Err(_) if table.disabled => Transport::NotGiven,
                    Err(fault) => return Err(fault.to_string()),
                }
            })
        })
    }
}
