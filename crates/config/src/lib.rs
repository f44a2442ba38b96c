#![doc = include_str!("../README.md")]

mod apps;
mod artifacts;
mod ask;
mod audit;
mod auth;
mod check;
mod console;
mod environment;
mod gateway;
mod gateway_options;
mod knowledge;
mod limits;
mod locate;
mod log;
mod login;
mod metrics;
mod pins;
mod plantuml;
mod policies;
mod policy;
mod reload;
mod secrets;
mod selection;
mod server;
mod source;
mod store_rights;
mod testing;
mod tool_overrides;
mod tools;
mod upstream;

#[cfg(test)]
mod example;

use std::{collections::BTreeMap, path::Path};

use indexmap::IndexMap;
use marquetry_client_files::{
    ClientFile, ClientServer, ReadOptions,
    expand::{Sources, workspace_of},
    not_started,
    transport::TransportError,
};
use marquetry_client_profiles::ClientOverrides;
use marquetry_nearest::nearest;
use marquetry_oauth::server::ResourceServer;
use marquetry_secrets::Secrets;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use marquetry_client_files::{ConfigError, Input, Position, Transport, Variables};

use crate::{
    environment::variable,
    secrets::SecretValues,
    sections::{
        AppsConfig, ArtifactsConfig, AskConfig, AuditConfig, AuthConfig, ConsoleConfig,
        GatewayConfig, Limits, LogConfig, MetricsConfig, PlantUmlConfig, PolicyConfig,
        ProfileConfig, ServerConfig, StoreKind, TestingConfig, ToolsConfig, UpstreamConfig,
    },
    source::Writers,
    upstream::{UpstreamTable, tool_filter},
};
pub use crate::{
    log::check_log_level,
    reload::ServerSwitches,
    server::parse_listen,
    source::{Loaded, load, load_with, user_servers},
};

/// The sections of the configuration, and the values of their settings.
pub mod sections {
    pub use marquetry_artifacts::settings::{
        InferenceDepth, InferenceDepthError, Oversize, Processing, ProcessingPatch, ResourceLinks,
        SettingsPatch, SizeMeasure, TextResources, YamlMimeType,
    };
    pub use marquetry_artifacts::{
        glob::Glob,
        settings::{Capture, CapturePolicy},
    };
    pub use marquetry_client_profiles::{ClientOverrides, ClientSettings, Shows};
    pub use marquetry_gateway::ToolFilter;
    pub use marquetry_knowledge::{
        KnowledgeConfig,
        config::{ChatConfig, EmbeddingConfig, EmbeddingProvider},
    };
    pub use marquetry_pins::PinMode;
    pub use marquetry_plantuml::Server as PlantUmlServer;
    pub use marquetry_protocol::Revision;

    pub use crate::{
        apps::{AppOnlyTools, AppsConfig, Gating},
        artifacts::{ArtifactPreset, ArtifactScope, ArtifactsConfig, StoreKind},
        ask::{AskConfig, AskSetting},
        audit::{AuditArguments, AuditConfig, AuditOnError, AuditOnFull},
        auth::{AuthConfig, TokenConfig},
        console::ConsoleConfig,
        gateway::{GatewayConfig, Separator},
        limits::Limits,
        log::{LogConfig, LogFormat},
        login::{LoginConfig, LoginGrant, SecretMethodName},
        metrics::MetricsConfig,
        plantuml::PlantUmlConfig,
        policy::{AccessConfig, PolicyConfig, ProfileConfig, RuleConfig},
        server::{ServerConfig, TlsConfig},
        testing::TestingConfig,
        tool_overrides::{FixedArguments, ToolName},
        tools::{ToolSearchConfig, ToolSearchMode, ToolsConfig},
        upstream::{IsolationSetting, Prefix, ToolConfig, UpstreamConfig},
    };
}

/// The name under which Marquetry lists its own tools beside those of its upstreams.
pub const SERVER_NAME: &str = "marquetry";

