//! The forms of files beside the usual `mcp.json`: Codex, opencode, Goose, LibreChat, Gemini CLI.
//!
//! TOML and YAML are converted to the JSON that the reader knows; their errors have no positions.

use indexmap::IndexMap;
use serde_json::{Map, Value, json};
use toml::de::{DeTable, DeValue};

use crate::{
    error::{ConfigError, Position},
    expand::Variables,
};

/// The client whose form a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// JSON with `mcpServers`, `servers` or `context_servers`, which most clients share.
    Common,
    /// JSON of Gemini CLI, which also replaces `$VAR`.
    Gemini,
    /// JSON of opencode: `mcp`, and references such as `{env:VAR}`.
    OpenCode,
    /// TOML of Codex: tables `mcp_servers.NAME`.
    Codex,
    /// YAML of Goose (`extensions`) or LibreChat (`mcpServers`).
    Yaml,
}

impl Form {
    /// Returns the form that the name of a file and its keys show.
    pub(crate) fn detect(file: &str, root: Option<&IndexMap<String, Value>>) -> Self {
        let name = file.rsplit(['/', '\\']).next().unwrap_or(file).to_ascii_lowercase();
        if name.ends_with(".toml") {
            return Self::Codex;
        }
        if name.ends_with(".yaml") || name.ends_with(".yml") {
            return Self::Yaml;
        }
        let Some(root) = root else { return Self::Common };
        let servers = root.get("mcpServers").and_then(Value::as_object);
        if let Some(servers) = servers {
            let is_gemini = file.split(['/', '\\']).any(|part| part == ".gemini")
                || servers.values().any(|server| server.get("httpUrl").is_some());
            return if is_gemini { Self::Gemini } else { Self::Common };
        }
        let is_other = ["servers", "context_servers", "mcp.servers"];
        let entries = root.get("mcp").and_then(Value::as_object);
        match entries {
            Some(entries)
                if !is_other.iter().any(|key| root.contains_key(*key))
                    && entries.values().all(is_opencode_entry) =>
            {
                Self::OpenCode
            }
            _ => Self::Common,
        }
    }

    /// Returns a string of the file with its references written as this crate knows them.
    pub(crate) fn references(self, text: &str, variables: Variables<'_>) -> String {
        match self {
            Self::Gemini => gemini_references(text, variables),
            Self::OpenCode => opencode_references(text),
            // The conversion has done it.
            Self::Codex | Self::Common | Self::Yaml => text.to_owned(),
        }
    }

    /// Returns whether errors have positions in the file.
    pub(crate) fn has_positions(self) -> bool {
        !matches!(self, Self::Codex | Self::Yaml)
    }
}

/// A server of opencode; one that only changes a server defined elsewhere has `enabled` alone.
fn is_opencode_entry(entry: &Value) -> bool {
    let kind = entry.get("type").and_then(Value::as_str);
    let is_switch = entry.as_object().is_some_and(|it| it.keys().all(|key| key == "enabled"));
    matches!(kind, Some("local" | "remote")) || (is_switch && entry.get("enabled").is_some())
}

/// Replaces `$VAR` by `${VAR}`. Gemini CLI leaves a variable that is not set as it is, which is
/// kept for `$VAR`: a password may contain a dollar sign.
fn gemini_references(text: &str, variables: Variables<'_>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let length =
            after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
        let name = &after[..length];
        let starts_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if starts_name && variables(name).is_some() {
            out.push_str(&format!("${{{name}}}"));
        } else {
            out.push('$');
            out.push_str(name);
        }
        rest = &after[length..];
    }
    out.push_str(rest);
    out
}

/// Replaces `{env:VAR}` and `{file:PATH}`. A variable that is not set is empty there.
fn opencode_references(text: &str) -> String {
    let escaped = text.replace("${", "$${");
    let mut out = String::with_capacity(escaped.len());
    let mut rest = &*escaped;
    while let Some(at) = rest.find('{') {
        out.push_str(&rest[..at]);
        let inside = rest[at + 1..].split_once('}');
        match inside {
            Some((reference, after)) if reference.starts_with("env:") => {
                out.push_str(&format!("${{{}:-}}", &reference[4..]));
                rest = after;
            }
            Some((reference, after)) if reference.starts_with("file:") => {
                out.push_str(&format!("${{{reference}}}"));
                rest = after;
            }
            _ => {
                out.push('{');
                rest = &rest[at + 1..];
            }
        }
    }
    out.push_str(rest);
    out
}

