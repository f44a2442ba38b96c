//! `capture = false`, or a table with some keys of `[artifacts]` set otherwise.

use std::fmt;

use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};

use super::artifacts::Oversize;

/// Capture settings of one upstream or one tool.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Capture {
    /// `true`: as the level above says. `false`: answers pass through untouched.
    Switch(bool),
    /// Some settings differ from the level above.
    Settings(CaptureSettings),
}

impl Default for Capture {
    fn default() -> Self {
        Self::Switch(true)
    }
}

/// The keys of `[artifacts]` that an upstream or a tool may set for itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct CaptureSettings {
    /// See `artifacts.mcp_tool_response_save_threshold_bytes`.
    pub mcp_tool_response_save_threshold_bytes: Option<usize>,
    /// See `artifacts.mcp_tool_llm_return_max_bytes`.
    pub mcp_tool_llm_return_max_bytes: Option<usize>,
    /// See `artifacts.oversize`.
    pub oversize: Option<Oversize>,
}

impl<'de> Deserialize<'de> for Capture {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SwitchOrTable;

        // An untagged enum would hide the unknown key behind "did not match any variant".
        impl<'de> Visitor<'de> for SwitchOrTable {
            type Value = Capture;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false or a table of capture settings")
            }

            fn visit_bool<E>(self, on: bool) -> Result<Capture, E> {
                Ok(Capture::Switch(on))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Capture, A::Error> {
                CaptureSettings::deserialize(MapAccessDeserializer::new(map)).map(Capture::Settings)
            }
        }

        deserializer.deserialize_any(SwitchOrTable)
    }
}
