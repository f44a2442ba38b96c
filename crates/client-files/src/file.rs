//! Files in which other clients keep their MCP servers: Claude Desktop, Claude Code, Cursor,
//! Windsurf, Gemini CLI, Cline (`mcpServers`), VS Code (`servers` in `mcp.json`, `mcp.servers` in
//! `settings.json`), Zed (`context_servers`), opencode (`mcp`), Codex (TOML), Goose and LibreChat
//! (YAML).
//!
//! Clients differ in their additional keys, so unknown keys are reported and ignored. A server that
//! cannot be used here is reported, too, and does not affect the others.

use std::{cell::RefCell, collections::BTreeMap, path::PathBuf};

use indexmap::IndexMap;
use marquetry_nearest::nearest;
use marquetry_secrets::Secrets;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json, value::RawValue};

use crate::{
    env_file,
    error::{ConfigError, Position},
    expand::{Sources, Variables},
    form::{Form, from_codex, from_yaml},
    json::{Members, Scalar, json_members, lenient, lenient_list, offset_in, without_comments},
    transport::{INSTANCE_ID, Transport, TransportError, TransportFault, TransportParts},
};

/// The servers of a file.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ClientFile {
    /// The servers by name, in the order of the file.
    pub servers: IndexMap<String, ClientServer>,
    /// The values that the file asks its user for.
    pub inputs: Vec<Input>,
    /// A sentence for each ignored key, and for each server that cannot be used.
    pub warnings: Vec<String>,
}

/// A server of a file.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ClientServer {
    /// The transport, with variables replaced unless [`ReadOptions::references`] keeps them.
    pub transport: Transport,
    /// The file of variables that the entry names, as written.
    pub env_file: Option<String>,
    /// Whether the file disables it.
    pub is_disabled: bool,
    /// The tools that the file enables or disables.
    pub tools: ToolLists,
}

impl ClientServer {
    fn new(transport: Transport) -> Self {
        Self { transport, env_file: None, is_disabled: false, tools: ToolLists::default() }
    }

    /// Returns the entry of this server for an `mcp.json`; [`None`] for a server that cannot be
    /// used.
    #[must_use]
    pub fn to_entry(&self) -> Option<serde_json::Map<String, Value>> {
        let mut entry = serde_json::Map::new();
        match &self.transport {
            Transport::Stdio { command, args, env, cwd } => {
                entry.insert("command".into(), command.as_str().into());
                entry.insert("args".into(), args.as_slice().into());
                if !env.is_empty() {
                    entry.insert("env".into(), json!(env));
                }
                if let Some(file) = &self.env_file {
                    entry.insert("envFile".into(), file.as_str().into());
                }
                if let Some(cwd) = cwd {
                    entry.insert("cwd".into(), cwd.to_string_lossy().into());
                }
            }
            Transport::Http { url, headers, is_sse } => {
                entry.insert("type".into(), if *is_sse { "sse" } else { "http" }.into());
                entry.insert("url".into(), url.as_str().into());
                if !headers.is_empty() {
                    entry.insert("headers".into(), json!(headers));
                }
            }
            Transport::Unusable { .. } | Transport::NotGiven => return None,
        }
        if self.is_disabled {
            entry.insert("disabled".into(), true.into());
        }
        for (key, enabled) in
            ["enabledTools", "includeTools", "tools"].iter().zip(&self.tools.enabled)
        {
            entry.insert((*key).into(), enabled.as_slice().into());
        }
        if !self.tools.disabled.is_empty() {
            entry.insert("disabledTools".into(), self.tools.disabled.as_slice().into());
        }
        Some(entry)
    }
}

/// The tools of a server that a file enables or disables, by their names; `*` means all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolLists {
    /// Lists of the only tools to offer: one for each of the keys `enabledTools`, `includeTools`
    /// and `tools` that the file has. A tool must be on each of them.
    pub enabled: Vec<Vec<String>>,
    /// The tools not to offer, even if they are enabled.
    pub disabled: Vec<String>,
}

/// Options for reading a file. This crate itself reads no environment, and does not ask the user.
pub struct ReadOptions<'a> {
    /// Name of the file in errors.
    pub file: &'a str,
    /// Looks up environment variables. [`workspace_of`](crate::expand::workspace_of) has the value
    /// of `workspaceFolder`.
    pub variables: Variables<'a>,
    /// Returns whether a server, given by name, is disabled by another source.
    pub disabled: &'a dyn Fn(&str) -> bool,
    /// Returns whether a server is switched on or off, whatever its entry says.
    pub switched: &'a dyn Fn(&str) -> Option<bool>,
    /// Asks for the value of an input that the environment variable `INPUT_ID` does not set.
    pub ask: &'a dyn Fn(&Input) -> Option<String>,
    /// Reads secrets. Without it, a server that refers to one cannot be used.
    pub secrets: Option<&'a Secrets>,
    /// How `${VAR}` and similar references are treated.
    pub references: References,
    /// Whether [`INSTANCE_ID`](crate::transport::INSTANCE_ID) stays, for a gateway.
    pub keeps_instance: bool,
}

/// How references to variables and secrets are treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum References {
    /// They are replaced by their values.
    #[default]
    Replace,
    /// They are kept, in the form of an `mcp.json`, and nothing is checked that depends on them.
    Keep,
}

impl<'a> ReadOptions<'a> {
    /// Reads without variables and without asking.
    #[must_use]
    pub fn new(file: &'a str) -> Self {
        Self {
            file,
            variables: &|_| None,
            disabled: &|_| false,
            switched: &|_| None,
            ask: &|_| None,
            secrets: None,
            references: References::Replace,
            keeps_instance: false,
        }
    }
}

