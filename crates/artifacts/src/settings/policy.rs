//! Policies: which settings apply to the answers of which tools.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};

use super::{Settings, SettingsPatch};
use crate::glob::Glob;

/// Capture settings of the tools whose server and name match.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CapturePolicy {
    /// Names of servers, as in `[mcp_servers.NAME]`. `*` is any text, `?` one character.
    #[serde(default)]
    pub server: Glob,
    /// Names of tools at the server, without the server's prefix. `*` is any text, `?` one
    /// character.
    #[serde(default)]
    pub tool: Glob,
    /// false passes answers through unchanged; a table overrides keys of `[artifacts]`.
    pub capture: Capture,
}

impl CapturePolicy {
    /// Returns whether the policy is about this tool of this server.
    pub fn matches(&self, server: &str, tool: &str) -> bool {
        self.server.matches(server) && self.tool.matches(tool)
    }
}

/// Capture settings of a policy, an upstream or a tool.
///
/// A table has the keys of `[artifacts]` except those of the store. A table turns capture on, even
/// if the level above has `false`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Capture {
    /// `true`: the settings of the level above. `false`: answers pass through unchanged.
    Switch(bool),
    /// Some settings differ from the level above.
    Settings(
        #[cfg_attr(
            feature = "schema",
            schemars(with = "serde_json::Map<String, serde_json::Value>")
        )]
        Box<SettingsPatch>,
    ),
}

impl Default for Capture {
    fn default() -> Self {
        Self::Switch(true)
    }
}

impl<'de> Deserialize<'de> for Capture {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SwitchOrTable;

        // An untagged enum would hide an unknown key behind "did not match any variant".
        impl<'de> Visitor<'de> for SwitchOrTable {
            type Value = Capture;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false or a table of capture settings")
            }

            fn visit_bool<E>(self, on: bool) -> Result<Capture, E> {
                Ok(Capture::Switch(on))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Capture, A::Error> {
                SettingsPatch::deserialize(MapAccessDeserializer::new(map))
                    .map(|patch| Capture::Settings(Box::new(patch)))
            }
        }

        deserializer.deserialize_any(SwitchOrTable)
    }
}

impl Capture {
    /// Applies these settings to those of the level above. A table turns capture on.
    #[must_use]
    pub fn resolve(&self, above: &CaptureLevel) -> CaptureLevel {
        match self {
            Self::Switch(true) => above.clone(),
            Self::Switch(false) => CaptureLevel { is_on: false, ..above.clone() },
            Self::Settings(patch) => {
                CaptureLevel { is_on: true, settings: above.settings.patched(patch) }
            }
        }
    }
}

/// Effective capture settings of the server, an upstream or a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct CaptureLevel {
    is_on: bool,
    settings: Settings,
}

impl CaptureLevel {
    /// Returns the level above all others.
    pub fn server(settings: Settings) -> Self {
        Self { is_on: true, settings }
    }

    /// Returns the settings; [`None`] if answers are not captured.
    pub fn settings(&self) -> Option<Settings> {
        self.is_on.then(|| self.settings.clone())
    }
}
