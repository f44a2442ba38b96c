//! Lists of one upstream.

use marquetry_protocol::types::{Prompt, Resource, ResourceTemplate, Tool};

/// Lists of one upstream, under the upstream's own names.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Listing {
    /// Tools of the upstream.
    pub tools: Vec<Tool>,
    /// Prompts of the upstream.
    pub prompts: Vec<Prompt>,
    /// Resources of the upstream.
    pub resources: Vec<Resource>,
    /// Resource templates of the upstream.
    pub templates: Vec<ResourceTemplate>,
    /// Instructions of the upstream for models.
    pub instructions: Option<String>,
    /// Lists that could not be fetched, each with the reason. They stay empty.
    pub left_out: Vec<(&'static str, String)>,
    /// Whether the upstream has the capability `resources`.
    pub has_resources: bool,
}