impl ClientFile {
    /// Reads the text of a file.
    ///
    /// A name that ends with `.toml` stands for the form of Codex, `.yaml` and `.yml` for that of
    /// Goose or LibreChat; other files are JSON.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not JSON with comments, TOML or YAML, or has no section of
    /// servers. A mistake in one server is a warning, and that server is
    /// [`Transport::Unusable`].
    pub fn read(text: &str, options: &ReadOptions<'_>) -> Result<Self, ConfigError> {
        let file = options.file;
        let mut form = Form::detect(file, None);
        let converted = match form {
            Form::Codex => from_codex(text, file)?,
            Form::Yaml => from_yaml(text, file)?,
            _ => {
                let text = without_comments(text);
                if let Ok(root) = serde_json::from_str(&text) {
                    form = Form::detect(file, Some(&root));
                }
                return Self::read_json(&text, form, None, options);
            }
        };
        let mut read = Self::read_json(&converted.json, form, Some(converted.section), options)?;
        read.warnings.splice(0..0, converted.warnings);
        Ok(read)
    }

    /// Reads JSON without comments. `only` names the section of a converted file.
    fn read_json(
        text: &str,
        form: Form,
        only: Option<&str>,
        options: &ReadOptions<'_>,
    ) -> Result<Self, ConfigError> {
        let ReadOptions {
            file,
            variables,
            disabled,
            switched,
            ask,
            secrets,
            references,
            keeps_instance,
        } = *options;
        let reader = Reader { text, file, form, references };
        let mut warnings = Vec::new();
        let root: IndexMap<String, &RawValue> = serde_json::from_str(text).map_err(|error| {
            let mut problem = json_problem(&error, "an object with \"mcpServers\"");
            if looks_like_toml(text) {
                problem.push_str("; this looks like TOML: give a marquetry.toml with --config");
            }
            ConfigError {
                position: Some(position_of(&error, text)),
                ..ConfigError::of_file(file, problem)
            }
        })?;
        let sections: Vec<&[&str]> = match (&only, form) {
            (Some(section), _) => vec![std::slice::from_ref(section)],
            (None, Form::OpenCode) => vec![&["mcp"]],
            (None, _) => SECTIONS.to_vec(),
        };
        let Some((section, servers)) =
            sections.iter().find_map(|path| Some((path.join("."), find(&root, path)?)))
        else {
            let keys: Vec<&str> = root.keys().map(String::as_str).collect();
            let near = ["mcpServers", "servers"].into_iter().find_map(|key| nearest(key, &keys));
            let hint = near.map(|near| format!(" instead of {near:?}")).unwrap_or_default();
            return Err(ConfigError::of_file(file, format!("expected \"mcpServers\"{hint}")));
        };
        let entries: Members<&RawValue> = serde_json::from_str(servers.get())
            .map_err(|_| reader.error(&[&section], servers, "expected an object by server name"))?;

        let inputs = INPUTS.into_iter().find_map(|path| find(&root, path));
        // An input that cannot be parsed has no value. The error is reported where the input is
        // used.
        let inputs: Vec<Input> =
            inputs.and_then(|inputs| serde_json::from_str(inputs.get()).ok()).unwrap_or_default();
        let answers = RefCell::new(BTreeMap::new());
        let lists = ServerLists::of(&root, form, file, &mut warnings);
        let known_inputs = &inputs;
        let variables: Variables<'_> = &|name: &str| {
            let Some(id) = name.strip_prefix("input:") else { return variables(name) };
            let input = known_inputs.iter().find(|input| input.id == id)?;
            let mut answers = answers.borrow_mut();
            let answer = answers.entry(id.to_owned());
            answer.or_insert_with(|| ask(input).or_else(|| input.default.clone())).clone()
        };

        let mut sources = Sources::new(variables);
        if let Some(secrets) = secrets {
            sources = sources.with_secrets(secrets);
        }
        if keeps_instance {
            sources = sources.keeping(INSTANCE_ID);
        }

        for other in sections.iter().filter(|path| path.join(".") != section) {
            if find(&root, other).is_some() {
                let other = other.join(".");
                warnings.push(format!(
                    "{file}: {other:?} is not used; servers are read from {section:?}"
                ));
            }
        }
        if root.contains_key("projects") {
            warnings.push(format!(
                "{file}: \"projects\" is not used; copy the servers of a project to {section:?}"
            ));
        }

        let mut servers = IndexMap::new();
        for (name, entry) in entries.0 {
            let server = ServerReader { reader, section: &section, name: &name };
            let read = match server.read(
                entry,
                &sources,
                Switch {
                    disabled: disabled(&name) || lists.disable(&name, file, &mut warnings),
                    switched: switched(&name),
                },
                &mut warnings,
            ) {
                Ok(server) => server,
                // A mistake in one entry affects only that server.
                Err(error) => {
                    warnings.push(not_started(&name, &error));
                    ClientServer::new(Transport::Unusable {
                        kind: "invalid",
                        problem: error.to_string(),
                    })
                }
            };
            if servers.insert(name.clone(), read).is_some() {
                warnings
                    .push(format!("{file}: server {name:?} is defined twice; the later counts"));
            }
        }
        Ok(Self { servers, inputs, warnings })
    }
}

/// The lists of Gemini CLI that choose servers.
#[derive(Default)]
struct ServerLists {
    allowed: Option<Vec<String>>,
    excluded: Vec<String>,
}

impl ServerLists {
    fn of(
        root: &IndexMap<String, &RawValue>,
        form: Form,
        file: &str,
        warnings: &mut Vec<String>,
    ) -> Self {
        let members = root.get("mcp").and_then(|value| json_members(value.get()));
        let (Form::Gemini, Some(members)) = (form, members) else { return Self::default() };
        let mut lists = Self::default();
        for (key, value) in members {
            match (key.as_str(), serde_json::from_str::<Vec<String>>(value.get())) {
                ("allowed", Ok(names)) => lists.allowed = Some(names),
                ("excluded", Ok(names)) => lists.excluded = names,
                // VS Code keeps servers there; a file with both is reported with the sections.
                ("servers" | "inputs", _) => {}
                _ => warnings.push(format!("{file}: key \"mcp.{key}\" is not used")),
            }
        }
        lists
    }

    fn disable(&self, name: &str, file: &str, warnings: &mut Vec<String>) -> bool {
        let is_missing =
            self.allowed.as_ref().is_some_and(|allowed| !allowed.iter().any(|it| it == name));
        let is_excluded = self.excluded.iter().any(|it| it == name);
        if is_missing {
            warnings.push(format!("{file}: server {name:?} is off: \"mcp.allowed\" lacks it"));
        } else if is_excluded {
            warnings.push(format!("{file}: server {name:?} is off: \"mcp.excluded\" names it"));
        }
        is_missing || is_excluded
    }
}