/// All settings, with their defaults.
///
/// ```
/// let config = marquetry_config::Config::from_toml("[server]\nlisten = '127.0.0.1:0'", "example")?;
/// assert_eq!(config.server.listen.port(), 0);
/// assert_eq!(config.artifacts.settings().mcp_tool_llm_return_max_bytes, 65_536);
///
/// let error = marquetry_config::Config::from_toml("[server]\nlisen = '127.0.0.1:0'", "example").unwrap_err();
/// assert_eq!(error.to_string(), r#"example:2:1: server.lisen: unknown key; did you mean "listen"?"#);
/// # Ok::<(), marquetry_config::ConfigError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Config {
    /// The address of the server, and who may call it.
    pub server: ServerConfig,
    /// Authentication of HTTP callers. Without `issuer` and `tokens`, every caller that can connect
    /// is accepted. With them, a token is required for `/mcp`, `/sse`, `/messages`, `/mcp/v1`,
    /// `/media`, `/api/tools` and `/api/console`. The paths `/`, `/livez`, `/readyz`, `/healthz`
    /// and the metadata for clients need no token; the details of `/healthz` need the scope
    /// `admin`.
    pub auth: AuthConfig,
    /// The log, which is written to standard error.
    pub log: LogConfig,
    /// The audit log: who did what, in a file.
    pub audit: AuditConfig,
    /// Metrics for Prometheus.
    pub metrics: MetricsConfig,
    /// Who may see and use which tools, prompts and resources. Without rules, every caller may use
    /// everything.
    pub policy: PolicyConfig,
    /// Parts of everything, by name: for a client that uses the URL `/mcp/profiles/NAME` or
    /// `marquetry stdio --profile NAME`. A profile narrows what `policy` allows.
    pub profiles: BTreeMap<String, ProfileConfig>,
    /// Names, starts and supervision of upstreams.
    pub gateway: GatewayConfig,
    /// Questions to a person before tools of upstreams are called.
    pub ask: AskConfig,
    /// Storage of large and binary tool answers as artifacts.
    pub artifacts: ArtifactsConfig,
    /// What clients show their models of an answer, by the beginning of the name that a client
    /// gives; `default` is for clients that are not known. A setting replaces that of the known
    /// profile. The name decides about formats only, never about rights.
    #[schemars(example = serde_json::json!({"my-agent": {"shows": "content", "max_tokens": 20_000}}))]
    pub clients: ClientOverrides,
    /// This server's own tools, by groups. Listed tools cost every conversation a few thousand
    /// tokens. A tool of a group that is off cannot be called.
    pub tools: ToolsConfig,
    /// The console in the browser.
    pub console: ConsoleConfig,
    /// MCP Apps: tools whose results a host shows in a View. Views of upstreams are passed on to
    /// clients that show them; other clients see the same tools as texts.
    pub apps: AppsConfig,
    /// The diagram tools.
    pub plantuml: PlantUmlConfig,
    /// Searchable documents and other records: the tools `am7_*` and the resources `am7://…`.
    pub knowledge: sections::KnowledgeConfig,
    /// Bounds on what clients, upstreams and tools may use.
    pub limits: Limits,
    /// The test API, and settings that make a run repeatable.
    pub testing: TestingConfig,
    /// The upstreams by name. When two offer the same name or resource, the first in this order
    /// keeps it.
    #[serde(skip_serializing)]
    #[schemars(with = "IndexMap<String, UpstreamTable>")]
    pub mcp_servers: IndexMap<String, UpstreamConfig>,
    /// Servers without a transport so far, each with the error to report if no `mcp.json` file adds
    /// one.
    #[serde(skip)]
    incomplete: IndexMap<String, ConfigError>,
    /// The position of each key in the TOML text, for errors that are found later.
    #[serde(skip)]
    positions: Positions,
    /// Warnings about the sources, one sentence each.
    #[serde(skip)]
    warnings: Vec<String>,
    /// The secrets that the sources refer to.
    #[serde(skip)]
    secrets: SecretValues,
    /// Servers that a person has switched on or off while the program runs.
    #[serde(skip)]
    switches: ServerSwitches,
}

/// Files and positions by dotted key. The position of a setting does not affect equality.
#[derive(Clone, Debug, Default)]
struct Positions(BTreeMap<String, (String, Position)>);

impl PartialEq for Positions {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Config {
    /// Reads TOML text; errors call it `file`.
    ///
    /// Environment variables and references to secrets are replaced at once; an upstream whose
    /// variable is not set, or whose secret cannot be read, becomes [`Transport::Unusable`].
    /// `${command:…}` starts a program only in [`Config::from_toml_file`], which knows who can
    /// write the text. A server without a program and a URL is an error only in [`Config::check`],
    /// since an `mcp.json` file may add them.
    ///
    /// # Errors
    ///
    /// Returns an error for the first unknown key, wrong type or impossible value.
    pub fn from_toml(text: &str, file: &str) -> Result<Self, ConfigError> {
        Self::from_toml_with(text, file, &variable)
    }