/// Servers in the usual form, made from TOML or YAML.
#[derive(Debug)]
pub(crate) struct Converted {
    /// The key of the servers, as the file has it.
    pub(crate) section: &'static str,
    /// JSON with that key.
    pub(crate) json: String,
    pub(crate) warnings: Vec<String>,
}

/// Converts Codex's `config.toml`.
///
/// # Errors
///
/// Returns an error if the text is not TOML, or if it has no `mcp_servers`.
pub(crate) fn from_codex(text: &str, file: &str) -> Result<Converted, ConfigError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let root = DeTable::parse(text).map_err(|error| ConfigError {
        position: error.span().map(|span| Position::of(text, span.start)),
        ..ConfigError::of_file(file, format!("not valid TOML: {}", error.message().trim()))
    })?;
    let Some(found) = root.get_ref().get("mcp_servers") else {
        let problem = "expected a table \"mcp_servers\"; settings of Marquetry go to --config";
        return Err(ConfigError::of_file(file, problem));
    };
    let DeValue::Table(servers) = found.get_ref() else {
        return Err(ConfigError::of_file(file, "mcp_servers: expected a table by server name"));
    };
    let mut warnings = Vec::new();
    let mut converted = Map::new();
    for (name, entry) in in_order(servers) {
        let value = match json_of(entry) {
            Value::Object(mut entry) => {
                // Settings of tools by name; other clients have a list of this name.
                if entry.contains_key("tools") {
                    warnings.push(format!("{file}: server {name:?}: key \"tools\" is not used"));
                    entry.shift_remove("tools");
                }
                Value::Object(codex_entry(entry))
            }
            other => other,
        };
        converted.insert(name.to_owned(), value);
    }
    let json = json!({"mcp_servers": converted}).to_string();
    Ok(Converted { section: "mcp_servers", json, warnings })
}

fn codex_entry(mut entry: Map<String, Value>) -> Map<String, Value> {
    rename(&mut entry, "http_headers", "headers");
    rename(&mut entry, "enabled_tools", "enabledTools");
    rename(&mut entry, "disabled_tools", "disabledTools");
    // Strings of Codex are literal; what is added below refers to the environment.
    escape_references(&mut entry);
    let mut headers = Map::new();
    if let Some(Value::String(variable)) = entry.get("bearer_token_env_var") {
        headers.insert("Authorization".to_owned(), format!("Bearer ${{{variable}}}").into());
        entry.shift_remove("bearer_token_env_var");
    }
    if let Some(Value::Object(named)) = entry.get("env_http_headers")
        && named.values().all(Value::is_string)
    {
        for (header, variable) in named {
            let variable = variable.as_str().unwrap_or_default();
            headers.insert(header.clone(), format!("${{{variable}}}").into());
        }
        entry.shift_remove("env_http_headers");
    }
    if let Some(Value::Array(names)) = entry.get("env_vars")
        && names.iter().all(Value::is_string)
    {
        let passed: Map<String, Value> = names
            .iter()
            .filter_map(Value::as_str)
            .map(|name| (name.to_owned(), format!("${{{name}:-}}").into()))
            .collect();
        entry.shift_remove("env_vars");
        add_members(&mut entry, "env", passed);
    }
    add_members(&mut entry, "headers", headers);
    entry
}

