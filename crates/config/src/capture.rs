//! `capture = false`, or a table that overrides keys of `[artifacts]`.

use std::fmt;

use marquetry_artifacts::{Settings, settings::SettingsPatch};
use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};

/// Capture settings of one upstream or one tool.
///
/// A table has the keys of `[artifacts]` except `store` and `directory`. A table turns capture on,
/// even if the level above has `false`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Capture {
    /// `true`: the settings of the level above. `false`: answers pass through unchanged.
    Switch(bool),
    /// Some settings differ from the level above.
    Settings(#[schemars(with = "serde_json::Map<String, serde_json::Value>")] Box<SettingsPatch>),
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
    pub(crate) fn resolve(&self, above: &CaptureLevel) -> CaptureLevel {
        match self {
            Self::Switch(true) => above.clone(),
            Self::Switch(false) => CaptureLevel { is_on: false, ..above.clone() },
            Self::Settings(patch) => {
                CaptureLevel { is_on: true, settings: above.settings.clone().patched(patch) }
            }
        }
    }
}

/// Effective capture settings of the server, an upstream or a tool.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CaptureLevel {
    is_on: bool,
    settings: Settings,
}

impl CaptureLevel {
    /// Returns the level of the server.
    pub(crate) fn server(settings: Settings) -> Self {
        Self { is_on: true, settings }
    }

    /// Returns the settings; [`None`] if answers are not captured.
    pub(crate) fn settings(&self) -> Option<Settings> {
        self.is_on.then(|| self.settings.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_overrides_the_one_above() {
        let above = CaptureLevel::server(Settings::default());
        let patch: SettingsPatch =
            serde_json::from_str(r#"{"mcp_tool_llm_return_max_bytes": 9}"#).unwrap();
        let patch = Capture::Settings(Box::new(patch));
        assert_eq!(Capture::default().resolve(&above), above);
        let off = Capture::Switch(false).resolve(&above);
        assert_eq!(off.settings(), None);
        assert_eq!(Capture::default().resolve(&off).settings(), None);
        for above in [above, off] {
            let settings = patch.resolve(&above).settings().unwrap();
            assert_eq!(settings.mcp_tool_llm_return_max_bytes, 9);
        }
    }
}
