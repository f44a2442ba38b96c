//! Pins: where they are, what waits, and what they tell about the tools of servers.

use std::{ffi::OsString, path::PathBuf};

use marquetry_nearest::nearest;
use marquetry_pins::{Kind, PinFile, PinMode, StoredDefinition};
use marquetry_protocol::types::Tool;

use crate::{
    Config, ConfigError,
    environment::user_folder,
    sections::{ToolConfig, UpstreamConfig},
};

/// Returns the user's file of pins: below `$XDG_STATE_HOME` or `~/.local/state`.
pub(super) fn user_pins(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    Some(user_folder(variable, "XDG_STATE_HOME", ".local/state")?.join("marquetry/pins.json"))
}

impl Config {
    /// Returns what happens with the definitions of a server that differ from their pins.
    pub(crate) fn pin_mode(&self, upstream: &UpstreamConfig) -> PinMode {
        upstream.pins.unwrap_or(self.gateway.pins)
    }

    /// Returns an error if definitions are to be refused, and no file says which ones.
    pub(crate) fn pin_faults(&self) -> Option<ConfigError> {
        let mut servers = self.mcp_servers.values();
        let is_refusing = servers.any(|upstream| self.pin_mode(upstream) == PinMode::Refuse);
        if self.gateway.pins_file.is_some() || !is_refusing {
            return None;
        }
        let problem = "pins = \"refuse\" needs the file of pins; set HOME or XDG_STATE_HOME, since this setting is not set";
        Some(self.fault("gateway.pins_file", problem.to_owned()))
    }

    /// Returns a warning for each server with definitions that wait to be accepted, and for each
    /// override that does not fit the tools in the file of pins. Starts no server.
    #[must_use]
    pub fn pin_warnings(&self) -> Vec<String> {
        let Some(path) = self.gateway.pins_file.as_deref() else { return Vec::new() };
        let file = match PinFile::read(path) {
            Ok(file) => file,
            Err(error) => return vec![format!("gateway.pins_file: {error}")],
        };
        let mut warnings = Vec::new();
        for (server, upstream) in self.mcp_servers.iter().filter(|(_, it)| !it.disabled) {
            if self.pin_mode(upstream) != PinMode::Off {
                warnings.extend(waiting(&file, server));
            }
            let tools = tools_of(&file, server);
            let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
            for (name, config) in &upstream.tools {
                let place = format!("mcp_servers.{server}.tools.{name}");
                let Some(tool) = tools.iter().find(|tool| tool.name == *name) else {
                    if !tools.is_empty() {
                        warnings.push(unknown_tool(&place, &names, name));
                    }
                    continue;
                };
                let misfits = config.tool_override().map(|it| it.warnings(tool));
                let misfits = misfits.into_iter().flatten();
                warnings.extend(misfits.map(|misfit| format!("{place}: the tool {misfit}")));
            }
        }
        warnings
    }

    /// Returns the overrides of tools in the file of pins that cannot work, one sentence each.
    #[must_use]
    pub fn override_problems(&self) -> Vec<String> {
        let path = self.gateway.pins_file.as_deref();
        let Some(file) = path.and_then(|path| PinFile::read(path).ok()) else { return Vec::new() };
        let mut problems = Vec::new();
        for (server, upstream) in self.mcp_servers.iter().filter(|(_, it)| !it.disabled) {
            for tool in tools_of(&file, server) {
                let config = upstream.tools.get(&tool.name);
                let changes = config.and_then(ToolConfig::tool_override);
                if let Some(Err(problem)) = changes.map(|changes| changes.apply(&tool)) {
                    let name = &tool.name;
                    problems.push(format!("mcp_servers.{server}.tools.{name}: {problem}"));
                }
            }
        }
        problems
    }
}