    /// Reads a TOML file.
    ///
    /// # Errors
    ///
    /// Returns an error as [`Config::from_toml`] does, and if the file cannot be read, or (on Unix)
    /// belongs to neither this user nor root, or is writable by others.
    pub fn from_toml_file(path: &Path) -> Result<Self, ConfigError> {
        Self::from_toml_file_with(path, &ServerSwitches::default())
    }

    pub(crate) fn from_toml_file_with(
        path: &Path,
        switches: &ServerSwitches,
    ) -> Result<Self, ConfigError> {
        let (text, file, _) = source::read(path, Writers::Owner)?;
        let secrets = secrets::secrets_beside(path, None);
        Self::read_toml(&text, &file, &variable, &secrets, switches)
    }

    /// Adds the servers of a file of another client: `mcpServers`, VS Code's `servers` or
    /// `mcp.servers`, Zed's `context_servers`. A server that already exists keeps its prefix,
    /// capture settings and time limits, and gets the transport of this file. It is disabled if one
    /// of the sources disables it, and a tool is offered only if both allow it.
    ///
    /// Returns warnings for the log, one sentence each: keys that other clients may support and
    /// this server does not, and servers that cannot be used here.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not JSON (with comments and trailing commas), or has no
    /// section of servers. A mistake in one server is a warning.
    pub fn add_mcp_json(&mut self, text: &str, file: &str) -> Result<Vec<String>, ConfigError> {
        self.add_mcp_json_with(text, file, &variable, &Secrets::new(), &|_| None)
    }

    /// Adds the servers of another client's file, by its path; see [`Config::add_mcp_json`].
    ///
    /// # Errors
    ///
    /// Returns an error as [`Config::add_mcp_json`] does, and if the file cannot be read, or (on
    /// Unix) is writable by everybody.
    pub fn add_mcp_json_file(&mut self, path: &Path) -> Result<Vec<String>, ConfigError> {
        self.add_mcp_json_file_asking(path, &|_| None)
    }

    /// Adds servers as [`Config::add_mcp_json_file`] does. `ask` returns the value of each
    /// `${input:ID}` without an environment variable `INPUT_ID`.
    ///
    /// # Errors
    ///
    /// Returns an error as [`Config::add_mcp_json_file`] does.
    pub fn add_mcp_json_file_asking(
        &mut self,
        path: &Path,
        ask: &dyn Fn(&Input) -> Option<String>,
    ) -> Result<Vec<String>, ConfigError> {
        let (text, file, mut warnings) = source::read(path, Writers::Trusted)?;
        let secrets = secrets::secrets_beside(path, warnings.first());
        warnings.extend(self.add_mcp_json_with(&text, &file, &variable, &secrets, ask)?);
        Ok(warnings)
    }

    /// Stores data in the user's folders unless the configuration names another path, as the
    /// program `marquetry` does: the database of knowledge and the last known tools of upstreams in
    /// `$XDG_DATA_HOME/marquetry` (`~/.local/share/marquetry`), tokens of upstreams, pins and
    /// decisions about calls in `$XDG_STATE_HOME/marquetry` (`~/.local/state/marquetry`). It also
    /// looks for `plantuml` on the `PATH` (`plantuml.engine = "auto"`). Without a call of this
    /// method, a server writes only to paths that its configuration names, and starts only programs
    /// that it names.
    #[must_use]
    pub fn with_user_folders(mut self) -> Self {
        if self.knowledge.database.is_none() {
            let database = knowledge::user_database(&|name| std::env::var_os(name));
            self.knowledge.database =
                database.and_then(|path| path.into_os_string().into_string().ok());
        }
        if self.artifacts.savings_database.is_none() {
            self.artifacts.savings_database =
                knowledge::user_savings(&|name| std::env::var_os(name));
        }
        if self.gateway.credentials_directory.is_none() {
            self.gateway.credentials_directory =
                login::credentials_directory(&|name| std::env::var_os(name));
        }
        if self.gateway.tool_cache_directory.is_none() {
            self.gateway.tool_cache_directory =
                knowledge::user_tool_cache(&|name| std::env::var_os(name));
        }
        if self.gateway.pins_file.is_none() {
            self.gateway.pins_file = pins::user_pins(&|name| std::env::var_os(name));
        }
        if self.ask.decisions_file.is_none() {
            self.ask.decisions_file = ask::user_decisions(&|name| std::env::var_os(name));
        }
        self.plantuml.find_engine(std::env::var_os("PATH"));
        self
    }