/// A value that an editor asks its user for (VS Code, "inputs").
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Input {
    /// The id in `${input:ID}`.
    pub id: String,
    /// Description of the requested value, for the user.
    pub description: Option<String>,
    /// Whether the input must be hidden while it is typed.
    pub password: bool,
    /// The value of an empty answer.
    #[serde(deserialize_with = "lenient")]
    pub default: Option<String>,
    /// The values to choose from (`pickString`).
    #[serde(deserialize_with = "lenient_list")]
    pub options: Vec<PickOption>,
}

/// A value of a `pickString` input: a string, or an object with a label.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum PickOption {
    /// A string.
    Value(String),
    /// An object with a label.
    Labelled {
        /// The value.
        value: String,
    },
}

impl PickOption {
    /// Returns the value.
    #[must_use]
    pub fn value(&self) -> &str {
        match self {
            Self::Value(value) | Self::Labelled { value } => value,
        }
    }
}

/// Paths of the keys that may hold the servers. VS Code writes `mcp.servers` as one key or as two.
const SECTIONS: [&[&str]; 5] =
    [&["mcpServers"], &["servers"], &["context_servers"], &["mcp.servers"], &["mcp", "servers"]];

/// Paths of the keys that may hold the inputs of VS Code.
const INPUTS: [&[&str]; 3] = [&["inputs"], &["mcp.inputs"], &["mcp", "inputs"]];

const USED_KEYS: [&str; 21] = [
    "command",
    "args",
    "env",
    "envFile",
    "cwd",
    "url",
    "serverUrl",
    "httpUrl",
    "headers",
    "type",
    "transport",
    "transportType",
    "disabled",
    "enabled",
    "disabledTools",
    "enabledTools",
    "includeTools",
    "excludeTools",
    "tools",
    "source",
    "settings",
];

/// Keys that have no effect here and cause no warning: calls that a client makes without asking its
/// user (`autoApprove`), and descriptions.
const ACCEPTED_KEYS: [&str; 10] = [
    "autoApprove",
    "alwaysAllow",
    "trust",
    "name",
    "id",
    "description",
    "gallery",
    "version",
    "dev",
    "_comment",
];

/// Returns the warning that a server is not started, with the reason.
#[must_use]
pub fn not_started(name: &str, why: &ConfigError) -> String {
    format!("server {name:?} is not started: {why}")
}

/// Returns whether the first line with text opens a table or sets a key of TOML.
fn looks_like_toml(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim);
    let Some(line) = lines.find(|line| !line.is_empty() && !line.starts_with('#')) else {
        return false;
    };
    let is_table = line.starts_with('[') && line[1..].starts_with(|c: char| c.is_ascii_lowercase());
    let is_key = line.starts_with(|c: char| c.is_ascii_lowercase()) && line.contains(" = ");
    is_table || is_key
}

/// Returns the value at a path of keys.
fn find<'t>(root: &IndexMap<String, &'t RawValue>, path: &[&str]) -> Option<&'t RawValue> {
    let (first, rest) = path.split_first()?;
    let value = *root.get(*first)?;
    if rest.is_empty() {
        return Some(value);
    }
    find(&json_members(value.get())?, rest)
}

#[derive(Clone, Copy)]
struct Reader<'t> {
    text: &'t str,
    file: &'t str,
    form: Form,
    references: References,
}

impl Reader<'_> {
    fn error(self, key: &[&str], value: &RawValue, problem: impl Into<String>) -> ConfigError {
        let offset = offset_in(self.text, value.get()).filter(|_| self.form.has_positions());
        ConfigError::of_key(self.file, self.text, offset, key, problem)
    }
}

/// What others say about a server.
#[derive(Clone, Copy)]
struct Switch {
    /// See [`ReadOptions::disabled`].
    disabled: bool,
    /// See [`ReadOptions::switched`].
    switched: Option<bool>,
}

#[derive(Clone, Copy)]
struct ServerReader<'t> {
    reader: Reader<'t>,
    section: &'t str,
    name: &'t str,
}

impl<'t> ServerReader<'t> {
    fn read(
        self,
        entry: &'t RawValue,
        sources: &Sources<'_>,
        switch: Switch,
        warnings: &mut Vec<String>,
    ) -> Result<ClientServer, ConfigError> {
        let Reader { file, .. } = self.reader;
        let key = [self.section, self.name];
        if self.name.is_empty() {
            return Err(self.reader.error(&key, entry, "expected a name for the server"));
        }
        let members = json_members(entry.get()).ok_or_else(|| {
            self.reader.error(&key, entry, "expected an object with \"command\" or \"url\"")
        })?;
        let enabled = self.get(&members, "enabled", "true or false")?.unwrap_or(true);
        let is_off = self.get(&members, "disabled", "true or false")?.unwrap_or(false);
        let disabled = match switch.switched {
            Some(is_on) => !is_on,
            None => switch.disabled || !enabled || is_off,
        };
        for unknown in members.keys().filter(|key| !self.is_known(key)) {
            let hint = match unknown.as_str() {
                // Clients count in seconds or in milliseconds.
                "timeout" | "tool_timeout_sec" => {
                    "; set call_timeout_ms of this server in marquetry.toml".to_owned()
                }
                "auth" | "oauth" => format!("; log in with \"marquetry login {}\"", self.name),
                _ => nearest(unknown, &USED_KEYS)
                    .map(|near| format!("; did you mean {near:?}?"))
                    .unwrap_or_default(),
            };
            warnings
                .push(format!("{file}: server {:?}: key {unknown:?} is not used{hint}", self.name));
        }
        let transport = match self.transport(entry, &members) {
            Ok(transport) => transport,
            // A server that is not started may be invalid.
            Err(_) if disabled => Transport::NotGiven,
            Err(fault) => return Err(fault),
        };
        let tools = self.tool_lists(&members)?;
        let env_file = self.get(&members, "envFile", "a string")?;
        let mut server = ClientServer { transport, env_file, is_disabled: disabled, tools };
        if disabled && self.reader.references == References::Replace {
            return Ok(server);
        }
        if let Transport::Unusable { problem, .. } = &server.transport {
            warnings.push(not_started(self.name, &self.reader.error(&key, entry, problem.clone())));
            return Ok(server);
        }
        server
            .transport
            .map_strings(&|text| self.reader.form.references(text, sources.variables()));
        if self.reader.references == References::Keep {
            return Ok(server);
        }
        if let Err(fault) = self.prepare(&members, sources, &mut server.transport) {
            let keys = &fault.path;
            let value = members.get(keys[0].as_str()).copied().unwrap_or(entry);
            let inner = keys.get(1).and_then(|name| json_members(value.get())?.get(name).copied());
            let path: Vec<&str> = [self.section, self.name]
                .into_iter()
                .chain(keys.iter().map(String::as_str))
                .collect();
            let located = self.reader.error(&path, inner.unwrap_or(value), fault.problem);
            if fault.is_invalid {
                return Err(located);
            }
            warnings.push(not_started(self.name, &located));
            server.transport = server.transport.unusable(located.to_string());
        }
        Ok(server)
    }