/// Converts the YAML of Goose or LibreChat.
///
/// # Errors
///
/// Returns an error if the text is not YAML, or if it has neither `extensions` nor `mcpServers`.
pub(crate) fn from_yaml(text: &str, file: &str) -> Result<Converted, ConfigError> {
    let root: IndexMap<String, Value> = serde_yaml::from_str(text).map_err(|error| {
        let position = error.location().map(|location| Position {
            line: location.line() as usize,
            column: location.column() as usize,
        });
        let message = error.without_snippet().to_string();
        let message = message.lines().next().unwrap_or_default();
        ConfigError { position, ..ConfigError::of_file(file, format!("not valid YAML: {message}")) }
    })?;
    if let Some(servers) = root.get("mcpServers") {
        return librechat(servers, file);
    }
    if let Some(extensions) = root.get("extensions") {
        return goose(extensions, file);
    }
    let problem = "expected \"extensions\" (Goose) or \"mcpServers\" (LibreChat)";
    Err(ConfigError::of_file(file, problem))
}

fn librechat(servers: &Value, file: &str) -> Result<Converted, ConfigError> {
    let servers = entries_of(servers, "mcpServers", file)?;
    let mut warnings = Vec::new();
    for (name, entry) in &servers {
        if entry.to_string().contains("{{") {
            warnings.push(format!(
                "{file}: server {name:?}: LibreChat fills in \"{{{{…}}}}\" for each user; here it \
                 stays as it is"
            ));
        }
    }
    let json = json!({"mcpServers": servers}).to_string();
    Ok(Converted { section: "mcpServers", json, warnings })
}

fn goose(extensions: &Value, file: &str) -> Result<Converted, ConfigError> {
    let mut warnings = Vec::new();
    let mut servers = Map::new();
    for (name, entry) in entries_of(extensions, "extensions", file)? {
        let kind = entry.get("type").and_then(Value::as_str).unwrap_or_default();
        if matches!(kind, "builtin" | "platform" | "frontend" | "inline_python") {
            warnings.push(format!(
                "{file}: extension {name:?} of type {kind:?} runs within Goose, and is left out"
            ));
            continue;
        }
        let value = match entry {
            Value::Object(entry) => Value::Object(goose_entry(entry, &name, file, &mut warnings)),
            other => other,
        };
        servers.insert(name, value);
    }
    let json = json!({"extensions": servers}).to_string();
    Ok(Converted { section: "extensions", json, warnings })
}

fn goose_entry(
    mut entry: Map<String, Value>,
    name: &str,
    file: &str,
    warnings: &mut Vec<String>,
) -> Map<String, Value> {
    rename(&mut entry, "cmd", "command");
    rename(&mut entry, "uri", "url");
    rename(&mut entry, "envs", "env");
    // These describe the extension to people.
    for key in ["bundled", "display_name"] {
        entry.shift_remove(key);
    }
    match entry.shift_remove("available_tools") {
        // An empty list stands for all tools.
        Some(Value::Array(tools)) if tools.is_empty() => {}
        Some(tools) => _ = entry.insert("enabledTools".to_owned(), tools),
        None => {}
    }
    if let Some(Value::Array(keys)) = entry.shift_remove("env_keys")
        && !keys.is_empty()
    {
        let names: Vec<&str> = keys.iter().filter_map(Value::as_str).collect();
        warnings.push(format!(
            "{file}: extension {name:?}: Goose keeps {} in its keyring; set environment variables \
             of these names",
            names.join(", ")
        ));
        let from_environment: Map<String, Value> =
            names.iter().map(|key| ((*key).to_owned(), format!("${{{key}}}").into())).collect();
        add_members(&mut entry, "env", from_environment);
    }
    if entry.contains_key("url") {
        let env = match entry.shift_remove("env") {
            Some(Value::Object(env)) => env,
            _ => Map::new(),
        };
        // Goose replaces the extension's own variables in the URL and the headers.
        for key in ["url", "headers"] {
            if let Some(value) = entry.get_mut(key) {
                replace_variables(value, &env);
            }
        }
    }
    entry
}

/// Replaces `${NAME}` by the extension's values.
fn replace_variables(value: &mut Value, env: &Map<String, Value>) {
    match value {
        Value::String(text) => {
            for (name, value) in env {
                let Some(value) = value.as_str() else { continue };
                *text = text.replace(&format!("${{{name}}}"), value);
            }
        }
        Value::Object(members) => {
            for value in members.values_mut() {
                replace_variables(value, env);
            }
        }
        _ => {}
    }
}

