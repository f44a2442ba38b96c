//! Changes of single tools, as the configuration writes them.

use std::{fmt, sync::Arc};

use indexmap::IndexMap;
use marquetry_client_files::{expand::Sources, transport::TransportError};
use marquetry_gateway::names::is_name_char;
use marquetry_redact::{is_secret_name, remember_secrets};
use marquetry_tool_overrides::ToolOverride;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Config, ConfigError, sections::ToolConfig};

/// Name of a tool: 1 to 64 letters, digits, `_`, `-`, `.`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
pub struct ToolName(String);

impl ToolName {
    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for ToolName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if (1..=64).contains(&text.len()) && text.chars().all(is_name_char) {
            return Ok(Self(text));
        }
        Err(format!(
            "{text:?} is not a valid name of a tool; expected 1 to 64 of letters, digits, _ - ."
        ))
    }
}

/// Arguments with fixed values, which may be secrets: `Debug` shows their names alone.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct FixedArguments(pub Map<String, Value>);

impl fmt::Debug for FixedArguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl ToolConfig {
    /// Replaces variables and references to secrets in the texts of `set`.
    pub(crate) fn expand(
        &mut self,
        tool: &str,
        sources: &Sources<'_>,
    ) -> Result<(), TransportError> {
        for (name, value) in &mut self.set.0 {
            if let Value::String(text) = value {
                let expanded = sources.expand(text).map_err(|error| TransportError::Expand {
                    path: ["tools", tool, "set", name].map(str::to_owned).to_vec(),
                    error,
                })?;
                *text = expanded.into_owned();
                // A server may repeat it in an error.
                if is_secret_name(name) {
                    remember_secrets(std::slice::from_ref(text));
                }
            }
        }
        Ok(())
    }

    /// Returns the changes of the tool; `None` if there are none.
    pub(crate) fn tool_override(&self) -> Option<ToolOverride> {
        let mut changes = ToolOverride::default();
        changes.name = self.name.as_ref().map(|name| name.as_str().to_owned());
        changes.title.clone_from(&self.title);
        changes.description.clone_from(&self.description);
        changes.hide.clone_from(&self.hide);
        changes.set.clone_from(&self.set.0);
        changes.default.clone_from(&self.default);
        (!changes.is_empty()).then_some(changes)
    }
}

/// Returns the changes of a server's tools.
pub(crate) fn overrides(
    tools: &IndexMap<String, ToolConfig>,
) -> IndexMap<String, Arc<ToolOverride>> {
    let changed = tools
        .iter()
        .filter_map(|(name, tool)| Some((name.clone(), Arc::new(tool.tool_override()?))));
    changed.collect()
}

impl Config {
    /// Returns an error for each override that contradicts itself.
    pub(crate) fn override_faults(&self) -> Vec<ConfigError> {
        let mut faults = Vec::new();
        for (server, upstream) in &self.mcp_servers {
            for (tool, config) in &upstream.tools {
                let both = config.default.keys().find(|name| config.set.0.contains_key(*name));
                if let Some(argument) = both {
                    let key = format!("mcp_servers.{server}.tools.{tool}.default");
                    let problem = format!(
                        "argument {argument:?} has a fixed value in \"set\", too; remove one of the two"
                    );
                    faults.push(self.fault(&key, problem));
                }
            }
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn overrides_are_read() {
        let text = "[mcp_servers.a]\ncommand = 'x'\ndisabled_tools = ['x']\n[mcp_servers.a.tools.t]\nname = 'u'\ndescription = 'd'\n\
                    hide = ['h']\nset = { key = '${K}', depth = 2 }\ndefault = { limit = 5 }\n[mcp_servers.a.tools.off]\ndisabled = true\n";
        let config = Config::from_toml_with(text, "m.toml", &|name| {
            (name == "K").then(|| "hush".to_owned())
        });
        let config = config.unwrap();
        assert!(!format!("{config:?}").contains("hush"));
        let options = &config.gateway_options(&[]).upstreams[0];
        assert_eq!(options.filter.disabled, ["x", "off"]);
        assert_eq!(options.overrides.len(), 1);
        let changes = &options.overrides["t"];
        assert_eq!(changes.name.as_deref(), Some("u"));
        assert_eq!(Value::Object(changes.set.clone()), json!({"key": "hush", "depth": 2}));
        assert_eq!(Value::Object(changes.default.clone()), json!({"limit": 5}));
        assert!(!format!("{options:?}").contains("hush"));
    }

    #[track_caller]
    fn check(tool: &str, want: &str) {
        let text = format!("[mcp_servers.a]\ncommand = 'x'\n[mcp_servers.a.tools.t]\n{tool}\n");
        let config = Config::from_toml_with(&text, "m.toml", &|_| None);
        let error = config.and_then(|config| config.check()).unwrap_err().to_string();
        assert_eq!(error, want);
    }

    #[test]
    fn wrong_overrides_are_named() {
        check(
            "name = 'a b'",
            "m.toml:4:8: mcp_servers.a.tools.t.name: \"a b\" is not a valid name of a tool; expected 1 to 64 of letters, digits, _ - .",
        );
        check(
            "set = { a = 1 }\ndefault = { a = 2 }",
            "m.toml:5:11: mcp_servers.a.tools.t.default: argument \"a\" has a fixed value in \"set\", too; remove one of the two",
        );
        check(
            "descripton = 'x'",
            "m.toml:4:1: mcp_servers.a.tools.t.descripton: unknown key; did you mean \"description\"?",
        );
    }
}
