//! One upstream: its transport, the names of its tools, and the capture of its answers.

use std::{
    num::{NonZeroU32, NonZeroU64, NonZeroUsize},
    path::PathBuf,
};

use indexmap::IndexMap;
use marquetry_artifacts::settings::Capture;
use marquetry_client_files::{
    ToolLists, Transport,
    expand::Sources,
    transport::{INSTANCE_ID, TransportError, TransportParts},
};
use marquetry_gateway::{Isolation, Namer, ToolFilter, names::is_name_char};
use marquetry_pins::PinMode;
use marquetry_protocol::Revision;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    login::LoginConfig,
    tool_overrides::{FixedArguments, ToolName},
};

/// An upstream MCP server.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "UpstreamTable")]
#[non_exhaustive]
pub struct UpstreamConfig {
    /// Program or URL of the upstream.
    pub transport: Transport,
    /// The upstream is not started.
    pub disabled: bool,
    /// Whether a child process gets the whole environment of this one, instead of the variables in
    /// `gateway.pass_env`. The tokens of `[auth]` are left out in any case.
    pub inherit_env: bool,
    /// OAuth 2.1 credentials for this upstream, if it needs them.
    pub auth: Option<LoginConfig>,
    /// First part of the names of its tools and prompts; by default the server's name.
    pub prefix: Option<Prefix>,
    /// Capture settings of all its tools, which override `[artifacts]`.
    pub capture: Capture,
    /// Settings of single tools, by their names at the upstream.
    pub tools: IndexMap<String, ToolConfig>,
    /// Filter of its tools.
    pub filter: ToolFilter,
    /// Overrides `gateway.pins`.
    pub pins: Option<PinMode>,
    /// The only revision to speak with it; by default the newest that it supports.
    pub revision: Option<Revision>,
    /// Overrides `gateway.start_timeout_ms`.
    pub start_timeout_ms: Option<NonZeroU64>,
    /// Overrides `gateway.call_timeout_ms`.
    pub call_timeout_ms: Option<u64>,
    /// Tool calls that it gets in a minute from all callers together; any number without it.
    pub max_calls_per_minute: Option<NonZeroU32>,
    /// The model of `[knowledge.chat]` answers its requests for messages (`sampling/createMessage`)
    /// if the client offers none.
    pub sampling: bool,
    /// The roots that it gets, instead of those of the client of a call.
    pub roots: Option<Vec<RootSetting>>,
    /// Which callers share one process or connection.
    pub isolation: IsolationSetting,
    /// The most processes or connections at one time, if callers do not share one.
    pub max_instances: NonZeroUsize,
    /// Time after which an unused one ends.
    pub instance_idle_ms: NonZeroU64,
}

/// Which callers share one process of an upstream, or one connection to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum IsolationSetting {
    /// All callers.
    #[default]
    Shared,
    /// The callers with tokens of one principal; without a token, those of one address.
    Principal,
    /// The requests of one session.
    Session,
}

impl From<IsolationSetting> for Isolation {
    fn from(setting: IsolationSetting) -> Self {
        match setting {
            IsolationSetting::Shared => Self::Shared,
            IsolationSetting::Principal => Self::Principal,
            IsolationSetting::Session => Self::Session,
        }
    }
}

/// Default of `max_instances`.
const MAX_INSTANCES: NonZeroUsize = NonZeroUsize::new(16).unwrap();

/// Default of `instance_idle_ms`: ten minutes.
const INSTANCE_IDLE_MS: NonZeroU64 = NonZeroU64::new(600_000).unwrap();

/// Settings of one tool of an upstream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ToolConfig {
    /// Capture settings of this tool, which override those of its upstream.
    pub capture: Capture,
    /// Replaces its name; the prefix of the upstream stays.
    pub name: Option<ToolName>,
    /// Replaces its name for people.
    pub title: Option<String>,
    /// Replaces its description.
    pub description: Option<String>,
    /// Arguments that clients neither see nor send.
    pub hide: Vec<String>,
    /// Arguments with fixed values, which are hidden, too.
    pub set: FixedArguments,
    /// Values of arguments that a call does not have.
    pub default: serde_json::Map<String, serde_json::Value>,
    /// The tool is not offered.
    pub disabled: bool,
}

/// First part of an upstream's exposed names: at most 64 letters, digits, `_`, `-`, `.`; empty
/// leaves names as they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
pub struct Prefix(String);

impl Prefix {
    /// Maximum length of a prefix, half of that of a tool name.
    pub const MAX_CHARS: usize = Namer::MAX_PREFIX_CHARS;

    /// Returns the text.
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
            "{text:?} is not a valid prefix; expected at most {} of letters, digits, _ - .",
            Self::MAX_CHARS
        ))
    }
}

