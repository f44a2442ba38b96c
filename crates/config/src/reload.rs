//! Differences between two configurations of one server.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::Config;

/// Servers that a person has switched on or off while the program runs, whatever their entries say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerSwitches(BTreeMap<String, bool>);

impl ServerSwitches {
    /// Switches a server on or off.
    #[must_use]
    pub fn with(mut self, name: &str, is_on: bool) -> Self {
        self.0.insert(name.to_owned(), is_on);
        self
    }

    /// Returns whether a server is switched on or off; `None` if its entry says that.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<bool> {
        self.0.get(name).copied()
    }
}

/// Settings that take effect while the server runs, or the beginnings of their names. Those of
/// single upstreams, `mcp_servers`, are not among the settings that are compared.
const IN_PLACE: [&str; 21] = [
    "artifacts.policies",
    "ask.servers",
    "ask.timeout_ms",
    "ask.when",
    "auth.groups_claim",
    "auth.required_scopes",
    "auth.tokens",
    "gateway.ca_file",
    "gateway.call_timeout_ms",
    "gateway.max_call_ms",
    "gateway.no_proxy",
    "gateway.pins",
    "gateway.proxy",
    "gateway.separator",
    "gateway.start_timeout_ms",
    "log.level",
    "policy",
    "profiles",
    // The task that watches the files reads it.
    "server.reload_on_change",
    "tools.search.always",
    "tools.search.threshold_tokens",
];

impl Config {
    /// Returns the settings that differ in `new` and take effect only at the next start, by their
    /// names.
    #[must_use]
    pub fn settings_for_next_start(&self, new: &Self) -> Vec<String> {
        let old = self.flattened();
        let new_settings = new.flattened();
        let names: BTreeSet<&String> = old.keys().chain(new_settings.keys()).collect();
        let differing = names.into_iter().filter(|name| old.get(*name) != new_settings.get(*name));
        // Whether tokens are needed at all decides which routes and guards there are.
        let is_auth_switched = self.auth.is_set() != new.auth.is_set();
        differing
            .filter(|name| {
                let is_in_place = IN_PLACE.iter().any(|prefix| {
                    name.strip_prefix(prefix)
                        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
                });
                !is_in_place || (is_auth_switched && name.starts_with("auth."))
            })
            .cloned()
            .collect()
    }

    /// Returns all settings but those of upstreams, by their dotted names.
    fn flattened(&self) -> BTreeMap<String, Value> {
        let mut settings = BTreeMap::new();
        // Settings have no keys that are not texts.
        flatten("", serde_json::to_value(self).unwrap_or_default(), &mut settings);
        settings
    }
}

fn flatten(path: &str, value: Value, settings: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let path = if path.is_empty() { name } else { format!("{path}.{name}") };
                flatten(&path, member, settings);
            }
        }
        // Absent and not set are the same.
        Value::Null => {}
        value => _ = settings.insert(path.to_owned(), value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Transport;

    #[track_caller]
    fn check(old: &str, new: &str, want: &[&str]) {
        let old = Config::from_toml(old, "old.toml").unwrap();
        let new = Config::from_toml(new, "new.toml").unwrap();
        assert_eq!(old.settings_for_next_start(&new), want);
    }

    #[test]
    fn settings_for_the_next_start_are_named() {
        check("", "", &[]);
        check("log.level = 'info'", "log.level = 'debug'", &[]);
        check(
            "server.listen = 1\nlimits.max_sessions = 5",
            "server.listen = 2\nlog.format = 'json'",
            &["limits.max_sessions", "log.format", "server.listen"],
        );
        check("", "artifacts.policies = [{ server = 'a', capture = false }]", &[]);
        check("", "policy.rules = [{ principals = ['a'] }]\nprofiles.p = {}", &[]);
        let tokens = "auth.tokens = { a = { env = 'A' } }";
        check(tokens, "auth.tokens = { b = { env = 'B' } }", &[]);
        let switched_on = ["auth.tokens.a.env", "auth.tokens.a.groups", "auth.tokens.a.scopes"];
        check("", tokens, &switched_on);
        check("mcp_servers.a.command = 'x'", "mcp_servers.b.command = 'y'", &[]);
        let search = "tools.search = { mode = 'auto', always = ['a'], threshold_tokens = 5 }";
        check(search, "tools.search.mode = 'auto'", &[]);
        check("", search, &["tools.search.mode"]);
        let tls = "server.tls = { certificate = 'c', key = 'k' }";
        check("", tls, &["server.tls.certificate", "server.tls.key"]);
    }

    #[test]
    fn switched_servers_are_read_as_if_their_entries_said_so() {
        let folder = tempfile::tempdir().unwrap();
        let toml = folder.path().join("m.toml");
        std::fs::write(
            &toml,
            "[mcp_servers.a]\ncommand = 'x${NONE:-y}'\ndisabled = true\n[mcp_servers.b]\ncommand = 'x'\n",
        )
        .unwrap();
        let json = folder.path().join("mcp.json");
        std::fs::write(
            &json,
            r#"{"mcpServers": {"c": {"command": "x${NONE:-y}", "disabled": true}, "d": {"command": "x"}}}"#,
        )
        .unwrap();
        let names = ["a", "b", "c", "d"];
        let read = |switches: &ServerSwitches| {
            let mut config = crate::load_with(Some(&toml), switches).unwrap().config;
            config.add_mcp_json_file(&json).unwrap();
            config
        };
        let config = read(&ServerSwitches::default());
        assert_eq!(names.map(|name| config.mcp_servers[name].disabled), [true, false, true, false]);
        let switches = ServerSwitches::default().with("a", true).with("b", false).with("c", true);
        let config = read(&switches.with("d", false));
        assert_eq!(names.map(|name| config.mcp_servers[name].disabled), [false, true, false, true]);
        for name in ["a", "c"] {
            let Transport::Stdio { command, .. } = &config.mcp_servers[name].transport else {
                panic!("{name}")
            };
            assert_eq!(command, "xy", "{name}");
        }
    }
}