fn entries_of(value: &Value, section: &str, file: &str) -> Result<Map<String, Value>, ConfigError> {
    match value {
        Value::Object(entries) => Ok(entries.clone()),
        // YAML: a key without a value.
        Value::Null => Ok(Map::new()),
        _ => {
            let problem = format!("{section}: expected an object by server name");
            Err(ConfigError::of_file(file, problem))
        }
    }
}

fn rename(entry: &mut Map<String, Value>, from: &str, to: &str) {
    // If both keys are there, the one of the client is reported as unknown.
    if !entry.contains_key(to)
        && let Some(value) = entry.shift_remove(from)
    {
        entry.insert(to.to_owned(), value);
    }
}

/// Adds members to an object of the entry; those that are there win.
fn add_members(entry: &mut Map<String, Value>, key: &str, members: Map<String, Value>) {
    if members.is_empty() {
        return;
    }
    let slot = entry.entry(key).or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(object) = slot {
        for (name, value) in members {
            object.entry(name).or_insert(value);
        }
    }
}

/// Escapes `${` in the strings of an entry, except the keys that name variables.
fn escape_references(entry: &mut Map<String, Value>) {
    fn escape(value: &mut Value) {
        match value {
            Value::String(text) => *text = text.replace("${", "$${"),
            Value::Array(items) => items.iter_mut().for_each(escape),
            Value::Object(members) => members.values_mut().for_each(escape),
            _ => {}
        }
    }
    entry.values_mut().for_each(escape);
}

/// Returns the members of a table in the order of the file.
fn in_order<'t>(table: &'t DeTable<'_>) -> Vec<(&'t str, &'t DeValue<'t>)> {
    let mut members: Vec<_> = table.iter().collect();
    members.sort_by_key(|(key, _)| key.span().start);
    members.into_iter().map(|(key, value)| (&**key.get_ref(), value.get_ref())).collect()
}

