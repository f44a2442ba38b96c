//! The section `[tools]`: the server's own tools.

use marquetry_artifacts::glob::Glob;
use marquetry_search_tools::{Mode, SearchOptions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// This server's own tools, in groups. Tools cost tokens in every conversation, a few thousand for
/// all groups. A tool of a disabled group is not listed and cannot be called.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ToolsConfig {
    /// Diagrams: `encodePlantUML`, `decodePlantUML`, and with an engine `renderPlantUML` and
    /// `checkPlantUML`.
    pub diagrams: bool,
    /// Artifacts: `list_artifacts`, `read_artifact` and `delete_artifact`. Without them, artifacts
    /// can only be read as resources.
    pub artifacts: bool,
    /// Records and search: the tools `am7_*`. `enabled` in `[knowledge]` also switches their
    /// resources off.
    pub knowledge: bool,
    /// Chat: `am7_chat`, if `[knowledge.chat]` names a model and `knowledge` is on.
    pub chat: bool,
    /// Vectors of texts: `am7_embed`, if `knowledge` is on. For programs with an index of their
    /// own; a model has no use for vectors.
    pub embedding: bool,
    /// Two tools in place of a long list: `search_tools` finds tools by what they do, `call_tool`
    /// calls them. All tools can still be called by their names.
    pub search: ToolSearchConfig,
}

/// Two tools in place of a long list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ToolSearchConfig {
    /// "off": every client gets the whole list. "on": every client gets the two tools. "auto": a
    /// client gets the two tools if its list costs more than `threshold_tokens`, unless the client
    /// loads tools on demand itself (`defers_tools` in `[clients]`) and takes all of them.
    pub mode: ToolSearchMode,
    /// Names of tools that stay listed; `*` is any text, `?` is one character.
    #[schemars(example = &["read_artifact", "github__*_issue"])]
    pub always: Vec<Glob>,
    /// Estimated tokens of names, descriptions and input schemas of a list, beyond which "auto"
    /// replaces it.
    pub threshold_tokens: u64,
}

/// When clients get two tools in place of a long list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolSearchMode {
    /// Never.
    #[default]
    Off,
    /// If the list is long, and the client does not load tools on demand.
    Auto,
    /// Always.
    On,
}

impl Default for ToolsConfig {
    fn default() -> Self {
        Self {
            diagrams: true,
            artifacts: true,
            knowledge: true,
            chat: true,
            embedding: false,
            search: ToolSearchConfig::default(),
        }
    }
}

impl Default for ToolSearchConfig {
    fn default() -> Self {
        let SearchOptions { threshold_tokens, .. } = SearchOptions::default();
        Self { mode: ToolSearchMode::Off, always: Vec::new(), threshold_tokens }
    }
}

impl ToolSearchConfig {
    /// Returns the options of the search.
    #[must_use]
    pub fn options(&self) -> SearchOptions {
        let mut options = SearchOptions::default();
        options.mode = match self.mode {
            ToolSearchMode::Off => Mode::Off,
            ToolSearchMode::Auto => Mode::Auto,
            ToolSearchMode::On => Mode::On,
        };
        options.always.clone_from(&self.always);
        options.threshold_tokens = self.threshold_tokens;
        options
    }
}

#[cfg(test)]
mod tests {
    use crate::{Config, sections::ToolSearchMode};

    #[test]
    fn the_search_is_off_unless_it_is_switched_on() {
        let config = Config::from_toml("", "m.toml").unwrap();
        assert_eq!(config.tools.search.options(), marquetry_search_tools::SearchOptions::default());
        let toml = "tools.search = { mode = 'auto', always = ['a*'], threshold_tokens = 5 }";
        let search = Config::from_toml(toml, "m.toml").unwrap().tools.search;
        assert_eq!(search.mode, ToolSearchMode::Auto);
        let options = search.options();
        assert_eq!((options.threshold_tokens, options.always[0].as_str()), (5, "a*"));
        let error = Config::from_toml("tools.search.mode = 'sometimes'", "m.toml").unwrap_err();
        assert!(error.to_string().contains("tools.search.mode"), "{error}");
    }
}
