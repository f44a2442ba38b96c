//! When a client gets the two tools in place of a list.

use marquetry_artifacts::glob::Glob;

/// When the two tools take the place of the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// Never. Their names are free for other tools.
    #[default]
    Off,
    /// For a client that would get a list of many tokens, and does not load tools on demand itself.
    Auto,
    /// Always.
    On,
}

/// The options of a search over tools.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SearchOptions {
    /// When the two tools take the place of the list.
    pub mode: Mode,
    /// Patterns of the names of tools that stay listed.
    pub always: Vec<Glob>,
    /// Tokens of a list beyond which [`Mode::Auto`] replaces it.
    pub threshold_tokens: u64,
}

/// A client, as far as it matters for its list of tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Client {
    /// Whether it shows its model only the tools that the model looks for.
    pub defers_tools: bool,
    /// Number of tools beyond which it leaves some out.
    pub max_tools: Option<u64>,
}

impl Default for SearchOptions {
    fn default() -> Self {
        Self { mode: Mode::Off, always: Vec::new(), threshold_tokens: 10_000 }
    }
}

impl SearchOptions {
    /// Returns whether a tool stays listed.
    pub(crate) fn keeps(&self, name: &str) -> bool {
        self.always.iter().any(|pattern| pattern.matches(name))
    }
}

impl Client {
    /// Returns whether the client loads these many tools on demand itself. One that leaves tools
    /// out cannot load those.
    pub(crate) fn loads_on_demand(self, tools: usize) -> bool {
        self.defers_tools && self.max_tools.is_none_or(|max| tools as u64 <= max)
    }
}
