//! `capture = false`, or a table with some keys of `[artifacts]` set otherwise.

use std::fmt;

use marquetry_artifacts::{Settings, SettingsPatch};
use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};

/// Capture settings of one upstream or one tool.
///
/// The keys of a table are those of `[artifacts]` but for `store` and `directory`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Capture {
    /// `true`: as the level above says. `false`: answers pass through untouched.
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
                SettingsPatch::deserialize(MapAccessDeserializer::new(map))
                    .map(|patch| Capture::Settings(Box::new(patch)))
            }
        }

        deserializer.deserialize_any(SwitchOrTable)
    }
}

impl Capture {
    /// The settings below those of the level above; none when answers pass through.
    pub(crate) fn below(&self, above: Option<Settings>) -> Option<Settings> {
        match self {
            Self::Switch(true) => above,
            Self::Switch(false) => None,
            Self::Settings(patch) => above.map(|above| above.patched(patch)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_stands_over_the_one_above() {
        let above = Some(Settings::default());
        let patch: SettingsPatch =
            serde_json::from_str(r#"{"mcp_tool_llm_return_max_bytes": 9}"#).unwrap();
        let patch = Capture::Settings(Box::new(patch));
        assert_eq!(Capture::default().below(above.clone()), above);
        assert_eq!(Capture::Switch(false).below(above.clone()), None);
        assert_eq!(patch.below(above).unwrap().mcp_tool_llm_return_max_bytes, 9);
        assert_eq!(patch.below(None), None);
    }
}