    /// Returns and removes the warnings about the TOML text.
    pub fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// Returns the authenticator for HTTP, if `[auth]` is set.
    ///
    /// # Errors
    ///
    /// Returns an error if `[auth]` is invalid, or a token cannot be read.
    pub fn resource_server(&self) -> Result<Option<ResourceServer>, ConfigError> {
        self.auth
            .resource_server(&variable)
            .map_err(|(key, problem)| self.fault(&format!("auth.{key}"), problem))
    }

    /// Checks that the address to listen on is safe: it is loopback, or callers must authenticate.
    ///
    /// # Errors
    ///
    /// Returns an error if the address is not safe.
    pub fn check_exposure(&self) -> Result<(), ConfigError> {
        let address = self.server.listen;
        if address.ip().is_loopback() || self.auth.is_set() {
            return Ok(());
        }
        let problem = format!(
            "{address} can be reached from other machines, whose callers would need no token; set up [auth], listen on 127.0.0.1, or add \
             --insecure, and list the hosts in server.allowed_hosts"
        );
        Err(self.fault("server.listen", problem))
    }

    /// Returns an error about the setting `key`, with its position if a file has it.
    fn fault(&self, key: &str, problem: String) -> ConfigError {
        let (file, position) = match self.positions.0.get(key) {
            Some((file, position)) => (file.clone(), Some(*position)),
            None => ("configuration".to_owned(), None),
        };
        ConfigError { file, position, key: Some(key.to_owned()), problem }
    }

    /// Reads TOML text with these variables instead of the environment of the process; see
    /// [`Config::from_toml`].
    ///
    /// # Errors
    ///
    /// Returns an error as [`Config::from_toml`] does.
    pub fn from_toml_with(
        text: &str,
        file: &str,
        variables: Variables<'_>,
    ) -> Result<Self, ConfigError> {
        Self::read_toml(text, file, variables, &Secrets::new(), &ServerSwitches::default())
    }

    fn read_toml(
        text: &str,
        file: &str,
        variables: Variables<'_>,
        secrets: &Secrets,
        switches: &ServerSwitches,
    ) -> Result<Self, ConfigError> {
        let variables: Variables<'_> = &with_positions(file, variables);
        let sources = Sources::new(variables).with_secrets(secrets);
        let mut config: Self = toml::from_str(text).map_err(|e| toml_error(text, file, &e))?;
        let positions = locate::toml_offsets(text).into_iter();
        let positions = positions.map(|(key, at)| (key, (file.to_owned(), Position::of(text, at))));
        config.positions.0.extend(positions);
        config.switches = switches.clone();
        for (name, upstream) in &mut config.mcp_servers {
            if let Some(is_on) = switches.get(name) {
                upstream.disabled = !is_on;
            }
            if upstream.disabled {
                continue;
            }
            if upstream.transport == Transport::NotGiven {
                let key = ["mcp_servers", name];
                let problem = "expected \"command\" (a program) or \"url\" (a server), here or for this name in an mcp.json file";
                let offset = locate::toml_offset(text, &key);
                let error = ConfigError::of_key(file, text, offset, &key, problem);
                config.incomplete.insert(name.clone(), error);
            }
            if let Err(error) = upstream.prepare(&sources) {
                let mut key = vec!["mcp_servers", name];
                key.extend(error.path().iter().map(String::as_str));
                let offset = locate::toml_offset(text, &key);
                let located = ConfigError::of_key(file, text, offset, &key, error.to_string());
                match &error {
                    TransportError::Expand { error, .. } if error.is_missing_value() => {
                        upstream.make_unusable(located.to_string());
                        config.warnings.push(not_started(name, &located));
                    }
                    _ => return Err(located),
                }
            }
        }
        // Before an error is returned, which others show.
        config.secrets.add(secrets);
        config.expand_settings(&sources)?;
        config.secrets.add(secrets);
        if let Some(problem) = config.choose_store() {
            let key = ["artifacts", "store"];
            let offset = locate::toml_offset(text, &key);
            return Err(ConfigError::of_key(file, text, offset, &key, problem));
        }
        Ok(config)
    }

