//! Settings of knowledge in a program that is built without it.

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error as _, MapAccess, Visitor},
};

use crate::{Config, ConfigError, NOT_BUILT};

impl Config {
    /// Returns the settings that need knowledge.
    pub(super) fn knowledge_faults(&self) -> Vec<ConfigError> {
        self.sampling_faults(NOT_BUILT).collect()
    }
}

/// `[knowledge]` of a program without it: accepts only `enabled = false`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct WithoutKnowledge {}

impl<'de> Deserialize<'de> for WithoutKnowledge {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Section;
        impl<'de> Visitor<'de> for Section {
            type Value = WithoutKnowledge;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a table")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                while let Some(key) = map.next_key::<String>()? {
                    if key != "enabled" || map.next_value::<bool>()? {
                        return Err(A::Error::custom(NOT_BUILT));
                    }
                }
                Ok(WithoutKnowledge {})
            }
        }
        deserializer.deserialize_map(Section)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_knowledge_say_that_it_is_not_built_in() {
        for text in [
            "[knowledge]\ndatabase = 'k.db'\n",
            "[knowledge]\nenabled = true\n",
            "[knowledge.chat]\nmodel = 'm'\n",
            "[knowledge.embedding]\nprovider = 'ollama'\n",
        ] {
            let error = Config::from_toml(text, "m.toml").unwrap_err().to_string();
            assert!(
                error
                    .ends_with("built without search; build it with the cargo feature `knowledge`"),
                "{error}"
            );
            assert!(error.starts_with("m.toml:") && error.contains(": knowledge"), "{error}");
        }
        Config::from_toml("[knowledge]\nenabled = false\n", "m.toml").unwrap();
    }
}
