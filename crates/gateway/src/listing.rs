//! Lists of one upstream.

use marquetry_protocol::types::{Prompt, Resource, ResourceTemplate, Tool};

/// Lists of one upstream, under the upstream's own names.
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
    /// Its instructions for models.
    pub instructions: Option<String>,
    /// Lists that could not be fetched, each with the reason. They stay empty.
    pub left_out: Vec<(&'static str, String)>,
    /// It has the capability `resources`.
    pub has_resources: bool,
}