fn json_of(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => text.as_ref().into(),
        DeValue::Boolean(value) => (*value).into(),
        DeValue::Array(items) => items.iter().map(|item| json_of(item.get_ref())).collect(),
        DeValue::Table(table) => in_order(table)
            .into_iter()
            .map(|(key, value)| (key.to_owned(), json_of(value)))
            .collect(),
        DeValue::Integer(number) => {
            let text = number.as_str().replace('_', "");
            i64::from_str_radix(&text, number.radix()).map_or_else(|_| text.into(), Value::from)
        }
        DeValue::Float(number) => {
            let text = number.as_str().replace('_', "");
            text.parse::<f64>().map_or_else(|_| text.into(), Value::from)
        }
        DeValue::Datetime(value) => value.to_string().into(),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use crate::{ClientFile, ReadOptions, References};

    fn variable(name: &str) -> Option<String> {
        (name == "TOKEN").then(|| "hush".to_owned())
    }

    /// Compares the entries that `Keep` gives, one a line, and the warnings.
    #[track_caller]
    fn check(file: &str, text: &str, want: Expect) {
        let options = ReadOptions {
            variables: &variable,
            references: References::Keep,
            ..ReadOptions::new(file)
        };
        let shown = match ClientFile::read(text, &options) {
            Ok(read) => {
                let mut lines = String::new();
                for (name, server) in &read.servers {
                    let entry = server.to_entry().map(serde_json::Value::Object);
                    lines += &format!("{name}: {}\n", entry.unwrap_or_default());
                }
                for warning in &read.warnings {
                    lines += &format!("! {warning}\n");
                }
                lines
            }
            Err(error) => format!("{error}\n"),
        };
        want.assert_eq(&shown);
    }

    #[test]
    fn codex() {
        check(
            "/home/me/.codex/config.toml",
            r#"
model = "gpt-5"  # stays
[mcp_servers.docs]
command = "npx"
args = ["-y", "docs", "${LITERAL}"]
env = { "A" = "1" }
env_vars = ["TOKEN"]
cwd = "/srv"
startup_timeout_sec = 20
[mcp_servers.docs.tools.search]
approval_mode = "approve"
[mcp_servers.figma]
url = "https://mcp.figma.example/mcp"
bearer_token_env_var = "FIGMA_TOKEN"
http_headers = { "X-Region" = "eu" }
env_http_headers = { "X-Key" = "FIGMA_KEY" }
enabled_tools = ["get"]
enabled = false
tool_timeout_sec = 45.5
"#,
            expect![[r#"
                docs: {"command":"npx","args":["-y","docs","$${LITERAL}"],"env":{"A":"1","TOKEN":"${TOKEN:-}"},"cwd":"/srv"}
                figma: {"type":"http","url":"https://mcp.figma.example/mcp","headers":{"X-Region":"eu","Authorization":"Bearer ${FIGMA_TOKEN}","X-Key":"${FIGMA_KEY}"},"disabled":true,"enabledTools":["get"]}
                ! /home/me/.codex/config.toml: server "docs": key "tools" is not used
                ! /home/me/.codex/config.toml: server "docs": key "startup_timeout_sec" is not used
                ! /home/me/.codex/config.toml: server "figma": key "tool_timeout_sec" is not used; set call_timeout_ms of this server in marquetry.toml
            "#]],
        );
    }

    #[test]
    fn opencode() {
        check(
            "opencode.json",
            r#"{
                "$schema": "https://opencode.ai/config.json", // a comment
                "mcp": {
                    "db": {"type": "local", "command": ["bun", "x", "db"], "environment": {"KEY": "{env:KEY}", "LITERAL": "${X} {y}"}, "timeout": 5000},
                    "wiki": {"type": "remote", "url": "https://w.example/mcp", "headers": {"Authorization": "Bearer {env:TOKEN}", "X": "{file:~/k}"}, "enabled": false, "oauth": {}},
                    "jira": {"enabled": false},
                }
            }"#,
            expect![[r#"
                db: {"command":"bun","args":["x","db"],"env":{"KEY":"${KEY:-}","LITERAL":"$${X} {y}"}}
                wiki: {"type":"http","url":"https://w.example/mcp","headers":{"Authorization":"Bearer ${TOKEN:-}","X":"${file:~/k}"},"disabled":true}
                jira: null
                ! opencode.json: server "db": key "timeout" is not used; set call_timeout_ms of this server in marquetry.toml
                ! opencode.json: server "wiki": key "oauth" is not used; log in with "marquetry login wiki"
            "#]],
        );
    }

    #[test]
    fn gemini() {
        check(
            "/home/me/.gemini/settings.json",
            r#"{
                "mcp": {"allowed": ["a", "b"], "excluded": ["b"], "serverCommand": "x"},
                "mcpServers": {
                    "a": {"command": "npx", "args": ["$TOKEN", "${TOKEN}", "$UNSET-", "pa$$word$1"]},
                    "b": {"url": "https://b.example/mcp", "type": "http"},
                    "c": {"httpUrl": "https://c.example/mcp", "url": "https://c.example/sse"}
                }
            }"#,
            expect![[r#"
                a: {"command":"npx","args":["${TOKEN}","${TOKEN}","$UNSET-","pa$$word$1"]}
                b: {"type":"http","url":"https://b.example/mcp","disabled":true}
                c: {"type":"http","url":"https://c.example/mcp","disabled":true}
                ! /home/me/.gemini/settings.json: key "mcp.serverCommand" is not used
                ! /home/me/.gemini/settings.json: server "b" is off: "mcp.excluded" names it
                ! /home/me/.gemini/settings.json: server "c" is off: "mcp.allowed" lacks it
            "#]],
        );
    }

    #[test]
    fn goose() {
        check(
            "config.yaml",
            "
GOOSE_PROVIDER: openai
extensions:
  developer: {enabled: true, type: builtin, name: developer, bundled: true}
  github:
    enabled: true
    type: stdio
    name: GitHub
    cmd: npx
    args: [-y, server-github]
    envs: {HOST: github.example}
    env_keys: [GITHUB_TOKEN]
    timeout: 300
    available_tools: []
  web:
    enabled: false
    type: streamable_http
    uri: https://w.example/mcp
    envs: {KEY: k}
    headers: {X-Key: '${KEY}', X-Other: '${OTHER}'}
    available_tools: [get]
",
            expect![[r#"
                github: {"command":"npx","args":["-y","server-github"],"env":{"HOST":"github.example","GITHUB_TOKEN":"${GITHUB_TOKEN}"}}
                web: {"type":"http","url":"https://w.example/mcp","headers":{"X-Key":"k","X-Other":"${OTHER}"},"disabled":true,"enabledTools":["get"]}
                ! config.yaml: extension "developer" of type "builtin" runs within Goose, and is left out
                ! config.yaml: extension "github": Goose keeps GITHUB_TOKEN in its keyring; set environment variables of these names
                ! config.yaml: server "github": key "timeout" is not used; set call_timeout_ms of this server in marquetry.toml
            "#]],
        );
    }

    #[test]
    fn librechat() {
        check(
            "librechat.yaml",
            "
version: 1.3.0
mcpServers:
  files:
    command: npx # no type
    args: [-y, server-files]
    chatMenu: false
  web:
    type: streamable-http
    url: https://w.example/mcp
    headers: {Authorization: 'Bearer ${TOKEN}', X-User: '{{LIBRECHAT_USER_ID}}'}
  live:
    type: websocket
    url: wss://l.example
",
            expect![[r#"
                files: {"command":"npx","args":["-y","server-files"]}
                web: {"type":"http","url":"https://w.example/mcp","headers":{"Authorization":"Bearer ${TOKEN}","X-User":"{{LIBRECHAT_USER_ID}}"}}
                live: null
                ! librechat.yaml: server "web": LibreChat fills in "{{…}}" for each user; here it stays as it is
                ! librechat.yaml: server "files": key "chatMenu" is not used
                ! server "live" is not started: librechat.yaml: mcpServers.live: unknown type "websocket"; expected "stdio", "http", "streamable-http" or "sse"
            "#]],
        );
    }

    #[test]
    fn errors_name_the_file_and_what_was_expected() {
        for (file, text, want) in [
            (
                "c.toml",
                "a = 1",
                expect![[r#"
                c.toml: expected a table "mcp_servers"; settings of Marquetry go to --config
            "#]],
            ),
            (
                "c.toml",
                "mcp_servers = 1",
                expect![[r"
                c.toml: mcp_servers: expected a table by server name
            "]],
            ),
            (
                "c.yaml",
                "a: 1",
                expect![[r#"
                c.yaml: expected "extensions" (Goose) or "mcpServers" (LibreChat)
            "#]],
            ),
            (
                "c.yaml",
                "extensions: [1]",
                expect![[r"
                c.yaml: extensions: expected an object by server name
            "]],
            ),
        ] {
            check(file, text, want);
        }
        for (file, text, start) in [
            ("c.toml", "a = \n", "c.toml:1:"),
            ("c.toml", "[a]\n[a]\n", "c.toml:2:"),
            ("c.yaml", "a: [", "c.yaml:1:"),
            ("c.yaml", "\tx", "c.yaml:1:"),
        ] {
            let error = ClientFile::read(text, &ReadOptions::new(file)).unwrap_err().to_string();
            assert!(error.starts_with(start) && error.contains("not valid "), "{error}");
        }
    }

    #[test]
    fn references_of_each_form_are_replaced() {
        for (file, text, want) in [
            ("x/.gemini/settings.json", r#"{"mcpServers": {"a": {"command": "$TOKEN"}}}"#, "hush"),
            ("o.json", r#"{"mcp": {"a": {"type": "local", "command": ["{env:TOKEN}"]}}}"#, "hush"),
            ("c.toml", "[mcp_servers.a]\ncommand = '${TOKEN}'", "${TOKEN}"),
        ] {
            let options = ReadOptions { variables: &variable, ..ReadOptions::new(file) };
            let read = ClientFile::read(text, &options).unwrap();
            let crate::Transport::Stdio { command, .. } = &read.servers["a"].transport else {
                panic!("{read:?}")
            };
            assert_eq!(command, want, "{file}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "(?s).{0,80}", at in 0..3usize) {
            let file = ["a.toml", "a.yaml", "a.json"][at];
            _ = ClientFile::read(&text, &ReadOptions::new(file));
        }
    }
}