    /// Sets the store of artifacts by the settings beside it, if it is not set. Returns a problem
    /// if its own setting is missing. [`Config::unused_store_settings`] reports those of other
    /// stores.
    fn choose_store(&mut self) -> Option<&'static str> {
        let is_set = self.positions.0.contains_key("artifacts.store");
        let artifacts = &mut self.artifacts;
        let is_there = (artifacts.directory.is_some(), artifacts.bucket.is_some());
        match (artifacts.store, is_there) {
            (StoreKind::Directory, (false, _)) => {
                Some("the directory store needs \"directory\" in the same section")
            }
            (StoreKind::Bucket, (_, false)) => {
                Some("the bucket store needs \"bucket\" in the same section")
            }
            _ if is_set => None,
            // `Config::check` refuses both.
            (_, (true, _)) => {
                artifacts.store = StoreKind::Directory;
                None
            }
            (_, (false, true)) => {
                artifacts.store = StoreKind::Bucket;
                None
            }
            _ => None,
        }
    }

    fn add_mcp_json_with(
        &mut self,
        text: &str,
        file: &str,
        variables: Variables<'_>,
        secrets: &Secrets,
        ask: &dyn Fn(&Input) -> Option<String>,
    ) -> Result<Vec<String>, ConfigError> {
        let variables: Variables<'_> = &with_positions(file, variables);
        let options = ReadOptions {
            file,
            variables,
            disabled: &|name| self.mcp_servers.get(name).is_some_and(|known| known.disabled),
            switched: &|name| self.switches.get(name),
            ask,
            secrets: Some(secrets),
            keeps_instance: true,
            ..ReadOptions::new(file)
        };
        let ClientFile { servers, mut warnings, .. } = ClientFile::read(text, &options)?;
        self.secrets.add(secrets);
        for (name, server) in servers {
            let ClientServer { transport, is_disabled, tools, .. } = server;
            let filter = tool_filter(tools);
            let Some(known) = self.mcp_servers.get_mut(&name) else {
                let upstream = UpstreamConfig {
                    disabled: is_disabled,
                    filter,
                    ..UpstreamConfig::new(transport)
                };
                self.mcp_servers.insert(name, upstream);
                continue;
            };
            if known.transport != Transport::NotGiven {
                warnings.push(format!("{file}: server {name:?} replaces an earlier one"));
            }
            known.transport = transport;
            known.disabled |= is_disabled;
            known.filter.narrow(filter);
        }
        Ok(warnings)
    }
}

/// Returns `variables`, and those that depend on the folder of a file.
fn with_positions(file: &str, variables: Variables<'_>) -> impl Fn(&str) -> Option<String> {
    let workspace = workspace_of(Path::new(file));
    move |name| match name {
        "workspaceFolder" => Some(workspace.display().to_string()),
        "workspaceFolderBasename" => Some(workspace.file_name()?.to_string_lossy().into_owned()),
        _ => variables(name),
    }
}

/// Converts an error of TOML: adds the path of its key, and suggests a name for an unknown one.
fn toml_error(text: &str, file: &str, error: &toml::de::Error) -> ConfigError {
    let path = error.span().map(|span| locate::toml_path_at(text, &span)).unwrap_or_default();
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    const SECRET: [&str; 6] = ["command", "args", "auth", "env", "url", "headers"];
    let message = error.message();
    let is_secret = message.starts_with("invalid ")
        && match path.first() {
            Some(&"mcp_servers") => path.get(2).is_some_and(|key| SECRET.contains(key)),
            // A user may write a token in place of its variable's name.
            Some(&"auth") => true,
            _ => false,
        };
    let mut problem = problem(&if is_secret { without_value(message) } else { message.to_owned() });
    if text.trim_start().starts_with('{') {
        problem.push_str("; this looks like JSON: give an mcp.json with --mcp-config");
    }
    ConfigError::of_key(file, text, error.span().map(|span| span.start), &path, problem)
}

/// Removes the value from serde's message about a wrong type: ``string "hush", expected a map``
/// becomes `string, expected a map`.
fn without_value(message: &str) -> String {
    let value = message.find(['"', '`']);
    match (value, message.rfind(", expected ")) {
        (Some(value), Some(expected)) if value < expected => {
            format!("{}{}", message[..value].trim_end(), &message[expected..])
        }
        _ => message.to_owned(),
    }
}

/// Rewrites serde's message, with the nearest name in place of the list of all known names.
fn problem(message: &str) -> String {
    // The name of a Rust type means nothing to users.
    if let Some((found, _)) = message.split_once(", expected struct ") {
        return format!("{found}, expected a table");
    }
    for kind in ["field", "variant"] {
        let unknown = message.strip_prefix("unknown ").and_then(|m| m.strip_prefix(kind));
        let Some(unknown) = unknown else { continue };
        let mut names = unknown.split('`').skip(1).step_by(2);
        if let Some(name) = names.next() {
            // The path names the key already.
            let what = if kind == "field" { "key".to_owned() } else { format!("value {name:?}") };
            return unknown_name(&what, name, &names.collect::<Vec<_>>());
        }
    }
    // serde names Rust's types.
    ["usize", "u64", "u32"].iter().fold(message.to_owned(), |message, kind| {
        message
            .replace(&format!("a nonzero {kind}"), "a whole number from 1 on")
            .replace(&format!("expected {kind}"), "expected a whole number from 0 on")
    })
}