    /// Replaces the variables of the transport, checks it, and adds the variables of `envFile`.
    fn prepare(
        self,
        members: &IndexMap<String, &'t RawValue>,
        sources: &Sources<'_>,
        transport: &mut Transport,
    ) -> Result<(), EntryFault> {
        let checked = transport.expand(sources).and_then(|()| transport.check());
        checked.map_err(|error| EntryFault {
            is_invalid: matches!(error, TransportError::Wrong { .. }),
            path: error.path().to_vec(),
            problem: error.to_string(),
        })?;
        self.add_env_file(members, sources, transport).map_err(|problem| EntryFault {
            is_invalid: false,
            path: vec!["envFile".to_owned()],
            problem,
        })
    }

    fn transport(
        self,
        entry: &'t RawValue,
        members: &IndexMap<String, &'t RawValue>,
    ) -> Result<Transport, ConfigError> {
        let mut parts = TransportParts {
            args: self.scalars(members, "args")?,
            env: self.scalar_members(members, "env")?,
            cwd: self.get(members, "cwd", "a string")?,
            headers: self.scalar_members(members, "headers")?,
            ..TransportParts::default()
        };
        if self.reader.form == Form::OpenCode
            && let Some(env) = self.scalar_members(members, "environment")?
        {
            parts.env.get_or_insert_default().extend(env);
        }
        for key in ["type", "transport", "transportType"] {
            parts.kind = parts.kind.or(self.get(members, key, "a string")?);
        }
        for key in ["url", "httpUrl", "serverUrl"] {
            let Some(url) = self.get(members, key, "a string")? else { continue };
            // Gemini CLI prefers `httpUrl`, the older key for Streamable HTTP. It tries Streamable
            // HTTP for a `url` without a type, too (source of 0.61).
            if parts.url.is_none() || key == "httpUrl" {
                parts.url = Some(url);
            }
        }
        if parts.kind.as_deref() == Some("remote") {
            parts.kind = Some("http".to_owned());
        }
        self.command(members, &mut parts)?;
        let is_extension =
            parts.is_empty() && ["source", "settings"].iter().any(|key| members.contains_key(*key));
        if is_extension {
            let problem = "an extension of the editor knows how it is started; name its program in \"command\"";
            return Ok(Transport::Unusable { kind: "unsupported", problem: problem.to_owned() });
        }
        match parts.build() {
            Ok(transport) => Ok(transport),
            // The file belongs to other clients, which may support other transports.
            Err(fault @ TransportFault::Unknown(_)) => {
                Ok(Transport::Unusable { kind: "unsupported", problem: fault.to_string() })
            }
            Err(fault) => {
                Err(self.reader.error(&[self.section, self.name], entry, fault.to_string()))
            }
        }
    }

    /// Parses the program: a string; an array with its arguments; or (Zed until 2025) an object
    /// with `path`, `args` and `env`.
    fn command(
        self,
        members: &IndexMap<String, &'t RawValue>,
        parts: &mut TransportParts,
    ) -> Result<(), ConfigError> {
        const EXPECTED: &str = "a string";
        let Some(command) = members.get("command") else { return Ok(()) };
        match command.get().as_bytes()[0] {
            b'{' => {
                let inner = json_members(command.get()).unwrap_or_default();
                parts.command = self.get(&inner, "path", EXPECTED)?;
                if let Some(args) = self.scalars(&inner, "args")? {
                    parts.args.get_or_insert_default().splice(0..0, args);
                }
                if let Some(env) = self.scalar_members(&inner, "env")? {
                    parts.env.get_or_insert_default().extend(env);
                }
            }
            b'[' => {
                let mut all = self.scalars(members, "command")?.unwrap_or_default().into_iter();
                parts.command = all.next();
                parts.args.get_or_insert_default().splice(0..0, all);
            }
            _ => parts.command = self.get(members, "command", EXPECTED)?,
        }
        Ok(())
    }

    fn tool_lists(
        self,
        members: &IndexMap<String, &'t RawValue>,
    ) -> Result<ToolLists, ConfigError> {
        const EXPECTED: &str = "an array of strings";
        let mut lists = ToolLists::default();
        for key in ["enabledTools", "includeTools", "tools"] {
            lists.enabled.extend(self.get::<Vec<String>>(members, key, EXPECTED)?);
        }
        for key in ["disabledTools", "excludeTools"] {
            let disabled = self.get::<Vec<String>>(members, key, EXPECTED)?;
            lists.disabled.extend(disabled.unwrap_or_default());
        }
        Ok(lists)
    }

    fn is_known(self, key: &str) -> bool {
        let is_environment = key == "environment" && self.reader.form == Form::OpenCode;
        is_environment || USED_KEYS.contains(&key) || ACCEPTED_KEYS.contains(&key)
    }