/// Returns a warning about what waits for somebody to accept it.
fn waiting(file: &PinFile, server: &str) -> Option<String> {
    const MAX_SHOWN: usize = 5;
    let waiting: Vec<_> =
        file.items().filter(|it| it.server == server && it.waiting.is_some()).collect();
    let shown: Vec<String> = waiting
        .iter()
        .take(MAX_SHOWN)
        .map(|it| match it.kind {
            Kind::Instructions => it.kind.to_string(),
            kind => format!("{kind} {:?}", it.name),
        })
        .collect();
    let more = waiting.len().checked_sub(shown.len()).filter(|more| *more > 0);
    let more = more.map_or(String::new(), |more| format!(" and {more} more"));
    (!waiting.is_empty()).then(|| {
        format!(
            "server {server:?} has changed definitions: {}{more}; see `marquetry pins diff`",
            shown.join(", ")
        )
    })
}

/// Returns the tools of a server as it listed them last, as far as their texts are stored.
fn tools_of(file: &PinFile, server: &str) -> Vec<Tool> {
    let tools = file.items().filter(|it| it.server == server && it.kind == Kind::Tool);
    let texts = tools.filter_map(|it| it.waiting.or(it.accepted).and_then(StoredDefinition::text));
    texts.filter_map(|text| serde_json::from_str(text).ok()).collect()
}

fn unknown_tool(place: &str, names: &[&str], name: &str) -> String {
    let meant = nearest(name, names).map(|it| format!("; did you mean {it:?}?"));
    format!("{place}: the server does not have this tool{}", meant.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use marquetry_pins::{Definition, PinStore};
    use serde_json::json;

    use super::*;

    #[test]
    fn what_waits_and_what_does_not_fit_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pins.json");
        let store = PinStore::open(&path);
        fn tool(name: &str, description: &str) -> Definition {
            let schema = json!({"properties": {"path": {"type": "string"}}, "required": ["path"]});
            let tool = json!({"name": name, "description": description, "inputSchema": schema});
            Definition::tool(name, &tool).unwrap()
        }
        store.record("a", &[tool("read", "d"), tool("write", "d")]).unwrap();
        let text = format!(
            "gateway.pins_file = {path:?}\n[mcp_servers.a]\ncommand = 'x'\n[mcp_servers.a.tools.raed]\nhide = ['path']\n\
             [mcp_servers.a.tools.read]\nset = {{ path = 5, pat = 1 }}\n[mcp_servers.a.tools.write]\nhide = ['path']\n"
        );
        let config = Config::from_toml(&text, "m.toml").unwrap();
        let misfits = [
            "mcp_servers.a.tools.raed: the server does not have this tool; did you mean \"read\"?",
            "mcp_servers.a.tools.read: the tool expects string as argument \"path\"; change its value in \"set\"",
            "mcp_servers.a.tools.read: the tool has no argument \"pat\", which \"set\" names; did you mean \"path\"?",
        ];
        assert_eq!(config.pin_warnings(), misfits);
        let problem = "mcp_servers.a.tools.write: argument \"path\" is hidden, and the tool requires it; give it a value in \"set\"";
        assert_eq!(config.override_problems(), [problem]);
        store.record("a", &[tool("read", "e"), tool("write", "d"), tool("u", "d")]).unwrap();
        let waiting = "server \"a\" has changed definitions: tool \"read\", tool \"u\"; see `marquetry pins diff`";
        assert_eq!(config.pin_warnings()[0], waiting);
        std::fs::write(&path, "{").unwrap();
        let warnings = config.pin_warnings();
        assert!(warnings[0].contains("pins.json is damaged"), "{warnings:?}");
        assert!(config.override_problems().is_empty());
    }

    #[test]
    fn refusing_needs_a_file() {
        let text = "mcp_servers.a = { command = 'x', pins = 'refuse' }";
        let error = Config::from_toml(text, "m.toml").unwrap().check().unwrap_err();
        assert!(error.to_string().contains("pins = \"refuse\" needs the file of pins"), "{error}");
        let with_file = format!("gateway.pins_file = '/p'\n{text}");
        Config::from_toml(&with_file, "m.toml").unwrap().check().unwrap();
        let text = "gateway.pins = 'refuse'\nmcp_servers.a = { command = 'x', pins = 'off' }";
        let config = Config::from_toml(text, "m.toml").unwrap();
        config.check().unwrap();
        assert_eq!(config.gateway_options(&[]).upstreams[0].pins, PinMode::Off);
        assert_eq!(user_pins(&|_| None), None);
    }
}