/// A root of an upstream: a `file:` URI, or an absolute path, which becomes one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
pub struct RootSetting(String);

impl RootSetting {
    /// Returns the URI.
    #[must_use]
    pub fn uri(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for RootSetting {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.starts_with("file:///") {
            return Ok(Self(text));
        }
        if text.starts_with('/') {
            return Ok(Self(format!("file://{}", utf8_percent_encode(&text, ESCAPED))));
        }
        Err(format!("{text:?} is not a root; expected an absolute path or a URI file:///…"))
    }
}

/// The bytes of a path that are not part of a URI as they are (RFC 3986, 3.3).
const ESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_').remove(b'~');

impl UpstreamConfig {
    /// Creates an upstream with default settings.
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
            pins: None,
            revision: None,
            start_timeout_ms: None,
            call_timeout_ms: None,
            max_calls_per_minute: None,
            sampling: false,
            roots: None,
            isolation: IsolationSetting::default(),
            max_instances: MAX_INSTANCES,
            instance_idle_ms: INSTANCE_IDLE_MS,
        }
    }

    /// Replaces the variables and the references to secrets in every string of the transport, and
    /// checks the result.
    pub(crate) fn prepare(&mut self, sources: &Sources<'_>) -> Result<(), TransportError> {
        self.transport.expand(&sources.keeping(INSTANCE_ID))?;
        for (name, tool) in &mut self.tools {
            tool.expand(name, sources)?;
        }
        self.check_auth()?;
        self.transport.check()
    }

    /// Marks the upstream as unusable, with the reason.
    pub(crate) fn make_unusable(&mut self, problem: String) {
        self.transport = self.transport.unusable(problem);
    }

    /// Checks `auth`.
    fn check_auth(&self) -> Result<(), TransportError> {
        let problem = match (&self.auth, &self.transport) {
            (None, _) => return Ok(()),
            (Some(auth), transport) => match (auth.check(), transport) {
                (Err(problem), _) => problem,
                (Ok(()), Transport::Stdio { .. }) => "needs \"url\": a program has no OAuth",
                (Ok(()), _) => return Ok(()),
            },
        };
        Err(TransportError::Wrong { path: vec!["auth".to_owned()], problem: problem.to_owned() })
    }
}

/// Returns the filter for the lists of a client's file.
pub(crate) fn tool_filter(lists: ToolLists) -> ToolFilter {
    let mut filter = ToolFilter { enabled: None, disabled: lists.disabled };
    for enabled in lists.enabled {
        filter.narrow(ToolFilter { enabled: Some(enabled), disabled: Vec::new() });
    }
    filter
}