    /// Adds the variables of `envFile`, over which those of `env` win.
    fn add_env_file(
        self,
        members: &IndexMap<String, &'t RawValue>,
        sources: &Sources<'_>,
        transport: &mut Transport,
    ) -> Result<(), String> {
        let Transport::Stdio { env, .. } = transport else { return Ok(()) };
        let path = match self.get::<String>(members, "envFile", "a string") {
            Ok(Some(path)) => path,
            Ok(None) => return Ok(()),
            Err(error) => return Err(error.problem),
        };
        let path = sources.expand(&path).map_err(|error| error.to_string())?;
        let workspace = sources.variables()("workspaceFolder").unwrap_or_default();
        for (name, value) in env_file::read(&PathBuf::from(workspace).join(&*path))? {
            env.entry(name).or_insert(value);
        }
        Ok(())
    }

    /// Returns the value of a member; `null` counts as absent.
    fn get<T: DeserializeOwned>(
        self,
        members: &IndexMap<String, &'t RawValue>,
        key: &str,
        expected: &str,
    ) -> Result<Option<T>, ConfigError> {
        let Some(value) = members.get(key) else { return Ok(None) };
        serde_json::from_str(value.get()).map_err(|_| {
            let path = [self.section, self.name, key];
            self.reader.error(&path, value, format!("expected {expected}"))
        })
    }

    fn scalars(
        self,
        members: &IndexMap<String, &'t RawValue>,
        key: &str,
    ) -> Result<Option<Vec<String>>, ConfigError> {
        let Some(value) = members.get(key) else { return Ok(None) };
        let scalars: Option<Vec<Scalar>> = serde_json::from_str(value.get()).map_err(|_| {
            let path = [self.section, self.name, key];
            self.reader.error(&path, value, "expected an array of strings")
        })?;
        Ok(scalars.map(|scalars| scalars.into_iter().map(|scalar| scalar.0).collect()))
    }

    /// Returns the members of an object of scalars; those that are `null` count as absent.
    fn scalar_members(
        self,
        members: &IndexMap<String, &'t RawValue>,
        key: &str,
    ) -> Result<Option<IndexMap<String, String>>, ConfigError> {
        let Some(value) = members.get(key) else { return Ok(None) };
        let scalars: Option<IndexMap<String, Option<Scalar>>> = serde_json::from_str(value.get())
            .map_err(|_| {
            let path = [self.section, self.name, key];
            self.reader.error(&path, value, "expected an object of strings")
        })?;
        Ok(scalars.map(|scalars| {
            scalars.into_iter().filter_map(|(name, value)| Some((name, value?.0))).collect()
        }))
    }
}

/// The reason why a server of the file cannot be used.
struct EntryFault {
    /// Whether the entry is invalid; otherwise something is missing here, such as a variable.
    is_invalid: bool,
    /// Path of the key within the entry.
    path: Vec<String>,
    problem: String,
}

fn position_of(error: &serde_json::Error, text: &str) -> Position {
    if error.is_eof() {
        // serde_json names the line after the last newline, which editors do not show.
        return Position::of(text, text.trim_end().len());
    }
    Position { line: error.line(), column: error.column().max(1) }
}

