//! Policies: which settings apply to the answers of which tools.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};

use crate::settings::{Settings, SettingsPatch};

/// A pattern for a name: `*` is any text, `?` is one character, all others are themselves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Glob(String);

impl Glob {
    /// Creates a pattern. Every text is one.
    pub fn new(pattern: impl Into<String>) -> Self {
        Self(pattern.into())
    }

    /// Returns the pattern as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether the pattern matches the whole name.
    pub fn matches(&self, name: &str) -> bool {
        matches(&self.0, name, |one, char| one == '?' || one == char)
    }

    /// Returns whether the pattern matches every name that the other one matches.
    pub fn covers(&self, other: &Self) -> bool {
        // The other pattern's `*` stands for any text, so only our `*` takes it.
        matches(&self.0, &other.0, |one, char| char != '*' && (one == '?' || one == char))
    }
}

impl Default for Glob {
    /// Returns the pattern that matches every name.
    fn default() -> Self {
        Self::new("*")
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Matches a pattern in linear memory and at most quadratic time. `is_one` compares a character of
/// the pattern, other than `*`, with one of the text.
fn matches(pattern: &str, text: &str, is_one: fn(char, char) -> bool) -> bool {
    let mut rest = pattern.chars();
    let mut left = text.chars();
    // Where to go on if the last `*` has to take one more character.
    let mut retry = None;
    loop {
        let mut after = rest.clone();
        match after.next() {
            Some('*') => {
                rest = after;
                retry = Some((rest.clone(), left.clone()));
                continue;
            }
            Some(one) => {
                let mut further = left.clone();
                if further.next().is_some_and(|char| is_one(one, char)) {
                    rest = after;
                    left = further;
                    continue;
                }
            }
            None if left.as_str().is_empty() => return true,
            None => {}
        }
        let Some((pattern, mut skipped)) = retry else { return false };
        if skipped.next().is_none() {
            return false;
        }
        rest = pattern.clone();
        left = skipped.clone();
        retry = Some((pattern, skipped));
    }
}

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
