//! What one upstream lists.

use marquetry_protocol::types::{Prompt, Resource, ResourceTemplate, Tool};

/// The lists of one upstream, as it gave them.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Listing {
    /// Its tools.
    pub tools: Vec<Tool>,
    /// Its prompts.
    pub prompts: Vec<Prompt>,
    /// Its resources.
    pub resources: Vec<Resource>,
    /// Its resource templates.
    pub templates: Vec<ResourceTemplate>,
    /// How to use it, in its own words.
    pub instructions: Option<String>,
    /// Lists that could not be fetched and stay empty: which, and why.
    pub left_out: Vec<(&'static str, String)>,
    /// Whether it answers `resources/read` at all.
    pub has_resources: bool,
}