/// Returns serde_json's message without its position, which the error contains already.
fn json_problem(error: &serde_json::Error, expected: &str) -> String {
    if error.is_data() {
        return format!("expected {expected}");
    }
    if error.is_eof() {
        return "not valid JSON: the text ends too early".to_owned();
    }
    let message = error.to_string();
    let without_position = message.split(" at line ").next().unwrap_or(&message);
    format!("not valid JSON: {without_position}")
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn parsed(text: &str) -> Result<ClientFile, ConfigError> {
        parsed_asking(text, &|_| None)
    }

    fn parsed_asking(
        text: &str,
        ask: &dyn Fn(&Input) -> Option<String>,
    ) -> Result<ClientFile, ConfigError> {
        let options = ReadOptions {
            file: "mcp.json",
            variables: &variable,
            disabled: &|name| name == "known-off",
            switched: &|_| None,
            ask,
            ..ReadOptions::new("mcp.json")
        };
        ClientFile::read(text, &options)
    }

    fn variable(name: &str) -> Option<String> {
        let value = match name {
            "HOME" => "/home/me",
            "TOKEN" | "INPUT_SET" => "hush",
            "workspaceFolder" => "/work",
            _ => return None,
        };
        Some(value.to_owned())
    }

    /// Compares the errors, one on each line, in the order of `texts`. The mistake of one server is
    /// a warning.
    #[track_caller]
    fn check(texts: &[&str], want: Expect) {
        let mut errors = String::new();
        for text in texts {
            errors += &match parsed(text) {
                Ok(ClientFile { warnings, .. }) => warnings.join("; "),
                Err(error) => error.to_string(),
            };
            errors.push('\n');
        }
        want.assert_eq(&errors);
    }

    #[test]
    fn servers_of_every_kind() {
        let text = r#"{
            // In the form that an editor writes.
            "mcpServers": {
                "fs": {"command": "npx", "args": ["-y", "${HOME}/x"], "env": {"A": "${B:-b}"}, "cwd": null},
                "web": {"type": "streamable-http", "url": "http://127.0.0.1:1/mcp", "headers": {"X": "y"}},
                "off": {"command": "${NOT_SET}", "disabled": true}, /* the last one, */
            }
        }"#;
        let servers = parsed(text).unwrap().servers;
        assert_eq!(servers.keys().collect::<Vec<_>>(), ["fs", "web", "off"]);
        let Transport::Stdio { args, env, cwd, .. } = &servers["fs"].transport else { panic!() };
        assert_eq!((args[1].as_str(), env["A"].as_str(), cwd), ("/home/me/x", "b", &None));
        assert_eq!(servers["web"].transport.kind(), "http");
        assert!(servers["off"].is_disabled);
    }

    #[test]
    fn the_form_of_vs_code() {
        let text = r#"{"inputs": [], "servers": {"a": {"type": "stdio", "command": "x"}}}"#;
        assert_eq!(parsed(text).unwrap().servers.len(), 1);
    }

    #[test]
    fn keys_of_other_clients_are_warnings() {
        let text = r#"{"mcpServers": {"a": {"command": "x", "autoApprove": [], "comand": "y", "timeout": 5, "watch": 1}}}"#;
        let warnings = parsed(text).unwrap().warnings.join("\n");
        expect![[r#"
            mcp.json: server "a": key "comand" is not used; did you mean "command"?
            mcp.json: server "a": key "timeout" is not used; set call_timeout_ms of this server in marquetry.toml
            mcp.json: server "a": key "watch" is not used"#]]
        .assert_eq(&warnings);
    }

    #[test]
    fn disabled_servers_may_be_invalid() {
        let text = r#"{"mcpServers": {
            "a": {"command": "x", "url": "http://x", "disabled": true},
            "b": {"args": "-y", "disabled": true},
            "c": {"type": "ws", "disabled": true},
            "known-off": {"command": "${NOT_SET}", "url": "http://x"}
        }}"#;
        let ClientFile { servers, warnings, .. } = parsed(text).unwrap();
        assert!(servers.len() == 4 && servers.values().all(|server| server.is_disabled));
        assert_eq!(warnings, Vec::<String>::new());
    }

    #[test]
    fn a_type_that_only_others_know_is_a_warning() {
        let text =
            r#"{"mcpServers": {"a": {"type": "ws", "url": "ws://x"}, "b": {"command": "x"}}}"#;
        let ClientFile { servers, warnings, .. } = parsed(text).unwrap();
        let kinds: Vec<_> = servers.values().map(|server| server.transport.kind()).collect();
        assert_eq!(kinds, ["unsupported", "stdio"]);
        expect![[r#"server "a" is not started: mcp.json:1:22: mcpServers.a: unknown type "ws"; expected "stdio", "http", "streamable-http" or "sse""#]]
            .assert_eq(&warnings.join("\n"));
    }

    #[test]
    fn errors_name_file_place_server_and_key() {
        check(
            &[
                "{\n \"mcpServers\": {\"a\"}}",
                "[]",
                "# A comment.\n[gateway]\n",
                r#"{"mcpServer": {}}"#,
                r#"{"mcpServers": []}"#,
                "{\"mcpServers\": {\n  \"a\": \"x\"}}",
                r#"{"mcpServers": {"a": {"args": []}}}"#,
                r#"{"mcpServers": {"a": {"command": "x", "args": "-y"}}}"#,
                r#"{"mcpServers": {"a": {"command": "x", "url": "http://x"}}}"#,
                r#"{"mcpServers": {"a": {"command": " "}}}"#,
                "{\"mcpServers\": {\n  \"a\": {\n\n// the end\n\n",
                "",
                r#"{"mcpServers": {"a": {"url": "127.0.0.1:80/mcp"}}}"#,
                r#"{"mcpServers": {"a": {"url": "http://127.0.0.1:70335/mcp"}}}"#,
                r#"{"mcpServers": {"a": {"url": "http://exämple/o k"}}}"#,
                r#"{"mcpServers": {"a": {"url": "http://x", "headers": {"a b": "c"}}}}"#,
                r#"{"mcpServers": {"": {"command": "x"}}}"#,
            ],
            expect![[r#"
                mcp.json:2:20: not valid JSON: expected `:`
                mcp.json:1:1: expected an object with "mcpServers"
                mcp.json:1:1: not valid JSON: expected value; this looks like TOML: give a marquetry.toml with --config
                mcp.json: expected "mcpServers" instead of "mcpServer"
                mcp.json:1:16: mcpServers: expected an object by server name
                server "a" is not started: mcp.json:2:8: mcpServers.a: expected an object with "command" or "url"
                server "a" is not started: mcp.json:1:22: mcpServers.a: expected "command" (a program) or "url" (a server)
                server "a" is not started: mcp.json:1:47: mcpServers.a.args: expected an array of strings
                server "a" is not started: mcp.json:1:22: mcpServers.a: both "command" and "url" are given; expected one of them
                server "a" is not started: mcp.json:1:22: mcpServers.a: "command" is empty; expected a program to start
                mcp.json:2:9: not valid JSON: the text ends too early
                mcp.json:1:1: not valid JSON: the text ends too early
                server "a" is not started: mcp.json:1:30: mcpServers.a.url: expected a URL that begins with http:// or https://
                server "a" is not started: mcp.json:1:30: mcpServers.a.url: the port of the URL is not a number from 1 to 65535
                server "a" is not started: mcp.json:1:30: mcpServers.a.url: the host of the URL has the character 'ä'; write an international name in its ASCII form (xn--…)
                server "a" is not started: mcp.json:1:61: mcpServers.a.headers."a b": not a valid header name
                server "" is not started: mcp.json:1:21: mcpServers."": expected a name for the server
            "#]],
        );
    }

    #[test]
    fn a_mistake_in_one_entry_costs_that_server_alone() {
        let text = r#"{"mcpServers": {"a": null, "b": {"command": "x", "disabledTools": "t"}, "c": {"command": "x"}}}"#;
        let ClientFile { servers, warnings, .. } = parsed(text).unwrap();
        let kinds: Vec<_> = servers.values().map(|server| server.transport.kind()).collect();
        assert_eq!(kinds, ["invalid", "invalid", "stdio"]);
        assert_eq!(warnings.len(), 2, "{warnings:?}");
    }

    #[test]
    fn servers_at_a_second_place_are_a_warning() {
        let text = r#"{"mcpServers": {}, "servers": {"a": {}}, "projects": {"/x": {}}}"#;
        let warnings = parsed(text).unwrap().warnings.join("\n");
        expect![[r#"
            mcp.json: "servers" is not used; servers are read from "mcpServers"
            mcp.json: "projects" is not used; copy the servers of a project to "mcpServers""#]]
        .assert_eq(&warnings);
    }

    #[test]
    fn the_options_of_an_input_are_read() {
        let text = r#"{"inputs": [{"id": "k", "type": "pickString", "options": ["a", {"label": "B", "value": "b"}]}],
            "servers": {"a": {"command": "${input:k}"}}}"#;
        let file = parsed_asking(text, &|input| {
            let options: Vec<_> = input.options.iter().map(PickOption::value).collect();
            Some(options.join("-"))
        });
        assert_eq!(shown(&file.unwrap().servers["a"]), "a-b []");
    }

    /// Returns the command or URL of a server, as one line.
    fn shown(server: &ClientServer) -> String {
        fn pairs(map: &IndexMap<String, String>) -> String {
            map.iter().map(|(name, value)| format!(" {name}={value}")).collect()
        }
        let mut shown = match &server.transport {
            Transport::Stdio { command, args, env, cwd } => {
                let cwd = cwd.as_ref().map(|cwd| format!(" in {}", cwd.display()));
                format!("{command} {args:?}{}{}", pairs(env), cwd.unwrap_or_default())
            }
            Transport::Http { url, headers, .. } => {
                format!("{} {url}{}", server.transport.kind(), pairs(headers))
            }
            Transport::Unusable { kind, problem } => format!("unusable {kind}: {problem}"),
            Transport::NotGiven => "unknown".to_owned(),
        };
        for enabled in &server.tools.enabled {
            shown += &format!(" only {enabled:?}");
        }
        if !server.tools.disabled.is_empty() {
            shown += &format!(" without {:?}", server.tools.disabled);
        }
        if server.is_disabled { format!("{shown} (disabled)") } else { shown }
    }

    #[test]
    fn the_files_of_the_usual_clients_are_read() {
        for (client, text, want) in [
            (
                "Claude Desktop",
                r#"{"globalShortcut": "", "mcpServers": {"filesystem": {"command": "npx",
                    "args": ["-y", "@modelcontextprotocol/server-filesystem", "/Users/me/Desktop"]}}}"#,
                expect![[r#"
                    filesystem: npx ["-y", "@modelcontextprotocol/server-filesystem", "/Users/me/Desktop"]
                "#]],
            ),
            (
                "Claude Code, .mcp.json",
                r#"{"mcpServers": {
                    "api": {"type": "http", "url": "${BASE:-https://api.example}/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}},
                    "old": {"type": "sse", "url": "https://old.example/sse"},
                    "db": {"type": "stdio", "command": "${CLAUDE_PLUGIN_ROOT:-.}/db", "args": [], "env": {"PORT": 5432, "TLS": true, "NOTHING": null}}
                }}"#,
                expect![[r"
                    api: http https://api.example/mcp Authorization=Bearer hush
                    old: sse https://old.example/sse
                    db: ./db [] PORT=5432 TLS=true
                "]],
            ),
            (
                "VS Code, mcp.json",
                r#"{
                    // Asked for when the server starts.
                    "inputs": [
                        {"type": "promptString", "id": "key", "description": "Key", "password": true},
                        {"type": "pickString", "id": "region", "options": ["eu", "us"], "default": "eu"},
                        {"type": "promptString", "id": "set", "description": "From the environment"},
                    ],
                    "servers": {
                        "perplexity": {"type": "stdio", "command": "npx", "args": ["-y", "server-perplexity-ask", "--region=${input:region}"],
                            "env": {"KEY": "${input:set}", "DATA": "${workspaceFolder}/data", "HOME_2": "${userHome}"}, "dev": {"watch": "src/**"}},
                        "asked": {"type": "stdio", "command": "x", "env": {"KEY": "${input:key}"}},
                    },
                }"#,
                expect![[r#"
                    perplexity: npx ["-y", "server-perplexity-ask", "--region=eu"] KEY=hush DATA=/work/data HOME_2=/home/me
                    asked: unusable stdio: mcp.json:11:83: servers.asked.env.KEY: ${input:key} has no value: set the environment variable INPUT_KEY, or start "marquetry serve" in a terminal to be asked
                    ! server "asked" is not started: mcp.json:11:83: servers.asked.env.KEY: ${input:key} has no value: set the environment variable INPUT_KEY, or start "marquetry serve" in a terminal to be asked
                "#]],
            ),
            (
                "VS Code, settings.json",
                r#"{
                    "editor.fontSize": 14, /* the old position */
                    "mcp": {"inputs": [], "servers": {"time": {"command": "uvx", "args": ["mcp-server-time", "--local-timezone=Europe/Berlin"],}}},
                }"#,
                expect![[r#"
                    time: uvx ["mcp-server-time", "--local-timezone=Europe/Berlin"]
                "#]],
            ),
            (
                "VS Code, settings.json with one key",
                r#"{"mcp.servers": {"time": {"command": "uvx", "args": ["mcp-server-time"], "env": {"A": "${command:pick}"}}}}"#,
                expect![[r#"
                    time: unusable stdio: mcp.json:1:87: "mcp.servers".time.env.A: ${command:pick} cannot be used here: secrets are not read for this setting
                    ! server "time" is not started: mcp.json:1:87: "mcp.servers".time.env.A: ${command:pick} cannot be used here: secrets are not read for this setting
                "#]],
            ),
            (
                "Cursor",
                r#"{"mcpServers": {
                    "local": {"type": "stdio", "command": "python", "args": ["${workspaceFolder}${/}server.py"], "env": {"API_KEY": "${env:TOKEN}"}},
                    "remote": {"url": "https://api.example/mcp", "headers": {"Authorization": "Bearer ${env:TOKEN}"}, "auth": {"CLIENT_ID": "me"}}
                }}"#,
                expect![[r#"
                    local: python ["/work/server.py"] API_KEY=hush
                    remote: http https://api.example/mcp Authorization=Bearer hush
                    ! mcp.json: server "remote": key "auth" is not used; log in with "marquetry login remote"
                "#]],
            ),
            (
                "Windsurf",
                r#"{"mcpServers": {
                    "figma": {"serverUrl": "https://mcp.figma.example/mcp", "headers": {"X-Key": "${env:TOKEN}"}},
                    "github": {"command": "docker", "args": ["run", "-i", "--rm"], "disabledTools": ["delete_repo"], "alwaysAllow": ["search"], "disabled": false}
                }}"#,
                expect![[r#"
                    figma: http https://mcp.figma.example/mcp X-Key=hush
                    github: docker ["run", "-i", "--rm"] without ["delete_repo"]
                "#]],
            ),
            (
                "Gemini CLI, settings.json",
                r#"{"theme": "Default", "mcpServers": {
                    "http": {"httpUrl": "http://127.0.0.1:3000/mcp", "headers": {"Authorization": "Bearer t"}, "timeout": 5000, "trust": true},
                    "py": {"command": "python", "args": ["-m", "server", "--port", 8080], "cwd": "./mcp", "includeTools": ["safe", "other"], "excludeTools": ["other"]}
                }}"#,
                expect![[r#"
                    http: http http://127.0.0.1:3000/mcp Authorization=Bearer t
                    py: python ["-m", "server", "--port", "8080"] in ./mcp only ["safe", "other"] without ["other"]
                    ! mcp.json: server "http": key "timeout" is not used; set call_timeout_ms of this server in marquetry.toml
                "#]],
            ),
            (
                "Zed, settings.json",
                r#"{
                    // The form until 2025, the one after it, and an extension's.
                    "context_servers": {
                        "old": {"command": {"path": "node", "args": ["server.js"], "env": {"A": "1"}}, "settings": {}},
                        "new": {"source": "custom", "enabled": true, "command": "node", "args": ["server.js"], "env": {}},
                        "off": {"enabled": false, "command": "node"},
                        "remote": {"url": "https://example.com/mcp"},
                        "mcp-server-context7": {"source": "extension", "settings": {}},
                    },
                }"#,
                expect![[r#"
                    old: node ["server.js"] A=1
                    new: node ["server.js"]
                    off: node [] (disabled)
                    remote: http https://example.com/mcp
                    mcp-server-context7: unusable unsupported: an extension of the editor knows how it is started; name its program in "command"
                    ! server "mcp-server-context7" is not started: mcp.json:8:48: context_servers.mcp-server-context7: an extension of the editor knows how it is started; name its program in "command"
                "#]],
            ),
            (
                "Cline",
                r#"{"mcpServers": {"w": {"type": "streamableHttp", "url": "https://w.example/mcp", "disabled": false, "autoApprove": ["get"], "timeout": 60}}}"#,
                expect![[r#"
                    w: http https://w.example/mcp
                    ! mcp.json: server "w": key "timeout" is not used; set call_timeout_ms of this server in marquetry.toml
                "#]],
            ),
            (
                "GitHub Copilot",
                r#"{"mcpServers": {"sentry": {"type": "local", "command": "npx", "args": ["@sentry/mcp-server"], "tools": ["get_issue_details"], "env": {"HOST": "https://x"}}}}"#,
                expect![[r#"
                    sentry: npx ["@sentry/mcp-server"] HOST=https://x only ["get_issue_details"]
                "#]],
            ),
        ] {
            let ClientFile { servers, warnings, .. } =
                parsed(text).unwrap_or_else(|error| panic!("{client}: {error}"));
            let servers =
                servers.iter().map(|(name, server)| format!("{name}: {}\n", shown(server)));
            let warnings = warnings.iter().map(|warning| format!("! {warning}\n"));
            want.assert_eq(&servers.chain(warnings).collect::<String>());
        }
    }

    #[test]
    fn an_unset_variable_makes_one_server_unusable_and_no_other() {
        let text = r#"{"mcpServers": {
            "files": {"command": "npx", "args": ["${HOME}/notes"]},
            "search": {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${SEARCH_TOKEN}"}}
        }}"#;
        let ClientFile { servers, warnings, .. } = parsed(text).unwrap();
        assert_eq!(servers["files"].transport.kind(), "stdio");
        let Transport::Unusable { kind: "http", problem } = &servers["search"].transport else {
            panic!("{servers:?}")
        };
        let want = "mcp.json:3:87: mcpServers.search.headers.Authorization: the environment variable SEARCH_TOKEN is not set; set it, or give a default with ${SEARCH_TOKEN:-…}";
        assert_eq!(problem, want);
        assert_eq!(warnings, [format!("server \"search\" is not started: {want}")]);
    }

    #[test]
    fn the_example_of_the_readme_works_as_printed() {
        let readme = include_str!("../../../README.md");
        let example = readme.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
        let ClientFile { servers, warnings, .. } = parsed(example).unwrap();
        assert_eq!(
            shown(&servers["files"]),
            r#"npx ["-y", "@modelcontextprotocol/server-filesystem", "/home/me/notes"]"#
        );
        // Without the token, only this server is missing.
        assert!(shown(&servers["search"]).contains("SEARCH_TOKEN is not set"), "{servers:?}");
        assert_eq!((servers.len(), warnings.len()), (2, 1));
    }

    #[test]
    fn inputs_are_asked_for_once() {
        let text = r#"{"inputs": [{"id": "k", "description": "Key", "password": true}],
            "servers": {"a": {"command": "${input:k}"}, "b": {"command": "${input:k}"}, "c": {"command": "${input:unknown}"}}}"#;
        let asked = std::cell::Cell::new(0);
        let file = parsed_asking(text, &|input| {
            assert_eq!((input.description.as_deref(), input.password), (Some("Key"), true));
            asked.set(asked.get() + 1);
            Some("typed".to_owned())
        });
        let servers = file.unwrap().servers;
        let kinds: Vec<_> = servers.values().map(shown).collect();
        assert_eq!((kinds[0].as_str(), kinds[1].as_str()), ("typed []", "typed []"));
        assert!(kinds[2].contains("INPUT_UNKNOWN"), "{kinds:?}");
        assert_eq!(asked.get(), 1);
    }

    #[test]
    fn variables_come_from_a_file_where_env_does_not_set_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.env");
        std::fs::write(&path, "A=file\nB=${HOME}\n").unwrap();
        let said = with_env_file(path.to_str().unwrap());
        assert_eq!(said, "x [] A=env B=${HOME}");
        let said = with_env_file("${workspaceFolder}/none");
        assert!(said.contains("mcpServers.a.envFile: /work/none cannot be read: "), "{said}");
    }

    /// Returns the server of a file that names this file of variables.
    fn with_env_file(path: &str) -> String {
        let server = serde_json::json!({"command": "x", "envFile": path, "env": {"A": "env"}});
        let text = serde_json::json!({"mcpServers": {"a": server}}).to_string();
        shown(&parsed(&text).unwrap().servers["a"])
    }

    #[test]
    fn a_name_that_comes_twice_is_a_warning() {
        let text = r#"{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}"#;
        let ClientFile { servers, warnings, .. } = parsed(text).unwrap();
        assert_eq!(shown(&servers["a"]), "y []");
        assert_eq!(warnings, ["mcp.json: server \"a\" is defined twice; the later counts"]);
    }
}