/// An upstream as a TOML table writes it.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct UpstreamTable {
    /// Program to start; it speaks MCP over its standard input and output. `${VAR}` and
    /// `${VAR:-default}` are replaced in this and the keys below; in `env`, `url` and `headers`
    /// also the secrets `${file:PATH}`, `${keyring:SERVICE/NAME}` and `${command:PROGRAM ARG…}`. A
    /// table without this and without `url` adds its keys to the server of that name in an mcp.json
    /// file.
    #[schemars(example = &"npx")]
    command: Option<String>,
    /// Arguments of the program.
    #[schemars(example = ["-y", "@modelcontextprotocol/server-everything"])]
    args: Option<Vec<String>>,
    /// Environment variables of the program, which override inherited ones (see
    /// `gateway.pass_env`).
    #[schemars(example = serde_json::json!({"API_KEY": "${API_KEY}"}))]
    env: Option<IndexMap<String, String>>,
    /// Working directory of the program.
    #[schemars(example = &"/srv/data")]
    cwd: Option<PathBuf>,
    /// URL of a server that speaks Streamable HTTP, instead of `command`.
    #[schemars(example = &"https://mcp.example/mcp")]
    url: Option<String>,
    /// Headers sent with every request to `url`.
    #[schemars(example = serde_json::json!({"Authorization": "Bearer ${TOKEN:-none}"}))]
    headers: Option<IndexMap<String, String>>,
    /// With `url`: OAuth 2.1, with the token from `marquetry login NAME`; `{}` if the authorization
    /// server needs no settings. Other keys: `redirect_uri` (one that is registered by hand),
    /// `send_resource = false` (for Entra ID), `token_endpoint_auth_method`,
    /// `client_metadata_url`, `scopes`, `grant = "client_credentials"`.
    #[schemars(example = serde_json::json!({"client_id": "marquetry", "client_secret_env": "MCP_CLIENT_SECRET", "issuer": "https://login.example"}))]
    auth: Option<LoginConfig>,
    /// "stdio", "http", "streamable-http" or "sse"; by default stdio for `command` and http for
    /// `url`.
    #[serde(rename = "type")]
    #[schemars(example = &"http")]
    kind: Option<String>,
    /// Keeps the entry without starting the upstream.
    #[schemars(example = true)]
    disabled: bool,
    /// Gives the program the whole environment of this process, including its secrets, but not the
    /// tokens of `[auth]`.
    #[schemars(example = true)]
    inherit_env: bool,
    /// First part of the names of its tools and prompts, instead of the server's name; "" leaves
    /// names as they are.
    #[schemars(example = &"web")]
    prefix: Option<Prefix>,
    /// false passes this upstream's answers through, without members that are `null`; a table
    /// overrides keys of `[artifacts]`.
    #[schemars(example = false)]
    capture: Capture,
    /// Settings of single tools, by their names at the upstream; `capture` as above. A table turns
    /// capture on, even if the upstream has false. `name`, `title` and `description` replace those
    /// of the tool; `hide` lists arguments that clients neither see nor send; `set` gives hidden
    /// arguments fixed values, and `default` gives arguments values in calls without them;
    /// `disabled = true` removes the tool.
    #[schemars(example = serde_json::json!({"read_file": {"capture": {"mcp_tool_llm_return_max_bytes": 16384}}}))]
    tools: IndexMap<String, ToolConfig>,
    /// The only tools of this upstream that are offered, by their names there. Without it, all
    /// tools.
    #[schemars(example = ["read_file", "list_directory"])]
    enabled_tools: Option<Vec<String>>,
    /// Tools of this upstream that are not offered, by their names there.
    #[schemars(example = ["write_file"])]
    disabled_tools: Vec<String>,
    /// Overrides `gateway.pins` for this upstream: "off", "warn" or "refuse".
    #[schemars(example = &"refuse")]
    pins: Option<PinMode>,
    /// Revision of MCP to speak with it, instead of negotiating the newest: for servers that fail
    /// during negotiation.
    #[schemars(example = &"2025-11-25", with = "Option<String>")]
    revision: Option<Revision>,
    /// Overrides `gateway.start_timeout_ms` for this upstream.
    #[schemars(example = 120_000)]
    start_timeout_ms: Option<NonZeroU64>,
    /// Overrides `gateway.call_timeout_ms` for this upstream.
    #[schemars(example = 30_000)]
    call_timeout_ms: Option<u64>,
    /// Tool calls that this upstream gets in a minute from all callers together, a tenth of them at
    /// once after a pause. A further call is a failed call that says when to try again. Without it,
    /// any number.
    #[schemars(example = 120)]
    max_calls_per_minute: Option<NonZeroU32>,
    /// Lets the model of `[knowledge.chat]` answer when this server asks for a model's message
    /// (`sampling/createMessage`) during a call of a client without sampling. The server writes the
    /// prompt, and the model may cost money: `limits.max_questions_per_call` and the limits of
    /// `[knowledge.chat]` apply.
    #[schemars(example = true)]
    sampling: bool,
    /// Folders in which this server may work: the answer whenever it asks for roots, also directly
    /// after its start, in place of the roots of the client. Absolute paths, or `file:` URIs.
    #[schemars(example = ["/srv/projects/shop"])]
    roots: Option<Vec<RootSetting>>,
    /// Which callers share one process of this server, or one connection to it: "shared" for all,
    /// "principal" for those of one principal (without a token: of one address), "session" for
    /// those of one session. Otherwise the first call of each starts an instance of its own;
    /// `${instance:id}` in `args`, `env`, `cwd`, `url` and `headers` is a text that tells the
    /// instances apart.
    #[schemars(example = &"principal")]
    isolation: IsolationSetting,
    /// With `isolation`: the most instances at one time; 16 by default. At the limit, the one that
    /// has been idle the longest ends for a new one, and calls get an error if none is idle.
    #[schemars(example = 16)]
    max_instances: Option<NonZeroUsize>,
    /// With `isolation`: time without a request and without a subscription after which an instance
    /// ends, in milliseconds; 600000 by default.
    #[schemars(example = 600_000)]
    instance_idle_ms: Option<NonZeroU64>,
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
            pins: table.pins,
            revision: table.revision,
            start_timeout_ms: table.start_timeout_ms,
            call_timeout_ms: table.call_timeout_ms,
            max_calls_per_minute: table.max_calls_per_minute,
            sampling: table.sampling,
            roots: table.roots,
            isolation: table.isolation,
            max_instances: table.max_instances.unwrap_or(MAX_INSTANCES),
            instance_idle_ms: table.instance_idle_ms.unwrap_or(INSTANCE_IDLE_MS),
            ..Self::new(if transport.is_empty() {
                Transport::NotGiven
            } else {
                match transport.build() {
                    Ok(transport) => transport,
                    // A disabled upstream may be invalid.
                    Err(_) if table.disabled => Transport::NotGiven,
                    Err(fault) => return Err(fault.to_string()),
                }
            })
        })
    }
}