/// Returns `unknown key; did you mean "x"?`, or the list of all known names if none is similar.
fn unknown_name(what: &str, name: &str, known: &[&str]) -> String {
    match nearest(name, known) {
        Some(near) => format!("unknown {what}; did you mean {near:?}?"),
        None if known.is_empty() => format!("unknown {what}; none is known here"),
        None => {
            let list = known.iter().map(|k| format!("{k:?}")).collect::<Vec<_>>().join(", ");
            format!("unknown {what}; expected one of {list}")
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::sections::Capture;

    fn variables(name: &str) -> Option<String> {
        (name == "TOKEN").then(|| "secret".to_owned())
    }

    /// Checks the errors of `texts`, one on each line.
    #[track_caller]
    fn check(texts: &[&str], want: Expect) {
        let mut errors = String::new();
        for text in texts {
            let error = Config::from_toml_with(text, "m.toml", &variables).unwrap_err();
            errors.push_str(&format!("{error}\n"));
        }
        want.assert_eq(&errors);
    }

    #[test]
    fn an_empty_file_has_the_defaults() {
        assert_eq!(Config::from_toml("", "m.toml").unwrap(), Config::default());
    }

    #[test]
    fn unknown_keys_name_the_nearest() {
        check(
            &[
                "[servr]\n",
                "[server]\nlisten_on = '127.0.0.1:1'\n",
                "[log]\n\n  colour = 1\n",
                "[mcp_servers.a]\ncomand = 'x'\n",
                "[mcp_servers.a]\ncommand = 'x'\n[mcp_servers.a.tools.t]\ncapture = { oversized = 'withhold' }\n",
                "[artifacts]\nstore = 'directroy'\n",
            ],
            expect![[r#"
                m.toml:1:2: servr: unknown key; did you mean "server"?
                m.toml:2:1: server.listen_on: unknown key; did you mean "listen"?
                m.toml:3:3: log.colour: unknown key; expected one of "level", "format", "max_bytes_per_second"
                m.toml:2:1: mcp_servers.a.comand: unknown key; did you mean "command"?
                m.toml:4:13: mcp_servers.a.tools.t.capture.oversized: unknown key; did you mean "oversize"?
                m.toml:2:9: artifacts.store: unknown value "directroy"; did you mean "directory"?
            "#]],
        );
    }

    #[test]
    fn wrong_values_name_place_key_and_expectation() {
        check(
            &[
                "[server]\nlisten = true\n",
                "[server]\nlisten = 70000\n",
                "[server]\nlisten = 'here'\n",
                "[limits]\nmax_nesting = 0\n",
                "[limits]\nmax_nesting = -1\n",
                "[gateway]\nstart_timeout_ms = 0\n",
                "[mcp_servers.a]\ncommand = 'x'\nstart_timeout_ms = 0\n",
                "[gateway]\nseparator = '/'\n",
                "[mcp_servers.'a b']\ncommand = 'x'\ncapture = 3\n",
                "[mcp_servers.a]\ncommand = 'x'\nurl = 'http://x'\n",
                "[artifacts]\nstore = 'directory'\n",
                "[server\n",
                "a = 1\na = 2\n",
                "[server]\nallowed_origins = ['app.example']\n",
                "[server]\nallowed_origins = ['https://app.example/page']\n",
                "[server]\nallowed_origins = ['https://a.example', '*']\n",
                "[server]\nallowed_hosts = ['http://tools.example']\n",
                "[server]\nallowed_hosts = ['']\n",
            ],
            expect![[r#"
                m.toml:2:10: server.listen: invalid type: boolean `true`, expected an address with a port such as "127.0.0.1:3001", or a port
                m.toml:2:10: server.listen: 70000 is not a port; expected 0 to 65535
                m.toml:2:10: server.listen: "here" is not an address with a port; expected one like "127.0.0.1:3001", or a port alone
                m.toml:2:15: limits.max_nesting: invalid value: integer `0`, expected a whole number from 1 on
                m.toml:2:15: limits.max_nesting: invalid value: integer `-1`, expected a whole number from 1 on
                m.toml:2:20: gateway.start_timeout_ms: invalid value: integer `0`, expected a whole number from 1 on
                m.toml:3:20: mcp_servers.a.start_timeout_ms: invalid value: integer `0`, expected a whole number from 1 on
                m.toml:2:13: gateway.separator: "/" cannot separate names; expected 1 to 8 of letters, digits, _ - .
                m.toml:3:11: mcp_servers."a b".capture: invalid type: integer `3`, expected true, false or a table of capture settings
                m.toml:1:1: mcp_servers.a: both "command" and "url" are given; expected one of them
                m.toml:2:9: artifacts.store: the directory store needs "directory" in the same section
                m.toml:1:8: unclosed table, expected `]`
                m.toml:2:1: duplicate key
                m.toml:2:19: server.allowed_origins: "app.example" is not an origin; expected one like "https://app.example"
                m.toml:2:19: server.allowed_origins: "https://app.example/page" is not an origin; expected one like "https://app.example"
                m.toml:2:19: server.allowed_origins: "*" is not an origin; expected one like "https://app.example"
                m.toml:2:17: server.allowed_hosts: "http://tools.example" is not a host name; expected one like "tools.example" or "tools.example:8443"
                m.toml:2:17: server.allowed_hosts: "" is not a host name; expected one like "tools.example" or "tools.example:8443"
            "#]],
        );
    }

    #[test]
    fn directories_and_addresses_are_checked_before_the_start() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, "").unwrap();
        // A hidden file is not the user's.
        let empty = directory.path().join(".empty");
        std::fs::create_dir(&empty).unwrap();
        let no_directory = format!("{file:?} is not a directory");
        let other_files = format!(
            "{:?}: directory holds other files, such as \"file\"; name an empty directory, or one that does not exist yet, or keep artifacts in memory with artifacts.store = \"memory\"",
            directory.path()
        );
        for (path, problem) in [
            (empty, None),
            (directory.path().join("new/and/deep"), None),
            (directory.path().to_owned(), Some(other_files)),
            (file.clone(), Some(no_directory.clone())),
            (file.join("below"), Some(no_directory)),
        ] {
            let text = format!("[artifacts]\nstore = 'directory'\ndirectory = {path:?}\n");
            let checked = Config::from_toml(&text, "m.toml").unwrap().check();
            let problem = problem.map(|why| format!("m.toml:3:13: artifacts.directory: {why}"));
            assert_eq!(checked.err().map(|error| error.to_string()), problem);
        }
        assert!(!directory.path().join("new").exists(), "a check creates nothing");

        let exposed = Config::from_toml("[server]\nlisten = '0.0.0.0:1'\n", "m.toml").unwrap();
        let error = exposed.check_exposure().unwrap_err().to_string();
        assert!(
            error.starts_with("m.toml:2:10: server.listen: 0.0.0.0:1 can be reached"),
            "{error}"
        );
        Config::default().check_exposure().unwrap();
    }

    #[test]
    fn errors_show_no_secrets() {
        let texts = [
            "[mcp_servers.a]\nurl = 'http://x'\nheaders = 'Bearer hush, expected \"x\"'\n",
            "[mcp_servers.a]\nurl = 'http://x'\nheaders = { Authorization = 7777 }\n",
            "[mcp_servers.a]\ncommand = 'x'\nargs = '--token=hush'\n",
            "[mcp_servers.a]\ncommand = 'x'\nenv = ['KEY=hush']\n",
            "[mcp_servers.a]\ncommand = ['x', '--token=hush']\n",
            "[mcp_servers.a]\nurl = ['http://me:hush@x']\n",
            "[mcp_servers.a]\nurl = 'me:hush@x'\n",
            "[mcp_servers.a]\nurl = 'http://me:hush@x:hush/y'\n",
            "[mcp_servers.a]\nurl = 'http://x'\nauth = 'hush'\n",
            "[auth]\ntokens = { ci = 'hush' }\n",
            "[auth]\ntokens = 'hush'\n",
            "[auth]\nissuer = ['hush']\n",
        ];
        check(
            &texts,
            expect![[r"
                m.toml:3:11: mcp_servers.a.headers: invalid type: string, expected a map
                m.toml:3:29: mcp_servers.a.headers.Authorization: invalid type: integer, expected a string
                m.toml:3:8: mcp_servers.a.args: invalid type: string, expected a sequence
                m.toml:3:7: mcp_servers.a.env: invalid type: sequence, expected a map
                m.toml:2:11: mcp_servers.a.command: invalid type: sequence, expected a string
                m.toml:2:7: mcp_servers.a.url: invalid type: sequence, expected a string
                m.toml:2:7: mcp_servers.a.url: expected a URL that begins with http:// or https://
                m.toml:2:7: mcp_servers.a.url: the port of the URL is not a number from 1 to 65535
                m.toml:3:8: mcp_servers.a.auth: invalid type: string, expected a table
                m.toml:2:17: auth.tokens.ci: invalid type: string, expected a table
                m.toml:2:10: auth.tokens: invalid type: string, expected a map
                m.toml:2:10: auth.issuer: invalid type: sequence, expected a string
            "]],
        );
    }

    #[test]
    fn a_missing_variable_names_its_key_and_stops_one_server() {
        let text = "[mcp_servers.a]\ncommand = 'x'\n\n[mcp_servers.a.env]\nA = '${TOKEN}'\nB = '${NONE}'\n[mcp_servers.b]\ncommand = 'x'\n";
        let mut config = Config::from_toml_with(text, "m.toml", &variables).unwrap();
        let kinds: Vec<_> =
            config.mcp_servers.values().map(|server| server.transport.clone()).collect();
        let why = "m.toml:6:5: mcp_servers.a.env.B: the environment variable NONE is not set; set it, or give a default with ${NONE:-…}";
        assert_eq!(kinds[0], Transport::Unusable { kind: "stdio", problem: why.to_owned() });
        assert_eq!(kinds[1].kind(), "stdio");
        let warning = format!("server \"a\" is not started: {why}");
        assert_eq!(config.take_warnings(), [warning]);
        // A setting that can never work is an error of the file.
        check(
            &["[mcp_servers.a]\ncommand = '${NONE'\n"],
            expect![[r#"
                m.toml:2:11: mcp_servers.a.command: "${" without a closing "}"; write "$${" for a literal "${"
            "#]],
        );
        let text = "[mcp_servers.a]\nurl = 'http://x'\nheaders.authorization = 'Bearer ${TOKEN}'\n[mcp_servers.b]\ncommand = '${NONE}'\ndisabled = true\n";
        let config = Config::from_toml_with(text, "m.toml", &variables).unwrap();
        let Transport::Http { headers, .. } = &config.mcp_servers["a"].transport else { panic!() };
        assert_eq!(headers["authorization"], "Bearer secret");
    }

    #[test]
    fn mcp_json_may_add_the_server_to_settings_of_toml() {
        let text = "[mcp_servers.a]\nprefix = 'p'\n[mcp_servers.b]\ncapture = false\n[mcp_servers.c]\ndisabled = true\n";
        let mut config = Config::from_toml(text, "m.toml").unwrap();
        let missing = config.check().unwrap_err().to_string();
        assert!(
            missing.starts_with("m.toml:1:1: mcp_servers.a: expected \"command\""),
            "{missing}"
        );

        let json = r#"{"mcpServers": {"b": {"command": "b"}, "a": {"command": "a"}}}"#;
        assert_eq!(config.add_mcp_json(json, "mcp.json").unwrap(), Vec::<String>::new());
        assert_eq!(config.check(), Ok(()));
        assert_eq!(config.mcp_servers["a"].prefix.as_ref().unwrap().as_str(), "p");
        assert_eq!(config.mcp_servers["b"].capture, Capture::Switch(false));
        assert_eq!(config.mcp_servers["a"].transport.kind(), "stdio");
        let again = config.add_mcp_json(json, "other.json").unwrap();
        assert_eq!(again[0], "other.json: server \"b\" replaces an earlier one");
    }

    #[test]
    fn only_disabled_servers_may_be_invalid() {
        let text = "[mcp_servers.a]\ncommand = 'x'\nurl = 'http://x'\ndisabled = true\n[mcp_servers.b]\ntype = 'ws'\ndisabled = true\n";
        Config::from_toml(text, "m.toml").unwrap().check().unwrap();
        check(
            &["[mcp_servers.b]\ntype = 'ws'\n"],
            expect![[r#"
                m.toml:1:1: mcp_servers.b: unknown type "ws"; expected "stdio", "http", "streamable-http" or "sse"
            "#]],
        );
    }

    #[test]
    fn servers_keep_the_order_of_the_file() {
        let text = "mcp_servers.z.command = 'z'\nmcp_servers.a.command = 'a'\n";
        let config = Config::from_toml(text, "m.toml").unwrap();
        assert_eq!(config.mcp_servers.keys().collect::<Vec<_>>(), ["z", "a"]);
    }
}
